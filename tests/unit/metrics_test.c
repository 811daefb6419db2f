/* Metrics: what is counted is printed, in the format Prometheus reads. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "lib/dies.h"

static char *printed(void)
{
	struct buffer out = {0};
	metrics_print(&out);
	buffer_add_char(&out, 0);
	return out.data;
}

static void assert_printed(const char *line)
{
	char *text = printed();
	if (!strstr(text, line))
		fail_msg("\"%s\" is missing in:\n%s", line, text);
	free(text);
}

static void counters_and_gauges_are_printed_with_help_and_type(void **state)
{
	metric_add(METRIC_HTTP_REQUESTS, 2);
	metric_add(METRIC_HTTP_REQUESTS, 3);
	metric_add(METRIC_QUEUE_DEPTH, 4);
	metric_add(METRIC_QUEUE_DEPTH, -6);
	metric_set(METRIC_EPOCH_OPEN, 1);
	assert_int_equal(metric_get(METRIC_HTTP_REQUESTS), 5);
	assert_int_equal(metric_get(METRIC_QUEUE_DEPTH), -2);
	assert_printed(
		"# HELP lastunit_http_requests_total Requests answered.\n"
		"# TYPE lastunit_http_requests_total counter\n"
		"lastunit_http_requests_total 5\n");
	assert_printed("# TYPE lastunit_queue_depth gauge\nlastunit_queue_depth -2\n");
	assert_printed("\nlastunit_epoch_open 1\n");
}

static void a_histogram_counts_up_to_each_bound_included(void **state)
{
	static const int64_t observed_ns[] =
		{-5, 0, NS_PER_MS / 10, NS_PER_MS / 10 + 1, NS_PER_MS * 30, NS_PER_S * 10, NS_PER_S * 11};
	for (int i = 0; i < 7; i++)
		metric_observe_ns(METRIC_BATCH_SECONDS, observed_ns[i]);
	assert_int_equal(metric_get(METRIC_BATCH_SECONDS), 7);
	assert_printed(
		"# TYPE lastunit_batch_seconds histogram\n"
		"lastunit_batch_seconds_bucket{le=\"0.0001\"} 3\n"
		"lastunit_batch_seconds_bucket{le=\"0.00025\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.0005\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.001\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.0025\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.005\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.01\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.025\"} 4\n"
		"lastunit_batch_seconds_bucket{le=\"0.05\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"0.1\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"0.25\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"0.5\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"1\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"2.5\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"5\"} 5\n"
		"lastunit_batch_seconds_bucket{le=\"10\"} 6\n"
		"lastunit_batch_seconds_bucket{le=\"+Inf\"} 7\n"
		"lastunit_batch_seconds_sum 21.030200001\n"
		"lastunit_batch_seconds_count 7\n");
}

static void every_metric_is_printed_once_and_well_formed(void **state)
{
	static const char *const names[] = {
#define X(kind, NAME, name, help) #name,
#include "base/metrics.def"
#undef X
	};
	char *text = printed();
	for (size_t i = 0; i < METRIC_COUNT; i++) {
		char line[200];
		snprintf(line, sizeof line, "# TYPE lastunit_%s ", names[i]);
		const char *first = strstr(text, line);
		assert_non_null(first);
		assert_null(strstr(first + 1, line));
	}
	assert_int_equal(text[strlen(text) - 1], '\n');
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (*line == '#')
			continue;
		/* a name, perhaps {le="..."}, one blank, a number */
		char *blank = strchr(line, ' '), *end;
		assert_non_null(blank);
		strtod(blank + 1, &end);
		assert_true(end > blank + 1 && !*end);
		assert_int_equal(strncmp(line, "lastunit_", 9), 0);
	}
	free(text);
}

static void the_wrong_kind_is_a_bug(void **state)
{
	assert_dies(metric_add(METRIC_BATCH_SECONDS, 1));
	assert_dies(metric_add(METRIC_HTTP_REQUESTS, -1));
	assert_dies(metric_set(METRIC_HTTP_REQUESTS, 1));
	assert_dies(metric_observe_ns(METRIC_HTTP_REQUESTS, 1));
	assert_dies(metric_get(METRIC_COUNT));
}

enum { THREADS = 4, ROUNDS = 300000 };

static void *count(void *context)
{
	for (int i = 0; i < ROUNDS; i++) {
		metric_add(METRIC_OPERATIONS, 1);
		metric_observe_ns(METRIC_HTTP_SECONDS, i);
	}
	return NULL;
}

static void threads_lose_no_count(void **state)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
	free(printed());
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(metric_get(METRIC_OPERATIONS), THREADS * ROUNDS);
	assert_int_equal(metric_get(METRIC_HTTP_SECONDS), THREADS * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_and_gauges_are_printed_with_help_and_type),
		cmocka_unit_test(a_histogram_counts_up_to_each_bound_included),
		cmocka_unit_test(every_metric_is_printed_once_and_well_formed),
		cmocka_unit_test(the_wrong_kind_is_a_bug),
		cmocka_unit_test(threads_lose_no_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
