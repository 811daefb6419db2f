/* `lastunit race`: every textbook answer to the lost update, on the user's own PostgreSQL, beside ours.
 *
 *	race.c            the command: options, order of the parts, verdict
 *	race_scratch.c    where it all happens: a schema of a random name, dropped at the end whatever happens
 *	race_service.c    a `lastunit serve` to race against: the one at --url, or a child on a scratch database
 *	race_strategy.c   the table of strategies, and what one attempt to buy is
 *	race_timeline.c   two buyers, one unit, step by step
 *	race_run.c        many buyers on many units, measured and judged
 *	race_caches.c     cache controls;  race_drift.c  holds with and without a TTL
 *	race_print.c      the tables;  race_html.c  the report;  race_json.c  the same for programs
 *	race_file.c       files, whole or not at all
 *
 * Every part fills its array of struct race and leaves the rest alone. A part returns false when it could not go on (a
 * backend is gone), with a sentence in race->why; that a strategy oversells is a result, not a failure.
 * Threads: the parts run one after the other on the main thread, and join all threads of theirs. race_stopping() may be
 * asked by any thread.
 */
#ifndef CMD_RACE_H
#define CMD_RACE_H

#include <sys/types.h>

#include "base/arena.h"
#include "cmd/cmd.h"
#include "cmd/progress.h"

struct race_options {
	const char *database_url; /* required */
	const char *redis_url;    /* "": caches are not raced */
	int64_t redis_timeout_ms;
	const char *url, *key;           /* of a running service to race against; "": one of our own */
	int64_t buyers_max;              /* the sweep's greatest number of buyers */
	int64_t run_ms;                  /* how long each strategy sells at each point of the sweep */
	int64_t seed;                    /* of the carts that are drawn; the same seed draws the same */
	const char *strategy, *workload; /* only this one; "": all */
	const char *html;                /* file to write the report to; "": none */
	const char *svg;                 /* directory to write two plots for a README to; "": none */
	bool json;
	bool timeline; /* false: it is left out */
	bool caches;   /* false: neither caches nor drift */
};

/* --- the place ---------------------------------------------------------------------------------------------------- */

/* A schema of a random name in the user's database; a comment on it says who made it, so that one of a dead run is
 * recognised. Everything that is not lastunit's own lies in it. */
struct race_scratch {
	struct pg *owner;    /* made it, drops it, and holds the lock that says it is alive; main thread */
	char schema[40];     /* "lastunit_race_1f0a…": letters, digits and underscores; "": none */
	char leftovers[512]; /* the statements that drop what runs that died have left; "": nothing */
};

/* The `lastunit serve` that is raced against. */
struct race_service {
	bool there;
	char why_not[512]; /* a sentence, when it is not there; "": nobody asked for it */
	bool refused;      /* it does not take --key */
	bool own;          /* a child of ours on a scratch database, on redis_url if one was given */
	pid_t pid;         /* own: of the child; 0: none */
	char url[300], key[201];
	char database[40];       /* own: the scratch database */
	char database_url[2000]; /* own: its owner's */
};

/* --- the exact timeline ------------------------------------------------------------------------------------------- */

#define RACE_STEPS 6 /* 0, 40, 180, 220, 310 and 350 ms: look, look, decide and write, the same, end, end */

struct race_step {
	int at_ms;      /* when it was due */
	char buyer;     /* 'A' or 'B' */
	char said[120]; /* "reads 1", "waits for A", "sold", "0 rows: sold out" */
};

struct race_timeline {
	const char *strategy; /* static */
	struct race_step steps[RACE_STEPS];
	int sold;        /* of one unit (unordered: two carts of two SKUs with two units each) */
	int64_t on_hand; /* what the stock row says at the end */
	int lost;        /* units sold that the stock row does not miss */
	int deadlocks;
	bool must_hold, holds; /* holds: nothing oversold, nothing lost, no deadlock */
};

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

/* One strategy × workload × number of buyers. */
struct race_result {
	const char *strategy, *workload; /* static */
	int buyers;
	bool must_hold;   /* false: a control, which is there to fail */
	int64_t sold;     /* carts answered as sold */
	int64_t oversold; /* units sold beyond what there was, by the answers and by the rows of sales, whichever is more */
	int64_t lost;     /* units sold by the rows of sales that the stock row does not miss, and answers without a row */
	int64_t refused;  /* carts told that it is sold out */
	int64_t retries;  /* attempts beyond the first */
	int64_t deadlocks;
	double p50_ms, p99_ms; /* of carts sold, retries included */
	double sales_per_s;    /* carts */
	bool correct;          /* oversold == lost == 0; for `unordered` also deadlocks == 0 */
};

/* --- caches and drift --------------------------------------------------------------------------------------------- */

#define RACE_CACHE_STEPS_MAX 8

/* One step of the interleaving that shows a cache's fault: one unit, sold once, and looked at. */
struct race_cache_step {
	const char *who; /* static: "till", "page", "bot" … */
	char said[120];  /* "looks: not cached, PostgreSQL says 1" */
	bool wrong;      /* it shows, or sells, what is gone */
};

/* One way to keep a cache in front of the stock, read while it is sold. */
struct race_cache {
	const char *name; /* static: "ttl-only", "del-before-commit", "del-after-commit", "lagging-copy", "channel-counter",
	                      "lastunit" */
	const char *does; /* static, one sentence */
	bool must_hold;   /* false: a control */
	bool raced;       /* false: why_not says why there are no figures */
	char why_not[200]; /* a sentence */
	/* First exactly, step by step; any step `wrong`: it cannot be trusted, however rarely the load meets it. */
	struct race_cache_step steps[RACE_CACHE_STEPS_MAX];
	size_t step_count;
	/* Then under a short random load. */
	int64_t writes; /* sales answered */
	int64_t reads;
	int64_t stale;         /* reads that showed an older figure than one answered before they began */
	int64_t gone_back;     /* reads that showed an older figure than a read which had ended before they began */
	int64_t oversold;      /* units sold beyond what there was, steps and load together */
	double stale_ms_max;   /* how long after that answer the oldest of them was still shown */
	double p50_ms, p99_ms; /* of a read */
};

/* Holds that nobody ends, 30 % of all, with and without a TTL: what is left to sell drifts from what is there. */
struct race_drift_point {
	double at_s;            /* since the start, by the shop's own clock: an hour is played in a second */
	int64_t held_by_nobody; /* units under holds whose buyer has gone */
	int64_t available;      /* what the shop says it can sell */
	int64_t sold;
};

struct race_drift {
	const char *name;                /* static: "without TTL", "with TTL" */
	struct race_drift_point *points; /* in race->arena */
	size_t count;
	int64_t units;  /* there were at the start */
	int64_t unsold; /* at the end, under holds that nobody will ever end */
};

/* --- the whole ---------------------------------------------------------------------------------------------------- */

struct race {
	struct race_options options;
	struct arena arena; /* lives as long as the race; the main thread's */
	struct race_scratch scratch;
	struct race_service service;
	struct progress progress;
	struct race_timeline *timelines;
	size_t timeline_count;
	struct race_result *results;
	size_t result_count;
	struct race_cache *caches;
	size_t cache_count;
	struct race_drift *drifts;
	size_t drift_count;
	char postgres[120]; /* "PostgreSQL 15.14, fsync on, synchronous_commit on" */
	char why[512];      /* why a part could not go on */
};

/* SIGINT, SIGTERM or SIGHUP came: every loop ends soon, and what was made is dropped. */
bool race_stopping(void);

/* A session of its own in the scratch schema (search_path; READ COMMITTED unless BEGIN says otherwise), deadlined like all
 * of ours. NULL with a sentence. The first: main thread, race->why. The second: any thread. */
struct pg *race_session(struct race *race) LU_MUST_CHECK;
struct pg *race_session_open(const struct race *race, char why[512]) LU_MUST_CHECK;

bool race_timelines_run(struct race *race) LU_MUST_CHECK;
bool race_sweep_run(struct race *race) LU_MUST_CHECK;
/* Appends to race->caches; race->options.redis_url may be "": then each is there with raced = false. */
bool race_caches_run(struct race *race) LU_MUST_CHECK;
bool race_drift_run(struct race *race) LU_MUST_CHECK;

/* The row with the most sales per second that must hold and did, at this workload and number of buyers; NULL: none. */
const struct race_result *race_cheapest(const struct race *race, const char *workload, int buyers);
/* Nothing stale, nothing gone back, nothing oversold, no step wrong. */
bool race_cache_holds(const struct race_cache *cache);
/* Did all that must hold, hold? In the timeline, where every control must fail, in the sweep and in the caches. */
bool race_holds(const struct race *race);
/* Was anything raced that must hold? If not, race_holds() is no praise: there were only controls. */
bool race_has_promise(const struct race *race);
/* One sentence about a strategy, "one conditional UPDATE, the number of its rows tells"; NULL: no such strategy. */
const char *race_strategy_does(const char *strategy);
/* "atomic, pessimistic, …", for messages. */
#define RACE_STRATEGY_NAMES_BYTES 200
const char *race_strategy_names(char ret_names[RACE_STRATEGY_NAMES_BYTES]);

void race_print(const struct race *race, FILE *out);
/* Self-contained: no script, font or image from elsewhere. False with a sentence. */
bool race_html_write(const struct race *race, const char *path, char why[512]) LU_MUST_CHECK;
/* {"strategies": [{"strategy", "workload", "buyers", "sold", …, "sales_per_s"}], "caches": […], …} and a newline. */
void race_json_write(const struct race *race, FILE *out);

#endif
