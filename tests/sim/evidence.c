/* Gathering (evidence.h). Happy path: one SELECT over the ledger, then copies.
 *
 * Failure modes: none that a run could go on from: they end the program with a sentence.
 */
#include "sim/evidence.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "base/text.h"

#define MS INT64_C(1000000)
#define DEADLINE_MS 3000 /* as the instances are started with */
#define GRACE_MS 1000
#define SQL_LAG_MS 250
#define RECOVERY_MS 1500 /* statement_timeout, after which a relay that stands still has lost its records, and a bit */
#define CLOCK_SLACK_MS 20

static void read_ledger(const struct evidence_source *source, struct history *h)
{
	PGconn *conn = PQconnectdb(source->stage->url);
	PGresult
		*r = PQexec(conn,
	                "SELECT right(s.code, 1), l.version, l.kind, l.on_hand_delta, l.reserved_delta, l.on_hand_after,"
	                " l.reserved_after, (extract(epoch FROM l.at) * 1000000)::bigint, l.operation_id"
	                " FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id ORDER BY s.code, l.version");
	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		fprintf(stderr, "sim: the ledger cannot be read: %s\n", PQerrorMessage(conn));
		exit(3);
	}
	size_t rows = (size_t)PQntuples(r);
	struct history_entry *entries = calloc(rows + 1, sizeof *entries);
	CHECK(entries);
	for (int i = 0; i < (int)rows; i++) {
		struct history_sku *sku = &h->skus[atoi(PQgetvalue(r, i, 0))];
		struct history_entry *e = &entries[i];
		int64_t numbers[7];
		for (int k = 0; k < 7; k++)
			numbers[k] = strtoll(PQgetvalue(r, i, k + 1), NULL, 10);
		*e = (struct history_entry){
			.version = numbers[0],
			.kind = (enum ledger_kind)numbers[1],
			.on_hand_delta = numbers[2],
			.reserved_delta = numbers[3],
			.on_hand_after = numbers[4],
			.reserved_after = numbers[5],
			.at_ns = numbers[6] * 1000 - source->unix_minus_monotonic_ns,
		};
		uuid_parse(text_of(PQgetvalue(r, i, 8)), &e->operation_id);
		if (!sku->entry_count++)
			sku->entries = e;
	}
	PQclear(r);
	PQfinish(conn);
}

#define COPY(to, count, from, more)                                      \
	do {                                                                 \
		size_t copy_more_ = (more);                                      \
		(to) = realloc((to), ((count) + copy_more_ + 1) * sizeof *(to)); \
		CHECK(to);                                                       \
		if (copy_more_)                                                  \
			memcpy((to) + (count), (from), copy_more_ * sizeof *(to));   \
		(count) += copy_more_;                                           \
	} while (0)

struct history *evidence_gather(const struct evidence_source *source)
{
	const struct stage *stage = source->stage;
	struct history *h = calloc(1, sizeof *h);
	CHECK(h);
	*h = (struct history){
		.sku_count = PLAN_SKUS,
		.deadline_ns = (DEADLINE_MS + GRACE_MS) * MS,
		.sql_lag_ns = (SQL_LAG_MS + stage->plan->lease_ms) * MS,
		.recovery_ns = RECOVERY_MS * MS,
		.clock_slack_ns = CLOCK_SLACK_MS * MS,
		.origin_ns = stage->origin_ns,
	};
	h->skus = calloc(PLAN_SKUS, sizeof *h->skus);
	CHECK(h->skus);
	for (int i = 0; i < PLAN_SKUS; i++) {
		snprintf(h->skus[i].code, sizeof h->skus[i].code, "S%d", i);
		h->skus[i].safety_stock = stage->plan->skus[i].safety_stock;
		h->skus[i].tracked = i < PLAN_SKUS - 1;
	}
	read_ledger(source, h);
	for (size_t i = 0; i < source->client_count; i++) {
		const struct client *c = &source->clients[i];
		COPY(h->writes, h->write_count, c->writes, c->write_count);
		COPY(h->reads, h->read_count, c->reads, c->read_count);
		COPY(h->requests, h->request_count, c->requests, c->request_count);
	}
	COPY(h->sqls, h->sql_count, source->stranger->sqls, source->stranger->sql_count);
	COPY(h->outages, h->outage_count, stage->outages, stage->outage_count);
	COPY(h->outages, h->outage_count, source->stalls, source->stall_count);
	return h;
}

void evidence_free(struct history *h)
{
	if (h->sku_count)
		free(h->skus[0].entries);
	free(h->skus);
	free(h->writes);
	free(h->reads);
	free(h->requests);
	free(h->sqls);
	free(h->outages);
	free(h);
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

struct said {
	int64_t at_ns;
	char text[240];
};

struct story {
	const struct history *history;
	struct said *list;
	size_t count, room;
};

static __attribute__((format(printf, 3, 4))) void add(struct story *lines, int64_t at_ns, const char *format, ...)
{
	if (lines->count == lines->room) {
		lines->room = lines->room ? lines->room * 2 : 4096;
		lines->list = realloc(lines->list, lines->room * sizeof *lines->list);
		CHECK(lines->list);
	}
	struct said *line = &lines->list[lines->count++];
	line->at_ns = at_ns;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line->text, sizeof line->text, format, arguments);
	va_end(arguments);
}

static double told(const struct story *lines, int64_t time_ns)
{
	return (double)(time_ns - lines->history->origin_ns) / 1e9;
}

static void add_ledger(struct story *lines)
{
	for (size_t i = 0; i < lines->history->sku_count; i++) {
		const struct history_sku *sku = &lines->history->skus[i];
		for (size_t k = 0; k < sku->entry_count; k++) {
			const struct history_entry *e = &sku->entries[k];
			char id[UUID_TEXT_BYTES + 1];
			uuid_format(&e->operation_id, id);
			add(lines, e->at_ns,
			    "ledger   %s v%" PRId64 " %s %+" PRId64 "/%+" PRId64 " makes %" PRId64 "/%" PRId64 " %s", sku->code,
			    e->version, ledger_kind_name(e->kind), e->on_hand_delta, e->reserved_delta, e->on_hand_after,
			    e->reserved_after, id);
		}
	}
}

static void add_write(struct story *lines, const struct history_write *w)
{
	char object[UUID_TEXT_BYTES + 1], target[UUID_TEXT_BYTES + 1], text[200] = "", *to = text;
	uuid_format(&w->object, object);
	uuid_format(uuid_is_nil(&w->target) ? &w->other : &w->target, target);
	for (size_t i = 0; i < w->line_count; i++)
		to += snprintf(to, (size_t)(text + sizeof text - to), " S%d:%" PRId64 "@v%" PRId64, w->lines[i].sku,
		               w->lines[i].quantity, w->lines[i].version);
	add(lines, w->called_ns, "call     client %d %s kind %d%s of %s", w->client, w->key, w->kind, text, target);
	for (size_t i = 0; i < w->answer_count; i++)
		add(lines, w->answers[i].returned_ns, "answer   client %d %s %d %s%s %s", w->client, w->key,
		    w->answers[i].status, w->code, text, object);
}

static int compare_lines(const void *a, const void *b)
{
	const struct said *x = a, *y = b;
	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

void evidence_print(const struct history *h, FILE *out)
{
	static const char *const outages[] = {"dead", "stopped", "machine stood still", "fault"};
	struct story lines = {.history = h};
	add_ledger(&lines);
	for (size_t i = 0; i < h->write_count; i++)
		add_write(&lines, &h->writes[i]);
	for (size_t i = 0; i < h->read_count; i++) {
		const struct history_read *r = &h->reads[i];
		add(&lines, r->returned_ns,
		    "read     client %d instance %d from %.6f: S%d v%" PRId64 " available %" PRId64 " held %" PRId64 "%s",
		    r->client, r->instance, told(&lines, r->called_ns), r->sku, r->version, r->available, r->held,
		    r->hit ? " hit" : "");
	}
	for (size_t i = 0; i < h->sql_count; i++) {
		const struct history_sql *s = &h->sqls[i];
		add(&lines, s->returned_ns, "stranger from %.6f: S%d v%" PRId64 " %+" PRId64 "%s", told(&lines, s->called_ns),
		    s->sku, s->version, s->on_hand_delta, s->sure ? "" : ", not sure");
	}
	for (size_t i = 0; i < h->request_count; i++) {
		const struct history_request *r = &h->requests[i];
		if (r->status == 0 || r->status >= 500)
			add(&lines, r->returned_ns, "refused  client %d instance %d from %.6f: %d%s", r->client, r->instance,
			    told(&lines, r->called_ns), r->status, r->timed_out ? " timed out" : "");
	}
	for (size_t i = 0; i < h->outage_count; i++) {
		const struct history_outage *o = &h->outages[i];
		add(&lines, o->from_ns, "outage   %s of instance %d until %.6f", outages[o->kind], o->instance,
		    told(&lines, o->to_ns));
	}
	if (lines.count)
		qsort(lines.list, lines.count, sizeof *lines.list, compare_lines);
	for (size_t i = 0; i < lines.count; i++)
		fprintf(out, "%10.6f %s\n", told(&lines, lines.list[i].at_ns), lines.list[i].text);
	free(lines.list);
}
