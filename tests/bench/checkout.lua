-- wrk: every request sells one unit of each line under a key of its own.
-- Arguments: skus (1: the hot SKU only), bearer key, lines of each cart (different SKUs).
local thread_count = 0

function setup(thread)
	thread:set("thread_number", thread_count)
	thread_count = thread_count + 1
end

function init(args)
	skus = tonumber(args[1])
	lines = tonumber(args[3] or 1)
	seed = string.format("%d-%d-%d", os.time(), thread_number, math.random(1, 2 ^ 30))
	math.randomseed(os.time() + 7919 * thread_number)
	headers = {
		["Authorization"] = "Bearer " .. args[2],
		["Content-Type"] = "application/json",
	}
	count = 0
end

local function cart()
	local first, list = skus == 1 and 0 or math.random(0, skus - 1), {}
	for i = 1, lines do
		list[i] = string.format('{"sku":"BENCH-%012d","quantity":1}', 1 + first)
		first = (first + math.random(1, math.floor(skus / lines))) % skus
	end
	return '{"lines":[' .. table.concat(list, ",") .. "]}"
end

function request()
	count = count + 1
	headers["Idempotency-Key"] = seed .. "-" .. count
	return wrk.format("POST", "/v1/checkouts", headers, cart())
end
