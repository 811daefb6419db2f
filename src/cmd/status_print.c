/* The facts of `lastunit status`, as lines for people and as JSON for programs (status.h). */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/facts.h"
#include "cmd/status.h"

#define TEXT_ARGS(text) (int)(text).size, (text).data

static const char *const state_names[] =
	{"unknown", [EPOCH_OPEN] = "open", [EPOCH_CLOSING] = "closing", [EPOCH_CLOSED] = "closed"};

int status_exit_code(const struct status *status)
{
	if (!status->database.reachable)
		return EXIT_BACKEND;
	return weakness_any_promise(&status->findings) ? EXIT_FAILED : EXIT_OK;
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static void print_epoch(const struct status_database *d, const struct status_redis *r, FILE *out)
{
	char since[25];
	clock_format(d->epoch_since_us, since);
	facts_line(out, "epoch", "%s since %s (%s)%s%.*s", state_names[d->epoch.state], since,
	           facts_duration((clock_unix_us() + d->clock_ahead_us - d->epoch_since_us) / 1000),
	           d->epoch.namespace.size ? ", namespace " : "", TEXT_ARGS(d->epoch.namespace));
	if (d->epoch.state == EPOCH_OPEN)
		facts_line(out, "", "opened on %s PostgreSQL%s", d->epoch.genuine ? "this" : "another life of",
		           !r->reachable ? ""
		           : r->same     ? " and this Redis"
		                         : ", and on another Redis or another life of it");
	facts_line(out, "lease", "%lld ms: no cached answer is older than the last look at PostgreSQL by more",
	           (long long)d->epoch.lease_ms);
}

static void print_database(const struct status *status, FILE *out)
{
	const struct status_database *d = &status->database;
	if (!d->reachable) {
		facts_line(out, "PostgreSQL", "cannot be reached: %.*s", TEXT_ARGS(d->error));
		return;
	}
	facts_line(out, "PostgreSQL", "%.*s, database %.*s as %.*s, schema version %lld", TEXT_ARGS(d->version),
	           TEXT_ARGS(d->name), TEXT_ARGS(d->user), (long long)d->schema_version);
	facts_line(out, "instances", "%lld running", (long long)d->instances);
	print_epoch(d, &status->redis, out);
	facts_line(out, "holds", "%lld live, %lld %s reserved", (long long)d->holds_live, (long long)d->held_units,
	           text_plural(d->held_units, "unit", "units"));
	if (d->holds_due)
		facts_line(out, "due", "%lld %s over and about to end, the oldest for %s", (long long)d->holds_due,
		           text_plural(d->holds_due, "hold is", "holds are"), facts_duration(d->oldest_due_ms));
	else
		facts_line(out, "due", "no hold is overdue");
	if (d->relay_waiting)
		facts_line(out, "relay", "%lld %s, the oldest for %s", (long long)d->relay_waiting,
		           text_plural(d->relay_waiting, "change made in SQL waits", "changes made in SQL wait"),
		           facts_duration(d->relay_oldest_ms));
	else
		facts_line(out, "relay", "no change made in SQL is waiting");
	if (d->oldest.any)
		facts_line(out, "transactions", "the oldest for %s: %.*s, %.*s, pid %lld, %.*s",
		           facts_duration(d->oldest.age_ms), TEXT_ARGS(d->oldest.user), TEXT_ARGS(d->oldest.application),
		           (long long)d->oldest.pid, TEXT_ARGS(d->oldest.state));
	else
		facts_line(out, "transactions", "none is open%s", d->sessions_hidden ? " that this user may see" : "");
	if (d->sessions_hidden)
		facts_line(out, "", "others' are hidden from %.*s: GRANT pg_read_all_stats TO it", TEXT_ARGS(d->user));
}

static void print_redis(const struct status_redis *r, FILE *out)
{
	if (!r->configured) {
		facts_line(out, "Redis", "not looked at: no --redis-url");
		return;
	}
	if (!r->reachable) {
		facts_line(out, "Redis", "cannot be reached: %.*s", TEXT_ARGS(r->error));
		return;
	}
	if (r->memory_bytes_max)
		facts_line(out, "Redis", "%.*s, %.1f of %.1f MiB, %.*s", TEXT_ARGS(r->version),
		           (double)r->memory_bytes / 1048576, (double)r->memory_bytes_max / 1048576, TEXT_ARGS(r->policy));
	else
		facts_line(out, "Redis", "%.*s, %.1f MiB, no limit", TEXT_ARGS(r->version), (double)r->memory_bytes / 1048576);
	if (r->counted)
		facts_line(out, "cells", "values %lld, fills %lld, markers %lld (stuck %lld), foreign %lld%s",
		           (long long)r->values, (long long)r->fills, (long long)r->markers, (long long)r->stuck,
		           (long long)r->foreign, r->complete ? "" : ", of a part of the keys");
}

static void print_service(const struct status_service *s, FILE *out)
{
	if (!*s->url)
		return;
	facts_line(out, "instance", "%s%s", s->url, s->reachable ? "" : " does not answer"); /* the finding says why */
	if (!s->reachable)
		return;
	int64_t rate = status_hits_per_10000(s), lookups = s->hits + s->misses + s->bypasses + s->stale;
	if (rate < 0)
		facts_line(out, "hit rate", "no look-up yet");
	else
		facts_line(out, "hit rate", "%lld.%02lld %% of %lld %s since its start", (long long)(rate / 100),
		           (long long)(rate % 100), (long long)lookups, text_plural(lookups, "look-up", "look-ups"));
	facts_line(out, "read lease", "%s",
	           s->epoch_open ? "held: hits are served" : "not held: every read comes from PostgreSQL");
	facts_line(out, "scrub", "%lld %s, %lld wrong", (long long)s->scrub_checked,
	           text_plural(s->scrub_checked, "cell compared with its row", "cells compared with their rows"),
	           (long long)s->scrub_wrong);
	facts_line(out, "queue", "%lld %s, %lld %s", (long long)s->queue_depth,
	           text_plural(s->queue_depth, "operation waits", "operations wait"), (long long)s->connections,
	           text_plural(s->connections, "connection", "connections"));
}

void status_print(const struct status *status, FILE *out)
{
	const struct status_database *d = &status->database;
	const struct status_redis *r = &status->redis;
	char promises[32];
	print_database(status, out);
	print_redis(r, out);
	print_service(&status->service, out);
	if (d->reachable && r->reachable)
		facts_line(out, "clocks", "PostgreSQL %s, Redis %s against this machine", facts_offset(d->clock_ahead_us),
		           facts_offset(r->clock_ahead_us));
	else if (d->reachable)
		facts_line(out, "clocks", "PostgreSQL %s against this machine", facts_offset(d->clock_ahead_us));
	facts_findings(out, &status->findings);
	facts_promises(&status->findings, promises);
	if (!d->reachable)
		fputs("PostgreSQL cannot be reached: nothing is sold and nothing answered is lost until it can\n", out);
	else if (*promises)
		fprintf(out, "promises weakened: %s\n", promises);
	else
		fputs("all promises stand\n", out);
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static void json_database(struct json_writer *w, const struct status_database *d)
{
	json_key(w, "database");
	json_object_open(w);
	json_member_bool(w, "reachable", d->reachable);
	json_member_text(w, "error", d->error);
	json_member_text(w, "version", d->version);
	json_member_text(w, "name", d->name);
	json_member_text(w, "user", d->user);
	json_member_int(w, "schema_version", d->schema_version);
	json_member_int(w, "clock_ahead_us", d->clock_ahead_us);
	json_member_int(w, "instances", d->instances);
	json_object_close(w);
}

static void json_stock(struct json_writer *w, const struct status_database *d, const struct status_redis *r)
{
	json_key(w, "epoch");
	json_object_open(w);
	json_member_string(w, "state", state_names[d->epoch.state]);
	json_member_text(w, "namespace", d->epoch.namespace);
	json_key(w, "since");
	if (d->epoch_since_us)
		json_put_time(w, d->epoch_since_us);
	else
		json_put_null(w);
	json_member_bool(w, "same_database", d->epoch.genuine);
	json_member_bool(w, "same_redis", r->same);
	json_member_int(w, "lease_ms", d->epoch.lease_ms);
	json_object_close(w);
	json_key(w, "holds");
	json_object_open(w);
	json_member_int(w, "live", d->holds_live);
	json_member_int(w, "due", d->holds_due);
	json_member_int(w, "oldest_due_ms", d->oldest_due_ms);
	json_member_int(w, "units", d->held_units);
	json_object_close(w);
	json_key(w, "relay");
	json_object_open(w);
	json_member_int(w, "waiting", d->relay_waiting);
	json_member_int(w, "oldest_ms", d->relay_oldest_ms);
	json_object_close(w);
	json_key(w, "oldest_transaction");
	if (d->oldest.any) {
		json_object_open(w);
		json_member_int(w, "pid", d->oldest.pid);
		json_member_text(w, "user", d->oldest.user);
		json_member_text(w, "application", d->oldest.application);
		json_member_text(w, "state", d->oldest.state);
		json_member_int(w, "age_ms", d->oldest.age_ms);
		json_object_close(w);
	} else {
		json_put_null(w);
	}
	json_member_bool(w, "sessions_hidden", d->sessions_hidden);
}

static void json_redis(struct json_writer *w, const struct status_redis *r)
{
	json_key(w, "redis");
	if (!r->configured) {
		json_put_null(w);
		return;
	}
	json_object_open(w);
	json_member_bool(w, "reachable", r->reachable);
	json_member_text(w, "error", r->error);
	json_member_text(w, "version", r->version);
	json_member_text(w, "policy", r->policy);
	json_member_int(w, "memory_bytes", r->memory_bytes);
	json_member_int(w, "memory_bytes_max", r->memory_bytes_max);
	json_member_int(w, "clock_ahead_us", r->clock_ahead_us);
	json_key(w, "cells");
	if (r->counted) {
		json_object_open(w);
		json_member_bool(w, "complete", r->complete);
		json_member_int(w, "values", r->values);
		json_member_int(w, "fills", r->fills);
		json_member_int(w, "markers", r->markers);
		json_member_int(w, "stuck", r->stuck);
		json_member_int(w, "foreign", r->foreign);
		json_object_close(w);
	} else {
		json_put_null(w);
	}
	json_object_close(w);
}

static void json_service(struct json_writer *w, const struct status_service *s)
{
	json_key(w, "instance");
	if (!*s->url) {
		json_put_null(w);
		return;
	}
	json_object_open(w);
	json_member_string(w, "url", s->url);
	json_member_bool(w, "reachable", s->reachable);
	json_member_text(w, "error", s->error);
	if (s->reachable) {
		json_member_bool(w, "lease", s->epoch_open == 1);
		json_member_int(w, "hits", s->hits);
		json_member_int(w, "misses", s->misses);
		json_member_int(w, "bypasses", s->bypasses);
		json_member_int(w, "stale", s->stale);
		json_key(w, "hits_per_10000");
		if (status_hits_per_10000(s) < 0)
			json_put_null(w);
		else
			json_put_int(w, status_hits_per_10000(s));
		json_member_int(w, "scrub_checked", s->scrub_checked);
		json_member_int(w, "scrub_wrong", s->scrub_wrong);
		json_member_int(w, "relayed", s->relayed);
		json_member_int(w, "refreshes", s->refreshes);
		json_member_int(w, "outcome_unknown", s->outcome_unknown);
		json_member_int(w, "queue_depth", s->queue_depth);
		json_member_int(w, "connections", s->connections);
	}
	json_object_close(w);
}

void status_json(const struct status *status, struct buffer *out)
{
	struct json_writer w = json_writer(out);
	json_object_open(&w);
	json_member_bool(&w, "promises_stand", status_exit_code(status) == EXIT_OK);
	json_database(&w, &status->database);
	if (status->database.reachable)
		json_stock(&w, &status->database, &status->redis);
	json_redis(&w, &status->redis);
	json_service(&w, &status->service);
	facts_findings_json(&w, &status->findings);
	json_object_close(&w);
}
