/* The cache epoch and the read leases, with the keepers of all instances: part of coherence.pml (inventory/epoch.c). */

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

/* L belongs to the epoch: no instance grants itself more, whatever is configured there, and who closes waits for that. */
#ifdef BREAK_OWN_L
#define LEASES_ARE_OUT (lease[0] != current + 1)       /* instance 1 closes, and waits for its own, shorter L */
#else
#define LEASES_ARE_OUT (lease[0] != current + 1 && lease[1] != current + 1)
#endif

/* The keepers of all instances. Time is not modelled: a lease ends when it likes, and that L(1+rho) has passed since
 * `closing` was seen means that every lease granted before has ended. */
proctype Keeper()
{
	byte opened = 0;
#ifdef BREAK_LEASE_FROM_REPLY
	byte asked = 0;
#endif
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
#ifdef BREAK_LEASE_FROM_REPLY
	:: step {
		epoch == OPEN && asked == 0 ->
		printf("keeper: instance 1 asks, epoch %d is open\n", current);
		asked = current + 1
	}
	:: step {
		asked != 0 && lease[0] != asked ->
		printf("keeper: instance 1 has the answer, and from now on a read lease of epoch %d\n", asked - 1);
		lease[0] = asked;
		asked = 0
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
		epoch == CLOSING && LEASES_ARE_OUT ->
		printf("keeper: L has passed, epoch %d: closing -> closed\n", current);
		epoch = CLOSED
	}
	:: step {
		epoch == CLOSED && opened + 1 < NAMESPACES && guard[NEXT_NAMESPACE] != identity ->
		guard[NEXT_NAMESPACE] = identity;
		printf("keeper: Redis is well, the guard of epoch %d is set\n", NEXT_NAMESPACE)
	}
	/* Whatever happened to Redis since then: the fence tells. */
	:: step {
		epoch == CLOSED && opened + 1 < NAMESPACES && guard[NEXT_NAMESPACE] != 0 && MAY_OPEN ->
		opened++;
		current = NEXT_NAMESPACE;
		epoch = OPEN;
		printf("keeper: epoch %d is opened\n", current);
		leases_granted();
		if
		:: opened == 1 -> REACHED("epoch: a second one is opened")
		:: else -> REACHED("epoch: a third one is opened")
		fi
	}
	od
}

