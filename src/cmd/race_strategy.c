/* The strategies, and the three steps of an attempt.
 *
 * Happy path: look (begin, lock, read: one round trip), write (one round trip), end (COMMIT). A strategy that does not
 * look, with one line, is one statement and its own transaction.
 * Failure modes: 40001 and 40P01 are RACE_AGAIN; 23514 is a refusal where the table has the CHECK; whatever else the server
 * says is RACE_BROKEN. A transaction that did not get to its COMMIT is rolled back before a step returns.
 */
#include "cmd/race_strategy.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"

#define ANSWER_MS 20000
#define TAKE(change, condition)                                                                  \
	"WITH taken AS (UPDATE stock SET " change ", version = version + 1 WHERE sku = $1" condition \
	" RETURNING sku) INSERT INTO sale (sku, customer) SELECT sku, $4 FROM taken"

static const struct pg_statement begin_read_committed = {"race_begin_read_committed",
                                                         "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
static const struct pg_statement begin_serializable = {"race_begin_serializable",
                                                       "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE"};

/* The schema's name makes the numbers this race's own: the shop's locks are in the same database. */
static const struct pg_statement lock_sku =
	{"race_lock_sku", "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/sku', $1))"};
static const struct pg_statement lock_customer =
	{"race_lock_customer", "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/customer', $4))"};
static const struct pg_statement lock_row = {"race_lock_row", "SELECT FROM stock WHERE sku = $1 FOR UPDATE"};

static const struct pg_statement read_plain = {"race_read", "SELECT on_hand, version FROM stock WHERE sku = $1"};
static const struct pg_statement read_locked = {"race_read_locked",
                                                "SELECT on_hand, version FROM stock WHERE sku = $1 FOR UPDATE"};
static const struct pg_statement read_customer =
	{"race_read_customer", "SELECT 1 - count(*), 0::bigint FROM sale WHERE customer = $4 AND sku = $1"};

static const struct pg_statement take_one = {"race_take_one", TAKE("on_hand = on_hand - 1", "")};
static const struct pg_statement take_if_there = {"race_take_if_there",
                                                  TAKE("on_hand = on_hand - 1", " AND on_hand >= 1")};
static const struct pg_statement take_if_unchanged = {"race_take_if_unchanged",
                                                      TAKE("on_hand = $2 - 1", " AND version = $3")};
static const struct pg_statement write_back = {"race_write_back", TAKE("on_hand = $2 - 1", "")};
static const struct pg_statement take_once =
	{"race_take_once",
     "WITH first AS (INSERT INTO sale (sku, customer) VALUES ($1, $4) ON CONFLICT (customer) DO NOTHING RETURNING sku)"
     " UPDATE stock SET on_hand = on_hand - 1, version = version + 1 FROM first WHERE stock.sku = first.sku"};

#define STOCK (RACE_STOCK | RACE_CARTS)

const struct race_strategy race_strategies[] = {
	{"atomic", "one conditional UPDATE; the number of its rows tells", STOCK, true, .write = &take_if_there},
	{"pessimistic", "SELECT … FOR UPDATE, check, UPDATE, COMMIT", STOCK, true, .begin = &begin_read_committed,
     .read = &read_locked, .write = &take_one},
	{"pessimistic", "the stock row FOR UPDATE, then a look whether this customer has one", RACE_ONCE, true,
     .begin = &begin_read_committed, .lock = &lock_row, .read = &read_customer, .write = &take_one},
	{"optimistic", "read with its version, UPDATE … WHERE version = that; no row: again", STOCK, true,
     .read = &read_plain, .write = &take_if_unchanged, .again = RACE_AGAIN_NO_ROW},
	{"constraint", "UPDATE without a look, under CHECK (on_hand >= 0); 23514 is the refusal", STOCK, true,
     .write = &take_one, .checked = true},
	{"constraint", "UNIQUE, and INSERT … ON CONFLICT DO NOTHING; no row: he has it", RACE_ONCE, true,
     .write = &take_once, .checked = true},
	{"serializable", "read, check, write under SERIALIZABLE; 40001: again", STOCK, true, .begin = &begin_serializable,
     .read = &read_plain, .write = &take_one, .again = RACE_AGAIN_CONFLICT},
	{"serializable", "a look whether this customer has one, under SERIALIZABLE; 40001: again", RACE_ONCE, true,
     .begin = &begin_serializable, .read = &read_customer, .write = &take_one, .again = RACE_AGAIN_CONFLICT},
	{"advisory", "pg_advisory_xact_lock of the SKU, read, check, write", STOCK, true, .begin = &begin_read_committed,
     .lock = &lock_sku, .read = &read_plain, .write = &take_one},
	{"advisory", "pg_advisory_xact_lock of the customer, a look whether he has one, write", RACE_ONCE, true,
     .begin = &begin_read_committed, .lock = &lock_customer, .read = &read_customer, .write = &take_one},
	{"lastunit", "a checkout over HTTP, with its key, its ledger entry and its cache", STOCK, true, .write = NULL},
	{"lastunit", "a checkout over HTTP whose idempotency key is the customer", RACE_ONCE, true, .write = NULL},
	{"naive", "in one transaction: read without a lock, check, decrement", STOCK, false, .begin = &begin_read_committed,
     .read = &read_plain, .write = &take_one},
	{"naive", "in one transaction: a look whether this customer has one, insert", RACE_ONCE, false,
     .begin = &begin_read_committed, .read = &read_customer, .write = &take_one},
	{"lost-update", "read, subtract in the program, write the result back", STOCK, false,
     .begin = &begin_read_committed, .read = &read_plain, .write = &write_back},
	{"process-mutex",
     "lost-update under a mutex in each of two processes (played by two mutexes, half the buyers each)", STOCK, false,
     .begin = &begin_read_committed, .read = &read_plain, .write = &write_back, .mutex = true},
	{"unordered", "SELECT … FOR UPDATE of a cart's SKUs in the order in which they lie in it", RACE_CARTS, false,
     .begin = &begin_read_committed, .read = &read_locked, .write = &take_one, .cart_order = true},
};
const size_t race_strategy_count = sizeof race_strategies / sizeof *race_strategies;

void race_try_init(struct race_try *t, const struct race_strategy *strategy, struct pg *pg,
                   const struct race_cart *cart)
{
	*t = (struct race_try){.strategy = strategy, .pg = pg, .cart = *cart};
	CHECK(cart->lines >= 1 && cart->lines <= RACE_LINES_MAX);
	arena_init(&t->arena, 4096);
	int64_t *skus = t->cart.skus;
	if (!strategy->cart_order && cart->lines == 2 && skus[0] > skus[1]) {
		skus[0] = cart->skus[1];
		skus[1] = cart->skus[0];
	}
}

void race_try_done(struct race_try *t)
{
	arena_done(&t->arena);
}

static int64_t deadline(void)
{
	return deadline_in_ms(ANSWER_MS);
}

static void add_line(struct race_try *t, const struct pg_statement *statement, int line)
{
	struct pg_params params;
	pg_params_init(&params, &t->arena);
	pg_add_int8(&params, t->cart.skus[line]);
	pg_add_int8(&params, t->on_hand[line]);
	pg_add_int8(&params, t->version[line]);
	pg_add_int8(&params, t->cart.customer);
	pg_pipe_add(t->pg, statement, &params);
}

static void abandon(struct race_try *t)
{
	pg_rollback(t->pg, deadline());
	t->open = false;
}

static enum race_outcome refuse(struct race_try *t, int line)
{
	t->short_lines |= 1u << line;
	abandon(t);
	return RACE_REFUSED;
}

/* line: at which it failed. */
static enum race_outcome fail(struct race_try *t, int line)
{
	const struct pg_error *error = pg_error(t->pg);
	bool sold_out = t->strategy->checked && strcmp(error->sqlstate, "23514") == 0;
	t->deadlock = strcmp(error->sqlstate, "40P01") == 0;
	bool again = t->deadlock || ((t->strategy->again & RACE_AGAIN_CONFLICT) && strcmp(error->sqlstate, "40001") == 0);
	if (sold_out)
		return refuse(t, line);
	abandon(t);
	return again ? RACE_AGAIN : RACE_BROKEN;
}

/* --- look --------------------------------------------------------------------------------------------------------- */

static enum lu_error take_nothing(struct race_try *t)
{
	PGresult *result = NULL;
	enum lu_error error = pg_pipe_take(t->pg, deadline(), &result);
	pg_clear(&result);
	return error;
}

static enum lu_error take_read(struct race_try *t, int line)
{
	PGresult *result = NULL;
	enum lu_error error = pg_pipe_take(t->pg, deadline(), &result);
	if (!error) {
		CHECK(PQntuples(result) == 1);
		t->on_hand[line] = pg_get_int(result, 0, 0);
		t->version[line] = pg_get_int(result, 0, 1);
	}
	pg_clear(&result);
	return error;
}

enum race_outcome race_look(struct race_try *t, int from, int to)
{
	const struct race_strategy *s = t->strategy;
	bool begins = s->begin && !t->open;
	if (!s->read)
		return RACE_GO_ON;
	if (begins)
		pg_pipe_add(t->pg, s->begin, NULL);
	t->open = t->open || begins;
	for (int i = from; i < to; i++) {
		if (s->lock)
			add_line(t, s->lock, i);
		add_line(t, s->read, i);
	}
	int line = from;
	enum lu_error error = pg_pipe_send(t->pg, deadline());
	if (!error && begins)
		error = take_nothing(t);
	for (; !error && line < to; line++) {
		if (s->lock)
			error = take_nothing(t);
		if (!error)
			error = take_read(t, line);
	}
	if (!error)
		error = pg_pipe_end(t->pg, deadline());
	return error ? fail(t, line) : RACE_GO_ON;
}

/* --- write -------------------------------------------------------------------------------------------------------- */

/* The rows that line `line` has taken: 1, or 0. */
static enum lu_error take_written(struct race_try *t, bool *ret_taken)
{
	PGresult *result = NULL;
	enum lu_error error = pg_pipe_take(t->pg, deadline(), &result);
	*ret_taken = !error && atoi(PQcmdTuples(result)) == 1;
	pg_clear(&result);
	return error;
}

static enum race_outcome nothing_taken(struct race_try *t, unsigned lines)
{
	if (t->strategy->again & RACE_AGAIN_NO_ROW) {
		abandon(t);
		return RACE_AGAIN;
	}
	t->short_lines |= lines;
	abandon(t);
	return RACE_REFUSED;
}

static enum race_outcome write_lines(struct race_try *t)
{
	bool begins = !t->open && (t->cart.lines > 1 || t->explicit), taken;
	if (begins)
		pg_pipe_add(t->pg, &begin_read_committed, NULL);
	t->open = t->open || begins;
	for (int i = 0; i < t->cart.lines; i++)
		add_line(t, t->strategy->write, i);
	unsigned missed = 0;
	int line = 0;
	enum lu_error error = pg_pipe_send(t->pg, deadline());
	if (!error && begins)
		error = take_nothing(t);
	for (; !error; line++) {
		if (line == t->cart.lines)
			break;
		error = take_written(t, &taken);
		if (error)
			break;
		missed |= taken ? 0 : 1u << line;
	}
	/* Outside a transaction the commit happens at the end of the pipeline. */
	if (!error)
		error = pg_pipe_end(t->pg, deadline());
	if (error)
		return fail(t, line < t->cart.lines ? line : t->cart.lines - 1);
	if (missed)
		return nothing_taken(t, missed);
	return t->open ? RACE_GO_ON : RACE_SOLD;
}

enum race_outcome race_write(struct race_try *t)
{
	if (t->strategy->read) {
		unsigned missing = 0;
		for (int i = 0; i < t->cart.lines; i++)
			missing |= t->on_hand[i] < 1 ? 1u << i : 0;
		if (missing) {
			t->short_lines |= missing;
			abandon(t);
			return RACE_REFUSED;
		}
	}
	return write_lines(t);
}

/* --- end ---------------------------------------------------------------------------------------------------------- */

enum race_outcome race_end(struct race_try *t)
{
	bool sent;
	if (pg_commit(t->pg, deadline(), &sent))
		return fail(t, 0);
	t->open = false;
	return RACE_SOLD;
}
