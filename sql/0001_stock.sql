-- The stock: SKUs, holds, sales, the ledger, the keys of idempotency. What each table is for: sql/README.md.
-- Runs in one transaction, as the owner of the database, without a role set.

CREATE SCHEMA lastunit;

CREATE TABLE lastunit.migration (
	version bigint PRIMARY KEY,
	name    text NOT NULL,
	at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Roles belong to the whole cluster: two databases may be migrated at the same moment, so losing the race is fine.
DO $$
BEGIN
	IF to_regrole('lastunit_service') IS NULL THEN
		BEGIN
			CREATE ROLE lastunit_service NOLOGIN;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL;
		END;
	END IF;
	-- Whoever migrates may serve. A superuser can SET ROLE anyway, and so can a member.
	IF NOT pg_has_role(current_user, 'lastunit_service', 'MEMBER') THEN
		BEGIN
			EXECUTE format('GRANT lastunit_service TO %I', current_user);
		EXCEPTION WHEN unique_violation THEN
			NULL;
		END;
	END IF;
END
$$;
GRANT USAGE ON SCHEMA lastunit TO lastunit_service;
GRANT SELECT ON lastunit.migration TO lastunit_service;

-- Narrow and hot. No index may ever cover a column that changes, and half of each page stays free: then every update
-- is a HOT update and the dead versions are pruned by the next visitor, without vacuum.
CREATE TABLE lastunit.sku (
	id           bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT sku_pkey PRIMARY KEY,
	code         text COLLATE "C" NOT NULL CONSTRAINT sku_code_is_unique UNIQUE
	             CONSTRAINT sku_code_has_1_to_128_bytes CHECK (octet_length(code) BETWEEN 1 AND 128),
	on_hand      bigint NOT NULL DEFAULT 0
	             CONSTRAINT sku_on_hand_stays_in_range CHECK (on_hand BETWEEN 0 AND 1000000000000000),
	reserved     bigint NOT NULL DEFAULT 0
	             CONSTRAINT sku_reserved_stays_in_range CHECK (reserved BETWEEN 0 AND 1000000000000000),
	safety_stock bigint NOT NULL DEFAULT 0
	             CONSTRAINT sku_safety_stock_stays_in_range CHECK (safety_stock BETWEEN 0 AND 1000000000000000),
	version      bigint NOT NULL DEFAULT 1
	             CONSTRAINT sku_version_counts_from_1 CHECK (version >= 1),
	writer       uuid,
	tracked      boolean NOT NULL DEFAULT true,
	CONSTRAINT sku_never_oversold CHECK (reserved <= on_hand)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.1);
COMMENT ON COLUMN lastunit.sku.writer IS 'whose write it was: the service sets a new uuid each time, others leave it';

CREATE TABLE lastunit.sku_text (
	sku_id bigint CONSTRAINT sku_text_pkey PRIMARY KEY
	       CONSTRAINT sku_text_describes_a_sku REFERENCES lastunit.sku ON DELETE CASCADE,
	titles jsonb CONSTRAINT sku_text_titles_are_an_object CHECK (jsonb_typeof(titles) = 'object'),
	names  text[]
);

CREATE TABLE lastunit.reservation (
	id           uuid CONSTRAINT reservation_pkey PRIMARY KEY,
	created_at   timestamptz NOT NULL,
	expires_at   timestamptz NOT NULL,
	ended_at     timestamptz,
	principal_id bigint NOT NULL,
	checkout_id  uuid,
	channel      smallint NOT NULL,
	state        smallint NOT NULL CONSTRAINT reservation_state_is_known CHECK (state BETWEEN 1 AND 4),
	reference    text,
	sku_ids      bigint[] NOT NULL,
	quantities   bigint[] NOT NULL,
	counted      boolean[] NOT NULL,
	versions     bigint[] NOT NULL,
	CONSTRAINT reservation_has_whole_lines CHECK (
		cardinality(sku_ids) >= 1 AND cardinality(quantities) = cardinality(sku_ids)
		AND cardinality(counted) = cardinality(sku_ids) AND cardinality(versions) = cardinality(sku_ids)),
	CONSTRAINT reservation_has_an_end_unless_active CHECK ((state = 1) = (ended_at IS NULL)),
	CONSTRAINT reservation_has_a_checkout_if_committed CHECK ((state = 2) = (checkout_id IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- The reaper's: only what lives is in it.
CREATE INDEX reservation_live_by_expiry ON lastunit.reservation (expires_at) WHERE state = 1;
CREATE INDEX reservation_by_reference ON lastunit.reservation (reference, id) WHERE reference IS NOT NULL;

-- One row per line of a live reservation, gone when it ends: "what holds this SKU, and until when".
CREATE TABLE lastunit.hold (
	sku_id         bigint NOT NULL,
	expires_at     timestamptz NOT NULL,
	reservation_id uuid NOT NULL,
	quantity       bigint NOT NULL CONSTRAINT hold_holds_something CHECK (quantity > 0),
	counted        boolean NOT NULL,
	CONSTRAINT hold_pkey PRIMARY KEY (reservation_id, sku_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX hold_by_sku_and_expiry ON lastunit.hold (sku_id, expires_at);

CREATE TABLE lastunit.checkout (
	id             uuid CONSTRAINT checkout_pkey PRIMARY KEY,
	created_at     timestamptz NOT NULL,
	principal_id   bigint NOT NULL,
	reservation_id uuid,
	channel        smallint NOT NULL,
	reference      text,
	sku_ids        bigint[] NOT NULL,
	quantities     bigint[] NOT NULL,
	counted        boolean[] NOT NULL,
	versions       bigint[] NOT NULL,
	cancelled      bigint[] NOT NULL,
	CONSTRAINT checkout_has_whole_lines CHECK (
		cardinality(sku_ids) >= 1 AND cardinality(quantities) = cardinality(sku_ids)
		AND cardinality(counted) = cardinality(sku_ids) AND cardinality(versions) = cardinality(sku_ids)
		AND cardinality(cancelled) = cardinality(sku_ids))
);
CREATE INDEX checkout_by_reference ON lastunit.checkout (reference, id) WHERE reference IS NOT NULL;
-- A hold is sold at most once, whatever the code above believes.
CREATE UNIQUE INDEX checkout_sells_a_reservation_once ON lastunit.checkout (reservation_id)
	WHERE reservation_id IS NOT NULL;

-- Append-only. The primary key is the promise that versions are dense per SKU: two entries cannot share one.
CREATE TABLE lastunit.ledger (
	sku_id         bigint NOT NULL,
	version        bigint NOT NULL CONSTRAINT ledger_version_counts_from_1 CHECK (version >= 1),
	on_hand_delta  bigint NOT NULL,
	reserved_delta bigint NOT NULL,
	on_hand_after  bigint NOT NULL,
	reserved_after bigint NOT NULL,
	at             timestamptz NOT NULL DEFAULT clock_timestamp(),
	xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
	principal_id   bigint,
	operation_id   uuid,
	kind           smallint NOT NULL,
	channel        smallint NOT NULL,
	reference      text,
	CONSTRAINT ledger_pkey PRIMARY KEY (sku_id, version),
	CONSTRAINT ledger_counts_are_never_negative CHECK (on_hand_after >= 0 AND reserved_after >= 0),
	CONSTRAINT ledger_never_oversold CHECK (reserved_after <= on_hand_after)
);
-- The change feed reads "entries of transactions from xid on". See the README for why it is not BRIN.
CREATE INDEX ledger_by_xid ON lastunit.ledger (xid);

CREATE FUNCTION lastunit.ledger_refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'the ledger is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON lastunit.ledger
	FOR EACH STATEMENT EXECUTE FUNCTION lastunit.ledger_refuse();
ALTER TABLE lastunit.ledger ENABLE ALWAYS TRIGGER ledger_is_append_only;

-- `detail` is json, not jsonb: it is only ever handed back as it came, and checking is cheaper than building.
CREATE TABLE lastunit.idempotency (
	principal_id bigint NOT NULL,
	at           timestamptz NOT NULL,
	expires_at   timestamptz,
	object_id    uuid,
	kind         smallint NOT NULL,
	key          text COLLATE "C" NOT NULL
	             CONSTRAINT idempotency_key_has_1_to_255_bytes CHECK (octet_length(key) BETWEEN 1 AND 255),
	fingerprint  bytea NOT NULL CONSTRAINT idempotency_fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
	status       text COLLATE "C" NOT NULL,
	detail       json,
	CONSTRAINT idempotency_key_is_used_once UNIQUE (principal_id, key)
);
-- What may be pruned one day, and nothing else.
CREATE INDEX idempotency_prunable ON lastunit.idempotency (at) WHERE status <> 'ok' AND detail IS NOT NULL;

GRANT SELECT, INSERT, UPDATE (on_hand, reserved, safety_stock, tracked, version, writer) ON lastunit.sku
	TO lastunit_service;
GRANT SELECT, INSERT, UPDATE (titles, names) ON lastunit.sku_text TO lastunit_service;
GRANT SELECT, INSERT, UPDATE (state, expires_at, ended_at, checkout_id) ON lastunit.reservation TO lastunit_service;
GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON lastunit.hold TO lastunit_service;
GRANT SELECT, INSERT, UPDATE (cancelled) ON lastunit.checkout TO lastunit_service;
GRANT SELECT, INSERT ON lastunit.ledger TO lastunit_service;
GRANT SELECT, INSERT, UPDATE (detail) ON lastunit.idempotency TO lastunit_service;
