-- Fragment, put in front of every script: is this still the Redis, and still the life of it, that the namespace was
-- opened on? C1 of README.md. Nothing of a script runs before it.
--
-- KEYS[1]  the guard key, "<run_id> <role> <replication id>"; in every call the other keys follow it
--
-- ROLE is forbidden in scripts, INFO is not. Each part of the guard is looked for in INFO with both its ends, as plain
-- text: that is a memchr, where a pattern would walk over 1.5 KB in Lua (README.md, "What the guard costs").
local guard = redis.call('GET', KEYS[1])
local info = redis.pcall('INFO', 'server', 'replication')
if type(info) == 'table' then -- before Redis 7 INFO takes one section
	info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
end
if not (guard
	and string.find(info, '\nrun_id:' .. string.sub(guard, 1, 40) .. '\r', 1, true)
	and string.find(info, '\nrole:' .. string.sub(guard, 42, -42) .. '\r', 1, true)
	and string.find(info, '\nmaster_replid:' .. string.sub(guard, -40) .. '\r', 1, true)) then
	return redis.status_reply('FENCED')
end
