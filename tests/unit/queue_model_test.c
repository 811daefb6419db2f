/* The queue beside the rule as its header says it, with random traffic, and with threads: nobody's
 * batch meets another's. */
#include "unit/queue_cases.h"

/* --- against the rule as the header says it ----------------------------------------------------------------------- */

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
	int returns, joined;
};

static bool claims(const struct item *item, uint64_t claim)
{
	for (size_t i = 0; i < item->operation.claim_count; i++)
		if (item->claims[i] == claim)
			return true;
	return false;
}

/* Whether an earlier one that waits, or another writer, wants one of its claims; `mine`: what this
 * writer has may be used. */
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

static bool joins(const struct reference *r, size_t place, int writer)
{
	const struct item *item = r->waiting[place];
	if (class_of(item) != 0 || !item->operation.sku_count || obstructed(r, place, writer + 1))
		return false;
	for (size_t i = 0; i < item->operation.sku_count; i++)
		if (r->lent_to[item->claims[i]] != writer + 1)
			return false;
	return true;
}

/* More for a batch that has its rows: those who need no other, and all of them. */
static void take_more(struct reference *r, struct queue *queue, int writer)
{
	size_t before = r->running_count[writer],
		   count = queue_take_more(queue, (unsigned)writer, r->running[writer], before);
	if (class_of((struct item *)r->running[writer][0]) != 0)
		assert_int_equal(count, before);
	for (size_t i = before; i < count; i++) {
		struct item *item = (struct item *)r->running[writer][i];
		size_t place = 0;
		while (place < r->waiting_count && r->waiting[place] != item)
			place++;
		assert_true(place < r->waiting_count && joins(r, place, writer));
		remove_waiting(r, place);
		for (size_t j = 0; j < item->operation.claim_count; j++)
			r->lent_to[item->claims[j]] = writer + 1;
	}
	for (size_t place = 0; place < r->waiting_count && class_of((struct item *)r->running[writer][0]) == 0; place++)
		assert_false(joins(r, place, writer));
	r->running_count[writer] = count;
	r->joined += (int)(count - before);
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
			int skus[CLAIMS_MAX], count = 0, most = roll(2) ? 1 : 3;
			for (int sku = roll(most == 1 ? SKUS : 3); sku < SKUS && count < most; sku += 1 + roll(SKUS))
				skus[count++] = sku;
			bool put = roll(10) == 0;
			init(item, put ? OPERATION_SKU_PUT : OPERATION_CHECKOUT, skus, put ? 1 : (size_t)count,
			     roll(2) ? 1 + roll(20) : 0);
			submit(queue, &item->operation);
			r->waiting[r->waiting_count++] = item;
		} else if (r->running_count[writer] && roll(3)) {
			take_more(r, queue, writer);
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
	assert_true(batches > 100 && parallel > 50 && r->returns > 50 && r->joined > 10);
	queue_free(queue);
	free(r);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

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
		cmocka_unit_test(I13_every_batch_is_what_the_rule_says),
		cmocka_unit_test(I13_threads_see_each_operation_once_in_order_and_alone),
		cmocka_unit_test(every_waiting_writer_hears_that_the_queue_is_drained),
		cmocka_unit_test(ten_thousand_waiting_cost_nothing),
	};
	return cmocka_run_group_tests_name("queue model", tests, NULL, NULL);
}
