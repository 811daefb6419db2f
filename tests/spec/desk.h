/* The other side of the sync points (base/sync.h): where the threads of the instances report, and are told to wait.
 *
 * A point that nobody asked for is passed at once. A request is for one thread: the next that comes. A thread that stands
 * still goes on when it is told to, or when its process is killed. Thread: one of its own; the calls from the test's.
 */
#ifndef SPEC_DESK_H
#define SPEC_DESK_H

#include <stdbool.h>
#include <stddef.h>

struct desk;

struct desk *desk_new(void);
void desk_free(struct desk *desk);
/* The socket of instance number `instance`: its LASTUNIT_SYNC. */
void desk_listen(struct desk *desk, size_t instance, const char *path);
/* The next thread of the instance that comes there stands still. */
void desk_stop_at(struct desk *desk, size_t instance, const char *point);
bool desk_reached(struct desk *desk, size_t instance, const char *point);
void desk_go_on(struct desk *desk, size_t instance, const char *point);
/* Nobody is asked to stop, everybody goes on. */
void desk_reset(struct desk *desk);

#endif
