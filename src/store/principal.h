/* Settings of principals: what a client of the service may do beyond its scopes (struct principal_settings). They travel
 * with the keys: key_load() reads them, the trigger on the table moves keys_version, and every instance obeys them as soon
 * as it obeys a new key. Run by the owner of the schema: serve may only read them. */
#ifndef STORE_PRINCIPAL_H
#define STORE_PRINCIPAL_H

#include "store/pg.h"

struct principal_row {
	struct text name;
	enum channel channel;
	struct principal_settings settings;
};

/* By name; data NULL: all. */
enum lu_error principal_list(struct pg *pg, struct arena *arena, struct text name, int64_t deadline_ns,
                             struct principal_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;

/* What is -1 stays as it is; a cap of 0 is taken away. */
struct principal_change {
	int64_t buffer, may_use_safety_stock; /* the latter 0 or 1 */
	int64_t holds_max, held_units_max, caller_holds_max, caller_held_units_max;
};
#define PRINCIPAL_UNCHANGED ((struct principal_change){-1, -1, -1, -1, -1, -1})
/* *ret_known false: no such principal, nothing was changed. */
enum lu_error principal_change(struct pg *pg, struct text name, const struct principal_change *change,
                               int64_t deadline_ns, bool *ret_known) LU_MUST_CHECK;

/* For statements that read settings with something else. */
#define PRINCIPAL_SETTINGS(table)                                                                          \
	table ".buffer, " table ".may_use_safety_stock, " table ".holds_max, " table ".held_units_max, " table \
		  ".caller_holds_max, " table ".caller_held_units_max"
struct principal_settings principal_settings_get(const PGresult *r, int row, int column);

#endif
