-- Due holds are asked for page after page, also where thousands end in the same instant.
DROP INDEX lastunit.reservation_live_by_expiry;
CREATE INDEX reservation_live_by_expiry ON lastunit.reservation (expires_at, id) WHERE state = 1;
