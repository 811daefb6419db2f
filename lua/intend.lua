-- intend(guard, key…; token, version…): puts the writer's marker over whatever stands in the cells, before its COMMIT.
-- Rules 2 and 3: it takes every fill ticket away and every value, and no reader serves or fills until publish.
-- It has no TTL: a marker that ended by itself would let an old value back in.
--
-- ARGV  token, then the version each SKU will have
-- Answers the number of cells.
local cells = {}
for i = 2, #KEYS do
	cells[2 * i - 3] = KEYS[i]
	cells[2 * i - 2] = 'I|' .. ARGV[1] .. '|' .. ARGV[i]
end
redis.call('MSET', unpack(cells))
return #KEYS - 1
