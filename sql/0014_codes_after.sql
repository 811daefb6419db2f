-- A code is looked at as it goes in: a BEFORE trigger sees it too early, for one of a later name may still change it.
DROP TRIGGER sku_code_has_1_to_128_bytes ON lastunit.sku;
DROP TRIGGER sku_code_has_no_blank_ends_or_control_characters ON lastunit.sku;
CREATE TRIGGER sku_code_has_1_to_128_bytes AFTER INSERT OR UPDATE OF code ON lastunit.sku FOR EACH ROW
	WHEN (octet_length(NEW.code) NOT BETWEEN 1 AND 128) EXECUTE FUNCTION lastunit.code_refuse();
CREATE TRIGGER sku_code_has_no_blank_ends_or_control_characters AFTER INSERT OR UPDATE OF code ON lastunit.sku FOR EACH ROW
	WHEN (NEW.code ~ '[[:cntrl:]]' OR NEW.code ~ '^[[:space:]]' OR NEW.code ~ '[[:space:]]$')
	EXECUTE FUNCTION lastunit.code_refuse();
ALTER TABLE lastunit.sku
	ENABLE ALWAYS TRIGGER sku_code_has_1_to_128_bytes,
	ENABLE ALWAYS TRIGGER sku_code_has_no_blank_ends_or_control_characters;
