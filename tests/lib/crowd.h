/* A crowd: threads that begin at the same moment, and a tally of what they were told.
 *
 *	crowd_run(60, buy, &tally);                     60 calls of buy(0…59, &tally), released by one barrier
 *	struct crowd *crowd = crowd_begin(4, read, x);  the same in the background …
 *	while (!crowd_is_over(x->crowd)) …              … whose members look whether it is over
 *	crowd_end(crowd);                               says so and waits
 *
 * Members assert nothing: they count, or hand the first thing that was wrong to tally_complain().
 */
#ifndef TESTS_LIB_CROWD_H
#define TESTS_LIB_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>

#define TALLY_STATUSES 600

struct tally {
	_Atomic int of[TALLY_STATUSES]; /* by HTTP status; 0: no answer */
	_Atomic int other_code;         /* refusals for another reason than the one expected */
	_Atomic int complaints;
	char complaint[300]; /* the first */
};

void tally_add(struct tally *tally, int status);
void tally_complain(struct tally *tally, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tally_of(const struct tally *tally, int status);
int tally_total(const struct tally *tally);
/* "3 × 201, 1 × 409, …": in a ring of four. */
const char *tally_text(const struct tally *tally);

struct crowd;
void crowd_run(int count, void (*work)(int index, void *context), void *context);
struct crowd *crowd_begin(int count, void (*work)(int index, void *context), void *context);
/* In a member: has crowd_end() been called? */
bool crowd_is_over(void);
void crowd_end(struct crowd *crowd);
/* All members of a crowd of `count` wait for each other; the same threads may meet again and again. */
void crowd_meet(void);

#endif
