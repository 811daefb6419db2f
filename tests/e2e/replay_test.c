/* `lastunit replay`: real orders through all six channels at once, and a verdict that can be bad.
 *
 * It plays shared/data/online-retail.csv if that lies beside the repository, else a generated file with the same traps; the
 * first REPLAY_LINES lines of it (environment; 0: all).
 *
 * Bugs it guards against: everything at once (B01, B06, B11, B12, B40, B74), and a replay that says yes to anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <arpa/inet.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/text.h"
#include "cmd/file_read.h"
#include "cmd/orders.h"
#include "lib/command.h"
#include "lib/orders_generator.h"
#include "lib/pg_server.h"
#include "lib/service.h"

#define LINES "6000"

static struct service service;
static char directory[] = "/tmp/replay-test-XXXXXX";
static char values[10][600];
static const char *variables[11];

/* Above the test binary's build directory, or where the test was started. */
static bool find_real_file(char path[PATH_MAX])
{
	static const char name[] = "shared/data/online-retail.csv";
	char at[PATH_MAX / 2];
	ssize_t size = readlink("/proc/self/exe", at, sizeof at - 1);
	assert_true(size > 0);
	at[size] = 0;
	snprintf(path, PATH_MAX, "../%s", name);
	if (access(path, R_OK) == 0)
		return true;
	for (char *up = dirname(at); strcmp(up, "/") != 0; up = dirname(up)) {
		snprintf(path, PATH_MAX, "%s/%s", up, name);
		if (access(path, R_OK) == 0)
			return true;
	}
	return false;
}

static void generate(const char *path, uint64_t seed, size_t invoices, size_t skus)
{
	struct buffer file = {0};
	orders_generate(&(struct orders_generator){.seed = seed, .invoices = invoices, .skus = skus}, &file);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(file.data, 1, file.size, out), file.size);
	fclose(out);
	buffer_done(&file);
}

struct played {
	int exit_code;
	json_t *json;
	char err[600], out[4000];
};

static struct played play(const char *path, const char *lines)
{
	const char *arguments[] = {"replay", path, "--json", "--clients", "32", "--lines", lines, NULL};
	struct command command = command_run(arguments, variables);
	struct played played = {command.exit_code, json_loads(command.out, 0, NULL), "", ""};
	snprintf(played.err, sizeof played.err, "%s", command.err);
	command_done(&command);
	return played;
}

static int64_t number(json_t *json, const char *key)
{
	json_t *value = json_object_get(json, key);
	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

/* What went wrong, on stderr, before an assertion ends the test. */
static void show(const struct played *played)
{
	char *text = json_dumps(played->json, JSON_INDENT(1));
	fprintf(stderr, "exit code %d\n%s%s\n", played->exit_code, played->err, text ? text : "");
	free(text);
}

static void assert_kept(const struct played *played)
{
	bool kept = played->exit_code == 0 && json_is_true(json_object_get(played->json, "kept"));
	if (!kept)
		show(played);
	assert_true(kept);
	assert_int_equal(number(played->json, "violations"), 0);
	json_t *audit = json_object_get(played->json, "audit");
	assert_true(json_is_true(json_object_get(audit, "sound")));
	/* the cells were compared, or could not be because none is served */
	assert_true(number(audit, "skus") > 0);
}

/* The counts of the report agree with the file and among themselves. */
static void assert_counts(const struct played *played, const struct order_book *book)
{
	int64_t of_kind[ORDER_KINDS] = {0}, carts = 0, sold = 0, refused = 0, expired = 0, units = 0, retried = 0;
	for (size_t i = 0; i < book->order_count; i++)
		of_kind[book->orders[i].kind]++;
	json_t *channels = json_object_get(played->json, "channels");
	assert_int_equal(json_array_size(channels), 6);
	for (size_t i = 0; i < 6; i++) {
		json_t *channel = json_array_get(channels, i);
		assert_true(number(channel, "carts") > 0 && number(channel, "sold") > 0);
		assert_true(number(channel, "p50_us") > 0 && number(channel, "p50_us") <= number(channel, "p99_us"));
		carts += number(channel, "carts");
		sold += number(channel, "sold");
		refused += number(channel, "refused");
		expired += number(channel, "expired");
		units += number(channel, "units");
		retried += number(channel, "retried");
	}
	assert_int_equal(number(played->json, "lines"), book->line_count);
	assert_int_equal(number(played->json, "skus"), book->sku_count);
	assert_int_equal(number(played->json, "orders"), book->order_count);
	assert_int_equal(carts, of_kind[ORDER_SALE]);
	assert_int_equal(number(played->json, "cancellations"), of_kind[ORDER_CANCELLATION]);
	assert_int_equal(number(played->json, "write_offs"), of_kind[ORDER_WRITE_OFF]);
	/* every cart has one end; 60 % of the stock leaves some without, and one in ten is left to expire */
	assert_int_equal(sold + refused + expired, carts);
	assert_true(refused > 0);
	assert_true(expired > carts / 30);
	assert_true(number(played->json, "reads") >= sold);
	assert_true(number(played->json, "replays") > 0);
	char sql[300];
	snprintf(sql, sizeof sql, "SELECT sum(-on_hand_delta) FROM lastunit.ledger WHERE kind IN (2, 4)");
	assert_int_equal(units, strtoll(pg_server_ask(service.database_url, sql), NULL, 10));
	assert_int_equal(sold,
	                 strtoll(pg_server_ask(service.database_url, "SELECT count(*) FROM lastunit.checkout"), NULL, 10));
	static const char *const moved[][2] = {{"restocked_units", "7"}, {"written_off_units", "8"}};
	for (size_t i = 0; i < 2; i++) {
		snprintf(sql, sizeof sql, "SELECT coalesce(sum(abs(on_hand_delta)), 0) FROM lastunit.ledger WHERE kind = %s",
		         moved[i][1]);
		assert_int_equal(number(played->json, moved[i][0]),
		                 strtoll(pg_server_ask(service.database_url, sql), NULL, 10));
	}
	assert_true(retried > 0);
}

static void a_file_of_orders_keeps_every_promise(void **state)
{
	char path[PATH_MAX];
	const char *lines = getenv("REPLAY_LINES") ? getenv("REPLAY_LINES") : LINES;
	if (!find_real_file(path)) {
		snprintf(path, sizeof path, "%s/orders.csv", directory);
		generate(path, 1, 500, 900);
	}
	struct buffer file = {0};
	struct arena arena;
	struct order_book book;
	char why[CSV_WHY_BYTES];
	arena_init(&arena, 1 << 16);
	assert_true(file_read(path, &file, why));
	assert_true(orders_read(&book, &arena, buffer_text(&file), &(struct csv_format){.encoding = "ISO-8859-1"},
	                        strtoll(lines, NULL, 10), why));
	struct played played = play(path, lines);
	assert_kept(&played);
	assert_counts(&played, &book);
	json_decref(played.json);
	buffer_done(&file);
	arena_done(&arena);
}

static void it_can_be_played_again_on_the_same_stock(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/again.csv", directory);
	generate(path, 2, 120, 80);
	for (int i = 0; i < 2; i++) {
		struct played played = play(path, "0");
		assert_kept(&played);
		json_decref(played.json);
	}
}

struct thief {
	pthread_t thread;
	_Atomic bool stop;
	int taken;
};

/* Somebody else sells the same SKU meanwhile. */
static void *steal(void *argument)
{
	struct thief *thief = argument;
	while (!thief->stop)
		thief->taken += service_sell(&service, service.key_pos, NULL, "25000", 1) == 201;
	return NULL;
}

static void units_that_no_client_was_answered_are_seen(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/theft.csv", directory);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("InvoiceNo,StockCode,Quantity\n", file);
	for (int i = 0; i < 300; i++)
		fprintf(file, "%d,25000,20\n", i);
	fclose(file);
	struct thief thief = {0};
	assert_int_equal(pthread_create(&thief.thread, NULL, steal, &thief), 0);
	struct played played = play(path, "0");
	thief.stop = true;
	pthread_join(thief.thread, NULL);
	assert_true(thief.taken > 0);
	assert_int_equal(played.exit_code, 1);
	assert_false(json_is_true(json_object_get(played.json, "kept")));
	assert_true(number(played.json, "violations") > 0);
	assert_non_null(
		strstr(json_string_value(json_array_get(json_object_get(played.json, "violation"), 0)), "25000 has"));
	json_decref(played.json);
}

/* What they hold would be missing at the end, and a shop without a fault called broken. */
static void units_that_others_hold_are_told_before_the_first_order(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/held.csv", directory);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("InvoiceNo,StockCode,Quantity\n1,held-sku,5\n", file);
	fclose(file);
	char hold[37];
	service_create_sku(&service, "held-sku", 5);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "held-sku", 1, 600, hold), 201);
	struct command command = command_run((const char *[]){"replay", path, NULL}, variables);
	assert_int_equal(command.exit_code, 1);
	assert_string_equal(command.out, "");
	assert_non_null(strstr(command.err, "stopped before the first order: SKU held-sku has 1 reserved by others"));
	command_done(&command);
}

/* --- a service that lies ------------------------------------------------------------------------------------------ */

enum lie {
	LIE_NONE,
	LIE_OLD_VERSION,
	LIE_OTHER_ANSWER,
	LIE_OTHER_STATUS,
	LIE_NOT_MARKED,
	LIE_NO_ANSWER,
	LIE_BUSY, /* the first time; no lie */
	LIE_REFUSAL,
	LIE_NO_STOCK,
	LIE_OVERSOLD, /* more than it was given */
	LIE_HELD,
	LIE_NEVER_EXPIRED,
	LIE_UNKNOWN,
};

/* One SKU, one connection after the other, and as much of the API as a replay of sales asks for. */
struct liar {
	pthread_t thread;
	int listener, port;
	enum lie lie;
	int sold, version;
	char last_key[100], busy_key[100], last_id[40];
};

static void liar_say(int fd, int status, const char *extra, const char *body)
{
	char answer[600];
	int size = snprintf(answer, sizeof answer,
	                    "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s", status,
	                    extra, strlen(body), body);
	(void)!write(fd, answer, (size_t)size);
}

static void liar_answer(struct liar *liar, int fd, const char *head)
{
	char body[300] = "{}", extra[60] = "", key[100] = "";
	const char *at = strstr(head, "Idempotency-Key: ");
	if (at)
		snprintf(key, sizeof key, "%.*s", (int)strcspn(at + 17, "\r"), at + 17);
	int status = 200;
	if (strncmp(head, "PUT ", 4) == 0)
		status = liar->lie == LIE_NO_STOCK ? 422 : 201;
	else if (strncmp(head, "POST ", 5) == 0) {
		bool again = strcmp(key, liar->last_key) == 0, commit = strstr(head, "/commit HTTP") != NULL;
		bool first = liar->lie == LIE_BUSY && strcmp(key, liar->busy_key) != 0;
		snprintf(liar->busy_key, sizeof liar->busy_key, "%s", key);
		if (first) {
			liar_say(fd, 503, "", body);
			return;
		}
		liar->version += !again;
		liar->sold += !again && (commit || strncmp(head + 5, "/v1/checkouts ", 14) == 0);
		if (!again || liar->lie == LIE_OTHER_ANSWER)
			snprintf(liar->last_id, sizeof liar->last_id, "00000000-0000-7000-8000-%012d",
			         liar->version + (again ? 1000 : 0));
		snprintf(liar->last_key, sizeof liar->last_key, "%s", key);
		snprintf(extra, sizeof extra, again && liar->lie != LIE_NOT_MARKED ? "Idempotent-Replayed: true\r\n" : "");
		status = liar->lie == LIE_NO_ANSWER               ? 503
		         : liar->lie == LIE_REFUSAL               ? 422
		         : again && liar->lie == LIE_OTHER_STATUS ? 409
		         : commit                                 ? 200
		                                                  : 201;
		snprintf(body, sizeof body, "{\"id\":\"%s\",\"lines\":[{\"sku\":\"A\",\"quantity\":1,\"version\":%d}]}",
		         liar->last_id, 1 + liar->version);
	} else if (strncmp(head, "GET /v1/availability/A ", 23) == 0) {
		status = liar->lie == LIE_UNKNOWN ? 404 : 200;
		snprintf(body, sizeof body, "{\"version\":%d}", (liar->lie == LIE_OLD_VERSION ? 0 : 1) + liar->version);
	} else if (strncmp(head, "GET /v1/skus/A ", 15) == 0)
		snprintf(body, sizeof body, "{\"on_hand\":%d,\"reserved\":%d}", 20 - liar->sold, liar->lie == LIE_HELD);
	else if (strncmp(head, "GET /v1/reservations/", 21) == 0)
		strcpy(body, liar->lie == LIE_NEVER_EXPIRED ? "{\"status\":\"released\"}" : "{\"status\":\"expired\"}");
	liar_say(fd, status, extra, body);
}

/* Until the test shuts the listener down. */
static void *liar_run(void *argument)
{
	struct liar *liar = argument;
	int fd;
	while ((fd = accept(liar->listener, NULL, NULL)) >= 0) {
		char input[65536];
		size_t size = 0;
		ssize_t got;
		while ((got = read(fd, input + size, sizeof input - size - 1)) > 0) {
			input[size += (size_t)got] = 0;
			char *end = strstr(input, "\r\n\r\n");
			char *length = strstr(input, "Content-Length: ");
			if (!end ||
			    size < (size_t)(end + 4 - input) + (length && length < end ? strtoul(length + 16, NULL, 10) : 0))
				continue;
			*end = 0;
			liar_answer(liar, fd, input);
			size = 0;
		}
		close(fd);
	}
	return NULL;
}

/* 20 carts of one unit each. `json` false: what it told people is `out`. */
static struct played play_against_with(enum lie lie, bool json, const char *database_url)
{
	struct liar liar = {.listener = socket(AF_INET, SOCK_STREAM, 0), .lie = lie};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	assert_int_equal(bind(liar.listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(liar.listener, 10), 0);
	assert_int_equal(getsockname(liar.listener, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(pthread_create(&liar.thread, NULL, liar_run, &liar), 0);
	char path[200], url[60];
	snprintf(path, sizeof path, "%s/lies.csv", directory);
	snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("InvoiceNo,StockCode,Quantity\n", file);
	for (int i = 0; i < 20; i++)
		fprintf(file, "%d,A,1\n", i);
	fclose(file);
	const char *arguments[] = {"replay",
	                           path,
	                           json ? "--json" : "--no-json",
	                           "--clients",
	                           "1",
	                           "--percent",
	                           lie == LIE_OVERSOLD ? "50" : "100",
	                           "--url",
	                           url,
	                           "--answer-timeout-ms",
	                           "1000",
	                           "--database-url",
	                           database_url,
	                           NULL};
	struct command command = command_run(arguments, variables);
	struct played played = {command.exit_code, json_loads(command.out, 0, NULL), "", ""};
	snprintf(played.err, sizeof played.err, "%s", command.err);
	snprintf(played.out, sizeof played.out, "%s", command.out);
	command_done(&command);
	shutdown(liar.listener, SHUT_RDWR);
	pthread_join(liar.thread, NULL);
	close(liar.listener);
	return played;
}

static struct played play_against(enum lie lie)
{
	return play_against_with(lie, true, "");
}

static void a_service_that_lies_is_found_out(void **state)
{
	static const struct {
		enum lie lie;
		const char *violation; /* NULL: none */
	} lies[] = {
		{LIE_NONE, NULL},
		{LIE_OLD_VERSION, "A went back: version 2 was answered, then a read showed 1"},
		{LIE_OTHER_ANSWER, "with the same key again: first 20"},
		{LIE_OTHER_STATUS, "with the same key again: first 20"},
		{LIE_NOT_MARKED, ", not marked as replayed"},
		{LIE_NO_ANSWER, "was not answered: only 5xx"},
		{LIE_BUSY, NULL},
		{LIE_REFUSAL, "order 0: 422 : "},
		{LIE_OVERSOLD, "A is oversold: received 10, sold 18, restocked 0, written off 0"},
		{LIE_HELD, "A has 2 on hand and 1 reserved; by the answers 2 are left"},
		{LIE_NEVER_EXPIRED, "is released, 200"},
		{LIE_UNKNOWN, "availability of A: 404"},
	};
	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		struct played played = play_against(lies[i].lie);
		const char *first = json_string_value(json_array_get(json_object_get(played.json, "violation"), 0));
		bool seen = lies[i].violation ? first && strstr(first, lies[i].violation) : !first;
		if (!seen || played.exit_code != (lies[i].violation ? 1 : 0))
			show(&played);
		assert_true(seen);
		assert_int_equal(played.exit_code, lies[i].violation ? 1 : 0);
		json_decref(played.json);
	}
}

static void expect_told(const struct played *played, const char *words)
{
	if (!strstr(played->out, words))
		fail_msg("no \"%s\" in\n%s%s", words, played->out, played->err);
}

/* Each sale is of one unit, and nothing is refused. */
static void expect_row(const struct played *played, const char *channel, int carts, int sold, int expired)
{
	char row[100];
	snprintf(row, sizeof row, "\n%-12s %7d %7d %7d %7d %7d %9d ", channel, carts, sold, 0, 0, expired, sold);
	expect_told(played, row);
}

/* For people: the same as for programs. */
static void what_was_played_is_told_in_words(void **state)
{
	struct played played = play_against_with(LIE_NONE, false, "");
	assert_int_equal(played.exit_code, 0);
	expect_told(&played, "20 lines, 1 SKU, 20 orders by 1 client in ");
	expect_row(&played, "web", 4, 4, 0);
	expect_row(&played, "agent", 3, 2, 1);
	expect_row(&played, "all", 20, 18, 2);
	expect_told(&played, "\n0 cancellations brought back 0 units (0 found nothing to bring back)\n");
	expect_told(&played, "\n0 write-offs of 0 units, 0 refused\n");
	expect_told(&played, "\nnot audited: no --database-url\nthe clients saw no promise broken\n");
	played = play_against_with(LIE_OLD_VERSION, false, "");
	assert_int_equal(played.exit_code, 1);
	expect_told(&played, "\nBROKEN   A went back: version 2 was answered, then a read showed 1\n");
	/* A verdict without its audit is none. */
	played = play_against_with(LIE_NONE, false, "host=/nonexistent");
	assert_int_equal(played.exit_code, 3);
	assert_non_null(strstr(played.err, "lastunit replay: the audit: PostgreSQL cannot be reached"));
}

/* What no client can see, the books can. */
static void what_the_audit_finds_is_the_verdict(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/audited.csv", directory);
	generate(path, 3, 20, 20);
	pg_server_ask(service.database_url,
	              "INSERT INTO lastunit.hold VALUES (1, now() + interval '1 day',"
	              " '00000000-0000-7000-8000-000000000099', 1, false)");
	struct played played = play(path, "0");
	pg_server_ask(service.database_url,
	              "DELETE FROM lastunit.hold WHERE reservation_id = '00000000-0000-7000-8000-000000000099'");
	assert_int_equal(number(played.json, "violations"), 0);
	assert_false(json_is_true(json_object_get(json_object_get(played.json, "audit"), "sound")));
	assert_false(json_is_true(json_object_get(played.json, "kept")));
	assert_int_equal(played.exit_code, 1);
	json_decref(played.json);
}

static void codes_that_break_the_rule_are_named_and_left_out(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/codes.csv", directory);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("InvoiceNo,StockCode,Quantity\n", file);
	for (int i = 0; i < 60; i++)
		fprintf(file, "%d,code-ok,2\n%d,code-bad ,2\n", i, i);
	fclose(file);
	struct played played = play(path, "0");
	assert_kept(&played);
	assert_int_equal(number(played.json, "left_out"), 1);
	assert_int_equal(number(played.json, "skus"), 1);
	assert_non_null(strstr(played.err, "\"code-bad \": not a SKU code (60 lines, the first is 3)"));
	json_decref(played.json);
	assert_int_equal(service_row(&service, "code-bad").status, 404);
}

static void exit_codes_tell_the_user_from_the_backend(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/codes.csv", directory);
	struct command command = command_run((const char *[]){"replay", path, NULL}, NULL);
	assert_int_equal(command.exit_code, 2);
	command_done(&command);
	command = command_run((const char *[]){"replay", path, "--key-voice", "lu_nobody", NULL}, variables);
	assert_int_equal(command.exit_code, 2);
	assert_non_null(strstr(command.err, "does not take the key of voice"));
	command_done(&command);
	command = command_run((const char *[]){"replay", path, "--url", "127.0.0.1:1", NULL}, variables);
	assert_int_equal(command.exit_code, 2);
	assert_string_equal(command.err, "lastunit replay: --url is http://HOST:PORT\n");
	command_done(&command);
	command = command_run((const char *[]){"replay", path, "--url", "http://127.0.0.1:1", NULL}, variables);
	assert_int_equal(command.exit_code, 3);
	command_done(&command);
}

/* Nothing was played: whoever reads "every promise holds" below zeros believes that it was. */
static void what_could_not_begin_has_no_verdict(void **state)
{
	char path[200];
	snprintf(path, sizeof path, "%s/codes.csv", directory);
	struct command command = command_run((const char *[]){"replay", path, "--key-admin", service.key_web, NULL},
	                                     variables);
	assert_int_equal(command.exit_code, 1);
	assert_string_equal(command.out, "");
	assert_non_null(strstr(command.err, "lastunit replay: the key of admin lacks the scope stock\n"));
	command_done(&command);
	struct command made = command_run((const char *[]){"key", "create", "--principal", "reader", "--channel", "pos",
	                                                   "--scopes", "read", NULL},
	                                  variables);
	made.out[strcspn(made.out, "\n")] = 0;
	command = command_run((const char *[]){"replay", path, "--key-pos", made.out, NULL}, variables);
	assert_int_equal(command.exit_code, 1);
	assert_string_equal(command.out, "");
	assert_non_null(strstr(command.err, "lastunit replay: the key of pos lacks the scope sell\n"));
	command_done(&command);
	command_done(&made);
	snprintf(path, sizeof path, "%s/nothing.csv", directory);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("InvoiceNo,StockCode,Quantity\n1,code-ok,2.0\n", file);
	fclose(file);
	command = command_run((const char *[]){"replay", path, NULL}, variables);
	assert_int_equal(command.exit_code, 1);
	assert_string_equal(command.out, "");
	assert_non_null(strstr(command.err, "left out: \"2.0\": not a quantity"));
	assert_non_null(strstr(command.err, "nothing.csv: no line of it can be played\n"));
	command_done(&command);
	struct played played = play_against(LIE_NO_STOCK);
	assert_int_equal(played.exit_code, 1);
	assert_null(played.json);
	assert_non_null(strstr(played.err, "stopped before the first order: SKU A could not be stocked: 422"));
}

static int start(void **state)
{
	service_start(&service, NULL);
	const char *const pairs[][2] = {{"URL", service.url},
	                                {"DATABASE_URL", service.database_url},
	                                {"REDIS_URL", service.redis_url},
	                                {"KEY_ADMIN", service.key_admin},
	                                {"KEY_WEB", service.key_web},
	                                {"KEY_TELEGRAM", service.key_telegram},
	                                {"KEY_AGENT", service.key_agent},
	                                {"KEY_VOICE", service.key_voice},
	                                {"KEY_MARKETPLACE", service.key_marketplace},
	                                {"KEY_POS", service.key_pos}};
	for (int i = 0; i < 10; i++) {
		snprintf(values[i], sizeof values[i], "LASTUNIT_%s=%s", pairs[i][0], pairs[i][1]);
		variables[i] = values[i];
	}
	return mkdtemp(directory) ? 0 : -1;
}

static int stop(void **state)
{
	char command[100];
	snprintf(command, sizeof command, "rm -r %s", directory);
	(void)!system(command);
	return service_stop(&service);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_orders_keeps_every_promise),
		cmocka_unit_test(it_can_be_played_again_on_the_same_stock),
		cmocka_unit_test(units_that_no_client_was_answered_are_seen),
		cmocka_unit_test(units_that_others_hold_are_told_before_the_first_order),
		cmocka_unit_test(a_service_that_lies_is_found_out),
		cmocka_unit_test(what_was_played_is_told_in_words),
		cmocka_unit_test(what_the_audit_finds_is_the_verdict),
		cmocka_unit_test(codes_that_break_the_rule_are_named_and_left_out),
		cmocka_unit_test(what_could_not_begin_has_no_verdict),
		cmocka_unit_test(exit_codes_tell_the_user_from_the_backend),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
