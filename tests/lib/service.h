/* The real service under test: `lastunit dev` with PostgreSQL and Redis of its own, and the calls a test makes most.
 *
 * service_start() runs `lastunit dev --data TMP --listen 127.0.0.1:0 --no-demo --ephemeral`, waits for its `ready` line
 * and reads TMP/dev.env; service_stop() ends it by SIGTERM to its pid. The binary is $LASTUNIT_BIN, or `lastunit` above
 * the test's own directory `tests`. A harness that cannot go on (no binary, no answer from a call that must succeed)
 * prints why and aborts: what is asserted is the test's business. Thread: after service_start() any; each thread has its
 * own kept-alive connection, which ends with it.
 */
#ifndef TESTS_LIB_SERVICE_H
#define TESTS_LIB_SERVICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct service {
	pid_t pid;
	int output; /* its stdout, read up to the `ready` line */
	char directory[96];
	char url[64]; /* "http://127.0.0.1:40001" */
	int port;
	char database_url[512]; /* the private cluster's superuser */
	char redis_url[256];
	char key_admin[64];                                                  /* all scopes */
	char key_web[64], key_telegram[64];                                  /* read sell orders */
	char key_agent[64], key_voice[64], key_marketplace[64], key_pos[64]; /* read sell */
};

/* `options`: further arguments of `dev`, NULL-ended; NULL: none. */
void service_start(struct service *service, const char *const *options);
/* A second instance, `lastunit serve` with these options, beside the first: on its PostgreSQL and Redis, or on the way
 * to them that is given (NULL: the first's). The keys are the same. */
void service_beside(struct service *service, const struct service *first, const char *database_url,
                    const char *redis_url, const char *const *options);
/* SIGTERM, waits. Returns the exit code, or 128 + the signal that ended it. */
int service_stop(struct service *service);
/* Runs `lastunit` with these arguments (NULL-ended, without argv[0]) and the service's variables (LASTUNIT_URL,
 * LASTUNIT_DATABASE_URL, …) in its environment; its output goes to the test's stderr. Returns the exit code. */
int service_run(const struct service *service, const char *const *arguments);
/* `lastunit audit`: 0 when every promise holds. */
int service_audit(const struct service *service);

/* --- calls -------------------------------------------------------------------------------------------------------- */
struct answer {
	int status;    /* 0: no answer (refused, broken, 20 s over) */
	char *headers; /* as received, from the status line on; NUL behind */
	char *body;    /* NUL behind */
	size_t body_size;
	json_t *json; /* the body, if it is JSON; NULL otherwise */
};

/* key: a bearer key, NULL: none. headers: "Name: value\r\n…" or NULL. body: JSON text, NULL: none. */
struct answer service_call(const struct service *service, const char *key, const char *method, const char *path,
                           const char *headers, const char *body);
/* The same of a service that may be dead: no answer is not worth a line on stderr. */
struct answer service_try(const struct service *service, const char *key, const char *method, const char *path,
                          const char *headers, const char *body);
void answer_done(struct answer *answer);
/* The value of a header, case-insensitive, first of its name; "" if absent. In the ring of four of this thread. */
const char *answer_header(const struct answer *answer, const char *name);
/* A member by its path, "lines.0.available"; NULL if there is none. Borrowed. */
json_t *answer_at(const struct answer *answer, const char *path);
int64_t answer_int(const struct answer *answer, const char *path);        /* INT64_MIN: no integer there */
const char *answer_string(const struct answer *answer, const char *path); /* "": no string there */

/* --- the stock's words; each is one or two calls and returns the HTTP status -------------------------------------- */
/* A new SKU, tracked. Aborts unless it is created. */
void service_create_sku(const struct service *service, const char *sku, int64_t on_hand);
/* One line sold / held. idempotency_key NULL: a random one. */
int service_sell(const struct service *service, const char *key, const char *idempotency_key, const char *sku,
                 int64_t quantity);
int service_reserve(const struct service *service, const char *key, const char *idempotency_key, const char *sku,
                    int64_t quantity, int64_t ttl_s, char ret_id[37]); /* ret_id "" if refused */
/* what: "commit", "release", "extend". */
int service_end(const struct service *service, const char *key, const char *reservation_id, const char *what);
int service_adjust(const struct service *service, const char *sku, int64_t delta);

/* GET /v1/availability/{sku} with the admin key. `status` not 200: the rest is 0. */
struct seen {
	int status;
	int64_t available, held, version;
	bool tracked;
};
struct seen service_see(const struct service *service, const char *sku);
/* GET /v1/skus/{sku}: the row in PostgreSQL. */
struct row {
	int status;
	int64_t on_hand, reserved, safety_stock, version;
	bool tracked;
};
struct row service_row(const struct service *service, const char *sku);
/* Entries in the ledger of this kind ("sale", …; NULL: all); -1 if it cannot be read. */
int64_t service_ledger_count(const struct service *service, const char *sku, const char *kind);
/* A key nobody used: in the ring of eight of this thread. */
const char *service_new_key(void);

#endif
