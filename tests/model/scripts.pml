/* The calls of lua/, on one cell: part of coherence.pml.
 *
 * `read` and `cas` are written where they are called. The fence is looked at by the callers, in the same step. */

inline cell_set(ns, k, o, v)
{
	cell[ns].kind = k;
	cell[ns].owner = o;
	cell[ns].version = v
}

inline intend(ns, who, v)
{
	if
#ifdef BREAK_INTEND_LEAVES_TICKETS
	:: cell[ns].kind == F -> printf("      a ticket is there and stays\n")
#endif
#ifdef BREAK_INTEND_LEAVES_MARKERS
	:: cell[ns].kind == I -> printf("      another's marker is there and stays\n")
#endif
	:: else ->
		if
		:: cell[ns].kind == F -> REACHED("intend: over a ticket")
		:: cell[ns].kind == I -> REACHED("intend: over another marker")
		:: else
		fi;
#ifdef BREAK_INTEND_KEEPS_VERSION
		cell[ns].version = (cell[ns].kind == I -> NEWER(cell[ns].version, v) : v);
		cell[ns].kind = I;
		cell[ns].owner = who;
#else
		cell_set(ns, I, who, v);
#endif
		printf("      the cell of epoch %d is a marker for v%d\n", ns, cell[ns].version)
	fi
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
#define ENDED(ns, v) (cell[ns].kind == I)
#elif defined(BREAK_INVALIDATE_LEAVES_MARKERS)
#define ENDED(ns, v) false
#else
#define ENDED(ns, v) (cell[ns].kind == I && cell[ns].version <= (v))
#endif
#ifdef BREAK_INVALIDATE_LEAVES_TICKETS
#define MAY_BE_OLDER(ns, v) (cell[ns].kind == V && cell[ns].version < v)
#else
#define MAY_BE_OLDER(ns, v) (cell[ns].kind == F || (cell[ns].kind == V && cell[ns].version < v))
#endif

inline invalidate(ns, v)
{
	if
	:: MAY_BE_OLDER(ns, v) ->
		printf("      the cell is deleted\n");
		REACHED("invalidate: a ticket or an older value deleted");
		cell_set(ns, ABSENT, NOBODY, 0)
	:: ENDED(ns, v) ->
#if defined(BREAK_INVALIDATE_DELETES_ALL) || defined(BREAK_INVALIDATE_DELETES_MARKERS)
		printf("      the marker for v%d is deleted\n", cell[ns].version);
		cell_set(ns, ABSENT, NOBODY, 0)
#else
		/* Its writer has committed or never will, so it must not set a value here any more. But the marker stays: it
		 * may have arrived late, and then it lies over the marker of a writer at work. */
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

