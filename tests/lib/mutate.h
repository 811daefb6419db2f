/* Inputs like those that were kept, but not quite: seeded mutations of tests/fuzz/corpus/NAME with the words of
 * tests/fuzz/NAME.dict. The same seed and the same files give the same inputs on every machine.
 *
 * A small part of what a fuzzer does, without its eyes: it does not see what an input reaches. It keeps what fuzzing
 * found from coming back, in every test run and under every compiler. Whatever is wrong with the files ends the
 * program (CHECK). Thread: the owner's.
 */
#ifndef TESTS_LIB_MUTATE_H
#define TESTS_LIB_MUTATE_H

#include "base/arena.h"
#include "lastunit/types.h"

#define MUTATION_BYTES_MAX ((size_t)64 * 1024)

struct mutator {
	struct arena arena;
	struct text *inputs; /* in the order of their names */
	struct text *names;
	size_t input_count;
	struct text *words; /* of the dictionary; none if there is none */
	size_t word_count;
	uint64_t random;
};

/* Reads the files, from the project's top directory. */
void mutator_init(struct mutator *mutator, const char *name, uint64_t seed);
void mutator_done(struct mutator *mutator);
/* Writes the next input and returns its size. */
size_t mutator_next(struct mutator *mutator, char out[MUTATION_BYTES_MAX]);

#endif
