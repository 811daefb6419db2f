/* The coherence protocol (lua/README.md, rules C1 to C10) as a model that spin searches exhaustively.
 *
 * One SKU. PostgreSQL is a version under a row lock; Redis is one cell for each namespace. Writers, instances that
 * read, their loaders, the keepers of the epoch, a stranger who writes straight in SQL, and everything that can go
 * wrong are processes. What nobody can come in between is a `step`; between two steps anything may happen.
 *
 * Property P2, asserted wherever a read is answered (`read_ends`): the version is not older than one acknowledged
 * before the read began, nor than one returned by a read that had ended before it began.
 *
 * The numbers below are bounds; every BREAK_… takes one rule of the protocol away. model_test.sh lists what is
 * searched, README.md says what that shows. Each step tells what it does, so that a counterexample is a story.
 */

/* --- bounds ------------------------------------------------------------------------------------------------------- */

#ifndef NAMESPACES
#define NAMESPACES 1     /* epochs: 1 to 3 */
#endif
#ifndef SALES_1
#define SALES_1 1        /* sales of writer 1, each makes a version */
#endif
#ifndef SALES_2
#define SALES_2 1        /* sales of writer 2 */
#endif
#ifndef INSTANCES
#define INSTANCES 2      /* that read, as often as they like, each with a lease, an event loop and a loader: 1 or 2 */
#endif
#ifndef BATCH
#define BATCH 1          /* versions that a COMMIT makes at most: 1 or 2 */
#endif
#ifndef REFRESHES
#define REFRESHES 0      /* healing refreshes, by any writer */
#endif
#ifndef REPLAYS
#define REPLAYS 0        /* stored answers given again, by any writer, even while the first is still at work */
#endif
#ifndef DIRECTS
#define DIRECTS 0        /* writes straight in SQL: 0 or 1 */
#endif
#ifndef SCRUBS
#define SCRUBS 0         /* values taken away by the scrub */
#endif
#ifndef FAILURES
#define FAILURES 0       /* calls to Redis that come to nothing */
#endif
#ifndef LATE
#define LATE 0           /* intends whose sender gives up while they are still on their way */
#endif
#ifndef CRASHES
#define CRASHES 0        /* writers that die, before or after COMMIT, leaving a marker; their client tries again */
#endif
#ifndef CLOSES
#define CLOSES 0         /* epochs closed by a third party for reasons of its own */
#endif
#ifndef RESTARTS
#define RESTARTS 0       /* 1: Redis may start again from an old dump */
#endif
/* EVICT_MARKERS       markers may be evicted, not only values and tickets: an `allkeys-*` policy
 * ONLY_ACKNOWLEDGED   checks the first half of P2 only; under EVICT_MARKERS the second does not hold
 * LEASES_COME_AND_GO  leases end and begin while the epoch is open, too (see `leases_granted`)
 * READS_IN_STEPS      a hit is three steps and not one (see `Reader`)
 * LEASE_LOOKED_AT_ONCE  only when Redis is asked, not when the reply comes
 * MILESTONES          pan says what it has reached: a model in which nothing ever happens would pass, too */

/* --- state ---------------------------------------------------------------------------------------------------------- */

#define step d_step
#define NOBODY 0

/* PostgreSQL */
byte version;                    /* of the SKU, as committed */
byte row;                        /* who has the SKU's row lock: a writer or NOBODY */
byte in_flight;                  /* transactions that hold the epoch's advisory lock, shared */
#define OPEN 1
#define CLOSING 2
#define CLOSED 3
byte epoch = OPEN;               /* the epoch row: its state … */
byte current;                    /* … and its namespace, 0, 1, 2: every epoch has a new one */
byte direct;                     /* a stranger's version that the relay has not dealt with yet; 0: none */

/* Redis */
#define ABSENT 0
#define F 1                      /* a fill ticket; owner: the loader that was given it */
#define I 2                      /* a marker; owner: the writer whose attempt's token it bears; version: the intended */
#define V 3                      /* a value of this version */
typedef cell_t { byte kind; byte owner; byte version }
cell_t cell[NAMESPACES];
byte guard[NAMESPACES];          /* the Redis that this namespace was opened on; 0: no guard */
byte identity = 1;               /* which Redis this is: run_id, role, replication id */

/* An intend on its way, given up by its sender */
bit late;
byte late_ns, late_owner, late_version;

/* The instances */
byte lease[2];                   /* 1 + the namespace whose hits it may serve; 0: none */
byte least[2];                   /* what the read under way must at least return */
#ifdef BREAK_JOIN
byte selected;                   /* the loader whose SELECT has run and whose answer is not given yet; 0: none */
bit joined[2];                   /* the read under way shares it */
#endif

/* The newest version that somebody outside knows: acknowledged, or returned by a read that has ended */
byte known;

/* What may still happen */
byte refreshes = REFRESHES, replays = REPLAYS, failures = FAILURES, lates = LATE, crashes = CRASHES, closes = CLOSES;

/* --- words ---------------------------------------------------------------------------------------------------------- */

#define NEWER(a, b) ((a) > (b) -> (a) : (b))
#define PAST(ns) (current != (ns) || epoch == CLOSED)          /* nobody will ever again serve a hit of it */
/* A direct write may be seen before it counts, but only for as long as the relay needs. Ours count once seen. */
#define COUNTS(v) ((direct > 0 && (v) == direct) -> (v) - 1 : (v))
#define CELL_IS(ns, k, o) (cell[ns].kind == (k) && cell[ns].owner == (o))
#ifdef BREAK_NO_GUARD
#define FENCED(ns) false
#else
#define FENCED(ns) (guard[ns] != identity)
#endif

byte each;                       /* counts within a step; 0 between steps */

#ifdef MILESTONES
c_decl {
	static void milestone(const char *words)
	{
		static const char *said[64];
		int i = 0;
		while (said[i] && strcmp(said[i], words))
			i++;
		if (!said[i]) {
			said[i] = words;
			printf("reached: %s\n", words);
		}
	}
}
#define REACHED(words) c_code { milestone(words); }
#else
#define REACHED(words) skip
#endif

/* --- the actors ----------------------------------------------------------------------------------------------------- */

#include "scripts.pml"
#include "epoch.pml"
#include "writer.pml"
#include "reader.pml"
#include "others.pml"

init {
	atomic {
		guard[0] = 1;
		cell_set(0, V, NOBODY, 0);
		leases_granted();
		run Writer(1, SALES_1);
		if
		:: SALES_2 > 0 || REFRESHES > 0 || REPLAYS > 0 -> run Writer(2, SALES_2)
		:: else
		fi;
		run Reader(0);
		run Loader(0);
		if
		:: INSTANCES > 1 -> run Reader(1); run Loader(1)
		:: else
		fi;
		if
		:: DIRECTS > 0 -> run Stranger(); run Relay()
		:: else
		fi;
		if
		:: SCRUBS > 0 -> run Scrub()
		:: else
		fi;
		run Keeper();
		run Faults()
	}
}
