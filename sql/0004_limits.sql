-- L, the length of a read lease, belongs to the epoch: whoever closes it must wait as long as the longest lease that
-- anybody may hold, so it cannot be each instance's own opinion. Its opener sets it; nobody takes a longer lease.
ALTER TABLE lastunit.cache_epoch ADD COLUMN lease_ms bigint NOT NULL DEFAULT 1000
	CONSTRAINT cache_epoch_lease_is_positive CHECK (lease_ms BETWEEN 1 AND 3600000);

-- Versions are exact in a double, like counts.
ALTER TABLE lastunit.sku ADD CONSTRAINT sku_version_stays_in_range CHECK (version <= 1000000000000000);

-- The service knows the whole rule for a SKU code (NFC, no invisible marks); what others insert in SQL is held to the
-- part of it that SQL can tell: no control characters, no blank at either end.
ALTER TABLE lastunit.sku ADD CONSTRAINT sku_code_has_no_blank_ends_or_control_characters
	CHECK (code !~ '[[:cntrl:]]' AND code !~ '^[[:space:]]' AND code !~ '[[:space:]]$');
