-- publish(guard, key…; token, version, px, value…): after COMMIT, before the answer. Rule 5.
--
--	own marker                           -> the new value
--	a value of the same or newer version -> stays: someone has been faster
--	another writer's marker              -> stays: it will publish
--	anything else                        -> deleted: our marker was lost, so what stands here may be old
--
-- ARGV  token, then version, px, value of the 1st key, of the 2nd, …
-- Answers the number of values set.
local mark = 'I|' .. ARGV[1] .. '|'
local cells = redis.call('MGET', unpack(KEYS, 2))
local set, doubtful = 0, {}
for i = 1, #cells do
	local key, cell = KEYS[i + 1], cells[i] or ''
	local version, px, value = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
	if string.sub(cell, 1, #mark) == mark then
		redis.call('SET', key, value, 'PX', px)
		set = set + 1
	elseif not intent_version(cell) and (value_version(cell, key) or -1) < tonumber(version) then
		doubtful[#doubtful + 1] = key
	end
end
if #doubtful > 0 then
	redis.call('DEL', unpack(doubtful))
end
return set
