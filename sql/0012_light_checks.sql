-- What a sale pays for the CHECKs of `sku`: each is read from its text, planned and run by every statement that writes,
-- though most of them look at what a sale does not change.

-- Four bounds in one: a CHECK costs what it is long, and least() and greatest() say it in a third.
ALTER TABLE lastunit.sku
	DROP CONSTRAINT sku_on_hand_stays_in_range,
	DROP CONSTRAINT sku_reserved_stays_in_range,
	DROP CONSTRAINT sku_safety_stock_stays_in_range,
	DROP CONSTRAINT sku_version_counts_from_1,
	DROP CONSTRAINT sku_version_stays_in_range,
	ADD CONSTRAINT sku_figures_stay_in_range CHECK (version >= 1 AND least(on_hand, reserved, safety_stock) >= 0
		AND greatest(on_hand, reserved, safety_stock, version) <= 1000000000000000);

-- A code never changes, so it is looked at where it comes in: strangers may insert one, and neither they nor the service
-- may change it.
CREATE FUNCTION lastunit.code_refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'a SKU code has no blank at either end and no control characters' USING ERRCODE = 'check_violation',
		CONSTRAINT = 'sku_code_has_no_blank_ends_or_control_characters', SCHEMA = 'lastunit', TABLE = 'sku', COLUMN = 'code';
END
$$;
REVOKE ALL ON FUNCTION lastunit.code_refuse() FROM PUBLIC;
CREATE TRIGGER sku_code_has_no_blank_ends_or_control_characters BEFORE INSERT ON lastunit.sku FOR EACH ROW
	WHEN (NEW.code ~ '[[:cntrl:]]' OR NEW.code ~ '^[[:space:]]' OR NEW.code ~ '[[:space:]]$')
	EXECUTE FUNCTION lastunit.code_refuse();
ALTER TABLE lastunit.sku
	ENABLE ALWAYS TRIGGER sku_code_has_no_blank_ends_or_control_characters,
	DROP CONSTRAINT sku_code_has_no_blank_ends_or_control_characters;
