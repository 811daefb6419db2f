-- invalidate(guard, key…; version…): the SKU has this version by now; whatever is, or could become, older goes. Rule 6.
--
--	a fill ticket, foreign bytes                    -> deleted
--	a value older than the version                  -> deleted
--	a marker that intends this version or an older  -> nobody's: its writer committed, or never will
--	a value of this version or newer                -> stays
--	a marker that intends a newer version           -> stays: its writer is at work
--
-- Nobody's marker has the token "-", which publish never bears. Why it is not deleted: it may have come late, over the
-- marker of a writer at work, who has no other.
--
-- ARGV  the version of each SKU
-- Answers the number of cells deleted or disowned.
local cells = redis.call('MGET', unpack(KEYS, 2))
local old, nobodys = {}, {}
for i = 1, #cells do
	local key, cell, version = KEYS[i + 1], cells[i] or '', tonumber(ARGV[i])
	local value, intent = value_version(cell, key), intent_version(cell)
	if intent then
		if intent <= version then
			nobodys[#nobodys + 1] = key
			nobodys[#nobodys + 1] = 'I|-|' .. string.match(cell, '%d+$')
		end
	elseif not (value and value >= version) then
		old[#old + 1] = key
	end
end
if #nobodys > 0 then
	redis.call('MSET', unpack(nobodys))
end
return #nobodys / 2 + (#old > 0 and redis.call('DEL', unpack(old)) or 0)
