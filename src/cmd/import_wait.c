/* Who has locked the rows of an import (import_wait.h).
 *
 * Happy path: a row that is locked or changed by a transaction under way bears that transaction's number in xmax, and
 * whoever is that transaction holds a lock on its own number: so pg_locks tells the process, pg_stat_activity its name.
 * Failure modes: nobody is seen: the lock is gone already, several share it (xmax is then the number of their group),
 * or it is not a SKU's; then the sentence says what else it may have been.
 */
#include "cmd/import_wait.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"

#define PAUSE_MS 200
#define DOUBLINGS_MAX 4 /* to 3.2 s */

static const struct pg_statement find_holder =
	{"import_find_holder",
     "SELECT s.code, l.pid::bigint, coalesce(nullif(a.application_name, ''), a.usename, '?'), count(*) OVER ()"
     "  FROM import_stage named JOIN lastunit.sku s USING (code)"
     "  JOIN pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = s.xmax"
     "  LEFT JOIN pg_stat_activity a USING (pid)"
     " WHERE l.pid <> pg_backend_pid() ORDER BY s.id LIMIT 1"};

void import_wait_look(struct import_wait *wait, struct pg *pg, struct arena *arena, int64_t deadline_ns)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	wait->times++;
	if (!pg_query(pg, &find_holder, NULL, deadline_ns, &result) && PQntuples(result) == 1) {
		struct text sku = pg_get_text(result, 0, 0, arena), name = pg_get_text(result, 0, 2, arena);
		long long others = pg_get_int(result, 0, 3) - 1;
		char more[40] = "";
		if (others > 0)
			snprintf(more, sizeof more, ", and %lld more", others);
		snprintf(wait->why, sizeof wait->why, "SKU \"%.*s\" is locked by pid %lld (%.*s)%s", (int)sku.size, sku.data,
		         (long long)pg_get_int(result, 0, 1), (int)name.size, name.data, more);
	} else if (!*wait->why) {
		snprintf(wait->why, sizeof wait->why,
		         "another session has locked one of the SKUs, is making one of them, or runs this very import");
	}
}

bool import_wait_sleep(struct import_wait *wait, int64_t deadline_ns)
{
	unsigned doublings = wait->times > DOUBLINGS_MAX ? DOUBLINGS_MAX : wait->times - 1;
	int64_t longest_ms = (int64_t)PAUSE_MS << doublings;
	int64_t until_ns = deadline_in_ms(longest_ms / 2 + (int64_t)random_below((uint32_t)longest_ms / 2 + 1));
	if (until_ns >= deadline_ns - 2 * IMPORT_LOCK_MS * NS_PER_MS)
		return false;
	clock_sleep_until(until_ns);
	return true;
}
