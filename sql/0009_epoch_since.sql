-- Since when the epoch is in the state it is in: for people who ask (`lastunit status`), nothing is decided by it.
ALTER TABLE lastunit.cache_epoch ADD COLUMN since timestamptz NOT NULL DEFAULT clock_timestamp();
