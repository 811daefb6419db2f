/* dev.env: the URLs and keys of a `lastunit dev`, for whoever wants to use it. `set -a; . DIR/dev.env` works, and so
 * does splitting each line at its first `=`: no value holds anything that a shell would expand.
 *
 * Happy path: read the keys of an earlier start, make those that are missing, write the file anew (rename, 0600).
 * Failure modes: a key of another shape is replaced by a new one; a disk that is full leaves the old file.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/dev.h"
#include "store/key.h"
#include "store/principal.h"

#define STORE_MS 10000
#define KEY_PREFIX "lu_"

_Static_assert(DEV_SECRET_BYTES == KEY_SECRET_BYTES, "a secret fits");

#define SELL (SCOPE_READ | SCOPE_SELL)
/* Caps that no person reaches and no script gets past: one caller, and, where anybody may call, all of them together. */
#define CALLERS .caller_holds_max = 20, .caller_held_units_max = 20
#define EVERYBODY .holds_max = 5000
static const struct {
	const char *variable, *principal;
	enum channel channel;
	unsigned scopes;
	const char *origins;            /* of a publishable key; NULL: a secret one */
	struct principal_settings caps; /* of a new principal; one that is there keeps what it has */
} rows[DEV_KEY_COUNT] = {
	{"LASTUNIT_KEY_ADMIN", "admin", CHANNEL_ADMIN, SELL | SCOPE_ORDERS | SCOPE_STOCK | SCOPE_ADMIN, NULL, {0}},
	{"LASTUNIT_KEY_WEB", "web", CHANNEL_WEB, SELL | SCOPE_ORDERS, NULL, {CALLERS}},
	{"LASTUNIT_KEY_TELEGRAM", "telegram", CHANNEL_TELEGRAM, SELL | SCOPE_ORDERS, NULL, {CALLERS, EVERYBODY}},
	{"LASTUNIT_KEY_AGENT", "agent", CHANNEL_AGENT, SELL, NULL, {CALLERS, EVERYBODY}},
	{"LASTUNIT_KEY_VOICE", "voice", CHANNEL_VOICE, SELL, NULL, {CALLERS, EVERYBODY}},
	{"LASTUNIT_KEY_MARKETPLACE", "marketplace", CHANNEL_MARKETPLACE, SELL, NULL, {0}},
	{"LASTUNIT_KEY_POS", "pos", CHANNEL_POS, SELL, NULL, {0}},
	/* For product pages: those of the service itself send no Origin, a site in the making runs here. */
	{"LASTUNIT_SHOP_KEY", "shop", CHANNEL_WEB, SCOPE_READ, "http://localhost:3000 http://127.0.0.1:3000", {0}},
};

static void secret_new(const char *prefix, char out[DEV_SECRET_BYTES + 1])
{
	static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	char *to = stpcpy(out, prefix);
	while (to < out + DEV_SECRET_BYTES)
		*to++ = letters[random_below(sizeof letters - 1)];
	*to = 0;
}

/* A secret as secret_new() makes them. */
static bool is_secret(const char *text)
{
	return strlen(text) == DEV_SECRET_BYTES && strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) == 0 &&
	       strspn(text + strlen(KEY_PREFIX), "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") ==
	           DEV_SECRET_BYTES - strlen(KEY_PREFIX);
}

bool dev_env_load(const struct dev_home *home, struct dev_env *ret_env, char ret_why[512])
{
	*ret_env = (struct dev_env){0};
	char path[PATH_MAX], line[512];
	FILE *file = fopen(dev_home_path(home, "dev.env", path), "re");
	if (!file && errno != ENOENT)
		return cmd_refuse(ret_why, "cannot read %s: %s", path, strerror(errno));
	while (file && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\r\n")] = 0;
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = 0;
		for (size_t i = 0; i < DEV_KEY_COUNT; i++)
			if (strcmp(line, rows[i].variable) == 0 && is_secret(value))
				strcpy(ret_env->keys[i], value);
	}
	if (file)
		fclose(file);
	for (size_t i = 0; i < DEV_KEY_COUNT; i++)
		if (!*ret_env->keys[i])
			secret_new(rows[i].origins ? KEY_PREFIX "pub_" : KEY_PREFIX, ret_env->keys[i]);
	dev_postgres_url(home, "lastunit", ret_env->database_url);
	dev_redis_url(home, ret_env->redis_url);
	return true;
}

bool dev_env_save(const struct dev_home *home, const struct dev_env *env, char ret_why[512])
{
	char path[PATH_MAX], final[PATH_MAX];
	struct buffer text = {0};
	buffer_add_format(&text, "LASTUNIT_URL=%s\nLASTUNIT_DATABASE_URL=%s\nLASTUNIT_REDIS_URL=%s\n", env->url,
	                  env->database_url, env->redis_url);
	for (size_t i = 0; i < DEV_KEY_COUNT; i++)
		buffer_add_format(&text, "%s=%s\n", rows[i].variable, env->keys[i]);
	char secret[DEV_WEBHOOK_SECRET_BYTES + 1];
	dev_env_webhook_secret(env, CHANNEL_TELEGRAM, secret);
	buffer_add_format(&text, "LASTUNIT_TELEGRAM_SECRET=%s\n", secret);
	dev_env_webhook_secret(env, CHANNEL_VOICE, secret);
	buffer_add_format(&text, "LASTUNIT_TWILIO_TOKEN=%s\nLASTUNIT_ALEXA_APPLICATION=%s\n", secret,
	                  DEV_ALEXA_APPLICATION);
	dev_home_path(home, "dev.env.new", path);
	dev_home_path(home, "dev.env", final);
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool done = fd >= 0 && write(fd, text.data, text.size) == (ssize_t)text.size && fsync(fd) == 0 &&
	            rename(path, final) == 0;
	int error = errno;
	if (fd >= 0)
		close(fd);
	buffer_done(&text);
	return done || cmd_refuse(ret_why, "cannot write %s: %s", final, strerror(error));
}

/* A principal with its key; its caps are set only when it is made, so that what its owner set since stays. */
static enum lu_error store_row(size_t i, const char *secret, struct pg *pg)
{
	struct text name = text_of(rows[i].principal);
	const struct principal_settings *caps = &rows[i].caps;
	struct principal_row *found;
	size_t count;
	bool known;
	struct arena arena;
	arena_init(&arena, 0);
	enum lu_error error = principal_list(pg, &arena, name, deadline_in_ms(STORE_MS), &found, &count);
	arena_done(&arena);
	if (!error)
		error = key_store(pg, name, rows[i].channel, rows[i].scopes,
		                  rows[i].origins ? text_of(rows[i].origins) : (struct text){0}, secret,
		                  deadline_in_ms(STORE_MS));
	if (error || count)
		return error;
	struct principal_change change = PRINCIPAL_UNCHANGED;
	change.holds_max = caps->holds_max;
	change.caller_holds_max = caps->caller_holds_max;
	change.caller_held_units_max = caps->caller_held_units_max;
	return principal_change(pg, name, &change, deadline_in_ms(STORE_MS), &known);
}

bool dev_env_store_keys(const struct dev_env *env, struct pg *pg, char ret_why[512])
{
	for (size_t i = 0; i < DEV_KEY_COUNT; i++) {
		enum lu_error error = store_row(i, env->keys[i], pg);
		if (error)
			return cmd_refuse(ret_why, "cannot store the key of %s: %s %s", rows[i].principal, lu_error_code(error),
			                  pg_error(pg)->message);
	}
	return true;
}

void dev_env_print_keys(const struct dev_env *env)
{
	for (size_t i = 0; i < DEV_KEY_COUNT; i++)
		printf("  %-12s %s\n", rows[i].principal, env->keys[i]);
}

const char *dev_env_key(const struct dev_env *env, enum channel channel)
{
	for (size_t i = 0; i < DEV_KEY_COUNT; i++)
		if (rows[i].channel == channel)
			return env->keys[i];
	check_failed(__FILE__, __LINE__, "a key of this channel");
}

const char *dev_env_shop_key(const struct dev_env *env)
{
	return env->keys[DEV_KEY_COUNT - 1];
}

void dev_env_webhook_secret(const struct dev_env *env, enum channel channel, char out[DEV_WEBHOOK_SECRET_BYTES + 1])
{
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	const char *key = dev_env_key(env, channel);
	SHA256((const unsigned char *)key, strlen(key), sha256);
	for (size_t i = 0; i < DEV_WEBHOOK_SECRET_BYTES / 2; i++)
		sprintf(out + 2 * i, "%02x", sha256[i]);
}
