/* The cell of a SKU, and whether it says what its row says (why.h).
 *
 * Happy path: row, cell, row. A value that lies between the two rows agrees; absent and F show nobody anything.
 * What may differ rightly goes on by itself within a second, so it is looked at again until then: a marker of a writer at
 * work, a value that the relay or a publish is about to remove. What still stands after that is stuck, or wrong.
 * Failure modes: Redis away or fenced is a verdict: look-ups read PostgreSQL.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/why.h"

#define CONNECT_MS 1000
#define PATIENCE_MS 1200 /* a reader watches a marker for 1 s; the relay promises 250 ms */
#define GAP_MS 50

struct look {
	struct why *why;
	struct pg *pg;
	struct redis *redis;
	int64_t timeout_ms;
	struct why_row before; /* why->row is the one after the cell */
};

__attribute__((format(printf, 3, 4))) static void conclude(struct why *why, enum why_verdict verdict,
                                                           const char *format, ...)
{
	char sentence[600];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	why->verdict = verdict;
	why->verdict_sentence = arena_text(why->arena, text_of(sentence)).data;
}

static bool figures_equal(const struct figures *a, const struct figures *b)
{
	return a->version == b->version && a->on_hand == b->on_hand && a->reserved == b->reserved &&
	       a->safety_stock == b->safety_stock && a->tracked == b->tracked;
}

/* The cell and its end. LU_OK with a verdict set: there is nothing to judge. */
static enum lu_error look_once(struct look *look)
{
	struct why *why = look->why;
	look->before = why->row;
	struct cell *cells = NULL;
	redisReply *ttl __attribute__((cleanup(redis_reply_done))) = NULL;
	enum cell_reply kind = cell_look(look->redis, why->arena, why->epoch.namespace, &why->sku, 1,
	                                 deadline_in_ms(look->timeout_ms), &cells);
	if (kind == CELL_OK &&
	    redis_call(look->redis, 2, (struct text[]){TEXT("PTTL"), why->key}, deadline_in_ms(look->timeout_ms), &ttl))
		kind = CELL_FAILED;
	if (kind == CELL_FAILED) {
		conclude(why, WHY_UNREACHABLE, "Redis does not answer (%s): look-ups read PostgreSQL",
		         redis_error(look->redis));
		return LU_OK;
	}
	if (kind == CELL_FENCED) {
		conclude(why, WHY_FENCED,
		         "this Redis is not the one, or not in the life, that the epoch was opened on: its cells are served to"
		         " nobody, and a running service opens the next epoch");
		return LU_OK;
	}
	why->cell = cells[0];
	why->ttl_ms = ttl->type == REDIS_REPLY_INTEGER ? ttl->integer : -1;
	return why_look_row(why, look->pg);
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static bool lies_between(const struct figures *cell, const struct figures *before, const struct figures *after)
{
	return before->version <= cell->version && cell->version <= after->version &&
	       (cell->version != before->version || figures_equal(cell, before)) &&
	       (cell->version != after->version || figures_equal(cell, after));
}

static void judge_value(struct look *look)
{
	struct why *why = look->why;
	const struct figures *cell = &why->cell.figures, *row = &why->row.figures;
	if (lies_between(cell, &look->before.figures, row))
		conclude(why, WHY_AGREES, "agrees with the row");
	else if (cell->version < row->version && why->row.relay_waiting)
		conclude(why, WHY_BEHIND,
		         "behind the row, as it may be for 250 ms: it was changed in SQL %" PRId64
		         " ms ago, and the relay has not removed the cell yet",
		         why->row.relay_oldest_ms);
	else
		conclude(why, WHY_WRONG, "not what the row says, and nothing is on its way that would explain it");
}

/* Who may still replace a marker? */
static void judge_marker(struct look *look)
{
	struct why *why = look->why;
	int64_t intended = why->cell.figures.version;
	const struct why_row *row = &why->row;
	if (text_equal(why->cell.token, TEXT("-")))
		conclude(why, WHY_STUCK,
		         "nobody's marker: whoever invalidated version %" PRId64
		         " knew that its writer has committed or never"
		         " will; the next writer, or the refresh that a look-up asks for, covers it",
		         intended);
	else if (intended <= row->figures.version)
		conclude(why, WHY_STUCK,
		         "version %" PRId64
		         " was committed and is not published: its writer died between the two or is stopped;"
		         " the ledger's entry %" PRId64 " says whose write it was",
		         intended, intended);
	else if (row->locker_pid)
		conclude(why, WHY_STUCK,
		         "a writer intends version %" PRId64 " and has the row locked: PostgreSQL session %" PRId64 " (%.*s)",
		         intended, row->locker_pid, (int)row->locker_application.size, row->locker_application.data);
	else
		conclude(why, WHY_STUCK,
		         "a writer intended version %" PRId64
		         " and no session has the row locked any more: it died or rolled back"
		         " before COMMIT",
		         intended);
}

static void judge(struct look *look)
{
	struct why *why = look->why;
	switch (why->cell.state) {
	case CELL_ABSENT:
		conclude(why, WHY_ABSENT, "the next look-up reads PostgreSQL and fills it");
		break;
	case CELL_FILL:
		conclude(why, WHY_FILLING, "a reader is reading PostgreSQL to fill it; others read PostgreSQL meanwhile");
		break;
	case CELL_INTENT:
		judge_marker(look);
		break;
	case CELL_VALUE:
		judge_value(look);
		break;
	case CELL_FOREIGN:
		conclude(why, WHY_FOREIGN, "none of the service's own: somebody else writes under its prefix");
		break;
	}
}

static bool may_pass(enum why_verdict verdict)
{
	return verdict == WHY_STUCK || verdict == WHY_WRONG || verdict == WHY_BEHIND;
}

static void name_what_is_wrong(struct why *why)
{
	struct weaknesses *list = &why->findings;
	if (why->verdict == WHY_WRONG)
		weakness_add(
			list, "cell_wrong", "P2",
			"the cell says something else than the row, and goes on saying it: `lastunit flush` ends that; then"
			" find out who writes to Redis or past the triggers");
	if (why->verdict == WHY_FOREIGN)
		weakness_add(list, "foreign_cell", "P2", "somebody else writes under the service's prefix in Redis");
	if (why->verdict == WHY_BEHIND)
		weakness_add(list, "relay_late", "P2",
		             "the relay has not come to a change made in SQL for %" PRId64 " ms: is a service running?",
		             why->row.relay_oldest_ms);
	if (why->verdict == WHY_STUCK)
		weakness_add(
			list, "marker_stuck", "",
			"the marker has stood for more than a second: look-ups read PostgreSQL, and the next one has the cell"
			" healed by a running service");
}

/* Until it is explained, or has stood for longer than anything may. */
static enum lu_error look_until_explained(struct look *look)
{
	struct why *why = look->why;
	struct text first = {0};
	int64_t until_ns = deadline_in_ms(PATIENCE_MS);
	bool moved = false;
	for (;;) {
		enum lu_error error = look_once(look);
		if (error || why->verdict != WHY_NOT_LOOKED)
			return error;
		judge(look);
		if (!first.data)
			first = why->cell.raw;
		moved |= !text_equal(first, why->cell.raw);
		if (!may_pass(why->verdict))
			return LU_OK;
		if (moved || deadline_left_ms(until_ns) == 0)
			break;
		clock_sleep_until(deadline_in_ms(GAP_MS));
		why->verdict = WHY_NOT_LOOKED;
	}
	/* Another marker, another value: whoever writes here is at work. */
	if (moved)
		conclude(why, WHY_WRITING, "writers are at work: it changed while we looked");
	return LU_OK;
}

enum lu_error why_look_cell(struct why *why, struct pg *pg, const struct redis_address *address, int64_t timeout_ms)
{
	why->verdict_sentence = !address                         ? "not looked at: no --redis-url"
	                        : why->epoch.state != EPOCH_OPEN ? "no epoch is open: look-ups read PostgreSQL"
	                                                         : NULL;
	if (why->verdict_sentence)
		return LU_OK;
	why->key = arena_printf(why->arena, "%.*s:%.*s", (int)why->epoch.namespace.size, why->epoch.namespace.data,
	                        (int)why->sku.size, why->sku.data);
	struct look look = {.why = why, .pg = pg, .redis = redis_new(address), .timeout_ms = timeout_ms};
	enum lu_error error = LU_OK;
	if (redis_connect(look.redis, deadline_in_ms(CONNECT_MS)))
		conclude(why, WHY_UNREACHABLE, "Redis cannot be reached (%s): look-ups read PostgreSQL",
		         redis_error(look.redis));
	else
		error = look_until_explained(&look);
	if (!error)
		name_what_is_wrong(why);
	redis_free(look.redis);
	return error;
}

bool why_is_hit(const struct why *why)
{
	return why->epoch.state == EPOCH_OPEN && why->epoch.genuine && why->cell.state == CELL_VALUE &&
	       (why->verdict == WHY_AGREES || why->verdict == WHY_BEHIND || why->verdict == WHY_WRONG ||
	        why->verdict == WHY_WRITING);
}
