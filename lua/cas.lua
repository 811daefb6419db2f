-- cas(guard, key…; old, new, px…): sets a cell to `new` for `px` ms if it holds exactly `old`; '' means: is absent.
-- How a reader takes a fill ticket ('' -> F) and cashes it (F -> V). Rule 4: absence alone never permits a fill.
--
-- ARGV  old, new, px of the 1st key, of the 2nd, …
-- Answers 1 (set) or 0 for each key.
local cells = redis.call('MGET', unpack(KEYS, 2))
local done = {}
for i = 1, #cells do
	local key, old, new, px = KEYS[i + 1], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
	if old == '' then
		-- NX, not the nil above: a key of a wrong type is nil there, but not absent.
		done[i] = redis.call('SET', key, new, 'PX', px, 'NX') and 1 or 0
	elseif cells[i] == old then
		redis.call('SET', key, new, 'PX', px)
		done[i] = 1
	else
		done[i] = 0
	end
end
return done
