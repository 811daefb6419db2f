/* One client of a replay: calls with their retries (replay_client.h).
 *
 * Happy path: one call, one answer.
 * Failure modes: no answer, 503, 429, 5xx, "still running": the same call again with the same key, after Retry-After,
 * until answer_timeout_ms is over; then the answer is missing, which is a violation (P6).
 */
#include "cmd/replay_client.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"

#define CALL_TIMEOUT_MS 15000
#define PAUSE_MS_MAX 1000
#define REPLAY_EVERY 16

void replay_client_init(struct replay_client *client, struct replay *replay)
{
	*client = (struct replay_client){.replay = replay, .caller = http_caller_new(replay->options.url, CALL_TIMEOUT_MS)};
}

void replay_client_done(struct replay_client *client)
{
	struct replay *replay = client->replay;
	pthread_mutex_lock(&replay->mutex);
	for (int c = 0; c < REPLAY_CHANNELS; c++) {
		struct replay_channel *to = &replay->channels[c];
		const struct replay_channel *from = &client->channels[c];
		to->carts += from->carts;
		to->sold += from->sold;
		to->refused += from->refused;
		to->retried += from->retried;
		to->expired += from->expired;
		to->units += from->units;
		histogram_add(&to->latency, &from->latency);
	}
	struct replay_counts *to = &replay->counts;
	const struct replay_counts *from = &client->counts;
	to->cancellations += from->cancellations;
	to->restocked_units += from->restocked_units;
	to->nothing_to_restock += from->nothing_to_restock;
	to->write_offs += from->write_offs;
	to->written_off_units += from->written_off_units;
	to->write_offs_refused += from->write_offs_refused;
	to->reads += from->reads;
	to->calls += from->calls;
	to->repeats += from->repeats;
	to->replays += from->replays;
	pthread_mutex_unlock(&replay->mutex);
	http_caller_free(client->caller);
	buffer_done(&client->body);
	buffer_done(&client->path);
}

static bool answers_nothing(const struct http_answer *answer, const json_t *json)
{
	if (answer->status == 0 || answer->status == 429 || answer->status >= 500)
		return true;
	const char *code = json_string_value(json_object_get(json, "code"));
	return answer->status == 409 && code && strcmp(code, "idempotency_in_flight") == 0;
}

static void pause_before_repeat(const struct http_answer *answer)
{
	int64_t ms = answer->retry_after_s > 0 ? answer->retry_after_s * 1000 : 20;
	ms = ms < PAUSE_MS_MAX ? ms : PAUSE_MS_MAX;
	clock_sleep_until(deadline_in_ms(ms / 2 + (int64_t)random_below((uint64_t)ms / 2 + 1)));
}

static struct http_answer send(struct replay_client *client, int channel, const char *method, const char *key)
{
	const struct replay_options *options = &client->replay->options;
	const char *bearer = channel == REPLAY_ADMIN ? options->key_admin : options->keys[channel];
	client->counts.calls++;
	return http_call(client->caller, method, client->path.data, buffer_text(&client->body), bearer, key);
}

/* P3: the same key again has the same answer. */
static void send_again(struct replay_client *client, int channel, const char *method, const char *key,
                       const struct replay_answer *first)
{
	client->counts.replays++;
	struct http_answer again = send(client, channel, method, key);
	json_t *json = NULL;
	const char *why;
	if (again.status && json_parse(again.body, &json, &why))
		json = NULL;
	const char *id = json_string_value(json_object_get(first->json, "id"));
	const char *id_again = json_string_value(json_object_get(json, "id"));
	if (!answers_nothing(&again, json) &&
	    (again.status != first->status || !again.replayed || strcmp(id ? id : "", id_again ? id_again : "") != 0))
		replay_violation(client->replay, "%s %s with the same key again: first %d %s, then %d %s%s", method,
		                 client->path.data, first->status, id ? id : "", again.status, id_again ? id_again : "",
		                 again.replayed ? "" : ", not marked as replayed");
	json_decref(json);
}

struct replay_answer replay_call(struct replay_client *client, int channel, const char *method, const char *key)
{
	buffer_add_char(&client->path, '\0');
	int64_t deadline_ns = deadline_in_ms(client->replay->options.answer_timeout_ms);
	struct replay_answer answer = {.code = ""};
	for (;;) {
		struct http_answer got = send(client, channel, method, key);
		if (key && channel >= 0)
			histogram_record(&client->channels[channel].latency, got.took_us);
		const char *why;
		json_decref(answer.json);
		answer.json = NULL;
		if (got.status && json_parse(got.body, &answer.json, &why))
			answer.json = NULL;
		answer.status = got.status;
		if (!answers_nothing(&got, answer.json))
			break;
		if (deadline_left_ms(deadline_ns) == 0 || client->replay->stop) {
			replay_violation(client->replay, "%s %s was not answered: %s", method, client->path.data,
			                 got.status ? "only 5xx or try again" : http_caller_error(client->caller));
			json_decref(answer.json);
			return (struct replay_answer){.code = ""};
		}
		client->counts.repeats++;
		pause_before_repeat(&got);
	}
	const char *code = json_string_value(json_object_get(answer.json, "code"));
	answer.code = code ? code : "";
	/* Stored answers are repeated word for word; 400, 401, 403 and 422 are decided each time anew. */
	bool stored = answer.status == 200 || answer.status == 201 || answer.status == 409 || answer.status == 410;
	if (key && stored && ++client->writes_answered % REPLAY_EVERY == 0)
		send_again(client, channel, method, key, &answer);
	return answer;
}

void replay_version_seen(struct replay *replay, size_t sku, int64_t version)
{
	_Atomic int64_t *seen = &replay->skus[sku].version;
	int64_t known = atomic_load(seen);
	while (known < version && !atomic_compare_exchange_weak(seen, &known, version))
		;
}

void replay_look(struct replay_client *client, int channel, size_t sku)
{
	struct replay *replay = client->replay;
	struct text code = replay->book->skus[sku].code;
	buffer_clear(&client->body);
	buffer_clear(&client->path);
	buffer_add_string(&client->path, "/v1/availability/");
	http_path_add(&client->path, code);
	/* What anybody was answered before this read begins is its floor. */
	int64_t floor = atomic_load(&replay->skus[sku].version);
	client->counts.reads++;
	struct replay_answer answer = replay_call(client, channel, "GET", NULL);
	int64_t version = json_integer_value(json_object_get(answer.json, "version"));
	if (answer.status == 200 && version < floor)
		replay_violation(replay, "%.*s went back: version %lld was answered, then a read showed %lld", (int)code.size,
		                 code.data, (long long)floor, (long long)version);
	else if (answer.status == 200)
		replay_version_seen(replay, sku, version);
	else if (answer.status)
		replay_violation(replay, "availability of %.*s: %d %s", (int)code.size, code.data, answer.status, answer.code);
	json_decref(answer.json);
}
