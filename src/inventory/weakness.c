/* What weakens a promise (weakness.h).
 *
 * Happy path: four questions to PostgreSQL (settings and standbys, guards, rights too many and too few), one to Redis,
 * and nothing to say.
 * Failure modes: a question that is not answered ends the look with its error; what was found so far stays.
 */
#include "inventory/weakness.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define SENTENCE_BYTES 700
#define NAMES_BYTES 300
#define MEMORY_PERCENT_MAX 90

void weakness_add(struct weaknesses *list, const char *name, const char *promises, const char *format, ...)
{
	if (list->count == WEAKNESS_MAX)
		return;
	char sentence[SENTENCE_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	struct text whole = text_utf8_part(text_of(sentence)); /* it may have been cut within a character */
	list->items[list->count++] = (struct weakness){name, promises, arena_text(list->arena, whole).data};
}

const char *weakness_find(const struct weaknesses *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i].name, name))
			return list->items[i].sentence;
	return NULL;
}

bool weakness_any_promise(const struct weaknesses *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->items[i].promises[0])
			return true;
	return false;
}

/* --- PostgreSQL: settings and standbys ---------------------------------------------------------------------------- */

/* synchronous_commit is asked for as others get it: this session has set its own. Logical subscribers and backups are no
 * standbys. sync_state is NULL for whoever may not see it: then no standby is known to be either. */
static const struct pg_statement settings =
	{"weakness_settings",
     "SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',"
     " (SELECT s.reset_val = 'off' FROM pg_settings s WHERE s.name = 'synchronous_commit'),"
     " current_setting('synchronous_standby_names') <> '',"
     " count(*), count(*) FILTER (WHERE r.sync_state IN ('sync', 'quorum')),"
     " count(*) FILTER (WHERE r.sync_state IN ('async', 'potential'))"
     " FROM pg_stat_replication r WHERE r.application_name <> 'pg_basebackup' AND NOT EXISTS"
     " (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')"};

static void judge_standbys(struct weaknesses *list, bool wanted, int64_t all, int64_t synchronous, int64_t asynchronous)
{
	if (!wanted && all > 0)
		weakness_add(list, "standbys_asynchronous", "P4",
		             "PostgreSQL has %lld %s and waits for none: promoting one can lose answered writes."
		             " Name them in synchronous_standby_names, or never promote",
		             (long long)all, text_plural(all, "standby", "standbys"));
	else if (wanted && synchronous == 0 && (all == 0 || asynchronous > 0))
		weakness_add(list, "standbys_missing", "P6",
		             "synchronous_standby_names wants standbys and none is there: every commit waits for one");
	else if (wanted && asynchronous > 0)
		weakness_add(
			list, "standbys_asynchronous", "P4",
			"PostgreSQL has %lld %s and does not wait for %lld: promoting one of those can lose answered writes",
			(long long)all, text_plural(all, "standby", "standbys"), (long long)asynchronous);
}

static enum lu_error look_at_settings(struct weaknesses *list, struct pg *pg, int64_t deadline_ns)
{
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &settings, NULL, deadline_ns, &r);
	if (error)
		return error;
	if (!pg_get_bool(r, 0, 0))
		weakness_add(
			list, "fsync_off", "P4",
			"PostgreSQL runs with fsync=off: an answered write can be lost, and the database be destroyed, when"
			" the machine stops");
	if (!pg_get_bool(r, 0, 1))
		weakness_add(list, "full_page_writes_off", "P4",
		             "PostgreSQL runs with full_page_writes=off: a crash of the machine can tear pages");
	if (pg_get_bool(r, 0, 2))
		weakness_add(list, "synchronous_commit_off", "P4",
		             "PostgreSQL's default is synchronous_commit=off: Lastunit's own sessions set it on, but whoever"
		             " writes in SQL is told of commits that a crash can lose");
	judge_standbys(list, pg_get_bool(r, 0, 3), pg_get_int(r, 0, 4), pg_get_int(r, 0, 5), pg_get_int(r, 0, 6));
	return LU_OK;
}

/* --- PostgreSQL: the guards of the schema ------------------------------------------------------------------------- */

/* A trigger counts only if it fires always: also in sessions that set session_replication_role, as those of logical
 * replication, pg_restore --disable-triggers and many a copying tool do. */
static const struct {
	const char *table, *guard, *promises, *without;
} guards[] = {
	{"sku", "sku_never_oversold", "P1", "a bug or a hand could oversell"},
	{"sku", "sku_code_is_unique", "P1", "one SKU could be two rows"},
	{"ledger", "ledger_pkey", "P1", "two entries could share a version"},
	{"ledger", "ledger_is_append_only", "P1", "what happened could be rewritten"},
	{"idempotency", "idempotency_key_is_used_once", "P3", "one key could have two effects"},
	{"reservation", "reservation_has_an_end_unless_active", "P5", "a hold could live and have ended"},
	{"checkout", "checkout_sells_a_reservation_once", "P5", "a hold could be sold twice"},
	{"sku", "stranger_inserts", "P2", "SKUs made in SQL would have no version and no ledger entry"},
	{"sku", "stranger_inserted", "P2", "SKUs made in SQL would have no version and no ledger entry"},
	{"sku", "stranger_updates", "P2", "counts changed in SQL would be neither in the ledger nor in the cache"},
	{"sku", "stranger_updated", "P2", "counts changed in SQL would be neither in the ledger nor in the cache"},
	{"sku", "sku_is_never_removed", "P2", "the cache would go on answering for SKUs that are gone"},
	{"sku", "sku_code_has_1_to_128_bytes", "P1", "codes made in SQL could be such that no call can name them"},
	{"sku", "sku_code_has_no_blank_ends_or_control_characters", "P1", "one SKU could be two rows that look the same"},
	{"principal", "principal_changed", "P2", "instances would not hear of changed keys"},
	{"api_key", "api_key_changed", "P2", "a revoked key would go on working"},
};
#define GUARD_COUNT (sizeof guards / sizeof guards[0])

/* Every guard that is there, and what it takes until it stands: '' for constraints that are validated, unique indexes that
 * are valid, triggers that always fire. */
static const struct pg_statement guards_there = {
	"weakness_guards",
	"SELECT c.relname || '.' || g.name, g.mend"
	" FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid CROSS JOIN LATERAL"
	" (SELECT k.conname, CASE WHEN k.convalidated THEN ''"
	"   ELSE format('ALTER TABLE lastunit.%I VALIDATE CONSTRAINT %I', c.relname, k.conname) END"
	"   FROM pg_constraint k WHERE k.conrelid = c.oid"
	"  UNION ALL SELECT t.tgname, CASE WHEN t.tgenabled = 'A' THEN ''"
	"   ELSE format('ALTER TABLE lastunit.%I ENABLE ALWAYS TRIGGER %I', c.relname, t.tgname) END"
	"   FROM pg_trigger t WHERE t.tgrelid = c.oid"
	"  UNION ALL SELECT i.relname, CASE WHEN x.indisvalid THEN '' ELSE format('REINDEX INDEX lastunit.%I', i.relname) END"
	"   FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
	"   WHERE x.indrelid = c.oid AND x.indisunique) g(name, mend)"
	" WHERE n.nspname = 'lastunit' AND c.relkind IN ('r', 'p')"};

/* "": it stands. A constraint and its index have one name, and either will do. */
static struct text mend_of(const PGresult *r, size_t guard)
{
	char name[140];
	struct text mend = TEXT("make it anew, as in a database that was just migrated");
	snprintf(name, sizeof name, "%s.%s", guards[guard].table, guards[guard].guard);
	for (int i = 0; i < PQntuples(r); i++)
		if (text_equal((struct text){PQgetvalue(r, i, 0), (size_t)PQgetlength(r, i, 0)}, text_of(name))) {
			mend = (struct text){PQgetvalue(r, i, 1), (size_t)PQgetlength(r, i, 1)};
			if (!mend.size)
				break;
		}
	return mend;
}

static enum lu_error look_at_guards(struct weaknesses *list, struct pg *pg, int64_t deadline_ns)
{
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &guards_there, NULL, deadline_ns, &r);
	for (size_t i = 0; !error && i < GUARD_COUNT; i++) {
		struct text mend = mend_of(r, i);
		if (mend.size)
			weakness_add(
				list, "guard_missing", guards[i].promises,
				"lastunit.%s has lost %s (dropped, disabled, not valid or not ALWAYS): without it %s; to mend it:"
				" %.*s",
				guards[i].table, guards[i].guard, guards[i].without, (int)mend.size, mend.data);
	}
	return error;
}

/* --- PostgreSQL: who may rewrite history -------------------------------------------------------------------------- */

/* Superusers and the owner may do anything anyhow, and PostgreSQL's own roles are granted to nobody by themselves. */
static const struct pg_statement powers =
	{"weakness_powers",
     "SELECT count(*), coalesce(left(string_agg(r.rolname::text, ', ' ORDER BY r.rolname), 200), '')"
     " FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'ledger', pg_roles r"
     " WHERE n.nspname = 'lastunit' AND NOT r.rolsuper AND r.rolname !~ '^pg_'"
     " AND NOT pg_has_role(r.oid, c.relowner, 'MEMBER')"
     " AND (has_table_privilege(r.oid, c.oid, 'UPDATE, DELETE, TRUNCATE')"
     "      OR has_any_column_privilege(r.oid, c.oid, 'UPDATE'))"};

static enum lu_error look_at_powers(struct weaknesses *list, struct pg *pg, int64_t deadline_ns)
{
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &powers, NULL, deadline_ns, &r);
	if (error || !pg_get_int(r, 0, 0))
		return error;
	weakness_add(list, "ledger_may_be_rewritten", "P1",
	             "these roles may UPDATE, DELETE or TRUNCATE the ledger, where only a trigger still stops them: %.*s",
	             PQgetlength(r, 0, 1), PQgetvalue(r, 0, 1));
	return LU_OK;
}

/* --- PostgreSQL: what the service may ----------------------------------------------------------------------------- */

/* What the migrations GRANT to the role that serve acts as, less what it has. */
static const struct pg_statement rights = {
	"weakness_rights",
	"WITH ours AS (SELECT c.oid, c.relname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid"
	"  WHERE n.nspname = 'lastunit' AND c.relkind IN ('r', 'p', 'v')),"
	" lost(named) AS (SELECT w.privilege || ' ON lastunit.' || o.relname FROM (VALUES"
	"  ('SELECT', 'api_key cache_epoch checkout hold idempotency invalidation keys_version ledger migration orders principal"
	" product reservation search_word secret sku sku_text webhook webhook_failure webhook_out'),"
	"  ('INSERT', 'checkout hold idempotency ledger orders reservation sku sku_text webhook webhook_failure webhook_out'),"
	"  ('UPDATE', 'cache_epoch invalidation webhook webhook_failure webhook_out'),"
	"  ('DELETE', 'hold invalidation webhook webhook_failure webhook_out')) w(privilege, tables)"
	"  JOIN ours o ON o.relname = ANY (string_to_array(w.tables, ' '))"
	"  WHERE NOT has_table_privilege('lastunit_service', o.oid, w.privilege)"
	" UNION ALL SELECT format('UPDATE (%I) ON lastunit.%I', a.attname, o.relname) FROM (VALUES"
	"  ('checkout', 'cancelled'), ('hold', 'expires_at'), ('idempotency', 'detail'),"
	"  ('orders', 'changed_at version channel sku_ids quantities counted'),"
	"  ('reservation', 'state expires_at ended_at checkout_id'),"
	"  ('sku', 'on_hand reserved safety_stock tracked version writer'), ('sku_text', 'titles names')) w(relname, columns)"
	"  JOIN ours o USING (relname)"
	"  JOIN pg_attribute a ON a.attrelid = o.oid AND a.attname = ANY (string_to_array(w.columns, ' '))"
	"  WHERE NOT has_column_privilege('lastunit_service', o.oid, a.attnum, 'UPDATE')"
	" UNION ALL SELECT format('EXECUTE ON FUNCTION lastunit.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid))"
	"  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
	"  WHERE n.nspname = 'lastunit' AND p.proname = 'search_products'"
	"   AND NOT has_function_privilege('lastunit_service', p.oid, 'EXECUTE')"
	" UNION ALL SELECT format('all rows of lastunit.%I (ALTER TABLE lastunit.%I DISABLE ROW LEVEL SECURITY)', o.relname, o.relname)"
	"  FROM ours o JOIN pg_class c ON c.oid = o.oid JOIN pg_roles r ON r.rolname = 'lastunit_service'"
	"  WHERE c.relrowsecurity AND NOT r.rolbypassrls AND NOT r.rolsuper"
	" UNION ALL SELECT 'USAGE ON SCHEMA lastunit' FROM pg_namespace n"
	"  WHERE n.nspname = 'lastunit' AND NOT has_schema_privilege('lastunit_service', n.oid, 'USAGE'))"
	" SELECT count(*), coalesce(left(string_agg(named, ', ' ORDER BY named), 300), '') FROM lost"};

static enum lu_error look_at_rights(struct weaknesses *list, struct pg *pg, int64_t deadline_ns)
{
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &rights, NULL, deadline_ns, &r);
	if (error || !pg_get_int(r, 0, 0))
		return error;
	int64_t count = pg_get_int(r, 0, 0);
	weakness_add(list, WEAKNESS_RIGHTS_MISSING, "P6",
	             "lastunit_service has lost %lld %s: %.*s. What needs it is answered 503 database_unavailable; to mend"
	             " it: GRANT ... TO lastunit_service",
	             (long long)count, text_plural(count, "right", "rights"), PQgetlength(r, 0, 1), PQgetvalue(r, 0, 1));
	return LU_OK;
}

enum lu_error weakness_look_database(struct weaknesses *list, struct pg *pg, int64_t deadline_ns)
{
	enum lu_error error = look_at_settings(list, pg, deadline_ns);
	if (!error)
		error = look_at_guards(list, pg, deadline_ns);
	if (!error)
		error = look_at_powers(list, pg, deadline_ns);
	return error ? error : look_at_rights(list, pg, deadline_ns);
}

/* --- Redis -------------------------------------------------------------------------------------------------------- */

static void judge_memory(struct weaknesses *list, struct text info)
{
	int64_t used_bytes = 0, bytes_max = 0;
	struct text policy = redis_info_value(info, "maxmemory_policy");
	(void)text_to_int64(redis_info_value(info, "used_memory"), &used_bytes);
	(void)text_to_int64(redis_info_value(info, "maxmemory"), &bytes_max);
	if (policy.size > 8 && memcmp(policy.data, "allkeys-", 8) == 0)
		weakness_add(list, "redis_evicts_markers", "P2",
		             "Redis evicts with %.*s: it may drop the marker of a write in flight, and a reader may then be"
		             " shown the old value after the new one. Use noeviction or volatile-*",
		             (int)policy.size, policy.data);
	else if (bytes_max > 0 && used_bytes > bytes_max / 100 * MEMORY_PERCENT_MAX)
		weakness_add(list, "redis_memory_short", "",
		             "Redis uses %lld of its %lld bytes: when it is full it refuses markers, and reads come from"
		             " PostgreSQL",
		             (long long)used_bytes, (long long)bytes_max);
}

static void judge_persistence(struct weaknesses *list, struct text info)
{
	if (text_equal(redis_info_value(info, "rdb_last_bgsave_status"), TEXT("err")))
		weakness_add(list, "redis_cannot_save", "",
		             "Redis failed to save its dump and may refuse writes (MISCONF) until it can: then reads come from"
		             " PostgreSQL");
	/* The settings are hidden from INFO; that a dump was ever made is not. */
	int64_t saves = 0, took_s = -1;
	(void)text_to_int64(redis_info_value(info, "rdb_saves"), &saves);
	(void)text_to_int64(redis_info_value(info, "rdb_last_bgsave_time_sec"), &took_s);
	bool appends = text_equal(redis_info_value(info, "aof_enabled"), TEXT("1"));
	if (appends || saves > 0 || took_s >= 0)
		weakness_add(list, "redis_persists", "",
		             "Redis persists (%s): no promise needs it, old cells are never served after a restart, and each"
		             " save can stop Redis for longer than --redis-timeout-ms. Better: save \"\", appendonly no",
		             appends ? "append-only file" : "dumps");
}

enum lu_error weakness_look_redis(struct weaknesses *list, struct redis *redis, int64_t deadline_ns)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	enum lu_error error = redis_call(redis, 1, (struct text[]){TEXT("INFO")}, deadline_ns, &reply);
	if (error || reply->type != REDIS_REPLY_STRING)
		return error ? error : LU_CACHE_UNAVAILABLE;
	struct text info = {reply->str, (size_t)reply->len};
	if (!text_equal(redis_info_value(info, "role"), TEXT("master")))
		weakness_add(list, "redis_is_a_replica", "",
		             "this Redis is a replica: no epoch is opened on it, every read comes from PostgreSQL");
	judge_memory(list, info);
	judge_persistence(list, info);
	return LU_OK;
}
