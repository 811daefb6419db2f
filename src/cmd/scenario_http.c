/* The verbs of a client: sell, reserve, commit, release, extend, cancel, adjust, set, see, http (scenario.h).
 *
 * Happy path: read the words, make the body, call, compare the answer with what stands behind "->" (any 2xx without
 * one). Failure modes: words that cannot be read are found when the file is checked; another answer than expected is
 * told as it came.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/text.h"
#include "cmd/scenario.h"

#define CALL_MS 20000

/* --- one call ----------------------------------------------------------------------------------------------------- */

/* The world speaks to whichever instance runs. */
static const char *url_of(const struct scenario_call *call)
{
	const struct scenario *s = call->scenario;
	const char *url = s->instances[call->session->instance].url;
	for (size_t i = 0; call->session == &s->sessions[0] && !*url && i < s->instance_count; i++)
		url = s->instances[i].url;
	return url;
}

/* The session's connection to where its instance is now; NULL: it does not run. */
static struct http_caller *caller_of(struct scenario_call *call)
{
	struct scenario_session *session = call->session;
	const char *url = url_of(call);
	if (!*url)
		return NULL;
	if (session->caller && strcmp(session->caller_url, url) != 0) {
		http_caller_free(session->caller);
		session->caller = NULL;
	}
	if (!session->caller) {
		session->caller = http_caller_new(url, CALL_MS);
		snprintf(session->caller_url, sizeof session->caller_url, "%s", url);
	}
	return session->caller;
}

void scenario_http(struct scenario_call *call, const char *method, const char *path, struct text body,
                   const char *idempotency_key, struct http_answer *ret_answer)
{
	struct http_caller *caller = caller_of(call);
	*ret_answer = (struct http_answer){.cache_status = ""};
	if (caller)
		*ret_answer = http_call(caller, method, path, body, call->run->options->keys[call->session->channel],
		                        idempotency_key);
}

json_t *scenario_answer_json(const struct http_answer *answer)
{
	return answer->body.size ? json_loadb(answer->body.data, answer->body.size, JSON_DECODE_ANY, NULL) : NULL;
}

const char *scenario_string_of(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));
	return value ? value : "";
}

int64_t scenario_int_of(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return json_is_integer(value) ? json_integer_value(value) : INT64_MIN;
}

/* One alternative: "201", "2xx", "201 replayed", "409 insufficient_stock", "no answer". */
static bool answer_is(const char *wanted, const struct http_answer *answer, const char *code)
{
	char words[200], *save = NULL;
	snprintf(words, sizeof words, "%s", wanted);
	if (!strcmp(words, "no answer"))
		return answer->status == 0;
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		bool same = !strcmp(word, "replayed")       ? answer->replayed
		            : !strcmp(word, "fresh")        ? !answer->replayed
		            : !strcmp(word, "2xx")          ? answer->status / 100 == 2
		            : isdigit((unsigned char)*word) ? atoi(word) == answer->status
		                                            : !strcmp(word, code);
		if (!same)
			return false;
	}
	return true;
}

/* Compares with what stands behind "->". */
static bool answer_check(struct scenario_call *call, const struct http_answer *answer, const json_t *json)
{
	const char *expected = call->line->expected ? call->line->expected : "2xx";
	const char *code = scenario_string_of(json, "code");
	if (answer->status)
		buffer_add_format(&call->said, "%d%s%s%s", answer->status, *code ? " " : "", code,
		                  answer->replayed ? " replayed" : "");
	else
		buffer_add_string(&call->said, "no answer");
	for (const char *at = expected; *at;) {
		const char *end = strstr(at, " or ");
		size_t size = end ? (size_t)(end - at) : strlen(at);
		char one[200];
		snprintf(one, sizeof one, "%.*s", (int)size, at);
		if (answer_is(one, answer, code))
			return true;
		at += size + (end ? 4 : 0);
	}
	return scenario_wrong(call, "expected %s, was answered %d %s%s %.*s", expected, answer->status, code,
	                      answer->replayed ? " replayed" : "", (int)(answer->body.size < 400 ? answer->body.size : 400),
	                      answer->body.size ? answer->body.data : "");
}

/* --- carts -------------------------------------------------------------------------------------------------------- */

static bool cart_add(struct scenario_call *call, json_t *lines, const char *name, int64_t quantity)
{
	const struct scenario_sku *sku = scenario_sku(call, name);
	if (!sku)
		return false;
	json_array_append_new(lines, json_pack("{s:s,s:I}", "sku", sku->code, "quantity", (json_int_t)quantity));
	return true;
}

/* S1..S50: every SKU whose name lies between, as the file declared them. */
static bool cart_add_range(struct scenario_call *call, json_t *lines, const char *range, int64_t quantity)
{
	char from[64], to[64];
	bool inside = false, found = false;
	if (sscanf(range, "%63[^.]..%63s", from, to) != 2)
		return scenario_wrong(call, "\"%s\" is no range", range);
	for (size_t i = 0; i < call->scenario->sku_count; i++) {
		const char *name = call->scenario->skus[i].name;
		inside |= !strcmp(name, from);
		if (inside && !cart_add(call, lines, name, quantity))
			return false;
		found |= inside;
		inside &= strcmp(name, to) != 0;
	}
	return found || scenario_wrong(call, "%s is no SKU of this file", from);
}

static void shuffle(json_t *lines)
{
	for (size_t i = json_array_size(lines); i > 1; i--) {
		size_t j = (size_t)random_below(i);
		json_t *last = json_incref(json_array_get(lines, i - 1)), *other = json_incref(json_array_get(lines, j));
		json_array_set_new(lines, i - 1, other);
		json_array_set_new(lines, j, last);
	}
}

/* "LAMP 1, TABLE 2" · "S1..S50 1 shuffled". NULL and wrong when there is none. */
static json_t *cart_read(struct scenario_call *call)
{
	json_t *lines = json_array();
	for (bool more = true; more;) {
		const char *name = scenario_word(call), *word = scenario_word(call);
		char *end;
		int64_t quantity = strtoll(word, &end, 10);
		more = *end == ',';
		bool good = *word && end != word && (!*end || (more && !end[1]))
		                ? (strstr(name, "..") ? cart_add_range(call, lines, name, quantity)
		                                      : cart_add(call, lines, name, quantity))
		                : scenario_wrong(call, "a cart reads \"LAMP 1, TABLE 2\"");
		if (!good) {
			json_decref(lines);
			return NULL;
		}
	}
	if (scenario_take(call, "shuffled"))
		shuffle(lines);
	return lines;
}

/* The key of an operation: `key WORD`, the same for all who say it in this permutation, or a new one. */
static void key_read(struct scenario_call *call, char key[160])
{
	const char *word = scenario_take(call, "key") ? scenario_word(call) : NULL;
	char token[TOKEN_BYTES + 1];
	key[0] = '\0';
	if (call->only_check)
		return;
	token_new(token);
	if (word)
		snprintf(key, 160, "scenario-%s-%s-%zu-%s", call->run->options->mark, call->scenario->name,
		         call->run->order + 1, word);
	else
		snprintf(key, 160, "scenario-%s-%s", call->run->options->mark, token);
}

/* --- selling and holding ------------------------------------------------------------------------------------------ */

/* Posts, remembers the id in `id` (NULL: nowhere), compares. Takes the body. */
static bool post(struct scenario_call *call, const char *path, json_t *body, const char *key, char id[40])
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	struct http_answer answer;
	scenario_http(call, "POST", path, text ? text_of(text) : TEXT("{}"), key, &answer);
	json_t *json = scenario_answer_json(&answer);
	if (id && answer.status / 100 == 2 && *scenario_string_of(json, "id"))
		snprintf(id, 40, "%s", scenario_string_of(json, "id"));
	bool good = answer_check(call, &answer, json);
	json_decref(json);
	free(text);
	return good;
}

static bool verb_sell(struct scenario_call *call)
{
	char key[160];
	json_t *lines = cart_read(call);
	if (!lines)
		return false;
	key_read(call, key);
	bool good = scenario_end(call);
	if (!good || call->only_check) {
		json_decref(lines);
		return good;
	}
	return post(call, "/v1/checkouts", json_pack("{s:o}", "lines", lines), key, call->session->checkout);
}

/* "for 30 s" */
static bool ttl_read(struct scenario_call *call, int64_t *ret_s)
{
	*ret_s = 0;
	if (!scenario_take(call, "for"))
		return true;
	return (scenario_int(call, ret_s) && scenario_take(call, "s")) || scenario_wrong(call, "a time reads \"for 30 s\"");
}

static bool verb_reserve(struct scenario_call *call)
{
	char key[160];
	int64_t ttl_s;
	json_t *lines = cart_read(call);
	if (!lines)
		return false;
	key_read(call, key);
	bool good = ttl_read(call, &ttl_s) && scenario_end(call);
	if (!good || call->only_check) {
		json_decref(lines);
		return good;
	}
	json_t *body = json_pack("{s:o}", "lines", lines);
	if (ttl_s)
		json_object_set_new(body, "ttl_seconds", json_integer(ttl_s));
	return post(call, "/v1/reservations", body, key, call->session->reservation);
}

/* Whose hold or sale: a session's name, or the session's own. */
static struct scenario_session *owner_read(struct scenario_call *call)
{
	const char *rest = scenario_rest(call);
	if (!*rest || !islower((unsigned char)*rest) || !strncmp(rest, "for ", 4) || !strncmp(rest, "key ", 4))
		return call->session;
	return scenario_session(call, scenario_word(call));
}

static bool end_hold(struct scenario_call *call, const char *what, json_t *body)
{
	const struct scenario_session *owner = owner_read(call);
	int64_t ttl_s = 0;
	bool good = owner && ttl_read(call, &ttl_s) && scenario_end(call);
	if (!good || call->only_check) {
		json_decref(body);
		return good;
	}
	char path[120];
	snprintf(path, sizeof path, "/v1/reservations/%s/%s", owner->reservation, what);
	if (ttl_s)
		json_object_set_new(body, "ttl_seconds", json_integer(ttl_s));
	return post(call, path, body, NULL, strcmp(what, "commit") ? NULL : call->session->checkout);
}

static bool verb_commit(struct scenario_call *call)
{
	return end_hold(call, "commit", json_object());
}

static bool verb_release(struct scenario_call *call)
{
	return end_hold(call, "release", json_object());
}

static bool verb_extend(struct scenario_call *call)
{
	return end_hold(call, "extend", json_object());
}

static bool verb_cancel(struct scenario_call *call)
{
	char key[160], path[120];
	const struct scenario_session *owner = owner_read(call);
	if (!owner)
		return false;
	key_read(call, key);
	bool good = scenario_end(call);
	if (!good || call->only_check)
		return good;
	snprintf(path, sizeof path, "/v1/checkouts/%s/cancel", owner->checkout);
	return post(call, path, json_object(), key, NULL);
}

/* --- stock -------------------------------------------------------------------------------------------------------- */

static bool adjust(struct scenario_call *call, json_t *line)
{
	char key[160];
	key_read(call, key);
	bool good = scenario_end(call);
	if (!good || call->only_check) {
		json_decref(line);
		return good;
	}
	return post(call, "/v1/adjustments", json_pack("{s:[o],s:s}", "lines", line, "reason", "scenario"), key, NULL);
}

/* adjust LAMP +5 */
static bool verb_adjust(struct scenario_call *call)
{
	int64_t delta;
	const struct scenario_sku *sku = scenario_sku(call, scenario_word(call));
	if (!sku)
		return false;
	if (!scenario_int(call, &delta))
		return scenario_wrong(call, "by how much? \"adjust LAMP +5\"");
	return adjust(call, json_pack("{s:s,s:I}", "sku", sku->code, "delta", (json_int_t)delta));
}

/* set LAMP 20 from 18 */
static bool verb_set(struct scenario_call *call)
{
	int64_t to, from;
	const struct scenario_sku *sku = scenario_sku(call, scenario_word(call));
	if (!sku)
		return false;
	if (!scenario_int(call, &to) || !scenario_take(call, "from") || !scenario_int(call, &from))
		return scenario_wrong(call, "\"set LAMP 20 from 18\"");
	return adjust(call,
	              json_pack("{s:s,s:I,s:I}", "sku", sku->code, "set", (json_int_t)to, "change_from", (json_int_t)from));
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct sight {
	const struct scenario_sku *sku;
	char available[120]; /* alternatives; "": only the status matters */
	int64_t held;        /* -1: any */
	const char *from;    /* "redis", "postgres", "miss", "bypass", "stale"; "" any */
	int64_t stale_s;
};

static bool sight_read(struct scenario_call *call, struct sight *ret)
{
	*ret = (struct sight){.sku = scenario_sku(call, scenario_word(call)), .held = -1, .from = ""};
	if (!ret->sku)
		return false;
	if (scenario_take(call, "="))
		for (const char *rest = scenario_rest(call); isdigit((unsigned char)*rest) || !strncmp(rest, "or ", 3);
		     rest = scenario_rest(call)) {
			size_t size = strlen(ret->available);
			snprintf(ret->available + size, sizeof ret->available - size, "%s%s", size ? " " : "", scenario_word(call));
		}
	if (scenario_take(call, "held") && !scenario_int(call, &ret->held))
		return scenario_wrong(call, "held how many?");
	if (scenario_take(call, "from"))
		ret->from = scenario_word(call);
	if (scenario_take(call, "stale") && !(scenario_int(call, &ret->stale_s) && scenario_take(call, "s")))
		return scenario_wrong(call, "\"stale 60 s\"");
	if (*ret->from && !strstr(" redis postgres miss bypass stale ", ret->from))
		return scenario_wrong(call, "from redis, postgres, miss, bypass or stale, not \"%s\"", ret->from);
	if (!*ret->available && !call->line->expected)
		return scenario_wrong(call, "what is to be seen? \"see LAMP = 9\"");
	return scenario_end(call);
}

static const char *source_of(const struct http_answer *answer)
{
	const char *equals = strrchr(answer->cache_status, '=');
	return strstr(answer->cache_status, "hit") ? "redis" : equals ? equals + 1 : "nowhere";
}

static bool sight_check(struct scenario_call *call, const struct sight *sight, const struct http_answer *answer,
                        const json_t *json)
{
	char available[40];
	const char *from = source_of(answer);
	const json_t *value = json_object_get(json, "available");
	snprintf(available, sizeof available, "%lld", (long long)json_integer_value(value));
	if (json_is_null(value))
		strcpy(available, "any number");
	buffer_add_format(&call->said, "%s, held %lld, version %lld, from %s", available,
	                  (long long)scenario_int_of(json, "held"), (long long)scenario_int_of(json, "version"), from);
	if (!scenario_matches(sight->available, available))
		return scenario_wrong(call, "expected %s, saw %s (version %lld, from %s)", sight->available, available,
		                      (long long)scenario_int_of(json, "version"), from);
	if (sight->held >= 0 && scenario_int_of(json, "held") != sight->held)
		return scenario_wrong(call, "expected %lld held, saw %lld", (long long)sight->held,
		                      (long long)scenario_int_of(json, "held"));
	bool postgres = !strcmp(sight->from, "postgres") && (!strcmp(from, "miss") || !strcmp(from, "bypass"));
	if (*sight->from && !postgres && strcmp(sight->from, from) != 0)
		return scenario_wrong(call, "expected it from %s, it came from %s", sight->from, from);
	return true;
}

/* "503" may be an alternative to figures: "see LAMP = 9 or 503". */
static const char *status_text(const struct http_answer *answer, struct buffer *said)
{
	buffer_clear(said);
	buffer_add_format(said, "%d", answer->status);
	buffer_add_char(said, '\0');
	said->size--;
	return said->data;
}

static bool see(struct scenario_call *call, const struct sight *sight)
{
	char path[160], header[60];
	struct http_answer answer;
	snprintf(path, sizeof path, "/v1/availability/%s", sight->sku->code);
	snprintf(header, sizeof header, "Cache-Control: max-stale=%lld", (long long)sight->stale_s);
	struct http_caller *caller = caller_of(call);
	if (caller)
		http_caller_header(caller, sight->stale_s ? header : NULL);
	scenario_http(call, "GET", path, (struct text){0}, NULL, &answer);
	if (caller)
		http_caller_header(caller, NULL);
	bool good;
	json_t *json = scenario_answer_json(&answer);
	if (call->line->expected)
		good = answer_check(call, &answer, json);
	else if (answer.status != 200)
		good = scenario_matches(sight->available, status_text(&answer, &call->said)) ||
		       scenario_wrong(call, "expected %s, was answered %d %s", sight->available, answer.status,
		                      scenario_string_of(json, "code"));
	else
		good = sight_check(call, sight, &answer, json);
	json_decref(json);
	return good;
}

static bool verb_see(struct scenario_call *call)
{
	struct sight sight;
	return sight_read(call, &sight) && (call->only_check || see(call, &sight));
}

/* http GET /v1/skus/{LAMP} -> 200 */
static bool verb_http(struct scenario_call *call)
{
	struct buffer path = {0}, body = {0};
	const char *method = scenario_word(call);
	bool good = strstr(" GET POST PUT ", method) || scenario_wrong(call, "GET, POST or PUT, not \"%s\"", method);
	good = good && scenario_expand(call, scenario_word(call), &path) &&
	       scenario_expand(call, scenario_rest(call), &body);
	if (good && !call->only_check) {
		struct http_answer answer;
		scenario_http(call, method, path.data, text_of(body.data), NULL, &answer);
		json_t *json = scenario_answer_json(&answer);
		good = answer_check(call, &answer, json);
		json_decref(json);
	}
	buffer_done(&path);
	buffer_done(&body);
	return good;
}

const struct scenario_verb scenario_http_verbs[] = {
	{"sell", "sell LAMP 1, TABLE 2 [key WORD] [-> 201 or 409 insufficient_stock]", SCENARIO_SESSION, verb_sell},
	{"reserve", "reserve LAMP 1 [key WORD] [for 30 s] [-> …]", SCENARIO_SESSION, verb_reserve},
	{"commit", "commit [SESSION] [-> …]          the last hold of this session, or of that one", SCENARIO_SESSION,
     verb_commit},
	{"release", "release [SESSION] [-> …]", SCENARIO_SESSION, verb_release},
	{"extend", "extend [SESSION] [for 30 s] [-> …]", SCENARIO_SESSION, verb_extend},
	{"cancel", "cancel [SESSION] [key WORD] [-> …]   its last sale", SCENARIO_SESSION, verb_cancel},
	{"adjust", "adjust LAMP +5 [key WORD] [-> …]", SCENARIO_SESSION, verb_adjust},
	{"set", "set LAMP 20 from 18 [key WORD] [-> …]", SCENARIO_SESSION, verb_set},
	{"see", "see LAMP = 9 [or 10] [held 1] [from redis|postgres|miss|bypass|stale] [stale 60 s] | see LAMP -> 404",
     SCENARIO_SESSION, verb_see},
	{"http", "http GET /v1/skus/{LAMP} [BODY] -> 200", SCENARIO_SESSION, verb_http},
	{0},
};
