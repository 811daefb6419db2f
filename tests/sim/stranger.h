/* Strangers: whoever writes to the tables straight in SQL, as psql or an ORM would, past the service. One session changes
 * counts, in the ways people do it, and writes down what it was told; another takes row locks and keeps them for long.
 *
 * Thread: stranger_main and locker_main are one each; the rest belongs to the main thread, before and after.
 */
#ifndef TESTS_SIM_STRANGER_H
#define TESTS_SIM_STRANGER_H

#include <stdatomic.h>

#include "sim/history.h"
#include "sim/stage.h"

struct stranger {
	struct stage *stage;
	struct dice dice;
	_Atomic bool closing;
	struct history_sql *sqls;
	size_t sql_count, sql_room;
	char complaint[300];
};

void stranger_init(struct stranger *stranger, struct stage *stage);
void *stranger_main(void *context);
void *locker_main(void *context);
void stranger_done(struct stranger *stranger);

#endif
