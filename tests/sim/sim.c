/* The simulation: two real instances on a real PostgreSQL and a real Redis, clients and strangers, and faults, all drawn
 * from a seed; then the judge (history.h), the audit, and a verdict.
 *
 *	sim [--seconds S] [--keep] [--stop] SEED | FIRST..LAST | forever MINUTES FIRST
 *
 * --keep: the history of every seed is left, not only of one that failed. --stop: after the first that failed.
 *
 * Happy path, per seed: draw the plan, set the stage, let everybody loose for S seconds while faults come and go, end the
 * faults, let the clients finish, wait until the last hold has ended, look at everything once more, audit, judge.
 * Failure modes: a seed that fails prints what was broken, how to replay it, and where its logs and its history lie. Exit
 * code 0: every seed held, 1: one did not, 2: usage, 3: a server could not be had.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "sim/client.h"
#include "sim/evidence.h"
#include "sim/plan.h"
#include "sim/stage.h"
#include "sim/stranger.h"

#define MS INT64_C(1000000)
#define TURN_US 3000
#define FINISH_MS 25000 /* for the clients to get their last answers, once nothing is broken any more */
#define HOLDS_TURNS 750 /* of 20 ms, for the last holds to end: they last 2 s. Turns, for we may be stopped ourselves */
#define STALLS_MAX 256
#define STALL_MS 60 /* a nap of 10 ms that took longer: the machine did not run us */

struct run {
	struct stage *stage;
	struct plan plan;
	struct market market;
	struct client clients[PLAN_CLIENTS_MAX + 1]; /* the last one looks at the end */
	struct stranger stranger;
	pthread_t threads[PLAN_CLIENTS_MAX], stranger_thread, locker_thread, heart_thread;
	_Atomic bool heart_stops;
	struct history_outage stalls[STALLS_MAX];
	size_t stall_count;
	bool holds_ended, audited;
};

/* --- the machine itself ------------------------------------------------------------------------------------------- */

static void *heart_main(void *context)
{
	struct run *run = context;
	int64_t last_ns = stage_now_ns();
	while (!atomic_load(&run->heart_stops)) {
		usleep(10000);
		int64_t now_ns = stage_now_ns();
		if (now_ns - last_ns > STALL_MS * MS && run->stall_count < STALLS_MAX)
			run->stalls[run->stall_count++] = (struct history_outage){HISTORY_STALL, -1, last_ns, now_ns};
		last_ns = now_ns;
	}
	return NULL;
}

static int64_t unix_minus_monotonic_ns(void)
{
	struct timespec real;
	int64_t before_ns = stage_now_ns();
	clock_gettime(CLOCK_REALTIME, &real);
	int64_t after_ns = stage_now_ns();
	return (int64_t)real.tv_sec * 1000 * MS + real.tv_nsec - (before_ns + after_ns) / 2;
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

static void thread_start(pthread_t *thread, void *(*main_of)(void *), void *context)
{
	CHECK(pthread_create(thread, NULL, main_of, context) == 0);
}

static void let_loose(struct run *run)
{
	struct market *market = &run->market;
	market->plan = &run->plan;
	market->unix_minus_monotonic_ns = unix_minus_monotonic_ns();
	for (int i = 0; i < PLAN_INSTANCES; i++)
		market->addresses[i] = run->stage->instances[i].address;
	stranger_init(&run->stranger, run->stage);
	thread_start(&run->heart_thread, heart_main, run);
	for (int i = 0; i <= run->plan.clients; i++)
		client_init(&run->clients[i], market, i);
	for (int i = 0; i < run->plan.clients; i++)
		thread_start(&run->threads[i], client_main, &run->clients[i]);
	if (run->plan.strangers)
		thread_start(&run->stranger_thread, stranger_main, &run->stranger);
	thread_start(&run->locker_thread, locker_main, &run->stranger);
}

/* Everybody stops; instances that die meanwhile are nobody's plan any more, and are complained of. */
static void call_in(struct run *run)
{
	atomic_store(&run->market.closing, true);
	atomic_store(&run->market.give_up_ns, stage_now_ns() + FINISH_MS * MS);
	atomic_store(&run->stranger.closing, true);
	for (int i = 0; i < run->plan.clients; i++)
		pthread_join(run->threads[i], NULL);
	if (run->plan.strangers)
		pthread_join(run->stranger_thread, NULL);
	pthread_join(run->locker_thread, NULL);
	stage_turn(run->stage);
}

static bool wait_for_holds(struct run *run)
{
	for (int turn = 0; turn < HOLDS_TURNS; turn++) {
		if (strcmp(pg_server_ask(run->stage->url, "SELECT count(*) FROM lastunit.hold"), "0") == 0)
			return true;
		stage_turn(run->stage);
		usleep(20000);
	}
	return false;
}

static void perform(struct run *run)
{
	struct stage *stage = run->stage;
	stage_begin(stage, &run->plan);
	let_loose(run);
	int64_t end_ns = stage->origin_ns + run->plan.run_ms * MS;
	while (stage_now_ns() < end_ns) {
		stage_turn(stage);
		usleep(TURN_US);
	}
	stage_calm(stage);
	call_in(run);
	run->holds_ended = wait_for_holds(run);
	client_look_everywhere(&run->clients[run->plan.clients]);
	run->audited = stage_audit(stage);
	atomic_store(&run->heart_stops, true);
	pthread_join(run->heart_thread, NULL);
}

/* --- the verdict -------------------------------------------------------------------------------------------------- */

static unsigned show(const char *sentence)
{
	printf("  %s\n", sentence);
	return 1;
}

static unsigned show_all(struct run *run, const struct history_report *report)
{
	unsigned shown = report->total;
	char text[600];
	for (size_t i = 0; i < report->shown_count; i++)
		show(report->shown[i]);
	if (report->total > report->shown_count)
		printf("  … and %zu more\n", report->total - report->shown_count);
	for (int i = 0; i <= run->plan.clients; i++)
		if (run->clients[i].complaint[0]) {
			snprintf(text, sizeof text, "client %d: %s", i, run->clients[i].complaint);
			shown += show(text);
		}
	for (size_t i = 0; i < run->stage->complaint_count; i++)
		shown += show(run->stage->complaints[i]);
	if (run->stranger.complaint[0])
		shown += show(run->stranger.complaint);
	if (!run->holds_ended)
		shown += show("some holds did not end");
	if (!run->audited) {
		snprintf(text, sizeof text, "the audit found something: %s/audit", run->stage->directory);
		shown += show(text);
	}
	return shown;
}

static size_t summarize(const struct run *run, const struct history *h, double took_s)
{
	size_t done = 0, refused = 0, replays = 0, tries = 0, unanswered_reads = 0, hits = 0;
	for (size_t i = 0; i < h->write_count; i++) {
		done += h->writes[i].answer_count && h->writes[i].answers[0].status < 300;
		refused += h->writes[i].answer_count && h->writes[i].answers[0].status >= 300;
		replays += h->writes[i].answer_count > 1;
	}
	for (int i = 0; i <= run->plan.clients; i++) {
		tries += run->clients[i].tries;
		unanswered_reads += run->clients[i].refused_reads;
	}
	for (size_t i = 0; i < h->read_count; i++)
		hits += h->reads[i].hit;
	printf("seed %-6" PRIu64
	       " %4.1f s  %5zu reads (%2.0f %% hits, %zu had none)  %4zu done, %4zu refused, %3zu again,"
	       " %4zu tries  %3zu by strangers  %2d faults\n",
	       run->plan.seed, took_s, h->read_count, h->read_count ? 100.0 * (double)hits / (double)h->read_count : 0.0,
	       unanswered_reads, done, refused, replays, tries, h->sql_count, run->plan.fault_count);
	return hits;
}

static void keep_evidence(const struct run *run, const struct history *history)
{
	char path[160];
	snprintf(path, sizeof path, "%s/history-%" PRIu64, run->stage->directory, run->plan.seed);
	FILE *out = fopen(path, "w");
	if (!out)
		return;
	plan_print(&run->plan, out);
	evidence_print(history, out);
	fclose(out);
	printf("  logs and the whole history: %s\n", path);
}

static bool run_seed(struct stage *stage, uint64_t seed, int64_t run_ms, bool keep, size_t *hits)
{
	struct run *run = calloc(1, sizeof *run);
	CHECK(run);
	int64_t began_ns = stage_now_ns();
	run->stage = stage;
	run->plan = plan_draw(seed, run_ms);
	perform(run);
	struct history *history = evidence_gather(&(struct evidence_source){
		.stage = stage,
		.clients = run->clients,
		.client_count = (size_t)run->plan.clients + 1,
		.stranger = &run->stranger,
		.stalls = run->stalls,
		.stall_count = run->stall_count,
		.unix_minus_monotonic_ns = run->market.unix_minus_monotonic_ns,
	});
	stage_end(stage);
	struct history_report report;
	history_check(history, &report);
	*hits += summarize(run, history, (double)(stage_now_ns() - began_ns) / 1e9);
	unsigned broken = show_all(run, &report);
	if (broken) {
		plan_print(&run->plan, stdout);
		printf("  replay: make sim SEED=%" PRIu64 " SECONDS_EACH=%g\n", seed, (double)run_ms / 1000);
	}
	if (broken || keep)
		keep_evidence(run, history);
	fflush(stdout);
	history_report_done(&report);
	evidence_free(history);
	for (int i = 0; i <= run->plan.clients; i++)
		client_done(&run->clients[i]);
	stranger_done(&run->stranger);
	free(run);
	return !broken;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static void find_binary(char out[PATH_MAX])
{
	const char *given = getenv("LASTUNIT_BIN");
	ssize_t size = readlink("/proc/self/exe", out, PATH_MAX - 16);
	if (given && *given) {
		snprintf(out, PATH_MAX, "%s", given);
		return;
	}
	if (size > 0)
		out[size] = 0;
	char *tests = size > 0 ? strstr(out, "/tests/sim/") : NULL;
	if (tests)
		strcpy(tests, "/lastunit");
}

static int usage(void)
{
	fputs("usage: sim [--seconds S] [--keep] [--stop] SEED | FIRST..LAST | forever MINUTES FIRST\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static struct stage stage;
	double seconds = 4;
	bool keep = false, stop = false;
	uint64_t first = 0, last = 0;
	int64_t until_ns = INT64_MAX;
	int at = 1;
	for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
		if (strcmp(argv[at], "--keep") == 0)
			keep = true;
		else if (strcmp(argv[at], "--stop") == 0)
			stop = true;
		else if (strcmp(argv[at], "--seconds") == 0 && at + 1 < argc)
			seconds = atof(argv[++at]);
		else
			return usage();
	}
	if (at == argc - 3 && strcmp(argv[at], "forever") == 0) {
		until_ns = stage_now_ns() + (int64_t)(atof(argv[at + 1]) * 60e9);
		first = strtoull(argv[at + 2], NULL, 10);
		last = UINT64_MAX;
	} else if (at == argc - 1) {
		char *end;
		first = last = strtoull(argv[at], &end, 10);
		if (strncmp(end, "..", 2) == 0)
			last = strtoull(end + 2, NULL, 10);
	} else {
		return usage();
	}
	if (seconds < 1 || seconds > 600 || last < first)
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	char binary[PATH_MAX], directory[64];
	find_binary(binary);
	if (access(binary, X_OK)) {
		fprintf(stderr, "sim: %s cannot be run; set LASTUNIT_BIN\n", binary);
		return 2;
	}
	snprintf(directory, sizeof directory, "/tmp/lastunit-sim-XXXXXX");
	if (!mkdtemp(directory)) {
		fprintf(stderr, "sim: %s: %s\n", directory, strerror(errno));
		return 3;
	}
	stage_open(&stage, binary, directory);
	unsigned failed = 0, total = 0;
	size_t hits = 0;
	for (uint64_t seed = first; seed <= last && stage_now_ns() < until_ns && !(stop && failed); seed++, total++)
		failed += !run_seed(&stage, seed, (int64_t)(seconds * 1000), keep, &hits);
	stage_close(&stage);
	/* What passes with a cache that is never used proves nothing. */
	if (total && !hits && !failed)
		printf("no read was ever served from Redis\n");
	failed += total && !hits;
	printf("%u seeds, %u failed\n", total, failed);
	if (!failed && !keep) {
		char command[100];
		snprintf(command, sizeof command, "rm -rf %s", directory);
		if (system(command))
			fprintf(stderr, "sim: %s is left\n", directory);
	}
	return failed ? 1 : 0;
}
