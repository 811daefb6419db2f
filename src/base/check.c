/* The end of a process that has met a bug: one line on stderr, then abort(), so that a core dump shows where.
 *
 * Failure modes: none may be added here. No allocation, no lock, no stdio buffer: the heap may be what is broken.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

_Noreturn void check_failed(const char *file, int line, const char *condition)
{
	char message[512];
	int size = snprintf(message, sizeof message, "lastunit: bug: %s:%d: CHECK(%s) failed\n", file, line, condition);
	if (size >= (int)sizeof message)
		size = (int)sizeof message - 1;
	if (size > 0)
		log_write(message, (size_t)size);
	abort();
}
