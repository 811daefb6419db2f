/* A stranger, the relay, the scrub, and what goes wrong by itself: part of coherence.pml (sql/, inventory/relay.c, scrub.c). */

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
#ifdef BREAK_RELAY_FORGETS
		relay_done()
	}
#else
		epoch_close(ns)
	}
		goto again
#endif
	fi;
done:
	skip
}

/* Compares a value with its row, and if it does not like what it sees, puts in place of exactly these bytes a ticket that
 * nobody holds. Here it never likes what it sees. */
proctype Scrub()
{
	byte ns, seen;
	byte scrubs = SCRUBS;

	do
	:: step {
		scrubs > 0 && epoch == OPEN && cell[current].kind == V ->
		scrubs--;
		ns = current;
		seen = cell[ns].version;
		printf("scrub: does not like V v%d in epoch %d\n", seen, ns)
	}
	step {
		if
#ifdef BREAK_SCRUB_DELETES
		:: !FENCED(ns) ->
			printf("scrub: the cell is deleted\n");
			cell_set(ns, ABSENT, NOBODY, 0)
#else
		:: !FENCED(ns) && cell[ns].kind == V && cell[ns].version == seen ->
			printf("scrub: the cell is nobody's ticket\n");
			REACHED("scrub: a value is taken away");
			cell_set(ns, F, NOBODY, 0)
		:: !FENCED(ns) && !(cell[ns].kind == V && cell[ns].version == seen) ->
			printf("scrub: something else is there and stays\n");
			REACHED("scrub: too late")
#endif
		:: else
		fi;
		ns = 0;
		seen = 0
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
#if defined(EVICT_MARKERS) || defined(BREAK_MARKER_EXPIRES)
	:: step {
		cell[current].kind == I ->
		printf("Redis: a marker of epoch %d expires or is evicted\n", current);
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
			printf("Redis: the late intend arrives\n");
			if
			:: cell[late_ns].kind == I && cell[late_ns].owner != NOBODY ->
				REACHED("late intend: over the marker of a writer at work")
			:: else -> REACHED("late intend: arrives")
			fi;
			intend(late_ns, late_owner, late_version)
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

