/* Fuzz target: a scenario file (tests/spec/README.md), up to the point where it would be played.
 *
 * A file that is refused has one sentence that begins with the file and a line of it. One that is taken is whole: it has a
 * title, every line a verb that has looked at its words, every permutation at least one step and none that is not there,
 * and, if all of them were asked for, each session's steps in their order. Read again it is the same. Once as
 * `lastunit scenario` reads it and once as a bench does. Input: the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "cmd/scenario.h"
#include "fuzz/fuzz.h"

static uint64_t digest(uint64_t digest, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		digest = (digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
	return digest;
}

static uint64_t check_block(const struct scenario_block *block, uint64_t sum)
{
	for (size_t i = 0; i < block->count; i++) {
		const struct scenario_line *line = &block->lines[i];
		CHECK(line->text && *line->text && line->times >= 1);
		CHECK((line->verb == NULL) == (line->how == SCENARIO_END || line->how == SCENARIO_GO_ON));
		CHECK(!line->verb || line->action);
		CHECK(!line->until || line->how == SCENARIO_BEGIN || line->how == SCENARIO_GO_ON);
		sum = digest(sum, line->text, strlen(line->text));
		sum = digest(sum, &line->how, sizeof line->how);
		sum = digest(sum, &line->times, sizeof line->times);
	}
	return sum;
}

static void check_order(const struct scenario *s, const struct scenario_order *order)
{
	CHECK(order->count >= 1 && order->count <= SCENARIO_STEPS_MAX);
	for (size_t i = 0; i < order->count; i++)
		CHECK(order->steps[i] < s->step_count);
}

/* Returns what it holds as a number. */
static uint64_t check_scenario(const struct scenario *s, bool whole)
{
	uint64_t sum = digest(0, s->title ? s->title : "", s->title ? strlen(s->title) : 0);
	CHECK(s->session_count >= 1 && s->session_count <= SCENARIO_SESSIONS_MAX && s->sku_count <= SCENARIO_SKUS_MAX);
	CHECK(s->instance_count <= SCENARIO_INSTANCES_MAX && s->step_count <= SCENARIO_STEPS_MAX);
	if (!whole)
		return sum;
	CHECK(s->title && *s->title && s->step_count && s->instance_count);
	CHECK(s->order_count >= 1 && s->order_count <= SCENARIO_ORDERS_MAX);
	for (size_t i = 0; i < s->session_count; i++)
		CHECK(s->sessions[i].instance < s->instance_count && s->sessions[i].channel <= SCENARIO_CHANNELS);
	for (size_t i = 0; i < s->sku_count; i++)
		CHECK(s->skus[i].on_hand >= 0 && *s->skus[i].name);
	for (size_t i = 0; i < s->step_count; i++) {
		CHECK(s->steps[i].session < s->session_count);
		sum = check_block(&s->steps[i].block, sum);
	}
	for (size_t i = 0; i < s->order_count; i++) {
		check_order(s, &s->orders[i]);
		sum = digest(sum, s->orders[i].steps, s->orders[i].count * sizeof *s->orders[i].steps);
	}
	return check_block(&s->finally, check_block(&s->setup, sum));
}

static void read_with(const char *path, const struct scenario_bench *bench)
{
	char why[SCENARIO_WHY_BYTES] = "", again[SCENARIO_WHY_BYTES] = "";
	struct scenario *first = scenario_read(path, bench, why), *second = scenario_read(path, bench, again);
	CHECK(!first == !second && strcmp(why, again) == 0);
	if (first) {
		CHECK(!*why);
		bool whole = bench || !first->needs;
		CHECK(check_scenario(first, whole) == check_scenario(second, whole));
	} else {
		size_t size = strlen(path);
		CHECK(strncmp(why, path, size) == 0 && why[size] == ':' && why[size + 1] >= '0' && why[size + 1] <= '9');
	}
	scenario_free(first);
	scenario_free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct scenario_verb no_verbs[1];
	static const struct scenario_bench bench = {.verbs = no_verbs};
	char path[40];
	int fd = memfd_create("spec", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	read_with(path, NULL);
	read_with(path, &bench);
	close(fd);
	return 0;
}
