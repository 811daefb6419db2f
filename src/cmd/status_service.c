/* What a running instance tells of itself (status.h): its /metrics, open to everybody who reaches it.
 *
 * Happy path: one GET, the figures we want by name. Failure modes: no answer, or something that is no Lastunit: a fact,
 * and P6 is weakened for whoever asks this instance.
 */
#include <string.h>

#include "base/text.h"
#include "cmd/http_caller.h"
#include "cmd/status.h"

#define ASK_MS 5000

/* The value of the line "lastunit_NAME VALUE"; -1: there is none. */
static int64_t metric_of(struct text page, const char *name)
{
	char prefix[100];
	int64_t value = -1;
	size_t size = (size_t)snprintf(prefix, sizeof prefix, "lastunit_%s ", name);
	for (const char *at = page.data, *end = page.data + page.size; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		if ((size_t)(stop - at) > size && memcmp(at, prefix, size) == 0 &&
		    text_to_int64((struct text){at + size, (size_t)(stop - at) - size}, &value))
			return value;
		at = stop + 1;
	}
	return -1;
}

static void take_figures(struct status_service *s, struct text page)
{
	const struct {
		const char *name;
		int64_t *target;
	} figures[] = {
		{"lookup_hits_total", &s->hits},         {"lookup_misses_total", &s->misses},
		{"lookup_bypasses_total", &s->bypasses}, {"lookup_stale_total", &s->stale},
		{"queue_depth", &s->queue_depth},        {"http_connections", &s->connections},
		{"relayed_total", &s->relayed},          {"scrub_checked_total", &s->scrub_checked},
		{"scrub_wrong_total", &s->scrub_wrong},  {"outcome_unknown_total", &s->outcome_unknown},
		{"refreshes_total", &s->refreshes},      {"epoch_open", &s->epoch_open},
	};
	for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
		if ((*figures[i].target = metric_of(page, figures[i].name)) < 0)
			s->reachable = false;
}

int64_t status_hits_per_10000(const struct status_service *service)
{
	int64_t all = service->hits + service->misses + service->bypasses + service->stale;
	return all > 0 ? (service->hits * 10000 + all / 2) / all : -1;
}

void status_look_service(struct status *status)
{
	struct status_service *s = &status->service;
	if (!*s->url)
		return;
	http_caller_global_init();
	struct http_caller *caller = http_caller_new(s->url, ASK_MS);
	struct http_answer answer = http_call(caller, "GET", "/metrics", (struct text){0}, NULL, NULL);
	s->reachable = answer.status == 200;
	if (s->reachable)
		take_figures(s, answer.body);
	if (!s->reachable) {
		s->error = answer.status ? arena_printf(status->arena, "status %d, and no metrics of Lastunit", answer.status)
		                         : arena_text(status->arena, text_of(http_caller_error(caller)));
		weakness_add(&status->findings, "instance_silent", "P6", "the instance at %s does not answer: %.*s", s->url,
		             (int)s->error.size, s->error.data);
	}
	if (s->reachable && s->scrub_wrong > 0)
		weakness_add(
			&status->findings, "cells_wrong", "P2",
			"the scrub of %s has found %lld cells that were wrong (and removed them): its log names them, event"
			" cell_wrong",
			s->url, (long long)s->scrub_wrong);
	http_caller_free(caller);
	http_caller_global_done();
}
