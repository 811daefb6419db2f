/* Figures that a test of endurance prints: one line each, in columns. What is asserted is the test's business.
 *
 * `make endure` sets LASTUNIT_ENDURE: the full form, at which times decide, too, for it has the machine for itself.
 */
#ifndef TESTS_LIB_FIGURES_H
#define TESTS_LIB_FIGURES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline bool endure_full(void)
{
	return getenv("LASTUNIT_ENDURE") != NULL;
}

/* `bound` says what it should be, "at most 2000"; "": it is told, not judged. */
static inline void figure(const char *what, double value, const char *unit, const char *bound)
{
	/* Small ones with a decimal; counts as they are. */
	int decimals = value < 100 && value != (double)(long)value ? 2 : 0;
	printf("  %-62s %12.*f %-5s %s\n", what, decimals, value, unit, bound);
	fflush(stdout);
}

#endif
