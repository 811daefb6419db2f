-- wrk: availability look-ups. Arguments: SKUs per request (1: GET of one, else POST of many), SKUs there are, bearer key.
function init(args)
	local per_request, skus = tonumber(args[1]), tonumber(args[2])
	local headers = {["Authorization"] = "Bearer " .. args[3], ["Content-Type"] = "application/json"}
	math.randomseed(os.time())
	requests = {}
	for i = 1, 256 do
		if per_request == 1 then
			requests[i] = wrk.format("GET", string.format("/v1/availability/BENCH-%012d", math.random(1, skus)), headers)
		else
			local list = {}
			for j = 1, per_request do
				list[j] = string.format('"BENCH-%012d"', math.random(1, skus))
			end
			requests[i] = wrk.format("POST", "/v1/availability", headers, '{"skus":[' .. table.concat(list, ",") .. "]}")
		end
	end
	at = 0
end

function request()
	at = at % 256 + 1
	return requests[at]
end
