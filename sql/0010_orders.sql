-- Orders of marketplaces: what a number of a principal has sold by now, as its highest version says. The name is plural
-- because ORDER is a word of SQL.
CREATE TABLE lastunit.orders (
	id           uuid CONSTRAINT orders_pkey PRIMARY KEY,
	created_at   timestamptz NOT NULL,
	changed_at   timestamptz NOT NULL,
	principal_id bigint NOT NULL,
	version      bigint NOT NULL CONSTRAINT orders_version_is_exact_in_json CHECK (version BETWEEN 0 AND 9007199254740991),
	channel      smallint NOT NULL,
	number       text COLLATE "C" NOT NULL
	             CONSTRAINT orders_number_has_1_to_255_bytes CHECK (octet_length(number) BETWEEN 1 AND 255),
	sku_ids      bigint[] NOT NULL,
	quantities   bigint[] NOT NULL,
	counted      bigint[] NOT NULL,
	-- None at all is a cancelled order: its tombstone keeps older versions out.
	CONSTRAINT orders_have_whole_lines CHECK (cardinality(quantities) = cardinality(sku_ids)
	                                          AND cardinality(counted) = cardinality(sku_ids)),
	CONSTRAINT orders_number_is_unique UNIQUE (principal_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
COMMENT ON COLUMN lastunit.orders.counted IS 'units of each line that moved figures: sold while the SKU was tracked';

GRANT SELECT, INSERT, UPDATE (changed_at, version, channel, sku_ids, quantities, counted) ON lastunit.orders
	TO lastunit_service;
