/* Connecting: one address of one host after the other, each with its share of the deadline, then the session's settings.
 *
 * Happy path: the hosts as libpq would understand the string, the addresses of their names (base/resolver.h), for each
 * PQconnectStart with `hostaddr` beside `host`, PQconnectPoll whenever the socket is ready (it may be another one each
 * time), one round trip that sets the session up and asks what stands at the other end.
 * Failure modes: a name whose resolver hangs, or a host that does not answer, leaves time for the next (libpq itself
 * resolves without a deadline, and its own loop over hosts counts in whole seconds); a standby is passed over like a
 * dead host; a pooler is refused, because the transaction's locks, the prepared statements and the settings need a
 * session of their own.
 */
#include "store/pg.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/resolver.h"
#include "base/text.h"
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

/* One, or one for each of several hosts; libpq looks at them only when it connects. */
static bool are_ports(const char *ports)
{
	for (;; ports++) {
		size_t size = strcspn(ports, ",");
		int64_t port;
		if (size && (!text_to_int64((struct text){ports, size}, &port) || port < 1 || port > UINT16_MAX))
			return false;
		ports += size;
		if (!*ports)
			return true;
	}
}

struct hosts {
	PQconninfoOption *options;
	const char *host, *hostaddr, *port, *port_default;
	size_t count;
};

/* The value that libpq refuses as the last thing before it would connect: by then it has put together the string, the
 * service file and the environment, and tells what came of it. */
#define REFUSED "none: only to be read"

static bool hosts_read(const char *url, struct hosts *ret_hosts, char why[PG_URL_WHY_BYTES])
{
	static const char *const keywords[] = {"dbname", "target_session_attrs", NULL};
	const char *const values[] = {url, REFUSED, NULL};
	PGconn *conn = PQconnectStartParams(keywords, values, 1);
	CHECK(conn);
	struct hosts hosts = {.options = strstr(PQerrorMessage(conn), REFUSED) ? PQconninfo(conn) : NULL};
	snprintf(why, PG_URL_WHY_BYTES, "%s", PQerrorMessage(conn));
	PQfinish(conn);
	if (!hosts.options)
		return false;
	for (const PQconninfoOption *o = hosts.options; o->keyword; o++) {
		if (strcmp(o->keyword, "host") == 0)
			hosts.host = o->val;
		if (strcmp(o->keyword, "hostaddr") == 0)
			hosts.hostaddr = o->val;
		if (strcmp(o->keyword, "port") == 0) {
			hosts.port = o->val;
			hosts.port_default = o->compiled;
		}
	}
	if (hosts.port && !are_ports(hosts.port)) {
		snprintf(why, PG_URL_WHY_BYTES, "a port is a number from 1 to 65535");
		PQconninfoFree(hosts.options);
		return false;
	}
	hosts.count = list_count(hosts.hostaddr ? hosts.hostaddr : hosts.host);
	*ret_hosts = hosts;
	return true;
}

static PGconn *start(const struct pg *pg, const char *host, const char *hostaddr, const char *port)
{
	/* "dbname" is expanded as a connection string; what stands behind it overrides it, unless it is empty. */
	const char *keywords[] = {"dbname", "client_encoding", "application_name", "host", "hostaddr", "port", NULL};
	const char *values[] = {pg->url,          "UTF8", pg->application_name, host ? host : "", hostaddr ? hostaddr : "",
	                        port ? port : "", NULL};
	return PQconnectStartParams(keywords, values, 1);
}

/* libpq keeps the SQLSTATE of a refused connection to itself, but a verbose message has it:
 * "… failed: FATAL:  28000: role "x" does not exist". Takes it out again. */
static enum lu_error fail_connecting(struct pg *pg)
{
	bool wants_password = PQconnectionNeedsPassword(pg->conn);
	enum lu_error error = pg_fail_result(pg, NULL);
	struct pg_error *e = &pg->error;
	char *at = strstr(e->message, ":  ");
	if (at && strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && strncmp(at + 8, ": ", 2) == 0) {
		memcpy(e->sqlstate, at + 3, 5);
		memmove(at + 3, at + 10, strlen(at + 10) + 1);
	}
	pg->refused = wants_password || strncmp(e->sqlstate, "28", 2) == 0 || strcmp(e->sqlstate, "3D000") == 0;
	return error;
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
	return wants == PGRES_POLLING_OK ? LU_OK : fail_connecting(pg);
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
	if (pg->idle_timeout_ms && PQserverVersion(pg->conn) >= 140000)
		add_timeout(&sql, "idle_session_timeout", pg->idle_timeout_ms);
	/* What a role or a database may have as its default, and a single statement would run under: a batch, which says
	 * READ WRITE itself, would sell while nothing could close the epoch. */
	buffer_add_string(&sql,
	                  "SET default_transaction_isolation = 'read committed';"
	                  "SET default_transaction_read_only = off; SET default_transaction_deferrable = off;");
	/* Rows that are hidden would be taken for rows that are not there: an error (42501) is what may be made of them. */
	buffer_add_string(&sql, "SET row_security = off;");
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

/* The n-th of `count` has its share of the time left. */
static int64_t share_of(int64_t deadline_ns, size_t n, size_t count)
{
	int64_t now_ns = clock_boottime_ns();
	return deadline_ns == DEADLINE_NONE ? deadline_ns : now_ns + (deadline_ns - now_ns) / (int64_t)(count - n);
}

static enum lu_error connect_address(struct pg *pg, const char *host, const char *hostaddr, const char *port,
                                     int64_t deadline_ns)
{
	pg->refused = false;
	pg->conn = start(pg, host, hostaddr, port);
	CHECK(pg->conn);
	enum lu_error error = LU_OK;
	if (PQstatus(pg->conn) == CONNECTION_BAD)
		error = pg_fail_result(pg, NULL);
	PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE); /* fail_connecting() */
	PQsetNoticeReceiver(pg->conn, pg_on_notice, pg);
	if (!error)
		error = poll_connection(pg, deadline_ns);
	if (!error) {
		CHECK(PQsetnonblocking(pg->conn, 1) == 0);
		error = session_setup(pg, deadline_ns);
	}
	if (error)
		pg_close(pg);
	return error;
}

/* By way of one of its addresses. `host` goes along: certificates and the password file name it. */
static enum lu_error connect_name(struct pg *pg, const char *host, const char *port, int64_t deadline_ns)
{
	struct resolver_addresses addresses;
	char why[RESOLVER_ERROR_BYTES], numeric[NI_MAXHOST];
	if (!resolver_resolve(host, atoi(port), deadline_ns, &addresses, why))
		return pg_fail(pg, PG_CONNECTION, "", why);
	enum lu_error error = pg_fail(pg, PG_CONNECTION, "", "the host has no address");
	for (size_t i = 0; i < addresses.count && error; i++) {
		const struct resolver_address *address = &addresses.items[i];
		CHECK(getnameinfo((const struct sockaddr *)&address->address, address->size, numeric, sizeof numeric, NULL, 0,
		                  NI_NUMERICHOST) == 0);
		error = connect_address(pg, host, numeric, port, share_of(deadline_ns, i, addresses.count));
	}
	return error;
}

static enum lu_error connect_host(struct pg *pg, const struct hosts *hosts, size_t n, int64_t deadline_ns)
{
	char *host = list_element(hosts->host, n), *hostaddr = list_element(hosts->hostaddr, n);
	char *port = list_element(hosts->port, n);
	const char *the_port = port ? port : hosts->port_default;
	enum lu_error error;
	if (!hostaddr && !host && hosts->count > 1) /* libpq has no value to ask for its default with */
		error = pg_fail(pg, PG_CONNECTION, "", "an empty host in a list: write the directory of its socket");
	else if (hostaddr || !host || host[0] == '/' || host[0] == '@') /* an address, or a unix socket */
		error = connect_address(pg, host, hostaddr, the_port, deadline_ns);
	else
		error = connect_name(pg, host, the_port, deadline_ns);
	free(host);
	free(hostaddr);
	free(port);
	return error;
}

/* The first host that gives us a session on a primary. */
static enum lu_error connect_any(struct pg *pg, int64_t deadline_ns)
{
	struct hosts hosts;
	char why[PG_URL_WHY_BYTES];
	if (!hosts_read(pg->url, &hosts, why))
		return pg_fail(pg, PG_CONNECTION, "", why);
	enum lu_error error = LU_OK;
	struct pg_error told = {0};
	for (size_t n = 0; n < hosts.count; n++) {
		error = connect_host(pg, &hosts, n, share_of(deadline_ns, n, hosts.count));
		if (!error)
			break;
		if (!told.sqlstate[0])
			told = pg->error;
	}
	if (error && told.sqlstate[0]) {
		pg->error = told; /* what a server said: behind it may stand a host that is away, or a standby */
		error = pg_error_meaning(told.class);
	}
	PQconninfoFree(hosts.options);
	return error;
}

bool pg_url_check(const char *url, char ret_why[PG_URL_WHY_BYTES])
{
	struct hosts hosts;
	if (!hosts_read(url, &hosts, ret_why))
		return false;
	PQconninfoFree(hosts.options);
	return true;
}

bool pg_refused(const struct pg *pg)
{
	return pg->refused;
}

/* A server that starts or stops (57P0x) has sessions for everybody in a moment. */
static void note_session(struct pg *pg, enum lu_error error)
{
	if (!error)
		session_settled(&pg->session);
	else if (pg->error.sqlstate[0] && strncmp(pg->error.sqlstate, "57", 2) != 0)
		session_refused(&pg->session, pg->error.message);
}

/* Time ran out: that alone says less than what the attempt before was told. */
static void remember(struct pg *pg, enum lu_error error)
{
	if (!error) {
		pg->told[0] = '\0';
	} else if (pg->error.class != PG_DEADLINE) {
		snprintf(pg->told, sizeof pg->told, "%s", pg->error.message);
	} else if (pg->told[0]) {
		size_t size = strlen(pg->error.message);
		snprintf(pg->error.message + size, sizeof pg->error.message - size, "; before that: %s", pg->told);
	}
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
	pg->refused = false; /* there may be no host to ask */
	enum lu_error error = connect_any(pg, deadline_ns);
	note_session(pg, error);
	remember(pg, error);
	if (error && pg->error.class != PG_DEADLINE) {
		pg->error.class = PG_CONNECTION; /* a wrong password or a missing role too: there is no session */
		error = pg_error_meaning(PG_CONNECTION);
	}
	if (error)
		pg->connect_error = pg->error;
	return error;
}
