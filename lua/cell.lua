-- Fragment, for the scripts that look into cells: which version stands in a V or an I, as a number.
-- Both answer nil for what is not exactly such a cell, so that foreign bytes are treated as foreign bytes.
--
-- Versions are at most 10^15, exact in a Lua number. They are compared, never formatted: 1e15 prints as "1e+15".
-- A number of more than 16 digits is not one of ours.
local function value_version(cell, key)
	local version, sku = string.match(cell, '^V|(%d+)|%d+|%d+|%d+|[01]|(.+)$')
	-- The guard is <namespace>!open, the key <namespace>:<sku>: the SKU begins 4 bytes before the guard's end.
	if version and #version <= 16 and sku == string.sub(key, #KEYS[1] - 3) then
		return tonumber(version)
	end
end

local function intent_version(cell)
	local version = string.match(cell, '^I|[%w_-]+|(%d+)$')
	if version and #version <= 16 then
		return tonumber(version)
	end
end
