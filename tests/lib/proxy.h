/* A proxy on a unix socket that can do to one message what networks do: cut it off, hold it, lose its answer.
 *
 *	proxy_start(&proxy, "/tmp/x/.s.PGSQL.5432", "/tmp/y/.s.PGSQL.5432");
 *	proxy_when(&proxy, PROXY_TO_SERVER, "COMMIT", PROXY_CUT_AFTER_ANSWER);
 *	... the next chunk of bytes holding "COMMIT" reaches the server; its answer does not come back ...
 *	proxy_wait(&proxy);
 *
 * A rule holds for one match; what does not match passes. Bytes are matched within one chunk as it was read (our
 * clients write a message in one go). Thread: its own; the calls from the test's. Ends the test on its own errors.
 */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H

#include <pthread.h>
#include <stdbool.h>

enum proxy_direction { PROXY_TO_SERVER, PROXY_TO_CLIENT };

enum proxy_action {
	PROXY_CUT_BEFORE,       /* the chunk is not passed on; both sides are closed */
	PROXY_CUT_AFTER,        /* it is passed on, then both sides are closed at once */
	PROXY_CUT_AFTER_ANSWER, /* it is passed on; when the other side answers, that is dropped and both are closed */
	PROXY_HOLD,             /* this connection stands still until proxy_release() */
	PROXY_TWICE,            /* it is passed on twice */
	PROXY_REPLACE,          /* the needle in it becomes the replacement; see proxy_replace() */
};

#define PROXY_CONNECTIONS 64

struct proxy {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	char listen_path[108], target_path[108];
	int listener, wake[2];
	bool stopping, refusing;
	unsigned delay_us;
	/* the rule */
	bool armed;
	enum proxy_direction direction;
	enum proxy_action action;
	char needle[64], replacement[64];
	unsigned matches; /* rules that were met so far */
	struct proxy_pair {
		int fd[2]; /* client, server; -1: free */
		bool held;
		enum { PAIR_PASS, PAIR_DROP_ANSWER } state;
		char *kept; /* the chunk that is held */
		long kept_size;
		enum proxy_direction kept_to;
	} pairs[PROXY_CONNECTIONS];
};

void proxy_start(struct proxy *proxy, const char *listen_path, const char *target_path);
void proxy_stop(struct proxy *proxy);
/* Arms the rule; replaces one that was not met. */
void proxy_when(struct proxy *proxy, enum proxy_direction direction, const char *needle, enum proxy_action action);
/* The next chunk with the needle goes on with the replacement, of the same length, in its place. */
void proxy_replace(struct proxy *proxy, enum proxy_direction direction, const char *needle, const char *replacement);
/* Waits (30 s, then the test ends) until `matches` has reached this number. */
void proxy_wait_matches(struct proxy *proxy, unsigned matches);
/* How often a rule was met so far. */
unsigned proxy_matches(struct proxy *proxy);
/* What was held goes on, in order. */
void proxy_release(struct proxy *proxy);
/* From now on every message is late by so much, in both directions. */
void proxy_delay(struct proxy *proxy, unsigned delay_us);
/* Closes every connection; while refusing, new ones are closed at once: the other side is gone. */
void proxy_cut_all(struct proxy *proxy, bool refusing);

#endif
