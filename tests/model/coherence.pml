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
#define SCRUBS 0         /* cells removed by the scrub */
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

/* --- Redis: the scripts (lua/) ------------------------------------------------------------------------------------- */
/* `read` and `cas` are written where they are called. The fence is looked at by the callers, in the same step. */

inline cell_set(ns, k, o, v)
{
	cell[ns].kind = k;
	cell[ns].owner = o;
	cell[ns].version = v
}

inline intend(ns, who, v)
{
	if
	:: cell[ns].kind == F -> REACHED("intend: over a ticket")
	:: cell[ns].kind == I -> REACHED("intend: over another marker")
	:: else
	fi;
	cell_set(ns, I, who, v)
}

#ifdef BREAK_MARKER_WITHOUT_TOKEN
#define OWN_MARKER(ns, who) (cell[ns].kind == I)
#else
#define OWN_MARKER(ns, who) CELL_IS(ns, I, who)
#endif

inline publish(ns, who, v)
{
	if
	:: OWN_MARKER(ns, who) ->
		printf("      its marker is there: the cell is V v%d\n", v);
		REACHED("publish: own marker -> value");
		cell_set(ns, V, NOBODY, v)
#ifdef BREAK_PUBLISH_ALWAYS_SETS
	:: else ->
		printf("      its marker is gone: the cell is V v%d all the same\n", v);
		cell_set(ns, V, NOBODY, v)
#else
	:: cell[ns].kind == I && !OWN_MARKER(ns, who) ->
		printf("      another's marker is there and stays\n");
		REACHED("publish: another's marker stays")
	:: cell[ns].kind == V && cell[ns].version >= v ->
		printf("      V v%d is there and stays\n", cell[ns].version);
		REACHED("publish: a newer value stays")
	:: else ->
#ifdef BREAK_PUBLISH_LEAVES
		printf("      its marker is gone; what is there stays\n")
#else
		printf("      its marker is gone: the cell is deleted\n");
		REACHED("publish: marker lost, cell deleted");
		cell_set(ns, ABSENT, NOBODY, 0)
#endif
#endif
	fi
}

#ifdef BREAK_INVALIDATE_DELETES_ALL
#define DISOWNS(ns, v) (cell[ns].kind == I)
#elif defined(BREAK_INVALIDATE_LEAVES_MARKERS)
#define DISOWNS(ns, v) false
#else
#define DISOWNS(ns, v) (cell[ns].kind == I && cell[ns].version <= (v))
#endif

inline invalidate(ns, v)
{
	if
	:: cell[ns].kind == F || (cell[ns].kind == V && cell[ns].version < v) ->
		printf("      the cell is deleted\n");
		REACHED("invalidate: deleted");
		cell_set(ns, ABSENT, NOBODY, 0)
	:: DISOWNS(ns, v) ->
#if defined(BREAK_INVALIDATE_DELETES_ALL) || defined(BREAK_INVALIDATE_DELETES_MARKERS)
		printf("      the marker for v%d is deleted\n", cell[ns].version);
		cell_set(ns, ABSENT, NOBODY, 0)
#else
		/* Its writer has committed or never will, so it must not set a value here any more. But the marker stays:
		 * if it arrived late, it lies over the marker of a writer at work. */
		printf("      the marker for v%d is nobody's now\n", cell[ns].version);
		REACHED("invalidate: a marker is disowned");
		cell[ns].owner = NOBODY
#endif
	:: else ->
		printf("      nothing older is there\n");
		REACHED("invalidate: nothing to do")
	fi
}

/* An attempt has ended. Its token is never used again, so whatever bears it belongs to nobody. */
inline token_retire(who)
{
#ifndef BREAK_TOKEN_REUSED
	for (each : 0 .. NAMESPACES - 1) {
		if
		:: CELL_IS(each, I, who) -> cell[each].owner = NOBODY
		:: else
		fi
	}
	each = 0
#else
	skip
#endif
}

/* --- the epoch ------------------------------------------------------------------------------------------------------- */

#ifdef BREAK_SAME_NAMESPACE
#define NEXT_NAMESPACE 0
#else
#define NEXT_NAMESPACE (current + 1)
#endif
#ifdef BREAK_OPENER_DOES_NOT_WAIT
#define MAY_OPEN true
#else
#define MAY_OPEN (in_flight == 0)          /* the epoch's advisory lock, exclusive: it waits out the writers in flight */
#endif

inline epoch_close(ns)
{
	if
	:: epoch == OPEN && current == ns ->
#ifdef BREAK_TWO_STATES
		printf("      epoch %d: open -> closed\n", ns);
		epoch = CLOSED
#else
		printf("      epoch %d: open -> closing\n", ns);
		epoch = CLOSING
#endif
	:: else
	fi
}

/* Normally every instance has a lease while the epoch is open. That it may lack one then shows nothing new: what it
 * does without one, SELECT, any read may do (`Reader`), and what it does with one, it may as well do while it has it.
 * LEASES_COME_AND_GO checks this very sentence. */
inline leases_granted()
{
#ifdef LEASES_COME_AND_GO
	skip
#else
	lease[0] = current + 1;
	lease[1] = (INSTANCES > 1 -> current + 1 : 0)
#endif
}
#ifdef LEASES_COME_AND_GO
#define LEASES_MAY_END true
#else
#define LEASES_MAY_END (epoch != OPEN)
#endif

/* The keepers of all instances. Time is not modelled: a lease ends when it likes, and that L(1+rho) has passed since
 * `closing` was seen means that every lease granted before has ended. */
proctype Keeper()
{
	byte opened = 0;
	do
#ifdef LEASES_COME_AND_GO
	:: step {
		epoch == OPEN && lease[0] != current + 1 ->
		printf("keeper: instance 1 has a read lease of epoch %d\n", current);
		lease[0] = current + 1
	}
	:: step {
		epoch == OPEN && lease[1] != current + 1 && INSTANCES > 1 ->
		printf("keeper: instance 2 has a read lease of epoch %d\n", current);
		lease[1] = current + 1
	}
#endif
	:: step {
		lease[0] != 0 && LEASES_MAY_END ->
		printf("keeper: the read lease of instance 1 ends\n");
		lease[0] = 0
	}
	:: step {
		lease[1] != 0 && LEASES_MAY_END ->
		printf("keeper: the read lease of instance 2 ends\n");
		lease[1] = 0
	}
	:: step {
		epoch == OPEN && closes > 0 ->
		closes--;
		printf("keeper: a third party closes the epoch\n");
		REACHED("epoch: closed by a third party");
		epoch_close(current)
	}
	:: step {
		epoch == CLOSING && lease[0] != current + 1 && lease[1] != current + 1 ->
		printf("keeper: L has passed, epoch %d: closing -> closed\n", current);
		epoch = CLOSED
	}
	:: step {
		epoch == CLOSED && opened + 1 < NAMESPACES && MAY_OPEN ->
		opened++;
		current = NEXT_NAMESPACE;
		guard[current] = identity;
		epoch = OPEN;
		printf("keeper: Redis is well, epoch %d is opened\n", current);
		leases_granted();
		if
		:: opened == 1 -> REACHED("epoch: a second one is opened")
		:: else -> REACHED("epoch: a third one is opened")
		fi
	}
	od
}

/* --- the writers ------------------------------------------------------------------------------------------------------ */

#define STALE_MARKER (refreshes > 0 && epoch == OPEN && cell[current].kind == I)   /* seen for longer than 1 s */
#ifdef BREAK_GO_ON_WHILE_CLOSING
#define MAY_BEGIN true
#else
#define MAY_BEGIN (epoch != CLOSING)       /* who sees `closing` leaves, and is back when it is over */
#endif
#define KEY_KNOWN (made > 0 || work == REPLAY)
#define SALE 0
#define REFRESH 1
#define REPLAY 2
#ifdef BREAK_NO_MARKER
#define MARKS false
#else
#define MARKS open
#endif

inline transaction_begins()
{
	ns = current;
	open = (epoch == OPEN);
	in_flight++;
	if
	:: work == SALE -> printf("W%d: begins", me)
	:: work == REFRESH -> printf("W%d: begins a refresh", me)
	:: else -> printf("W%d: begins, with a key that is known", me)
	fi;
	if
	:: open -> printf("; epoch %d is open\n", ns)
	:: else -> printf("; no epoch is open, Redis is left alone\n")
	fi
}

inline row_taken(versions)
{
	row = me;
	mine = (work == REFRESH -> version : version + versions);
	printf("W%d: has the row lock, the row is at v%d\n", me, version)
}

inline transaction_ends()
{
	if
	:: row == me -> row = NOBODY
	:: else
	fi;
	in_flight--
}

/* Before COMMIT: the attempt is over, and nothing has happened. */
inline rollback()
{
	printf("W%d: ROLLBACK\n", me);
	transaction_ends();
	token_retire(me)
}

inline intend_is_late()
{
	lates--;
	late = 1;
	late_ns = ns;
	late_version = mine;
#ifdef BREAK_TOKEN_REUSED
	late_owner = me;
#endif
	printf("W%d: intend v%d for epoch %d is on its way, no answer\n", me, mine, ns)
}

inline operation_ends()
{
	token_retire(me);
	if
	:: work == SALE -> sales--
	:: else
	fi;
	ns = 0; open = 0; mine = 0; made = 0; work = SALE; unmarked_commit = 0
}

inline answered()
{
	if
	:: work == REFRESH
	:: work != REFRESH && (made > 0 || work == REPLAY) ->
		printf("W%d: v%d is acknowledged\n", me, made);
		known = NEWER(known, made)
	:: else ->
		printf("W%d: v%d is acknowledged\n", me, mine);
		known = NEWER(known, mine)
	fi;
	operation_ends()
}

proctype Writer(byte me; byte sales)
{
	byte ns;                 /* the namespace its transaction saw … */
	bit open;                /* … and whether it was open: then cells are marked and published */
	byte mine;               /* the version that this attempt makes */
	byte made;               /* the version that this sale made, in an attempt that died after COMMIT; 0: none */
	byte work;               /* SALE, REFRESH or REPLAY */
	bit unmarked_commit;     /* BREAK_CLOSE_IN_TRANSACTION */

	/* BEGIN; the epoch's advisory lock, shared; then, in a statement of its own, the epoch row. */
begin:
	if
	:: step {
		sales > 0 && MAY_BEGIN ->
		transaction_begins()
	}
	:: step {
		replays > 0 && made == 0 && COUNTS(version) > 0 && MAY_BEGIN ->
		replays--;
		work = REPLAY;
		transaction_begins()
	}
	:: step {
		made == 0 && STALE_MARKER ->
		refreshes--;
		work = REFRESH;
		transaction_begins();
		mine = version
	}
#ifdef BREAK_REFRESH_WITHOUT_LOCK
		goto mark
#endif
	fi;

	/* SELECT … FOR UPDATE; then, in statements of their own, what the lock protects: the stored answers too. */
	if
	:: step {
		row == NOBODY && KEY_KNOWN ->
		mine = version;
		if
		:: work == REPLAY -> made = COUNTS(version)
		:: else
		fi;
		printf("W%d: finds the stored answer, v%d; the row is at v%d; ROLLBACK\n", me, made, version);
		transaction_ends()
	}
		goto replay
	:: step {
		row == NOBODY && !KEY_KNOWN && !MARKS ->
		row_taken(1)
	}
		goto commit
	:: step {
		row == NOBODY && !KEY_KNOWN && MARKS ->
		row_taken(1)
	}
	:: step {
		row == NOBODY && !KEY_KNOWN && MARKS && BATCH > 1 && work == SALE ->
		row_taken(2)
	}
	fi;

mark:
	if
	:: step {
		!FENCED(ns) ->
		printf("W%d: intend: the cell of epoch %d is its marker for v%d\n", me, ns, mine);
		intend(ns, me, mine)
	}
	:: step {
		FENCED(ns) ->
		printf("W%d: intend is fenced\n", me);
		REACHED("intend: fenced")
	}
		goto unmarked
	:: step {
		failures > 0 ->
		failures--;
		printf("W%d: intend fails\n", me)
	}
		goto unmarked
	:: step {                /* Redis does not answer in time */
		lates > 0 ->
		intend_is_late()
	}
		goto unmarked
	:: step {                /* PostgreSQL fails meanwhile: the epoch is not closed */
		lates > 0 ->
		intend_is_late();
		rollback()
	}
		goto again
	fi;

commit:
	if
	:: step {
		work == SALE && !unmarked_commit ->
		version = mine;
		printf("W%d: COMMIT of v%d\n", me, mine);
		transaction_ends()
	}
#ifdef BREAK_CLOSE_IN_TRANSACTION
	:: step {
		unmarked_commit ->
		version = mine;
		printf("W%d: COMMIT of v%d, with the epoch closing\n", me, mine);
		transaction_ends();
		epoch_close(ns)
	}
		goto close_and_answer
#endif
	:: step {
		work == REFRESH ->
		printf("W%d: ROLLBACK: a refresh changes nothing\n", me);
		transaction_ends()
	}
	:: step {
		crashes > 0 && work == SALE && open ->
		crashes--;
		printf("W%d: dies before COMMIT\n", me);
		REACHED("crash: before COMMIT");
		rollback()
	}
		goto begin
	fi;

#ifdef BREAK_ACKNOWLEDGE_FIRST
	step {
		if
		:: work == REFRESH
		:: else -> known = NEWER(known, mine); printf("W%d: v%d is acknowledged\n", me, mine)
		fi
	}
#endif
	if
	:: step {
		!open ->
		answered()
	}
		goto begin
	:: step {
		open && !FENCED(ns) ->
		printf("W%d: publish v%d in epoch %d\n", me, mine, ns);
		if
		:: work == REFRESH && CELL_IS(ns, I, me) -> REACHED("refresh: a marker is healed")
		:: else
		fi;
		publish(ns, me, mine);
		answered()
	}
		goto begin
	:: step {
		open && FENCED(ns) ->
		printf("W%d: publish is fenced\n", me);
		REACHED("publish: fenced")
	}
		goto close_and_answer
	:: step {
		open && failures > 0 ->
		failures--;
		printf("W%d: publish fails\n", me);
		REACHED("publish: fails")
	}
		goto close_and_answer
	:: step {
		open && crashes > 0 && work == SALE ->
		crashes--;
		printf("W%d: dies after COMMIT, before publish\n", me);
		made = mine;
		token_retire(me)
	}
		goto begin
	fi;

	/* The key was known. Whoever made that sale may have died before publishing it. */
replay:
	if
#ifdef BREAK_REPLAY_TRUSTS
	:: step {
		true ->
#else
	:: step {
		!open ->
#endif
		answered()
	}
		goto begin
	:: step {
		open && !FENCED(ns) ->
		printf("W%d: invalidate v%d in epoch %d\n", me, mine, ns);
		REACHED("replay: invalidates first");
		invalidate(ns, mine);
		answered()
	}
		goto begin
	:: step {
		open && FENCED(ns) ->
		printf("W%d: invalidate is fenced\n", me)
	}
		goto close_and_answer
	:: step {
		open && failures > 0 ->
		failures--;
		printf("W%d: invalidate fails\n", me)
	}
		goto close_and_answer
	fi;

	/* No marker: nothing may be committed. ROLLBACK, close, wait, begin again. */
unmarked:
#ifdef BREAK_COMMIT_UNMARKED
	goto commit;
#endif
#ifdef BREAK_CLOSE_IN_TRANSACTION
	if
	:: step {
		work == SALE ->
		unmarked_commit = 1
	}
	fi;
	goto commit;
#endif
	if
	:: step {
		true ->
		rollback()
	}
	fi;
	step {
		printf("W%d: wants epoch %d closed\n", me, ns);
		epoch_close(ns)
	}
	PAST(ns);
again:
	if
	:: step {
		work == REFRESH ->
		operation_ends()
	}
	:: work == SALE
	fi;
	goto begin;

	/* It is committed, and the cell may hold anything: nobody may serve it any more when the answer is given. */
close_and_answer:
#ifdef BREAK_GO_ON_WHILE_CLOSING
	if
	:: step {
		epoch == CLOSING && current == ns ->
		printf("W%d: somebody else closes the epoch already\n", me);
		answered()
	}
		goto begin
	:: !(epoch == CLOSING && current == ns)
	fi;
#endif
	if
	:: step {
		true ->
		printf("W%d: wants epoch %d closed\n", me, ns);
		epoch_close(ns)
	}
	fi;
	step {
		PAST(ns) ->
		answered()
	}
	goto begin
}

/* --- the instances that read ----------------------------------------------------------------------------------------- */

inline is_seen(v)
{
#ifdef ONLY_ACKNOWLEDGED
	skip
#else
	known = NEWER(known, COUNTS(v))
#endif
}

inline read_begins(who)
{
	least[who] = known
}

/* P2 */
inline read_ends(who, v)
{
	if
	:: v < least[who] -> printf("R%d: answers v%d !!! When this read began, v%d was known\n", who + 1, v, least[who])
	:: else -> printf("R%d: answers v%d\n", who + 1, v)
	fi;
	assert(v >= least[who]);
	is_seen(v);
	least[who] = 0
}

/* The event loop of an instance: hits, and the reads that are answered by a SELECT without a ticket.
 *
 * Normally a hit is one step, the instant at which Redis runs `read`: a read that began earlier has to return less, and
 * an answer that is given later tells the world later. READS_IN_STEPS checks this very sentence. */
#ifdef READS_IN_STEPS
#define OTHERS_COME_IN }; step {
#else
#define OTHERS_COME_IN ;
#endif

proctype Reader(byte me)
{
	byte asked;              /* 1 + the namespace that is asked; 0: the read has been answered */
	byte found;              /* the version found there */

idle:
	if
	:: step {
		lease[me] != 0 ->
		asked = lease[me];
#ifdef BREAK_LEASE_LOOKED_AT_BEFORE
		printf("R%d: looks at its lease, of epoch %d\n", me + 1, asked - 1)
		OTHERS_COME_IN
#endif
		printf("R%d: a read begins; v%d is known\n", me + 1, known);
		read_begins(me)
		OTHERS_COME_IN
		if
		:: FENCED(asked - 1) ->
			printf("R%d: its call is fenced; SELECT\n", me + 1);
			REACHED("read: fenced");
			epoch_close(asked - 1);
			read_ends(me, version);
			asked = 0
		:: !FENCED(asked - 1) && cell[asked - 1].kind == V ->
			found = cell[asked - 1].version;
			printf("R%d: finds V v%d in epoch %d\n", me + 1, found, asked - 1)
		:: else ->           /* somebody's ticket or marker; nothing at all is the loader's */
			printf("R%d: finds no value in epoch %d; SELECT\n", me + 1, asked - 1);
			read_ends(me, version);
			asked = 0
		fi
		OTHERS_COME_IN
		/* The reply is here. The lease, now: */
		if
		:: asked == 0
#if defined(BREAK_LEASE_LOOKED_AT_BEFORE) || defined(LEASE_LOOKED_AT_ONCE)
		:: asked != 0 ->
#else
		:: asked != 0 && lease[me] == asked ->
#endif
			REACHED("read: a hit");
			read_ends(me, found)
		:: else ->
			printf("R%d: its lease is gone; SELECT\n", me + 1);
			REACHED("read: the lease is gone when the reply comes");
			read_ends(me, version)
		fi;
		asked = 0;
		found = 0
	}
		goto idle
	:: step {                /* without a lease, or Redis does not answer */
		known < COUNTS(version) ->      /* a read that shows nothing new changes nothing */
		printf("R%d: a read begins; v%d is known; SELECT\n", me + 1, known);
		read_begins(me);
		read_ends(me, version)
	}
		goto idle
#ifdef BREAK_JOIN
	:: step {
		selected != 0 ->
		printf("R%d: a read begins; v%d is known; it joins the SELECT under way\n", me + 1, known);
		read_begins(me);
		joined[me] = 1
	}
		joined[me] == 0;
		goto idle
#endif
	fi
}

/* A loader, and the reads it answers: ticket, SELECT, answer, fill. */
proctype Loader(byte me)
{
	byte ns;
	byte got;

idle:
	if
	:: step {
		lease[me] != 0 && !FENCED(lease[me] - 1) && cell[lease[me] - 1].kind == ABSENT ->
		ns = lease[me] - 1;
		printf("L%d: a read finds nothing in epoch %d\n", me + 1, ns);
#if defined(BREAK_TICKET_AFTER_SELECT) || defined(BREAK_NO_TICKET)
		printf("L%d: SELECT v%d\n", me + 1, version);
		got = version
#else
		printf("L%d: puts its ticket there\n", me + 1);
		cell_set(ns, F, me + 1, 0)
#endif
	}
	fi;

#ifdef BREAK_TICKET_AFTER_SELECT
	if
	:: step {
		!FENCED(ns) && cell[ns].kind == ABSENT ->
		printf("L%d: puts its ticket there\n", me + 1);
		cell_set(ns, F, me + 1, 0)
	}
	:: step {
		FENCED(ns) || cell[ns].kind != ABSENT ->
		ns = 0;
		got = 0
	}
		goto idle
	fi;
#elif !defined(BREAK_NO_TICKET)
	step {
		got = version;
		printf("L%d: SELECT v%d\n", me + 1, got);
#ifdef BREAK_JOIN
		selected = me + 1
	}
	step {
		selected = 0;
		printf("L%d: answers\n", me + 1);
		for (each : 0 .. 1) {
			if
			:: joined[each] -> joined[each] = 0; read_ends(each, got)
			:: else
			fi
		}
		each = 0;
#endif
		is_seen(got)
	}
#endif

	step {
		if
#ifdef BREAK_NO_TICKET
		:: !FENCED(ns) && cell[ns].kind == ABSENT ->
#else
		:: !FENCED(ns) && CELL_IS(ns, F, me + 1) ->
#endif
			printf("L%d: fills the cell of epoch %d: V v%d\n", me + 1, ns, got);
			REACHED("loader: a fill");
			cell_set(ns, V, NOBODY, got)
		:: else ->
			printf("L%d: its ticket is gone, it fills nothing\n", me + 1);
			REACHED("loader: a fill is refused")
		fi;
		ns = 0;
		got = 0
	}
	goto idle
}

/* --- a stranger, the relay, the scrub ---------------------------------------------------------------------------------- */

proctype Stranger()
{
	step {
		row == NOBODY ->
		version++;
		direct = version;
		printf("stranger: COMMIT of v%d, straight in SQL\n", direct)
	}
}

#ifdef BREAK_RELAY_WHILE_CLOSING
#define NOTHING_SERVED (epoch != OPEN)
#else
#define NOTHING_SERVED (epoch == CLOSED)
#endif

inline relay_done()
{
	printf("relay: v%d counts from now on\n", direct);
	known = NEWER(known, direct);
	direct = 0
}

proctype Relay()
{
	byte ns;

#ifdef BREAK_RELAY_READS_EPOCH_FIRST
	step {
		epoch == OPEN ->
		ns = current;
		printf("relay: reads the epoch: %d is open\n", ns)
	}
#endif
	/* Takes what is recorded; then, in a statement of its own, reads the epoch. `closing`: ROLLBACK, again later. */
again:
	if
	:: step {
		direct > 0 && NOTHING_SERVED ->
		printf("relay: takes v%d; no epoch is open\n", direct);
		REACHED("relay: the epoch is closed");
		relay_done()
	}
		goto done
	:: step {
		direct > 0 && epoch == OPEN ->
#ifndef BREAK_RELAY_READS_EPOCH_FIRST
		ns = current;
#endif
		printf("relay: takes v%d; epoch %d is open\n", direct, ns)
	}
	fi;
	if
	:: step {
		!FENCED(ns) ->
		printf("relay: invalidate v%d in epoch %d\n", direct, ns);
		invalidate(ns, direct);
		relay_done()
	}
	:: step {
		FENCED(ns) ->
		printf("relay: invalidate is fenced\n");
		epoch_close(ns)
	}
		goto again
	:: step {
		failures > 0 ->
		failures--;
		printf("relay: invalidate fails\n");
		epoch_close(ns)
	}
		goto again
	fi;
done:
	skip
}

/* Compares a cell with a row it selected without a lock, and if it does not like what it sees, removes everything up to
 * the version that comes next. Here it never likes what it sees. */
proctype Scrub()
{
	byte ns, next;
	byte scrubs = SCRUBS;

	do
	:: step {
		scrubs > 0 && epoch == OPEN ->
		scrubs--;
		ns = current;
		next = version + 1;
		printf("scrub: the row is at v%d\n", version)
	}
	step {
		if
		:: !FENCED(ns) ->
			printf("scrub: invalidate v%d in epoch %d\n", next, ns);
			invalidate(ns, next)
		:: else
		fi;
		ns = 0;
		next = 0
	}
	od
}

/* --- what goes wrong by itself ------------------------------------------------------------------------------------------ */

proctype Faults()
{
	byte restarts = RESTARTS;
	do
	/* TTL, volatile-* eviction. In a namespace that is past nobody would notice. */
	:: step {
		cell[current].kind == V || cell[current].kind == F ->
		printf("Redis: a value or ticket of epoch %d expires\n", current);
		cell_set(current, ABSENT, NOBODY, 0)
	}
#ifdef EVICT_MARKERS
	:: step {
		cell[current].kind == I ->
		printf("Redis: a marker of epoch %d is evicted\n", current);
		REACHED("Redis: a marker is evicted");
		cell_set(current, ABSENT, NOBODY, 0)
	}
#endif
#if LATE > 0
	:: step {
		late == 1 ->
		late = 0;
		if
		:: FENCED(late_ns) ->
			printf("Redis: the late intend arrives and is fenced\n");
			REACHED("late intend: fenced")
		:: else ->
			printf("Redis: the late intend arrives: the cell of epoch %d is a marker for v%d\n", late_ns, late_version);
			if
			:: cell[late_ns].kind == I && cell[late_ns].owner != NOBODY ->
				REACHED("late intend: over the marker of a writer at work")
			:: else -> REACHED("late intend: arrives")
			fi;
			cell_set(late_ns, I, late_owner, late_version)
		fi;
		late_ns = 0;
		late_owner = NOBODY;
		late_version = 0
	}
#endif
#if RESTARTS > 0
	/* The dump is of the beginning: epoch 0, its guard, V v0. */
	:: step {
		restarts > 0 ->
		restarts--;
		printf("Redis: starts again, from a dump of the beginning\n");
		for (each : 0 .. NAMESPACES - 1) {
			cell_set(each, ABSENT, NOBODY, 0);
			guard[each] = 0
		}
		each = 0;
		cell_set(0, V, NOBODY, 0);
		guard[0] = 1;
#ifndef BREAK_IDENTITY_IN_DUMP
		identity = 2
#endif
	}
#endif
	od
}

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
