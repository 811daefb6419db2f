/* A writer: sales, healing refreshes, stored answers given again: part of coherence.pml (inventory/batch.c, writer.c). */

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
	if
	:: ended -> ended = 0
	:: else -> in_flight--
	fi
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
	bit ended;               /* its session is, and its locks are gone, which it learns when it asks for COMMIT or ROLLBACK */
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
	:: step {                /* it stood still for too long, or somebody ended it */
		crashes > 0 && work == REFRESH && open && !ended ->
		crashes--;
		printf("W%d: PostgreSQL ends its session\n", me);
		transaction_ends();
		ended = 1
	}
		goto mark
	:: step {
		!FENCED(ns) ->
		printf("W%d: intend v%d\n", me, mine);
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
#ifdef BREAK_REFRESH_TRUSTS_ITS_LOCK
		work == REFRESH ->
#else
		work == REFRESH && !ended ->
#endif
		printf("W%d: ROLLBACK: a refresh changes nothing\n", me);
		transaction_ends()
	}
#ifndef BREAK_REFRESH_TRUSTS_ITS_LOCK
	:: step {
		work == REFRESH && ended ->
		printf("W%d: ROLLBACK is not answered: what it knows may be old\n", me);
		REACHED("refresh: its session had ended");
		transaction_ends();
		token_retire(me)
	}
		goto again
#endif
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
#ifdef BREAK_ANSWER_UNPUBLISHED
		;
		answered()
	}
		goto begin
#else
	}
		goto close_and_answer
#endif
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

