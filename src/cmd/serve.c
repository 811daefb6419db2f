/* `lastunit serve`: the service. How all its parts are put together stands in run().
 *
 * Happy path: keyring, inventory (connects, checks the schema, starts its threads), api, server; `ready http://ADDRESS`
 * on stdout; wait for a signal; stop listening, let what runs end, publish, answer, join, exit 0.
 * Failure modes: whatever cannot be had at the start is one line on stderr and the exit code it deserves. A second
 * signal while draining ends the process at once: what is answered is durable, what is not is unknown to its client,
 * who repeats it with the same key.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api.h"
#include "base/log.h"
#include "base/text.h"
#include "channels/webhook.h"
#include "cmd/cmd.h"
#include "cmd/serve_settings.h"
#include "http/auth.h"
#include "inventory/inventory.h"

#define STACK_BYTES (1024 * 1024) /* the default of 8 MiB a thread is only address space, but containers count it */
#define ARENAS_MAX 2

static const struct manual manual = {
	.name = "serve",
	.usage = "serve [options]",
	.about =
		"Serves the HTTP API. Any number of instances may run side by side on one PostgreSQL and one Redis. Run\n"
		"`lastunit migrate` first. SIGTERM or SIGINT: stops listening, answers what runs, ends; a second one: ends at\n"
		"once.\n",
	.shared = "*",
	.examples =
		"  lastunit serve --database-url postgresql://lastunit@db.example/shop --redis-url redis://cache.example\n"
		"  LASTUNIT_LISTEN=0.0.0.0:8080 lastunit serve\n",
	.exit_codes =
		"  0  ended on a signal, everything answered\n"
		"  1  ended at once on a second signal\n"
		"  2  wrong usage or configuration, an address in use, a schema that is older or newer than this binary\n"
		"  3  PostgreSQL cannot be reached at the start\n",
};

static void on_second_signal(int signal)
{
	static const char line[] = "lastunit serve: ended at once\n";
	log_write(line, sizeof line - 1);
	_exit(EXIT_FAILED);
}

/* Many threads that are mostly asleep: small stacks, and no heap of its own for each. */
static void keep_memory_small(void)
{
	pthread_attr_t attributes;
	mallopt(M_ARENA_MAX, ARENAS_MAX);
	if (pthread_attr_init(&attributes) == 0) {
		if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
			pthread_setattr_default_np(&attributes);
		pthread_attr_destroy(&attributes);
	}
}

static void log_weaknesses(struct inventory *inventory)
{
	struct arena arena;
	arena_init(&arena, 1024);
	struct weaknesses list = {.arena = &arena};
	inventory_weaknesses(inventory, &list);
	for (size_t i = 0; i < list.count; i++) {
		const struct weakness *w = &list.items[i];
		log_event(LOG_WARN, "%s name=%s promises=%s what=%s", *w->promises ? "weakened" : "remark", w->name,
		          log_quote(text_of(w->promises)), log_quote(text_of(w->sentence)));
	}
	arena_done(&arena);
}

/* Serves until a signal comes. The signals are blocked in every thread but while this one waits for them. */
static void wait_for_end(const sigset_t *signals)
{
	int signal_number;
	sigwait(signals, &signal_number);
	log_event(LOG_INFO, "stopping signal=%d", signal_number);
	struct sigaction at_once = {.sa_handler = on_second_signal};
	sigaction(SIGTERM, &at_once, NULL);
	sigaction(SIGINT, &at_once, NULL);
	pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static int run(const struct config *config, struct keyring *keyring, const sigset_t *signals)
{
	char why[512] = "";
	const char *server_why = NULL;
	int code = EXIT_OK;
	struct inventory *inventory = inventory_start(config, keyring, why, &code);
	if (!inventory)
		return cmd_fail(&manual, code, "%s", why);
	serve_settings_warn(config, keyring);
	log_weaknesses(inventory);
	auth_use(keyring);
	struct api *api = api_new(config, inventory);
	struct webhooks *webhooks = webhooks_start(config);
	struct server *server = server_start(config, api_router(api), api_hooks(api), &server_why);
	if (server) {
		printf("ready http://%s\n", server_address(server));
		fflush(stdout);
		wait_for_end(signals);
		server_stop(server);
	} else {
		code = cmd_fail(&manual, EXIT_USAGE, "%s", server_why);
	}
	/* The inventory's threads post their answers to the server's loops: they end before the loops are freed. */
	inventory_stop(inventory);
	webhooks_stop(webhooks); /* and with it libcurl, which loaders use too */
	server_free(server);
	api_free(api);
	return code;
}

int cmd_serve(int argc, char **argv)
{
	struct config config;
	int positionals, code = cmd_begin(&manual, &config, NULL, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	if ((code = cmd_check_database_url(&manual, config.database_url)) != CMD_GO_ON)
		return code;
	char why[512];
	if (!serve_settings_check(&config, why))
		return cmd_fail(&manual, EXIT_USAGE, "%s", why);
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	keep_memory_small();
	struct keyring *keyring = keyring_new();
	code = run(&config, keyring, &signals);
	keyring_free(keyring);
	return code;
}
