/* Which parts of this process are refused a session by a PostgreSQL that is there: it has no connection left for them, or
 * their password or role is no longer right. The other parts go on with the sessions they have, so who reads the epoch
 * finds all well while nothing is sold, or no hold ends.
 *
 * Each connection (pg.h) notes here what it was told. A refusal counts once it has lasted for SESSION_REFUSED_MS, until a
 * session is had, or nobody has asked for one in SESSION_FORGOTTEN_MS. Thread: a session's own; session_refusals() any.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define SESSION_REFUSED_MS 1000
#define SESSION_FORGOTTEN_MS 5000 /* who asks by himself and is refused asks again sooner */
#define SESSION_PARTS_BYTES 128
#define SESSION_WHY_BYTES 256

struct session {
	const char *part; /* as PostgreSQL knows it: "lastunit writer" */
	bool refused;     /* and in the list; the owner's to read */
	int64_t since_ns, asked_ns;
	char why[SESSION_WHY_BYTES];
	LIST_ENTRY(session) all;
};

void session_refused(struct session *session, const char *why);
/* It is had, or no longer wanted. */
void session_settled(struct session *session);
/* False: none. Else the parts, each once, "reaper, writer", and what the one that asked last was told. */
bool session_refusals(char ret_parts[SESSION_PARTS_BYTES], char ret_why[SESSION_WHY_BYTES]);

#endif
