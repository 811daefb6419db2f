/* The lines of a scenario: words, verbs, blocks (scenario_reader.h).
 *
 * Happy path: the comment is cut off, then from the end the expectation and the sync point, then from the beginning how
 * and how often ("begin", "3 times"); what is left begins with a verb of the tables, the longest that fits. Failure
 * modes: a verb nobody knows (the nearest is named), a block without an end.
 */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/scenario_reader.h"

#define BLOCK_LINES_MAX 64
#define FIRST_WORD_BYTES 64
#define VERBS_MAX 128
#define TIMES_MAX 10000

bool reader_wrong(struct scenario_reader *r, const char *format, ...)
{
	int size = snprintf(r->why, SCENARIO_WHY_BYTES, "%s:%d: ", r->s->path, r->number);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(r->why + size, SCENARIO_WHY_BYTES - (size_t)size, format, arguments);
	va_end(arguments);
	return false;
}

/* --- lines and words ---------------------------------------------------------------------------------------------- */

char *word_trim(char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	for (size_t size = strlen(text); size && isspace((unsigned char)text[size - 1]);)
		text[--size] = '\0';
	return text;
}

/* A comment begins with # at the beginning of a word, outside "…". */
static void cut_comment(char *line)
{
	bool quoted = false;
	for (char *c = line; *c; c++) {
		if (*c == '"')
			quoted = !quoted;
		if (*c == '#' && !quoted && (c == line || isspace((unsigned char)c[-1]))) {
			*c = '\0';
			return;
		}
	}
}

char *reader_take_line(struct scenario_reader *r)
{
	while (r->next) {
		char *line = r->next, *end = strchr(line, '\n');
		r->next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		r->number++;
		if (*line == '#' && !r->s->title && *word_trim(line + 1))
			r->s->title = word_trim(line + 1);
		cut_comment(line);
		line = word_trim(line);
		if (*line)
			return line;
	}
	return NULL;
}

char *word_cut(char **text)
{
	char *word = *text, *end = word;
	while (*end && !isspace((unsigned char)*end))
		end++;
	if (*end)
		*end++ = '\0';
	*text = word_trim(end);
	return word;
}

bool word_is_name(const char *word)
{
	size_t size = strlen(word);
	for (size_t i = 0; i < size; i++)
		if (!islower((unsigned char)word[i]) && !isdigit((unsigned char)word[i]) && word[i] != '-')
			return false;
	return size > 0 && size < 40 && isalpha((unsigned char)*word);
}

/* --- verbs -------------------------------------------------------------------------------------------------------- */

static const struct scenario_verb *verb_of_table(const struct scenario_verb *verbs, const char *text,
                                                 const struct scenario_verb *best)
{
	for (; verbs && verbs->name; verbs++) {
		size_t size = strlen(verbs->name);
		if (strncmp(text, verbs->name, size) == 0 && (!text[size] || isspace((unsigned char)text[size])) &&
		    (!best || size > strlen(best->name)))
			best = verbs;
	}
	return best;
}

static const struct scenario_verb *verb_find(const struct scenario_bench *bench, const char *text)
{
	const struct scenario_verb *verb = verb_of_table(scenario_http_verbs, text, NULL);
	verb = verb_of_table(scenario_look_verbs, text, verb);
	return bench ? verb_of_table(bench->verbs, text, verb) : verb;
}

static bool unknown_verb(struct scenario_reader *r, const char *text)
{
	const struct scenario_verb *tables[] = {scenario_http_verbs, scenario_look_verbs,
	                                        r->bench ? r->bench->verbs : NULL};
	const char *names[VERBS_MAX + 1];
	size_t count = 0;
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct scenario_verb *v = tables[t]; v && v->name && count < VERBS_MAX; v++)
			names[count++] = v->name;
	names[count] = NULL;
	char first[FIRST_WORD_BYTES];
	snprintf(first, sizeof first, "%.*s", (int)strcspn(text, " \t"), text);
	const char *nearest = cmd_nearest(first, names);
	return nearest ? reader_wrong(r, "\"%s\" is no verb; did you mean \"%s\"?", first, nearest)
	               : reader_wrong(r, "\"%s\" is no verb%s", first,
	                              r->bench ? "" : "; lastunit scenario --verbs lists them");
}

void scenario_print_verbs(FILE *out)
{
	const struct scenario_verb *tables[] = {scenario_http_verbs, scenario_look_verbs};
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct scenario_verb *v = tables[t]; v->name; v++)
			fprintf(out, "  %s\n", v->usage);
}

/* --- lines and blocks --------------------------------------------------------------------------------------------- */

/* The last " -> " splits; what stands behind the last " until " goes if it is one word. */
static void split_tail(struct scenario_line *line, char *text)
{
	char *until = NULL, *arrow = NULL;
	for (char *at = text; (at = strstr(at, " until ")); at++)
		until = at;
	if (until && word_is_name(word_trim(until + 7))) {
		*until = '\0';
		line->until = word_trim(until + 7);
	}
	for (char *at = text; (at = strstr(at, " -> ")); at++)
		arrow = at;
	if (arrow) {
		*arrow = '\0';
		line->expected = word_trim(arrow + 4);
	}
}

bool reader_parse_line(struct scenario_reader *r, char *text, struct scenario_line *ret)
{
	struct arena *arena = &r->s->arena;
	*ret = (struct scenario_line){.number = r->number, .text = arena_text(arena, text_of(text)).data, .times = 1};
	if (!strcmp(text, "end")) {
		ret->how = SCENARIO_END;
		return true;
	}
	char *copy = (char *)arena_text(arena, text_of(text)).data, *ahead = copy;
	split_tail(ret, copy);
	if (!strcmp(copy, "go on")) {
		ret->how = SCENARIO_GO_ON;
		return ret->until || !ret->expected || reader_wrong(r, "what is expected stands where the line began");
	}
	static const struct {
		const char *word;
		enum scenario_how how;
	} ways[] = {{"expect ", SCENARIO_NOW}, {"begin ", SCENARIO_BEGIN}, {"wait ", SCENARIO_WAIT}};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (strncmp(ahead, ways[i].word, strlen(ways[i].word)) == 0) {
			ret->how = ways[i].how;
			ahead = word_trim(ahead + strlen(ways[i].word));
			break;
		}
	int used = 0;
	if (sscanf(ahead, "%d times %n", &ret->times, &used) == 1 && used > 0)
		ahead += used;
	if (ret->times < 1 || ret->times > TIMES_MAX)
		return reader_wrong(r, "%d times is too often", ret->times);
	if (ret->until)
		ret->how = SCENARIO_BEGIN;
	ret->verb = verb_find(r->bench, ahead);
	if (!ret->verb)
		return unknown_verb(r, ahead);
	ret->action = word_trim(ahead + strlen(ret->verb->name));
	r->s->uses |= ret->verb->needs;
	return true;
}

bool reader_parse_block(struct scenario_reader *r, char *text, struct scenario_block *ret)
{
	struct scenario_line lines[BLOCK_LINES_MAX];
	size_t count = 0;
	if (*text != '{')
		return reader_wrong(r, "{ is missing");
	text = word_trim(text + 1);
	int begun = r->number;
	for (bool open = true; open;) {
		size_t size = strlen(text);
		if (size && text[size - 1] == '}' && (size == 1 || isspace((unsigned char)text[size - 2]))) {
			text[size - 1] = '\0';
			text = word_trim(text);
			open = false;
		}
		if (*text) {
			if (count == BLOCK_LINES_MAX)
				return reader_wrong(r, "more than %d lines in one block", BLOCK_LINES_MAX);
			if (!reader_parse_line(r, text, &lines[count++]))
				return false;
		}
		if (open && !(text = reader_take_line(r))) {
			r->number = begun;
			return reader_wrong(r, "the block that begins here has no end");
		}
	}
	ret->lines = ARENA_ARRAY(&r->s->arena, count, struct scenario_line);
	ret->count = count;
	if (count)
		memcpy(ret->lines, lines, count * sizeof *lines);
	return true;
}
