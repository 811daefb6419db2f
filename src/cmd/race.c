/* lastunit race: every textbook answer to the lost update on the user's own PostgreSQL, beside ours.
 *
 * Happy path: a scratch schema, a service to race against, the exact timeline, the sweep, the caches, the holds; a report;
 * everything that was made is dropped.
 * Failure modes: a backend that is gone ends the race with exit code 3 and its words; so does a signal, with 1. What was
 * made is dropped on every way out but SIGKILL, and the next race names what that left.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cache/redis.h"
#include "cmd/race_figure.h"
#include "cmd/race_file.h"
#include "cmd/race_place.h"
#include "cmd/race_workload.h"

#define REDIS_MS 2000

static const struct manual manual = {
	.name = "race",
	.usage = "race --database-url URL [options]",
	.about =
		"Sells the last unit in every way the textbooks know, on your PostgreSQL: one conditional UPDATE, SELECT … FOR\n"
		"UPDATE, a version column, a constraint, SERIALIZABLE, advisory locks, and lastunit; beside them the controls, ways\n"
		"that are popular and wrong. First two buyers and one unit, step by step; then 1, 8 and 64 buyers on one hot SKU,\n"
		"on 100 SKUs, with carts of two SKUs, and with customers who may have one; then caches, and holds without a TTL.\n"
		"Who oversells, who loses an update, who deadlocks, and which of those that are right is the cheapest.\n"
		"\n"
		"It works in a schema of a random name, lastunit_race_…, and drops it at the end. For lastunit itself it starts\n"
		"`lastunit serve` as a child, on a scratch database on the same server, which its user must be allowed to create;\n"
		"or it takes a service that runs (--url), and leaves SKUs race-000000 … without stock in it. Race beside nothing\n"
		"else: the figures are those of a machine that does only this. With the defaults it takes about three minutes.\n",
	.shared = "database_url redis_url redis_timeout_ms log_level",
	.examples =
		"  lastunit race --database-url postgresql://me@localhost/test --html race.html\n"
		"  set -a; . .lastunit/dev.env; set +a; lastunit race --buyers 8 --run-ms 300 --json\n",
	.exit_codes =
		"  0  every strategy that must hold has held, if any was raced, and the controls have failed in the timeline\n"
		"  1  one has not, the race was stopped by a signal, or what it found could not be written\n"
		"  2  wrong usage or configuration\n"
		"  3  PostgreSQL, Redis or the service cannot be reached, or was lost\n",
};

static atomic_int stop_signal; /* every thread of the race reads it; free of locks, so a handler may write it */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler writes it");

static void on_signal(int signal)
{
	stop_signal = signal;
}

bool race_stopping(void)
{
	return stop_signal != 0;
}

/* The first signal ends the race in order, a second one at once. */
static void watch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, hangup;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN) /* under nohup it goes on */
		sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int check_options(const struct race_options *options)
{
	struct redis_address address;
	const char *why;
	char names[RACE_STRATEGY_NAMES_BYTES];
	if (*options->redis_url && !redis_address_parse(options->redis_url, &address, &why))
		return cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why);
	if (*options->url && strncmp(options->url, "http://", 7) != 0 && strncmp(options->url, "https://", 8) != 0)
		return cmd_fail(&manual, EXIT_USAGE, "--url is http://HOST:PORT");
	if (*options->url && !*options->key)
		return cmd_fail(&manual, EXIT_USAGE, "--url needs --key, with the scopes read, sell and stock");
	if (*options->strategy && !race_strategy_does(options->strategy))
		return cmd_fail(&manual, EXIT_USAGE, "--strategy: there is no \"%s\": there are %s", options->strategy,
		                race_strategy_names(names));
	if (*options->workload && !race_workload_title(options->workload))
		return cmd_fail(&manual, EXIT_USAGE, "--workload is hot, spread, carts or once");
	if (!race_workload_takes(options->workload, options->strategy))
		return cmd_fail(&manual, EXIT_USAGE, "--strategy: %s does not race on --workload %s", options->strategy,
		                options->workload);
	return CMD_GO_ON;
}

/* What can only be found out at the end of minutes is found out before. */
static int check_reachable(const struct race_options *options)
{
	struct redis_address address;
	const char *why;
	char html[512];
	if (*options->html && !race_file_check(options->html, html))
		return cmd_fail(&manual, EXIT_USAGE, "--html: %s", html);
	if (*options->svg && access(options->svg, W_OK | X_OK) != 0)
		return cmd_fail(&manual, EXIT_USAGE, "--svg: nothing can be written to %s: %m", options->svg);
	if (!*options->redis_url || !redis_address_parse(options->redis_url, &address, &why))
		return CMD_GO_ON;
	struct redis *redis = redis_new(&address);
	int code = CMD_GO_ON;
	if (redis_connect(redis, deadline_in_ms(REDIS_MS)))
		code = cmd_fail(&manual, EXIT_BACKEND, "%s", redis_error(redis));
	redis_free(redis);
	return code;
}

/* Options that came from the environment are copied: the child's is another. */
static void keep_options(struct race *race)
{
	const char **texts[] = {&race->options.database_url, &race->options.redis_url, &race->options.url,
	                        &race->options.key,          &race->options.strategy,  &race->options.workload,
	                        &race->options.html,         &race->options.svg};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		*texts[i] = arena_text(&race->arena, text_of(*texts[i])).data;
}

static bool run(struct race *race)
{
	return race_scratch_open(race) && race_service_open(race) &&
	       (!race->options.timeline || race_timelines_run(race)) && race_sweep_run(race) &&
	       (!race->options.caches || race_stopping() || (race_caches_run(race) && race_drift_run(race)));
}

static int report(const struct race *race)
{
	char why[512];
	int code = race_holds(race) ? EXIT_OK : EXIT_FAILED;
	if (race->options.json)
		race_json_write(race, stdout);
	else
		race_print(race, stdout);
	if (*race->options.html && !race_html_write(race, race->options.html, why))
		code = cmd_fail(&manual, EXIT_FAILED, "%s", why);
	if (*race->options.svg && !race_svg_write(race, race->options.svg, why))
		code = cmd_fail(&manual, EXIT_FAILED, "%s", why);
	return code;
}

static int race_all(struct race *race)
{
	struct pg *probe;
	int code = check_options(&race->options);
	if (code != CMD_GO_ON)
		return code;
	code = cmd_connect(&manual, race->options.database_url, &probe); /* its ways to refuse a URL are everybody's */
	if (code != EXIT_OK)
		return code;
	pg_free(probe);
	if ((code = check_reachable(&race->options)) != CMD_GO_ON)
		return code;
	watch_signals();
	http_caller_global_init();
	bool done = run(race);
	progress_done(&race->progress);
	if (race_stopping())
		code = cmd_fail(&manual, EXIT_FAILED, "stopped by signal %d", stop_signal);
	else if (!done)
		code = cmd_fail(&manual, race->service.refused ? EXIT_USAGE : EXIT_BACKEND, "%s", race->why);
	else
		code = report(race);
	race_service_close(race);
	race_scratch_close(race);
	http_caller_global_done();
	return code;
}

int cmd_race(int argc, char **argv)
{
	struct race *race = calloc(1, sizeof *race);
	if (!race)
		return EXIT_FAILED;
	struct race_options *o = &race->options;
	struct config config;
	const struct config_option flags[] = {
		{.name = "database_url",
	     .help = "the PostgreSQL to race on; everything is made in a scratch schema and dropped"},
		{.name = "redis_url", .help = "a Redis for the caches and for lastunit; empty: no caches are raced"},
		{.name = "redis_timeout_ms", .help = "limit of one call to Redis"},
		{"url", CONFIG_STRING, "", 0, 299, "", "a service that runs, to race against; empty: one of our own", &o->url},
		{"key", CONFIG_STRING, "", 0, 200, "", "with --url: a key with the scopes read, sell and stock", &o->key},
		{"buyers", CONFIG_INT, "64", 1, 1000, "", "the most at once; 1 and 8 are run as far as they are fewer",
	     &o->buyers_max},
		{"run-ms", CONFIG_INT, "1000", 10, RACE_RUN_MS_MAX, "ms",
	     "how long each strategy sells at each point of the sweep", &o->run_ms},
		{"strategy", CONFIG_STRING, "", 0, 40, "", "only this one, by its name in the tables", &o->strategy},
		{"workload", CONFIG_STRING, "", 0, 40, "", "only this one: hot, spread, carts or once", &o->workload},
		{"timeline", CONFIG_BOOL, "1", 0, 1, "", "play the exact timeline first", &o->timeline},
		{"caches", CONFIG_BOOL, "1", 0, 1, "", "race caches and holds, too", &o->caches},
		{"seed", CONFIG_INT, "1", 0, INT32_MAX, "", "of the carts that are drawn", &o->seed},
		{"html", CONFIG_STRING, "", 0, 4000, "FILE", "write a report with plots, in one file", &o->html},
		{"svg", CONFIG_STRING, "", 0, 4000, "DIR", "write race-sales.svg and race-oversold.svg, for a README", &o->svg},
		{"json", CONFIG_BOOL, "0", 0, 1, "", "print one JSON document instead of tables", &o->json},
		{.name = NULL},
	};
	arena_init(&race->arena, 0);
	int positionals, code = cmd_begin(&manual, &config, flags, argc, argv, &positionals);
	if (code == CMD_GO_ON) {
		o->database_url = config.database_url;
		o->redis_url = config.redis_url;
		o->redis_timeout_ms = config.redis_timeout_ms;
		keep_options(race);
		code = race_all(race);
	}
	arena_done(&race->arena);
	free(race);
	return code;
}
