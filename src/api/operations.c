/* What an operator asks: health, readiness, metrics.
 *
 * All are open: they show no stock. /healthz says that the process serves; /readyz says the same and, in its body, how
 * the backends are: it stays 200 while the service can answer (P6), because taking an instance out of the balancer does
 * not mend a database they all share.
 */
#include "api/api.h"
#include "api/call.h"
#include "api/handlers.h"
#include "base/metrics.h"

void health_get(struct request *request)
{
	request_reply(request, 200, "application/json", TEXT("{\"status\":\"ok\"}\n"));
}

void ready_get(struct request *request)
{
	struct api_loop *loop = loop_of(request);
	struct inventory_status status;
	inventory_status(loop->inventory, &status);
	struct weaknesses found = {.arena = request_arena(request)};
	inventory_weaknesses(loop->inventory, &found);
	struct json_writer w = json_writer(loop_out(loop));
	json_object_open(&w);
	json_key(&w, "status");
	/* Without a lease or a Redis every read costs PostgreSQL a query: true, but slower. Who configured no Redis wants
	 * it so. */
	bool as_configured = (status.lease && status.redis_reachable) || !status.redis_configured;
	bool may = !weakness_find(&found, WEAKNESS_RIGHTS_MISSING);
	may &= !weakness_find(&found, WEAKNESS_WRITES_REFUSED);
	may &= !weakness_find(&found, WEAKNESS_SESSIONS_REFUSED);
	json_put_string(&w, status.database_reachable && may && as_configured ? "ok" : "degraded");
	json_member_bool(&w, "database_reachable", status.database_reachable);
	if (status.redis_configured) {
		json_member_bool(&w, "redis_reachable", status.redis_reachable);
	} else {
		json_key(&w, "redis_reachable");
		json_put_null(&w);
	}
	json_member_string(&w, "epoch", status.epoch);
	json_member_bool(&w, "lease", status.lease);
	json_member_int(&w, "queue_depth", status.queue_depth);
	json_member_int(&w, "feed_lag_ms", status.feed_lag_ms);
	json_key(&w, "warnings");
	json_array_open(&w);
	for (size_t i = 0; i < found.count; i++)
		json_put_string(&w, found.items[i].sentence);
	json_array_close(&w);
	json_object_close(&w);
	request_add_header(request, "Cache-Control", TEXT("no-store"));
	request_reply_json(request, 200, w.out);
}

void metrics_get(struct request *request)
{
	struct buffer *out = loop_out(loop_of(request));
	metrics_print(out);
	request_reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", buffer_text(out));
}
