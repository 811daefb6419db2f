/* Playing a scenario: one permutation after the other, each with SKUs of its own (scenario.h).
 *
 * Happy path: make the SKUs · setup · the steps, in order, by this thread · errands joined · finally · the books.
 * `begin` and `until` hand a line to an errand, a thread that has its session's connections to itself until `end` or
 * `go on` fetches it; so a step can find another one waiting.
 * Failure modes: the first line that is not as expected ends the permutation and the run; what was stopped goes on,
 * errands are joined (each of their calls has a deadline), a shop's SKUs are emptied all the same.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "cmd/scenario.h"

#define POLL_MS 3
#define TEXT_COLUMN 58

struct errand {
	pthread_t thread;
	struct scenario_call call;
	bool good;
	_Atomic bool done;
};

bool scenario_wrong(struct scenario_call *call, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(call->why, sizeof call->why, format, arguments);
	va_end(arguments);
	return false;
}

static void call_init(struct scenario_call *call, struct scenario_run *run, struct scenario_session *session,
                      const struct scenario_line *line)
{
	*call = (struct scenario_call){.run = run, .scenario = run->scenario, .session = session, .line = line};
}

static bool call_run(struct scenario_call *call)
{
	bool good = true;
	for (int i = 0; good && i < call->line->times; i++) {
		buffer_clear(&call->said);
		call->at = call->line->action;
		good = call->line->verb->run(call);
	}
	return good;
}

static bool fail(struct scenario_run *run, const struct scenario_session *session, const struct scenario_line *line,
                 const char *why)
{
	snprintf(run->why, sizeof run->why, "%s:%d: %s: %s\n    %s", run->scenario->path, line->number, session->name,
	         line->text, why);
	return false;
}

/* --- narration ---------------------------------------------------------------------------------------------------- */

static void narrate(struct scenario_run *run, const struct scenario_session *session, const char *text,
                    struct buffer *said)
{
	struct buffer *out = &run->narration;
	size_t from = out->size;
	buffer_add_format(out, "  %-10s %s", session->name, text);
	if (said->size) {
		while (out->size - from < TEXT_COLUMN)
			buffer_add_char(out, ' ');
		buffer_add_string(out, "  ");
		buffer_add_text(out, buffer_text(said));
	}
	buffer_add_char(out, '\n');
}

static void narrate_order(struct scenario_run *run)
{
	const struct scenario *s = run->scenario;
	const struct scenario_order *order = &s->orders[run->order];
	buffer_clear(&run->narration);
	buffer_add_format(&run->narration, "%s", s->name);
	if (s->order_count > 1) {
		buffer_add_format(&run->narration, ", permutation %zu of %zu:", run->order + 1, s->order_count);
		for (size_t i = 0; i < order->count; i++)
			buffer_add_format(&run->narration, " %s", s->steps[order->steps[i]].name);
	}
	buffer_add_char(&run->narration, '\n');
}

/* --- errands ------------------------------------------------------------------------------------------------------ */

static void *errand_main(void *context)
{
	struct errand *errand = context;
	errand->good = call_run(&errand->call);
	atomic_store(&errand->done, true);
	return NULL;
}

static void errand_begin(struct scenario_run *run, struct scenario_session *session, const struct scenario_line *line)
{
	struct errand *errand = calloc(1, sizeof *errand);
	CHECK(errand);
	call_init(&errand->call, run, session, line);
	session->errand = errand;
	CHECK(pthread_create(&errand->thread, NULL, errand_main, errand) == 0);
}

/* Joins it and narrates what came of it. True when there was none. */
static bool errand_end(struct scenario_run *run, struct scenario_session *session)
{
	struct errand *errand = session->errand;
	if (!errand)
		return true;
	CHECK(pthread_join(errand->thread, NULL) == 0);
	session->errand = NULL;
	session->point = NULL;
	struct scenario_call *call = &errand->call;
	char text[200];
	snprintf(text, sizeof text, "… %s", call->line->text);
	narrate(run, session, text, &call->said);
	bool good = errand->good || fail(run, session, call->line, call->why);
	buffer_done(&call->said);
	free(errand);
	return good;
}

bool scenario_is_waiting(const struct scenario_session *session)
{
	return session->errand && !atomic_load(&session->errand->done);
}

/* Waits until the errand stands at the point. False when it ends before, or never comes there. */
static bool errand_stands(struct scenario_run *run, struct scenario_session *session, const struct scenario_line *line)
{
	const struct scenario_bench *bench = run->options->bench;
	int64_t until_ns = deadline_in_ms(run->options->patience_ms);
	while (!bench->reached(bench->context, session->instance, line->until)) {
		if (atomic_load(&session->errand->done)) {
			const char *why = session->errand->good ? "it was answered before it came there"
			                                        : session->errand->call.why;
			return fail(run, session, line, why);
		}
		if (clock_boottime_ns() > until_ns)
			return fail(run, session, line, "it did not come there");
		clock_sleep_until(deadline_in_ms(POLL_MS));
	}
	session->point = line->until;
	return true;
}

static bool run_begin(struct scenario_run *run, struct scenario_session *session, const struct scenario_line *line)
{
	const struct scenario_bench *bench = run->options->bench;
	if (line->until && !bench)
		return fail(run, session, line, "sync points are only in the project's tests");
	if (line->until)
		bench->stop_at(bench->context, session->instance, line->until);
	errand_begin(run, session, line);
	narrate(run, session, line->text, &(struct buffer){0});
	return !line->until || errand_stands(run, session, line);
}

static bool run_go_on(struct scenario_run *run, struct scenario_session *session, const struct scenario_line *line)
{
	const struct scenario_bench *bench = run->options->bench;
	if (!session->errand || !session->point)
		return fail(run, session, line, "it stands at no point");
	if (line->until)
		bench->stop_at(bench->context, session->instance, line->until);
	bench->go_on(bench->context, session->instance, session->point);
	session->point = NULL;
	narrate(run, session, line->text, &(struct buffer){0});
	return line->until ? errand_stands(run, session, line) : errand_end(run, session);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static bool run_now(struct scenario_run *run, struct scenario_session *session, const struct scenario_line *line)
{
	struct scenario_call call;
	call_init(&call, run, session, line);
	bool good = call_run(&call);
	if (line->how == SCENARIO_WAIT)
		for (int64_t until_ns = deadline_in_ms(run->options->patience_ms); !good && clock_boottime_ns() < until_ns;) {
			clock_sleep_until(deadline_in_ms(POLL_MS));
			good = call_run(&call);
		}
	narrate(run, session, line->text, &call.said);
	if (!good)
		fail(run, session, line, call.why);
	buffer_done(&call.said);
	return good;
}

static bool run_line(struct scenario_run *run, struct scenario_session *session, const struct scenario_line *line)
{
	bool own = line->how == SCENARIO_BEGIN || (line->verb && line->verb->needs & SCENARIO_SESSION);
	if (own && session->errand)
		return fail(run, session, line, "its errand is under way: `end` it first");
	switch (line->how) {
	case SCENARIO_BEGIN:
		return run_begin(run, session, line);
	case SCENARIO_GO_ON:
		return run_go_on(run, session, line);
	case SCENARIO_END:
		return session->errand ? errand_end(run, session) : fail(run, session, line, "nothing is under way");
	case SCENARIO_NOW:
	case SCENARIO_WAIT:
		break;
	}
	return run_now(run, session, line);
}

static bool run_block(struct scenario_run *run, struct scenario_session *session, const struct scenario_block *block)
{
	for (size_t i = 0; i < block->count; i++)
		if (!run_line(run, session, &block->lines[i]))
			return false;
	return true;
}

/* --- a permutation ------------------------------------------------------------------------------------------------ */

/* As any client would: the same request with the same key again while the answer is "not now". The status. */
static int sku_make(struct scenario_call *call, const struct scenario_sku *sku)
{
	char path[160], body[80];
	snprintf(path, sizeof path, "/v1/skus/%s", sku->code);
	int size = snprintf(body, sizeof body, "{\"on_hand\":%lld,\"tracked\":%s}", (long long)sku->on_hand,
	                    sku->tracked ? "true" : "false");
	int64_t until_ns = deadline_in_ms(call->run->options->patience_ms);
	struct http_answer answer;
	for (;;) {
		scenario_http(call, "PUT", path, (struct text){body, (size_t)size}, sku->code, &answer);
		if (answer.status != 503 || clock_boottime_ns() > until_ns)
			return answer.status;
		clock_sleep_until(deadline_in_ms(POLL_MS));
	}
}

static bool skus_make(struct scenario_run *run)
{
	struct scenario *s = run->scenario;
	static const struct scenario_line line = {.text = "(its stock)", .action = "", .times = 1};
	struct scenario_call call;
	call_init(&call, run, &s->sessions[0], &line);
	bool good = true;
	for (size_t i = 0; good && i < s->sku_count; i++) {
		struct scenario_sku *sku = &s->skus[i];
		snprintf(sku->code, sizeof sku->code, "scenario-%s-%.60s-%zu-%s", run->options->mark, s->name, run->order + 1,
		         sku->name);
		int status = sku_make(&call, sku);
		sku->made = status == 201;
		if (!sku->made)
			good = scenario_wrong(&call, "PUT /v1/skus/%s was answered %d", sku->code, status);
	}
	if (!good)
		fail(run, &s->sessions[0], &line, call.why);
	buffer_done(&call.said);
	return good;
}

static bool books_check(struct scenario_run *run)
{
	static const struct scenario_line line = {.text = "(the books)", .action = "", .times = 1};
	struct scenario_call call;
	call_init(&call, run, &run->scenario->sessions[0], &line);
	bool good = scenario_books(&call) || fail(run, &run->scenario->sessions[0], &line, call.why);
	buffer_done(&call.said);
	return good;
}

static void leave_empty(struct scenario_run *run)
{
	static const struct scenario_line line = {.text = "(tidying up)", .action = "", .times = 1};
	struct scenario_call call;
	call_init(&call, run, &run->scenario->sessions[0], &line);
	scenario_tidy(&call);
	buffer_done(&call.said);
}

static bool run_steps(struct scenario_run *run)
{
	struct scenario *s = run->scenario;
	const struct scenario_order *order = &s->orders[run->order];
	if (!run_block(run, &s->sessions[0], &s->setup))
		return false;
	for (size_t i = 0; i < order->count; i++) {
		const struct scenario_step *step = &s->steps[order->steps[i]];
		if (!run_block(run, &s->sessions[step->session], &step->block))
			return false;
	}
	for (size_t i = 0; i < s->session_count; i++) {
		if (s->sessions[i].point)
			run->options->bench->go_on(run->options->bench->context, s->sessions[i].instance, s->sessions[i].point);
		if (!errand_end(run, &s->sessions[i]))
			return false;
	}
	return run_block(run, &s->sessions[0], &s->finally);
}

static void sessions_close(struct scenario *s)
{
	for (size_t i = 0; i < s->session_count; i++) {
		struct scenario_session *session = &s->sessions[i];
		http_caller_free(session->caller);
		if (session->pg)
			pg_free(session->pg);
		if (session->redis)
			redis_free(session->redis);
		session->caller = NULL;
		session->pg = NULL;
		session->redis = NULL;
		session->reservation[0] = session->checkout[0] = '\0';
	}
	for (size_t i = 0; i < s->sku_count; i++)
		s->skus[i].made = false;
}

static bool run_order(struct scenario_run *run)
{
	struct scenario *s = run->scenario;
	const struct scenario_bench *bench = run->options->bench;
	narrate_order(run);
	if (bench && !bench->begin(bench->context, s, run->why))
		return false;
	bool good = skus_make(run) && run_steps(run);
	if (bench) {
		char why[SCENARIO_WHY_BYTES];
		bool ended = bench->end(bench->context, s, why); /* whatever stood still goes on */
		if (good && !ended)
			memcpy(run->why, why, sizeof why);
		good = good && ended;
	}
	for (size_t i = 0; i < s->session_count; i++) {
		char first[SCENARIO_WHY_BYTES];
		memcpy(first, run->why, sizeof first);
		errand_end(run, &s->sessions[i]);
		memcpy(run->why, first, sizeof first); /* what went wrong first is what is told */
	}
	good = good && books_check(run);
	if (!bench)
		leave_empty(run);
	sessions_close(s);
	return good;
}

bool scenario_play(struct scenario_run *run)
{
	for (run->order = 0; run->order < run->scenario->order_count; run->order++)
		if (!run_order(run))
			return false;
	return true;
}

void scenario_run_done(struct scenario_run *run)
{
	buffer_done(&run->narration);
}
