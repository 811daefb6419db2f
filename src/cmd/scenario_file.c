/* Reading a scenario: what a file declares, its permutations, the check (scenario.h; the language: tests/spec/README.md).
 *
 * Happy path: read the file, take it apart line by line (scenario_line.c), make the permutations, let every verb check
 * its own words. Failure modes: one sentence with the file and the line; nothing has been touched yet.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cmd/file_read.h"
#include "cmd/scenario_reader.h"

#define SKU_NAME_BYTES 64

/* --- declarations ------------------------------------------------------------------------------------------------- */

static bool session_find(const struct scenario *s, const char *name, size_t *ret_index)
{
	for (size_t i = 0; i < s->session_count; i++)
		if (!strcmp(s->sessions[i].name, name)) {
			*ret_index = i;
			return true;
		}
	return false;
}

static bool instance_find(const struct scenario *s, const char *name, size_t *ret_index)
{
	for (size_t i = 0; i < s->instance_count; i++)
		if (!strcmp(s->instances[i].name, name)) {
			*ret_index = i;
			return true;
		}
	return false;
}

static bool instance_declare(struct scenario_reader *r, char *text)
{
	struct scenario *s = r->s;
	size_t twin;
	char *name = word_cut(&text);
	if (!word_is_name(name))
		return reader_wrong(r, "instance NAME: a name is made of small letters");
	if (s->instance_count == SCENARIO_INSTANCES_MAX || instance_find(s, name, &twin))
		return reader_wrong(r, "instance %s: there is one of that name, or too many", name);
	s->instances[s->instance_count++] = (struct scenario_instance){.name = name, .options = text};
	return true;
}

static bool is_sku_name(const char *word)
{
	size_t size = strlen(word);
	for (size_t i = 0; i < size; i++)
		if (!isupper((unsigned char)word[i]) && !isdigit((unsigned char)word[i]) && word[i] != '-')
			return false;
	return size > 0 && size < 30 && isupper((unsigned char)*word);
}

static bool sku_add(struct scenario_reader *r, const char *name, int64_t on_hand, bool tracked)
{
	struct scenario *s = r->s;
	if (!is_sku_name(name))
		return reader_wrong(r, "stock %s: a SKU is written in capital letters", name);
	for (size_t i = 0; i < s->sku_count; i++)
		if (!strcmp(s->skus[i].name, name))
			return reader_wrong(r, "stock %s: it is there already", name);
	if (s->sku_count == SCENARIO_SKUS_MAX)
		return reader_wrong(r, "more than %d SKUs", SCENARIO_SKUS_MAX);
	s->skus[s->sku_count++] = (struct scenario_sku){.name = arena_text(&s->arena, text_of(name)).data,
	                                                .on_hand = on_hand,
	                                                .tracked = tracked};
	return true;
}

/* stock LAMP 10 · stock S1..S50 100 · stock CARD 0 untracked */
static bool stock_declare(struct scenario_reader *r, char *text)
{
	char *name = word_cut(&text), *count = word_cut(&text), *end;
	int64_t on_hand = strtoll(count, &end, 10);
	bool tracked = strcmp(text, "untracked") != 0;
	if (!*count || *end || on_hand < 0 || (tracked && *text))
		return reader_wrong(r, "stock NAME UNITS [untracked]");
	char stem[SKU_NAME_BYTES];
	int from, to, used = 0;
	if (sscanf(name, "%29[A-Z-]%d..%*[A-Z-]%d%n", stem, &from, &to, &used) == 3 && !name[used]) {
		for (int i = from; i <= to; i++) {
			char one[SKU_NAME_BYTES + 12];
			snprintf(one, sizeof one, "%s%d", stem, i);
			if (!sku_add(r, one, on_hand, tracked))
				return false;
		}
		return true;
	}
	return sku_add(r, name, on_hand, tracked);
}

/* session NAME [as CHANNEL] [on INSTANCE]: a name that is a channel's has its key, any other the web's. */
static bool session_declare(struct scenario_reader *r, char *text)
{
	struct scenario *s = r->s;
	char *name = word_cut(&text);
	enum channel channel = CHANNEL_WEB;
	size_t twin, instance = 0;
	if (!word_is_name(name))
		return reader_wrong(r, "session NAME: a name is made of small letters");
	if (s->session_count == SCENARIO_SESSIONS_MAX || session_find(s, name, &twin))
		return reader_wrong(r, "session %s: there is one of that name, or too many", name);
	(void)channel_parse(text_of(name), &channel);
	while (*text) {
		char *word = word_cut(&text), *value = word_cut(&text);
		if (!strcmp(word, "as") && channel_parse(text_of(value), &channel) && (int)channel <= SCENARIO_CHANNELS)
			continue;
		if (!strcmp(word, "on") && instance_find(s, value, &instance))
			continue;
		return reader_wrong(r, "session NAME [as CHANNEL] [on INSTANCE]: \"%s %s\"", word, value);
	}
	r->session = s->session_count;
	s->sessions[s->session_count++] = (struct scenario_session){.name = name,
	                                                            .instance = instance,
	                                                            .channel = (int)channel};
	return true;
}

static bool step_add(struct scenario_reader *r, struct scenario_step step)
{
	if (r->s->step_count == SCENARIO_STEPS_MAX)
		return reader_wrong(r, "more than %d steps", SCENARIO_STEPS_MAX);
	r->s->steps[r->s->step_count++] = step;
	return true;
}

static bool step_declare(struct scenario_reader *r, char *text)
{
	struct scenario_step step = {.name = word_cut(&text), .session = r->session};
	if (!word_is_name(step.name))
		return reader_wrong(r, "step NAME { … }: a name is made of small letters");
	for (size_t i = 0; i < r->s->step_count; i++)
		if (!strcmp(r->s->steps[i].name, step.name))
			return reader_wrong(r, "step %s: there is one of that name", step.name);
	return reader_parse_block(r, text, &step.block) && step_add(r, step);
}

/* "reader: see LAMP = 9", or an expectation of the world's. */
static bool story_line(struct scenario_reader *r, size_t session, char *text)
{
	struct scenario_step step = {.name = "", .session = session};
	step.block.lines = ARENA_NEW(&r->s->arena, struct scenario_line);
	step.block.count = 1;
	return reader_parse_line(r, text, step.block.lines) && step_add(r, step);
}

/* --- permutations ------------------------------------------------------------------------------------------------- */

static bool order_add(struct scenario_reader *r, const size_t *steps, size_t count)
{
	struct scenario *s = r->s;
	if (s->order_count == SCENARIO_ORDERS_MAX)
		return reader_wrong(r, "more than %d permutations", SCENARIO_ORDERS_MAX);
	if (!s->orders)
		s->orders = ARENA_ARRAY(&s->arena, SCENARIO_ORDERS_MAX, struct scenario_order);
	struct scenario_order *order = &s->orders[s->order_count++];
	order->steps = ARENA_ARRAY(&s->arena, count, size_t);
	order->count = count;
	if (count)
		memcpy(order->steps, steps, count * sizeof *steps);
	return true;
}

static bool permutation_declare(struct scenario_reader *r, char *text)
{
	size_t steps[SCENARIO_STEPS_MAX], count = 0;
	while (*text) {
		char *name = word_cut(&text);
		size_t i = 0;
		while (i < r->s->step_count && strcmp(r->s->steps[i].name, name))
			i++;
		if (i == r->s->step_count)
			return reader_wrong(r, "permutation: no step is called %s", name);
		if (count == SCENARIO_STEPS_MAX)
			return reader_wrong(r, "permutation: more than %d steps", SCENARIO_STEPS_MAX);
		steps[count++] = i;
	}
	return (count || reader_wrong(r, "permutation: of which steps?")) && order_add(r, steps, count);
}

/* Every interleaving that keeps each session's own order. `at` counts the steps of each session already placed. */
static bool order_all(struct scenario_reader *r, size_t *steps, size_t count, size_t *at)
{
	struct scenario *s = r->s;
	if (count == s->step_count)
		return order_add(r, steps, count);
	for (size_t session = 0; session < s->session_count; session++) {
		size_t seen = 0;
		for (size_t i = 0; i < s->step_count; i++) {
			if (s->steps[i].session != session || seen++ != at[session])
				continue;
			steps[count] = i;
			at[session]++;
			bool good = order_all(r, steps, count + 1, at);
			at[session]--;
			if (!good)
				return false;
			break;
		}
	}
	return true;
}

static bool orders_make(struct scenario_reader *r)
{
	struct scenario *s = r->s;
	bool story = false, named = false;
	size_t steps[SCENARIO_STEPS_MAX], at[SCENARIO_SESSIONS_MAX] = {0};
	for (size_t i = 0; i < s->step_count; i++) {
		steps[i] = i;
		story |= !*s->steps[i].name;
		named |= *s->steps[i].name != '\0';
	}
	if (!s->step_count)
		return reader_wrong(r, "nothing happens in this file");
	if (story && named)
		return reader_wrong(r, "a file tells a story (\"reader: see …\") or has steps and permutations, not both");
	if (story && (s->order_count || r->all))
		return reader_wrong(r, "a story has one order: as it is written");
	if (r->all)
		return order_all(r, steps, 0, at);
	return s->order_count || order_add(r, steps, s->step_count);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static bool declaration(struct scenario_reader *r, char *line)
{
	static const struct {
		const char *word;
		bool (*declare)(struct scenario_reader *r, char *text);
	} declarations[] = {{"instance", instance_declare},
	                    {"stock", stock_declare},
	                    {"session", session_declare},
	                    {"step", step_declare},
	                    {"permutation", permutation_declare}};
	size_t size = strcspn(line, " \t"), session;
	if (!strncmp(line, "expect ", 7) || !strncmp(line, "wait ", 5))
		return story_line(r, 0, line);
	if (size > 1 && line[size - 1] == ':') {
		line[size - 1] = '\0';
		return session_find(r->s, line, &session) ? story_line(r, session, word_trim(line + size))
		                                          : reader_wrong(r, "no session is called %s", line);
	}
	char *rest = line, *word = word_cut(&rest);
	for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++)
		if (!strcmp(word, declarations[i].word))
			return declarations[i].declare(r, rest);
	if (!strcmp(word, "setup"))
		return reader_parse_block(r, rest, &r->s->setup);
	if (!strcmp(word, "finally"))
		return reader_parse_block(r, rest, &r->s->finally);
	if (!strcmp(word, "permutations") && !strcmp(rest, "all")) {
		r->all = true;
		return true;
	}
	return reader_wrong(
		r, "\"%s\" begins no line: needs, instance, stock, session, step, setup, finally, permutation, or NAME: …",
		word);
}

/* Lets a verb look at its own words. */
static bool line_check(struct scenario_reader *r, size_t session, const struct scenario_line *line)
{
	if (!line->verb)
		return true;
	struct scenario_call call = {.scenario = r->s,
	                             .session = &r->s->sessions[session],
	                             .line = line,
	                             .at = line->action,
	                             .only_check = true};
	bool good = line->verb->run(&call);
	buffer_done(&call.said);
	r->number = line->number;
	return good || reader_wrong(r, "%s", call.why);
}

static bool block_check(struct scenario_reader *r, size_t session, const struct scenario_block *block)
{
	for (size_t i = 0; i < block->count; i++)
		if (!line_check(r, session, &block->lines[i]))
			return false;
	return true;
}

static bool scenario_check(struct scenario_reader *r)
{
	if (!block_check(r, 0, &r->s->setup) || !block_check(r, 0, &r->s->finally))
		return false;
	for (size_t i = 0; i < r->s->step_count; i++)
		if (!block_check(r, r->s->steps[i].session, &r->s->steps[i].block))
			return false;
	return true;
}

static bool file_take(struct scenario_reader *r, struct buffer *file)
{
	struct scenario *s = r->s;
	char why[256];
	if (!file_read(s->path, file, why)) {
		snprintf(r->why, SCENARIO_WHY_BYTES, "%s", why); /* it names the file, and no line of it was read */
		return false;
	}
	if (memchr(file->data, '\0', file->size))
		return reader_wrong(r, "a NUL byte is no text");
	r->next = (char *)arena_text(&s->arena, buffer_text(file)).data;
	for (char *line; (line = reader_take_line(r));) {
		if (!strncmp(line, "needs ", 6)) {
			s->needs = word_trim(line + 6);
			if (!r->bench)
				return true;
			continue;
		}
		/* Whoever names no instance has one, and any session may be spoken to before the first is declared. */
		if (!s->instance_count && strncmp(line, "instance ", 9))
			s->instances[s->instance_count++] = (struct scenario_instance){.name = "a", .options = ""};
		if (!declaration(r, line))
			return false;
	}
	r->number = 1;
	if (!s->title)
		return reader_wrong(r, "it begins with a comment that says what happens");
	return orders_make(r) && scenario_check(r);
}

struct scenario *scenario_read(const char *path, const struct scenario_bench *bench, char ret_why[SCENARIO_WHY_BYTES])
{
	struct scenario *s = calloc(1, sizeof *s);
	CHECK(s);
	arena_init(&s->arena, 16 * 1024);
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t size = strlen(name);
	if (size > 5 && !strcmp(name + size - 5, ".spec"))
		size -= 5;
	s->path = arena_text(&s->arena, text_of(path)).data;
	s->name = arena_text(&s->arena, (struct text){name, size}).data;
	s->sessions[s->session_count++] = (struct scenario_session){.name = "world", .channel = CHANNEL_ADMIN};
	struct scenario_reader reader = {.s = s, .bench = bench, .why = ret_why};
	struct buffer file = {0};
	bool good = file_take(&reader, &file);
	buffer_done(&file);
	if (good)
		return s;
	scenario_free(s);
	return NULL;
}

void scenario_free(struct scenario *s)
{
	if (!s)
		return;
	arena_done(&s->arena);
	free(s);
}
