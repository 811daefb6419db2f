/* The naive control, for the page of `lastunit dev`: two buyers and one unit, on a table of its own in a scratch schema of
 * the private PostgreSQL. `lastunit race` tells the whole story; this is its first line.
 *
 * Happy path: two sessions; both begin and read, both see one unit; both take it and commit; how many were sold, and what
 * the row says. The steps are in one thread and in one order, so it is no matter of luck.
 * Failure modes: PostgreSQL is away: 503. The schema is dropped in any case; its name is random, so that two pages may
 * play at once.
 */
#include <inttypes.h>
#include <stdio.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/id.h"
#include "channels/handlers.h"
#include "channels/page.h"
#include "store/pg.h"

#define STEP_MS 2000
#define RETRY_MS 100
#define BUYERS 2

struct naive {
	struct ask ask; /* first */
	const char *url;
	char schema[40];
	struct pg *buyers[BUYERS];
	int64_t seen[BUYERS], on_hand;
	int sold;
	bool asked_for; /* the schema was, so it may be there */
};

static bool tell(struct pg *pg, const char *sql)
{
	return !pg_command(pg, sql, deadline_in_ms(STEP_MS));
}

static struct pg *session(const struct naive *naive)
{
	return pg_new(&(struct pg_options){.url = naive->url, .application_name = "lastunit page"});
}

static bool look(struct pg *pg, int64_t *ret_on_hand)
{
	static const struct pg_statement statement = {"page_naive_look", "SELECT on_hand FROM stock"};
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	if (pg_query(pg, &statement, NULL, deadline_in_ms(STEP_MS), &result) || PQntuples(result) != 1)
		return false;
	*ret_on_hand = pg_get_int(result, 0, 0);
	return true;
}

/* As whoever the service logs in as, not as its role, which may make nothing. */
static bool open_sessions(struct naive *naive)
{
	char sql[200];
	snprintf(sql, sizeof sql, "SET search_path TO %s", naive->schema);
	for (int i = 0; i < BUYERS; i++) {
		naive->buyers[i] = session(naive);
		if (pg_connect(naive->buyers[i], deadline_in_ms(STEP_MS)) || !tell(naive->buyers[i], sql))
			return false;
	}
	snprintf(sql, sizeof sql, "CREATE SCHEMA %s", naive->schema);
	naive->asked_for = true;
	return tell(naive->buyers[0], sql) && tell(naive->buyers[0], "CREATE TABLE stock (on_hand bigint NOT NULL)") &&
	       tell(naive->buyers[0], "INSERT INTO stock VALUES (1)");
}

static bool buyer_looks(struct naive *naive, int buyer)
{
	return tell(naive->buyers[buyer], "BEGIN") && look(naive->buyers[buyer], &naive->seen[buyer]);
}

static bool buyer_buys(struct naive *naive, int buyer)
{
	bool there = naive->seen[buyer] >= 1;
	naive->sold += there;
	return (!there || tell(naive->buyers[buyer], "UPDATE stock SET on_hand = on_hand - 1")) &&
	       tell(naive->buyers[buyer], "COMMIT");
}

/* A session that was lost has left the schema: it is dropped in another one, as soon as there is one. */
static bool drop_schema(struct naive *naive)
{
	char drop[80];
	snprintf(drop, sizeof drop, "DROP SCHEMA IF EXISTS %s CASCADE", naive->schema);
	pg_rollback(naive->buyers[0], deadline_in_ms(STEP_MS));
	if (tell(naive->buyers[0], drop))
		return true;
	if (pg_connected(naive->buyers[0]))
		return false;
	pg_free(naive->buyers[0]);
	naive->buyers[0] = session(naive);
	int64_t deadline_ns = deadline_in_ms(STEP_MS);
	while (pg_connect(naive->buyers[0], deadline_ns)) {
		if (!deadline_left_ms(deadline_ns))
			return false;
		clock_sleep_until(deadline_in_ms(RETRY_MS));
	}
	return tell(naive->buyers[0], drop);
}

static enum lu_error play(struct query *query, struct pg *pg)
{
	struct naive *naive = (struct naive *)query; /* its first member's first member */
	bool played = open_sessions(naive) && buyer_looks(naive, 0) && buyer_looks(naive, 1) && buyer_buys(naive, 0) &&
	              buyer_buys(naive, 1) && look(naive->buyers[0], &naive->on_hand);
	pg_free(naive->buyers[1]); /* it may have a lock on what is dropped */
	if (naive->asked_for)
		played = drop_schema(naive) && played;
	pg_free(naive->buyers[0]);
	return played ? LU_OK : LU_DATABASE_UNAVAILABLE;
}

static void on_played(struct ask *ask)
{
	const struct naive *naive = (const struct naive *)ask;
	struct buffer *out = loop_out(loop_of(ask->request));
	struct json_writer json = json_writer(out);
	json_object_open(&json);
	json_member_int(&json, "sold", naive->sold);
	json_member_int(&json, "of", 1);
	json_member_int(&json, "on_hand", naive->on_hand);
	json_object_close(&json);
	request_reply(ask->request, 200, "application/json", buffer_text(out));
}

void page_naive_post(struct request *request)
{
	if (!page_is_own(request))
		return;
	struct naive *naive = ARENA_NEW(request_arena(request), struct naive);
	naive->url = loop_of(request)->config->database_url;
	snprintf(naive->schema, sizeof naive->schema, "lastunit_race_page_%016" PRIx64, random_u64());
	ask_init(&naive->ask, request);
	ask_run(&naive->ask, play, on_played);
}
