-- Stock changed straight in SQL, by psql, an ORM, another program: what keeps it as good as a change through the API.
--
-- The row says whose write it is. Every write of the service sets `writer` to a new uuid; a row whose writer stays as
-- it was (or, new, has none) is a stranger's. Only such rows call a function: the service's own writes pay for a
-- comparison of two uuids. Why BEFORE and AFTER: sql/README.md.

CREATE FUNCTION lastunit.stranger_before() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		IF NEW.reserved <> 0 THEN
			RAISE EXCEPTION 'reserved belongs to the holds of the service: a new SKU has none'
				USING ERRCODE = 'restrict_violation';
		END IF;
		NEW.version := 1;
		RETURN NEW;
	END IF;
	IF (NEW.id, NEW.code, NEW.reserved) IS DISTINCT FROM (OLD.id, OLD.code, OLD.reserved) THEN
		RAISE EXCEPTION 'id, code and reserved of a SKU are not to be changed in SQL'
			USING ERRCODE = 'restrict_violation', HINT = 'on_hand, safety_stock and tracked are.';
	END IF;
	-- Whatever was given, also by `SET version = version + 1 WHERE version = …`: one more than what stood there.
	NEW.version := OLD.version + 1;
	RETURN NEW;
END
$$;

-- AFTER: only rows that really were written come here. In BEFORE, INSERT … ON CONFLICT would leave entries of rows
-- that never were.
CREATE FUNCTION lastunit.stranger_after() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after, kind,
	                             channel, reference)
	VALUES (NEW.id, NEW.version, NEW.on_hand - CASE TG_OP WHEN 'UPDATE' THEN OLD.on_hand ELSE 0 END, 0, NEW.on_hand,
	        NEW.reserved, CASE TG_OP WHEN 'UPDATE' THEN 12 ELSE 1 END, 8, session_user);
	IF TG_OP = 'UPDATE' THEN   -- a new SKU is in no cell
		INSERT INTO lastunit.invalidation (sku_id, code, version) VALUES (NEW.id, NEW.code, NEW.version);
	END IF;
	RETURN NULL;
END
$$;

CREATE FUNCTION lastunit.sku_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'SKUs are never removed: % refused', TG_OP USING ERRCODE = 'restrict_violation',
		HINT = 'Set on_hand to 0. A whole database is emptied by DROP SCHEMA lastunit CASCADE.';
END
$$;

REVOKE ALL ON FUNCTION lastunit.stranger_before(), lastunit.stranger_after(), lastunit.sku_stays() FROM PUBLIC;

CREATE TRIGGER stranger_inserts BEFORE INSERT ON lastunit.sku FOR EACH ROW
	WHEN (NEW.writer IS NULL) EXECUTE FUNCTION lastunit.stranger_before();
CREATE TRIGGER stranger_updates BEFORE UPDATE ON lastunit.sku FOR EACH ROW
	WHEN (NEW.writer IS NOT DISTINCT FROM OLD.writer) EXECUTE FUNCTION lastunit.stranger_before();
CREATE TRIGGER stranger_inserted AFTER INSERT ON lastunit.sku FOR EACH ROW
	WHEN (NEW.writer IS NULL) EXECUTE FUNCTION lastunit.stranger_after();
CREATE TRIGGER stranger_updated AFTER UPDATE ON lastunit.sku FOR EACH ROW
	WHEN (NEW.writer IS NOT DISTINCT FROM OLD.writer) EXECUTE FUNCTION lastunit.stranger_after();
CREATE TRIGGER sku_is_never_removed BEFORE DELETE OR TRUNCATE ON lastunit.sku
	FOR EACH STATEMENT EXECUTE FUNCTION lastunit.sku_stays();
-- Also for sessions that replicate or restore (session_replication_role = replica).
ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER stranger_inserts;
ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER stranger_updates;
ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER stranger_inserted;
ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER stranger_updated;
ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER sku_is_never_removed;

ALTER TABLE lastunit.invalidation ADD COLUMN at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE lastunit.invalidation SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                                       autovacuum_vacuum_cost_delay = 0);
-- The relay's: it deletes what it has dealt with.
GRANT SELECT, DELETE, UPDATE ON lastunit.invalidation TO lastunit_service;
