/* The lookout (lookout.h).
 *
 * Happy path: asleep, but for two questions to the epoch a few times a second; every 10 s a look at both, which takes the
 * place of the one before. Failure modes: Redis away: that is what was found, and it is looked at each second until it is
 * back. PostgreSQL away: what it was found to be stays, as nobody can have changed its settings unseen for long.
 */
#include "inventory/lookout.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/session.h"

#define TICK_MS 250
#define LOOK_EVERY_MS 10000
#define REDIS_AWAY_EVERY_MS 1000
#define REFUSED_EVERY_MS 1000 /* no session at PostgreSQL, who is there */
#define DATABASE_MS 2000
#define REDIS_MS 1000

struct found {
	struct arena arena;
	struct weaknesses list;
};

struct lookout {
	const struct config *config;
	const struct redis_address *address;
	struct epoch *epoch; /* NULL: not started */
	pthread_t thread;

	pthread_mutex_t mutex; /* for the three below */
	pthread_cond_t wake;
	bool stopping;
	struct found *database, *redis;

	/* the thread's own */
	struct found founds[3], *spare; /* a look is made in the spare one and then changes places */
	struct pg *pg;
	struct redis *connection;
	bool redis_told_away, database_told_away, sessions_told, refusal_told;
	char rights_told[700]; /* the sentence on rights that are missing, as it was told last; "": none are */
	int64_t look_database_ns, look_redis_ns, look_redis_away_ns; /* when next */
};

/* --- looking ------------------------------------------------------------------------------------------------------ */

static struct weaknesses *look_begin(struct lookout *l)
{
	arena_reset(&l->spare->arena);
	l->spare->list = (struct weaknesses){.arena = &l->spare->arena};
	return &l->spare->list;
}

static void look_end(struct lookout *l, struct found **place)
{
	pthread_mutex_lock(&l->mutex);
	struct found *before = *place;
	*place = l->spare;
	l->spare = before;
	pthread_mutex_unlock(&l->mutex);
}

/* `told`: whoever starts the service tells what is so then. */
static void see_rights(struct lookout *l, const struct weaknesses *list, bool told)
{
	const char *sentence = weakness_find(list, WEAKNESS_RIGHTS_MISSING);
	if (!strcmp(sentence ? sentence : "", l->rights_told))
		return;
	snprintf(l->rights_told, sizeof l->rights_told, "%s", sentence ? sentence : "");
	if (told)
		return;
	if (sentence)
		log_event(LOG_WARN, "rights_missing why=%s", log_quote(text_of(sentence)));
	else
		log_event(LOG_INFO, "rights_back");
}

enum lu_error lookout_first(struct lookout *l, struct pg *pg, int64_t deadline_ns)
{
	struct weaknesses *list = look_begin(l);
	enum lu_error error = weakness_look_database(list, pg, deadline_ns);
	if (!error) {
		see_rights(l, list, true);
		look_end(l, &l->database);
	}
	l->look_database_ns = deadline_in_ms(LOOK_EVERY_MS);
	return error;
}

static void tell_of_redis(struct lookout *l, bool reachable)
{
	if (reachable == !l->redis_told_away)
		return;
	char place[REDIS_PLACE_BYTES];
	const char *redis = log_quote(text_of(redis_address_place(l->address, place)));
	l->redis_told_away = !reachable;
	if (reachable)
		log_event(LOG_INFO, "redis_back redis=%s", redis);
	else
		log_event(LOG_WARN, "redis_unreachable error=%s redis=%s", log_quote(text_of(redis_error(l->connection))),
		          redis);
}

static void look_at_redis(struct lookout *l)
{
	struct weaknesses *list = look_begin(l);
	l->look_redis_ns = deadline_in_ms(LOOK_EVERY_MS);
	l->look_redis_away_ns = deadline_in_ms(REDIS_AWAY_EVERY_MS);
	if (!l->connection) {
		weakness_add(list, "no_redis", "", "no Redis is configured: every read comes from PostgreSQL");
		look_end(l, &l->redis);
		return;
	}
	int64_t deadline_ns = deadline_in_ms(REDIS_MS);
	bool reachable = !redis_connect(l->connection, deadline_ns) &&
	                 !weakness_look_redis(list, l->connection, deadline_ns);
	if (!reachable) {
		weakness_add(look_begin(l), "redis_unreachable", "",
		             "Redis cannot be reached: reads come from PostgreSQL until it can");
	}
	look_end(l, &l->redis);
	epoch_redis_seen(l->epoch, reachable);
	tell_of_redis(l, reachable);
}

static void look_at_database(struct lookout *l)
{
	int64_t deadline_ns = deadline_in_ms(DATABASE_MS);
	l->look_database_ns = deadline_in_ms(LOOK_EVERY_MS);
	if (pg_connect(l->pg, deadline_ns)) {
		l->look_database_ns = deadline_in_ms(REFUSED_EVERY_MS);
		return;
	}
	struct weaknesses *list = look_begin(l);
	if (weakness_look_database(list, l->pg, deadline_ns))
		return;
	see_rights(l, list, false);
	look_end(l, &l->database);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* As the watcher of the lease sees it: it asks most often, and what it sees is what everybody goes by. */
static void tell_of_database(struct lookout *l)
{
	char error[256];
	bool away = epoch_database_away(l->epoch, error);
	if (away == l->database_told_away)
		return;
	l->database_told_away = away;
	if (away)
		log_event(LOG_WARN, "database_unreachable error=%s", log_quote(text_of(error)));
	else
		log_event(LOG_INFO, "database_back");
}

/* It answers INFO, so it is not away, and yet no epoch is opened on it. */
static void tell_of_refusal(struct lookout *l)
{
	char error[200];
	bool refuses = epoch_redis_refuses(l->epoch, error);
	if (l->redis_told_away || refuses == l->refusal_told)
		return;
	l->refusal_told = refuses;
	if (refuses)
		log_event(LOG_WARN, "redis_refuses error=%s", log_quote(text_of(error)));
	else
		log_event(LOG_INFO, "redis_refuses_no_more");
}

/* While PostgreSQL is away that is told, with the reason. */
static void tell_of_sessions(struct lookout *l)
{
	char parts[SESSION_PARTS_BYTES], why[SESSION_WHY_BYTES];
	bool refused = session_refusals(parts, why);
	if (l->database_told_away || refused == l->sessions_told)
		return;
	l->sessions_told = refused;
	if (refused)
		log_event(LOG_WARN, "sessions_refused parts=%s error=%s", log_quote(text_of(parts)), log_quote(text_of(why)));
	else
		log_event(LOG_INFO, "sessions_back");
}

/* False: the end. */
static bool tick(struct lookout *l)
{
	int64_t until_ns = deadline_in_ms(TICK_MS);
	pthread_mutex_lock(&l->mutex);
	while (!l->stopping && clock_cond_wait(&l->wake, &l->mutex, until_ns))
		;
	bool stopping = l->stopping;
	pthread_mutex_unlock(&l->mutex);
	return !stopping;
}

static void *lookout_main(void *context)
{
	struct lookout *l = context;
	while (tick(l)) {
		tell_of_database(l);
		tell_of_sessions(l);
		tell_of_refusal(l);
		int64_t now_ns = clock_boottime_ns();
		bool doubted = l->connection && !epoch_redis_reachable(l->epoch) && now_ns >= l->look_redis_away_ns;
		if (doubted || now_ns >= l->look_redis_ns)
			look_at_redis(l);
		if (!l->database_told_away && now_ns >= l->look_database_ns)
			look_at_database(l);
	}
	return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct lookout *lookout_new(const struct config *config, const struct redis_address *redis)
{
	struct lookout *l = calloc(1, sizeof *l);
	CHECK(l);
	l->config = config;
	l->address = redis;
	pthread_mutex_init(&l->mutex, NULL);
	clock_cond_init(&l->wake);
	for (size_t i = 0; i < sizeof l->founds / sizeof *l->founds; i++)
		arena_init(&l->founds[i].arena, 1024);
	l->database = &l->founds[0];
	l->redis = &l->founds[1];
	l->spare = &l->founds[2];
	l->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .application_name = "lastunit lookout",
	                                    .statement_timeout_ms = DATABASE_MS});
	l->connection = redis ? redis_new(redis) : NULL;
	return l;
}

void lookout_start(struct lookout *l, struct epoch *epoch)
{
	l->epoch = epoch;
	look_at_redis(l);
	CHECK(pthread_create(&l->thread, NULL, lookout_main, l) == 0);
}

void lookout_stop(struct lookout *l)
{
	if (l->epoch) {
		pthread_mutex_lock(&l->mutex);
		l->stopping = true;
		pthread_cond_broadcast(&l->wake);
		pthread_mutex_unlock(&l->mutex);
		pthread_join(l->thread, NULL);
	}
	pg_free(l->pg);
	redis_free(l->connection);
	for (size_t i = 0; i < sizeof l->founds / sizeof *l->founds; i++)
		arena_done(&l->founds[i].arena);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->mutex);
	free(l);
}

static void copy(struct weaknesses *to, const struct weaknesses *from)
{
	for (size_t i = 0; i < from->count; i++)
		weakness_add(to, from->items[i].name, from->items[i].promises, "%s", from->items[i].sentence);
}

void lookout_found(struct lookout *l, struct weaknesses *list)
{
	pthread_mutex_lock(&l->mutex);
	copy(list, &l->database->list);
	copy(list, &l->redis->list);
	pthread_mutex_unlock(&l->mutex);
	char parts[SESSION_PARTS_BYTES], why[SESSION_WHY_BYTES], error[200];
	if (l->epoch && epoch_redis_refuses(l->epoch, error))
		weakness_add(list, "redis_refuses", "",
		             "Redis refuses what the cache needs: %s. Reads come from PostgreSQL until it does not", error);
	if (session_refusals(parts, why))
		weakness_add(
			list, WEAKNESS_SESSIONS_REFUSED, "P5 P6",
			"PostgreSQL gives no session to %s: %s. What needs one is answered 503, or waits, as holds that are"
			" over do. An instance takes one for each writer and loader, and eight more",
			parts, why);
}
