/* The audit of SKUs against the ledger.
 *
 * Happy path, per page of SKUs: their rows and the sums of their holds in one statement; then their ledger entries, in
 * order, page by page, each following from the one before; at the row's version the balances are the row's.
 * Failure modes: entries beyond the version that was read belong to later writes and are left for the next audit; an
 * entry of a SKU that was not in the page is a SKU made meanwhile, or a broken promise: it is looked up.
 */
#include <stdlib.h>

#include "base/text.h"
#include "cmd/audit_internal.h"

#define SKU_PAGE 1000
#define ENTRY_PAGE 20000

static const struct pg_statement sku_page =
	{"audit_sku_page",
     "SELECT s.id, s.code, s.on_hand, s.reserved, s.safety_stock, s.version,"
     "       coalesce((SELECT sum(h.quantity) FROM lastunit.hold h WHERE h.sku_id = s.id AND h.counted), 0)::bigint"
     "  FROM lastunit.sku s WHERE s.id > $1 ORDER BY s.id LIMIT $2"};
static const struct pg_statement entry_page =
	{"audit_entry_page",
     "SELECT l.sku_id, l.version, l.kind, l.on_hand_delta, l.reserved_delta, l.on_hand_after, l.reserved_after,"
     "       l.operation_id"
     "  FROM lastunit.ledger l WHERE (l.sku_id, l.version) > ($1, $2) AND l.sku_id <= $3"
     " ORDER BY l.sku_id, l.version LIMIT $4"};
static const struct pg_statement sku_exists = {"audit_sku_exists", "SELECT 1 FROM lastunit.sku s WHERE s.id = $1"};

/* A SKU as its row says, and how far its entries were followed. */
struct sku {
	int64_t id;
	struct text code;
	int64_t on_hand, reserved, safety_stock, version, held;
	int64_t seen;                              /* entries up to version */
	int64_t last;                              /* version of the last one */
	int64_t on_hand_sum, reserved_sum;         /* of deltas, all of them */
	int64_t on_hand_balance, reserved_balance; /* as the last entry says */
	bool gap;                                  /* a version is missing or out of place */
};

static const char *name_of(const struct sku *sku)
{
	static _Thread_local char name[LU_SKU_BYTES_MAX + 1];
	snprintf(name, sizeof name, "%.*s", (int)sku->code.size, sku->code.data);
	return name;
}

static void entry_follow(struct audit_work *work, struct sku *sku, const struct ledger_entry *e)
{
	struct audit_line *lines = work->audit->lines;
	lines[AUDIT_BALANCES].checked++;
	work->audit->entries++;
	if (e->version != sku->last + 1)
		sku->gap = true;
	int64_t on_hand, reserved;
	/* Sums are kept as they are, even past a fault: one fault is one offender, not all that follow. */
	if (__builtin_add_overflow(sku->on_hand_balance, e->on_hand_delta, &on_hand) ||
	    __builtin_add_overflow(sku->reserved_balance, e->reserved_delta, &reserved) || on_hand != e->on_hand_after ||
	    reserved != e->reserved_after)
		audit_broken(work, AUDIT_BALANCES, "%s version %lld: %lld/%lld after %+lld/%+lld on %lld/%lld", name_of(sku),
		             (long long)e->version, (long long)e->on_hand_after, (long long)e->reserved_after,
		             (long long)e->on_hand_delta, (long long)e->reserved_delta, (long long)sku->on_hand_balance,
		             (long long)sku->reserved_balance);
	sku->on_hand_balance = e->on_hand_after;
	sku->reserved_balance = e->reserved_after;
	sku->on_hand_sum = (int64_t)((uint64_t)sku->on_hand_sum + (uint64_t)e->on_hand_delta);
	sku->reserved_sum = (int64_t)((uint64_t)sku->reserved_sum + (uint64_t)e->reserved_delta);
	sku->last = e->version;
	sku->seen++;
	tally_entry(&work->tallies, e);
}

static void sku_judge(struct audit_work *work, const struct sku *sku)
{
	struct audit_line *lines = work->audit->lines;
	lines[AUDIT_RANGE].checked++;
	lines[AUDIT_RESERVED].checked++;
	lines[AUDIT_ON_HAND].checked++;
	lines[AUDIT_VERSIONS].checked++;
	if (sku->reserved < 0 || sku->reserved > sku->on_hand || sku->on_hand > LU_COUNT_MAX || sku->safety_stock < 0)
		audit_broken(work, AUDIT_RANGE, "%s: on_hand %lld, reserved %lld, safety_stock %lld", name_of(sku),
		             (long long)sku->on_hand, (long long)sku->reserved, (long long)sku->safety_stock);
	if (sku->reserved != sku->held || sku->reserved != sku->reserved_sum)
		audit_broken(work, AUDIT_RESERVED, "%s: reserved %lld, live holds %lld, the ledger sums up to %lld",
		             name_of(sku), (long long)sku->reserved, (long long)sku->held, (long long)sku->reserved_sum);
	if (sku->on_hand != sku->on_hand_sum)
		audit_broken(work, AUDIT_ON_HAND, "%s: on_hand %lld, the ledger sums up to %lld", name_of(sku),
		             (long long)sku->on_hand, (long long)sku->on_hand_sum);
	if (sku->gap || sku->seen != sku->version || sku->last != sku->version)
		audit_broken(work, AUDIT_VERSIONS, "%s: version %lld, %lld %s, the last has version %lld", name_of(sku),
		             (long long)sku->version, (long long)sku->seen, text_plural(sku->seen, "entry", "entries"),
		             (long long)sku->last);
}

/* Entries whose SKU was not there when its page was read. */
static enum lu_error entry_without_sku(struct audit_work *work, int64_t sku_id)
{
	struct arena scratch;
	arena_init(&scratch, 512);
	struct pg_params params;
	pg_params_init(&params, &scratch);
	pg_add_int8(&params, sku_id);
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = audit_query(work, &sku_exists, &params, &result);
	arena_done(&scratch);
	if (!error && PQntuples(result) == 0)
		audit_broken(work, AUDIT_VERSIONS, "the ledger has entries of SKU id %lld, which does not exist",
		             (long long)sku_id);
	return error;
}

static struct ledger_entry entry_get(const PGresult *r, int row)
{
	return (struct ledger_entry){
		.sku_id = pg_get_int(r, row, 0),
		.version = pg_get_int(r, row, 1),
		.kind = (enum ledger_kind)pg_get_int(r, row, 2),
		.on_hand_delta = pg_get_int(r, row, 3),
		.reserved_delta = pg_get_int(r, row, 4),
		.on_hand_after = pg_get_int(r, row, 5),
		.reserved_after = pg_get_int(r, row, 6),
		.operation_id = pg_get_uuid(r, row, 7),
	};
}

/* The entries of a page of SKUs: (after, upto]. */
static enum lu_error follow_page(struct audit_work *work, struct sku *skus, size_t count, int64_t after, int64_t upto)
{
	int64_t sku_id = after, version = INT64_MAX, unknown = -1;
	size_t at = 0;
	for (int rows = ENTRY_PAGE; rows == ENTRY_PAGE;) {
		struct arena scratch;
		arena_init(&scratch, 512);
		struct pg_params params;
		pg_params_init(&params, &scratch);
		pg_add_int8(&params, sku_id);
		pg_add_int8(&params, version);
		pg_add_int8(&params, upto);
		pg_add_int8(&params, ENTRY_PAGE);
		PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
		enum lu_error error = audit_query(work, &entry_page, &params, &result);
		arena_done(&scratch);
		if (error)
			return error;
		rows = PQntuples(result);
		for (int i = 0; i < rows; i++) {
			struct ledger_entry entry = entry_get(result, i);
			sku_id = entry.sku_id;
			version = entry.version;
			while (at < count && skus[at].id < sku_id)
				at++;
			if (at < count && skus[at].id == sku_id) {
				if (version <= skus[at].version)
					entry_follow(work, &skus[at], &entry);
			} else if (unknown != sku_id) {
				unknown = sku_id;
				error = entry_without_sku(work, sku_id);
				if (error)
					return error;
			}
		}
		audit_progress(work, "ledger entries", work->audit->entries);
	}
	return LU_OK;
}

enum lu_error audit_stock(struct audit_work *work)
{
	int64_t after = 0;
	for (int rows = SKU_PAGE; rows == SKU_PAGE;) {
		struct arena page;
		arena_init(&page, 1 << 17);
		struct pg_params params;
		pg_params_init(&params, &page);
		pg_add_int8(&params, after);
		pg_add_int8(&params, SKU_PAGE);
		PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
		enum lu_error error = audit_query(work, &sku_page, &params, &result);
		rows = error ? 0 : PQntuples(result);
		struct sku *skus = ARENA_ARRAY(&page, (size_t)rows, struct sku);
		for (int i = 0; i < rows; i++)
			skus[i] = (struct sku){
				.id = pg_get_int(result, i, 0),
				.code = pg_get_text(result, i, 1, &page),
				.on_hand = pg_get_int(result, i, 2),
				.reserved = pg_get_int(result, i, 3),
				.safety_stock = pg_get_int(result, i, 4),
				.version = pg_get_int(result, i, 5),
				.held = pg_get_int(result, i, 6),
			};
		/* Ids behind the last SKU can still have entries, of SKUs that are gone: the last page follows to the end. */
		int64_t upto = rows == SKU_PAGE ? skus[rows - 1].id : INT64_MAX;
		if (!error)
			error = follow_page(work, skus, (size_t)rows, after, upto);
		for (int i = 0; !error && i < rows; i++)
			sku_judge(work, &skus[i]);
		work->audit->skus += rows;
		if (rows)
			after = skus[rows - 1].id;
		arena_done(&page);
		if (error)
			return error;
	}
	return LU_OK;
}
