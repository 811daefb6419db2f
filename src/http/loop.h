/* One event loop: its thread, its clock, its timer wheel, and what its connections share. Private to src/http.
 *
 * Everything here belongs to the loop's thread, but for the mailbox and connection_count.
 *
 * Timers: one periodic tick per loop turns a wheel of lists. A connection hangs in the slot of a tick not after its
 * deadline; a deadline that moves away leaves it where it is, and the tick that finds it early hangs it up again. So a
 * busy connection, whose deadline moves with every request, costs no timer call at all.
 */
#ifndef HTTP_LOOP_H
#define HTTP_LOOP_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/mailbox.h"
#include "http/server.h"

#define LOOP_TICK_MS 50
#define LOOP_SLOTS 512     /* 25 s; later deadlines are looked at again by then */
#define LOOP_ARENAS_MAX 64 /* spare arenas kept */
#define LOOP_ARENA_BLOCK_BYTES ((size_t)8 * 1024)
#define LOOP_OUT_BYTES_MAX ((size_t)16 * 1024)             /* answers gathered before they are sent */
#define LOOP_DROP_BYTES_MAX ((int64_t)4 * 1024 * 1024)     /* of refused clients, read and thrown away in one tick */
#define LOOP_TURNS_MAX 8                                   /* of those who pipeline, or whose time is over, at once */
#define LOOP_BODY_BYTES_MAX ((size_t)256 * 1024 * 1024)    /* large bodies held at once; beyond, 503 */
#define LOOP_UNTAKEN_BYTES_MAX ((size_t)256 * 1024 * 1024) /* answers that sockets have refused (uptake.h) */

struct connection;
LIST_HEAD(connection_list, connection);
STAILQ_HEAD(connection_queue, connection);
TAILQ_HEAD(connection_turns, connection);

/* The settings of config.def that concern a connection, in nanoseconds. */
struct server_times {
	int64_t header_ns, body_ns, idle_ns, request_ns, drain_ns;
};

/* An arena on the list of spare ones. */
struct loop_arena {
	struct arena arena;
	struct loop_arena *next;
};

struct server_loop {
	struct server *server;
	struct event_base *base;
	struct mailbox mailbox;
	struct event *mailbox_event, *tick_event, *resume_event;
	pthread_t thread;
	void *context;               /* what loop_start returned */
	atomic_int connection_count; /* read by loop 0 to find the emptiest loop */

	int64_t now_ns; /* as of the event being handled */
	int64_t tick;   /* the last one turned */
	struct connection_list wheel[LOOP_SLOTS];
	struct connection_list connections; /* all of them */
	struct connection_turns resumable;  /* with more to do than was done in their turn */
	struct connection_queue parked;     /* RUNNING, but waiting for the keys to be read again */
	size_t running;                     /* requests in the hands of handlers, and those parked */
	size_t body_bytes;                  /* in body_buffers */
	struct connection_turns takers;     /* those who are `writing`, the longest first */
	size_t untaken_bytes;               /* that they have been owed since; at most untaken_bytes_max */
	size_t untaken_bytes_max;
	int64_t drop_bytes_left; /* until the next tick */

	struct loop_arena *arenas;
	size_t arena_count;
	struct buffer out;       /* answers of the connection being processed */
	struct buffer out_later; /* an answer given outside of that */
	struct buffer scratch;   /* a problem body */
	char date[64];           /* "Date: …\r\n" */
	size_t date_size;
	int64_t date_second;

	struct mailbox_item drain_item;
	bool draining;
	bool abandoned; /* requests never answered: memory must stay */
	int64_t drain_deadline_ns;
};

struct server {
	struct server_times times;
	struct router router;
	struct server_hooks hooks;
	int64_t connections_max;
	atomic_int connection_count;
	int listen_fd;
	struct event *listener; /* loop 0's */
	bool listener_paused;
	int64_t accept_tell_ns; /* when to log a failed accept again */
	struct mailbox_item listen_item, stop_item;
	sem_t started;
	char address[80];
	bool stopped;
	size_t loop_last; /* that was given a connection; loop 0's */
	size_t loop_count;
	struct server_loop loops[];
};

/* Creates base, events and mailbox; the thread is the server's to start with loop_main(). False: out of resources. */
bool loop_init(struct server_loop *loop, struct server *server);
void loop_done(struct server_loop *loop);
void *loop_main(void *loop);
/* Reads the clock; called first by every event handler. */
int64_t loop_read_clock(struct server_loop *loop);
/* Hangs the connection up for its deadline_ns; sooner than before if need be. */
void loop_set_deadline(struct server_loop *loop, struct connection *connection, int64_t deadline_ns);
void loop_forget_deadline(struct connection *connection);
/* Has connection_process() called from the loop, soon but not from inside this call. */
void loop_resume(struct server_loop *loop, struct connection *connection);
/* Has request_admit() called again at the next tick. */
void loop_park(struct server_loop *loop, struct connection *connection);
struct loop_arena *loop_take_arena(struct server_loop *loop);
void loop_give_arena(struct server_loop *loop, struct loop_arena *arena);
/* Closes what is idle and ends the loop when nothing is left. */
void loop_drain(struct server_loop *loop);
/* Ends a draining loop if this was its last connection or request. */
void loop_check_drained(struct server_loop *loop);

#endif
