-- Who may ask (principals and their keys), and whether cached answers may be given (the cache epoch).

CREATE TABLE lastunit.principal (
	id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT principal_pkey PRIMARY KEY,
	name       text COLLATE "C" NOT NULL CONSTRAINT principal_name_is_unique UNIQUE
	           CONSTRAINT principal_name_has_1_to_100_bytes CHECK (octet_length(name) BETWEEN 1 AND 100),
	channel    smallint NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Only the hash of a secret is kept: who reads this table cannot sell.
CREATE TABLE lastunit.api_key (
	sha256       bytea CONSTRAINT api_key_pkey PRIMARY KEY
	             CONSTRAINT api_key_is_a_sha256 CHECK (octet_length(sha256) = 32),
	principal_id bigint NOT NULL CONSTRAINT api_key_belongs_to_a_principal REFERENCES lastunit.principal,
	prefix       text COLLATE "C" NOT NULL,
	scopes       integer NOT NULL,
	created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	revoked_at   timestamptz
);

-- One row whose number moves with every change of the two tables above: running instances compare it and load their
-- keys again. It follows the clock so that a restored database does not come back to a number already seen.
CREATE TABLE lastunit.keys_version (
	only_row boolean CONSTRAINT keys_version_pkey PRIMARY KEY DEFAULT true
	         CONSTRAINT keys_version_has_one_row CHECK (only_row),
	version  bigint NOT NULL
);
INSERT INTO lastunit.keys_version (version) VALUES (1);

CREATE FUNCTION lastunit.keys_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	UPDATE lastunit.keys_version
	   SET version = greatest(version + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
	RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION lastunit.keys_changed() FROM PUBLIC;
CREATE TRIGGER principal_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lastunit.principal
	FOR EACH STATEMENT EXECUTE FUNCTION lastunit.keys_changed();
CREATE TRIGGER api_key_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lastunit.api_key
	FOR EACH STATEMENT EXECUTE FUNCTION lastunit.keys_changed();
ALTER TABLE lastunit.principal ENABLE ALWAYS TRIGGER principal_changed;
ALTER TABLE lastunit.api_key ENABLE ALWAYS TRIGGER api_key_changed;

-- state: 1 open, 2 closing, 3 closed. `xid` repeats the row's own xmin at each change: a row that came back from a dump
-- carries an xid that is not its xmin, so a restored database is never taken for open.
CREATE TABLE lastunit.cache_epoch (
	only_row       boolean CONSTRAINT cache_epoch_pkey PRIMARY KEY DEFAULT true
	               CONSTRAINT cache_epoch_has_one_row CHECK (only_row),
	state          smallint NOT NULL CONSTRAINT cache_epoch_state_is_known CHECK (state BETWEEN 1 AND 3),
	namespace      text NOT NULL,
	redis_identity text NOT NULL,
	pg_identity    text NOT NULL,
	xid            xid8 NOT NULL
) WITH (fillfactor = 10);
INSERT INTO lastunit.cache_epoch (state, namespace, redis_identity, pg_identity, xid)
	VALUES (3, '', '', '', pg_current_xact_id());

-- SKUs changed straight in SQL by others, waiting for their cells to be invalidated.
CREATE TABLE lastunit.invalidation (
	id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT invalidation_pkey PRIMARY KEY,
	sku_id  bigint NOT NULL,
	code    text COLLATE "C" NOT NULL,
	version bigint NOT NULL
);

GRANT SELECT ON lastunit.principal, lastunit.api_key, lastunit.keys_version TO lastunit_service;
GRANT SELECT, UPDATE ON lastunit.cache_epoch TO lastunit_service;
-- The read lease asks these for the identity of the cluster. PUBLIC may call them unless somebody took that away.
DO $$
DECLARE
	asked regprocedure;
BEGIN
	FOREACH asked IN ARRAY ARRAY['pg_control_system()', 'pg_walfile_name(pg_lsn)', 'pg_current_wal_lsn()',
	                             'pg_postmaster_start_time()']::regprocedure[] LOOP
		IF NOT has_function_privilege('lastunit_service', asked, 'EXECUTE') THEN
			EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lastunit_service', asked);
		END IF;
	END LOOP;
END
$$;
