/* An import whose rows others have locked: who they are, and how long to leave them in peace.
 *
 * An import never waits with locks held for longer than IMPORT_LOCK_MS: whoever sells one of its other SKUs would wait
 * with it. It goes back to the beginning instead, says whom it waits for, and comes again later, until its time is up.
 * Thread: the connection's.
 */
#ifndef CMD_IMPORT_WAIT_H
#define CMD_IMPORT_WAIT_H

#include "base/arena.h"
#include "store/pg.h"

#define IMPORT_LOCK_MS 200

struct import_wait {
	unsigned times;
	char why[256]; /* "SKU \"A\" is locked by pid 17 (psql)"; kept when nobody is seen later */
};

/* Outside of a transaction, behind one that did not get its locks: looks up who has them. */
void import_wait_look(struct import_wait *wait, struct pg *pg, struct arena *arena, int64_t deadline_ns);
/* Sleeps, longer each time, with jitter. False: the deadline leaves no time to try again behind it. */
bool import_wait_sleep(struct import_wait *wait, int64_t deadline_ns);

#endif
