/* The writers' half of the coherence protocol (coherence.h, lua/README.md). */
#include "inventory/coherence.h"

#include "base/check.h"
#include "base/id.h"
#include "base/metrics.h"

static size_t chunk_size(size_t left)
{
	return left < LU_CELLS_MAX ? left : LU_CELLS_MAX;
}

void coherence_init(struct coherence *coherence, struct redis *redis, struct text namespace)
{
	*coherence = (struct coherence){.redis = redis, .namespace = namespace};
	token_new(coherence->token);
}

static enum cell_reply fail(struct coherence *coherence)
{
	if (coherence->redis)
		redis_close(coherence->redis);
	coherence->chunks_pending = 0;
	metric_add(METRIC_CELL_ERRORS, 1);
	return CELL_FAILED;
}

enum cell_reply coherence_intend_send(struct coherence *coherence, struct arena *arena, const struct text *skus,
                                      const int64_t *versions, size_t count, int64_t deadline_ns)
{
	CHECK(coherence->chunks_pending == 0);
	if (!coherence->redis || redis_connect(coherence->redis, deadline_ns))
		return fail(coherence);
	coherence->count = count;
	for (size_t done = 0; done < count; done += LU_CELLS_MAX) {
		struct cell_call call = cell_intend(arena, coherence->namespace, (struct text){coherence->token, TOKEN_BYTES},
		                                    skus + done, versions + done, chunk_size(count - done));
		if (redis_send(coherence->redis, call.argc, call.argv, deadline_ns))
			return fail(coherence);
		coherence->chunks_pending++;
		metric_add(METRIC_CELL_INTEND, 1);
	}
	return CELL_OK;
}

enum cell_reply coherence_intend_take(struct coherence *coherence, int64_t deadline_ns)
{
	size_t left = coherence->count;
	while (coherence->chunks_pending) {
		redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
		if (redis_receive(coherence->redis, deadline_ns, &reply))
			return fail(coherence);
		coherence->chunks_pending--;
		enum cell_reply kind = cell_reply_kind(reply, chunk_size(left));
		left -= chunk_size(left);
		if (kind == CELL_FENCED) {
			metric_add(METRIC_CELL_FENCED, 1);
			coherence_done(coherence);
			return CELL_FENCED;
		}
		if (kind != CELL_OK)
			return fail(coherence);
	}
	return CELL_OK;
}

static enum cell_reply run(struct coherence *coherence, struct cell_call call, size_t count, int64_t deadline_ns)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	return cell_run(coherence->redis, call, count, deadline_ns, &reply);
}

enum cell_reply coherence_publish(struct coherence *coherence, struct arena *arena, const struct text *skus,
                                  const struct figures *figures, size_t count, int64_t ttl_ms, int64_t deadline_ns)
{
	if (!coherence->redis)
		return CELL_FAILED;
	for (size_t done = 0; done < count; done += LU_CELLS_MAX) {
		size_t n = chunk_size(count - done);
		struct cell_call call = cell_publish(arena, coherence->namespace, (struct text){coherence->token, TOKEN_BYTES},
		                                     skus + done, figures + done, ttl_ms, n);
		enum cell_reply kind = run(coherence, call, n, deadline_ns);
		if (kind != CELL_OK)
			return kind;
	}
	return CELL_OK;
}

enum cell_reply coherence_invalidate(struct coherence *coherence, struct arena *arena, const struct text *skus,
                                     const int64_t *versions, size_t count, int64_t deadline_ns)
{
	if (!coherence->redis)
		return CELL_FAILED;
	for (size_t done = 0; done < count; done += LU_CELLS_MAX) {
		size_t n = chunk_size(count - done);
		enum cell_reply kind = run(coherence,
		                           cell_invalidate(arena, coherence->namespace, skus + done, versions + done, n), n,
		                           deadline_ns);
		if (kind != CELL_OK)
			return kind;
	}
	return CELL_OK;
}

void coherence_done(struct coherence *coherence)
{
	if (coherence->chunks_pending && coherence->redis)
		redis_close(coherence->redis);
	coherence->chunks_pending = 0;
}
