/* What happened in a simulated shop, and the judge of it.
 *
 * The driver writes down what its clients asked and were told, with the monotonic times of call and answer, and reads
 * the ledger when all is quiet. history_check() compares the two. It knows nothing of HTTP, SQL, threads or faults, so
 * that its own test can hand it histories that are wrong in one way each (history_test.c).
 *
 * The rules; tests/sim/README.md says why each is the promise it is:
 *
 *	ANSWERED  a read's version is at least every version answered before the read began
 *	SEEN      a read's version is at least every version returned by a read that ended before it began
 *	BEGUN     every write up to a version that is returned began before that return
 *	CONTENT   a read says of a version what the ledger's entry says
 *	ORDER     a write's version is above every version answered or seen before the write began
 *	ONCE      each answered effect is in the ledger once, each entry of the ledger was asked for once, and one key has one
 *	          answer
 *	LEDGER    versions are dense, balances add up, nothing was sold that was not there
 *	ENDS      a hold ends once, all its lines the same way, does not expire before its time, and is not sold after it
 *	REFUSAL   the figures in a refusal were true at a moment between call and answer, and too small
 *	TIME      a request is answered by its deadline and the grace, not counting time in which its instance was stopped
 *	LOST      a connection is lost only to an instance that was killed
 *
 * Versions written by strangers straight in SQL bind readers only from `sql_lag_ns` after they were committed, and
 * later while a fault is near: they are promised within a time, not at once.
 * Thread: none of its own.
 */
#ifndef TESTS_SIM_HISTORY_H
#define TESTS_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lastunit/decide.h"

#define HISTORY_LINES_MAX 8
#define HISTORY_SHOWN_MAX 20
#define HISTORY_NEVER INT64_MAX

/* Times are nanoseconds of CLOCK_MONOTONIC. */
struct history_entry {
	enum ledger_kind kind;
	int64_t version;
	int64_t on_hand_delta, reserved_delta, on_hand_after, reserved_after;
	int64_t at_ns; /* the database's clock when it was written, a moment before COMMIT */
	struct uuid operation_id;
	/* history_check() fills: */
	int64_t began_ns;     /* when the write that made it began; HISTORY_NEVER: nobody asked for it */
	int64_t firm_from_ns; /* strangers' entries: from then on they bind readers */
	unsigned claims;
};

struct history_sku {
	char code[32];
	int64_t safety_stock;
	bool tracked;
	struct history_entry *entries; /* ordered by version */
	size_t entry_count;
};

struct history_line {
	int sku;
	int64_t quantity; /* asked; adjustments: the delta, or the new value if `set` */
	bool set;
	int64_t version; /* as answered; 0: none */
	/* refusals: */
	int64_t requested, available, held; /* -1: not told */
};

struct history_answer {
	int64_t returned_ns;
	int status;
	uint64_t digest; /* of the body */
};

#define HISTORY_ANSWERS_MAX 6

/* One idempotency key, from its first call to its answers. Only answers that decide something are kept: 5xx and
 * idempotency_in_flight are tries. */
struct history_write {
	enum operation_kind kind;
	int client;
	char key[40];
	int64_t called_ns;
	struct history_answer answers[HISTORY_ANSWERS_MAX]; /* the first decides; the others were replays */
	size_t answer_count;
	char code[40];                /* of a refusal, "" if done */
	struct uuid object;           /* made: reservation, checkout, adjustment */
	struct uuid target, other;    /* named by the request */
	enum reservation_state state; /* RELEASE: as answered */
	int64_t expires_at_ns;        /* RESERVE, EXTEND: as answered */
	int64_t created_at_ns;        /* COMMIT: of the checkout, as answered */
	struct history_line lines[HISTORY_LINES_MAX];
	size_t line_count;
};

struct history_read {
	int client, instance;
	int64_t called_ns, returned_ns;
	int sku;
	int64_t version, available, held; /* available -1: not counted */
	int64_t on_hand;                  /* -1: not told */
	bool tracked, hit;
};

/* A stranger's statement that was answered with a version. */
struct history_sql {
	int sku;
	int64_t version, on_hand_delta;
	int64_t called_ns, returned_ns;
	bool sure; /* COMMIT was answered */
};

struct history_request {
	int client, instance;
	int64_t called_ns, returned_ns;
	int status; /* 0: the connection was lost, or could not be had */
	bool timed_out;
};

enum history_outage_kind {
	HISTORY_DEAD,    /* killed, until it serves again: connections are lost */
	HISTORY_STOPPED, /* SIGSTOP: time stands still for its requests */
	HISTORY_STALL,   /* the machine itself did not run us */
	HISTORY_FAULT,   /* anything else: strangers' writes are seen later */
};

struct history_outage {
	enum history_outage_kind kind;
	int instance; /* -1: all */
	int64_t from_ns, to_ns;
};

struct history {
	struct history_sku *skus;
	size_t sku_count;
	struct history_write *writes;
	size_t write_count;
	struct history_read *reads;
	size_t read_count;
	struct history_sql *sqls;
	size_t sql_count;
	struct history_request *requests;
	size_t request_count;
	struct history_outage *outages;
	size_t outage_count;
	int64_t deadline_ns;    /* of a request, with the grace */
	int64_t sql_lag_ns;     /* strangers' writes bind readers so long after COMMIT … */
	int64_t recovery_ns;    /* … and so long after the end of a fault */
	int64_t clock_slack_ns; /* how far the database's clock and ours may be apart */
	int64_t origin_ns;      /* times are told relative to it */
};

enum history_rule {
	HISTORY_ANSWERED,
	HISTORY_SEEN,
	HISTORY_BEGUN,
	HISTORY_CONTENT,
	HISTORY_ORDER,
	HISTORY_ONCE,
	HISTORY_LEDGER,
	HISTORY_ENDS,
	HISTORY_REFUSAL,
	HISTORY_TIME,
	HISTORY_LOST,
	HISTORY_RULES,
};
const char *history_rule_name(enum history_rule rule);

struct history_report {
	unsigned broken[HISTORY_RULES];
	unsigned total;
	char *shown[HISTORY_SHOWN_MAX]; /* the first, a sentence each */
	size_t shown_count;
};

/* Judges. Fills the last fields of the entries and the versions of cancellations; the rest is left as it was. */
void history_check(struct history *history, struct history_report *ret_report);
void history_report_done(struct history_report *report);

#endif
