-- One secret for all instances: what they hand out to be brought back (an offer to hold) is signed with it.
CREATE TABLE lastunit.secret (
	only_row boolean CONSTRAINT secret_pkey PRIMARY KEY DEFAULT true CONSTRAINT secret_has_one_row CHECK (only_row),
	value    bytea NOT NULL CONSTRAINT secret_has_32_bytes CHECK (octet_length(value) = 32)
);
-- Two version 4 uuids are 244 random bits from the server's strong source.
INSERT INTO lastunit.secret (value)
	VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));
GRANT SELECT ON lastunit.secret TO lastunit_service;
