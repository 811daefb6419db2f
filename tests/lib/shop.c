/* The shop of an end-to-end test program (shop.h).
 *
 * Failure modes: what a test arranges behind the service's back must work, or the test program ends with a sentence;
 * what it expects of the service is a cmocka failure.
 */
#include "lib/shop.h"

#include <dirent.h>
#include <libpq-fe.h>
#include <signal.h>
#include <time.h>

#include "lib/command.h"
#include "lib/http_client.h"
#include "lib/pg_server.h"
#include "lib/redis_server.h"

struct service shop;
const char *const *shop_options;
struct answer shop_answer;

#define RING 8
#define RING_BYTES 4096

static char *ring_next(void)
{
	static _Thread_local char ring[RING][RING_BYTES];
	static _Thread_local unsigned next;
	return ring[next++ % RING];
}

/* LASTUNIT_TEST_ONLY='b01*' runs only the tests of that name. */
static __attribute__((constructor)) void choose_tests(void)
{
	if (getenv("LASTUNIT_TEST_ONLY"))
		cmocka_set_test_filter(getenv("LASTUNIT_TEST_ONLY"));
}

/* --- the service -------------------------------------------------------------------------------------------------- */

int shop_open(void **state)
{
	service_start(&shop, shop_options);
	return 0;
}

int shop_close(void **state)
{
	answer_done(&shop_answer);
	return service_stop(&shop);
}

void shop_beside(struct service *instance, const char *database_url, const char *redis_url)
{
	const char *options[40] = {"--log-level", "error"};
	for (size_t i = 0; shop_options && shop_options[i]; i++)
		options[2 + i] = shop_options[i];
	service_beside(instance, &shop, database_url, redis_url, options);
}

int shop_audit(void **state)
{
	char database[600], redis[300];
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", shop.database_url);
	snprintf(redis, sizeof redis, "LASTUNIT_REDIS_URL=%s", shop.redis_url);
	struct command audit = command_run((const char *[]){"audit", NULL}, (const char *[]){database, redis, NULL});
	int code = audit.exit_code;
	if (code)
		fprintf(stderr, "lastunit audit: %d\n%s%s", code, audit.out, audit.err);
	command_done(&audit);
	return code;
}

bool shop_short(void)
{
	return getenv("LASTUNIT_TEST_SHORT") != NULL;
}

int shop_scaled(int full, int when_short)
{
	return shop_short() ? when_short : full;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

void shop_expect(const char *key, const char *method, const char *path, const char *headers, const char *body,
                 int status)
{
	answer_done(&shop_answer);
	shop_answer = service_call(&shop, key, method, path, headers, body);
	if (shop_answer.status != status)
		fail_msg("%s %s %.300s: %d instead of %d: %s", method, path, body ? body : "", shop_answer.status, status,
		         shop_answer.body ? shop_answer.body : "no answer");
}

void shop_expect_post(const char *path, const char *body, int status)
{
	char header[80] = "";
	if (!body || !strstr(body, "\"idempotency_key\""))
		snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", service_new_key());
	shop_expect(shop.key_web, "POST", path, header, body, status);
}

void shop_expect_get(const char *path, int status)
{
	shop_expect(shop.key_web, "GET", path, NULL, NULL, status);
}

void shop_expect_problem(const char *code, const char *word)
{
	assert_string_equal(answer_string(&shop_answer, "code"), code);
	if (!strstr(answer_string(&shop_answer, "detail"), word))
		fail_msg("\"%s\" does not name %s", answer_string(&shop_answer, "detail"), word);
}

void shop_expect_row(const char *sku, int64_t on_hand, int64_t reserved)
{
	struct row row = service_row(&shop, sku);
	if (row.status != 200 || row.on_hand != on_hand || row.reserved != reserved)
		fail_msg("%s is %lld/%lld (status %d) instead of %lld/%lld", sku, (long long)row.on_hand,
		         (long long)row.reserved, row.status, (long long)on_hand, (long long)reserved);
}

void shop_expect_seen(const struct service *instance, const char *sku, int64_t available, int64_t held)
{
	struct seen seen = service_see(instance, sku);
	if (seen.status != 200 || seen.available != available || seen.held != held)
		fail_msg("%s is seen as %lld, %lld held (status %d) instead of %lld, %lld held", sku, (long long)seen.available,
		         (long long)seen.held, seen.status, (long long)available, (long long)held);
}

int shop_ask(const struct service *instance, const char *key, const char *path, const char *body, char ret_code[40])
{
	struct answer answer = service_call(instance, key, "POST", path, NULL, body);
	int status = answer.status;
	snprintf(ret_code, 40, "%s", answer_string(&answer, "code"));
	answer_done(&answer);
	return status;
}

static void errand_run(int index, void *context)
{
	struct errand *errand = context;
	errand->answer = service_call(errand->instance, errand->key, errand->method, errand->path, NULL, errand->body);
	errand->done = true;
}

struct errand *errand_begin(const struct service *instance, const char *key, const char *method, const char *path,
                            const char *body)
{
	struct errand *errand = calloc(1, sizeof *errand);
	*errand = (struct errand){.instance = instance,
	                          .key = key ? strdup(key) : NULL,
	                          .method = strdup(method),
	                          .path = strdup(path),
	                          .body = body ? strdup(body) : NULL};
	errand->crowd = crowd_begin(1, errand_run, errand);
	return errand;
}

int errand_end(struct errand *errand)
{
	crowd_end(errand->crowd);
	return errand->answer.status;
}

void errand_done(struct errand *errand)
{
	answer_done(&errand->answer);
	free(errand->key);
	free(errand->method);
	free(errand->path);
	free(errand->body);
	free(errand);
}

const char *shop_path(const char *folder, const char *id, const char *rest)
{
	char *out = ring_next();
	snprintf(out, RING_BYTES, "/v1/%s/%s%s", folder, id, rest);
	return out;
}

const char *shop_text(const char *format, ...)
{
	char *out = ring_next();
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(out, RING_BYTES, format, arguments);
	va_end(arguments);
	return out;
}

const char *shop_cart(const char *lines)
{
	char *out = ring_next(), *to = out;
	to += sprintf(to, "{\"idempotency_key\":\"%s\",\"lines\":[", service_new_key());
	for (bool first = true; *lines; first = false) {
		size_t size = strcspn(lines, "=");
		long quantity = strtol(lines + size + 1, NULL, 10);
		to += sprintf(to, "%s{\"sku\":\"%.*s\",\"quantity\":%ld}", first ? "" : ",", (int)size, lines, quantity);
		lines += strcspn(lines, " ");
		lines += strspn(lines, " ");
	}
	strcpy(to, "]}");
	return out;
}

const char *shop_key(int channel)
{
	const char *const keys[SHOP_CHANNELS] = {shop.key_web,   shop.key_telegram,    shop.key_agent,
	                                         shop.key_voice, shop.key_marketplace, shop.key_pos};
	return keys[channel % SHOP_CHANNELS];
}

const char *shop_channel(int channel)
{
	static const char *const names[SHOP_CHANNELS] = {"web", "telegram", "agent", "voice", "marketplace", "pos"};
	return names[channel % SHOP_CHANNELS];
}

int64_t shop_metric(const struct service *instance, const char *name)
{
	struct answer answer = service_call(instance, NULL, "GET", "/metrics", NULL, NULL);
	int64_t value = -1;
	size_t size = strlen(name);
	for (const char *line = answer.body; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (strncmp(line, name, size) == 0 && line[size] == ' ')
			value = strtoll(line + size + 1, NULL, 10);
	answer_done(&answer);
	return value;
}

/* --- PostgreSQL behind its back ----------------------------------------------------------------------------------- */

const char *shop_sql(const char *format, ...)
{
	char text[RING_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return pg_server_ask(shop.database_url, text);
}

int64_t shop_sql_int(const char *format, ...)
{
	char text[RING_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return strtoll(pg_server_ask(shop.database_url, text), NULL, 10);
}

void shop_wait_sql(const char *sql, const char *wanted)
{
	int64_t until_ms = shop_now_ms() + 60000;
	const char *said;
	while (strcmp(said = pg_server_ask(shop.database_url, sql), wanted) != 0) {
		if (shop_now_ms() > until_ms)
			fail_msg("%s: for 60 s \"%s\" instead of \"%s\"", sql, said, wanted);
		shop_sleep_ms(5);
	}
}

struct stranger {
	PGconn *conn;
};

static void on_notice(void *context, const char *message) {}

struct stranger *stranger_new(void)
{
	struct stranger *stranger = calloc(1, sizeof *stranger);
	stranger->conn = PQconnectdb(shop.database_url);
	if (PQstatus(stranger->conn) != CONNECTION_OK)
		fail_msg("%s", PQerrorMessage(stranger->conn));
	PQsetNoticeProcessor(stranger->conn, on_notice, NULL);
	return stranger;
}

void stranger_say(struct stranger *stranger, const char *sql)
{
	PGresult *r = PQexec(stranger->conn, sql);
	if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
		fail_msg("%s: %s", sql, PQerrorMessage(stranger->conn));
	PQclear(r);
}

void stranger_free(struct stranger *stranger)
{
	PQfinish(stranger->conn);
	free(stranger);
}

const char *shop_postgres_socket(void)
{
	return shop_text("%s/.s.PGSQL.5432", shop_sql("SHOW unix_socket_directories"));
}

/* --- its processes ------------------------------------------------------------------------------------------------ */

static bool is_child(int pid, const char *name)
{
	char path[64], text[512] = "", state;
	int parent = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *file = fopen(path, "re");
	char *behind = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
	if (file)
		fclose(file);
	if (!behind || sscanf(behind, ") %c %d", &state, &parent) != 2 || parent != shop.pid || state == 'Z')
		return false;
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	file = fopen(path, "re");
	size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
	text[size] = 0;
	if (file)
		fclose(file);
	text[strcspn(text, " ")] = 0; /* Redis writes its socket's path behind its name */
	const char *program = strrchr(text, '/') ? strrchr(text, '/') + 1 : text;
	return strncmp(program, name, strlen(name)) == 0;
}

pid_t shop_child(const char *name)
{
	DIR *proc = opendir("/proc");
	pid_t found = 0;
	for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
		int pid = atoi(entry->d_name);
		if (pid > 0 && is_child(pid, name))
			found = pid;
	}
	closedir(proc);
	return found;
}

/* When a postmaster is killed its sessions live on for a moment, and its successor may have to try twice. */
static bool database_answers(void)
{
	PGconn *conn = PQconnectdb(shop.database_url);
	bool answers = PQstatus(conn) == CONNECTION_OK;
	PQfinish(conn);
	return answers;
}

const char *shop_redis_socket(void)
{
	return shop.redis_url + strlen("unix://");
}

static struct redis_server server_of_redis(void)
{
	struct redis_server server = {.pid = 0};
	snprintf(server.socket, sizeof server.socket, "%.90s", shop_redis_socket());
	return server;
}

static bool redis_answers(void)
{
	struct redis_server server = server_of_redis();
	return redis_server_answers(&server);
}

void shop_restart(const char *name)
{
	pid_t old;
	shop_wait_until((old = shop_child(name)) > 0);
	kill(old, SIGKILL);
	shop_wait_until(shop_child(name) > 0 && shop_child(name) != old);
	if (strcmp(name, "postgres") == 0)
		shop_wait_until(database_answers());
	if (strcmp(name, "redis-server") == 0)
		shop_wait_until(redis_answers());
	if (strcmp(name, "lastunit") != 0)
		return;
	struct http_client client = http_client(shop.url, NULL);
	struct http_answer answer = {0};
	shop_wait_until(http_client_call(&client, "GET", "/healthz", NULL, NULL, &answer));
	http_answer_done(&answer);
	http_client_done(&client);
}

/* --- Redis behind its back ---------------------------------------------------------------------------------------- */

char *shop_redis(const char *line)
{
	struct redis_server server = server_of_redis();
	return redis_server_command(&server, line);
}

char *shop_cell(const char *sku)
{
	return shop_redis(shop_text("GET %s:%s", shop_sql("SELECT namespace FROM lastunit.cache_epoch"), sku));
}

void shop_warm(const struct service *instance, const char *sku)
{
	int64_t until_ms = shop_now_ms() + 60000;
	for (bool hit = false; !hit;) {
		struct answer answer = service_call(instance, shop.key_web, "GET", shop_path("availability", sku, ""), NULL,
		                                    NULL);
		hit = answer.status == 200 && strcmp(answer_header(&answer, "Cache-Status"), "lastunit; hit") == 0;
		answer_done(&answer);
		if (shop_now_ms() > until_ms)
			fail_msg("%s was not served from Redis for 60 s", sku);
	}
}

int64_t shop_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void shop_sleep_ms(int64_t ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}
