/* What PostgreSQL tells of the service (status.h).
 *
 * Happy path: one question after another on one session, each with its own snapshot, so that this look is no old snapshot
 * itself. Failure modes: no session (a fact); a session lost on the way (the same fact, with what was seen so far).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/status.h"
#include "store/migrate.h"

#define CONNECT_MS 5000
#define ASK_MS 10000
#define CLOCK_ASKED 4
#define OVERDUE_MS_MAX 5000      /* as in the audit: the reaper comes at once, and again after a failure */
#define RELAY_MS_MAX 1000        /* the relay promises 250; a machine may be busy */
#define TRANSACTION_MS_MAX 60000 /* from here on a hot row carries its dead along */
#define CLOCKS_APART_US_MAX 1000000

static const struct pg_statement server =
	{"status_server",
     "SELECT current_setting('server_version'), current_database()::text, current_user::text,"
     " (SELECT count(*) FROM pg_stat_activity a WHERE a.application_name = 'lastunit lease'"
     "  AND a.datname = current_database()),"
     " NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"};

static const struct pg_statement wall_clock = {"status_clock", "SELECT clock_timestamp()"};
static const struct pg_statement epoch_since = {"status_epoch_since", "SELECT e.since FROM cache_epoch e"};

static const struct pg_statement holds = {
	"status_holds",
	"SELECT count(*), count(*) FILTER (WHERE r.expires_at <= n.now),"
	" coalesce((extract(epoch FROM max(n.now) - min(r.expires_at) FILTER (WHERE r.expires_at <= n.now)) * 1000)::int8, 0),"
	" (SELECT coalesce(sum(h.quantity), 0)::int8 FROM hold h WHERE h.counted)"
	" FROM (SELECT clock_timestamp()) n(now) JOIN reservation r ON r.state = 1"};

static const struct pg_statement relay = {
	"status_relay",
	"SELECT count(*), coalesce((extract(epoch FROM clock_timestamp() - min(i.at)) * 1000)::int8, 0) FROM invalidation i"};

/* Whoever has a snapshot or has written keeps the dead versions of every row in this database alive; VACUUM itself does
 * not. A prepared transaction does it without a session. */
static const struct pg_statement oldest =
	{"status_oldest",
     "SELECT o.pid, o.who, o.application, o.state, (extract(epoch FROM clock_timestamp() - o.since) * 1000)::int8 FROM"
     " (SELECT a.pid, a.usename::text, a.application_name, a.state, a.xact_start FROM pg_stat_activity a"
     "  WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.datname = current_database()"
     "  AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'"
     "  UNION ALL SELECT 0, p.owner::text, p.gid, 'prepared', p.prepared FROM pg_prepared_xacts p"
     "  WHERE p.database = current_database()) o(pid, who, application, state, since)"
     " WHERE o.since IS NOT NULL ORDER BY o.since LIMIT 1"};

static const struct pg_statement slots =
	{"status_slots",
     "SELECT coalesce(left(string_agg(s.slot_name::text, ', '), 200), '') FROM pg_replication_slots s"
     " WHERE NOT s.active AND s.xmin IS NOT NULL"};

static struct pg *connect_to(struct status *status, const char *database_url)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = database_url,
	                                            .application_name = "lastunit status",
	                                            .lock_timeout_ms = ASK_MS,
	                                            .statement_timeout_ms = ASK_MS});
	status->database.reachable = !cmd_connect_until(pg, deadline_in_ms(CONNECT_MS));
	return pg;
}

static enum lu_error look_at_server(struct status *status, struct pg *pg)
{
	struct status_database *d = &status->database;
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &server, NULL, deadline_in_ms(ASK_MS), &r);
	if (error)
		return error;
	d->version = pg_get_text(r, 0, 0, status->arena);
	d->name = pg_get_text(r, 0, 1, status->arena);
	d->user = pg_get_text(r, 0, 2, status->arena);
	d->instances = pg_get_int(r, 0, 3);
	d->sessions_hidden = pg_get_bool(r, 0, 4);
	if (!d->instances)
		weakness_add(
			&status->findings, "no_instance", "",
			"no `lastunit serve` has a session on this database: nothing is sold, nothing expires, changes made"
			" in SQL wait");
	return LU_OK;
}

/* The quickest of a few answers: half its way is the error of the comparison. */
static enum lu_error look_at_clock(struct status *status, struct pg *pg)
{
	struct status_database *d = &status->database;
	int64_t quickest_us = INT64_MAX;
	for (int i = 0; i < CLOCK_ASKED; i++) {
		PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
		int64_t before_us = clock_unix_us();
		enum lu_error error = pg_query(pg, &wall_clock, NULL, deadline_in_ms(ASK_MS), &r);
		int64_t took_us = clock_unix_us() - before_us;
		if (error)
			return error;
		if (took_us < quickest_us) {
			quickest_us = took_us;
			d->clock_ahead_us = pg_get_time(r, 0, 0) - before_us - took_us / 2;
		}
	}
	if (llabs(d->clock_ahead_us) > CLOCKS_APART_US_MAX)
		weakness_add(&status->findings, "clocks_apart", "",
		             "PostgreSQL's clock is %.1f s %s this machine's: holds end by PostgreSQL's, whatever others show",
		             (double)llabs(d->clock_ahead_us) / 1e6, d->clock_ahead_us > 0 ? "ahead of" : "behind");
	return LU_OK;
}

static enum lu_error look_at_epoch(struct status *status, struct pg *pg)
{
	struct status_database *d = &status->database;
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = epoch_lease_read(pg, status->arena, deadline_in_ms(ASK_MS), &d->epoch);
	if (!error)
		error = pg_query(pg, &epoch_since, NULL, deadline_in_ms(ASK_MS), &r);
	if (error)
		return error;
	d->epoch_since_us = pg_get_time(r, 0, 0);
	if (d->epoch.state != EPOCH_OPEN)
		weakness_add(&status->findings, "epoch_closed", "",
		             "no epoch is open: every read comes from PostgreSQL, until a running service finds Redis well");
	else if (!d->epoch.genuine)
		weakness_add(
			&status->findings, "epoch_of_another_database", "",
			"the epoch was opened on another life of PostgreSQL (it was restarted, promoted or restored): every"
			" read comes from PostgreSQL, until a running service opens the next one");
	return LU_OK;
}

static enum lu_error look_at_holds(struct status *status, struct pg *pg)
{
	struct status_database *d = &status->database;
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &holds, NULL, deadline_in_ms(ASK_MS), &r);
	if (error)
		return error;
	d->holds_live = pg_get_int(r, 0, 0);
	d->holds_due = pg_get_int(r, 0, 1);
	d->oldest_due_ms = pg_get_int(r, 0, 2);
	d->held_units = pg_get_int(r, 0, 3);
	if (d->oldest_due_ms > OVERDUE_MS_MAX)
		weakness_add(&status->findings, "holds_overdue", "P5", "%lld %s not ended, the oldest for %.1f s: %s",
		             (long long)d->holds_due,
		             text_plural(d->holds_due, "hold is over and has", "holds are over and have"),
		             (double)d->oldest_due_ms / 1e3,
		             d->instances
		                 ? "see warnings at /readyz of its instances, and reservation_expire_failures_total in /metrics"
		                 : "only a running service ends them");
	return LU_OK;
}

static enum lu_error look_at_relay(struct status *status, struct pg *pg)
{
	struct status_database *d = &status->database;
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &relay, NULL, deadline_in_ms(ASK_MS), &r);
	if (error)
		return error;
	d->relay_waiting = pg_get_int(r, 0, 0);
	d->relay_oldest_ms = pg_get_int(r, 0, 1);
	if (d->relay_oldest_ms > RELAY_MS_MAX)
		weakness_add(
			&status->findings, "relay_late", d->instances ? "P2" : "",
			"%lld changes made in SQL wait for their cells to be removed, the oldest for %.1f s (promised: 250 ms)",
			(long long)d->relay_waiting, (double)d->relay_oldest_ms / 1e3);
	return LU_OK;
}

static enum lu_error look_at_sessions(struct status *status, struct pg *pg)
{
	struct status_database *d = &status->database;
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL, *held __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &oldest, NULL, deadline_in_ms(ASK_MS), &r);
	if (!error)
		error = pg_query(pg, &slots, NULL, deadline_in_ms(ASK_MS), &held);
	if (error)
		return error;
	d->oldest.any = PQntuples(r) == 1;
	if (d->oldest.any) {
		d->oldest.pid = pg_get_int(r, 0, 0);
		d->oldest.user = pg_get_text(r, 0, 1, status->arena);
		d->oldest.application = pg_get_text(r, 0, 2, status->arena);
		d->oldest.state = pg_get_text(r, 0, 3, status->arena);
		d->oldest.age_ms = pg_get_int(r, 0, 4);
	}
	if (d->oldest.any && d->oldest.age_ms > TRANSACTION_MS_MAX)
		weakness_add(
			&status->findings, "old_transaction", "",
			"a transaction of %.*s (%.*s) has been open for %.0f s: dead versions of hot rows cannot be removed,"
			" and each sale walks over more of them",
			(int)d->oldest.user.size, d->oldest.user.data, (int)d->oldest.application.size, d->oldest.application.data,
			(double)d->oldest.age_ms / 1e3);
	if (PQgetlength(held, 0, 0) > 0)
		weakness_add(&status->findings, "slot_holds_rows", "",
		             "replication slots that nobody uses (%.*s) keep dead versions of hot rows alive: drop them",
		             PQgetlength(held, 0, 0), PQgetvalue(held, 0, 0));
	return LU_OK;
}

bool status_look_database(struct status *status, const char *database_url, char ret_why[512])
{
	static enum lu_error (*const looks[])(struct status *, struct pg *) = {look_at_server, look_at_clock,
	                                                                       look_at_epoch,  look_at_holds,
	                                                                       look_at_relay,  look_at_sessions};
	struct status_database *d = &status->database;
	struct pg *pg = connect_to(status, database_url);
	struct migrate_report report;
	bool ours = true;
	if (d->reachable) {
		ours = migrate_check(pg, deadline_in_ms(ASK_MS), &report, ret_why) &&
		       migrate_check_role(pg, deadline_in_ms(ASK_MS), ret_why);
		d->reachable = ours || pg_connected(pg);
		if (ours)
			d->schema_version = report.found;
		ours = ours || !d->reachable;
	}
	for (size_t i = 0; ours && d->reachable && i < sizeof looks / sizeof looks[0]; i++)
		d->reachable = !looks[i](status, pg);
	if (ours && d->reachable)
		d->reachable = !weakness_look_database(&status->findings, pg, deadline_in_ms(ASK_MS));
	if (!d->reachable)
		d->error = arena_text(status->arena, text_of(pg_error(pg)->message));
	pg_free(pg);
	return ours;
}
