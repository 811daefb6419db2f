/* The wires between the instances and their servers: proxies on unix sockets that know where a message begins and ends
 * and what it is called, so that any single one can be held, delayed, lost, doubled, changed or cut off.
 *
 *	Redis messages      read (its EXEC), ticket (cas '' -> F), fill (cas F -> V), intend, publish, invalidate;
 *	                    others by command
 *	PostgreSQL messages a simple query by its first word ("commit"), a Bind by the name of its statement ("sku_read")
 *
 * A rule waits for one message and is then spent. A held message is delivered even if its sender has closed the
 * connection meanwhile: that is what "arrives late" means. Thread: one of its own; the calls from the test's.
 */
#ifndef SPEC_WIRE_H
#define SPEC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_kind { WIRE_POSTGRES, WIRE_REDIS };

enum wire_action {
	WIRE_HOLD,  /* it, and what follows it, stands still until wire_deliver() */
	WIRE_DELAY, /* the same for `ms` */
	WIRE_LOSE,  /* it is swallowed; its sender waits */
	WIRE_CUT,   /* it is swallowed, and the connection cut */
	WIRE_COPY,  /* it passes; wire_deliver() sends it once more, on a connection of its own */
	WIRE_TURN,  /* another simple query goes in its place */
};

struct wire;

struct wire *wire_new(void);
void wire_free(struct wire *wire);
/* A proxy from `listen_path` to `target_path`; returns its number. */
size_t wire_link(struct wire *wire, enum wire_kind kind, const char *listen_path, const char *target_path);
/* Where it leads from now on; what is connected is cut. */
void wire_point(struct wire *wire, size_t link, const char *target_path);
/* Unplugged: connections are cut, new ones at once. */
void wire_plug(struct wire *wire, size_t link, bool plugged);
/* Mute: connections are accepted, nothing passes either way. */
void wire_mute(struct wire *wire, size_t link, bool mute);
/* What happens to the next message of that name, or (answer) to its answer: HOLD, DELAY, LOSE or CUT. */
void wire_rule(struct wire *wire, size_t link, const char *name, bool answer, enum wire_action action, const char *text,
               int64_t ms);
/* Has the rule met its message? False too if there is no such rule. */
bool wire_met(struct wire *wire, size_t link, const char *name, bool answer);
/* What was held goes on; what was copied goes once more. False: nothing was. */
bool wire_deliver(struct wire *wire, size_t link, const char *name, bool answer);
/* No rules, nothing held, nothing mute, everything plugged. */
void wire_reset(struct wire *wire);

#endif
