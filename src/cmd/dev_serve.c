/* The `lastunit serve` of `lastunit dev`: the same binary, its options in its environment.
 *
 * Happy path: see that the port is free, put every option into the environment, execute. Failure modes: a binary or a
 * port that is closed to the unprivileged user is run as we are.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "cmd/dev.h"

#define FIRST_UNPRIVILEGED_PORT 1024

static unsigned listen_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	return colon ? (unsigned)atoi(colon + 1) : 0;
}

/* The same binary. By its path, so that its name shows in `ps`; where that cannot be reached, through /proc. */
pid_t dev_serve_start(const struct dev_home *home, const struct child_user *user, int output, int log)
{
	char path[PATH_MAX] = "";
	ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
	path[size > 0 ? size : 0] = 0;
	struct stat status;
	/* Whom a binary of mode 0700 or a port below 1024 is closed to, that user cannot serve. */
	unsigned port = listen_port(getenv("LASTUNIT_LISTEN"));
	bool as_user = stat("/proc/self/exe", &status) == 0 && (status.st_mode & S_IXOTH) &&
	               (port == 0 || port >= FIRST_UNPRIVILEGED_PORT);
	struct child_options options = {.programs = (const char *[]){path, "/proc/self/exe", NULL},
	                                .argv = (const char *[]){"lastunit", "serve", NULL},
	                                .user = as_user ? user : NULL,
	                                .parent_death_signal = SIGKILL /* it may be stopped; what it answered is durable */,
	                                .output = output,
	                                .log = log,
	                                .directory = "/"};
	return child_start(&options);
}

static bool is_given(const char *variable)
{
	const char *value = getenv(variable);
	return value && *value;
}

/* Every channel works at once: webhooks act by dev's own keys where none were given. Amazon signs nothing for a service on
 * a loopback address, so that is not asked for here. */
static void serve_channels(const struct dev_env *env)
{
	char secret[DEV_WEBHOOK_SECRET_BYTES + 1];
	if (!is_given("LASTUNIT_TELEGRAM_KEY")) {
		dev_env_webhook_secret(env, CHANNEL_TELEGRAM, secret);
		setenv("LASTUNIT_TELEGRAM_KEY", dev_env_key(env, CHANNEL_TELEGRAM), 1);
		setenv("LASTUNIT_TELEGRAM_SECRET", secret, 1);
	}
	if (!is_given("LASTUNIT_TWILIO_KEY")) {
		dev_env_webhook_secret(env, CHANNEL_VOICE, secret);
		setenv("LASTUNIT_TWILIO_KEY", dev_env_key(env, CHANNEL_VOICE), 1);
		setenv("LASTUNIT_TWILIO_TOKEN", secret, 1);
	}
	if (!is_given("LASTUNIT_ALEXA_KEY")) {
		setenv("LASTUNIT_ALEXA_KEY", dev_env_key(env, CHANNEL_VOICE), 1);
		setenv("LASTUNIT_ALEXA_APPLICATION", DEV_ALEXA_APPLICATION, 1);
		setenv("LASTUNIT_ALEXA_VERIFY", "0", 1);
	}
}

/* What the page / acts with: a key for each channel, and what proves that a webhook's call is genuine. `serve` gives it
 * to a page of its own on this machine, and to nobody else (channels/page.c). */
static void serve_page(const struct dev_env *env)
{
	static const enum channel channels[] = {CHANNEL_ADMIN, CHANNEL_WEB,         CHANNEL_TELEGRAM, CHANNEL_AGENT,
	                                        CHANNEL_VOICE, CHANNEL_MARKETPLACE, CHANNEL_POS};
	struct buffer keys = {0};
	struct json_writer w = json_writer(&keys);
	json_object_open(&w);
	for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
		json_key(&w, channel_name(channels[i]));
		json_put_string(&w, dev_env_key(env, channels[i]));
	}
	json_member_string(&w, "telegram_secret", getenv("LASTUNIT_TELEGRAM_SECRET"));
	json_member_string(&w, "twilio_token", getenv("LASTUNIT_TWILIO_TOKEN"));
	json_key(&w, "public_url"); /* the phone signs with it */
	json_put_string(&w, getenv("LASTUNIT_PUBLIC_URL"));
	json_object_close(&w);
	buffer_add_char(&keys, 0);
	setenv("LASTUNIT_PAGE_KEYS", keys.data, 1);
	buffer_done(&keys);
	if (!is_given("LASTUNIT_SHOP_KEY"))
		setenv("LASTUNIT_SHOP_KEY", dev_env_shop_key(env), 1);
}

/* `serve` finds everything in its environment: URLs do not show in `ps`, and whatever else was given to us holds. */
void dev_serve_environment(const struct config *config, const struct dev_env *env)
{
	char number[24];
#define CONFIG_SET_STRING(variable, value) setenv(variable, value, 1)
#define CONFIG_SET_INT(variable, value) \
	(snprintf(number, sizeof number, "%" PRId64, (int64_t)(value)), setenv(variable, number, 1))
#define CONFIG_SET_BOOL(variable, value) setenv(variable, (value) ? "1" : "0", 1)
#define X(type, name, default_, min, max, unit, help)                       \
	{                                                                       \
		char variable[] = "LASTUNIT_" #name;                                \
		for (char *at = variable; *at; at++)                                \
			*at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at); \
		CONFIG_SET_##type(variable, config->name);                          \
	}
#include "base/config.def"
#undef X
	/* On a developer's machine that is where the receivers are. */
	setenv("LASTUNIT_WEBHOOK_PRIVATE_ADDRESSES", "1", 1);
	setenv("LASTUNIT_DATABASE_URL", env->database_url, 1);
	setenv("LASTUNIT_REDIS_URL", env->redis_url, 1);
	serve_channels(env);
	serve_page(env);
}

/* A port that is taken is said before a cluster is made for nothing. What else may be wrong with the address is for
 * `serve` to say. */
bool dev_serve_port_is_free(const char *address, char ret_why[512])
{
	char host[256];
	snprintf(host, sizeof host, "%s", address);
	char *colon = strrchr(host, ':');
	if (!colon || listen_port(address) == 0)
		return true;
	*colon = 0;
	char *name = host;
	if (*name == '[' && colon[-1] == ']') {
		colon[-1] = 0;
		name++;
	}
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
					*found;
	if (getaddrinfo(*name ? name : NULL, colon + 1, &hints, &found) != 0)
		return true;
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	bool taken = bind(fd, found->ai_addr, found->ai_addrlen) < 0 && errno == EADDRINUSE;
	/* Without a listener behind it a bind to a port in use succeeds where both say SO_REUSEADDR: ask for that too. */
	taken = taken || (listen(fd, 1) < 0 && errno == EADDRINUSE);
	close(fd);
	freeaddrinfo(found);
	return !taken ||
	       cmd_refuse(ret_why,
	                  "%s is in use: choose another with --listen ADDRESS:PORT (make run LISTEN=127.0.0.1:8081)",
	                  address);
}
