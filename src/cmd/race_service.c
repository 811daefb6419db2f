/* The `lastunit serve` that is raced against.
 *
 * Happy path: a scratch database on the user's server, migrated, with a key; the same binary as a child on it, on a free
 * port; at the end the child is ended, its cells and the database are dropped, and the role, if a race made it.
 * Failure modes: who may not create databases (or the role, or the extensions) races without ours and is told why; a
 * service that was given by --url and does not answer is a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "cache/cell.h"
#include "cache/redis.h"
#include "cmd/child.h"
#include "cmd/race_place.h"
#include "store/key.h"
#include "store/migrate.h"

#define ANSWER_MS 30000
#define CALL_MS 10000
#define READY_MS 20000
#define END_MS 15000
#define UNLINK_MS 5000
#define OPEN_MS 5000
#define OPEN_LOOK_MS 20
#define GUARD_MS "86400000" /* a day */
#define ROLE_MARK "made by `lastunit race`, which drops it when no database needs it"
#define ROLE_LOCK "hashtextextended('lastunit race: role', 0)"

extern char **environ;

static const struct pg_statement has_role = {"race_has_role", "SELECT to_regrole('lastunit_service') IS NOT NULL"};
static const struct pg_statement namespace_of = {"race_namespace", "SELECT namespace FROM cache_epoch"};

/* --- the scratch database ----------------------------------------------------------------------------------------- */

/* `url` with another database: every option by itself, quoted. */
static bool url_of_database(const char *url, const char *database, char *out, size_t room)
{
	struct buffer all = {0};
	PQconninfoOption *options = PQconninfoParse(url, NULL);
	CHECK(options); /* it was connected to */
	for (const PQconninfoOption *o = options; o->keyword; o++) {
		const char *value = strcmp(o->keyword, "dbname") == 0 ? database : o->val;
		if (!value)
			continue;
		buffer_add_format(&all, "%s='", o->keyword);
		for (; *value; value++) {
			if (*value == '\'' || *value == '\\')
				buffer_add_char(&all, '\\');
			buffer_add_char(&all, *value);
		}
		buffer_add_string(&all, "' ");
	}
	PQconninfoFree(options);
	buffer_add_char(&all, '\0');
	bool fits = all.size <= room;
	if (fits)
		memcpy(out, all.data, all.size);
	buffer_done(&all);
	return fits;
}

static bool owner_command(struct race *race, const char *sql)
{
	return !pg_command(race->scratch.owner, sql, deadline_in_ms(ANSWER_MS));
}

static bool role_exists(struct race *race)
{
	PGresult *result = NULL;
	bool there = pg_query(race->scratch.owner, &has_role, NULL, deadline_in_ms(ANSWER_MS), &result) != LU_OK ||
	             pg_get_bool(result, 0, 0); /* not known: then it is not ours */
	pg_clear(&result);
	return there;
}

/* A role is the whole server's: whoever else races by then needs it as well. So it is marked, and the last to leave drops
 * it; as long as a database depends on it, the server refuses. The lock keeps one race from dropping it between another's
 * look and its migration. */
static void drop_marked_role(struct race *race)
{
	static const char drop[] = "SELECT pg_advisory_xact_lock(" ROLE_LOCK
							   ");"
							   "DO $$ BEGIN"
							   " IF shobj_description(to_regrole('lastunit_service'), 'pg_authid') = '" ROLE_MARK
							   "'"
							   " THEN DROP ROLE lastunit_service; END IF;"
							   " EXCEPTION WHEN dependent_objects_still_exist THEN NULL; END $$";
	if (!race_scratch_command(race, drop))
		fprintf(stderr, "lastunit race: %s; a role may be left: DROP ROLE lastunit_service;\n",
		        pg_error(race->scratch.owner)->message);
}

static struct pg *connect_scratch(struct race *race)
{
	struct pg_options options = {.url = race->service.database_url, .application_name = "lastunit race"};
	struct pg *pg = pg_new(&options);
	if (!cmd_connect_until(pg, deadline_in_ms(CALL_MS)))
		return pg;
	cmd_refuse(race->service.why_not, "cannot connect to the scratch database: %s", pg_error(pg)->message);
	pg_free(pg);
	return NULL;
}

static bool migrate(struct race *race)
{
	struct migrate_report report;
	char why[512], secret[KEY_SECRET_BYTES + 1];
	struct pg *pg = connect_scratch(race);
	if (!pg)
		return false;
	bool done = migrate_run(pg, deadline_in_ms(ANSWER_MS), &report, why);
	if (!done)
		cmd_refuse(race->service.why_not, "cannot make the schema of lastunit in a scratch database: %s", why);
	else if (key_create(pg, TEXT("race"), CHANNEL_WEB, SCOPE_READ | SCOPE_SELL | SCOPE_STOCK, (struct text){0},
	                    deadline_in_ms(ANSWER_MS), secret))
		done = cmd_refuse(race->service.why_not, "cannot make a key: %s", pg_error(pg)->message);
	if (done)
		memcpy(race->service.key, secret, sizeof secret);
	pg_free(pg);
	return done;
}

static bool create_database(struct race *race)
{
	struct race_service *service = &race->service;
	char sql[160];
	if (!url_of_database(race->options.database_url, race->scratch.schema, service->database_url,
	                     sizeof service->database_url))
		return cmd_refuse(service->why_not, "--database-url is too long");
	snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'",
	         race->scratch.schema);
	if (!owner_command(race, sql))
		return cmd_refuse(service->why_not, "cannot create a scratch database for it: %s",
		                  pg_error(race->scratch.owner)->message);
	memcpy(service->database, race->scratch.schema, sizeof service->database);
	if (!owner_command(race, "SELECT pg_advisory_lock(" ROLE_LOCK ")"))
		return cmd_refuse(service->why_not, "cannot lock the role: %s", pg_error(race->scratch.owner)->message);
	bool there = role_exists(race);
	bool done = migrate(race);
	/* Without a role to mark there is nothing to drop. */
	if (!there)
		(void)owner_command(race, "COMMENT ON ROLE lastunit_service IS '" ROLE_MARK "'");
	(void)owner_command(race, "SELECT pg_advisory_unlock(" ROLE_LOCK ")");
	return done;
}

/* --- the child ---------------------------------------------------------------------------------------------------- */

/* Its options are in its environment, where passwords do not show in `ps`; what was meant for us is not for it. The
 * options of ours that came from there have been copied. */
static void set_environment(const struct race *race)
{
	for (char **at = environ; *at;) {
		char name[128];
		size_t size = strcspn(*at, "=");
		if (strncmp(*at, "LASTUNIT_", 9) != 0 || size >= sizeof name) {
			at++;
			continue;
		}
		memcpy(name, *at, size);
		name[size] = '\0';
		unsetenv(name); /* the next one is where this one was */
	}
	setenv("LASTUNIT_DATABASE_URL", race->service.database_url, 1);
	setenv("LASTUNIT_REDIS_URL", race->options.redis_url, 1);
	setenv("LASTUNIT_LISTEN", "127.0.0.1:0", 1);
	setenv("LASTUNIT_LOG_LEVEL", "error", 1);
}

/* Its line "ready http://…". */
static bool wait_ready(struct race *race, int output)
{
	static const char ready[] = "ready ";
	char line[sizeof race->service.url + sizeof ready] = "";
	size_t size = 0;
	int64_t deadline_ns = deadline_in_ms(READY_MS);
	while (!memchr(line, '\n', size) && size + 1 < sizeof line) {
		struct pollfd wait = {.fd = output, .events = POLLIN};
		int n = poll(&wait, 1, deadline_left_ms(deadline_ns));
		if (n < 0 && errno == EINTR && !race_stopping())
			continue;
		ssize_t got = n > 0 ? read(output, line + size, sizeof line - 1 - size) : 0;
		if (got <= 0)
			return cmd_refuse(race->service.why_not, "`lastunit serve` on the scratch database did not get ready");
		size += (size_t)got;
	}
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, ready, strlen(ready)) != 0)
		return cmd_refuse(race->service.why_not, "`lastunit serve` said \"%s\" instead of its address", line);
	snprintf(race->service.url, sizeof race->service.url, "%s", line + strlen(ready));
	return true;
}

static bool start_child(struct race *race)
{
	int output[2];
	char path[PATH_MAX] = "";
	ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
	path[size > 0 ? size : 0] = '\0';
	if (pipe2(output, O_CLOEXEC) < 0)
		return cmd_refuse(race->service.why_not, "pipe: %s", strerror(errno));
	set_environment(race);
	struct child_options options = {.programs = (const char *[]){path, "/proc/self/exe", NULL},
	                                .argv = (const char *[]){"lastunit", "serve", NULL},
	                                .parent_death_signal = SIGTERM,
	                                .output = output[1],
	                                .log = STDERR_FILENO,
	                                .directory = "/"};
	race->service.pid = child_start(&options);
	int error = errno;
	close(output[1]);
	bool ready = race->service.pid > 0 ? wait_ready(race, output[0])
	                                   : cmd_refuse(race->service.why_not, "cannot start it: %s", strerror(error));
	close(output[0]);
	return ready;
}

static void end_child(struct race *race)
{
	int code;
	pid_t pid = race->service.pid;
	race->service.pid = 0;
	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	if (!child_wait(pid, deadline_in_ms(END_MS), &code)) {
		kill(pid, SIGKILL);
		(void)child_wait(pid, DEADLINE_NONE, &code);
	}
}

static bool namespace_get(struct pg *pg, struct arena *arena, struct text *ret_namespace)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	if (pg_query(pg, &namespace_of, NULL, deadline_in_ms(ANSWER_MS), &result) || PQntuples(result) != 1)
		return false;
	*ret_namespace = pg_get_text(result, 0, 0, arena);
	return ret_namespace->size > 0;
}

/* The guard has no TTL, and a race that is killed removes nothing: it gets one that no race outlives. If it ended before,
 * the child would open its cache anew. Not had in time: then the cache is closed, and may stay so. */
static void limit_guard(struct race *race)
{
	struct redis_address address;
	const char *why;
	if (!*race->options.redis_url || !redis_address_parse(race->options.redis_url, &address, &why))
		return;
	struct arena arena;
	struct pg *pg = connect_scratch(race);
	struct redis *redis = redis_new(&address);
	int64_t deadline_ns = deadline_in_ms(OPEN_MS);
	bool limited = false;
	arena_init(&arena, 0);
	while (pg && !limited && deadline_left_ms(deadline_ns) && !race_stopping()) {
		redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
		struct text namespace;
		arena_reset(&arena);
		if (namespace_get(pg, &arena, &namespace) && !redis_connect(redis, deadline_ns) &&
		    !redis_call(redis, 3, (struct text[]){TEXT("PEXPIRE"), cell_guard_key(&arena, namespace), TEXT(GUARD_MS)},
		                deadline_ns, &reply))
			limited = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
		if (!limited)
			clock_sleep_until(deadline_in_ms(OPEN_LOOK_MS));
	}
	arena_done(&arena);
	redis_free(redis);
	pg_free(pg);
}

/* The cells of the scratch database would stay in Redis until their TTL. */
static void drop_cells(struct race *race)
{
	struct redis_address address;
	const char *why;
	struct text namespace;
	struct arena arena;
	if (!*race->options.redis_url || !redis_address_parse(race->options.redis_url, &address, &why))
		return;
	struct pg *pg = connect_scratch(race);
	struct redis *redis = redis_new(&address);
	arena_init(&arena, 0);
	if (pg && namespace_get(pg, &arena, &namespace)) {
		char cursor[CELL_CURSOR_BYTES] = "";
		/* What does not go now ends with its TTL. */
		(void)!cell_namespace_unlink(redis, namespace, cursor, deadline_in_ms(UNLINK_MS));
	}
	arena_done(&arena);
	redis_free(redis);
	pg_free(pg);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static bool knock(struct race *race)
{
	struct race_service *service = &race->service;
	struct http_caller *caller = http_caller_new(service->url, CALL_MS);
	struct http_answer answer = http_call(caller, "GET", "/v1/availability?sku=race-0", TEXT(""), service->key, NULL);
	bool there = answer.status == 200;
	service->refused = answer.status == 401 || answer.status == 403;
	if (!there && answer.status)
		cmd_refuse(race->why, "%s answers %d: --key needs the scopes read, sell and stock", service->url,
		           answer.status);
	else if (!there)
		cmd_refuse(race->why, "%s: %s", service->url, http_caller_error(caller));
	http_caller_free(caller);
	return there;
}

bool race_service_open(struct race *race)
{
	struct race_service *service = &race->service;
	if (*race->options.strategy && strcmp(race->options.strategy, "lastunit") != 0 && !race->options.caches)
		return true; /* nobody would ask it anything */
	if (*race->options.url) {
		snprintf(service->url, sizeof service->url, "%s", race->options.url);
		snprintf(service->key, sizeof service->key, "%s", race->options.key);
		service->there = knock(race);
		return service->there;
	}
	service->own = true;
	service->there = create_database(race) && start_child(race);
	if (service->there && !knock(race)) {
		service->there = false;
		snprintf(service->why_not, sizeof service->why_not, "%s", race->why);
	}
	if (service->there)
		limit_guard(race);
	if (!service->there && strcmp(race->options.strategy, "lastunit") == 0)
		return cmd_refuse(race->why, "%s", service->why_not);
	return true;
}

bool race_takes_part(const struct race *race, const struct race_strategy *strategy)
{
	const char *only = race->options.strategy;
	return (!*only || strcmp(only, strategy->name) == 0) && (strategy->write || race->service.there);
}

void race_service_close(struct race *race)
{
	struct race_service *service = &race->service;
	char sql[120];
	end_child(race);
	service->there = false;
	if (!*service->database)
		return;
	drop_cells(race);
	snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", service->database);
	if (!race_scratch_command(race, sql))
		fprintf(stderr, "lastunit race: %s; the scratch database is left: %s;\n",
		        pg_error(race->scratch.owner)->message, sql);
	drop_marked_role(race);
	*service->database = '\0';
}
