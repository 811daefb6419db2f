/* The exact timeline: two buyers and one unit, step by step.
 *
 *	  0 ms  A looks            180 ms  A decides and writes      310 ms  A ends
 *	 40 ms  B looks            220 ms  B decides and writes      350 ms  B ends
 *
 * Happy path: each buyer is a thread with a session of his own, and does his steps in order; the main thread gives them out
 * at their times, and goes on when the buyer has done his step or is seen waiting for the other
 * (pg_blocking_pids). So it is the same order on every machine, however slow: a strategy fails here, or it holds,
 * by what it is and not by luck.
 * Failure modes: a buyer who waits for ever is cut by the deadline of his statement, and the race ends with its words.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "cmd/race_place.h"

#define CALL_MS 10000
#define LOOK_EVERY_MS 3
#define BUYERS 2
#define UNITS_OF_TWO_CARTS 2

enum { LOOK, WRITE, END };
static const struct {
	int at_ms, buyer, what;
} plan[RACE_STEPS] = {{0, 0, LOOK}, {40, 1, LOOK}, {180, 0, WRITE}, {220, 1, WRITE}, {310, 0, END}, {350, 1, END}};

struct scene;
struct actor {
	struct scene *scene;
	int number;
	pthread_t thread;
	struct pg *pg;
	int backend; /* its pid at the server; 0: no session */
	struct http_caller *caller;
	struct race_cart cart;
	struct race_try try;
	char key[TOKEN_BYTES + 1];
	enum race_outcome outcome; /* so far; his own until he is idle */
	int deadlocks;
	bool broken;
	/* Under the scene's mutex. */
	int given, done; /* steps of the plan that were given to him and that he has done: counts of his own */
};

struct scene {
	struct race *race;
	const struct race_strategy *strategy;
	struct race_timeline *timeline;
	struct actor actors[BUYERS];
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool over;
	char why[512];
};

static const struct pg_statement is_blocked = {"race_is_blocked", "SELECT cardinality(pg_blocking_pids($1::int)) > 0"};

/* The n-th step of a buyer in the plan. */
static int step_of(int buyer, int n)
{
	return 2 * n + buyer;
}

__attribute__((format(printf, 3, 4))) static void say(struct scene *scene, int step, const char *format, ...)
{
	char *said = scene->timeline->steps[step].said;
	size_t room = sizeof scene->timeline->steps[step].said, size;
	va_list arguments;
	pthread_mutex_lock(&scene->mutex);
	size = strlen(said);
	if (size)
		size += (size_t)snprintf(said + size, room - size, "; then ");
	va_start(arguments, format);
	if (size < room)
		vsnprintf(said + size, room - size, format, arguments);
	va_end(arguments);
	pthread_mutex_unlock(&scene->mutex);
}

/* --- what a buyer does -------------------------------------------------------------------------------------------- */

static const char *refusal(const struct race_strategy *strategy)
{
	if (strategy->read)
		return "sees that it is gone: refused";
	return strategy->checked ? "the CHECK says no: refused" : "no row was changed: refused";
}

/* Says what has become of him, if anything has. */
static void conclude(struct actor *actor, int step)
{
	struct scene *scene = actor->scene;
	if (actor->outcome == RACE_REFUSED)
		say(scene, step, "%s", refusal(scene->strategy));
	if (actor->outcome == RACE_BROKEN) {
		actor->broken = true;
		pthread_mutex_lock(&scene->mutex);
		cmd_refuse(scene->why, "%s: %s %s", scene->strategy->name, pg_error(actor->pg)->sqlstate,
		           pg_error(actor->pg)->message);
		pthread_mutex_unlock(&scene->mutex);
	}
}

static void begin_try(struct actor *actor)
{
	race_try_init(&actor->try, actor->scene->strategy, actor->pg, &actor->cart);
	actor->try.explicit = true;
}

/* What a program does that was told to try again: everything, at once, to the end. */
static void try_again(struct actor *actor, int step)
{
	struct race_try *t = &actor->try;
	const char *sqlstate = pg_error(actor->pg)->sqlstate;
	actor->deadlocks += t->deadlock;
	say(actor->scene, step, "%s: again",
	    t->deadlock                      ? "40P01, a deadlock"
	    : strcmp(sqlstate, "40001") == 0 ? sqlstate
	                                     : "the version is another");
	race_try_done(t);
	begin_try(actor);
	actor->outcome = race_look(t, 0, t->cart.lines);
	if (actor->outcome == RACE_GO_ON)
		actor->outcome = race_write(t);
	if (actor->outcome == RACE_GO_ON)
		actor->outcome = race_end(t);
	if (actor->outcome == RACE_SOLD)
		say(actor->scene, step, "sold");
}

static void look(struct actor *actor, int step)
{
	struct scene *scene = actor->scene;
	const struct race_strategy *s = scene->strategy;
	struct race_try *t = &actor->try;
	if (!s->read) {
		say(scene, step, "looks at nothing that he would rely on");
		return;
	}
	actor->outcome = race_look(t, 0, 1);
	if (actor->outcome == RACE_GO_ON)
		say(scene, step, "reads %lld%s", (long long)t->on_hand[0], t->cart.lines > 1 ? " of his first SKU" : "");
}

static void decide_and_write(struct actor *actor, int step)
{
	struct scene *scene = actor->scene;
	struct race_try *t = &actor->try;
	if (t->cart.lines > 1)
		actor->outcome = race_look(t, 1, t->cart.lines);
	if (actor->outcome == RACE_GO_ON)
		actor->outcome = race_write(t);
	if (actor->outcome == RACE_GO_ON)
		say(scene, step, "takes %s", t->cart.lines > 1 ? "one of each" : "it");
}

static void act_sql(struct actor *actor, int what, int step)
{
	if (actor->outcome != RACE_GO_ON) {
		say(actor->scene, step, "has his answer");
		return;
	}
	if (what == LOOK)
		look(actor, step);
	else if (what == WRITE)
		decide_and_write(actor, step);
	else if ((actor->outcome = race_end(&actor->try)) == RACE_SOLD)
		say(actor->scene, step, "COMMIT: sold");
	while (actor->outcome == RACE_AGAIN)
		try_again(actor, step);
	conclude(actor, step);
}

static void act_http(struct actor *actor, int what, int step)
{
	const struct race_service *service = &actor->scene->race->service;
	struct race_bought bought;
	if (what == LOOK)
		say(actor->scene, step, "asks: %lld available", (long long)race_shop_see(service, actor->caller, 0));
	if (what == END)
		say(actor->scene, step, "has his answer");
	if (what != WRITE)
		return;
	actor->outcome = race_shop_buy(service, actor->caller, &actor->cart, actor->key, &bought);
	actor->broken = actor->outcome == RACE_BROKEN || actor->outcome == RACE_AGAIN;
	if (actor->broken) {
		pthread_mutex_lock(&actor->scene->mutex);
		cmd_refuse(actor->scene->why, "lastunit: %s", *bought.why ? bought.why : "the service gave no answer");
		pthread_mutex_unlock(&actor->scene->mutex);
	}
	say(actor->scene, step, "%s", actor->outcome == RACE_SOLD ? "201: sold" : "409 insufficient_stock: refused");
}

static void *play(void *context)
{
	struct actor *actor = context;
	struct scene *scene = actor->scene;
	for (;;) {
		pthread_mutex_lock(&scene->mutex);
		while (actor->given == actor->done && !scene->over)
			pthread_cond_wait(&scene->changed, &scene->mutex);
		bool idle = actor->given == actor->done;
		int step = step_of(actor->number, actor->done);
		pthread_mutex_unlock(&scene->mutex);
		if (idle)
			return NULL;
		if (scene->strategy->write)
			act_sql(actor, plan[step].what, step);
		else
			act_http(actor, plan[step].what, step);
		pthread_mutex_lock(&scene->mutex);
		actor->done++;
		pthread_cond_broadcast(&scene->changed);
		pthread_mutex_unlock(&scene->mutex);
	}
}

/* --- who gives the steps out -------------------------------------------------------------------------------------- */

static bool blocked(struct scene *scene, const struct actor *actor)
{
	struct arena arena;
	struct pg_params params;
	PGresult *result = NULL;
	if (!actor->backend)
		return false;
	arena_init(&arena, 0);
	pg_params_init(&params, &arena);
	pg_add_int8(&params, actor->backend);
	bool is = !pg_query(scene->race->scratch.owner, &is_blocked, &params, deadline_in_ms(CALL_MS), &result) &&
	          pg_get_bool(result, 0, 0);
	pg_clear(&result);
	arena_done(&arena);
	return is;
}

/* Until he has done all that he was given; with `or_blocked` also when he is seen waiting for the other: false. */
static bool wait_idle(struct scene *scene, struct actor *actor, bool or_blocked)
{
	for (;;) {
		pthread_mutex_lock(&scene->mutex);
		if (actor->given != actor->done)
			clock_cond_wait(&scene->changed, &scene->mutex, deadline_in_ms(LOOK_EVERY_MS));
		bool idle = actor->given == actor->done;
		pthread_mutex_unlock(&scene->mutex);
		if (idle)
			return true;
		if (or_blocked && blocked(scene, actor))
			return false;
	}
}

static void give(struct scene *scene, int step)
{
	struct actor *actor = &scene->actors[plan[step].buyer];
	pthread_mutex_lock(&scene->mutex);
	bool behind = actor->given != actor->done;
	actor->given++;
	pthread_cond_broadcast(&scene->changed);
	pthread_mutex_unlock(&scene->mutex);
	if (!wait_idle(scene, actor, true))
		say(scene, step, "%s for %c", behind ? "still waits" : "waits", 'A' + 1 - actor->number);
}

static bool open_actor(struct scene *scene, int number)
{
	struct actor *actor = &scene->actors[number];
	*actor = (struct actor){.scene = scene, .number = number};
	bool two = scene->strategy->cart_order;
	actor->cart = (struct race_cart){.lines = two ? 2 : 1, .skus = {two ? number : 0, 1 - number}, .customer = number};
	token_new(actor->key);
	if (scene->strategy->write) {
		actor->pg = race_session_open(scene->race, scene->race->why);
		if (!actor->pg)
			return false;
		actor->backend = PQbackendPID(pg_conn(actor->pg));
	} else {
		actor->caller = http_caller_new(scene->race->service.url, CALL_MS);
	}
	begin_try(actor);
	return true;
}

static void close_actor(struct actor *actor)
{
	if (actor->scene)
		race_try_done(&actor->try);
	pg_free(actor->pg);
	http_caller_free(actor->caller);
}

static void give_all(struct scene *scene)
{
	for (int i = 0; i < BUYERS; i++)
		CHECK(pthread_create(&scene->actors[i].thread, NULL, play, &scene->actors[i]) == 0);
	int64_t start_ns = clock_boottime_ns();
	for (int step = 0; step < RACE_STEPS; step++) {
		clock_sleep_until(start_ns + plan[step].at_ms * NS_PER_MS);
		give(scene, step);
	}
	for (int i = 0; i < BUYERS; i++)
		wait_idle(scene, &scene->actors[i], false);
	pthread_mutex_lock(&scene->mutex);
	scene->over = true;
	pthread_cond_broadcast(&scene->changed);
	pthread_mutex_unlock(&scene->mutex);
	for (int i = 0; i < BUYERS; i++)
		pthread_join(scene->actors[i].thread, NULL);
}

static bool judge(struct scene *scene, int64_t skus, int64_t units, const struct race_shop_row *before)
{
	struct race_timeline *t = scene->timeline;
	struct race_item items[RACE_LINES_MAX] = {0};
	struct race_shop_row after[RACE_LINES_MAX] = {0};
	bool done = true;
	for (int i = 0; i < BUYERS; i++) {
		t->sold += scene->actors[i].outcome == RACE_SOLD;
		t->deadlocks += scene->actors[i].deadlocks;
		done = done && !scene->actors[i].broken;
	}
	if (!done)
		return cmd_refuse(scene->race->why, "%s", scene->why);
	if (scene->strategy->write)
		done = race_scratch_look(scene->race, skus, items);
	else
		done = race_shop_look(scene->race, skus, after);
	for (int64_t i = 0; i < skus; i++) {
		items[i].units = units;
		items[i].answered = t->sold;
		if (!scene->strategy->write) {
			items[i].rows = after[i].version - before[i].version;
			items[i].left = after[i].on_hand;
		}
	}
	struct race_verdict verdict = race_judge(items, (size_t)skus);
	t->on_hand = items[0].left;
	t->lost = (int)verdict.lost;
	/* Selling it to nobody would be no way to hold. */
	t->holds = !verdict.oversold && !verdict.lost && !t->deadlocks && t->sold == units;
	return done;
}

static bool play_scene(struct scene *scene)
{
	bool http = !scene->strategy->write, two = scene->strategy->cart_order;
	int64_t skus = two ? RACE_LINES_MAX : 1, units = two ? UNITS_OF_TWO_CARTS : 1;
	struct race_shop_row before[RACE_LINES_MAX] = {0};
	for (int i = 0; i < RACE_STEPS; i++) {
		scene->timeline->steps[i].at_ms = plan[i].at_ms;
		scene->timeline->steps[i].buyer = (char)('A' + plan[i].buyer);
	}
	bool done = http ? race_shop_stock(scene->race, skus, units, before)
	                 : race_scratch_stock(scene->race, skus, units, scene->strategy->checked, false);
	for (int i = 0; done && i < BUYERS; i++)
		done = open_actor(scene, i);
	if (done) {
		give_all(scene);
		done = judge(scene, skus, units, before);
	}
	for (int i = 0; i < BUYERS; i++)
		close_actor(&scene->actors[i]);
	return done;
}

bool race_timelines_run(struct race *race)
{
	bool done = true;
	race->timelines = ARENA_ARRAY(&race->arena, race_strategy_count, struct race_timeline);
	for (size_t s = 0; done && s < race_strategy_count && !race_stopping(); s++) {
		const struct race_strategy *strategy = &race_strategies[s];
		if (strategy->workloads == RACE_ONCE || !race_takes_part(race, strategy))
			continue;
		progress_show(&race->progress, "two buyers, one unit: %s", strategy->name);
		struct race_timeline *timeline = &race->timelines[race->timeline_count];
		*timeline = (struct race_timeline){.strategy = strategy->name, .must_hold = strategy->must_hold};
		struct scene scene = {.race = race, .strategy = strategy, .timeline = timeline};
		pthread_mutex_init(&scene.mutex, NULL);
		clock_cond_init(&scene.changed);
		done = play_scene(&scene);
		pthread_mutex_destroy(&scene.mutex);
		pthread_cond_destroy(&scene.changed);
		race->timeline_count += done;
	}
	return done;
}
