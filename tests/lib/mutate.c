/* Inputs like those that were kept, but not quite (mutate.h).
 *
 * Happy path: an input is taken, and one to five edits are made in place. Half of the edits work on bytes; the others
 * know what text is made of: words, numbers, lines, the tail of another input.
 */
#include "lib/mutate.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/text.h"
#include "cmd/file_read.h"

#define EDITS_MAX 5
#define RUN_MAX 16 /* bytes of an edit that takes or copies some */
#define WORDS_MAX 400

/* --- chance ------------------------------------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators"). */
static uint64_t draw(struct mutator *m)
{
	uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static size_t below(struct mutator *m, size_t bound)
{
	return (size_t)(draw(m) % bound);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static struct text file_of(struct arena *arena, const char *path)
{
	struct buffer bytes = {0};
	char why[256];
	if (!file_read(path, &bytes, why)) {
		fprintf(stderr, "%s\n", why);
		check_failed(__FILE__, __LINE__, "an input that can be read");
	}
	struct text text = arena_text(arena, buffer_text(&bytes));
	buffer_done(&bytes);
	return text;
}

static void inputs_read(struct mutator *m, const char *name)
{
	char pattern[200];
	glob_t found = {0};
	snprintf(pattern, sizeof pattern, "tests/fuzz/corpus/%s/*", name);
	if (glob(pattern, 0, NULL, &found) != 0) {
		fprintf(stderr, "no %s below the working directory\n", pattern);
		check_failed(__FILE__, __LINE__, "an input to begin with");
	}
	m->input_count = found.gl_pathc;
	m->inputs = ARENA_ARRAY(&m->arena, m->input_count, struct text);
	m->names = ARENA_ARRAY(&m->arena, m->input_count, struct text);
	for (size_t i = 0; i < m->input_count; i++) {
		m->names[i] = arena_text(&m->arena, text_of(found.gl_pathv[i]));
		m->inputs[i] = file_of(&m->arena, found.gl_pathv[i]);
		CHECK(m->inputs[i].size <= MUTATION_BYTES_MAX);
	}
	globfree(&found);
}

static int hex_digit(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* One line of libFuzzer's dictionaries: "word", with \\ \" and \xAB. */
static bool word_read(struct text line, struct text *ret_word, struct arena *arena)
{
	const char *open = line.size && line.data[0] == '"' ? line.data : NULL;
	if (!open)
		return false;
	char *out = arena_alloc(arena, line.size);
	size_t size = 0, i = 1;
	for (; i < line.size && line.data[i] != '"'; i++) {
		char c = line.data[i];
		if (c == '\\' && i + 3 < line.size && line.data[i + 1] == 'x') {
			c = (char)(hex_digit(line.data[i + 2]) << 4 | hex_digit(line.data[i + 3]));
			i += 3;
		} else if (c == '\\' && i + 1 < line.size) {
			c = line.data[++i];
		}
		out[size++] = c;
	}
	*ret_word = (struct text){out, size};
	return size > 0;
}

static void words_read(struct mutator *m, const char *name)
{
	char path[200];
	glob_t found = {0};
	snprintf(path, sizeof path, "tests/fuzz/%s.dict", name);
	if (glob(path, 0, NULL, &found) != 0)
		return;
	globfree(&found);
	m->words = ARENA_ARRAY(&m->arena, WORDS_MAX, struct text);
	struct text rest = file_of(&m->arena, path);
	while (rest.size) {
		const char *end = memchr(rest.data, '\n', rest.size);
		struct text line = {rest.data, end ? (size_t)(end - rest.data) : rest.size};
		if (word_read(line, &m->words[m->word_count], &m->arena))
			m->word_count++;
		CHECK(m->word_count < WORDS_MAX);
		rest.data += line.size + (end != NULL);
		rest.size -= line.size + (end != NULL);
	}
}

void mutator_init(struct mutator *m, const char *name, uint64_t seed)
{
	*m = (struct mutator){.random = seed};
	arena_init(&m->arena, 64 * 1024);
	inputs_read(m, name);
	words_read(m, name);
}

void mutator_done(struct mutator *m)
{
	arena_done(&m->arena);
}

/* --- edits -------------------------------------------------------------------------------------------------------- */

struct draft {
	char *bytes;
	size_t size;
};

/* Puts `with` in the place of `gone` bytes at `at`, if there is room. */
static void replace(struct draft *d, size_t at, size_t gone, struct text with)
{
	if (d->size - gone + with.size > MUTATION_BYTES_MAX)
		return;
	memmove(d->bytes + at + with.size, d->bytes + at + gone, d->size - at - gone);
	if (with.size)
		memcpy(d->bytes + at, with.data, with.size);
	d->size += with.size - gone;
}

static struct text some_word(struct mutator *m)
{
	static const struct text always[] = {
		{"", 1},     {"\r\n", 2},         {"\n", 1},       {"\"", 1},        {"\\", 1},
		{"%", 1},    {"%00", 3},          {"\xc3\xa9", 2}, {"e\xcc\x81", 3}, {"\xe2\x80\xa8", 3},
		{"\xff", 1}, {"\xed\xa0\x80", 3}, {"\xc0\x80", 2}, {" ", 1},         {"\xe2\x80\x8b", 3},
		{"\x7f", 1}, {"\xc2\x85", 2},
	};
	size_t constant = sizeof always / sizeof always[0];
	size_t i = below(m, m->word_count ? m->word_count * 2 : constant);
	return i < m->word_count ? m->words[i] : always[i % constant];
}

/* Another number in the place of one. */
static void renumber(struct mutator *m, struct draft *d)
{
	static const char *const numbers[] = {"0",
	                                      "1",
	                                      "-1",
	                                      "00",
	                                      "1.0",
	                                      "1e0",
	                                      "255",
	                                      "256",
	                                      "500",
	                                      "501",
	                                      "1000",
	                                      "1001",
	                                      "86400",
	                                      "86401",
	                                      "1000000000",
	                                      "1000000001",
	                                      "1000000000000000",
	                                      "1000000000000001",
	                                      "9007199254740993",
	                                      "9223372036854775807",
	                                      "9223372036854775808",
	                                      "-9223372036854775808",
	                                      "99999999999999999999999"};
	size_t from = below(m, d->size), count = 0;
	while (from < d->size && (d->bytes[from] < '0' || d->bytes[from] > '9'))
		from++;
	while (from + count < d->size && d->bytes[from + count] >= '0' && d->bytes[from + count] <= '9')
		count++;
	if (count)
		replace(d, from, count, text_of(numbers[below(m, sizeof numbers / sizeof numbers[0])]));
}

/* The front of this input and the rest of another. */
static void splice(struct mutator *m, struct draft *d)
{
	struct text other = m->inputs[below(m, m->input_count)];
	size_t from = below(m, other.size + 1), at = below(m, d->size + 1);
	replace(d, at, d->size - at, (struct text){other.data + from, other.size - from});
}

/* A run of bytes goes, or comes twice. */
static void move_run(struct mutator *m, struct draft *d, size_t at, bool twice)
{
	char copy[RUN_MAX];
	size_t size = 1 + below(m, RUN_MAX);
	if (size > d->size - at)
		size = d->size - at;
	memcpy(copy, d->bytes + at, size);
	replace(d, at, twice ? 0 : size, (struct text){copy, twice ? size : 0});
}

static void edit(struct mutator *m, struct draft *d)
{
	size_t at = d->size ? below(m, d->size) : 0;
	size_t way = d->size ? below(m, 10) : 0;
	struct text word = some_word(m);
	char byte = (char)draw(m);
	switch (way) {
	case 0:
	case 1:
		replace(d, at, 0, word);
		break;
	case 2:
		replace(d, at, word.size < d->size - at ? word.size : d->size - at, word);
		break;
	case 3:
		d->bytes[at] ^= (char)(1 << below(m, 8));
		break;
	case 4:
		d->bytes[at] = byte;
		break;
	case 5:
		replace(d, at, 0, (struct text){&byte, 1});
		break;
	case 6:
		move_run(m, d, at, false);
		break;
	case 7:
		move_run(m, d, at, true);
		break;
	case 8:
		renumber(m, d);
		break;
	default:
		splice(m, d);
		break;
	}
}

size_t mutator_next(struct mutator *m, char out[MUTATION_BYTES_MAX])
{
	struct text input = m->inputs[below(m, m->input_count)];
	struct draft draft = {out, input.size};
	memcpy(out, input.data, input.size);
	for (size_t edits = 1 + below(m, EDITS_MAX); edits; edits--)
		edit(m, &draft);
	return draft.size;
}
