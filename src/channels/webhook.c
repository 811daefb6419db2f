/* The deliverer of webhooks (webhook.h).
 *
 * Happy path: take the lead (an advisory lock of the session); once a second, reload the list; while the feed moves, read
 * a page for each webhook that is through with its last; send, wait for what ends, write how far each has come.
 * Failure modes: another instance leads: try again every LEAD_MS. PostgreSQL away: the lead is gone with the session, and
 * everything in memory with it; whoever leads next begins at the rows. PostgreSQL refuses a statement, as it does those of
 * an older release once the schema is a newer one: the same, and a line in the log. A leader that stands still (SIGSTOP, a
 * machine that is cut off): PostgreSQL ends its session after SILENCE_MS, and when it goes on its first question finds that
 * out before anything is sent. A lead lost unnoticed moves nothing: the rows are moved only from where we believe them, and
 * reloaded.
 */
#include "channels/webhook.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "channels/webhook_internal.h"

#define LEAD_MS 2000
#define RELOAD_MS 1000
#define SILENCE_MS 5000 /* well above both: who leads asks each second, the others each LEAD_MS */
#define LOOK_MS 200     /* how often the feed is asked whether it has moved */
#define WRITE_MS 1000   /* within a page, so that little is sent twice after a crash */
#define ASK_MS 5000
#define TOLD_EVERY_MS 10000
#define REFUSALS_MAX 5
#define DELAY_MS_MAX (15 * 60 * 1000)
#define RETRY_AFTER_S_MAX (24 * 60 * 60)

struct webhooks {
	const struct config *config;
	struct pg *pg;
	pthread_t thread;
	atomic_bool stopping;
	struct sender sender;
	bool leads;
	LIST_HEAD(target_list, target) targets;
	struct arena list, list_before;      /* the rows of the last reload, and of the one before */
	int64_t lead_ns, reload_ns, look_ns; /* when to do each again */
	int64_t feed_xid;                    /* where the feed stood when it was last asked */
	int64_t tell_ns;                     /* when a failure may be told again */
};

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void drop_target(struct webhooks *w, struct target *target)
{
	sender_cut(&w->sender, target);
	LIST_REMOVE(target, all);
	target_free(target);
}

/* That PostgreSQL is away, or gives no session, others tell. */
static void tell_failure(struct webhooks *w)
{
	const struct pg_error *e = pg_error(w->pg);
	if (e->class == PG_CONNECTION || e->class == PG_DEADLINE || clock_boottime_ns() < w->tell_ns)
		return;
	w->tell_ns = deadline_in_ms(TOLD_EVERY_MS);
	log_event(LOG_ERROR, "webhooks_failed sqlstate=%s message=%s", e->sqlstate, log_quote(text_of(e->message)));
}

static void lose_lead(struct webhooks *w)
{
	while (!LIST_EMPTY(&w->targets))
		drop_target(w, LIST_FIRST(&w->targets));
	pg_close(w->pg); /* and the lock with it */
	w->leads = false;
	w->lead_ns = deadline_in_ms(LEAD_MS);
	metric_set(METRIC_WEBHOOKS_LED, 0);
}

static struct target *target_of(struct webhooks *w, const struct uuid *id)
{
	struct target *target;
	LIST_FOREACH(target, &w->targets, all)
	if (uuid_equal(&target->row.id, id))
		return target;
	target = target_new();
	target->row.id = *id;
	LIST_INSERT_HEAD(&w->targets, target, all);
	return target;
}

static void take_row(struct webhooks *w, const struct webhook *row)
{
	struct target *target = target_of(w, &row->id);
	bool moved = memcmp(&target->row.position, &row->position, sizeof row->position) != 0;
	target->row = *row;
	target->listed = true;
	if (moved && !target->sending)
		target_rewind(target);
	if (target->delivered || target->sending)
		return; /* the row does not know yet how it goes */
	target->attempts = row->attempts;
	target->not_before_ns = row->next_in_ms > 0 ? deadline_in_ms(row->next_in_ms) : 0;
}

static enum lu_error reload(struct webhooks *w, int64_t deadline_ns)
{
	struct webhook *rows;
	size_t count, active = 0;
	struct arena spare = w->list_before;
	arena_reset(&spare);
	enum lu_error error = webhook_list(w->pg, &spare, NULL, deadline_ns, &rows, &count);
	w->list_before = error ? spare : w->list;
	if (error)
		return error;
	w->list = spare;
	struct target *target, *next;
	LIST_FOREACH(target, &w->targets, all)
	target->listed = false;
	for (size_t i = 0; i < count; i++)
		if (!rows[i].disabled.data) {
			take_row(w, &rows[i]);
			active++;
		}
	for (target = LIST_FIRST(&w->targets); target; target = next) {
		next = LIST_NEXT(target, all);
		if (!target->listed)
			drop_target(w, target);
	}
	metric_set(METRIC_WEBHOOKS_LED, (int64_t)active);
	return LU_OK;
}

/* --- what became of a message ------------------------------------------------------------------------------------- */

static void say(struct target *target, const char *event, const char *error)
{
	char id[UUID_TEXT_BYTES + 1];
	uuid_format(&target->row.id, id);
	log_event(LOG_WARN, "%s id=%s error=%s", event, id, log_quote(text_of(error)));
}

static enum lu_error disable(struct webhooks *w, struct target *target, const char *why, int64_t deadline_ns)
{
	say(target, "webhook_disabled", why);
	target->not_before_ns = DEADLINE_NONE; /* until the reload drops it */
	return webhook_disable(w->pg, &target->row.id, text_of(why), deadline_ns);
}

static enum lu_error bury(struct webhooks *w, struct target *target, const char *error, int64_t deadline_ns)
{
	const struct webhook_failure failure = {
		.message = text_of(target->id),
		.body = buffer_text(&target->body),
		.attempts = target->attempts,
		.error = text_of(error),
	};
	struct arena arena;
	say(target, "webhook_message_put_aside", error);
	metric_add(METRIC_WEBHOOK_PUT_ASIDE, 1);
	arena_init(&arena, 0);
	enum lu_error result = webhook_bury(w->pg, &arena, &target->row.id, &failure, deadline_ns);
	arena_done(&arena);
	if (result)
		return result;
	target_next(target, false);
	return target_write(target, w->pg, true, deadline_ns);
}

/* Twice as long each time, and never at the same moment as everybody else. */
static int64_t delay_ms(const struct webhooks *w, int64_t attempts, int64_t retry_after_s)
{
	int64_t ms = w->config->webhook_retry_ms;
	for (int64_t i = 1; i < attempts && ms < DELAY_MS_MAX; i++)
		ms *= 2;
	ms = ms < DELAY_MS_MAX ? ms : DELAY_MS_MAX;
	ms = ms / 2 + (int64_t)random_below((uint64_t)ms + 1);
	if (retry_after_s > RETRY_AFTER_S_MAX)
		retry_after_s = RETRY_AFTER_S_MAX;
	return ms > retry_after_s * 1000 ? ms : retry_after_s * 1000;
}

static enum lu_error postpone(struct webhooks *w, struct target *target, const char *error, int64_t retry_after_s,
                              int64_t deadline_ns)
{
	char why[300];
	if (target->row.failing_ms >= w->config->webhook_disable_after_s * 1000) {
		snprintf(why, sizeof why, "nothing was delivered for %lld s: %s", (long long)w->config->webhook_disable_after_s,
		         error);
		return disable(w, target, why, deadline_ns);
	}
	int64_t ms = delay_ms(w, target->attempts, retry_after_s);
	target->not_before_ns = deadline_in_ms(ms);
	return webhook_delay(w->pg, &target->row.id, target->attempts, text_of(error), ms, deadline_ns);
}

static enum lu_error finish(struct webhooks *w, struct target *target, enum outcome outcome, const char *error,
                            int64_t retry_after_s)
{
	int64_t deadline_ns = deadline_in_ms(ASK_MS), now_ns = clock_boottime_ns();
	metric_observe_ns(METRIC_WEBHOOK_SECONDS, now_ns - target->sent_ns);
	if (outcome == OUTCOME_TAKEN) {
		metric_add(METRIC_WEBHOOK_MESSAGES, 1);
		target_next(target, true);
		return now_ns - target->written_ns < WRITE_MS * NS_PER_MS ? LU_OK
		                                                          : target_write(target, w->pg, true, deadline_ns);
	}
	metric_add(METRIC_WEBHOOK_FAILURES, 1);
	/* First how far it had come: that also says that it was well until now. */
	enum lu_error result = target_write(target, w->pg, true, deadline_ns);
	if (result)
		return result;
	target->attempts++;
	if (outcome == OUTCOME_GONE)
		return disable(w, target, "it answered 410 Gone", deadline_ns);
	if (outcome == OUTCOME_REFUSED && target->attempts >= REFUSALS_MAX)
		return bury(w, target, error, deadline_ns);
	return postpone(w, target, error, retry_after_s, deadline_ns);
}

/* --- taking turns ------------------------------------------------------------------------------------------------- */

/* The next message of this webhook is on its way, if there is one and it is time. */
static enum lu_error tend(struct webhooks *w, struct target *target, int64_t now_ns)
{
	int64_t deadline_ns = deadline_in_ms(ASK_MS);
	if (target->sending || now_ns < target->not_before_ns)
		return LU_OK;
	enum lu_error error = LU_OK;
	if (target_is_through(target)) {
		error = target_write(target, w->pg, false, deadline_ns);
		if (!error && target->seen_xid != w->feed_xid)
			error = target_read(target, w->pg, deadline_ns);
	}
	if (!error && !target_is_through(target) && !sender_begin(&w->sender, target))
		error = finish(w, target, OUTCOME_AWAY, "its secret is damaged; rotate it", 0);
	return error;
}

static enum lu_error lead(struct webhooks *w, int64_t deadline_ns)
{
	enum lu_error error = pg_connect(w->pg, deadline_ns);
	if (!error)
		error = webhook_lead(w->pg, deadline_ns, &w->leads);
	w->lead_ns = deadline_in_ms(LEAD_MS);
	w->reload_ns = w->look_ns = 0;
	return error;
}

static enum lu_error look(struct webhooks *w, int64_t deadline_ns)
{
	struct feed_state state;
	struct arena arena;
	arena_init(&arena, 0);
	enum lu_error error = feed_look(w->pg, &arena, deadline_ns, &state);
	arena_done(&arena);
	if (!error)
		w->feed_xid = state.now.xid;
	return error;
}

/* What is due now. */
static enum lu_error turn(struct webhooks *w)
{
	int64_t now_ns = clock_boottime_ns(), deadline_ns = deadline_in_ms(ASK_MS);
	enum lu_error error = LU_OK;
	if (!w->leads && now_ns >= w->lead_ns)
		error = lead(w, deadline_ns);
	if (error || !w->leads)
		return error;
	if (now_ns >= w->reload_ns) {
		error = reload(w, deadline_ns);
		w->reload_ns = deadline_in_ms(RELOAD_MS);
	}
	if (!error && now_ns >= w->look_ns && !LIST_EMPTY(&w->targets)) {
		error = look(w, deadline_ns);
		w->look_ns = deadline_in_ms(LOOK_MS);
	}
	struct target *target;
	LIST_FOREACH(target, &w->targets, all)
	if (!error)
		error = tend(w, target, now_ns);
	return error;
}

static enum lu_error transfer(struct webhooks *w)
{
	int running;
	enum lu_error error = LU_OK;
	enum outcome outcome;
	char why[200];
	int64_t retry_after_s;
	struct target *target;
	curl_multi_perform(w->sender.multi, &running);
	while (!error && (target = sender_take(&w->sender, &outcome, why, &retry_after_s)))
		error = finish(w, target, outcome, why, retry_after_s);
	return error;
}

static void *webhooks_main(void *context)
{
	struct webhooks *w = context;
	bool sent = false;
	while (!atomic_load_explicit(&w->stopping, memory_order_relaxed)) {
		int64_t taken = metric_get(METRIC_WEBHOOK_MESSAGES);
		if (turn(w) || transfer(w)) {
			tell_failure(w);
			lose_lead(w);
		}
		/* Who has just taken a message may have the next one at once. */
		sent = metric_get(METRIC_WEBHOOK_MESSAGES) != taken;
		curl_multi_poll(w->sender.multi, NULL, 0, sent ? 0 : LOOK_MS, NULL);
	}
	return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct webhooks *webhooks_start(const struct config *config)
{
	struct webhooks *w = calloc(1, sizeof *w);
	CHECK(w && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
	w->config = config;
	CHECK(sender_init(&w->sender, config));
	arena_init(&w->list, 1024);
	arena_init(&w->list_before, 1024);
	w->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit webhooks",
	                                    .lock_timeout_ms = config->statement_timeout_ms,
	                                    .statement_timeout_ms = config->statement_timeout_ms,
	                                    .idle_in_transaction_timeout_ms = config->statement_timeout_ms,
	                                    .idle_timeout_ms = SILENCE_MS});
	CHECK(pthread_create(&w->thread, NULL, webhooks_main, w) == 0);
	return w;
}

void webhooks_stop(struct webhooks *w)
{
	struct target *target;
	atomic_store_explicit(&w->stopping, true, memory_order_relaxed);
	curl_multi_wakeup(w->sender.multi);
	pthread_join(w->thread, NULL);
	LIST_FOREACH(target, &w->targets, all)
	if (target_write(target, w->pg, true, deadline_in_ms(ASK_MS)))
		break; /* it is told again */
	lose_lead(w);
	pg_free(w->pg);
	sender_done(&w->sender);
	arena_done(&w->list);
	arena_done(&w->list_before);
	curl_global_cleanup();
	free(w);
}
