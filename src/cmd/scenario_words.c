/* What all verbs read their words with (scenario.h): a cursor in the line's action, and names as the file declared them.
 *
 * Happy path: a verb takes word after word and then the end. Failure modes: a name that the file does not declare, or
 * more words than the verb takes, is told by scenario_wrong(); a word that is missing is "", which is the verb's to refuse.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/scenario.h"

const char *scenario_word(struct scenario_call *call)
{
	while (isspace((unsigned char)*call->at))
		call->at++;
	size_t size = strcspn(call->at, " \t");
	struct text word = {call->at, size};
	call->at += size;
	/* The words of a running errand lie in its own memory: the arena is nobody's while threads run. */
	static _Thread_local char ring[8][200];
	static _Thread_local unsigned next;
	char *out = ring[next++ % 8];
	snprintf(out, sizeof ring[0], "%.*s", (int)word.size, word.data);
	return out;
}

const char *scenario_rest(struct scenario_call *call)
{
	while (isspace((unsigned char)*call->at))
		call->at++;
	return call->at;
}

bool scenario_take(struct scenario_call *call, const char *word)
{
	const char *rest = scenario_rest(call);
	size_t size = strlen(word);
	if (strncmp(rest, word, size) != 0 || (rest[size] && !isspace((unsigned char)rest[size])))
		return false;
	call->at = rest + size;
	return true;
}

bool scenario_end(struct scenario_call *call)
{
	const char *rest = scenario_rest(call);
	return !*rest || scenario_wrong(call, "\"%s\" is more than `%s` takes", rest, call->line->verb->name);
}

bool scenario_int(struct scenario_call *call, int64_t *ret_value)
{
	const char *rest = scenario_rest(call);
	char *end;
	int64_t value = strtoll(rest, &end, 10);
	if (end == rest || (*end && !isspace((unsigned char)*end)))
		return false;
	*ret_value = value;
	call->at = end;
	return true;
}

struct scenario_sku *scenario_sku(struct scenario_call *call, const char *name)
{
	struct scenario *s = call->scenario;
	for (size_t i = 0; i < s->sku_count; i++)
		if (!strcmp(s->skus[i].name, name))
			return &s->skus[i];
	scenario_wrong(call, "\"%s\" is no SKU of this file (stock NAME UNITS declares one)", name);
	return NULL;
}

struct scenario_session *scenario_session(struct scenario_call *call, const char *name)
{
	struct scenario *s = call->scenario;
	for (size_t i = 0; i < s->session_count; i++)
		if (!strcmp(s->sessions[i].name, name))
			return &s->sessions[i];
	scenario_wrong(call, "no session is called %s", name);
	return NULL;
}

struct scenario_instance *scenario_instance(struct scenario_call *call, const char *name)
{
	struct scenario *s = call->scenario;
	for (size_t i = 0; i < s->instance_count; i++)
		if (!strcmp(s->instances[i].name, name))
			return &s->instances[i];
	scenario_wrong(call, "no instance is called %s", name);
	return NULL;
}

bool scenario_matches(const char *alternatives, const char *seen)
{
	size_t size = strlen(seen);
	for (const char *at = alternatives;; at += 4) {
		const char *end = strstr(at, " or ");
		size_t one = end ? (size_t)(end - at) : strlen(at);
		if (one == size && memcmp(at, seen, size) == 0)
			return true;
		if (!end)
			return false;
		at = end;
	}
}
