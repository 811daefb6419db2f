-- More of what a sale pays for CHECKs: they cost by the length of their text, in every statement that writes the table.

-- Bytes of a code, too, are counted where it comes in.
CREATE OR REPLACE FUNCTION lastunit.code_refuse() RETURNS trigger LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'a SKU code has 1 to 128 bytes, no blank at either end and no control characters'
		USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, SCHEMA = 'lastunit', TABLE = 'sku', COLUMN = 'code';
END
$$;
CREATE TRIGGER sku_code_has_1_to_128_bytes BEFORE INSERT ON lastunit.sku FOR EACH ROW
	WHEN (octet_length(NEW.code) NOT BETWEEN 1 AND 128) EXECUTE FUNCTION lastunit.code_refuse();
ALTER TABLE lastunit.sku
	ENABLE ALWAYS TRIGGER sku_code_has_1_to_128_bytes,
	DROP CONSTRAINT sku_code_has_1_to_128_bytes;

ALTER TABLE lastunit.reservation
	DROP CONSTRAINT reservation_has_whole_lines,
	ADD CONSTRAINT reservation_has_whole_lines CHECK (cardinality(sku_ids) >= 1 AND cardinality(sku_ids) = ALL (
		ARRAY[cardinality(quantities), cardinality(counted), cardinality(versions)]));
ALTER TABLE lastunit.checkout
	DROP CONSTRAINT checkout_has_whole_lines,
	ADD CONSTRAINT checkout_has_whole_lines CHECK (cardinality(sku_ids) >= 1 AND cardinality(sku_ids) = ALL (
		ARRAY[cardinality(quantities), cardinality(counted), cardinality(versions), cardinality(cancelled)]));

-- Says of on_hand_after, too, that it is never negative.
ALTER TABLE lastunit.ledger
	DROP CONSTRAINT ledger_counts_are_never_negative,
	DROP CONSTRAINT ledger_never_oversold,
	ADD CONSTRAINT ledger_never_oversold CHECK (reserved_after BETWEEN 0 AND on_hand_after);
