/* `lastunit why SKU`: what a look-up of it would answer now, and why. Gathered by why_row.c (PostgreSQL), why_cell.c
 * (Redis, and whether the two agree) and why_near.c (there is no such SKU), told by why_print.c.
 *
 * Row, cell, row: a cell is judged only against rows read on both sides of it, because sales go on. What is wrong is named
 * in `findings`. Nothing is changed. Texts live in the arena. Thread: one.
 */
#ifndef CMD_WHY_H
#define CMD_WHY_H

#include <stdio.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "cache/cell.h"
#include "inventory/weakness.h"
#include "lastunit/decide.h"
#include "store/epoch.h"

#define WHY_HOLDS_MAX 20
#define WHY_PRINCIPALS_MAX 10
#define WHY_NEAR_MAX 8

/* One look at the row and what depends on it: one statement, one snapshot. */
struct why_row {
	bool known;
	int64_t id;
	struct figures figures;
	struct text title; /* data NULL: none */
	int64_t holds, held_units;
	int64_t relay_waiting, relay_oldest_ms; /* changes of it made in SQL whose cell is still to be removed */
	/* The session that has the row locked, as far as this user may see it. */
	int64_t locker_pid; /* 0: none */
	struct text locker_application;
};

struct why_hold {
	struct uuid reservation_id;
	int64_t quantity, left_ms;
	bool counted;
	enum channel channel;
	struct text principal, reference;
};

struct why_entry {
	struct ledger_entry entry;
	struct text principal;
	int64_t at_us, age_ms;
};

/* A principal that sees another number than the rest. */
struct why_principal {
	struct text name;
	int64_t buffer, available;
	bool may_use_safety_stock;
};

struct why_near {
	struct text sku;
	const char *reason;
};

enum why_verdict {
	WHY_NOT_LOOKED,  /* no --redis-url, or no epoch is open */
	WHY_UNREACHABLE, /* Redis */
	WHY_FENCED,      /* not the Redis the epoch was opened on */
	WHY_ABSENT,      /* and so for F: nobody is shown anything */
	WHY_FILLING,
	WHY_AGREES,
	WHY_BEHIND,  /* legally: the relay has not come to it yet */
	WHY_WRITING, /* a marker that came or went meanwhile */
	WHY_STUCK,   /* a marker that has stood for more than a second */
	WHY_WRONG,   /* a value that is not the row's, for more than a second */
	WHY_FOREIGN,
};

struct why {
	struct arena *arena;
	struct text sku;
	int64_t entries_max;
	struct epoch_row epoch;
	struct why_row row;
	struct why_hold *holds;
	size_t hold_count;
	struct why_entry *entries; /* newest first */
	size_t entry_count;
	struct why_principal *principals;
	size_t principal_count;
	struct why_near *near; /* when the SKU is unknown */
	size_t near_count;
	struct text key;
	struct cell cell;
	int64_t ttl_ms; /* of the cell; -1: it has no end */
	enum why_verdict verdict;
	const char *verdict_sentence;
	struct weaknesses findings;
};

/* --- why_row.c; errors are PostgreSQL's --------------------------------------------------------------------------- */
enum lu_error why_look_row(struct why *why, struct pg *pg) LU_MUST_CHECK;
/* Holds, entries, principals, of a row that is known; and whether they add up. */
enum lu_error why_look_rest(struct why *why, struct pg *pg) LU_MUST_CHECK;
/* why_near.c */
enum lu_error why_look_near(struct why *why, struct pg *pg) LU_MUST_CHECK;
/* why_cell.c; looks at the row again. Redis away is a verdict, no error. address NULL: none. */
enum lu_error why_look_cell(struct why *why, struct pg *pg, const struct redis_address *address, int64_t timeout_ms)
	LU_MUST_CHECK;

/* True when the next look-up is answered from the cell, by an instance that holds its read lease. */
bool why_is_hit(const struct why *why);
void why_print(const struct why *why, FILE *out);
void why_json(const struct why *why, struct buffer *out);

#define WHY_ASK_MS 10000

#endif
