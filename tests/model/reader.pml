/* The instances that read: event loops and loaders: part of coherence.pml (inventory/read.c, loader.c). */

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

