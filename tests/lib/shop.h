/* The shop of an end-to-end test program: one service for all its tests, and the words they are written in.
 *
 *	int main(void)
 *	{
 *		const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(a_sentence, shop_audit)};
 *		return cmocka_run_group_tests(tests, shop_open, shop_close);
 *	}
 *
 * Each test has SKUs of its own. shop_audit as teardown: after every test every promise is recomputed. Words that say
 * `expect` fail the test; they are for the main thread, because cmocka's asserts are. The others may be called from any.
 */
#ifndef TESTS_LIB_SHOP_H
#define TESTS_LIB_SHOP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/crowd.h"
#include "lib/service.h"

#define SHOP_CHANNELS 6

extern struct service shop;
/* Further options of `lastunit dev`; set before shop_open() runs. NULL: none. */
extern const char *const *shop_options;
/* What the last shop_expect… was answered. */
extern struct answer shop_answer;

int shop_open(void **state);
int shop_close(void **state);
/* A second instance that logs errors only. */
void shop_beside(struct service *instance, const char *database_url, const char *redis_url);
/* Runs `lastunit audit`; shows what it said and fails if a promise is broken. */
int shop_audit(void **state);
/* LASTUNIT_TEST_SHORT is set: under sanitizers, where everything takes ten times as long. */
bool shop_short(void);
int shop_scaled(int full, int when_short);

/* --- asking ------------------------------------------------------------------------------------------------------- */
void shop_expect(const char *key, const char *method, const char *path, const char *headers, const char *body,
                 int status);
/* As the web shop, under a new idempotency key. */
void shop_expect_post(const char *path, const char *body, int status);
void shop_expect_get(const char *path, int status);
/* The answer is a problem with this code whose detail names this word. */
void shop_expect_problem(const char *code, const char *word);
void shop_expect_row(const char *sku, int64_t on_hand, int64_t reserved);
/* The same, and what both say who may be asked: availability from every instance given. */
void shop_expect_seen(const struct service *instance, const char *sku, int64_t available, int64_t held);
/* One call, its status (0: no answer); the problem's code, "" if it is none. */
int shop_ask(const struct service *instance, const char *key, const char *path, const char *body, char ret_code[40]);
/* One call in the background. Of the heap: its thread may outlive a test that fails. */
struct errand {
	const struct service *instance;
	char *key, *method, *path, *body;
	struct answer answer; /* after errand_end() */
	struct crowd *crowd;
	_Atomic bool done;
};
struct errand *errand_begin(const struct service *instance, const char *key, const char *method, const char *path,
                            const char *body);
/* Waits for its answer. Returns the status. */
int errand_end(struct errand *errand);
/* After errand_end(). */
void errand_done(struct errand *errand);
/* "/v1/FOLDER/IDREST". Ring of eight per thread, as for shop_text(). */
const char *shop_path(const char *folder, const char *id, const char *rest);
const char *shop_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* {"idempotency_key": a new one, "lines": […]} of "A=2 B=1"; codes without blanks and '='. */
const char *shop_cart(const char *lines);
/* Web, Telegram, agent, voice, marketplace, till. */
const char *shop_key(int channel);
const char *shop_channel(int channel);
/* The value of a metric of this instance, "lastunit_batches_total"; -1: there is none. */
int64_t shop_metric(const struct service *instance, const char *name);

/* --- behind its back ---------------------------------------------------------------------------------------------- */
/* SQL as the superuser: the first value. */
const char *shop_sql(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t shop_sql_int(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits (60 s) until it says so. */
void shop_wait_sql(const char *sql, const char *wanted);
/* A session of a stranger that keeps its transaction across steps. */
struct stranger;
struct stranger *stranger_new(void);
void stranger_say(struct stranger *stranger, const char *sql);
void stranger_free(struct stranger *stranger);
/* A process that `lastunit dev` started: "postgres", "redis-server", "lastunit". 0: none at the moment. */
pid_t shop_child(const char *name);
/* Kills it (SIGKILL) and waits until another has taken its place and, for "postgres" and "lastunit", serves. */
void shop_restart(const char *name);
/* One command of Redis, words separated by blanks, as text; the caller frees it. */
char *shop_redis(const char *line);
/* Redis's socket and PostgreSQL's, for a proxy on the way to them. */
const char *shop_redis_socket(void);
const char *shop_postgres_socket(void);
/* The raw cell of a SKU in the open namespace; the caller frees it. */
char *shop_cell(const char *sku);
/* Looks until it is served from Redis (60 s). */
void shop_warm(const struct service *instance, const char *sku);
int64_t shop_now_ms(void);
void shop_sleep_ms(int64_t ms);

/* Repeats until the condition is true, 60 s at most. */
#define shop_wait_until(condition)                               \
	do {                                                         \
		int64_t shop_until_ms_ = shop_now_ms() + 60000;          \
		while (!(condition)) {                                   \
			if (shop_now_ms() > shop_until_ms_)                  \
				fail_msg("waited 60 s in vain: %s", #condition); \
			shop_sleep_ms(5);                                    \
		}                                                        \
	} while (0)

#endif
