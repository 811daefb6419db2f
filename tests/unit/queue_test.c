/* The queue: FIFO per SKU, nobody starves, nobody's batch meets another's, and each batch takes all that it may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "inventory/queue.h"
#include "lib/dies.h"

#define CLAIMS_MAX 4

/* An operation with room for what it points to. `skus` are small numbers, their claims odd; `key` is an even claim. */
struct item {
	struct operation operation;
	uint64_t claims[CLAIMS_MAX + 1];
	int number;
};

static struct operation *init(struct item *item, enum operation_kind kind, const int *skus, size_t sku_count, int key)
{
	*item = (struct item){.operation = {.kind = kind, .claims = item->claims, .deadline_ns = DEADLINE_NONE}};
	for (size_t i = 0; i < sku_count; i++)
		item->claims[item->operation.claim_count++] = (uint64_t)skus[i] * 2 + 1;
	item->operation.sku_count = item->operation.line_count = sku_count;
	if (key)
		item->claims[item->operation.claim_count++] = (uint64_t)key * 2;
	return &item->operation;
}

/* "AB": SKUs A and B. */
static struct operation *make(const char *skus)
{
	int numbers[CLAIMS_MAX];
	size_t count = strlen(skus);
	for (size_t i = 0; i < count; i++)
		numbers[i] = skus[i];
	return init(malloc(sizeof(struct item)), OPERATION_CHECKOUT, numbers, count, 0);
}

static void submit(struct queue *queue, struct operation *operation)
{
	assert_int_equal(queue_submit(queue, operation), LU_OK);
}

static void expect_taken(struct queue *queue, unsigned writer, struct operation *const *expected, size_t count)
{
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	assert_int_equal(queue_take(queue, writer, taken), count);
	for (size_t i = 0; i < count; i++)
		assert_ptr_equal(taken[i], expected[i]);
}
#define TAKES(queue, writer, ...)                                        \
	expect_taken((queue), (writer), (struct operation *[]){__VA_ARGS__}, \
	             sizeof((struct operation *[]){__VA_ARGS__}) / sizeof(struct operation *))

static void free_all(struct operation *const *operations, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(operations[i]);
}
#define FREE(...)                                 \
	free_all((struct operation *[]){__VA_ARGS__}, \
	         sizeof((struct operation *[]){__VA_ARGS__}) / sizeof(struct operation *))

/* --- who goes with whom -------------------------------------------------------------------------------------------------- */

static void carts_of_one_sku_gather_in_order(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *a1 = make("A"), *b = make("B"), *a2 = make("A"), *a3 = make("A");
	submit(queue, a1);
	submit(queue, b);
	submit(queue, a2);
	submit(queue, a3);
	assert_int_equal(queue_depth(queue), 4);
	TAKES(queue, 0, a1, b, a2, a3);
	assert_int_equal(queue_depth(queue), 0);
	queue_finish(queue, 0);
	queue_free(queue);
	FREE(a1, b, a2, a3);
}

static void a_sku_in_use_waits_for_its_writer_and_others_pass(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *a1 = make("A"), *a2 = make("A"), *b = make("B");
	submit(queue, a1);
	TAKES(queue, 0, a1);
	submit(queue, a2);
	submit(queue, b);
	TAKES(queue, 1, b);
	queue_finish(queue, 1);
	queue_finish(queue, 0);
	TAKES(queue, 1, a2);
	queue_finish(queue, 1);
	queue_free(queue);
	FREE(a1, a2, b);
}

struct taking {
	struct queue *queue;
	struct operation *operations[LU_BATCH_OPERATIONS_MAX];
	size_t count;
};

static void *take_as_the_second(void *context)
{
	struct taking *t = context;
	t->count = queue_take(t->queue, 1, t->operations);
	return NULL;
}

/* The first writer has a batch of so many. */
static void lend_many(struct queue *queue, struct operation *many[QUEUE_GATHER_FROM])
{
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	for (size_t i = 0; i < QUEUE_GATHER_FROM; i++)
		submit(queue, many[i] = make((char[]){(char)('A' + i), 0}));
	assert_int_equal(queue_take(queue, 0, taken), QUEUE_GATHER_FROM);
}

static void lend_one(struct queue *queue, struct operation **one)
{
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	submit(queue, *one = make("A"));
	assert_int_equal(queue_take(queue, 0, taken), 1);
}

static void what_comes_while_many_are_at_work_is_one_batch(void **state)
{
	(void)state;
	struct taking t = {.queue = queue_new(100, 2, 600000)};
	struct operation *many[QUEUE_GATHER_FROM], *x = make("X"), *y = make("Y");
	pthread_t second;
	lend_many(t.queue, many);
	assert_int_equal(pthread_create(&second, NULL, take_as_the_second, &t), 0);
	submit(t.queue, x);
	usleep(50000); /* time in which it would be taken, if that could happen */
	submit(t.queue, y);
	assert_int_equal(queue_depth(t.queue), 2);
	queue_finish(t.queue, 0);
	pthread_join(second, NULL);
	assert_int_equal(t.count, 2);
	assert_ptr_equal(t.operations[0], x);
	assert_ptr_equal(t.operations[1], y);
	queue_finish(t.queue, 1);
	queue_free(t.queue);
	free_all(many, QUEUE_GATHER_FROM);
	FREE(x, y);
}

static void nobody_waits_for_company_when_few_are_at_work_or_for_a_batch_that_hangs(void **state)
{
	(void)state;
	for (int hangs = 0; hangs < 2; hangs++) {
		struct taking t = {.queue = queue_new(100, 2, hangs ? 1 : 600000)};
		struct operation *many[QUEUE_GATHER_FROM] = {0}, *x = make("X");
		pthread_t second;
		if (hangs)
			lend_many(t.queue, many);
		else
			lend_one(t.queue, &many[0]);
		assert_int_equal(pthread_create(&second, NULL, take_as_the_second, &t), 0);
		submit(t.queue, x);
		pthread_join(second, NULL);
		assert_int_equal(t.count, 1);
		queue_finish(t.queue, 1);
		queue_finish(t.queue, 0);
		queue_free(t.queue);
		free_all(many, QUEUE_GATHER_FROM);
		FREE(x);
	}
}

static void I13_a_wide_cart_does_not_starve_behind_narrow_ones(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 3, 0);
	struct operation *a = make("A"), *ab = make("AB"), *b1 = make("B"), *bc = make("BC"), *c = make("C"),
					 *d = make("D");
	submit(queue, a);
	TAKES(queue, 0, a);
	submit(queue, ab); /* waits for A, so it wants B */
	submit(queue, b1); /* must not pass it on B */
	submit(queue, bc); /* nor this, so C is wanted too */
	submit(queue, c);
	submit(queue, d);
	TAKES(queue, 1, d);
	queue_finish(queue, 1);
	queue_finish(queue, 0);
	TAKES(queue, 2, ab, b1, bc, c);
	queue_finish(queue, 2);
	queue_free(queue);
	FREE(a, ab, b1, bc, c, d);
}

static void one_key_never_twice_in_a_batch(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct item items[4];
	struct operation *k1 = init(&items[0], OPERATION_CHECKOUT, (int[]){1}, 1, 9);
	struct operation *k2 = init(&items[1], OPERATION_CHECKOUT, (int[]){1}, 1, 9);
	struct operation *other = init(&items[2], OPERATION_CHECKOUT, (int[]){1}, 1, 8);
	struct operation *last = init(&items[3], OPERATION_CHECKOUT, (int[]){2}, 1, 7);
	submit(queue, k1);
	submit(queue, k2);
	submit(queue, other); /* behind k2 on its SKU */
	submit(queue, last);
	TAKES(queue, 0, k1, last);
	queue_finish(queue, 0);
	TAKES(queue, 0, k2, other);
	queue_finish(queue, 0);
	queue_free(queue);
}

static void creations_travel_apart_and_one_per_sku(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct item items[5];
	struct operation *put_a = init(&items[0], OPERATION_SKU_PUT, (int[]){1}, 1, 11);
	struct operation *cart_b = init(&items[1], OPERATION_CHECKOUT, (int[]){2}, 1, 0);
	struct operation *put_a2 = init(&items[2], OPERATION_SKU_PUT, (int[]){1}, 1, 12);
	struct operation *put_c = init(&items[3], OPERATION_SKU_PUT, (int[]){3}, 1, 13);
	struct operation *cart_a = init(&items[4], OPERATION_CHECKOUT, (int[]){1}, 1, 0);
	submit(queue, put_a);
	submit(queue, cart_b);
	submit(queue, put_a2);
	submit(queue, put_c);
	submit(queue, cart_a);
	TAKES(queue, 0, put_a, put_c);
	TAKES(queue, 1, cart_b);
	queue_finish(queue, 0);
	TAKES(queue, 0, put_a2);
	queue_finish(queue, 0);
	TAKES(queue, 0, cart_a);
	queue_finish(queue, 0);
	queue_finish(queue, 1);
	queue_free(queue);
}

static void blocked_ones_travel_by_their_sku_and_leave_half_the_writers(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 4, 0);
	struct operation *a1 = make("A"), *a2 = make("A"), *b = make("B"), *c = make("C"), *d = make("D");
	struct operation *blocked[] = {a1, a2, b, c};
	submit(queue, a1);
	submit(queue, a2);
	submit(queue, b);
	submit(queue, c);
	TAKES(queue, 0, a1, a2, b, c);
	for (size_t i = 0; i < 4; i++)
		blocked[i]->blocked_claim = blocked[i]->claims[0];
	queue_return(queue, blocked, 4);
	queue_finish(queue, 0);
	submit(queue, d);
	TAKES(queue, 0, a1, a2);
	TAKES(queue, 1, b);
	TAKES(queue, 2, d); /* not c: two of four wait for strangers already */
	queue_finish(queue, 2);
	queue_finish(queue, 1);
	TAKES(queue, 3, c);
	queue_finish(queue, 0);
	queue_finish(queue, 3);
	queue_free(queue);
	FREE(a1, a2, b, c, d);
}

static void what_is_given_back_comes_first_again(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *a1 = make("A"), *a2 = make("A"), *a3 = make("A"), *ab = make("AB"), *b = make("B");
	submit(queue, a1);
	submit(queue, a2);
	TAKES(queue, 0, a1, a2);
	submit(queue, b);
	submit(queue, a3);
	submit(queue, ab);
	queue_return(queue, (struct operation *[]){a1, a2}, 2);
	queue_finish(queue, 0);
	assert_int_equal(queue_depth(queue), 5);
	TAKES(queue, 1, a1, a2, b, a3, ab);
	queue_finish(queue, 1);
	queue_free(queue);
	FREE(a1, a2, a3, ab, b);
}

/* It learns of one more SKU while it is away: it then goes first there too, in front of one that was about to run. */
static void what_is_given_back_may_claim_more_than_before(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *a = make("A"), *b = make("B");
	submit(queue, a);
	TAKES(queue, 0, a);
	submit(queue, b); /* ready */
	struct item item;
	struct operation *ab = init(&item, OPERATION_CHECKOUT, (int[]){'A', 'B'}, 2, 0);
	queue_return(queue, &ab, 1);
	queue_finish(queue, 0);
	TAKES(queue, 1, ab, b);
	queue_finish(queue, 1);
	queue_free(queue);
	FREE(a, b);
}

/* --- bounds ---------------------------------------------------------------------------------------------------------------- */

static void a_batch_has_at_most_256_operations(void **state)
{
	(void)state;
	struct queue *queue = queue_new(1000, 1, 0);
	struct operation *ops[300], *taken[LU_BATCH_OPERATIONS_MAX];
	for (size_t i = 0; i < 300; i++)
		submit(queue, ops[i] = make("A"));
	assert_int_equal(queue_take(queue, 0, taken), LU_BATCH_OPERATIONS_MAX);
	queue_return(queue, &taken[LU_BATCH_OPERATIONS_MAX - 1], 1); /* in front of those that just found no room */
	queue_finish(queue, 0);
	assert_int_equal(queue_take(queue, 0, taken), 300 - LU_BATCH_OPERATIONS_MAX + 1);
	assert_ptr_equal(taken[0], ops[LU_BATCH_OPERATIONS_MAX - 1]);
	queue_finish(queue, 0);
	queue_free(queue);
	free_all(ops, 300);
}

/* The last place goes to one of two that became free together; the other is not forgotten. */
static void who_finds_the_batch_full_comes_with_the_next(void **state)
{
	(void)state;
	struct queue *queue = queue_new(1000, 1, 0);
	struct operation *before[254], *taken[LU_BATCH_OPERATIONS_MAX], *ab = make("AB"), *a = make("A"), *b = make("B");
	for (size_t i = 0; i < 254; i++)
		submit(queue, before[i] = make("C"));
	submit(queue, ab);
	submit(queue, a);
	submit(queue, b);
	assert_int_equal(queue_take(queue, 0, taken), LU_BATCH_OPERATIONS_MAX);
	assert_ptr_equal(taken[255], a);
	queue_return(queue, &ab, 1);
	queue_finish(queue, 0);
	TAKES(queue, 0, ab, b);
	queue_finish(queue, 0);
	queue_free(queue);
	free_all(before, 254);
	FREE(ab, a, b);
}

static void a_batch_has_at_most_2000_lines_but_one_operation_always_fits(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 1, 0);
	struct operation *a = make("A"), *b = make("B"), *c = make("C"), *d = make("D");
	a->sku_count = 1200;
	b->sku_count = 800;
	c->line_count = 1;
	d->sku_count = 5000;
	submit(queue, a);
	submit(queue, b);
	submit(queue, c);
	submit(queue, d);
	TAKES(queue, 0, a, b);
	queue_finish(queue, 0);
	TAKES(queue, 0, c);
	queue_finish(queue, 0);
	TAKES(queue, 0, d);
	queue_finish(queue, 0);
	queue_free(queue);
	FREE(a, b, c, d);
}

static void a_full_queue_keeps_room_for_keepers(void **state)
{
	(void)state;
	struct queue *queue = queue_new(32, 1, 0);
	struct operation *ops[33];
	int64_t before = metric_get(METRIC_QUEUE_DEPTH);
	for (size_t i = 0; i < 33; i++)
		ops[i] = make("A");
	for (size_t i = 0; i < 24; i++)
		submit(queue, ops[i]);
	assert_int_equal(queue_submit(queue, ops[24]), LU_OVERLOADED);
	for (size_t i = 24; i < 32; i++) {
		ops[i]->keeper = true;
		submit(queue, ops[i]);
	}
	ops[32]->keeper = true;
	assert_int_equal(queue_submit(queue, ops[32]), LU_OVERLOADED);
	assert_int_equal(metric_get(METRIC_QUEUE_DEPTH) - before, 32);
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	assert_int_equal(queue_take(queue, 0, taken), 32);
	queue_return(queue, taken, 32); /* room is never a question */
	assert_int_equal(queue_submit(queue, ops[32]), LU_OVERLOADED);
	queue_finish(queue, 0);
	assert_int_equal(queue_take(queue, 0, taken), 32);
	queue_finish(queue, 0);
	assert_int_equal(metric_get(METRIC_QUEUE_DEPTH) - before, 0);
	queue_free(queue);
	free_all(ops, 33);
}

static void a_closed_queue_is_drained_and_then_says_so(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *a = make("A"), *late = make("A"), *taken[LU_BATCH_OPERATIONS_MAX];
	submit(queue, a);
	queue_close(queue);
	assert_int_equal(queue_submit(queue, late), LU_SHUTTING_DOWN);
	TAKES(queue, 0, a);
	assert_int_equal(queue_take(queue, 1, taken), 0);
	queue_return(queue, &a, 1);
	queue_finish(queue, 0);
	TAKES(queue, 0, a);
	queue_finish(queue, 0);
	assert_int_equal(queue_take(queue, 0, taken), 0);
	queue_free(queue);
	FREE(a, late);
}

static void misuse_is_a_bug(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 1, 0);
	struct operation *a = make("A"), *taken[LU_BATCH_OPERATIONS_MAX];
	submit(queue, a);
	assert_dies(queue_free(queue));
	TAKES(queue, 0, a);
	assert_dies(queue_free(queue));
	assert_dies(queue_take(queue, 0, taken)); /* without finish */
	queue_finish(queue, 0);
	queue_free(queue);
	queue_free(NULL);
	FREE(a);
}

/* Two SKUs whose hashes collide only wait for each other; within one cart they do not wait for themselves. */
static void a_collision_only_delays(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *aa = make("AA"), *a = make("A"), *aba = make("ABA");
	submit(queue, aa);
	submit(queue, a);
	submit(queue, aba);
	TAKES(queue, 0, aa, a, aba);
	queue_return(queue, (struct operation *[]){aa, aba}, 2);
	queue_finish(queue, 0);
	TAKES(queue, 0, aa, aba);
	queue_finish(queue, 0);
	queue_free(queue);
	FREE(aa, a, aba);
}

/* --- against the rule as the header says it ----------------------------------------------------------------------------- */

#define WRITERS 4
#define ITEMS 2000
#define SKUS 12

static uint64_t random_state = 88172645463325252;

static int roll(int bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (int)(random_state >> 33) % bound;
}

struct reference {
	struct item items[ITEMS];
	struct item *waiting[ITEMS]; /* in order */
	size_t waiting_count;
	int lent_to[64]; /* by claim: writer + 1 */
	struct operation *running[WRITERS][LU_BATCH_OPERATIONS_MAX];
	size_t running_count[WRITERS];
	int returns;
};

static bool claims(const struct item *item, uint64_t claim)
{
	for (size_t i = 0; i < item->operation.claim_count; i++)
		if (item->claims[i] == claim)
			return true;
	return false;
}

/* Whether an earlier one that waits, or another writer, wants one of its claims; `mine`: what this writer has may be used. */
static bool obstructed(const struct reference *r, size_t place, int mine)
{
	const struct item *item = r->waiting[place];
	for (size_t i = 0; i < item->operation.claim_count; i++) {
		int lent_to = r->lent_to[item->claims[i]];
		bool exclusive = i >= item->operation.sku_count || item->operation.kind == OPERATION_SKU_PUT;
		if (lent_to && (lent_to != mine || exclusive))
			return true;
		for (size_t j = 0; j < place; j++)
			if (claims(r->waiting[j], item->claims[i]))
				return true;
	}
	return false;
}

static int class_of(const struct item *item)
{
	return item->operation.blocked_claim ? 2 : item->operation.kind == OPERATION_SKU_PUT;
}

static void remove_waiting(struct reference *r, size_t place)
{
	memmove(&r->waiting[place], &r->waiting[place + 1], (--r->waiting_count - place) * sizeof r->waiting[0]);
}

/* Checks a batch against the rule, and that nobody was left who might have come along. */
static void check_batch(struct reference *r, int writer, struct operation *const *taken, size_t count)
{
	int class = class_of((struct item *)taken[0]);
	for (size_t i = 0; i < count; i++) {
		struct item *item = (struct item *)taken[i];
		size_t place = 0;
		while (place < r->waiting_count && r->waiting[place] != item)
			place++;
		assert_true(place < r->waiting_count);
		assert_false(obstructed(r, place, writer + 1));
		assert_int_equal(class_of(item), class);
		assert_true(class != 2 || item->operation.blocked_claim == taken[0]->blocked_claim);
		remove_waiting(r, place);
		for (size_t j = 0; j < item->operation.claim_count; j++)
			r->lent_to[item->claims[j]] = writer + 1;
		r->running[writer][i] = taken[i];
	}
	r->running_count[writer] = count;
	for (size_t place = 0; place < r->waiting_count && count < LU_BATCH_OPERATIONS_MAX; place++) {
		const struct item *item = r->waiting[place];
		bool same = class_of(item) == class && (class != 2 || item->operation.blocked_claim == taken[0]->blocked_claim);
		assert_false(same && !obstructed(r, place, writer + 1));
	}
}

static bool anything_ready(const struct reference *r)
{
	int blocked_running = 0;
	for (int i = 0; i < WRITERS; i++)
		blocked_running += r->running_count[i] && r->running[i][0]->blocked_claim;
	for (size_t place = 0; place < r->waiting_count; place++)
		if (!obstructed(r, place, 0) && (class_of(r->waiting[place]) != 2 || blocked_running < WRITERS / 2))
			return true;
	return false;
}

static void end_batch(struct reference *r, struct queue *queue, int writer)
{
	struct operation *back[LU_BATCH_OPERATIONS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < r->running_count[writer]; i++) {
		struct operation *operation = r->running[writer][i];
		operation->blocked_claim = 0;
		if (roll(6) || operation->kind == OPERATION_SKU_PUT)
			continue;
		operation->blocked_claim = roll(3) ? operation->claims[0] : 0;
		back[count++] = operation;
	}
	queue_return(queue, back, count);
	memmove(&r->waiting[count], r->waiting, r->waiting_count * sizeof r->waiting[0]);
	for (size_t i = 0; i < count; i++)
		r->waiting[i] = (struct item *)back[i];
	r->waiting_count += count;
	r->returns += (int)count;
	queue_finish(queue, (unsigned)writer);
	r->running_count[writer] = 0;
	for (size_t i = 0; i < 64; i++)
		if (r->lent_to[i] == writer + 1)
			r->lent_to[i] = 0;
}

static void I13_every_batch_is_what_the_rule_says(void **state)
{
	(void)state;
	struct reference *r = calloc(1, sizeof *r);
	struct queue *queue = queue_new(ITEMS * 2, WRITERS, 0);
	int submitted = 0, batches = 0, parallel = 0;
	while (submitted < ITEMS || r->waiting_count ||
	       r->running_count[0] + r->running_count[1] + r->running_count[2] + r->running_count[3]) {
		int writer = roll(WRITERS);
		if (submitted < ITEMS && roll(4) < 3) {
			struct item *item = &r->items[submitted++];
			int skus[CLAIMS_MAX], count = 0;
			for (int sku = roll(3); sku < SKUS && count < 3; sku += 1 + roll(SKUS))
				skus[count++] = sku;
			bool put = roll(10) == 0;
			init(item, put ? OPERATION_SKU_PUT : OPERATION_CHECKOUT, skus, put ? 1 : (size_t)count,
			     roll(2) ? 1 + roll(20) : 0);
			submit(queue, &item->operation);
			r->waiting[r->waiting_count++] = item;
		} else if (r->running_count[writer]) {
			end_batch(r, queue, writer);
		} else if (anything_ready(r)) {
			struct operation *taken[LU_BATCH_OPERATIONS_MAX];
			size_t count = queue_take(queue, (unsigned)writer, taken);
			check_batch(r, writer, taken, count);
			batches++;
			for (int i = 0; i < WRITERS; i++)
				parallel += i != writer && r->running_count[i];
		}
		assert_int_equal(queue_depth(queue), r->waiting_count);
	}
	assert_true(batches > 100 && parallel > 50 && r->returns > 50);
	queue_free(queue);
	free(r);
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

#define SUBMITTERS 3
#define EACH 4000

/* Threads assert nothing: they count what they find wrong. */
struct traffic {
	struct queue *queue;
	struct item *items[SUBMITTERS];
	_Atomic int in_use[SKUS];           /* writer + 1 */
	_Atomic int next[SUBMITTERS][SKUS]; /* number of the last one seen, by submitter and SKU */
	_Atomic int collisions, disorders, done, refused;
};

struct worker {
	struct traffic *traffic;
	unsigned index;
	pthread_t thread;
};

static void *run_submitter(void *argument)
{
	struct worker *worker = argument;
	struct traffic *t = worker->traffic;
	unsigned seed = worker->index + 1;
	for (int i = 0; i < EACH; i++) {
		struct item *item = &t->items[worker->index][i];
		int first = rand_r(&seed) % SKUS, second = rand_r(&seed) % SKUS;
		first = rand_r(&seed) % 2 ? 0 : first; /* a hot one */
		init(item, OPERATION_CHECKOUT, (int[]){first, second}, first == second ? 1 : 2, 0);
		item->number = i + 1;
		while (queue_submit(t->queue, &item->operation) != LU_OK) {
			atomic_fetch_add(&t->refused, 1);
			sched_yield();
		}
	}
	return NULL;
}

static void look_at(struct traffic *t, struct operation *operation, int writer, bool begin)
{
	struct item *item = (struct item *)operation;
	int submitter = 0;
	while (item < t->items[submitter] || item >= t->items[submitter] + EACH)
		submitter++;
	for (size_t i = 0; i < operation->sku_count; i++) {
		int sku = (int)(item->claims[i] / 2);
		if (!begin) {
			atomic_store(&t->in_use[sku], 0);
			continue;
		}
		int user = atomic_exchange(&t->in_use[sku], writer + 1);
		if (user && user != writer + 1)
			atomic_fetch_add(&t->collisions, 1);
		if (atomic_exchange(&t->next[submitter][sku], item->number) >= item->number)
			atomic_fetch_add(&t->disorders, 1);
	}
}

static void *run_writer(void *argument)
{
	struct worker *worker = argument;
	struct traffic *t = worker->traffic;
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	for (size_t count; (count = queue_take(t->queue, worker->index, taken));) {
		for (size_t i = 0; i < count; i++)
			look_at(t, taken[i], (int)worker->index, true);
		for (size_t i = 0; i < count; i++)
			look_at(t, taken[i], (int)worker->index, false);
		atomic_fetch_add(&t->done, (int)count);
		queue_finish(t->queue, worker->index);
	}
	return NULL;
}

static void I13_threads_see_each_operation_once_in_order_and_alone(void **state)
{
	(void)state;
	struct traffic t = {.queue = queue_new(256, WRITERS, 1)};
	struct worker submitters[SUBMITTERS], writers[WRITERS];
	for (unsigned i = 0; i < SUBMITTERS; i++)
		t.items[i] = calloc(EACH, sizeof(struct item));
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct worker){&t, i, 0};
		assert_int_equal(pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]), 0);
	}
	for (unsigned i = 0; i < SUBMITTERS; i++) {
		submitters[i] = (struct worker){&t, i, 0};
		assert_int_equal(pthread_create(&submitters[i].thread, NULL, run_submitter, &submitters[i]), 0);
	}
	for (unsigned i = 0; i < SUBMITTERS; i++)
		pthread_join(submitters[i].thread, NULL);
	queue_close(t.queue);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	assert_int_equal(t.done, SUBMITTERS * EACH);
	assert_int_equal(t.collisions, 0);
	assert_int_equal(t.disorders, 0);
	queue_free(t.queue);
	for (unsigned i = 0; i < SUBMITTERS; i++)
		free(t.items[i]);
}

static void *run_idle_writer(void *argument)
{
	struct worker *worker = argument;
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	while (queue_take(worker->traffic->queue, worker->index, taken))
		queue_finish(worker->traffic->queue, worker->index);
	return NULL;
}

/* They find work waiting, but not for them; when the last of it is taken there will never be any. */
static void every_waiting_writer_hears_that_the_queue_is_drained(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		struct traffic t = {.queue = queue_new(100, WRITERS, 1)};
		struct worker writers[WRITERS];
		struct operation *a1 = make("A"), *a2 = make("A"), *taken[LU_BATCH_OPERATIONS_MAX];
		submit(t.queue, a1);
		TAKES(t.queue, 0, a1);
		submit(t.queue, a2);
		for (unsigned i = 1; i < WRITERS; i++) {
			writers[i] = (struct worker){&t, i, 0};
			assert_int_equal(pthread_create(&writers[i].thread, NULL, run_idle_writer, &writers[i]), 0);
		}
		queue_close(t.queue);
		queue_finish(t.queue, 0);
		while (queue_take(t.queue, 0, taken))
			queue_finish(t.queue, 0);
		for (unsigned i = 1; i < WRITERS; i++)
			pthread_join(writers[i].thread, NULL);
		queue_free(t.queue);
		FREE(a1, a2);
	}
}

/* A number to look at, not a judge: ten thousand wait for one SKU while another writer looks for work. */
static void ten_thousand_waiting_cost_nothing(void **state)
{
	(void)state;
	enum { WAITING = 10000, ROUNDS = 1000 };
	struct queue *queue = queue_new(WAITING * 2, 2, 0);
	struct item *items = calloc(WAITING, sizeof *items);
	for (int i = 0; i < WAITING; i++)
		submit(queue, init(&items[i], OPERATION_CHECKOUT, (int[]){1}, 1, 0));
	struct operation *hot[LU_BATCH_OPERATIONS_MAX], *cold = make("C"), *taken[LU_BATCH_OPERATIONS_MAX];
	size_t lent = queue_take(queue, 0, hot);
	assert_int_equal(lent, LU_BATCH_OPERATIONS_MAX);
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < ROUNDS; i++) {
		submit(queue, cold);
		assert_int_equal(queue_take(queue, 1, taken), 1);
		queue_finish(queue, 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	print_message("[          ] submit, take, finish beside 9,744 waiting: %lld ns\n",
	              (long long)((to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec) / ROUNDS);
	for (size_t all = lent; all < WAITING; all += lent) {
		queue_finish(queue, 0);
		lent = queue_take(queue, 0, hot);
	}
	queue_finish(queue, 0);
	queue_free(queue);
	free(items);
	free(cold);
}

/* Behind a SKU in use, and first of its kind: its time is up before its turn has come. */
static void I9_whose_time_is_up_is_lent_to_be_refused(void **state)
{
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *got[LU_BATCH_OPERATIONS_MAX], *first = make("A"), *late = make("AB"), *behind = make("B");
	assert_int_equal(queue_submit(queue, first), LU_OK);
	assert_int_equal(queue_take(queue, 0, got), 1);
	late->deadline_ns = deadline_in_ms(QUEUE_LATE_MS + 50);
	assert_int_equal(queue_submit(queue, late), LU_OK);
	assert_int_equal(queue_submit(queue, behind), LU_OK);
	assert_int_equal(queue_take(queue, 1, got), 1);
	assert_ptr_equal(got[0], late);
	queue_finish(queue, 1);
	/* Who waited for it alone may run now. */
	assert_int_equal(queue_take(queue, 1, got), 1);
	assert_ptr_equal(got[0], behind);
	queue_finish(queue, 1);
	queue_finish(queue, 0);
	assert_int_equal(queue_depth(queue), 0);
	queue_free(queue);
	free(first), free(late), free(behind);
}

/* Only who waits for his own key's twin hears so; who waits for the twin's SKU does not. */
static void whose_time_is_up_knows_whether_his_key_is_at_work(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *got[LU_BATCH_OPERATIONS_MAX];
	struct operation *first = init(malloc(sizeof(struct item)), OPERATION_CHECKOUT, (int[]){1}, 1, 7);
	struct operation *twin = init(malloc(sizeof(struct item)), OPERATION_CHECKOUT, (int[]){1}, 1, 7);
	struct operation *neighbour = init(malloc(sizeof(struct item)), OPERATION_CHECKOUT, (int[]){1}, 1, 8);
	submit(queue, first);
	TAKES(queue, 0, first);
	twin->deadline_ns = neighbour->deadline_ns = deadline_in_ms(QUEUE_LATE_MS - 1);
	submit(queue, twin);
	submit(queue, neighbour);
	assert_int_equal(queue_take(queue, 1, got), 2);
	assert_true(twin->key_in_flight);
	assert_false(neighbour->key_in_flight);
	queue_finish(queue, 1);
	queue_finish(queue, 0);
	queue_free(queue);
	FREE(first, twin, neighbour);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(I9_whose_time_is_up_is_lent_to_be_refused),
		cmocka_unit_test(whose_time_is_up_knows_whether_his_key_is_at_work),
		cmocka_unit_test(carts_of_one_sku_gather_in_order),
		cmocka_unit_test(a_sku_in_use_waits_for_its_writer_and_others_pass),
		cmocka_unit_test(what_comes_while_many_are_at_work_is_one_batch),
		cmocka_unit_test(nobody_waits_for_company_when_few_are_at_work_or_for_a_batch_that_hangs),
		cmocka_unit_test(I13_a_wide_cart_does_not_starve_behind_narrow_ones),
		cmocka_unit_test(one_key_never_twice_in_a_batch),
		cmocka_unit_test(creations_travel_apart_and_one_per_sku),
		cmocka_unit_test(blocked_ones_travel_by_their_sku_and_leave_half_the_writers),
		cmocka_unit_test(what_is_given_back_comes_first_again),
		cmocka_unit_test(what_is_given_back_may_claim_more_than_before),
		cmocka_unit_test(a_batch_has_at_most_256_operations),
		cmocka_unit_test(who_finds_the_batch_full_comes_with_the_next),
		cmocka_unit_test(a_batch_has_at_most_2000_lines_but_one_operation_always_fits),
		cmocka_unit_test(a_full_queue_keeps_room_for_keepers),
		cmocka_unit_test(a_closed_queue_is_drained_and_then_says_so),
		cmocka_unit_test(misuse_is_a_bug),
		cmocka_unit_test(a_collision_only_delays),
		cmocka_unit_test(I13_every_batch_is_what_the_rule_says),
		cmocka_unit_test(I13_threads_see_each_operation_once_in_order_and_alone),
		cmocka_unit_test(every_waiting_writer_hears_that_the_queue_is_drained),
		cmocka_unit_test(ten_thousand_waiting_cost_nothing),
	};
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
