-- What a principal may do beyond its scopes: settings that `decide` obeys, and the caps against hoarding. None of them
-- applies to a principal that was there before.
ALTER TABLE lastunit.principal
	ADD COLUMN buffer bigint NOT NULL DEFAULT 0
		CONSTRAINT principal_buffer_stays_in_range CHECK (buffer BETWEEN 0 AND 1000000000000000),
	ADD COLUMN may_use_safety_stock boolean NOT NULL DEFAULT false,
	ADD COLUMN holds_max bigint CONSTRAINT principal_holds_max_is_positive CHECK (holds_max > 0),
	ADD COLUMN held_units_max bigint CONSTRAINT principal_held_units_max_is_positive CHECK (held_units_max > 0),
	ADD COLUMN caller_holds_max bigint
		CONSTRAINT principal_caller_holds_max_is_positive CHECK (caller_holds_max > 0),
	ADD COLUMN caller_held_units_max bigint
		CONSTRAINT principal_caller_held_units_max_is_positive CHECK (caller_held_units_max > 0);
COMMENT ON COLUMN lastunit.principal.buffer IS 'units of every SKU that this principal neither sees nor sells';
COMMENT ON COLUMN lastunit.principal.may_use_safety_stock IS 'what it sees and sells includes the safety stock';
COMMENT ON COLUMN lastunit.principal.holds_max IS 'live holds at a time; NULL: no cap';
COMMENT ON COLUMN lastunit.principal.held_units_max IS 'units of one SKU held at a time; NULL: no cap';
COMMENT ON COLUMN lastunit.principal.caller_holds_max IS 'live holds at a time of one of its callers; NULL: no cap';
COMMENT ON COLUMN lastunit.principal.caller_held_units_max
	IS 'units of one SKU held at a time by one of its callers; NULL: no cap';

-- Whose a live hold is, for the caps to count. A caller is remembered as long as something is held for it, no longer.
ALTER TABLE lastunit.hold ADD COLUMN principal_id bigint NOT NULL DEFAULT 0, ADD COLUMN caller text;
UPDATE lastunit.hold h SET principal_id = r.principal_id FROM lastunit.reservation r WHERE r.id = h.reservation_id;
CREATE INDEX hold_by_principal ON lastunit.hold (principal_id, sku_id);
CREATE INDEX hold_by_caller ON lastunit.hold (caller) WHERE caller IS NOT NULL;
