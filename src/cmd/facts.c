/* How facts are told (facts.h). */
#include "cmd/facts.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

#define LABEL_WIDTH 12
#define PROMISES 6
#define RING 8
#define RING_BYTES 64

static char *ring_next(void)
{
	static _Thread_local char ring[RING][RING_BYTES];
	static _Thread_local unsigned next;
	return ring[next++ % RING];
}

void facts_line(FILE *out, const char *label, const char *format, ...)
{
	fprintf(out, "%-*s ", LABEL_WIDTH, label);
	va_list arguments;
	va_start(arguments, format);
	vfprintf(out, format, arguments);
	va_end(arguments);
	fputc('\n', out);
}

const char *facts_duration(int64_t ms)
{
	char *out = ring_next();
	long long s = ms / 1000, minutes = s / 60, hours = minutes / 60;
	if (ms < 1000)
		snprintf(out, RING_BYTES, "%lld ms", (long long)ms);
	else if (minutes < 1)
		snprintf(out, RING_BYTES, "%.1f s", (double)ms / 1e3);
	else if (hours < 1)
		snprintf(out, RING_BYTES, "%lld min %lld s", minutes, s % 60);
	else if (hours < 48)
		snprintf(out, RING_BYTES, "%lld h %lld min", hours, minutes % 60);
	else
		snprintf(out, RING_BYTES, "%lld d %lld h", hours / 24, hours % 24);
	return out;
}

const char *facts_offset(int64_t us)
{
	char *out = ring_next();
	snprintf(out, RING_BYTES, "%+.1f %s", llabs(us) < US_PER_S ? (double)us / 1e3 : (double)us / 1e6,
	         llabs(us) < US_PER_S ? "ms" : "s");
	return out;
}

void facts_findings(FILE *out, const struct weaknesses *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (*findings->items[i].promises)
			facts_line(out, "WEAKENED", "%s: %s (%s)", findings->items[i].promises, findings->items[i].sentence,
			           findings->items[i].name);
	for (size_t i = 0; i < findings->count; i++)
		if (!*findings->items[i].promises)
			facts_line(out, "remark", "%s (%s)", findings->items[i].sentence, findings->items[i].name);
}

void facts_promises(const struct weaknesses *findings, char out[32])
{
	*out = '\0';
	for (int n = 1; n <= PROMISES; n++) {
		char name[12];
		snprintf(name, sizeof name, "P%d", n);
		for (size_t i = 0; i < findings->count; i++)
			if (strstr(findings->items[i].promises, name)) {
				if (*out)
					strcat(out, " ");
				strcat(out, name);
				break;
			}
	}
}

void facts_findings_json(struct json_writer *json, const struct weaknesses *findings)
{
	json_key(json, "findings");
	json_array_open(json);
	for (size_t i = 0; i < findings->count; i++) {
		const struct weakness *w = &findings->items[i];
		json_object_open(json);
		json_member_string(json, "name", w->name);
		json_key(json, "promises");
		json_array_open(json);
		for (const char *at = w->promises; *at; at += *at == ' ') {
			size_t size = strcspn(at, " ");
			json_put_text(json, (struct text){at, size});
			at += size;
		}
		json_array_close(json);
		json_member_string(json, "sentence", w->sentence);
		json_object_close(json);
	}
	json_array_close(json);
}
