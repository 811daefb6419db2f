/* An hour of a shop in which three of ten buyers put the last step off for ever: holds without a TTL beside holds with one.
 *
 * Happy path: 600 buyers, one every six seconds of the shop's own clock, want one of 300 units each. A buyer holds a
 * unit if there is one, then pays within five minutes or is never seen again. The statements are real, the clock is a
 * parameter of theirs: the hour takes a second, and the same seed plays the same hour for both. Every minute the row is
 * read and the holds whose buyer has gone are counted.
 * Failure modes: a database that is gone ends the part, with the reason.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cmd/race.h"

#define HOUR_S 3600
#define BUYER_EVERY_S 6
#define POINT_EVERY_S 60
#define POINTS (HOUR_S / POINT_EVERY_S + 1)
#define UNITS 300
#define ABANDONED_PERCENT 30
#define TTL_S 900 /* as our channels web and telegram have it */
#define PAYS_AFTER_MIN_S 30
#define PAYS_AFTER_MAX_S 300
#define STEP_MS 5000

struct drift_run {
	struct race *race;
	struct pg *pg;
	struct arena arena; /* of one statement */
	uint64_t random;
	bool ttl;
};

static uint64_t draw(struct drift_run *run, uint64_t bound)
{
	run->random = run->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (run->random >> 33) % bound;
}

static bool fails(struct drift_run *run)
{
	snprintf(run->race->why, sizeof run->race->why, "the drift of holds: %s", pg_error(run->pg)->message);
	return false;
}

static bool ask(struct drift_run *run, const struct pg_statement *statement, const int64_t *numbers, size_t count,
                PGresult **ret_result)
{
	struct pg_params params;
	arena_reset(&run->arena);
	pg_params_init(&params, &run->arena);
	for (size_t i = 0; i < count; i++)
		pg_add_int8(&params, numbers[i]);
	return !pg_query(run->pg, statement, &params, deadline_in_ms(STEP_MS), ret_result) || fails(run);
}

static bool tell(struct drift_run *run, const struct pg_statement *statement, const int64_t *numbers, size_t count)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	return ask(run, statement, numbers, count, &result);
}

static bool shop_open(struct drift_run *run)
{
	static const char *const commands[] = {
		"SET synchronous_commit = off", /* what is shown does not depend on it, and the disk is spared */
		"DROP TABLE IF EXISTS drift_hold, drift_stock",
		"CREATE TABLE drift_stock (on_hand bigint NOT NULL, reserved bigint NOT NULL)",
		"CREATE TABLE drift_hold (ends_s bigint, pays_s bigint)", /* NULL: never */
	};
	static const struct pg_statement receive = {"race_drift_receive", "INSERT INTO drift_stock VALUES ($1, 0)"};
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (pg_command(run->pg, commands[i], deadline_in_ms(STEP_MS)))
			return fails(run);
	return tell(run, &receive, &(int64_t){UNITS}, 1);
}

/* Payments and ends that are due. */
static bool shop_passes(struct drift_run *run, int64_t now_s)
{
	static const struct pg_statement pay =
		{"race_drift_pay",
	     "WITH paid AS (DELETE FROM drift_hold WHERE pays_s <= $1 RETURNING 1), n AS (SELECT count(*) n"
	     " FROM paid) UPDATE drift_stock SET on_hand = on_hand - n, reserved = reserved - n FROM n"};
	static const struct pg_statement end =
		{"race_drift_end",
	     "WITH ended AS (DELETE FROM drift_hold WHERE ends_s <= $1 RETURNING 1), n AS (SELECT count(*) n"
	     " FROM ended) UPDATE drift_stock SET reserved = reserved - n FROM n"};
	return tell(run, &pay, &now_s, 1) && (!run->ttl || tell(run, &end, &now_s, 1));
}

static bool buyer_comes(struct drift_run *run, int64_t now_s)
{
	static const struct pg_statement hold =
		{"race_drift_hold",
	     "WITH held AS (UPDATE drift_stock SET reserved = reserved + 1 WHERE on_hand > reserved"
	     " RETURNING 1) INSERT INTO drift_hold SELECT nullif($1, 0), nullif($2, 0) FROM held"};
	bool abandons = draw(run, 100) < ABANDONED_PERCENT;
	int64_t pays_s = now_s + PAYS_AFTER_MIN_S + (int64_t)draw(run, PAYS_AFTER_MAX_S - PAYS_AFTER_MIN_S);
	return tell(run, &hold, (int64_t[]){run->ttl ? now_s + TTL_S : 0, abandons ? 0 : pays_s}, 2);
}

static bool point_take(struct drift_run *run, int64_t now_s, struct race_drift *drift)
{
	static const struct pg_statement look =
		{"race_drift_look",
	     "SELECT on_hand - reserved, on_hand, (SELECT count(*) FROM drift_hold WHERE pays_s IS NULL)"
	     " FROM drift_stock"};
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	if (!ask(run, &look, NULL, 0, &result))
		return false;
	drift->points[drift->count++] = (struct race_drift_point){
		.at_s = (double)now_s,
		.available = pg_get_int(result, 0, 0),
		.sold = UNITS - pg_get_int(result, 0, 1),
		.held_by_nobody = pg_get_int(result, 0, 2),
	};
	return true;
}

static bool hour_play(struct drift_run *run, struct race_drift *drift)
{
	drift->points = ARENA_ARRAY(&run->race->arena, POINTS, struct race_drift_point);
	drift->units = UNITS;
	if (!shop_open(run))
		return false;
	for (int64_t now_s = 0; now_s <= HOUR_S && !race_stopping(); now_s += BUYER_EVERY_S) {
		if (!shop_passes(run, now_s) || (now_s % POINT_EVERY_S == 0 && !point_take(run, now_s, drift)) ||
		    !buyer_comes(run, now_s))
			return false;
	}
	/* With a TTL each of them ends. */
	drift->unsold = run->ttl || !drift->count ? 0 : drift->points[drift->count - 1].held_by_nobody;
	return true;
}

bool race_drift_run(struct race *race)
{
	static const char *const names[] = {"without TTL", "with TTL"};
	struct drift_run run = {.race = race, .pg = race_session(race)};
	bool good = run.pg;
	arena_init(&run.arena, 1024);
	race->drifts = ARENA_ARRAY(&race->arena, 2, struct race_drift);
	for (size_t i = 0; good && i < 2; i++) {
		struct race_drift *drift = &race->drifts[race->drift_count++];
		drift->name = names[i];
		run.ttl = i == 1;
		run.random = (uint64_t)race->options.seed;
		progress_show(&race->progress, "holds %s", drift->name);
		good = hour_play(&run, drift);
	}
	pg_free(run.pg);
	arena_done(&run.arena);
	return good;
}
