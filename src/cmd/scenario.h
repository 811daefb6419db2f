/* Scenarios: races as readable text, played against running instances. tests/spec/README.md teaches the language.
 *
 *	scenario_file.c    text -> struct scenario; every line is checked before anything is touched
 *	scenario_line.c    its lines: words, verbs, blocks
 *	scenario_run.c     one permutation after the other: sessions, steps, errands in the background, the narration
 *	scenario_words.c   what all verbs read their words with
 *	scenario_http.c    what a client does: sell, reserve, commit, see …
 *	scenario_look.c    what an operator sees: row, ledger, cell, epoch; raw SQL and raw Redis
 *	scenario_books.c   behind a permutation: does every SKU add up? in a shop: its end
 *	scenario.c         `lastunit scenario`
 *
 * The language is a table of verbs. Tests that own servers add verbs of theirs (struct scenario_bench): kill, hold a
 * message, stop at a sync point. Thread: a run belongs to one thread; only errands have threads of their own, each with
 * the connections of its session, which nobody else touches meanwhile.
 */
#ifndef CMD_SCENARIO_H
#define CMD_SCENARIO_H

#include <jansson.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "cache/cell.h"
#include "cmd/http_caller.h"
#include "store/pg.h"

#define SCENARIO_SKUS_MAX 128
#define SCENARIO_SESSIONS_MAX 12
#define SCENARIO_INSTANCES_MAX 3
#define SCENARIO_STEPS_MAX 64
#define SCENARIO_ORDERS_MAX 1000 /* permutations of one file */
#define SCENARIO_CHANNELS 7      /* enum channel: web … pos, then admin */
#define SCENARIO_WHY_BYTES 1024

struct scenario_call;

struct scenario_verb {
	const char *name;
	const char *usage; /* for --help: "sell CART [key WORD]" */
	unsigned needs;    /* enum scenario_needs */
	/* Reads call->action behind the verb and, unless call->only_check, does it. False: scenario_wrong() has said why. */
	bool (*run)(struct scenario_call *call);
};

enum scenario_needs {
	SCENARIO_SESSION = 1, /* uses the session's connections: not while its errand is under way */
	SCENARIO_SQL = 2,
	SCENARIO_REDIS = 4,
};

struct scenario_line {
	int number;           /* in the file */
	const char *text;     /* as written */
	const char *action;   /* behind the verb, without the expectation */
	const char *expected; /* behind "->", or NULL */
	const char *until;    /* the sync point behind "until", or NULL */
	int times;
	enum scenario_how { SCENARIO_NOW, SCENARIO_BEGIN, SCENARIO_WAIT, SCENARIO_END, SCENARIO_GO_ON } how;
	const struct scenario_verb *verb; /* NULL: SCENARIO_END, SCENARIO_GO_ON */
};

struct scenario_block {
	struct scenario_line *lines;
	size_t count;
};

struct scenario_step {
	const char *name; /* "": a line of the story */
	size_t session;
	struct scenario_block block;
};

struct scenario_order {
	size_t *steps;
	size_t count;
};

struct scenario_sku {
	const char *name; /* in the file */
	int64_t on_hand;
	bool tracked, made;
	char code[129]; /* in the shop; of the permutation that runs */
};

struct scenario_session {
	const char *name;
	size_t instance;
	int channel; /* enum channel */
	/* of the permutation that runs */
	struct http_caller *caller;
	char caller_url[64];
	struct pg *pg;
	struct redis *redis;
	char reservation[40], checkout[40]; /* the last it made */
	struct errand *errand;
	const char *point; /* where its errand stands still; NULL: nowhere */
};

struct scenario_instance {
	const char *name;
	const char *options; /* behind the name, for the bench; "" */
	char url[64];        /* "": it does not run */
};

struct scenario {
	const char *path, *name; /* name: of the file, without directory and ".spec" */
	const char *title;       /* the first line of its comment */
	const char *needs;       /* behind `needs`; NULL: it runs anywhere */
	unsigned uses;           /* enum scenario_needs of all its lines */
	struct scenario_sku skus[SCENARIO_SKUS_MAX];
	struct scenario_session sessions[SCENARIO_SESSIONS_MAX]; /* the first is `world` */
	struct scenario_instance instances[SCENARIO_INSTANCES_MAX];
	struct scenario_step steps[SCENARIO_STEPS_MAX];
	struct scenario_order *orders;
	struct scenario_block setup, finally;
	size_t sku_count, session_count, instance_count, step_count, order_count;
	struct arena arena;
};

/* What a test bench adds: verbs, servers of its own, sync points. All NULL in `lastunit scenario`. */
struct scenario_bench {
	const struct scenario_verb *verbs; /* ended by a NULL name */
	void *context;
	/* Before and after each permutation. False with a reason. */
	bool (*begin)(void *context, struct scenario *scenario, char why[SCENARIO_WHY_BYTES]);
	bool (*end)(void *context, struct scenario *scenario, char why[SCENARIO_WHY_BYTES]);
	/* Sync points: the next thread of this instance that comes there stands still · does one? · it goes on. */
	void (*stop_at)(void *context, size_t instance, const char *point);
	bool (*reached)(void *context, size_t instance, const char *point);
	void (*go_on)(void *context, size_t instance, const char *point);
};

struct scenario_options {
	const char *keys[SCENARIO_CHANNELS + 1]; /* by enum channel; NULL or "": none */
	const char *database_url;                /* NULL: no SQL */
	const struct redis_address *redis;       /* NULL: no raw Redis */
	const struct scenario_bench *bench;      /* NULL: a shop, where only our own SKUs may be touched */
	int64_t patience_ms;                     /* what is waited for comes by then, or the scenario has failed */
	const char *mark;                        /* in the name of every SKU: "scenario-MARK-…" */
};

struct scenario_run {
	const struct scenario_options *options;
	struct scenario *scenario;
	size_t order;
	unsigned long serial;    /* makes keys unique */
	struct buffer narration; /* of the permutation that runs, or failed */
	char why[SCENARIO_WHY_BYTES];
};

/* One line being carried out. */
struct scenario_call {
	struct scenario_run *run; /* NULL while the file is checked */
	struct scenario *scenario;
	struct scenario_session *session;
	const struct scenario_line *line;
	const char *at; /* cursor in line->action */
	bool only_check;
	struct buffer said; /* what was answered, for the narration */
	char why[SCENARIO_WHY_BYTES];
};

/* --- files and runs ----------------------------------------------------------------------------------------------- */

/* Reads and checks a file. NULL with a sentence ("FILE:LINE: …"). Free with scenario_free(). `bench` may be NULL; then
 * a file that needs one is read only as far as its title and its need. */
struct scenario *scenario_read(const char *path, const struct scenario_bench *bench, char ret_why[SCENARIO_WHY_BYTES]);
void scenario_free(struct scenario *scenario);
/* Plays every permutation. False: run.why says what was wrong in which, run.narration what had happened until then.
 * The SKUs are left at 0 unless there is a bench, whose database is thrown away. */
bool scenario_play(struct scenario_run *run);
void scenario_run_done(struct scenario_run *run);
/* Every verb of the language with its usage, for --help. */
void scenario_print_verbs(FILE *out);

extern const struct scenario_verb scenario_http_verbs[], scenario_look_verbs[];

/* --- for verbs ---------------------------------------------------------------------------------------------------- */

/* Sets call->why and returns false. */
bool scenario_wrong(struct scenario_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next word, "" at the end; in a ring of eight per thread. */
const char *scenario_word(struct scenario_call *call);
/* Takes this word if it comes next. */
bool scenario_take(struct scenario_call *call, const char *word);
/* True at the end of the action; else wrong, "X is more than `VERB` takes". */
bool scenario_end(struct scenario_call *call);
/* The rest of the action, blanks trimmed. */
const char *scenario_rest(struct scenario_call *call);
/* An integer; false when the next word is none. */
bool scenario_int(struct scenario_call *call, int64_t *ret_value);
/* The SKU, session or instance of that name; NULL and wrong when there is none. */
struct scenario_sku *scenario_sku(struct scenario_call *call, const char *name);
struct scenario_session *scenario_session(struct scenario_call *call, const char *name);
struct scenario_instance *scenario_instance(struct scenario_call *call, const char *name);
/* Is an errand of its under way? */
bool scenario_is_waiting(const struct scenario_session *session);
/* `text` with {LAMP}, {cell LAMP}, {namespace}, {reservation WHO} and {checkout WHO} replaced, in the buffer, NUL behind.
 * While checking only the names are. */
bool scenario_expand(struct scenario_call *call, const char *text, struct buffer *out);
/* Does any of the alternatives "A or B or C" equal `seen`? */
bool scenario_matches(const char *alternatives, const char *seen);
/* One call of the session's instance with its key; status 0: no answer. *ret_answer is the session's until its next
 * call. */
void scenario_http(struct scenario_call *call, const char *method, const char *path, struct text body,
                   const char *idempotency_key, struct http_answer *ret_answer);
/* Its body, to be json_decref()ed; NULL: it is no JSON. A member of it: "" or INT64_MIN where there is
 * none of that type. */
json_t *scenario_answer_json(const struct http_answer *answer);
const char *scenario_string_of(const json_t *object, const char *name);
int64_t scenario_int_of(const json_t *object, const char *name);
/* One statement; its first value (NULL: none) in *ret_value, or the SQLSTATE in ret_sqlstate ("" is success). The text
 * is added to call->said. False: no connection. */
bool scenario_sql(struct scenario_call *call, const char *sql, const char **ret_value, char ret_sqlstate[6]);
/* One command as a list of words; its reply as text in *ret (an error as "-…"). */
bool scenario_redis(struct scenario_call *call, int argc, const struct text *argv, struct buffer *ret);
/* After each permutation: every SKU adds up. */
bool scenario_books(struct scenario_call *call);
/* In a shop: every hold released, every SKU at 0. */
void scenario_tidy(struct scenario_call *call);

#endif
