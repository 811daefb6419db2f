/* A fleet: instances of the real service on a PostgreSQL and a Redis of the test's own, each of which it may kill, hold
 * down and start again when it likes (`lastunit dev`, behind service.h, starts again by itself what dies).
 *
 * 	fleet_open(&fleet, 2, NULL);
 *	service_try(&fleet.doors[0], fleet.doors[0].key_web, "GET", …);     from any thread, whatever happens meanwhile
 *	fleet_kill(&fleet, 0);  fleet_serve(&fleet, 0);                     SIGKILL; another process at the same address
 *	redis_server_kill(&fleet.redis);  pg_server_restart(&fleet.postgres, PG_SERVER_IMMEDIATE);
 *	fleet_close(&fleet);
 *
 * Every function waits until what it says is true. What cannot go on prints why and aborts. Thread: the main thread;
 * the doors are read by all.
 */
#ifndef TESTS_LIB_FLEET_H
#define TESTS_LIB_FLEET_H

#include "lib/pg_server.h"
#include "lib/redis_server.h"
#include "lib/service.h"

#define FLEET_MAX 2

struct fleet {
	struct pg_server postgres;
	struct redis_server redis;
	struct service doors[FLEET_MAX]; /* what clients call: addresses and keys, which never change; pid 0 */
	struct service processes[FLEET_MAX];
	int count;
	const char *const *options;
};

/* `options` of `lastunit serve`, NULL-ended, kept; NULL: none. */
void fleet_open(struct fleet *fleet, int count, const char *const *options);
void fleet_kill(struct fleet *fleet, int instance);
void fleet_serve(struct fleet *fleet, int instance);
/* The instances end by SIGTERM. The first exit code that is not 0. */
int fleet_close(struct fleet *fleet);

#endif
