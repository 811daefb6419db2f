/* A process that stands still. Thread: any. */
#ifndef LIB_FREEZE_H
#define LIB_FREEZE_H

#include <sys/types.h>

/* SIGSTOP, and waits until every thread of it stands still: kill() returns before, and on a busy machine a thread goes on
 * meanwhile with whatever the test gives it next. kill(pid, SIGCONT) ends it. */
void freeze(pid_t pid);

#endif
