-- wrk: every request sells one unit under a key of its own. Arguments: skus (1: the hot SKU only), bearer key.
local thread_count = 0

function setup(thread)
	thread:set("thread_number", thread_count)
	thread_count = thread_count + 1
end

function init(args)
	skus = tonumber(args[1])
	seed = string.format("%d-%d-%d", os.time(), thread_number, math.random(1, 2 ^ 30))
	math.randomseed(os.time() + 7919 * thread_number)
	headers = {
		["Authorization"] = "Bearer " .. args[2],
		["Content-Type"] = "application/json",
	}
	count = 0
end

function request()
	count = count + 1
	headers["Idempotency-Key"] = seed .. "-" .. count
	local sku = skus == 1 and 1 or math.random(1, skus)
	return wrk.format("POST", "/v1/checkouts", headers,
		string.format('{"lines":[{"sku":"BENCH-%05d","quantity":1}]}', sku))
end
