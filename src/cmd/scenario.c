/* `lastunit scenario`: the project's own race scenarios against a running shop, which can so prove its deployment.
 *
 * Happy path: read and check every file · say what will be changed · play those that need nothing but clients (and SQL or
 * Redis, if given) · one line each, the narration of one that fails. Failure modes: a file that cannot be read stops
 * everything before the first call; a scenario that fails is exit code 1; a service that is not there is 3.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/scenario.h"

#define PATIENCE_MS 30000
#define MARK_BYTES 8

static const struct manual manual = {
	.name = "scenario",
	.usage = "scenario FILE.spec… [options]",
	.about =
		"Plays race scenarios against a running service: who sells, holds, looks at what moment, and which figures are\n"
		"right then. It says first what it will change, and works only on SKUs that it creates: they are named\n"
		"scenario-… and left at 0. They stay in the catalogue and in the feeds, sold out: use a shop for trials.\n"
		"Scenarios that need servers of their own (to kill them, to hold single messages) are passed over: the\n"
		"project's tests run those. Scenarios with SQL or raw Redis steps are passed over unless --database-url and\n"
		"--redis-url are given; they touch rows and cells of those SKUs only.\n",
	.shared = "database_url redis_url log_level",
	.examples =
		"  set -a; . .lastunit/dev.env; set +a; lastunit scenario tests/spec/*.spec\n"
		"  lastunit scenario --dry-run tests/spec/last-unit.spec --url http://127.0.0.1:8080 --key-admin lu_… --key-web lu_…\n"
		"  lastunit scenario --url http://10.0.0.1:8080,http://10.0.0.2:8080 tests/spec/*.spec    two instances, a and b\n"
		"  lastunit scenario --verbs                                                              the language\n",
	.exit_codes =
		"  0  every scenario that could be played went as it should\n"
		"  1  one did not\n"
		"  2  wrong usage or configuration, or a file that cannot be read\n"
		"  3  the service, PostgreSQL or Redis cannot be reached\n",
	.positionals_max = 1000,
};

struct scenario_command {
	struct config config;
	struct scenario_options options;
	const char *url;
	char urls[SCENARIO_INSTANCES_MAX][64];
	size_t url_count;
	struct redis_address redis;
	bool dry_run, verbose, verbs;
	struct scenario **list;
	size_t count;
};

static const char *environment(const char *flag, const char *variable)
{
	const char *value = *flag ? flag : getenv(variable);
	return value ? value : "";
}

static int take_urls(struct scenario_command *c)
{
	c->url = environment(c->url, "LASTUNIT_URL");
	for (const char *at = c->url; *at && c->url_count < SCENARIO_INSTANCES_MAX; at += *at == ',') {
		size_t size = strcspn(at, ",");
		while (size && at[size - 1] == '/')
			size--;
		if ((strncmp(at, "http://", 7) != 0 && strncmp(at, "https://", 8) != 0) || size >= sizeof c->urls[0])
			return cmd_fail(&manual, EXIT_USAGE, "--url: http://HOST:PORT, or several with commas");
		snprintf(c->urls[c->url_count++], sizeof c->urls[0], "%.*s", (int)size, at);
		at += strcspn(at, ",");
	}
	return c->url_count ? CMD_GO_ON : cmd_fail(&manual, EXIT_USAGE, "--url (or LASTUNIT_URL) is required");
}

static int take_keys(struct scenario_command *c)
{
	for (int i = CHANNEL_WEB; i <= CHANNEL_ADMIN; i++) {
		char variable[40] = "LASTUNIT_KEY_";
		size_t at = strlen(variable);
		for (const char *s = channel_name((enum channel)i); *s; s++)
			variable[at++] = (char)toupper((unsigned char)*s);
		variable[at] = '\0';
		c->options.keys[i] = environment(c->options.keys[i], variable);
	}
	return *c->options.keys[CHANNEL_ADMIN]
	           ? CMD_GO_ON
	           : cmd_fail(&manual, EXIT_USAGE, "--key-admin (or LASTUNIT_KEY_ADMIN), with all scopes, is required");
}

static int take_backends(struct scenario_command *c)
{
	const char *why;
	if (*c->config.database_url) {
		int code = cmd_check_database_url(&manual, c->config.database_url);
		if (code != CMD_GO_ON)
			return code;
		c->options.database_url = c->config.database_url;
	}
	if (!*c->config.redis_url)
		return CMD_GO_ON;
	if (!redis_address_parse(c->config.redis_url, &c->redis, &why))
		return cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why);
	c->options.redis = &c->redis;
	return CMD_GO_ON;
}

static int read_files(struct scenario_command *c, char **paths, size_t count)
{
	char why[SCENARIO_WHY_BYTES];
	c->list = calloc(count, sizeof *c->list);
	for (; c->list && c->count < count; c->count++) {
		c->list[c->count] = scenario_read(paths[c->count], NULL, why);
		if (!c->list[c->count])
			return cmd_fail(&manual, EXIT_USAGE, "%s", why);
	}
	return CMD_GO_ON;
}

/* Why it cannot be played here; NULL: it can. */
static const char *obstacle(const struct scenario_command *c, const struct scenario *s)
{
	static char why[120];
	if (s->needs)
		snprintf(why, sizeof why, "needs %s", s->needs);
	else if (s->uses & SCENARIO_SQL && !c->options.database_url)
		snprintf(why, sizeof why, "needs --database-url");
	else if (s->uses & SCENARIO_REDIS && !c->options.redis)
		snprintf(why, sizeof why, "needs --redis-url");
	else {
		for (size_t i = 0; i < s->session_count; i++)
			if (!*c->options.keys[s->sessions[i].channel]) {
				snprintf(why, sizeof why, "needs --key-%s", channel_name((enum channel)s->sessions[i].channel));
				return why;
			}
		return NULL;
	}
	return why;
}

static void announce(const struct scenario_command *c)
{
	size_t skus = 0, played = 0;
	unsigned uses = 0;
	for (size_t i = 0; i < c->count; i++)
		if (!obstacle(c, c->list[i])) {
			played++;
			skus += c->list[i]->sku_count * c->list[i]->order_count;
			uses |= c->list[i]->uses;
		}
	printf("%zu of %zu %s will be played against %s\n", played, c->count,
	       text_plural((int64_t)c->count, "scenario", "scenarios"), c->url);
	printf("SKUs made: %zu, named scenario-%s-…; no others are sold, held or adjusted; at the end they are at 0.\n",
	       skus, c->options.mark);
	if (uses & SCENARIO_SQL)
		printf("In SQL they read, and change rows of those SKUs.\n");
	if (uses & SCENARIO_REDIS)
		printf("In Redis they read and delete cells of those SKUs.\n");
	for (size_t i = 0; i < c->count; i++) {
		const char *why = obstacle(c, c->list[i]);
		if (why)
			printf("  passed over   %-30s %s\n", c->list[i]->name, why);
		else if (c->dry_run)
			printf("  to be played  %-30s %s\n", c->list[i]->name, c->list[i]->title);
	}
	fflush(stdout);
}

/* Is there a service, and does it know the keys? */
static int knock(const struct scenario_command *c)
{
	int code = CMD_GO_ON;
	for (size_t u = 0; code == CMD_GO_ON && u < c->url_count; u++) {
		struct http_caller *caller = http_caller_new(c->urls[u], 5000);
		for (int i = CHANNEL_WEB; code == CMD_GO_ON && i <= CHANNEL_ADMIN; i++) {
			const char *key = c->options.keys[i];
			if (!*key)
				continue;
			struct http_answer answer = http_call(caller, "GET", "/v1/availability?sku=scenario", TEXT(""), key, NULL);
			if (answer.status == 0)
				code = cmd_fail(&manual, EXIT_BACKEND, "%s: %s", c->urls[u], http_caller_error(caller));
			else if (answer.status == 401 || answer.status == 403)
				code = cmd_fail(&manual, EXIT_USAGE, "%s does not take the key of %s", c->urls[u],
				                channel_name((enum channel)i));
		}
		http_caller_free(caller);
	}
	return code;
}

static bool play(struct scenario_command *c, struct scenario *s)
{
	struct scenario_run run = {.options = &c->options, .scenario = s};
	int64_t began_ns = clock_boottime_ns();
	for (size_t i = 0; i < s->instance_count; i++)
		memcpy(s->instances[i].url, c->urls[i % c->url_count], sizeof s->instances[i].url);
	bool good = scenario_play(&run);
	printf("  %-13s %-30s %s (%lld ms", good ? "passed" : "FAILED", s->name, s->title,
	       (long long)((clock_boottime_ns() - began_ns) / NS_PER_MS));
	if (s->order_count > 1)
		printf(", %zu permutations", s->order_count);
	printf(")\n");
	if (!good || c->verbose)
		printf("%.*s", (int)run.narration.size, run.narration.data);
	if (!good)
		printf("  %s\n", run.why);
	fflush(stdout);
	scenario_run_done(&run);
	return good;
}

static int play_all(struct scenario_command *c)
{
	int played = 0, failed = 0, code = knock(c);
	for (size_t i = 0; code == CMD_GO_ON && i < c->count; i++) {
		if (obstacle(c, c->list[i]))
			continue;
		played++;
		failed += !play(c, c->list[i]);
	}
	if (code != CMD_GO_ON)
		return code;
	printf("%d passed, %d failed, %zu passed over\n", played - failed, failed, c->count - (size_t)played);
	return failed ? EXIT_FAILED : EXIT_OK;
}

static int run(struct scenario_command *c, int positionals, char **argv)
{
	char token[TOKEN_BYTES + 1];
	if (c->verbs) {
		scenario_print_verbs(stdout);
		return EXIT_OK;
	}
	if (!positionals)
		return cmd_fail(&manual, EXIT_USAGE, "which files? usage: lastunit %s", manual.usage);
	token_new(token);
	for (size_t i = 0; i < MARK_BYTES; i++) /* a SKU's code begins and ends with what reads well */
		if (!isalnum((unsigned char)token[i]))
			token[i] = 'x';
	token[MARK_BYTES] = '\0';
	c->options.mark = token;
	c->options.patience_ms = PATIENCE_MS;
	int code = take_urls(c);
	if (code == CMD_GO_ON)
		code = take_keys(c);
	if (code == CMD_GO_ON)
		code = take_backends(c);
	if (code == CMD_GO_ON)
		code = read_files(c, argv + 1, (size_t)positionals);
	if (code != CMD_GO_ON)
		return code;
	announce(c);
	if (c->dry_run)
		return EXIT_OK;
	http_caller_global_init();
	code = play_all(c);
	http_caller_global_done();
	return code;
}

int cmd_scenario(int argc, char **argv)
{
	struct scenario_command *c = calloc(1, sizeof *c);
	if (!c)
		return EXIT_FAILED;
	const char **keys = c->options.keys;
	const struct config_option flags[] = {
		{.name = "database_url",
	     .help = "the service's PostgreSQL, for scenarios with SQL steps; empty: they are passed over"},
		{.name = "redis_url",
	     .help =
	         "the service's Redis, redis://… or unix:///… as for serve, for scenarios with raw Redis steps; empty: they are passed over"},
		{"url", CONFIG_STRING, "", 0, 500, "", "the service, or several instances of it, with commas; or LASTUNIT_URL",
	     &c->url},
		{"key-admin", CONFIG_STRING, "", 0, 200, "", "key with all scopes; or LASTUNIT_KEY_ADMIN",
	     &keys[CHANNEL_ADMIN]},
		{"key-web", CONFIG_STRING, "", 0, 200, "", "keys with read and sell, one of each channel; or LASTUNIT_KEY_WEB",
	     &keys[CHANNEL_WEB]},
		{"key-telegram", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_TELEGRAM", &keys[CHANNEL_TELEGRAM]},
		{"key-agent", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_AGENT", &keys[CHANNEL_AGENT]},
		{"key-voice", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_VOICE", &keys[CHANNEL_VOICE]},
		{"key-marketplace", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_MARKETPLACE", &keys[CHANNEL_MARKETPLACE]},
		{"key-pos", CONFIG_STRING, "", 0, 200, "", "or LASTUNIT_KEY_POS", &keys[CHANNEL_POS]},
		{"dry-run", CONFIG_BOOL, "0", 0, 1, "", "only say what would be played and changed", &c->dry_run},
		{"verbose", CONFIG_BOOL, "0", 0, 1, "", "tell every step, not only of what fails", &c->verbose},
		{"verbs", CONFIG_BOOL, "0", 0, 1, "", "list the verbs of the language", &c->verbs},
		{0}};
	int positionals, code = cmd_begin(&manual, &c->config, flags, argc, argv, &positionals);
	if (code == CMD_GO_ON)
		code = run(c, positionals, argv);
	for (size_t i = 0; i < c->count; i++)
		scenario_free(c->list[i]);
	free(c->list);
	free(c);
	return code;
}
