-- invalidate(guard, key…; version…): the SKU has this version by now; whatever is, or could become, older goes. Rule 6.
--
--	a fill ticket, foreign bytes                    -> deleted
--	a value older than the version                  -> deleted
--	a marker that intends this version or an older  -> deleted: its writer committed, or never will
--	a value of this version or newer                -> stays
--	a marker that intends a newer version           -> stays: its writer is at work
--
-- ARGV  the version of each SKU
-- Answers the number of cells deleted.
local cells = redis.call('MGET', unpack(KEYS, 2))
local old = {}
for i = 1, #cells do
	local key, cell, version = KEYS[i + 1], cells[i] or '', tonumber(ARGV[i])
	local value, intent = value_version(cell, key), intent_version(cell)
	if not (value and value >= version or intent and intent > version) then
		old[#old + 1] = key
	end
end
if #old == 0 then
	return 0
end
return redis.call('DEL', unpack(old))
