/* What the tests of the queue share: operations that claim something, and words for what is taken. */
#ifndef UNIT_QUEUE_CASES_H
#define UNIT_QUEUE_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static inline struct operation *init(struct item *item, enum operation_kind kind, const int *skus, size_t sku_count,
                                     int key)
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
static inline struct operation *make(const char *skus)
{
	int numbers[CLAIMS_MAX];
	size_t count = strlen(skus);
	for (size_t i = 0; i < count; i++)
		numbers[i] = skus[i];
	return init(malloc(sizeof(struct item)), OPERATION_CHECKOUT, numbers, count, 0);
}

static inline void submit(struct queue *queue, struct operation *operation)
{
	assert_int_equal(queue_submit(queue, operation), LU_OK);
}

static inline void expect_taken(struct queue *queue, unsigned writer, struct operation *const *expected, size_t count)
{
	struct operation *taken[LU_BATCH_OPERATIONS_MAX];
	assert_int_equal(queue_take(queue, writer, taken), count);
	for (size_t i = 0; i < count; i++)
		assert_ptr_equal(taken[i], expected[i]);
}
#define TAKES(queue, writer, ...)                                        \
	expect_taken((queue), (writer), (struct operation *[]){__VA_ARGS__}, \
	             sizeof((struct operation *[]){__VA_ARGS__}) / sizeof(struct operation *))

static inline void free_all(struct operation *const *operations, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(operations[i]);
}
#define FREE(...)                                 \
	free_all((struct operation *[]){__VA_ARGS__}, \
	         sizeof((struct operation *[]){__VA_ARGS__}) / sizeof(struct operation *))

#endif
