/* A fuzz target as a test: every kept input, then some thousands of seeded mutations of them (lib/mutate.h).
 *
 *	NAME_test              the two tests
 *	NAME_test FILE…        these inputs, in this process: for a debugger
 *	LASTUNIT_FUZZ_SEED=7   other mutations; LASTUNIT_FUZZ_COUNT=100000 more of them
 *
 * Happy path: the inputs run in a child, which says in shared memory what it is at. Failure modes: a child that ends
 * otherwise than well, by CHECK, by signal, by a sanitizer's report or because it hangs, has failed its test; the input
 * it was at is written to a file, and the sentence says how to play it again. Time decides only how many mutations are
 * made. Under ThreadSanitizer only the kept inputs run: a target has one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "cmd/file_read.h"
#include "fuzz/fuzz.h"
#include "lib/mutate.h"

#define MUTATIONS 20000
#define MUTATIONS_SHORT 1000
#define CPU_SECONDS 1    /* a target that needs longer for that many sees fewer of them */
#define HANG_SECONDS 120 /* for all inputs of a test together */

/* What the child is at. */
struct place {
	char name[256]; /* of the file, or which mutation */
	size_t size;
	char bytes[MUTATION_BYTES_MAX];
};

static struct place *place;
static char target[40];

static void run(struct text input)
{
	/* in a block of its own size, so that a look behind it is seen */
	uint8_t *copy = malloc(input.size + !input.size);
	CHECK(copy);
	if (input.size)
		memcpy(copy, input.data, input.size);
	LLVMFuzzerTestOneInput(copy, input.size);
	free(copy);
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
	const char *value = getenv(variable);
	return value && *value ? strtoull(value, NULL, 10) : otherwise;
}

/* --- in the child ------------------------------------------------------------------------------------------------- */

static void run_kept(struct mutator *mutator)
{
	for (size_t i = 0; i < mutator->input_count; i++) {
		snprintf(place->name, sizeof place->name, "%s", mutator->names[i].data);
		place->size = mutator->inputs[i].size;
		memcpy(place->bytes, mutator->inputs[i].data, place->size);
		run(mutator->inputs[i]);
	}
}

static void run_mutations(struct mutator *mutator)
{
	uint64_t asked = number_of("LASTUNIT_FUZZ_COUNT", 0);
	uint64_t count = asked ? asked : getenv("LASTUNIT_TEST_SHORT") ? MUTATIONS_SHORT : MUTATIONS;
	clock_t enough = clock() + CPU_SECONDS * CLOCKS_PER_SEC;
	for (uint64_t i = 0; i < count && (asked || clock() < enough); i++) {
		place->size = mutator_next(mutator, place->bytes);
		snprintf(place->name, sizeof place->name, "mutation %llu", (unsigned long long)i);
		run((struct text){place->bytes, place->size});
	}
}

_Noreturn static void child_main(void (*inputs)(struct mutator *mutator), struct mutator *mutator)
{
	/* cmocka catches these and would turn the crash of a child into its own report */
	static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		signal(signals[i], SIG_DFL);
	alarm(HANG_SECONDS);
	inputs(mutator);
	mutator_done(mutator);
	exit(0); /* not _exit(): a leak is reported here */
}

/* --- in the test -------------------------------------------------------------------------------------------------- */

static void keep_input(char path[64])
{
	snprintf(path, 64, "/tmp/lastunit-fuzz-%s-XXXXXX", target);
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, place->bytes, place->size), place->size);
	close(fd);
}

static void in_child(void (*inputs)(struct mutator *mutator))
{
	struct mutator mutator;
	mutator_init(&mutator, target, number_of("LASTUNIT_FUZZ_SEED", 1));
	snprintf(place->name, sizeof place->name, "nothing yet");
	place->size = 0;
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		child_main(inputs, &mutator);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	mutator_done(&mutator);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	char path[64];
	keep_input(path);
	fail_msg("%s: %s: %s %d; again: %s %s", target, place->name, WIFSIGNALED(status) ? "signal" : "exit code",
	         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), program_invocation_name, path);
}

static void every_kept_input_passes(void **state)
{
	in_child(run_kept);
}

static void mutations_of_them_pass(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
	in_child(run_mutations);
}

static int replay(int count, char **paths)
{
	for (int i = 0; i < count; i++) {
		struct buffer bytes = {0};
		char why[256];
		if (!file_read(paths[i], &bytes, why)) {
			fprintf(stderr, "%s\n", why);
			return 2;
		}
		fprintf(stderr, "%s\n", paths[i]);
		run(buffer_text(&bytes));
		buffer_done(&bytes);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return replay(argc - 1, argv + 1);
	size_t size = strlen(program_invocation_short_name);
	CHECK(size > 5 && size < sizeof target && strcmp(program_invocation_short_name + size - 5, "_test") == 0);
	memcpy(target, program_invocation_short_name, size - 5);
	place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(place != MAP_FAILED);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kept_input_passes),
		cmocka_unit_test(mutations_of_them_pass),
	};
	return _cmocka_run_group_tests(target, tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
