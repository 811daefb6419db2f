/* What the tests of connections share: a statement that answers at once and one that does not, and the way
 * back to a server. */
#ifndef TESTS_STORE_PG_FIXTURE_H
#define TESTS_STORE_PG_FIXTURE_H

#include <poll.h>

#include "store/fixture.h"

static const struct pg_statement one = {"select_one", "SELECT 1::bigint"};
static const struct pg_statement sleeps = {"sleeps", "SELECT 1::bigint FROM pg_sleep(600)"};

static inline void take_one(struct pg *pg)
{
	PGresult *r;
	ok(pg, pg_pipe_take(pg, SOON, &r));
	assert_int_equal(pg_get_int(r, 0, 0), 1);
	PQclear(r);
}

static inline void query_one(struct pg *pg)
{
	PGresult *r;
	ok(pg, pg_query(pg, &one, NULL, SOON, &r));
	assert_int_equal(pg_get_int(r, 0, 0), 1);
	PQclear(r);
}

static inline int backend_of(struct pg *pg)
{
	return PQbackendPID(pg_conn(pg));
}

/* Connecting again is allowed a moment after the last attempt; events, not time, decide when it worked. */
static inline void reconnect(struct pg *pg)
{
	int64_t deadline_ns = SOON;
	while (pg_connect(pg, deadline_ns)) {
		assert_true(deadline_left_ms(deadline_ns) > 0);
		poll(NULL, 0, 5);
	}
}

#endif
