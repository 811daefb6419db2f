/* Named places at which a test stops the process, or kills it there: sync points.
 *
 * They exist only in binaries built with -DLASTUNIT_SYNC_POINTS (make MODE=sync); anywhere else the macro is nothing.
 * A thread that reaches a point says its name on the unix socket named by $LASTUNIT_SYNC and stands still until it is
 * answered, or the other side is gone. Without that variable it goes on at once. What is stopped when is the business
 * of who listens (tests/spec/): `wait`, look around, answer; or SIGKILL. Thread: any.
 */
#ifndef BASE_SYNC_H
#define BASE_SYNC_H

#ifdef LASTUNIT_SYNC_POINTS
#define SYNC_POINT(name) sync_point(name)
void sync_point(const char *name);
#else
#define SYNC_POINT(name) ((void)0)
#endif

#endif
