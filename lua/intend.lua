-- intend(guard, key…; token, version…): puts the writer's marker over whatever stands in the cells, before its COMMIT.
-- Rules 2 and 3: it takes every fill ticket away and every value, and no reader serves or fills until publish.
-- It has no TTL: a marker that ended by itself would let an old value back in.
--
-- Over a marker for a newer version the new one keeps that version: this call may be late, its writer gone, and the
-- other's at work. A marker for less than he intends would be deleted by `invalidate` before he has committed.
--
-- ARGV  token, then the version each SKU will have
-- Answers the number of cells.
local there = redis.call('MGET', unpack(KEYS, 2))
local cells = {}
for i = 1, #there do
	local version, intent = ARGV[i + 1], there[i] and intent_version(there[i])
	if intent and intent > tonumber(version) then
		version = string.match(there[i], '%d+$')
	end
	cells[2 * i - 1] = KEYS[i + 1]
	cells[2 * i] = 'I|' .. ARGV[1] .. '|' .. version
end
redis.call('MSET', unpack(cells))
return #there
