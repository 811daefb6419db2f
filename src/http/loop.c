/* One event loop.
 *
 * Happy path: loop_main() calls the hook loop_start, dispatches events until the loop has drained, calls loop_stop.
 * A tick of LOOP_TICK_MS turns the wheel, admits those that were parked, renews the Date line and watches the drain.
 * Failure modes: a request that no handler ever answers keeps a draining loop for drain_timeout_ms and once more the
 * request's own deadline; then the loop ends without it, logs that, and its memory is left alone, since the answer
 * may still be posted.
 */
#include "http/loop.h"

#include <event2/event.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/connection.h"

#define TICK_NS (LOOP_TICK_MS * NS_PER_MS)

int64_t loop_read_clock(struct server_loop *loop)
{
	return loop->now_ns = clock_boottime_ns();
}

/* --- deadlines -------------------------------------------------------------------------------------------------- */

void loop_forget_deadline(struct connection *connection)
{
	if (connection->due_tick)
		LIST_REMOVE(connection, due);
	connection->due_tick = 0;
}

static void hang(struct server_loop *loop, struct connection *connection)
{
	int64_t tick = connection->deadline_ns / TICK_NS + 1;
	if (tick <= loop->tick)
		tick = loop->tick + 1;
	if (tick >= loop->tick + LOOP_SLOTS)
		tick = loop->tick + LOOP_SLOTS - 1;
	connection->due_tick = tick;
	LIST_INSERT_HEAD(&loop->wheel[tick % LOOP_SLOTS], connection, due);
}

void loop_set_deadline(struct server_loop *loop, struct connection *connection, int64_t deadline_ns)
{
	connection->deadline_ns = deadline_ns;
	if (deadline_ns == DEADLINE_NONE || (connection->due_tick && connection->due_tick <= deadline_ns / TICK_NS + 1))
		return;
	loop_forget_deadline(connection);
	hang(loop, connection);
}

/* False: there are more whose time is over, for another turn. */
static bool turn_slot(struct server_loop *loop, struct connection_list *slot, int *io_turns)
{
	/* What is hung up again goes to a later slot, so this one runs empty. */
	struct connection *connection;
	while ((connection = LIST_FIRST(slot))) {
		bool over = connection->deadline_ns <= loop->now_ns;
		if (over && (*io_turns)-- == 0)
			return false;
		loop_forget_deadline(connection);
		if (over)
			connection_expire(connection);
		else if (connection->deadline_ns != DEADLINE_NONE)
			hang(loop, connection);
	}
	return true;
}

static void resume_soon(struct server_loop *loop)
{
	/* A timer that is due, not event_active(): libevent would run that again and again before it looks at the sockets. */
	event_add(loop->resume_event, &(struct timeval){0});
}

static void turn_wheel(struct server_loop *loop)
{
	int64_t tick_now = loop->now_ns / TICK_NS;
	int turns = LOOP_TURNS_MAX;
	if (tick_now - loop->tick > LOOP_SLOTS) /* the machine slept: one turn of the wheel finds them all */
		loop->tick = tick_now - LOOP_SLOTS;
	while (loop->tick < tick_now) {
		if (!turn_slot(loop, &loop->wheel[(loop->tick + 1) % LOOP_SLOTS], &turns)) {
			resume_soon(loop);
			return;
		}
		loop->tick++;
	}
}

/* --- what connections share ------------------------------------------------------------------------------------- */

struct loop_arena *loop_take_arena(struct server_loop *loop)
{
	struct loop_arena *arena = loop->arenas;
	if (arena) {
		loop->arenas = arena->next;
		loop->arena_count--;
		return arena;
	}
	arena = malloc(sizeof *arena);
	CHECK(arena);
	arena_init(&arena->arena, LOOP_ARENA_BLOCK_BYTES);
	return arena;
}

void loop_give_arena(struct server_loop *loop, struct loop_arena *arena)
{
	if (loop->arena_count == LOOP_ARENAS_MAX) {
		arena_done(&arena->arena);
		free(arena);
		return;
	}
	arena_reset(&arena->arena);
	arena->next = loop->arenas;
	loop->arenas = arena;
	loop->arena_count++;
}

/* RFC 9110, 5.6.7. Once a second is enough; a tick is when it may change. */
static void renew_date(struct server_loop *loop)
{
	int64_t second = clock_unix_us() / US_PER_S;
	if (second == loop->date_second)
		return;
	time_t now = (time_t)second;
	struct tm tm;
	CHECK(gmtime_r(&now, &tm));
	loop->date_size = strftime(loop->date, sizeof loop->date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
	loop->date_second = second;
}

/* A few of those whose turn it is; then the sockets are looked at, and everybody else has his. */
static void on_resume(evutil_socket_t fd, short what, void *context)
{
	struct server_loop *loop = context;
	struct connection *connection;
	loop_read_clock(loop);
	for (int i = 0; i < LOOP_TURNS_MAX && (connection = TAILQ_FIRST(&loop->resumable)); i++) {
		TAILQ_REMOVE(&loop->resumable, connection, resumable);
		connection->resuming = false;
		connection_process(connection);
	}
	if (!TAILQ_EMPTY(&loop->resumable))
		resume_soon(loop);
	turn_wheel(loop);
}

void loop_resume(struct server_loop *loop, struct connection *connection)
{
	if (connection->resuming)
		return;
	connection->resuming = true;
	TAILQ_INSERT_TAIL(&loop->resumable, connection, resumable);
	resume_soon(loop);
}

void loop_park(struct server_loop *loop, struct connection *connection)
{
	STAILQ_INSERT_TAIL(&loop->parked, connection, parked);
}

/* In the order in which they came; who still cannot be judged is parked again, behind this round. */
static void admit_parked(struct server_loop *loop)
{
	struct connection_queue round = STAILQ_HEAD_INITIALIZER(round);
	STAILQ_CONCAT(&round, &loop->parked);
	for (struct connection *connection; (connection = STAILQ_FIRST(&round));) {
		STAILQ_REMOVE_HEAD(&round, parked);
		request_admit(&connection->request);
	}
}

static void on_mail(evutil_socket_t fd, short what, void *context)
{
	struct server_loop *loop = context;
	loop_read_clock(loop);
	mailbox_deliver(&loop->mailbox);
}

/* --- draining --------------------------------------------------------------------------------------------------- */

void loop_check_drained(struct server_loop *loop)
{
	if (loop->draining && loop->running == 0 && LIST_EMPTY(&loop->connections))
		event_base_loopbreak(loop->base);
}

static void close_all(struct server_loop *loop, bool idle_only)
{
	struct connection *connection, *next;
	for (connection = LIST_FIRST(&loop->connections); connection; connection = next) {
		next = LIST_NEXT(connection, all);
		if (!idle_only || connection_is_idle(connection))
			connection_close(connection);
	}
}

void loop_drain(struct server_loop *loop)
{
	loop->draining = true;
	loop->drain_deadline_ns = loop_read_clock(loop) + loop->server->times.drain_ns;
	close_all(loop, true);
	loop_check_drained(loop);
}

static void watch_drain(struct server_loop *loop)
{
	if (!loop->draining || loop->now_ns < loop->drain_deadline_ns)
		return;
	close_all(loop, false);
	if (loop->running && loop->now_ns >= loop->drain_deadline_ns + loop->server->times.request_ns) {
		log_event(LOG_ERROR, "http_requests_abandoned count=%zu", loop->running);
		loop->abandoned = true;
		event_base_loopbreak(loop->base);
	}
	loop_check_drained(loop);
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct server_loop *loop = context;
	loop_read_clock(loop);
	loop->drop_bytes_left = LOOP_DROP_BYTES_MAX;
	renew_date(loop);
	turn_wheel(loop);
	admit_parked(loop);
	if (loop == loop->server->loops && loop->server->listener_paused) { /* loop 0's, which no other may read */
		loop->server->listener_paused = false;
		if (loop->server->listener)
			event_add(loop->server->listener, NULL);
	}
	watch_drain(loop);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

bool loop_init(struct server_loop *loop, struct server *server)
{
	*loop = (struct server_loop){
		.server = server,
		.drop_bytes_left = LOOP_DROP_BYTES_MAX,
		.untaken_bytes_max = LOOP_UNTAKEN_BYTES_MAX,
	};
	STAILQ_INIT(&loop->parked);
	TAILQ_INIT(&loop->resumable);
	TAILQ_INIT(&loop->takers);
	mailbox_init(&loop->mailbox);
	struct event_config *config = event_config_new();
	CHECK(config);
	/* Only the loop's own thread touches its base; all others use the mailbox. */
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!loop->base)
		return false;
	loop->mailbox_event = event_new(loop->base, mailbox_fd(&loop->mailbox), EV_READ | EV_PERSIST, on_mail, loop);
	loop->tick_event = event_new(loop->base, -1, EV_PERSIST, on_tick, loop);
	loop->resume_event = event_new(loop->base, -1, 0, on_resume, loop);
	CHECK(loop->mailbox_event && loop->tick_event && loop->resume_event);
	struct timeval interval = {.tv_usec = LOOP_TICK_MS * 1000};
	loop->tick = loop_read_clock(loop) / TICK_NS;
	renew_date(loop);
	return event_add(loop->mailbox_event, NULL) == 0 && event_add(loop->tick_event, &interval) == 0;
}

void loop_done(struct server_loop *loop)
{
	if (loop->mailbox_event)
		event_free(loop->mailbox_event);
	if (loop->tick_event)
		event_free(loop->tick_event);
	if (loop->resume_event)
		event_free(loop->resume_event);
	if (loop->base)
		event_base_free(loop->base);
	while (loop->arenas) {
		struct loop_arena *arena = loop->arenas;
		loop->arenas = arena->next;
		arena_done(&arena->arena);
		free(arena);
	}
	buffer_done(&loop->out);
	buffer_done(&loop->out_later);
	buffer_done(&loop->scratch);
	mailbox_done(&loop->mailbox);
}

void *loop_main(void *context)
{
	struct server_loop *loop = context;
	struct server_hooks *hooks = &loop->server->hooks;
	if (hooks->loop_start)
		loop->context = hooks->loop_start(loop, hooks->context);
	sem_post(&loop->server->started);
	event_base_dispatch(loop->base);
	/* libevent closes the sockets of freed bufferevents in a later round: this one. */
	event_base_loop(loop->base, EVLOOP_NONBLOCK);
	while (!loop->abandoned && mailbox_deliver(&loop->mailbox))
		;
	if (hooks->loop_stop)
		hooks->loop_stop(loop->context, hooks->context);
	return NULL;
}

struct event_base *server_loop_base(struct server_loop *loop)
{
	return loop->base;
}

struct mailbox *server_loop_mailbox(struct server_loop *loop)
{
	return &loop->mailbox;
}

void *server_loop_context(struct server_loop *loop)
{
	return loop->context;
}
