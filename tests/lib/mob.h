/* A mob: hostile HTTP clients by the thousand, driven by one thread with epoll, so that they cost the machine little.
 *
 *	const int each[MOB_KINDS] = {[MOB_SLOW_HEADERS] = 1000, …};
 *	struct mob *mob = mob_begin(shop.port, shop.key_web, "MOB-SKU", each, 1000);
 *	… good clients are served …
 *	mob_end(mob, &report);
 *
 * Whoever left or was thrown out comes back, but no sooner than back_after_ms behind his last coming: so it is
 * said how much they ask of the machine, which else is all that it has. Ends the test program on its own
 * errors; asserts nothing.
 */
#ifndef TESTS_LIB_MOB_H
#define TESTS_LIB_MOB_H

enum mob_kind {
	MOB_SLOW_HEADERS, /* a byte of a header now and then */
	MOB_SLOW_BODY,    /* ten of a hundred bytes, then one now and then */
	MOB_LEAVERS,      /* gone after half the headers, half the body, or before the answer; in order or by reset */
	MOB_OVERSIZED,    /* endless headers, a body beyond the limit, a chunk of a gigabyte */
	MOB_AMBIGUOUS,    /* framing that can be read in two ways */
	MOB_NON_READERS,  /* ask and ask, and never read */
	MOB_KINDS
};

#define MOB_STATUSES 600

struct mob_report {
	long connects[MOB_KINDS];              /* connections made */
	long thrown_out[MOB_KINDS];            /* of these, closed by the server */
	long answers[MOB_KINDS][MOB_STATUSES]; /* by status: the first answer on a connection */
};

struct mob;
/* `each`: how many of each kind are there at any time. */
struct mob *mob_begin(int port, const char *key, const char *sku, const int each[MOB_KINDS], int back_after_ms);
/* As it is now. */
struct mob_report mob_look(struct mob *mob);
void mob_end(struct mob *mob, struct mob_report *ret_report);
const char *mob_name(enum mob_kind kind);

#endif
