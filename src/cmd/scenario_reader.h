/* A file being read: what scenario_file.c (declarations, permutations) and scenario_line.c (words, verbs, blocks) share;
 * nobody else includes it.
 *
 * The text is a copy in the scenario's arena and is cut up where it lies: words and lines point into it and live as long
 * as the scenario. Thread: the reader's.
 */
#ifndef CMD_SCENARIO_READER_H
#define CMD_SCENARIO_READER_H

#include "cmd/scenario.h"

struct scenario_reader {
	struct scenario *s;
	const struct scenario_bench *bench;
	char *next;     /* what is not read yet */
	int number;     /* of the line last taken */
	size_t session; /* whose steps are being declared */
	bool all;       /* `permutations all` */
	char *why;
};

/* "FILE:LINE: …" into r->why; returns false. */
bool reader_wrong(struct scenario_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next line that says something, trimmed; NULL at the end. The first comment gives the title. */
char *reader_take_line(struct scenario_reader *r);
/* A line that a session carries out: its verb is known, its words are not looked at yet. */
bool reader_parse_line(struct scenario_reader *r, char *text, struct scenario_line *ret);
/* Behind "step NAME", "setup" or "finally": "{ line }" or "{", lines, "}". */
bool reader_parse_block(struct scenario_reader *r, char *text, struct scenario_block *ret);

/* Blanks off both ends. */
char *word_trim(char *text);
/* Cuts the first word off. */
char *word_cut(char **text);
/* Of a session, a step, an instance, a sync point: small letters, digits, "-". */
bool word_is_name(const char *word);

#endif
