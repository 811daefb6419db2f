/* lastunit replay: a file of real orders against the service, through every channel at once, with a verdict.
 *
 * Happy path: read the file into carts · play them (replay_run.c) · a table per channel · the audit · exit code 0.
 * Failure modes: codes that break the rule for SKUs are named and left out; a broken promise is exit code 1, and so is a
 * replay that could not begin, without a verdict; a service that is not there is 3.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/audit_run.h"
#include "cmd/cmd.h"
#include "cmd/file_read.h"
#include "cmd/http_caller.h"
#include "cmd/orders.h"
#include "cmd/replay_run.h"

static const struct manual manual = {
	.name = "replay",
	.usage = "replay FILE.csv [options]",
	.about =
		"Plays a file of order lines (InvoiceNo, StockCode, Quantity) against a running service. Every SKU gets 60 % of\n"
		"the units that the file asks for; each invoice becomes a cart, sold by one of the six channels in turn: half\n"
		"by checkout, half by a hold and its commit, one in ten left to expire. Invoices that begin with C bring back\n"
		"units of earlier sales, other negative lines are write-offs. At the end: a table per channel, and whether\n"
		"every promise held. The SKUs of the file are the replay's while it runs: nobody else may hold or change\n"
		"them.\n",
	.shared = "database_url redis_url redis_timeout_ms",
	.examples =
		"  lastunit replay online-retail.csv --url http://127.0.0.1:8080 --key-admin lu_… --key-web lu_… …\n"
		"  set -a; . .lastunit/dev.env; set +a; lastunit replay online-retail.csv\n",
	.exit_codes =
		"  0 every promise held        1 a promise is broken, or the replay could not go on\n"
		"  2 usage or configuration    3 the service or PostgreSQL cannot be reached\n",
	.positionals_max = 1,
};

struct run {
	struct config config;
	const char *path, *encoding;
	int64_t lines;
	bool json;
	struct replay_options options;
	struct order_book book;
	struct arena arena;
	struct replay replay;
	bool audited;
	struct audit audit;
};

static const char *channel_of(int c)
{
	return channel_name((enum channel)(CHANNEL_WEB + c));
}

/* A flag of ours, else its variable (the common ones are config.def's and read by cmd_begin). */
static const char *or_environment(const char *flag, const char *variable)
{
	const char *value = *flag ? flag : getenv(variable);
	return value ? value : "";
}

static int take_keys(struct run *run)
{
	struct replay_options *options = &run->options;
	options->url = or_environment(options->url, "LASTUNIT_URL");
	options->key_admin = or_environment(options->key_admin, "LASTUNIT_KEY_ADMIN");
	if (!*options->url)
		return cmd_fail(&manual, EXIT_USAGE, "--url (or LASTUNIT_URL) is required: http://HOST:PORT");
	if (strncmp(options->url, "http://", 7) != 0 && strncmp(options->url, "https://", 8) != 0)
		return cmd_fail(&manual, EXIT_USAGE, "--url is http://HOST:PORT");
	if (!*options->key_admin)
		return cmd_fail(&manual, EXIT_USAGE, "--key-admin (or LASTUNIT_KEY_ADMIN) is required");
	for (int c = 0; c < REPLAY_CHANNELS; c++) {
		char variable[40] = "LASTUNIT_KEY_";
		size_t at = strlen(variable);
		for (const char *s = channel_of(c); *s; s++)
			variable[at++] = (char)toupper((unsigned char)*s);
		variable[at] = '\0';
		options->keys[c] = or_environment(options->keys[c], variable);
		if (!*options->keys[c])
			return cmd_fail(&manual, EXIT_USAGE, "--key-%s (or %s) is required", channel_of(c), variable);
	}
	return CMD_GO_ON;
}

static int read_orders(struct run *run)
{
	struct buffer file = {0};
	char why[CSV_WHY_BYTES];
	int code = CMD_GO_ON;
	struct csv_format format = {.encoding = strcmp(run->encoding, "UTF-8") == 0 ? NULL : run->encoding};
	if (!file_read(run->path, &file, why))
		code = cmd_fail(&manual, EXIT_USAGE, "%s", why);
	else if (!orders_read(&run->book, &run->arena, buffer_text(&file), &format, run->lines, why))
		code = cmd_fail(&manual, EXIT_FAILED, "%s: %s", run->path, why);
	buffer_done(&file);
	for (size_t i = 0; code == CMD_GO_ON && i < run->book.skip_count; i++)
		fprintf(stderr, "left out: \"%.*s\": %s (%lld %s, the first is %lld)\n", (int)run->book.skips[i].what.size,
		        run->book.skips[i].what.data, run->book.skips[i].why, (long long)run->book.skips[i].count,
		        text_plural(run->book.skips[i].count, "line", "lines"), (long long)run->book.skips[i].line);
	if (code == CMD_GO_ON && !run->book.order_count)
		code = cmd_fail(&manual, EXIT_FAILED, "%s: no line of it can be played", run->path);
	return code;
}

/* Asks without effect: a body without lines is refused, and before that a key that lacks the scope. */
static int knock_with(struct http_caller *caller, const struct run *run, const char *name, const char *key,
                      const char *write, const char *scope)
{
	struct http_answer answer = http_call(caller, "GET", "/v1/availability?sku=replay", TEXT(""), key, NULL);
	if (answer.status == 401)
		return cmd_fail(&manual, EXIT_USAGE, "the service does not take the key of %s", name);
	if (answer.status == 403)
		return cmd_fail(&manual, EXIT_FAILED, "the key of %s lacks the scope read", name);
	if (answer.status)
		answer = http_call(caller, "POST", write, TEXT("{}"), key, NULL);
	if (answer.status == 0)
		return cmd_fail(&manual, EXIT_BACKEND, "%s: %s", run->options.url, http_caller_error(caller));
	if (answer.status == 403)
		return cmd_fail(&manual, EXIT_FAILED, "the key of %s lacks the scope %s", name, scope);
	return CMD_GO_ON;
}

/* Is there a service, and may the keys do what they are for? */
static int knock(struct run *run)
{
	struct http_caller *caller = http_caller_new(run->options.url, 5000);
	int code = knock_with(caller, run, "admin", run->options.key_admin, "/v1/adjustments", "stock");
	for (int c = 0; code == CMD_GO_ON && c < REPLAY_CHANNELS; c++)
		code = knock_with(caller, run, channel_of(c), run->options.keys[c], "/v1/checkouts", "sell");
	http_caller_free(caller);
	return code;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static double per_second(const struct run *run, int64_t count)
{
	return run->replay.play_ns ? (double)count * 1e9 / (double)run->replay.play_ns : 0;
}

static struct replay_channel *total(const struct run *run)
{
	struct replay_channel *all = calloc(1, sizeof *all);
	for (int c = 0; all && c < REPLAY_CHANNELS; c++) {
		const struct replay_channel *one = &run->replay.channels[c];
		all->carts += one->carts;
		all->sold += one->sold;
		all->refused += one->refused;
		all->retried += one->retried;
		all->expired += one->expired;
		all->units += one->units;
		histogram_add(&all->latency, &one->latency);
	}
	return all;
}

/* Of no answer there is no time. */
static void print_time(const struct replay_channel *c, int percentile)
{
	if (c->latency.count)
		printf(" %8.1f ms", (double)histogram_percentile(&c->latency, percentile) / 1000);
	else
		printf(" %11s", "-");
}

static void print_row(const struct run *run, const char *name, const struct replay_channel *c)
{
	printf("%-12s %7lld %7lld %7lld %7lld %7lld %9lld", name, (long long)c->carts, (long long)c->sold,
	       (long long)c->refused, (long long)c->retried, (long long)c->expired, (long long)c->units);
	print_time(c, 50);
	print_time(c, 99);
	printf(" %9.0f\n", per_second(run, c->carts));
}

static void print_report(const struct run *run, const struct replay_channel *all)
{
	const struct replay *replay = &run->replay;
	const struct replay_counts *n = &replay->counts;
	const struct order_book *book = &run->book;
	int64_t clients = run->options.clients;
	printf("%lld %s, %zu %s, %zu %s by %lld %s in %.1f s\n\n", (long long)book->line_count,
	       text_plural(book->line_count, "line", "lines"), book->sku_count,
	       text_plural((int64_t)book->sku_count, "SKU", "SKUs"), book->order_count,
	       text_plural((int64_t)book->order_count, "order", "orders"), (long long)clients,
	       text_plural(clients, "client", "clients"), (double)replay->play_ns / 1e9);
	printf("%-12s %7s %7s %7s %7s %7s %9s %11s %11s %9s\n", "channel", "carts", "sold", "refused", "retried", "expired",
	       "units", "p50", "p99", "carts/s");
	for (int c = 0; c < REPLAY_CHANNELS; c++)
		print_row(run, channel_of(c), &replay->channels[c]);
	print_row(run, "all", all);
	printf("\n%lld %s brought back %lld %s (%lld found nothing to bring back)\n", (long long)n->cancellations,
	       text_plural(n->cancellations, "cancellation", "cancellations"), (long long)n->restocked_units,
	       text_plural(n->restocked_units, "unit", "units"), (long long)n->nothing_to_restock);
	printf("%lld %s of %lld %s, %lld refused\n", (long long)n->write_offs,
	       text_plural(n->write_offs, "write-off", "write-offs"), (long long)n->written_off_units,
	       text_plural(n->written_off_units, "unit", "units"), (long long)n->write_offs_refused);
	printf(
		"%lld %s, %lld of them reads after a write; %lld repeated for want of an answer, %lld replayed on purpose\n\n",
		(long long)n->calls, text_plural(n->calls, "call", "calls"), (long long)n->reads, (long long)n->repeats,
		(long long)n->replays);
	if (run->audited)
		audit_print(&run->audit, stdout);
	else
		printf("not audited: no --database-url\n");
	for (int64_t i = 0; i < replay->violations && i < REPLAY_VIOLATIONS_SHOWN; i++)
		printf("BROKEN   %s\n", replay->violation[i]);
	if (replay->violations > REPLAY_VIOLATIONS_SHOWN)
		printf("         … and %lld more\n", (long long)(replay->violations - REPLAY_VIOLATIONS_SHOWN));
	if (!replay->violations)
		printf("the clients saw no promise broken\n");
}

static void channel_json(const struct run *run, struct json_writer *json, const char *name,
                         const struct replay_channel *c)
{
	json_object_open(json);
	json_member_string(json, "channel", name);
	json_member_int(json, "carts", c->carts);
	json_member_int(json, "sold", c->sold);
	json_member_int(json, "refused", c->refused);
	json_member_int(json, "retried", c->retried);
	json_member_int(json, "expired", c->expired);
	json_member_int(json, "units", c->units);
	json_member_int(json, "p50_us", histogram_percentile(&c->latency, 50));
	json_member_int(json, "p99_us", histogram_percentile(&c->latency, 99));
	json_member_int(json, "carts_per_s", (int64_t)per_second(run, c->carts));
	json_object_close(json);
}

static void report_json(const struct run *run, const struct replay_channel *all, bool kept)
{
	const struct replay *replay = &run->replay;
	const struct replay_counts *n = &replay->counts;
	struct buffer out = {0}, audit = {0};
	struct json_writer json = json_writer(&out);
	json_object_open(&json);
	json_member_bool(&json, "kept", kept);
	json_member_int(&json, "lines", run->book.line_count);
	json_member_int(&json, "merged", run->book.merged_count);
	json_member_int(&json, "skus", (int64_t)run->book.sku_count);
	json_member_int(&json, "orders", (int64_t)run->book.order_count);
	json_member_int(&json, "left_out", (int64_t)run->book.skip_count);
	json_member_int(&json, "clients", run->options.clients);
	json_member_int(&json, "elapsed_ms", replay->play_ns / NS_PER_MS);
	json_key(&json, "channels");
	json_array_open(&json);
	for (int c = 0; c < REPLAY_CHANNELS; c++)
		channel_json(run, &json, channel_of(c), &replay->channels[c]);
	json_array_close(&json);
	json_key(&json, "all");
	channel_json(run, &json, "all", all);
	json_member_int(&json, "cancellations", n->cancellations);
	json_member_int(&json, "restocked_units", n->restocked_units);
	json_member_int(&json, "nothing_to_restock", n->nothing_to_restock);
	json_member_int(&json, "write_offs", n->write_offs);
	json_member_int(&json, "written_off_units", n->written_off_units);
	json_member_int(&json, "write_offs_refused", n->write_offs_refused);
	json_member_int(&json, "calls", n->calls);
	json_member_int(&json, "reads", n->reads);
	json_member_int(&json, "repeats", n->repeats);
	json_member_int(&json, "replays", n->replays);
	json_member_int(&json, "violations", replay->violations);
	json_key(&json, "violation");
	json_array_open(&json);
	for (int64_t i = 0; i < replay->violations && i < REPLAY_VIOLATIONS_SHOWN; i++)
		/* A sentence may have been cut within a character. */
		json_put_string(&json, text_is_utf8(text_of(replay->violation[i])) ? replay->violation[i] : "(not UTF-8)");
	json_array_close(&json);
	json_key(&json, "audit");
	if (run->audited) {
		audit_json(&run->audit, &audit);
		json_put_raw(&json, buffer_text(&audit));
	} else {
		json_put_null(&json);
	}
	json_object_close(&json);
	printf("%.*s\n", (int)out.size, out.data);
	buffer_done(&out);
	buffer_done(&audit);
}

static int conclude(struct run *run, bool to_the_end)
{
	if (!run->replay.play_ns) /* nothing was sold, so no promise was put to the test */
		return cmd_fail(&manual, EXIT_FAILED, "stopped before the first order: %s", run->replay.why);
	struct progress progress = {0};
	struct redis_address address;
	const char *why_address;
	char why[512] = "";
	bool redis = *run->config.redis_url && redis_address_parse(run->config.redis_url, &address, &why_address);
	enum lu_error error = LU_OK;
	if (*run->config.database_url) {
		struct audit_options options = {.database_url = run->config.database_url,
		                                .redis = redis ? &address : NULL,
		                                .redis_timeout_ms = run->config.redis_timeout_ms,
		                                .progress = &progress};
		error = audit_run(&options, &run->arena, &run->audit, why);
		run->audited = !error;
	}
	bool kept = to_the_end && !error && !run->replay.violations && (!run->audited || audit_sound(&run->audit));
	struct replay_channel *all = total(run);
	if (run->json)
		report_json(run, all, kept);
	else
		print_report(run, all);
	free(all);
	if (!to_the_end)
		return cmd_fail(&manual, EXIT_FAILED, "stopped: %s", run->replay.why);
	if (error)
		return cmd_fail(&manual, run->replay.violations ? EXIT_FAILED : EXIT_BACKEND, "the audit: %s", why);
	return kept ? EXIT_OK : EXIT_FAILED;
}

static int replay_file(struct run *run)
{
	int code = take_keys(run);
	if (code == CMD_GO_ON)
		code = read_orders(run);
	if (code != CMD_GO_ON)
		return code;
	http_caller_global_init();
	code = knock(run);
	if (code == CMD_GO_ON) {
		struct progress progress = {0};
		replay_init(&run->replay, &run->options, &run->book, &run->arena);
		bool to_the_end = replay_play(&run->replay, &progress);
		code = conclude(run, to_the_end);
		replay_done(&run->replay);
	}
	http_caller_global_done();
	return code;
}

int cmd_replay(int argc, char **argv)
{
	struct run *run = calloc(1, sizeof *run);
	if (!run)
		return EXIT_FAILED;
	struct replay_options *o = &run->options;
	const struct config_option flags[] = {
		{.name = "database_url", .help = "the service's PostgreSQL, which is audited at the end; empty: no audit"},
		{.name = "redis_url",
	     .help =
	         "the service's Redis, redis://… or unix:///… as for serve: its cells are audited, too; empty: they are not"},
		{.name = "redis_timeout_ms", .help = "limit of one call to Redis in the audit"},
		{"url", CONFIG_STRING, "", 0, 500, "", "the service; or LASTUNIT_URL", &o->url},
		{"key-admin", CONFIG_STRING, "", 0, 200, "", "key with the scopes read and stock; or LASTUNIT_KEY_ADMIN",
	     &o->key_admin},
		{"key-web", CONFIG_STRING, "", 0, 200, "", "keys with read and sell, one of each channel; or LASTUNIT_KEY_WEB",
	     &o->keys[0]},
		{"key-telegram", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_TELEGRAM", &o->keys[1]},
		{"key-agent", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_AGENT", &o->keys[2]},
		{"key-voice", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_VOICE", &o->keys[3]},
		{"key-marketplace", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_MARKETPLACE", &o->keys[4]},
		{"key-pos", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_POS", &o->keys[5]},
		{"clients", CONFIG_INT, "32", 1, 1000, "", "how many at once", &o->clients},
		{"percent", CONFIG_INT, "60", 0, 1000, "%", "of the units that the file asks for are in stock at the start",
	     &o->percent},
		{"hold-ttl-s", CONFIG_INT, "2", 1, 600, "s", "time to live of the holds that are left to expire",
	     &o->hold_ttl_s},
		{"lines", CONFIG_INT, "0", 0, 1000000000, "", "stop reading the file after so many lines; 0: all", &run->lines},
		{"encoding", CONFIG_STRING, "ISO-8859-1", 1, 60, "", "of the file, by iconv's name", &run->encoding},
		{"answer-timeout-ms", CONFIG_INT, "60000", 1000, 600000, "ms",
	     "an answer that takes longer, retries included, is missing", &o->answer_timeout_ms},
		{"json", CONFIG_BOOL, "0", 0, 1, "", "print the result as JSON", &run->json},
		{0}};
	int positionals;
	int code = cmd_begin(&manual, &run->config, flags, argc, argv, &positionals);
	struct redis_address address;
	const char *why;
	if (code == CMD_GO_ON && positionals != 1)
		code = cmd_fail(&manual, EXIT_USAGE, "which file? usage: lastunit %s", manual.usage);
	if (code == CMD_GO_ON && *run->config.database_url)
		code = cmd_check_database_url(&manual, run->config.database_url);
	if (code == CMD_GO_ON && *run->config.redis_url && !redis_address_parse(run->config.redis_url, &address, &why))
		code = cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why);
	if (code == CMD_GO_ON) {
		run->path = argv[1];
		arena_init(&run->arena, 1 << 18);
		code = replay_file(run);
		arena_done(&run->arena);
	}
	free(run);
	return code;
}
