/* Strangers (stranger.h). Happy path: connect, UPDATE … RETURNING version, COMMIT, write down, sleep.
 *
 * Failure modes: a lost session is opened anew; what it had not seen committed is written down as unsure. A constraint
 * that refuses the change (a count below what is held) is as it should be; any other error is complained of.
 */
#include "sim/stranger.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#define MS INT64_C(1000000)

static void on_notice(void *context, const char *message) {}

static PGconn *session(struct stranger *s, PGconn *conn)
{
	if (conn && PQstatus(conn) == CONNECTION_OK)
		return conn;
	PQfinish(conn);
	conn = PQconnectdb(s->stage->url);
	PQsetNoticeProcessor(conn, on_notice, NULL);
	if (PQstatus(conn) != CONNECTION_OK) {
		usleep(20000);
		return conn;
	}
	PQclear(PQexec(conn, "SET lock_timeout = '3s'; SET statement_timeout = '6s'"));
	return conn;
}

/* NULL unless it succeeded. */
static PGresult *say(struct stranger *s, PGconn *conn, const char *sql)
{
	PGresult *result = PQexec(conn, sql);
	ExecStatusType status = PQresultStatus(result);
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		return result;
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool expected = !state || strncmp(state, "23514", 5) == 0 || strncmp(state, "57", 2) == 0 ||
	                strncmp(state, "08", 2) == 0 || strcmp(state, "55P03") == 0 || strcmp(state, "25P02") == 0 ||
	                strcmp(state, "40P01") == 0;
	if (!expected && !s->complaint[0])
		snprintf(s->complaint, sizeof s->complaint, "a stranger's %.100s: %.150s", sql, PQerrorMessage(conn));
	PQclear(result);
	return NULL;
}

static bool tell(struct stranger *s, PGconn *conn, const char *sql)
{
	PGresult *result = say(s, conn, sql);
	PQclear(result);
	return result != NULL;
}

/* One UPDATE of one row: what it made, if it found the row. */
static bool change(struct stranger *s, PGconn *conn, int sku, struct history_sql *ret)
{
	static const char *const ways[] = {
		"UPDATE lastunit.sku SET on_hand = on_hand + %d WHERE code = 'S%d' RETURNING version, %d",
		/* an ORM with a version column: what it read is part of the condition */
		"UPDATE lastunit.sku s SET on_hand = s.on_hand + %d, version = s.version + 1"
		" FROM (SELECT id, version FROM lastunit.sku WHERE code = 'S%d') r WHERE s.id = r.id AND s.version = r.version"
		" RETURNING s.version, %d",
	};
	int64_t delta = dice_chance(&s->dice, 70) ? dice_between(&s->dice, 1, 5) : -dice_between(&s->dice, 1, 2);
	char sql[400];
	snprintf(sql, sizeof sql, ways[dice_roll(&s->dice, 2)], (int)delta, sku, (int)delta);
	*ret = (struct history_sql){.sku = sku, .on_hand_delta = delta, .called_ns = stage_now_ns()};
	PGresult *result = say(s, conn, sql);
	bool done = result && PQntuples(result) == 1;
	if (done)
		ret->version = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	return done;
}

static void note(struct stranger *s, struct history_sql *sql, bool sure)
{
	if (s->sql_count == s->sql_room) {
		s->sql_room = s->sql_room ? s->sql_room * 2 : 128;
		s->sqls = realloc(s->sqls, s->sql_room * sizeof *s->sqls);
		CHECK(s->sqls);
	}
	sql->returned_ns = stage_now_ns();
	sql->sure = sure;
	s->sqls[s->sql_count++] = *sql;
}

/* A transaction over one or two rows that takes its time, and may think better of it. */
static void transact(struct stranger *s, PGconn *conn)
{
	struct history_sql made[2];
	size_t count = 0;
	int first = dice_chance(&s->dice, 30) ? PLAN_SKU_QUIET - 1 : (int)dice_roll(&s->dice, PLAN_SKUS - 2);
	bool rollback = dice_chance(&s->dice, 20);
	if (!tell(s, conn, "BEGIN"))
		return;
	/* By id, as everybody should. */
	bool fine = change(s, conn, first, &made[count]);
	count += fine;
	if (fine && dice_chance(&s->dice, 50)) {
		fine = change(s, conn, first + 1, &made[count]);
		count += fine;
	}
	usleep((useconds_t)dice_between(&s->dice, 0, dice_chance(&s->dice, 30) ? 150000 : 5000));
	if (rollback || !fine || PQtransactionStatus(conn) == PQTRANS_INERROR) {
		(void)tell(s, conn, "ROLLBACK");
		return;
	}
	bool sure = tell(s, conn, "COMMIT");
	for (size_t i = 0; i < count; i++)
		note(s, &made[i], sure);
}

void *stranger_main(void *context)
{
	struct stranger *s = context;
	PGconn *conn = NULL;
	while (!atomic_load(&s->closing)) {
		conn = session(s, conn);
		if (PQstatus(conn) != CONNECTION_OK)
			continue;
		struct history_sql made;
		if (dice_chance(&s->dice, 50))
			transact(s, conn);
		else if (change(s, conn, dice_chance(&s->dice, 50) ? PLAN_SKU_QUIET : (int)dice_roll(&s->dice, PLAN_SKUS - 1),
		                &made))
			note(s, &made, true);
		usleep((useconds_t)dice_between(&s->dice, 10000, 200000));
	}
	PQfinish(conn);
	return NULL;
}

void *locker_main(void *context)
{
	struct stranger *s = context;
	PGconn *conn = NULL;
	while (!atomic_load(&s->closing)) {
		if (atomic_load(&s->stage->lock_until_ns) <= stage_now_ns()) {
			usleep(5000);
			continue;
		}
		conn = session(s, conn);
		if (PQstatus(conn) != CONNECTION_OK)
			continue;
		char sql[200];
		unsigned choice = atomic_load(&s->stage->lock_choice);
		snprintf(sql, sizeof sql, "SELECT 1 FROM lastunit.sku WHERE code IN ('S%u', 'S%u') ORDER BY id FOR UPDATE",
		         choice % 3, choice / 3 % PLAN_SKUS);
		if (tell(s, conn, "BEGIN") && tell(s, conn, sql))
			while (!atomic_load(&s->closing) && atomic_load(&s->stage->lock_until_ns) > stage_now_ns())
				usleep(5000);
		(void)tell(s, conn, choice % 2 ? "COMMIT" : "ROLLBACK");
	}
	PQfinish(conn);
	return NULL;
}

void stranger_init(struct stranger *s, struct stage *stage)
{
	*s = (struct stranger){.stage = stage, .dice = dice_of(stage->plan->seed, 1)};
}

void stranger_done(struct stranger *s)
{
	free(s->sqls);
}
