/* The verbs of an operator: row, ledger, cell, epoch, silence, sql, redis, later (scenario.h).
 *
 * Happy path: ask PostgreSQL or Redis past the service, compare with what the line says. Failure modes: no database or
 * Redis was given; a statement or command that touches what is not the scenario's own is refused when the file is
 * checked, unless a bench owns the servers.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/scenario.h"
#include "store/pg_internal.h"

#define SQL_MS 30000
#define REDIS_MS 5000
#define WORDS_MAX 64

/* --- SQL ---------------------------------------------------------------------------------------------------------- */

static bool sql_connect(struct scenario_call *call)
{
	struct scenario_session *session = call->session;
	const char *url = call->run->options->database_url;
	if (!url)
		return scenario_wrong(call, "no database was given");
	if (!session->pg)
		session->pg = pg_new(&(struct pg_options){.url = url, .application_name = "lastunit scenario"});
	int64_t until_ns = deadline_in_ms(call->run->options->patience_ms);
	while (pg_connect(session->pg, until_ns)) {
		if (clock_boottime_ns() > until_ns)
			return scenario_wrong(call, "PostgreSQL cannot be reached: %s", pg_error(session->pg)->message);
		clock_sleep_until(deadline_in_ms(20));
	}
	return true;
}

bool scenario_sql(struct scenario_call *call, const char *sql, const char **ret_value, char ret_sqlstate[6])
{
	static _Thread_local char value[1000];
	char tag[64];
	PGresult *result = NULL;
	*ret_value = "";
	ret_sqlstate[0] = '\0';
	if (!sql_connect(call))
		return false;
	struct pg *pg = call->session->pg;
	if (pg_simple(pg, sql, deadline_in_ms(SQL_MS), &result, tag)) {
		snprintf(ret_sqlstate, 6, "%s", pg_error(pg)->sqlstate[0] ? pg_error(pg)->sqlstate : "08006");
		snprintf(value, sizeof value, "%s", pg_error(pg)->message);
	} else if (result && PQntuples(result) > 0 && PQnfields(result) > 0) {
		snprintf(value, sizeof value, "%s", PQgetvalue(result, 0, 0));
	} else {
		snprintf(value, sizeof value, "%s", tag);
	}
	*ret_value = value;
	PQclear(result);
	return true;
}

/* A look: a session that a restart of PostgreSQL has ended is replaced, for nothing hangs on it. */
static bool sql_look(struct scenario_call *call, const char *sql, const char **ret_value)
{
	char sqlstate[6];
	for (int tries = 0; tries < 2; tries++) {
		if (!scenario_sql(call, sql, ret_value, sqlstate))
			return false;
		if (!*sqlstate)
			return true;
		pg_close(call->session->pg);
	}
	return scenario_wrong(call, "PostgreSQL: %s %s", sqlstate, *ret_value);
}

/* --- {…} ---------------------------------------------------------------------------------------------------------- */

static bool namespace_get(struct scenario_call *call, struct buffer *out)
{
	const char *value;
	if (call->only_check)
		return true;
	if (!sql_look(call, "SELECT namespace FROM lastunit.cache_epoch", &value))
		return false;
	buffer_add_string(out, value);
	return true;
}

static bool expand_one(struct scenario_call *call, const char *name, struct buffer *out)
{
	if (!strncmp(name, "cell ", 5)) {
		const struct scenario_sku *sku = scenario_sku(call, name + 5);
		if (!sku || !namespace_get(call, out))
			return false;
		buffer_add_format(out, ":%s", sku->code);
		return true;
	}
	if (!strcmp(name, "namespace"))
		return namespace_get(call, out);
	bool reservation = !strncmp(name, "reservation ", 12);
	if (reservation || !strncmp(name, "checkout ", 9)) {
		const struct scenario_session *session = scenario_session(call, name + (reservation ? 12 : 9));
		if (session)
			buffer_add_string(out, reservation ? session->reservation : session->checkout);
		return session != NULL;
	}
	const struct scenario_sku *sku = scenario_sku(call, name);
	if (sku)
		buffer_add_string(out, sku->code);
	return sku != NULL;
}

/* What is in braces and begins with a letter is a name; JSON's braces do not. */
bool scenario_expand(struct scenario_call *call, const char *text, struct buffer *out)
{
	while (*text) {
		const char *end = *text == '{' && isalpha((unsigned char)text[1]) ? strchr(text, '}') : NULL;
		if (!end) {
			buffer_add_char(out, *text++);
			continue;
		}
		char name[80];
		snprintf(name, sizeof name, "%.*s", (int)(end - text - 1), text + 1);
		if (!expand_one(call, name, out))
			return false;
		text = end + 1;
	}
	buffer_add_char(out, '\0');
	out->size--;
	return true;
}

/* --- raw SQL ------------------------------------------------------------------------------------------------------ */

/* In a shop only the scenario's own SKUs may be written. */
static bool sql_is_harmless(const char *sql)
{
	static const char *const words[] = {"SELECT", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strncasecmp(sql, words[i], strlen(words[i])) == 0)
			return !strchr(sql, ';');
	const char *where = strcasestr(sql, "WHERE code = '{");
	return strncasecmp(sql, "UPDATE lastunit.sku SET ", 24) == 0 && where && !strchr(sql, ';') &&
	       !strcasestr(sql, " OR ");
}

/* sql UPDATE lastunit.sku SET on_hand = 7 WHERE code = '{LAMP}' -> UPDATE 1 */
static bool verb_sql(struct scenario_call *call)
{
	const char *text = scenario_rest(call), *value, *expected = call->line->expected;
	struct buffer sql = {0};
	char sqlstate[6];
	bool good = scenario_expand(call, text, &sql);
	if (good && call->only_check && !call->scenario->needs && !sql_is_harmless(text))
		good = scenario_wrong(call,
		                      "in a shop: SELECT, or UPDATE lastunit.sku SET … WHERE code = '{NAME}', one statement");
	if (good && !call->only_check) {
		good = scenario_sql(call, sql.data, &value, sqlstate);
		char seen[1100];
		if (good) {
			snprintf(seen, sizeof seen, "%s%s", *sqlstate ? "error " : "", *sqlstate ? sqlstate : value);
			buffer_add_string(&call->said, seen);
		}
		if (good && expected ? !scenario_matches(expected, seen) : good && *sqlstate)
			good = scenario_wrong(call, "expected %s, got %s (%s)", expected ? expected : "success", seen, value);
	}
	buffer_done(&sql);
	return good;
}

/* --- Redis -------------------------------------------------------------------------------------------------------- */

static void reply_text(struct buffer *out, const redisReply *reply)
{
	switch (reply->type) {
	case REDIS_REPLY_ARRAY:
		for (size_t i = 0; i < reply->elements; i++) {
			if (i)
				buffer_add_char(out, ' ');
			reply_text(out, reply->element[i]);
		}
		break;
	case REDIS_REPLY_INTEGER:
		buffer_add_int(out, reply->integer);
		break;
	case REDIS_REPLY_NIL:
		buffer_add_string(out, "nil");
		break;
	default:
		buffer_add(out, reply->str, (size_t)reply->len);
	}
}

bool scenario_redis(struct scenario_call *call, int argc, const struct text *argv, struct buffer *ret)
{
	struct scenario_session *session = call->session;
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	if (!call->run->options->redis)
		return scenario_wrong(call, "no Redis was given");
	if (!session->redis)
		session->redis = redis_new(call->run->options->redis);
	int64_t until_ns = deadline_in_ms(call->run->options->patience_ms);
	while (redis_connect(session->redis, deadline_in_ms(REDIS_MS))) {
		if (clock_boottime_ns() > until_ns)
			return scenario_wrong(call, "Redis: %s", redis_error(session->redis));
		clock_sleep_until(deadline_in_ms(20));
	}
	if (redis_call(session->redis, argc, argv, deadline_in_ms(REDIS_MS), &reply))
		buffer_add_format(ret, "error %s", redis_error(session->redis));
	else
		reply_text(ret, reply);
	buffer_add_char(ret, '\0');
	ret->size--;
	return true;
}

/* In a shop only the scenario's own cells may be touched. */
static bool redis_is_harmless(const char *command)
{
	static const char *const words[] = {"GET ", "DEL ", "EXISTS ", "TYPE ", "TTL ", "PTTL ", "STRLEN ", "SET "};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strncasecmp(command, words[i], strlen(words[i])) == 0)
			return strncmp(command + strlen(words[i]), "{cell ", 6) == 0;
	return false;
}

/* Splits at blanks; "…" is one word. Each word is expanded by itself, so what is in braces may hold blanks. */
static int redis_words(char *text, char *words[WORDS_MAX])
{
	int count = 0;
	while (*text && count < WORDS_MAX) {
		while (isspace((unsigned char)*text))
			*text++ = '\0';
		if (!*text)
			break;
		char closing = *text == '"' ? '"' : *text == '{' ? '}' : ' ';
		if (closing == '"')
			text++;
		words[count++] = text;
		char *end = strchr(text, closing);
		if (end && closing == '}')
			end = strchr(end, ' ');
		if (!end)
			break;
		*end = '\0';
		text = end + 1;
	}
	return count;
}

/* redis DEL {cell LAMP} -> 1 */
static bool verb_redis(struct scenario_call *call)
{
	char copy[1000], *words[WORDS_MAX];
	struct buffer expanded[WORDS_MAX] = {0}, reply = {0};
	struct text argv[WORDS_MAX];
	const char *expected = call->line->expected;
	snprintf(copy, sizeof copy, "%s", scenario_rest(call));
	if (call->only_check && !call->scenario->needs && !redis_is_harmless(copy))
		return scenario_wrong(call, "in a shop: GET, DEL, SET, EXISTS, TYPE, TTL or STRLEN of a {cell NAME}");
	int count = redis_words(copy, words);
	bool good = count > 0 || scenario_wrong(call, "which command?");
	for (int i = 0; good && i < count; i++) {
		good = scenario_expand(call, words[i], &expanded[i]);
		argv[i] = buffer_text(&expanded[i]);
	}
	if (good && !call->only_check) {
		good = scenario_redis(call, count, argv, &reply);
		if (good) {
			buffer_clear(&call->said);
			buffer_add_format(&call->said, "%.200s", reply.data);
		}
		if (good && expected && !scenario_matches(expected, reply.data))
			good = scenario_wrong(call, "expected %s, got %s", expected, reply.data);
	}
	for (int i = 0; i < count; i++)
		buffer_done(&expanded[i]);
	buffer_done(&reply);
	return good;
}

/* --- looks -------------------------------------------------------------------------------------------------------- */

/* "NAME = WHAT": what is expected, alternatives and all. */
static bool compare_read(struct scenario_call *call, const char **ret_expected)
{
	if (!scenario_take(call, "="))
		return scenario_wrong(call, "`%s` reads \"%s\"", call->line->verb->name, call->line->verb->usage);
	*ret_expected = scenario_rest(call);
	return **ret_expected || scenario_wrong(call, "equal to what?");
}

static bool compare(struct scenario_call *call, const char *expected, const char *seen)
{
	buffer_clear(&call->said);
	buffer_add_string(&call->said, seen);
	return scenario_matches(expected, seen) || scenario_wrong(call, "expected %s, it is %s", expected, seen);
}

static bool sku_query(struct scenario_call *call, const char *format)
{
	const char *expected, *value;
	char sql[1000];
	const struct scenario_sku *sku = scenario_sku(call, scenario_word(call));
	if (!sku || !compare_read(call, &expected) || call->only_check)
		return sku && call->only_check && !*call->why;
	snprintf(sql, sizeof sql, "%s'%s'", format, sku->code);
	return sql_look(call, sql, &value) && compare(call, expected, value);
}

static bool verb_row(struct scenario_call *call)
{
	return sku_query(call, "SELECT concat(on_hand, '/', reserved) FROM lastunit.sku WHERE code = ");
}

static bool verb_ledger(struct scenario_call *call)
{
	return sku_query(call,
	                 "SELECT count(*) FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id WHERE s.code = ");
}

static bool verb_sold(struct scenario_call *call)
{
	return sku_query(call,
	                 "SELECT count(*) FROM lastunit.checkout c JOIN lastunit.sku s ON s.id = ANY(c.sku_ids)"
	                 " WHERE s.code = ");
}

/* "absent", "F", "I", "V 9/0", "foreign" */
static void cell_text(char out[80], struct text raw, bool present, const char *code)
{
	struct cell cell = cell_decode(raw, present, text_of(code));
	switch (cell.state) {
	case CELL_ABSENT:
		strcpy(out, "absent");
		break;
	case CELL_FILL:
		strcpy(out, "F");
		break;
	case CELL_INTENT:
		strcpy(out, "I");
		break;
	case CELL_VALUE:
		snprintf(out, 80, "V %lld/%lld", (long long)cell.figures.on_hand, (long long)cell.figures.reserved);
		break;
	case CELL_FOREIGN:
		strcpy(out, "foreign");
		break;
	}
}

static bool verb_cell(struct scenario_call *call)
{
	const char *expected;
	const struct scenario_sku *sku = scenario_sku(call, scenario_word(call));
	if (!sku || !compare_read(call, &expected) || call->only_check)
		return sku && call->only_check && !*call->why;
	char name[80], seen[80];
	struct buffer key = {0}, reply = {0};
	snprintf(name, sizeof name, "cell %s", sku->name);
	bool good = expand_one(call, name, &key);
	struct text argv[] = {TEXT("GET"), buffer_text(&key)};
	good = good && scenario_redis(call, 2, argv, &reply);
	if (good) {
		cell_text(seen, buffer_text(&reply), strcmp(reply.data, "nil") != 0, sku->code);
		good = compare(call, expected, seen);
	}
	buffer_done(&key);
	buffer_done(&reply);
	return good;
}

static bool verb_epoch(struct scenario_call *call)
{
	const char *expected, *value;
	if (!compare_read(call, &expected) || call->only_check)
		return call->only_check && !*call->why;
	return sql_look(call, "SELECT (ARRAY['open', 'closing', 'closed'])[state] FROM lastunit.cache_epoch", &value) &&
	       compare(call, expected, value);
}

/* A step may find another one waiting. */
static bool verb_silence(struct scenario_call *call)
{
	if (!scenario_take(call, "from"))
		return scenario_wrong(call, "`silence from SESSION`");
	const struct scenario_session *session = scenario_session(call, scenario_word(call));
	if (!session || !scenario_end(call) || call->only_check)
		return session && !*call->why;
	return scenario_is_waiting(session) || scenario_wrong(call, "%s has been answered", session->name);
}

/* later 100 ms: for reading along; nothing may depend on it. */
static bool verb_later(struct scenario_call *call)
{
	int64_t ms;
	if (!scenario_int(call, &ms) || !scenario_take(call, "ms") || ms < 0 || ms > 10000)
		return scenario_wrong(call, "`later 100 ms`");
	if (!scenario_end(call))
		return false;
	if (!call->only_check)
		clock_sleep_until(deadline_in_ms(ms));
	return true;
}

const struct scenario_verb scenario_look_verbs[] = {
	{"row", "row LAMP = 9/0                on_hand/reserved in PostgreSQL", SCENARIO_SESSION | SCENARIO_SQL, verb_row},
	{"ledger", "ledger LAMP = 2              number of its entries", SCENARIO_SESSION | SCENARIO_SQL, verb_ledger},
	{"sold", "sold LAMP = 1                number of sales with it", SCENARIO_SESSION | SCENARIO_SQL, verb_sold},
	{"cell", "cell LAMP = V 9/0 or absent  what Redis holds: absent, F, I, V on_hand/reserved, foreign",
     SCENARIO_SESSION | SCENARIO_SQL | SCENARIO_REDIS, verb_cell},
	{"epoch", "epoch = open or closed", SCENARIO_SESSION | SCENARIO_SQL, verb_epoch},
	{"silence", "silence from SESSION         its errand is not answered yet", 0, verb_silence},
	{"sql", "sql UPDATE lastunit.sku SET on_hand = 7 WHERE code = '{LAMP}' -> UPDATE 1 | error 23514",
     SCENARIO_SESSION | SCENARIO_SQL, verb_sql},
	{"redis", "redis DEL {cell LAMP} -> 1", SCENARIO_SESSION | SCENARIO_SQL | SCENARIO_REDIS, verb_redis},
	{"later", "later 100 ms", 0, verb_later},
	{0},
};
