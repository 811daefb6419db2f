/* `lastunit dev`: a whole private Lastunit by one command, and everything gone when it ends.
 *
 * Happy path: prepare() finds binaries, user, directory and port; begin() brings up PostgreSQL, schema, keys, catalogue,
 * Redis and `lastunit serve`; supervise() starts again what dies, until a signal; end() stops the children in reverse.
 * Failure modes: what cannot be had at the start ends the command with the tail of the log that says why. What dies
 * later is started again at once, and if it keeps dying every half second. If the supervisor itself is killed, the
 * kernel ends the children (PR_SET_PDEATHSIG). A second signal while ending does not wait for anybody.
 */
#include "cmd/dev.h"
#include "cmd/serve_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#define START_MS 60000           /* the longest any of the three may take to be ready */
#define STEADY_NS (5 * NS_PER_S) /* lived so long: its next start does not wait */
#define DELAY_MS_FIRST 50
#define DELAY_MS_MAX 500
#define POLL_MS 20
#define ABORT_MS 3000
#define HOME_LOOK_MS 1000

enum { POSTGRES, REDIS, SERVE, SERVER_COUNT }; /* started in this order, ended in reverse */

struct dev {
	const struct manual *manual;
	struct config config;
	const char *data;
	bool demo, ephemeral;
	struct child_user user;
	struct dev_home home;
	struct dev_env env;
	struct dev_server servers[SERVER_COUNT];
	int signals;                  /* signalfd: SIGCHLD and those that end us */
	int serve_output[2];          /* a pipe: what `serve` prints */
	char line[DEV_URL_BYTES_MAX]; /* of it, so far */
	size_t line_size;
	unsigned stop_requests;
	int serve_code; /* of its last end */
	bool demo_there;
	bool announced; /* it has served */
	bool serve_failed;
};

/* --- events ------------------------------------------------------------------------------------------------------- */

/* `serve` prints one line that matters: "ready http://ADDRESS". */
static void read_serve_output(struct dev *dev)
{
	char bytes[512];
	ssize_t size = read(dev->serve_output[0], bytes, sizeof bytes);
	for (ssize_t i = 0; i < size; i++) {
		if (bytes[i] != '\n') {
			if (dev->line_size < sizeof dev->line - 1)
				dev->line[dev->line_size++] = bytes[i];
			continue;
		}
		dev->line[dev->line_size] = 0;
		dev->line_size = 0;
		if (strncmp(dev->line, "ready http", 10) == 0)
			strcpy(dev->env.url, dev->line + strlen("ready "));
	}
}

static void start_server(struct dev *dev, struct dev_server *server)
{
	char name[32];
	snprintf(name, sizeof name, "%s.log", server->name);
	int log = dev_home_log(&dev->home, name, !server->started_ns); /* only the first start of a run empties it */
	server->started_ns = clock_boottime_ns();
	server->pid = 0;
	if (log >= 0) {
		bool is_serve = server == &dev->servers[SERVE];
		pid_t pid = server->start(&dev->home, &dev->user, is_serve ? dev->serve_output[1] : log, log);
		server->pid = pid > 0 ? pid : 0;
		int error = errno;
		close(log);
		errno = error;
	}
	if (!server->pid)
		fprintf(stderr, "lastunit dev: cannot start %s: %s\n", server->name, strerror(errno));
}

static void plan_start(struct dev_server *server)
{
	int64_t now_ns = clock_boottime_ns();
	if (now_ns - server->started_ns > STEADY_NS)
		server->delay_ms = 0;
	server->start_at_ns = now_ns + server->delay_ms * NS_PER_MS;
	server->delay_ms = server->delay_ms ? server->delay_ms * 2 : DELAY_MS_FIRST;
	if (server->delay_ms > DELAY_MS_MAX)
		server->delay_ms = DELAY_MS_MAX;
}

/* Being killed is a demonstration. Any other end but a good one is a bug of ours, a sanitizer's finding among them: it
 * is shown, for an ephemeral log would be gone, and makes the command fail in the end. */
static void note_end_of_serve(struct dev *dev, int code)
{
	dev->serve_code = code;
	if (!dev->announced || code == EXIT_OK || code == 128 + SIGKILL || code == 128 + SIGTERM)
		return;
	dev->serve_failed = true;
	fprintf(stderr, "lastunit dev: serve ended with code %d\n", code);
	dev_home_show_log(&dev->home, "serve.log");
}

static void reap(struct dev *dev)
{
	for (int i = 0; i < SERVER_COUNT; i++) {
		struct dev_server *server = &dev->servers[i];
		int status;
		if (!server->pid || waitpid(server->pid, &status, WNOHANG) != server->pid)
			continue;
		server->pid = 0;
		if (i == SERVE)
			note_end_of_serve(dev, child_exit_code(status));
		plan_start(server);
	}
}

/* Waits a moment for an event and takes in what happened. */
static void pump(struct dev *dev, int timeout_ms)
{
	struct pollfd fds[] = {{.fd = dev->signals, .events = POLLIN}, {.fd = dev->serve_output[0], .events = POLLIN}};
	if (poll(fds, 2, timeout_ms) <= 0)
		return;
	if (fds[1].revents)
		read_serve_output(dev);
	struct signalfd_siginfo info;
	while (read(dev->signals, &info, sizeof info) == (ssize_t)sizeof info)
		dev->stop_requests += info.ssi_signo != SIGCHLD;
	reap(dev);
}

/* Starts a server and waits until it is ready. EXIT_OK, or the code to end with. */
static int bring_up(struct dev *dev, int which, bool (*ready)(const struct dev *dev))
{
	struct dev_server *server = &dev->servers[which];
	start_server(dev, server);
	int64_t deadline_ns = deadline_in_ms(START_MS);
	while (server->pid && !dev->stop_requests && deadline_left_ms(deadline_ns)) {
		if (ready(dev))
			return EXIT_OK;
		pump(dev, POLL_MS);
	}
	if (dev->stop_requests)
		return EXIT_FAILED;
	char name[32];
	snprintf(name, sizeof name, "%s.log", server->name);
	dev_home_show_log(&dev->home, name);
	bool own_word = which == SERVE && !server->pid && dev->serve_code > 0 && dev->serve_code <= EXIT_BACKEND;
	return cmd_fail(dev->manual, own_word ? dev->serve_code : EXIT_BACKEND, "%s %s", server->name,
	                server->pid ? "was not ready in time" : "ended before it was ready");
}

static bool postgres_ready(const struct dev *dev)
{
	return dev_postgres_ready(&dev->home);
}

static bool redis_ready(const struct dev *dev)
{
	return dev_redis_ready(&dev->home);
}

static bool serve_ready(const struct dev *dev)
{
	return *dev->env.url;
}

/* --- before anything is started ----------------------------------------------------------------------------------- */

/* libpq fills what a URL leaves open from these. */
static void forget_postgres_environment(void)
{
	static const char *const names[] = {"PGHOST",           "PGHOSTADDR", "PGPORT",
	                                    "PGDATABASE",       "PGUSER",     "PGPASSWORD",
	                                    "PGPASSFILE",       "PGSERVICE",  "PGSERVICEFILE",
	                                    "PGOPTIONS",        "PGSSLMODE",  "PGTARGETSESSIONATTRS",
	                                    "PGDATA",           "PGTZ",       "PGDATESTYLE",
	                                    "PGCLIENTENCODING", "PGAPPNAME",  "PGCONNECT_TIMEOUT"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		unsetenv(names[i]);
}

static bool watch_signals(struct dev *dev)
{
	static const int watched[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
		sigaddset(&set, watched[i]);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	dev->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return dev->signals >= 0 && pipe2(dev->serve_output, O_CLOEXEC | O_NONBLOCK) == 0 &&
	       /* The child's stdout is the same open pipe: it must be able to wait in it. */
	       fcntl(dev->serve_output[1], F_SETFL, O_WRONLY) == 0;
}

static int prepare(struct dev *dev)
{
	char why[512];
	if (!dev_postgres_find(why) || !dev_redis_find(why))
		return cmd_fail(dev->manual, EXIT_USAGE, "%s", why);
	if (!child_user_find(&dev->user))
		return cmd_fail(dev->manual, EXIT_USAGE,
		                "PostgreSQL refuses to run as root, and there is no user postgres or nobody");
	/* The directory before the port: who starts it twice has neither, and another port would not help. */
	if (!dev_home_is_free(dev->data, why) || !dev_serve_port_is_free(dev->config.listen, why))
		return cmd_fail(dev->manual, EXIT_USAGE, "%s", why);
	forget_postgres_environment();
	if (!watch_signals(dev))
		return cmd_fail(dev->manual, EXIT_FAILED, "cannot watch signals: %s", strerror(errno));
	if (!dev_home_open(dev->data, &dev->user, &dev->home, why))
		return cmd_fail(dev->manual, EXIT_USAGE, "%s", why);
	if (!dev_env_load(&dev->home, &dev->env, why))
		return cmd_fail(dev->manual, EXIT_FAILED, "%s", why);
	dev->servers[POSTGRES] = (struct dev_server){.name = "postgres",
	                                             .start = dev_postgres_start,
	                                             .abort_signal = SIGQUIT,
	                                             .end_signal = dev->ephemeral ? SIGQUIT /* no checkpoint */ : SIGINT,
	                                             .end_ms = 30000};
	dev->servers[REDIS] = (struct dev_server){.name = "redis",
	                                          .start = dev_redis_start,
	                                          .end_signal = SIGTERM,
	                                          .abort_signal = SIGKILL,
	                                          .end_ms = 2000};
	dev->servers[SERVE] = (struct dev_server){.name = "serve",
	                                          .start = dev_serve_start,
	                                          .end_signal = SIGTERM,
	                                          .abort_signal = SIGTERM /* the second ends it at once */,
	                                          .end_ms = dev->config.drain_timeout_ms + 2000};
	return EXIT_OK;
}

/* --- a life ------------------------------------------------------------------------------------------------------- */

static int make_cluster(struct dev *dev)
{
	char why[512];
	printf("making a PostgreSQL cluster in %s (as %s)\n", dev->home.given, dev->user.name);
	fflush(stdout);
	int log = dev_home_log(&dev->home, "postgres.log", true);
	bool made = log >= 0 && dev_postgres_init(&dev->home, &dev->user, !dev->ephemeral, log, why);
	if (log < 0)
		cmd_refuse(why, "cannot write to %s: %s", dev->home.given, strerror(errno));
	else
		close(log);
	if (made)
		return EXIT_OK;
	if (log >= 0)
		dev_home_show_log(&dev->home, "postgres.log");
	return cmd_fail(dev->manual, EXIT_FAILED, "%s", why);
}

/* Schema, keys and catalogue. */
static int fill_database(struct dev *dev)
{
	char why[512];
	if (!dev_postgres_prepare(&dev->home, why))
		return cmd_fail(dev->manual, EXIT_FAILED, "%s", why);
	struct pg *pg = dev_postgres_connect(dev->env.database_url, why);
	if (!pg)
		return cmd_fail(dev->manual, EXIT_BACKEND, "%s", why);
	int64_t loaded = 0;
	bool done = dev_env_store_keys(&dev->env, pg, why) && (!dev->demo || dev_demo_load(pg, &loaded, why)) &&
	            dev_demo_there(pg, &dev->demo_there, why);
	pg_free(pg);
	if (!done)
		return cmd_fail(dev->manual, EXIT_FAILED, "%s", why);
	if (loaded)
		printf("loaded the demo catalogue: %" PRId64 " %s\n", loaded, text_plural(loaded, "product", "products"));
	return EXIT_OK;
}

static void announce(const struct dev *dev)
{
	printf("keys, also in %s/dev.env:\n", dev->home.given);
	dev_env_print_keys(&dev->env);
	printf("ready %s\n", dev->env.url);
	printf("\n  page  %s/\n  try   curl -s -H 'Authorization: Bearer %s' '%s/v1/%s'\n", dev->env.url,
	       dev_env_key(&dev->env, CHANNEL_WEB), dev->env.url,
	       dev->demo_there ? "availability/" DEV_DEMO_SKU : "skus?limit=3");
	printf("  end   Ctrl-C\n  keys  in another terminal: set -a; . %s/dev.env; set +a\n", dev->home.given);
	fflush(stdout);
}

static int begin(struct dev *dev)
{
	int code = dev->home.fresh ? make_cluster(dev) : EXIT_OK;
	if (code)
		return code;
	dev_postgres_forget_pid(&dev->home);
	if ((code = bring_up(dev, POSTGRES, postgres_ready)) || (code = fill_database(dev)) ||
	    (code = bring_up(dev, REDIS, redis_ready)))
		return code;
	dev_serve_environment(&dev->config, &dev->env);
	if ((code = bring_up(dev, SERVE, serve_ready)))
		return code;
	/* Port 0 was any port; from now on it is this one. */
	setenv("LASTUNIT_LISTEN", strstr(dev->env.url, "://") + 3, 1);
	char why[512];
	if (!dev_env_save(&dev->home, &dev->env, why))
		return cmd_fail(dev->manual, EXIT_FAILED, "%s", why);
	announce(dev);
	dev->announced = true;
	return EXIT_OK;
}

/* Until a signal. EXIT_OK, or the code to end with: without its directory nothing can be started again, and PostgreSQL
 * ends by itself up to a minute later. */
static int supervise(struct dev *dev)
{
	while (!dev->stop_requests) {
		if (dev_home_is_gone(&dev->home))
			return cmd_fail(dev->manual, EXIT_FAILED, "%s is gone, and the data with it: start again to begin anew",
			                dev->home.given);
		int64_t wake_ns = deadline_in_ms(HOME_LOOK_MS);
		for (int i = 0; i < SERVER_COUNT; i++) {
			struct dev_server *server = &dev->servers[i];
			if (server->pid)
				continue;
			if (!deadline_left_ms(server->start_at_ns)) {
				fprintf(stderr, "lastunit dev: %s has ended; starting it again\n", server->name);
				start_server(dev, server);
				if (!server->pid)
					plan_start(server);
			}
			if (!server->pid && server->start_at_ns < wake_ns)
				wake_ns = server->start_at_ns;
		}
		pump(dev, deadline_left_ms(wake_ns));
	}
	return EXIT_OK;
}

static void wait_end(struct dev *dev, const struct dev_server *server, int64_t timeout_ms, unsigned stop_requests)
{
	int64_t deadline_ns = deadline_in_ms(timeout_ms);
	while (server->pid && dev->stop_requests <= stop_requests && deadline_left_ms(deadline_ns))
		pump(dev, POLL_MS);
}

static void end(struct dev *dev)
{
	unsigned asked = dev->stop_requests > 1 ? dev->stop_requests : 1;
	for (int i = SERVER_COUNT - 1; i >= 0; i--) {
		struct dev_server *server = &dev->servers[i];
		if (!server->pid)
			continue;
		kill(server->pid, server->end_signal);
		kill(server->pid, SIGCONT); /* a stopped one hears nothing else */
		wait_end(dev, server, server->end_ms, asked);
		if (server->pid)
			kill(server->pid, server->abort_signal);
		wait_end(dev, server, ABORT_MS, UINT32_MAX);
		if (server->pid)
			kill(server->pid, SIGKILL);
		wait_end(dev, server, ABORT_MS, UINT32_MAX);
	}
}

/* Every option of the service but the two URLs, which are ours to give. */
static const char *shared_options(void)
{
	static char list[2048];
	static const char *const names[] = {
#define X(type, name, default_, min, max, unit, help) #name,
#include "base/config.def"
#undef X
	};
	char *to = list;
	*to = 0;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(names[i], "database_url") == 0 || strcmp(names[i], "redis_url") == 0)
			continue;
		CHECK((size_t)(to - list) + strlen(names[i]) + 2 < sizeof list);
		to += sprintf(to, "%s%s", to == list ? "" : " ", names[i]);
	}
	return list;
}

int cmd_dev(int argc, char **argv)
{
	struct dev dev = {.signals = -1, .home = {.lock = -1}};
	const struct config_option options[] = {
		{"data", CONFIG_STRING, ".lastunit", 1, PATH_MAX - 64, "",
	     "the directory to keep everything in; with --ephemeral a temporary one unless given", &dev.data},
		{"demo", CONFIG_BOOL, "1", 0, 1, "", "load the demo catalogue if there are no products yet", &dev.demo},
		{"ephemeral", CONFIG_BOOL, "0", 0, 1, "", "remove the directory at the end", &dev.ephemeral},
		{0},
	};
	const struct manual manual = {
		.name = "dev",
		.usage = "dev [options]",
		.about =
			"Starts a private PostgreSQL and Redis on unix sockets, makes the schema, keys for every channel and a demo\n"
			"catalogue, and serves. Prints `ready URL` when it serves, writes URLs and keys to DIR/dev.env and logs to\n"
			"DIR/*.log. Starts again what dies, and stops all that it started on SIGTERM or Ctrl-C, or if it is killed. A\n"
			"second start on the same directory finds data and keys again.\n",
		.shared = shared_options(),
		.examples =
			"  lastunit dev\n"
			"  lastunit dev --data /tmp/shop --listen 127.0.0.1:0 --no-demo --ephemeral\n"
			"  set -a; . .lastunit/dev.env; curl -H \"Authorization: Bearer $LASTUNIT_KEY_WEB\" $LASTUNIT_URL/v1/skus\n",
		.exit_codes =
			"  0  it was ended, and has ended what it started\n"
			"  1  something could not be made, or `serve` would not start again\n"
			"  2  wrong usage, or a directory, user, address or program that cannot be used\n"
			"  3  its PostgreSQL, its Redis or `serve` did not become ready\n",
	};
	int positionals, code = cmd_begin(&manual, &dev.config, options, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	/* What its `serve` would refuse is said before a cluster is made for nothing. */
	char why[512];
	if (!serve_settings_check(&dev.config, why))
		return cmd_fail(&manual, EXIT_USAGE, "%s", why);
	dev.manual = &manual;
	if (dev.ephemeral && strcmp(dev.data, ".lastunit") == 0)
		dev.data = "";
	code = prepare(&dev);
	if (!code)
		code = begin(&dev);
	if (!code)
		code = supervise(&dev);
	end(&dev);
	dev_home_close(&dev.home, dev.ephemeral && !dev_home_is_gone(&dev.home));
	return code ? code : dev.serve_failed ? EXIT_FAILED : EXIT_OK;
}
