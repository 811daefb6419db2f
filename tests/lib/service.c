/* The real service under test.
 *
 * Happy path: fork, exec `lastunit dev`, read its stdout up to `ready URL`, read dev.env. Calls go through one
 * http_client per thread and service, kept alive.
 * Failure modes: whatever keeps the harness from going on is printed and aborts; the service then gets SIGTERM by
 * PR_SET_PDEATHSIG, so that a test that dies leaves nothing behind.
 */
#include "lib/service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/http_client.h"

#define START_MS 120000
#define ARGUMENTS_MAX 40
#define CLIENTS_MAX 4 /* services that one thread talks to */

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("service: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	abort();
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static void find_binary(char out[4096])
{
	const char *given = getenv("LASTUNIT_BIN");
	if (given && *given) {
		snprintf(out, 4096, "%s", given);
		return;
	}
	ssize_t size = readlink("/proc/self/exe", out, 4000);
	if (size <= 0)
		die("readlink /proc/self/exe: %s", strerror(errno));
	out[size] = 0;
	char *tests = NULL;
	for (char *at = out; (at = strstr(at, "/tests/")); at++)
		tests = at;
	if (!tests)
		die("%s does not lie below a directory `tests`; set LASTUNIT_BIN", out);
	strcpy(tests, "/lastunit");
}

static pid_t spawn(const char *const *arguments, int output, const struct service *environment)
{
	char binary[4096];
	const char *argv[ARGUMENTS_MAX + 2] = {"lastunit"};
	find_binary(binary);
	size_t count = 1;
	for (; arguments[count - 1]; count++) {
		if (count > ARGUMENTS_MAX)
			die("too many arguments");
		argv[count] = arguments[count - 1];
	}
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	if (output >= 0)
		dup2(output, STDOUT_FILENO);
	else
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (environment) {
		setenv("LASTUNIT_URL", environment->url, 1);
		setenv("LASTUNIT_DATABASE_URL", environment->database_url, 1);
		setenv("LASTUNIT_REDIS_URL", environment->redis_url, 1);
		setenv("LASTUNIT_KEY_ADMIN", environment->key_admin, 1);
	}
	execv(binary, (char *const *)argv);
	fprintf(stderr, "service: cannot run %s: %s\n", binary, strerror(errno));
	_exit(127);
}

static int exit_code(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads stdout byte by byte, so that nothing is taken beyond the line. */
static void wait_until_ready(struct service *service)
{
	char line[512];
	size_t size = 0;
	int64_t until_ms = now_ms() + START_MS;
	for (;;) {
		struct pollfd wait = {.fd = service->output, .events = POLLIN};
		int64_t left = until_ms - now_ms();
		if (left <= 0 || (poll(&wait, 1, (int)left) == 0))
			die("lastunit was not ready within %d s", START_MS / 1000);
		char c;
		ssize_t got = read(service->output, &c, 1);
		if (got == 0)
			die("lastunit ended before it was ready (exit code %d)", exit_code(service->pid));
		if (got < 0)
			continue;
		if (c != '\n') {
			if (size < sizeof line - 1)
				line[size++] = c;
			continue;
		}
		line[size] = 0;
		size = 0;
		if (strncmp(line, "ready http://", 13) == 0) {
			snprintf(service->url, sizeof service->url, "%.*s", (int)sizeof service->url - 1, line + 6);
			service->port = atoi(strrchr(service->url, ':') + 1);
			return;
		}
	}
}

static void read_env(struct service *service)
{
	struct {
		const char *name;
		char *value;
		size_t room;
	} rows[] = {
		{"LASTUNIT_DATABASE_URL", service->database_url, sizeof service->database_url},
		{"LASTUNIT_REDIS_URL", service->redis_url, sizeof service->redis_url},
		{"LASTUNIT_KEY_ADMIN", service->key_admin, sizeof service->key_admin},
		{"LASTUNIT_KEY_WEB", service->key_web, sizeof service->key_web},
		{"LASTUNIT_KEY_TELEGRAM", service->key_telegram, sizeof service->key_telegram},
		{"LASTUNIT_KEY_AGENT", service->key_agent, sizeof service->key_agent},
		{"LASTUNIT_KEY_VOICE", service->key_voice, sizeof service->key_voice},
		{"LASTUNIT_KEY_MARKETPLACE", service->key_marketplace, sizeof service->key_marketplace},
		{"LASTUNIT_KEY_POS", service->key_pos, sizeof service->key_pos},
	};
	char path[160], line[1024];
	snprintf(path, sizeof path, "%s/dev.env", service->directory);
	FILE *file = fopen(path, "re");
	if (!file)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\r\n")] = 0;
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = 0;
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			if (strcmp(line, rows[i].name) == 0)
				snprintf(rows[i].value, rows[i].room, "%s", value);
	}
	fclose(file);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!*rows[i].value)
			die("%s has no %s", path, rows[i].name);
}

/* Starts it with its stdout in a pipe and waits for `ready`. */
static void begin(struct service *service, const char *const *arguments, const struct service *environment)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		die("pipe: %s", strerror(errno));
	service->pid = spawn(arguments, ends[1], environment);
	close(ends[1]);
	service->output = ends[0];
	wait_until_ready(service);
}

static void add_options(const char *arguments[ARGUMENTS_MAX + 1], size_t count, const char *const *options)
{
	for (; options && *options; options++) {
		if (count == ARGUMENTS_MAX)
			die("too many options");
		arguments[count++] = *options;
	}
}

void service_start(struct service *service, const char *const *options)
{
	*service = (struct service){0};
	char parent[] = "/tmp/lastunit-test-XXXXXX";
	/* dev drops root's rights and must still reach it. */
	if (!mkdtemp(parent) || chmod(parent, 0755) != 0)
		die("mkdtemp: %s", strerror(errno));
	snprintf(service->directory, sizeof service->directory, "%s/data", parent);
	const char *arguments[ARGUMENTS_MAX + 1] = {"dev",         "--data",    service->directory, "--listen",
	                                            "127.0.0.1:0", "--no-demo", "--ephemeral"};
	add_options(arguments, 7, options);
	begin(service, arguments, NULL);
	read_env(service);
}

void service_beside(struct service *service, const struct service *first, const char *database_url,
                    const char *redis_url, const char *const *options)
{
	const char *arguments[ARGUMENTS_MAX + 1] = {"serve", "--listen", "127.0.0.1:0"};
	*service = *first;
	*service->directory = 0;
	if (database_url)
		snprintf(service->database_url, sizeof service->database_url, "%s", database_url);
	if (redis_url)
		snprintf(service->redis_url, sizeof service->redis_url, "%s", redis_url);
	add_options(arguments, 3, options);
	begin(service, arguments, service);
}

int service_stop(struct service *service)
{
	kill(service->pid, SIGTERM);
	int code = exit_code(service->pid);
	close(service->output);
	char *parent_end = strrchr(service->directory, '/');
	if (parent_end) {
		*parent_end = 0;
		rmdir(service->directory); /* --ephemeral emptied it */
	}
	service->pid = 0;
	return code;
}

int service_run(const struct service *service, const char *const *arguments)
{
	return exit_code(spawn(arguments, -1, service));
}

int service_audit(const struct service *service)
{
	return service_run(service, (const char *const[]){"audit", NULL});
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

struct clients {
	char url[CLIENTS_MAX][64];
	struct http_client client[CLIENTS_MAX];
};

static pthread_key_t clients_key;

static void clients_free(void *value)
{
	struct clients *clients = value;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (*clients->url[i])
			http_client_done(&clients->client[i]);
	free(clients);
}

static void clients_key_make(void)
{
	pthread_key_create(&clients_key, clients_free);
}

static struct http_client *client_of(const struct service *service)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, clients_key_make);
	struct clients *clients = pthread_getspecific(clients_key);
	if (!clients) {
		clients = calloc(1, sizeof *clients);
		pthread_setspecific(clients_key, clients);
	}
	size_t i = 0;
	while (i < CLIENTS_MAX && *clients->url[i] && strcmp(clients->url[i], service->url) != 0)
		i++;
	if (i == CLIENTS_MAX) {
		/* Services come and go in one test program; the oldest is gone by now. */
		http_client_done(&clients->client[0]);
		memmove(&clients->url[0], &clients->url[1], (CLIENTS_MAX - 1) * sizeof clients->url[0]);
		memmove(&clients->client[0], &clients->client[1], (CLIENTS_MAX - 1) * sizeof clients->client[0]);
		*clients->url[--i] = 0;
	}
	if (!*clients->url[i]) {
		strcpy(clients->url[i], service->url);
		clients->client[i] = http_client(service->url, NULL);
	}
	return &clients->client[i];
}

static struct answer call(const struct service *service, const char *key, const char *method, const char *path,
                          const char *headers, const char *body, bool told)
{
	struct http_client *client = client_of(service);
	struct http_answer got = {0};
	client->key = key;
	if (!http_client_call(client, method, path, headers, body, &got)) {
		if (told)
			fprintf(stderr, "service: %s %s: %s\n", method, path, client->error);
		http_answer_done(&got);
		return (struct answer){0};
	}
	struct answer answer = {.status = got.status, .headers = got.head, .body = got.body, .body_size = got.body_size};
	if (answer.body_size)
		answer.json = json_loadb(answer.body, answer.body_size, JSON_DECODE_ANY, NULL);
	return answer;
}

struct answer service_call(const struct service *service, const char *key, const char *method, const char *path,
                           const char *headers, const char *body)
{
	return call(service, key, method, path, headers, body, true);
}

struct answer service_try(const struct service *service, const char *key, const char *method, const char *path,
                          const char *headers, const char *body)
{
	return call(service, key, method, path, headers, body, false);
}

void answer_done(struct answer *answer)
{
	json_decref(answer->json);
	free(answer->headers);
	free(answer->body);
	*answer = (struct answer){0};
}

const char *answer_header(const struct answer *answer, const char *name)
{
	struct http_answer view = {.head = answer->headers};
	const char *value = answer->headers ? http_answer_field(&view, name) : NULL;
	return value ? value : "";
}

json_t *answer_at(const struct answer *answer, const char *path)
{
	json_t *at = answer->json;
	while (at && *path) {
		size_t size = strcspn(path, ".");
		char name[128];
		snprintf(name, sizeof name, "%.*s", (int)size, path);
		at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
		path += size + (path[size] == '.');
	}
	return at;
}

int64_t answer_int(const struct answer *answer, const char *path)
{
	const json_t *value = answer_at(answer, path);
	return json_is_integer(value) ? json_integer_value(value) : INT64_MIN;
}

const char *answer_string(const struct answer *answer, const char *path)
{
	const char *value = json_string_value(answer_at(answer, path));
	return value ? value : "";
}

/* --- the stock's words -------------------------------------------------------------------------------------------- */

const char *service_new_key(void)
{
	static _Thread_local char ring[8][40];
	static _Thread_local unsigned next;
	uint64_t words[2];
	if (getrandom(words, sizeof words, 0) != sizeof words)
		die("getrandom: %s", strerror(errno));
	char *out = ring[next++ % 8];
	snprintf(out, sizeof ring[0], "%016llx%016llx", (unsigned long long)words[0], (unsigned long long)words[1]);
	return out;
}

/* Percent-encodes all but the unreserved characters of RFC 3986. */
static const char *sku_path(const char *prefix, const char *sku, const char *suffix, char out[600])
{
	char *to = stpcpy(out, prefix);
	for (; *sku && to < out + 500; sku++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", *sku))
			*to++ = *sku;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*sku);
	strcpy(to, suffix);
	return out;
}

/* One call with its fields as JSON; returns the status. */
static int post(const struct service *service, const char *key, const char *path, json_t *body, char ret_id[37])
{
	char *text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	struct answer answer = service_call(service, key, "POST", path, NULL, text);
	free(text);
	int status = answer.status;
	if (ret_id)
		snprintf(ret_id, 37, "%s", status < 300 ? answer_string(&answer, "id") : "");
	answer_done(&answer);
	return status;
}

void service_create_sku(const struct service *service, const char *sku, int64_t on_hand)
{
	char path[600], body[64];
	snprintf(body, sizeof body, "{\"on_hand\":%lld}", (long long)on_hand);
	struct answer answer = service_call(service, service->key_admin, "PUT", sku_path("/v1/skus/", sku, "", path), NULL,
	                                    body);
	if (answer.status != 201)
		die("PUT %s answered %d: %s", path, answer.status, answer.body ? answer.body : "nothing");
	answer_done(&answer);
}

static json_t *cart(const char *idempotency_key, const char *sku, int64_t quantity)
{
	return json_pack("{s:s,s:[{s:s,s:I}]}", "idempotency_key", idempotency_key ? idempotency_key : service_new_key(),
	                 "lines", "sku", sku, "quantity", (json_int_t)quantity);
}

int service_sell(const struct service *service, const char *key, const char *idempotency_key, const char *sku,
                 int64_t quantity)
{
	return post(service, key, "/v1/checkouts", cart(idempotency_key, sku, quantity), NULL);
}

int service_reserve(const struct service *service, const char *key, const char *idempotency_key, const char *sku,
                    int64_t quantity, int64_t ttl_s, char ret_id[37])
{
	json_t *body = cart(idempotency_key, sku, quantity);
	if (ttl_s)
		json_object_set_new(body, "ttl_seconds", json_integer(ttl_s));
	return post(service, key, "/v1/reservations", body, ret_id);
}

int service_end(const struct service *service, const char *key, const char *reservation_id, const char *what)
{
	char path[128];
	snprintf(path, sizeof path, "/v1/reservations/%s/%s", reservation_id, what);
	return post(service, key, path, json_object(), NULL);
}

int service_adjust(const struct service *service, const char *sku, int64_t delta)
{
	return post(service, service->key_admin, "/v1/adjustments",
	            json_pack("{s:s,s:s,s:[{s:s,s:I}]}", "idempotency_key", service_new_key(), "reason", "test", "lines",
	                      "sku", sku, "delta", (json_int_t)delta),
	            NULL);
}

struct seen service_see(const struct service *service, const char *sku)
{
	char path[600];
	struct answer answer = service_call(service, service->key_admin, "GET",
	                                    sku_path("/v1/availability/", sku, "", path), NULL, NULL);
	struct seen seen = {.status = answer.status};
	if (answer.status == 200) {
		seen.tracked = json_is_true(answer_at(&answer, "tracked"));
		seen.available = seen.tracked ? answer_int(&answer, "available") : 0;
		seen.held = answer_int(&answer, "held");
		seen.version = answer_int(&answer, "version");
	}
	answer_done(&answer);
	return seen;
}

struct row service_row(const struct service *service, const char *sku)
{
	char path[600];
	struct answer answer = service_call(service, service->key_admin, "GET", sku_path("/v1/skus/", sku, "", path), NULL,
	                                    NULL);
	struct row row = {.status = answer.status};
	if (answer.status == 200) {
		row.on_hand = answer_int(&answer, "on_hand");
		row.reserved = answer_int(&answer, "reserved");
		row.safety_stock = answer_int(&answer, "safety_stock");
		row.version = answer_int(&answer, "version");
		row.tracked = json_is_true(answer_at(&answer, "tracked"));
	}
	answer_done(&answer);
	return row;
}

int64_t service_ledger_count(const struct service *service, const char *sku, const char *kind)
{
	char path[600], query[64] = "/ledger?limit=500";
	int64_t count = 0;
	for (;;) {
		struct answer answer = service_call(service, service->key_admin, "GET", sku_path("/v1/skus/", sku, query, path),
		                                    NULL, NULL);
		if (answer.status != 200) {
			answer_done(&answer);
			return -1;
		}
		size_t i;
		json_t *entry;
		json_array_foreach(answer_at(&answer, "items"), i, entry)
		{
			const char *found = json_string_value(json_object_get(entry, "kind"));
			count += !kind || (found && strcmp(found, kind) == 0);
		}
		const char *next = answer_string(&answer, "next");
		bool more = *next;
		snprintf(query, sizeof query, "/ledger?limit=500&after=%.20s", next);
		answer_done(&answer);
		if (!more)
			return count;
	}
}
