/* Connecting: one host after the other, each with its share of the deadline, then the session's settings.
 *
 * Happy path: PQconnectStart, PQconnectPoll whenever the socket is ready (it may be another one each time), one round
 * trip that sets the session up and asks what stands at the other end.
 * Failure modes: a host that does not answer leaves time for the next (libpq's own loop would do that, but it cannot
 * be given a deadline in milliseconds); a standby is passed over like a dead host; a pooler is refused, because the
 * transaction's locks, the prepared statements and the settings need a session of their own. The look-up of a host
 * name blocks for as long as the resolver likes: use hostaddr where that matters.
 */
#include "store/pg.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "store/pg_internal.h"

#define ATTEMPT_GAP_MS 50

/* The n-th element of a comma-separated list, or the only one; what is not there is NULL. */
static char *list_element(const char *list, size_t n)
{
	if (!list || !strchr(list, ','))
		return list && *list ? strdup(list) : NULL;
	for (; n > 0 && list; n--) {
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	return list && *list && *list != ',' ? strndup(list, strcspn(list, ",")) : NULL;
}

static size_t list_count(const char *list)
{
	size_t n = 1;
	for (; list && *list; list++)
		n += *list == ',';
	return n;
}

struct hosts {
	PQconninfoOption *options;
	const char *host, *hostaddr, *port;
	size_t count;
};

static bool hosts_parse(const char *url, struct hosts *ret_hosts, char **ret_why)
{
	struct hosts hosts = {.options = PQconninfoParse(url, ret_why)};
	if (!hosts.options)
		return false;
	for (const PQconninfoOption *o = hosts.options; o->keyword; o++) {
		if (strcmp(o->keyword, "host") == 0)
			hosts.host = o->val;
		if (strcmp(o->keyword, "hostaddr") == 0)
			hosts.hostaddr = o->val;
		if (strcmp(o->keyword, "port") == 0)
			hosts.port = o->val;
	}
	hosts.count = list_count(hosts.hostaddr ? hosts.hostaddr : hosts.host);
	*ret_hosts = hosts;
	return true;
}

static PGconn *start(const struct pg *pg, const struct hosts *hosts, size_t n)
{
	char *host = list_element(hosts->host, n);
	char *hostaddr = list_element(hosts->hostaddr, n);
	char *port = list_element(hosts->port, n);
	/* "dbname" is expanded as a connection string; what stands behind it overrides it. An empty value means the
	 * default, which is right: element n of the list said nothing. */
	const char *keywords[] = {"dbname", "client_encoding", "application_name", "host", "hostaddr", "port", NULL};
	const char *values[] = {pg->url,          "UTF8", pg->application_name, host ? host : "", hostaddr ? hostaddr : "",
	                        port ? port : "", NULL};
	if (hosts->count == 1)
		keywords[3] = NULL; /* as given, so that PGHOST and the service file keep their say */
	PGconn *conn = PQconnectStartParams(keywords, values, 1);
	free(host);
	free(hostaddr);
	free(port);
	return conn;
}

static enum lu_error poll_connection(struct pg *pg, int64_t deadline_ns)
{
	PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
	while (wants == PGRES_POLLING_READING || wants == PGRES_POLLING_WRITING) {
		struct pollfd ready = {.fd = PQsocket(pg->conn), .events = wants == PGRES_POLLING_READING ? POLLIN : POLLOUT};
		int n = poll(&ready, 1, deadline_left_ms(deadline_ns));
		CHECK(n >= 0 || errno == EINTR);
		if (n > 0)
			wants = PQconnectPoll(pg->conn);
		else if (n == 0 && deadline_left_ms(deadline_ns) == 0)
			return pg_fail(pg, PG_DEADLINE, "", "PostgreSQL did not accept the connection before the deadline");
	}
	return wants == PGRES_POLLING_OK ? LU_OK : pg_fail_result(pg, NULL);
}

static void add_timeout(struct buffer *sql, const char *name, int64_t ms)
{
	buffer_add_format(sql, "SET %s = %lld;", name, (long long)ms);
}

static enum lu_error session_setup(struct pg *pg, int64_t deadline_ns)
{
	struct buffer sql = {0};
	add_timeout(&sql, "lock_timeout", pg->lock_timeout_ms);
	add_timeout(&sql, "statement_timeout", pg->statement_timeout_ms);
	add_timeout(&sql, "idle_in_transaction_session_timeout", pg->idle_in_transaction_timeout_ms);
	/* The plans: made once per statement and connection, and right for tables of every size (src/store/README.md). */
	buffer_add_string(&sql,
	                  "SET synchronous_commit = on; SET search_path = lastunit; SET client_min_messages = warning;"
	                  "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
	                  "SET enable_bitmapscan = off; SET jit = off;");
	if (pg->role) {
		char *quoted = PQescapeIdentifier(pg->conn, pg->role, strlen(pg->role));
		CHECK(quoted);
		buffer_add_format(&sql, "SET ROLE %s;", quoted);
		PQfreemem(quoted);
	}
	buffer_add_string(&sql, "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery()");
	buffer_add_char(&sql, '\0');
	PGresult *result;
	char tag[64];
	enum lu_error error = pg_simple(pg, sql.data, deadline_ns, &result, tag);
	buffer_done(&sql);
	if (error)
		return error;
	bool standby = PQgetvalue(result, 0, 1)[0] == 't';
	bool pooled = strtol(PQgetvalue(result, 0, 0), NULL, 10) != PQbackendPID(pg->conn);
	PQclear(result);
	if (pooled)
		return pg_fail(pg, PG_CONNECTION, "", "a connection pooler stands between: Lastunit needs sessions of its own");
	if (standby)
		return pg_fail(pg, PG_CONNECTION, "", "this server is a standby: Lastunit needs the primary");
	return LU_OK;
}

static enum lu_error connect_one(struct pg *pg, const struct hosts *hosts, size_t n, int64_t deadline_ns)
{
	pg->conn = start(pg, hosts, n);
	CHECK(pg->conn);
	if (PQstatus(pg->conn) == CONNECTION_BAD)
		return pg_fail_result(pg, NULL);
	PQsetNoticeReceiver(pg->conn, pg_on_notice, pg);
	enum lu_error error = poll_connection(pg, deadline_ns);
	if (error)
		return error;
	CHECK(PQsetnonblocking(pg->conn, 1) == 0);
	return session_setup(pg, deadline_ns);
}

/* The first host that gives us a session on a primary. */
static enum lu_error connect_any(struct pg *pg, int64_t deadline_ns)
{
	struct hosts hosts;
	char *why = NULL;
	if (!hosts_parse(pg->url, &hosts, &why)) {
		enum lu_error error = pg_fail(pg, PG_CONNECTION, "", why ? why : "the connection string cannot be read");
		PQfreemem(why);
		return error;
	}
	enum lu_error error = LU_OK;
	for (size_t n = 0; n < hosts.count; n++) {
		int64_t now = clock_boottime_ns(), share_ns = (deadline_ns - now) / (int64_t)(hosts.count - n);
		error = connect_one(pg, &hosts, n, deadline_ns == DEADLINE_NONE ? deadline_ns : now + share_ns);
		if (!error)
			break;
		pg_close(pg);
	}
	PQconninfoFree(hosts.options);
	return error;
}

enum lu_error pg_connect(struct pg *pg, int64_t deadline_ns)
{
	if (pg_connected(pg))
		return LU_OK;
	pg_close(pg);
	int64_t now = clock_boottime_ns();
	if (now < pg->next_attempt_ns) {
		if (pg->connect_error.class == PG_NONE)
			return pg_fail(pg, PG_CONNECTION, "", "PostgreSQL was lost a moment ago");
		pg->error = pg->connect_error;
		return pg_error_meaning(pg->error.class);
	}
	pg->next_attempt_ns = now + (ATTEMPT_GAP_MS + (int64_t)random_below(ATTEMPT_GAP_MS / 2)) * NS_PER_MS;

	memset(&pg->connect_error, 0, sizeof pg->connect_error);
	enum lu_error error = connect_any(pg, deadline_ns);
	if (error && pg->error.class != PG_DEADLINE) {
		pg->error.class = PG_CONNECTION; /* a wrong password or a missing role too: there is no session */
		error = pg_error_meaning(PG_CONNECTION);
	}
	if (error)
		pg->connect_error = pg->error;
	return error;
}
