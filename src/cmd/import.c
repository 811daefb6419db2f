/* lastunit import: a CSV file of SKUs, counts and receipts into the stock, once.
 *
 * Happy path: read the file · hash it with the options · connect · is the key known? · rows to a temporary table by
 * COPY · one transaction (import_apply.c) · a summary.
 * Failure modes: a row that cannot be read or applied refuses the file (with --partial itself only), each named with
 * its line; a lost connection runs the whole again on a new one, and the key tells whether it was done already.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/csv_rows.h"
#include "cmd/file_read.h"
#include "cmd/import_apply.h"
#include "cmd/import_print.h"
#include "cmd/import_rows.h"
#include "cmd/import_stage.h"
#include "cmd/import_wait.h"
#include "cmd/progress.h"
#include "cmd/text_map.h"
#include "store/migrate.h"

#define CONNECTIONS_MAX 4
#define CONNECT_MS 5000
#define WAITING_SAID_MS 5000

static const struct manual manual = {
	.name = "import",
	.usage = "import FILE.csv|- [options]",
	.about =
		"Brings a CSV file into the stock; - is standard input. Its first line names the columns, for example:\n\n"
		"  sku,on_hand,title_en,title_ru,names\n"
		"  MUG-RED,24,\"Red mug, 350 ml\",Красная кружка,red mug; red cup\n"
		"  GIFT-BOX,6,Gift box,,\n\n"
		"  sku           its code, exactly as it is sold; one that does not exist is created\n"
		"  on_hand       what was counted: the count becomes this\n"
		"  delta         what came (24) or went (-1): the count moves by this. A row fills on_hand or delta, never\n"
		"                both, and one of them if the file has either column\n"
		"  change_from   what on_hand must be before this row, or the row is refused\n"
		"  safety_stock  units that are kept back from sale\n"
		"  tracked       true or false, yes or no: false is not counted, always in stock and never sold out; new SKUs\n"
		"                are tracked\n"
		"  title_LANG    its title in that language: title_en, title_ru, title_pt-BR\n"
		"  names         what else people call it, with semicolons between\n"
		"  reason        the reference of this row's entry in the ledger\n\n"
		"sku and one other are enough; an empty field leaves what is there. Without --partial all rows are applied or\n"
		"none is. The same file with the same options has its effect once, however often it is imported; --key names\n"
		"the import yourself. No service need be running; one that is notices by itself.\n",
	.shared = "database_url redis_url cell_ttl_s redis_timeout_ms",
	.examples =
		"  set -a; . .lastunit/dev.env; set +a; lastunit import stock.csv    into what `lastunit dev` runs\n"
		"  lastunit import receipts.csv --map sku=Artikel,delta=Menge --separator ';' --encoding ISO-8859-1\n"
		"  lastunit import online-retail.csv --profile online-retail\n",
	.exit_codes =
		"  0 imported, now or before   1 refused or failed; with --partial: some rows were refused\n"
		"  2 usage or configuration    3 PostgreSQL cannot be reached\n",
	.positionals_max = 1,
};

struct flags {
	const char *profile, *map, *encoding, *separator, *key, *reason, *outcomes;
	bool partial, json;
	int64_t timeout_s;
};

/* All about one run of the command. */
struct run {
	struct config config;
	struct flags flags;
	const char *path;
	struct buffer file;
	const struct import_profile *profile;
	const char *map;
	struct csv_format format;
	char key[80];
	struct import_options options;
	struct arena arena;
	struct progress progress;
	int64_t start_ns, waiting_said_ns;

	/* what the file said, in the last pass over it */
	struct import_columns columns;
	bool header_seen;
	int64_t row_count, merged_count;
	struct import_refusal *refusals; /* rows that cannot be read */
	size_t refusal_count, refusal_room;
	struct text_map seen; /* profile: SKU -> index of `firsts` */
	struct first {
		int64_t line;
		struct text sku, titles;
	} * firsts;
	size_t first_count, first_room;
	struct import_stage stage;
	enum lu_error stage_error;
	char why[512];
	bool of_another_schema, may_not; /* why it failed: the user lacks a right */
	bool outcomes_lost;
	struct import_report report;
};

/* --- before the database ------------------------------------------------------------------------------------------ */

static bool separator_read(const char *text, char *ret_separator)
{
	char c = strcmp(text, "\\t") == 0 ? '\t' : text[0];
	if (c == '"' || c == '\n' || c == '\r' || (unsigned char)c >= 0x80 || (strlen(text) != 1 && c != '\t'))
		return false;
	*ret_separator = c;
	return true;
}

/* The key of the import and its fingerprint: SHA-256 of the content and of every option that changes its effect. */
static void make_key(struct run *run)
{
	struct buffer options = {0};
	buffer_add_format(&options,
	                  "import 1\nmap=%s\nencoding=%s\nseparator=%d\none_row_per_sku=%d\npartial=%d\nreason=%s\n",
	                  run->map ? run->map : "", run->format.encoding ? run->format.encoding : "UTF-8",
	                  run->format.separator ? run->format.separator : ',',
	                  run->profile && run->profile->one_row_per_sku, run->flags.partial, run->flags.reason);
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	CHECK(sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) && EVP_DigestUpdate(sha, options.data, options.size) &&
	      EVP_DigestUpdate(sha, run->file.data, run->file.size) &&
	      EVP_DigestFinal_ex(sha, run->options.fingerprint, NULL));
	EVP_MD_CTX_free(sha);
	buffer_done(&options);
	size_t at = (size_t)snprintf(run->key, sizeof run->key, "import:");
	for (int i = 0; i < 32; i++)
		at += (size_t)snprintf(run->key + at, sizeof run->key - at, "%02x", run->options.fingerprint[i]);
	run->options.key = text_of(*run->flags.key ? run->flags.key : run->key);
}

static int prepare(struct run *run)
{
	const struct flags *flags = &run->flags;
	int code = cmd_check_database_url(&manual, run->config.database_url);
	if (code != CMD_GO_ON)
		return code;
	if (*flags->profile && !(run->profile = import_profile_find(flags->profile)))
		return cmd_fail(&manual, EXIT_USAGE, "--profile %s is unknown; there is %s", flags->profile,
		                import_profile_names());
	if (run->profile && *flags->map)
		return cmd_fail(&manual, EXIT_USAGE, "--profile and --map exclude each other: a profile is a map");
	run->map = *flags->map ? flags->map : run->profile ? run->profile->map : NULL;
	run->format.encoding = *flags->encoding ? flags->encoding : run->profile ? run->profile->encoding : NULL;
	if (*flags->separator && !separator_read(flags->separator, &run->format.separator))
		return cmd_fail(&manual, EXIT_USAGE, "--separator is one ASCII character, or \\t");
	if (*flags->key && text_check_key(text_of(flags->key)))
		return cmd_fail(&manual, EXIT_USAGE, "--key: %s", lu_error_mend(LU_INVALID_IDEMPOTENCY_KEY));
	if (text_check_free(text_of(flags->reason), LU_REFERENCE_BYTES_MAX))
		return cmd_fail(&manual, EXIT_USAGE, "--reason has more than 255 bytes, control characters or noncharacters");
	char why[256];
	if (!file_read(run->path, &run->file, why))
		return cmd_fail(&manual, EXIT_USAGE, "%s", why);
	/* What a shop could no longer be told, since the file has its effect once. */
	if (*flags->outcomes && strcmp(flags->outcomes, "-") != 0) {
		int list = open(flags->outcomes, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (list < 0)
			return cmd_fail(&manual, EXIT_USAGE, "--outcomes %s: %s", flags->outcomes, strerror(errno));
		close(list);
	}
	make_key(run);
	run->options.reference = text_of(flags->reason);
	run->options.partial = flags->partial;
	return CMD_GO_ON;
}

/* --- the rows ----------------------------------------------------------------------------------------------------- */

static void refusal_add(struct run *run, int64_t line, struct text sku, const char *code, const char *why)
{
	if (run->refusal_count == run->refusal_room) {
		run->refusal_room = run->refusal_room ? 2 * run->refusal_room : 64;
		run->refusals = reallocarray(run->refusals, run->refusal_room, sizeof *run->refusals);
		CHECK(run->refusals);
	}
	/* A sentence that quotes foreign bytes may have been cut within a character; what is no SKU may be anything, a
	 * megabyte included. */
	struct text shown = text_is_utf8(sku) && sku.size <= LU_SKU_BYTES_MAX ? arena_text(&run->arena, sku) : TEXT("");
	run->refusals[run->refusal_count++] = (struct import_refusal){line, shown, code,
	                                                              arena_text(&run->arena,
	                                                                         text_utf8_part(text_of(why)))};
}

/* A row of a profile whose file names each SKU many times. */
static void first_add(struct run *run, const struct import_row *row)
{
	size_t at;
	if (!text_map_find(&run->seen, row->sku, &at)) {
		if (run->first_count == run->first_room) {
			run->first_room = run->first_room ? 2 * run->first_room : 1024;
			run->firsts = reallocarray(run->firsts, run->first_room, sizeof *run->firsts);
			CHECK(run->firsts);
		}
		bool new;
		struct text sku = arena_text(&run->arena, row->sku);
		at = text_map_add(&run->seen, sku, run->first_count, &new);
		run->firsts[run->first_count++] = (struct first){.line = row->line, .sku = sku};
	} else {
		run->merged_count++;
	}
	if (!run->firsts[at].titles.size)
		run->firsts[at].titles = import_row_titles(&run->columns, row, &run->arena);
}

static bool on_row(const struct csv_row *csv, void *context)
{
	struct run *run = context;
	char why[IMPORT_WHY_BYTES] = "";
	if (!run->header_seen) {
		run->header_seen = true;
		if (import_columns_find(&run->columns, &run->arena, csv, run->map, why))
			return true;
		snprintf(run->why, sizeof run->why, "%s", why);
		return false;
	}
	run->row_count++;
	struct import_row row;
	enum lu_error error = import_row_read(&run->columns, csv, &row, why);
	if (error) {
		int at = run->columns.at[IMPORT_SKU];
		refusal_add(run, csv->line, at < (int)csv->count ? csv->fields[at] : TEXT(""), lu_error_code(error), why);
		return true;
	}
	if (run->profile && run->profile->one_row_per_sku) {
		first_add(run, &row);
		return true;
	}
	struct arena scratch;
	arena_init(&scratch, 512);
	struct text titles = run->columns.title_count ? import_row_titles(&run->columns, &row, &scratch) : TEXT("");
	run->stage_error = import_stage_add(&run->stage, &row, titles);
	arena_done(&scratch);
	progress_show(&run->progress, "%lld %s read", (long long)run->row_count,
	              text_plural(run->row_count, "row", "rows"));
	return !run->stage_error;
}

/* All rows into the session's table. *ret_readable false: the file is refused, the sentence is in run->why. */
static enum lu_error stage(struct run *run, struct pg *pg, bool *ret_readable)
{
	run->header_seen = false;
	run->row_count = run->merged_count = 0;
	run->refusal_count = run->first_count = 0;
	run->stage_error = LU_OK;
	text_map_done(&run->seen);
	*run->why = '\0';
	enum lu_error error = import_stage_begin(&run->stage, pg, run->options.deadline_ns);
	if (error)
		return error;
	char why[CSV_WHY_BYTES];
	bool readable = csv_rows_read(buffer_text(&run->file), &run->format, on_row, run, why);
	if (!readable)
		snprintf(run->why, sizeof run->why, "%s", why);
	else if (!*run->why && !run->header_seen)
		snprintf(run->why, sizeof run->why, "the file is empty");
	*ret_readable = !*run->why;
	for (size_t i = 0; *ret_readable && !run->stage_error && i < run->first_count; i++)
		run->stage_error = import_stage_add(&run->stage,
		                                    &(struct import_row){.line = run->firsts[i].line,
		                                                         .sku = run->firsts[i].sku},
		                                    run->firsts[i].titles);
	if (run->stage_error)
		return run->stage_error;
	bool keep = *ret_readable && (run->refusal_count == 0 || run->flags.partial);
	return import_stage_end(&run->stage, keep);
}

/* --- one connection after the other ------------------------------------------------------------------------------- */

static enum lu_error failed(struct run *run, enum lu_error error, const char *why)
{
	if (!*run->why)
		snprintf(run->why, sizeof run->why, "%s", why);
	return error;
}

/* Said at once and every few seconds, also to a log: a file that waits for a forgotten psql must not look like one that
 * is being imported. */
static void on_wait(const char *sentence, void *context)
{
	struct run *run = context;
	int64_t now_ns = clock_boottime_ns();
	if (run->waiting_said_ns && now_ns - run->waiting_said_ns < WAITING_SAID_MS * NS_PER_MS)
		return;
	run->waiting_said_ns = now_ns;
	progress_done(&run->progress);
	fprintf(stderr, "lastunit import: waiting: %s\n", sentence);
}

static struct import_ending ending_of(const struct run *run)
{
	return (struct import_ending){.path = run->path,
	                              .key = run->options.key,
	                              .row_count = run->row_count,
	                              .merged_count = run->merged_count,
	                              .partial = run->flags.partial,
	                              .refusals = run->refusals,
	                              .refusal_count = run->refusal_count,
	                              .report = &run->report,
	                              .why = run->why,
	                              .start_ns = run->start_ns};
}

/* A connection that comes to nothing is one of several, and all of them end with the import's own time. */
static int64_t connect_deadline(const struct run *run)
{
	int64_t deadline_ns = deadline_in_ms(CONNECT_MS);
	return deadline_ns < run->options.deadline_ns ? deadline_ns : run->options.deadline_ns;
}

static void list_outcomes(struct run *run, struct pg *pg)
{
	struct import_ending ending = ending_of(run);
	run->outcomes_lost = *run->flags.outcomes && import_print_rows(&ending, pg, run->flags.outcomes);
	if (run->outcomes_lost)
		fprintf(stderr, "lastunit import: the list of outcomes is not complete%s\n",
		        run->report.applied ? "; the import itself is done" : "");
}

/* Everything that needs the database, on one connection. LU_OK: the run has an end, good or bad. */
static enum lu_error on_connection(struct run *run, struct pg *pg)
{
	enum lu_error error = pg_connect(pg, connect_deadline(run));
	*run->why = '\0';
	char why[512] = "";
	if (error) {
		snprintf(why, sizeof why, "PostgreSQL cannot be reached: %s", pg_error(pg)->message);
		return failed(run, LU_DATABASE_UNAVAILABLE, why);
	}
	struct migrate_report schema;
	if (!migrate_check(pg, connect_deadline(run), &schema, why)) {
		run->of_another_schema = pg_connected(pg);
		return failed(run, run->of_another_schema ? LU_INTERNAL : LU_DATABASE_UNAVAILABLE, why);
	}
	run->report = (struct import_report){0};
	error = import_known(pg, &run->arena, &run->options, &run->report);
	if (error == LU_IDEMPOTENCY_CONFLICT)
		return failed(run, error, "--key was used for another file or with other options");
	if (error)
		return failed(run, error, run->report.why);
	if (run->report.replayed) {
		if (*run->flags.outcomes)
			fputs("lastunit import: --outcomes: nothing is listed, the file was imported before\n", stderr);
		return LU_OK;
	}
	bool readable = false;
	error = stage(run, pg, &readable);
	if (error)
		return failed(run, error, run->stage.why);
	if (!readable || (run->refusal_count && !run->flags.partial)) {
		list_outcomes(run, pg);
		return LU_OK;
	}
	progress_show(&run->progress, "%lld %s read, applying", (long long)run->row_count,
	              text_plural(run->row_count, "row", "rows"));
	run->options.texts = run->columns.title_count > 0 || run->columns.at[IMPORT_NAMES] >= 0;
	run->options.unreadable = (int64_t)run->refusal_count;
	error = import_apply(pg, &run->arena, &run->options, &run->report);
	if (error)
		return failed(run, error, run->report.why);
	if (!run->report.replayed)
		list_outcomes(run, pg);
	return LU_OK;
}

static int import_run(struct run *run)
{
	struct pg_options pg_options = {.url = run->config.database_url,
	                                .application_name = "lastunit import",
	                                .lock_timeout_ms = IMPORT_LOCK_MS,
	                                .idle_in_transaction_timeout_ms = 60000};
	struct pg *pg = pg_new(&pg_options);
	enum lu_error error = LU_OK;
	for (int n = 0; n < CONNECTIONS_MAX; n++) {
		error = on_connection(run, pg);
		import_stage_done(&run->stage);
		run->may_not = error && pg_error(pg)->class == PG_FORBIDDEN;
		if (error != LU_DATABASE_UNAVAILABLE || run->may_not || !deadline_left_ms(run->options.deadline_ns))
			break;
		pg_close(pg);
		clock_sleep_until(deadline_in_ms(200));
	}
	pg_free(pg);
	progress_done(&run->progress);
	struct import_ending ending = ending_of(run);
	if (!error) {
		int code = import_print(&ending, run->flags.json);
		return run->outcomes_lost && !code ? EXIT_FAILED : code;
	}
	if (run->flags.json)
		import_print_json(&ending, 0);
	return cmd_fail(&manual,
	                run->of_another_schema || run->may_not ? EXIT_USAGE
	                : error == LU_DATABASE_UNAVAILABLE     ? EXIT_BACKEND
	                                                       : EXIT_FAILED,
	                "%s%s", run->why, run->may_not ? ": use the owner's --database-url" : "");
}

/* Without Redis it does the same, and slower for others: whoever gave an address is told. */
static void warn_of_silent_redis(struct run *run)
{
	struct redis *redis = run->options.redis;
	if (redis && redis_connect(redis, deadline_in_ms(run->config.redis_timeout_ms)))
		fprintf(stderr,
		        "lastunit import: warning: --redis-url: %s: if the file changes SKUs that exist, all instances read "
		        "PostgreSQL until one of them opens the cache again\n",
		        redis_error(redis));
}

int cmd_import(int argc, char **argv)
{
	struct run run = {.start_ns = clock_boottime_ns()};
	struct flags *flags = &run.flags;
	const struct config_option options[] = {
		{.name = "redis_url",
	     .help =
	         "the service's Redis, redis://… or unix:///… as for serve: what the file changes is brought up to date there, up to 2000 "
	         "SKUs; beyond that, and if empty, all instances read PostgreSQL while it is applied and some seconds on, unless "
	         "all SKUs are new"},
		{.name = "redis_timeout_ms", .help = "limit of one call to Redis; past it they read PostgreSQL, as above"},
		{.name = "cell_ttl_s", .help = "time to live of what is written there: as the service's"},
		{"profile", CONFIG_STRING, "", 0, 60, "",
	     "a foreign file known by name: online-retail (the UCI data set of orders: its SKUs and their descriptions, with nothing on hand)",
	     &flags->profile},
		{"map", CONFIG_STRING, "", 0, 2000, "", "foreign column names: sku=THEIRS,on_hand=THEIRS,…; others are ignored",
	     &flags->map},
		{"encoding", CONFIG_STRING, "", 0, 60, "", "of the file, by iconv's name; empty: UTF-8", &flags->encoding},
		{"separator", CONFIG_STRING, "", 0, 2, "", "between columns; empty: comma; \\t: tab", &flags->separator},
		{"key", CONFIG_STRING, "", 0, LU_KEY_BYTES_MAX, "", "name of this import; empty: made from content and options",
	     &flags->key},
		{"reason", CONFIG_STRING, "", 0, LU_REFERENCE_BYTES_MAX, "", "reference in the ledger where a row gives none",
	     &flags->reason},
		{"partial", CONFIG_BOOL, "0", 0, 1, "", "apply the good rows even if others are refused", &flags->partial},
		{"outcomes", CONFIG_STRING, "", 0, 4000, "", "write one line per row to this file (-: standard output)",
	     &flags->outcomes},
		{"timeout-s", CONFIG_INT, "900", 1, 86400, "s",
	     "give up after this time, also if it was spent waiting for rows that others lock", &flags->timeout_s},
		{"json", CONFIG_BOOL, "0", 0, 1, "", "print the result as JSON", &flags->json},
		{0}};
	int positionals = 0;
	int code = cmd_begin(&manual, &run.config, options, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	if (positionals != 1)
		return cmd_fail(&manual, EXIT_USAGE, "which file? usage: lastunit %s", manual.usage);
	run.path = argv[1];
	run.options.config = &run.config;
	run.options.on_wait = on_wait;
	run.options.context = &run;
	run.options.deadline_ns = deadline_in_ms(flags->timeout_s * 1000);
	struct redis_address address;
	const char *why = "";
	if (*run.config.redis_url && !redis_address_parse(run.config.redis_url, &address, &why))
		return cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why);
	arena_init(&run.arena, 1 << 16);
	code = prepare(&run);
	if (code == CMD_GO_ON) {
		run.options.redis = *run.config.redis_url ? redis_new(&address) : NULL;
		warn_of_silent_redis(&run);
		code = import_run(&run);
		redis_free(run.options.redis);
	}
	buffer_done(&run.file);
	text_map_done(&run.seen);
	free(run.firsts);
	free(run.refusals);
	arena_done(&run.arena);
	return code;
}
