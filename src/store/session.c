/* Sessions that are refused (session.h).
 *
 * Happy path: the list is empty, and a session that is had looks at nothing but its own flag. Failure modes: more parts
 * than there is room for are not named.
 */
#include "store/session.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define PREFIX "lastunit "

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(refused_list, session) refused = LIST_HEAD_INITIALIZER(refused);

void session_refused(struct session *session, const char *why)
{
	int64_t now_ns = clock_boottime_ns();
	pthread_mutex_lock(&mutex);
	if (!session->refused) {
		LIST_INSERT_HEAD(&refused, session, all);
		session->refused = true;
		session->since_ns = now_ns;
	}
	session->asked_ns = now_ns;
	snprintf(session->why, sizeof session->why, "%s", why);
	pthread_mutex_unlock(&mutex);
}

void session_settled(struct session *session)
{
	if (!session->refused)
		return;
	pthread_mutex_lock(&mutex);
	LIST_REMOVE(session, all);
	session->refused = false;
	pthread_mutex_unlock(&mutex);
}

/* Of two loaders one name is enough. */
static void add_part(char parts[SESSION_PARTS_BYTES], const char *part)
{
	size_t size = strlen(parts);
	if (strncmp(part, PREFIX, strlen(PREFIX)) == 0)
		part += strlen(PREFIX);
	if (!strstr(parts, part))
		snprintf(parts + size, SESSION_PARTS_BYTES - size, "%s%s", size ? ", " : "", part);
}

bool session_refusals(char ret_parts[SESSION_PARTS_BYTES], char ret_why[SESSION_WHY_BYTES])
{
	int64_t now_ns = clock_boottime_ns(), newest_ns = 0;
	struct session *session;
	*ret_parts = *ret_why = '\0';
	pthread_mutex_lock(&mutex);
	LIST_FOREACH(session, &refused, all)
	{
		if (now_ns - session->since_ns < SESSION_REFUSED_MS * NS_PER_MS ||
		    now_ns - session->asked_ns > SESSION_FORGOTTEN_MS * NS_PER_MS)
			continue;
		add_part(ret_parts, session->part);
		if (session->asked_ns > newest_ns) {
			newest_ns = session->asked_ns;
			memcpy(ret_why, session->why, SESSION_WHY_BYTES);
		}
	}
	pthread_mutex_unlock(&mutex);
	return *ret_parts;
}
