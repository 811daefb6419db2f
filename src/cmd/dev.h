/* `lastunit dev`: a supervisor and its three children, PostgreSQL, Redis and `lastunit serve`.
 *
 * The supervisor is one thread in one loop over one signalfd. Each child is a struct dev_server: how it is started, how
 * it is told to end. What is private to PostgreSQL, Redis and the demo stands in dev_postgres.c, dev_redis.c,
 * dev_serve.c, dev_env.c and dev_demo.c.
 */
#ifndef CMD_DEV_H
#define CMD_DEV_H

#include <stdint.h>

#include "cmd/cmd.h"
#include "cmd/dev_home.h"
#include "store/pg.h"

#define DEV_URL_BYTES_MAX 256
#define DEV_KEY_COUNT 8
#define DEV_SECRET_BYTES 35
#define DEV_DEMO_SKU "LAMP-FIREFLY"

struct dev_server {
	const char *name; /* "postgres": its log is DIR/postgres.log */
	pid_t (*start)(const struct dev_home *home, const struct child_user *user, int output, int log);
	int end_signal;   /* asks it to end in order */
	int abort_signal; /* ends it now */
	int64_t end_ms;   /* how long the first may take before the second follows */
	pid_t pid;        /* 0: not running */
	int64_t started_ns;
	int64_t start_at_ns; /* not running: when to try again */
	int64_t delay_ms;    /* the last wait before a new start */
};

/* --- PostgreSQL: dev_postgres.c ----------------------------------------------------------------------------------- */
/* Finds the binaries. False with a sentence when they are not there. */
bool dev_postgres_find(char ret_why[512]);
/* Makes the cluster if there is none; a half-made one of a broken start is thrown away. Its messages go to `log`. */
bool dev_postgres_init(const struct dev_home *home, const struct child_user *user, bool keep, int log,
                       char ret_why[512]);
pid_t dev_postgres_start(const struct dev_home *home, const struct child_user *user, int output, int log);
/* At the start of a life: a postmaster.pid left by a crash may name a pid that somebody else has by now, and PostgreSQL
 * would refuse. We hold DIR/lock, so no postmaster of it is alive. */
void dev_postgres_forget_pid(const struct dev_home *home);
/* Does it take connections? */
bool dev_postgres_ready(const struct dev_home *home);
void dev_postgres_url(const struct dev_home *home, const char *database, char out[DEV_URL_BYTES_MAX]);
/* The database `lastunit`, with the newest schema. */
bool dev_postgres_prepare(const struct dev_home *home, char ret_why[512]);
struct pg *dev_postgres_connect(const char *url, char ret_why[512]);

/* --- Redis: dev_redis.c ------------------------------------------------------------------------------------------- */
bool dev_redis_find(char ret_why[512]);
pid_t dev_redis_start(const struct dev_home *home, const struct child_user *user, int output, int log);
bool dev_redis_ready(const struct dev_home *home);
void dev_redis_url(const struct dev_home *home, char out[DEV_URL_BYTES_MAX]);

/* --- keys and dev.env: dev_env.c ---------------------------------------------------------------------------------- */
struct dev_env {
	char database_url[DEV_URL_BYTES_MAX], redis_url[DEV_URL_BYTES_MAX];
	char url[DEV_URL_BYTES_MAX];                    /* of the service, "" before it serves */
	char keys[DEV_KEY_COUNT][DEV_SECRET_BYTES + 1]; /* in the order of the table in dev_env.c: admin first */
};

/* The keys of an earlier start, or new ones. */
bool dev_env_load(const struct dev_home *home, struct dev_env *ret_env, char ret_why[512]);
bool dev_env_save(const struct dev_home *home, const struct dev_env *env, char ret_why[512]);
/* Makes the principals and their keys known to the database. */
bool dev_env_store_keys(const struct dev_env *env, struct pg *pg, char ret_why[512]);
void dev_env_print_keys(const struct dev_env *env);
const char *dev_env_key(const struct dev_env *env, enum channel channel);
/* That of the product pages. */
const char *dev_env_shop_key(const struct dev_env *env);
#define DEV_ALEXA_APPLICATION "amzn1.ask.skill.lastunit-dev"
/* The secret of a channel's webhook: made from its key, so that it is the same at each start. */
#define DEV_WEBHOOK_SECRET_BYTES 32
void dev_env_webhook_secret(const struct dev_env *env, enum channel channel, char out[DEV_WEBHOOK_SECRET_BYTES + 1]);

/* --- serve: dev_serve.c ------------------------------------------------------------------------------------------- */
bool dev_serve_port_is_free(const char *address, char ret_why[512]);
/* Puts all options of the service into the environment: URLs do not show in `ps`. LASTUNIT_LISTEN must be there before
 * dev_serve_start(). */
void dev_serve_environment(const struct config *config, const struct dev_env *env);
pid_t dev_serve_start(const struct dev_home *home, const struct child_user *user, int output, int log);

/* --- the demo catalogue: dev_demo.c ------------------------------------------------------------------------------- */
/* Loads sql/demo.csv into an empty catalogue, in one transaction. *ret_count: how many SKUs it loaded. */
bool dev_demo_load(struct pg *pg, int64_t *ret_count, char ret_why[512]);
/* Is its last unit, DEV_DEMO_SKU, in the catalogue? */
bool dev_demo_there(struct pg *pg, bool *ret_there, char ret_why[512]);

#endif
