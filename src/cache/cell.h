/* Cells: the Redis value of one SKU, and the calls that are the only code to touch it: four scripts, and `read`, which is a
 * transaction (lua/README.md).
 *
 *   absent | F|ticket (PX 2 s) | I|token|version (no TTL) | V|version|on_hand|reserved|safety|tracked|sku (TTL)
 *   key   = <namespace>:<sku>      guard = <namespace>!open, its value the identity of the Redis it was opened on
 *
 * Every call is FENCED when the guard is missing or this Redis is not the one in the guard's value.
 * Requests are built here (argv with lengths, never formatted), sent by cache/redis.c, replies decoded here: so the
 * blocking and the event-loop callers share one spelling. Thread: any; no state. 1 to LU_CELLS_MAX keys a call, each
 * once; CHECKed, as are counts (0..LU_COUNT_MAX) and tokens ([A-Za-z0-9_-]).
 */
#ifndef CACHE_CELL_H
#define CACHE_CELL_H

#include "base/arena.h"
#include "cache/redis.h"
#include "lastunit/types.h"

#define CELL_NAMESPACE_BYTES 25 /* "lu:" and 22 random characters */
#define CELL_TICKET_MS 2000

enum cell_state { CELL_ABSENT, CELL_FILL, CELL_INTENT, CELL_VALUE, CELL_FOREIGN /* not one of ours */ };

struct cell {
	enum cell_state state;
	struct figures figures; /* CELL_VALUE */
	struct text token;      /* CELL_FILL, CELL_INTENT: ticket or token, borrowed from the reply */
	struct text raw;        /* the bytes as they stand */
};

/* Decodes one cell. A V whose sku is not `sku` (a hash of keys gone wrong, a foreign writer) is CELL_FOREIGN, as is
 * whatever does not parse to the last byte. `present` false: there is none, CELL_ABSENT. */
struct cell cell_decode(struct text raw, bool present, struct text sku);
/* "V|…" and "F|ticket", in the arena; markers are written by the script `intend`. */
struct text cell_value(struct arena *arena, const struct figures *figures, struct text sku);
struct text cell_ticket(struct arena *arena, const char *ticket);

/* A call ready to send. */
struct cell_call {
	int argc;
	struct text *argv;
};

/* `read` is two commands for redis_call_two(): what this Redis is, and the guard with the cells. */
void cell_read(struct arena *arena, struct text namespace, const struct text *skus, size_t count,
               struct redis_command ret_commands[2]);
/* Sets each key to new[i] with PX px_ms[i] if it holds exactly old[i] (size 0: is absent). Replies 1 or 0 per key. */
struct cell_call cell_cas(struct arena *arena, struct text namespace, const struct text *skus, const struct text *old,
                          const struct text *new, const int64_t *px_ms, size_t count);
/* Sets every key to I|token|version. One token per attempt, never used again. */
struct cell_call cell_intend(struct arena *arena, struct text namespace, struct text token, const struct text *skus,
                             const int64_t *versions, size_t count);
/* own marker -> V; V of the same or a newer version, or another's I -> leave; anything else -> DEL. */
struct cell_call cell_publish(struct arena *arena, struct text namespace, struct text token, const struct text *skus,
                              const struct figures *rows, int64_t ttl_ms, size_t count);
/* DEL if F, or V older than `version`; an I not newer than it becomes nobody's. */
struct cell_call cell_invalidate(struct arena *arena, struct text namespace, const struct text *skus,
                                 const int64_t *versions, size_t count);

enum cell_reply { CELL_OK, CELL_FENCED, CELL_FAILED };
/* Tells FENCED from an answer; CELL_FAILED for anything that is neither, NULL too. `count`: keys of the call. `cas` answers
 * an array of `count` elements, `intend`, `publish` and `invalidate` the number of cells they changed. */
enum cell_reply cell_reply_kind(const redisReply *reply, size_t count);
/* The same of the reply to `read`: here the fence is judged. With CELL_OK *ret_cells are `count` strings and nils, borrowed
 * from it. */
enum cell_reply cell_read_kind(const redisReply *reply, size_t count, redisReply *const **ret_cells);

/* Sends a call on a blocking connection and waits; counts metrics (who sends a call himself counts himself).
 * *ret_reply only with CELL_OK. */
enum cell_reply cell_run(struct redis *redis, struct cell_call call, size_t count, int64_t deadline_ns,
                         redisReply **ret_reply);
/* Reads cells as they stand, as a reader does: `read` and its reply decoded, in the arena. */
enum cell_reply cell_look(struct redis *redis, struct arena *arena, struct text namespace, const struct text *skus,
                          size_t count, int64_t deadline_ns, struct cell **ret_cells);

/* "<namespace>!open", in the arena. */
struct text cell_guard_key(struct arena *arena, struct text namespace);
/* What this Redis is: "run_id role replication_id", as the scripts compute it. */
enum lu_error cell_redis_identity(struct redis *redis, int64_t deadline_ns, char out[160]) LU_MUST_CHECK;
/* Opening: sets the guard. Then probes: all five calls on a probe key of that namespace; ok only if each did its
 * work (PING is healthy during OOM and NOPERM). */
enum lu_error cell_guard_set(struct redis *redis, struct text namespace, const char *identity, int64_t deadline_ns)
	LU_MUST_CHECK;
enum lu_error cell_probe(struct redis *redis, struct text namespace, int64_t deadline_ns) LU_MUST_CHECK;
/* Unlinks `namespace`, guard first, then its cells by SCAN, in steps of at most a second. LU_DEADLINE_EXCEEDED between two
 * steps: what is gone is gone, and `cursor` is where the next call goes on; "" is the beginning. */
#define CELL_CURSOR_BYTES 24
enum lu_error cell_namespace_unlink(struct redis *redis, struct text namespace, char cursor[CELL_CURSOR_BYTES],
                                    int64_t deadline_ns) LU_MUST_CHECK;

#endif
