/* The queue, case by case: FIFO per SKU, nobody starves, and each batch takes all that it may. */
#include "unit/queue_cases.h"

/* --- who goes with whom ------------------------------------------------------------------------------------------- */

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

static void who_needs_no_other_row_joins_a_batch_that_has_its_locks(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct item first, twin, put;
	struct operation *b = make("B"), *a2 = make("A"), *ab = make("AB"), *ac = make("AC"), *a3 = make("A");
	struct operation *batch[LU_BATCH_OPERATIONS_MAX];
	submit(queue, init(&first, OPERATION_CHECKOUT, (int[]){'A'}, 1, 7));
	submit(queue, b);
	assert_int_equal(queue_take(queue, 0, batch), 2);
	submit(queue, a2);
	submit(queue, ab);
	submit(queue, init(&twin, OPERATION_CHECKOUT, (int[]){'B'}, 1, 7)); /* the same key: never in one batch */
	submit(queue, ac);                                                  /* C is not locked */
	submit(queue, a3);                                                  /* behind it */
	assert_int_equal(queue_take_more(queue, 0, batch, 2), 4);
	assert_ptr_equal(batch[0], &first);
	assert_ptr_equal(batch[1], b);
	assert_ptr_equal(batch[2], a2);
	assert_ptr_equal(batch[3], ab);
	assert_int_equal(queue_depth(queue), 3);
	assert_int_equal(queue_take_more(queue, 0, batch, 4), 4);
	queue_finish(queue, 0);
	TAKES(queue, 1, &twin.operation, ac, a3);
	queue_finish(queue, 1);
	/* Nobody joins those who create it. */
	submit(queue, init(&put, OPERATION_SKU_PUT, (int[]){'A'}, 1, 0));
	assert_int_equal(queue_take(queue, 0, batch), 1);
	submit(queue, a2);
	assert_int_equal(queue_take_more(queue, 0, batch, 1), 1);
	queue_finish(queue, 0);
	TAKES(queue, 0, a2);
	queue_finish(queue, 0);
	queue_free(queue);
	FREE(b, a2, ab, ac, a3);
}

/* Who came back stands before those who have more time than he, and behind those who have less. */
static void I9_whose_time_is_up_is_found_behind_those_who_came_back(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct operation *a = make("A"), *hasty = make("A"), *b = make("B"), *hastier = make("A");
	struct operation *batch[LU_BATCH_OPERATIONS_MAX];
	hasty->deadline_ns = deadline_in_ms(1000000);
	b->deadline_ns = deadline_in_ms(2000000);
	hastier->deadline_ns = deadline_in_ms(500000);
	submit(queue, a);
	TAKES(queue, 0, a);
	submit(queue, hasty);
	submit(queue, b);
	assert_int_equal(queue_take(queue, 1, batch), 1);
	submit(queue, hastier);
	queue_return(queue, &b, 1);
	queue_finish(queue, 1);
	hasty->deadline_ns = 2;
	hastier->deadline_ns = 1;
	TAKES(queue, 1, hastier, hasty); /* to be refused */
	queue_finish(queue, 1);
	TAKES(queue, 1, b);
	queue_finish(queue, 1);
	queue_finish(queue, 0);
	queue_free(queue);
	FREE(a, hasty, b, hastier);
}

static void I13_who_joins_late_overtakes_nobody(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100, 2, 0);
	struct item correction, swap;
	struct operation *a1 = make("A"), *b1 = make("B"), *a2 = make("A"), *b2 = make("B");
	struct operation *batch[LU_BATCH_OPERATIONS_MAX];
	submit(queue, a1);
	submit(queue, b1);
	assert_int_equal(queue_take(queue, 0, batch), 2);
	submit(queue, init(&correction, OPERATION_ADJUST, (int[]){'A'}, 1, 0));
	submit(queue, a2);
	init(&swap, OPERATION_RESERVE, (int[]){'B'}, 1, 0);
	swap.operation.other.bytes[0] = 1; /* a hold that ends in the same moment: its lines are to be read */
	submit(queue, &swap.operation);
	submit(queue, b2);
	assert_int_equal(queue_take_more(queue, 0, batch, 2), 2);
	queue_finish(queue, 0);
	TAKES(queue, 1, &correction.operation, a2, &swap.operation, b2);
	queue_finish(queue, 1);
	queue_free(queue);
	FREE(a1, b1, a2, b2);
}

/* A writer that went to sleep when nobody waited hears of whoever waits behind a batch that hangs. */
static void I9_who_waits_behind_a_batch_that_hangs_is_refused_though_all_others_slept(void **state)
{
	(void)state;
	struct taking t = {.queue = queue_new(100, 2, 0)};
	struct operation *one, *late = make("A");
	pthread_t second;
	lend_one(t.queue, &one);
	assert_int_equal(pthread_create(&second, NULL, take_as_the_second, &t), 0);
	usleep(50000); /* it sleeps */
	late->deadline_ns = deadline_in_ms(QUEUE_LATE_MS + 50);
	submit(t.queue, late);
	for (int i = 0; i < 5000 && queue_depth(t.queue); i++)
		usleep(1000);
	size_t waiting = queue_depth(t.queue);
	queue_finish(t.queue, 0);
	pthread_join(second, NULL);
	assert_int_equal(waiting, 0);
	assert_int_equal(t.count, 1);
	assert_ptr_equal(t.operations[0], late);
	queue_finish(t.queue, 1);
	queue_free(t.queue);
	FREE(one, late);
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

/* --- bounds ------------------------------------------------------------------------------------------------------- */

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

static void a_queue_is_full_of_lines_as_well(void **state)
{
	(void)state;
	struct queue *queue = queue_new(1000, 1, 0);
	struct operation *ops[21], *small = make("B");
	for (size_t i = 0; i < 21; i++) {
		ops[i] = make("A");
		ops[i]->line_count = LU_LINES_MAX;
	}
	for (size_t i = 0; i < 20; i++)
		submit(queue, ops[i]);
	assert_int_equal(queue_submit(queue, ops[20]), LU_OVERLOADED);
	assert_int_equal(queue_submit(queue, small), LU_OVERLOADED);
	small->keeper = true;
	submit(queue, small); /* what ends holds gives room */
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	size_t count = queue_take(queue, 0, taken);
	assert_in_range(count, 2, 3);
	queue_return(queue, taken, count);
	queue_finish(queue, 0);
	assert_int_equal(queue_submit(queue, ops[20]), LU_OVERLOADED);
	assert_int_equal(queue_take(queue, 0, taken), count);
	queue_finish(queue, 0);
	submit(queue, ops[20]);
	queue_close(queue);
	while (queue_take(queue, 0, taken))
		queue_finish(queue, 0);
	queue_free(queue);
	free_all(ops, 21);
	FREE(small);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(carts_of_one_sku_gather_in_order),
		cmocka_unit_test(a_sku_in_use_waits_for_its_writer_and_others_pass),
		cmocka_unit_test(what_comes_while_many_are_at_work_is_one_batch),
		cmocka_unit_test(nobody_waits_for_company_when_few_are_at_work_or_for_a_batch_that_hangs),
		cmocka_unit_test(who_needs_no_other_row_joins_a_batch_that_has_its_locks),
		cmocka_unit_test(I9_whose_time_is_up_is_found_behind_those_who_came_back),
		cmocka_unit_test(I13_who_joins_late_overtakes_nobody),
		cmocka_unit_test(I9_who_waits_behind_a_batch_that_hangs_is_refused_though_all_others_slept),
		cmocka_unit_test(I13_a_wide_cart_does_not_starve_behind_narrow_ones),
		cmocka_unit_test(one_key_never_twice_in_a_batch),
		cmocka_unit_test(creations_travel_apart_and_one_per_sku),
		cmocka_unit_test(blocked_ones_travel_by_their_sku_and_leave_half_the_writers),
		cmocka_unit_test(what_is_given_back_comes_first_again),
		cmocka_unit_test(what_is_given_back_may_claim_more_than_before),
		cmocka_unit_test(a_batch_has_at_most_256_operations),
		cmocka_unit_test(who_finds_the_batch_full_comes_with_the_next),
		cmocka_unit_test(a_batch_has_at_most_2000_lines_but_one_operation_always_fits),
		cmocka_unit_test(a_queue_is_full_of_lines_as_well),
		cmocka_unit_test(a_full_queue_keeps_room_for_keepers),
		cmocka_unit_test(a_closed_queue_is_drained_and_then_says_so),
		cmocka_unit_test(misuse_is_a_bug),
		cmocka_unit_test(a_collision_only_delays),
	};
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
