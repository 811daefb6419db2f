/* What a turn on a channel adds to the plain call, in CPU: the same SKU looked at, and one of it held, by the API, by
 * MCP, by a press in Telegram, by an intent and a "yes" to Alexa.
 *
 * One client, one call at a time. A round makes a few of each on a SKU of its own. What a way costs is the lower
 * quartile of many rounds, because noise only adds; what it adds is the median of the differences within each round,
 * because a round's noise falls on all of its ways. CPU time is that of every process of `lastunit dev`, for a channel
 * that spares the service and asks PostgreSQL twice has spared nothing; less what they use while nobody calls
 * (keepers, PostgreSQL's own work), or a turn that takes longer would seem to cost that, too. A turn may add
 * TARGET_US; exit code 1 if one adds more.
 *
 *	make bench, or build/release/tests/bench/channel_bench [ROUNDS]
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "lib/service.h"

#define TURNS 10
#define ROUNDS_MAX 1000
#define TARGET_US 300
#define IDLE_S 3

enum way { PLAIN, MCP, TELEGRAM, ALEXA, WAYS };
static const char *const way_names[WAYS] = {"the API", "MCP", "Telegram", "Alexa"};
enum deed { LOOK, HOLD, DEEDS };
static const char *const deed_names[DEEDS] = {"look", "hold"};

static struct service shop;
static char telegram_secret[64], application[80];

/* A round's SKU and what each look handed out for the hold that follows. */
static char sku[32], title[32];
static char offers[TURNS][64], presses[TURNS][65], states[TURNS][400],
	check[65]; /* check: the button that looks again */

/* --- CPU ---------------------------------------------------------------------------------------------------------- */

static double cpu_us_of(pid_t pid)
{
	clockid_t clock;
	struct timespec used = {0};
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/* Those whom `pid` started, and whom they did. *ret_serve: the service's own part. */
static double cpu_us_below(pid_t pid, double *ret_serve)
{
	char path[64], name[32] = "";
	double sum = 0;
	int child;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
	FILE *children = fopen(path, "re");
	while (children && fscanf(children, "%d", &child) == 1) {
		double own = cpu_us_of(child);
		snprintf(path, sizeof path, "/proc/%d/comm", child);
		FILE *comm = fopen(path, "re");
		if (comm && fscanf(comm, "%31s", name) == 1 && strcmp(name, "lastunit") == 0)
			*ret_serve += own;
		if (comm)
			fclose(comm);
		sum += own + cpu_us_below(child, ret_serve);
	}
	if (children)
		fclose(children);
	return sum;
}

struct used {
	double all_us, serve_us, wall_us;
};

/* So far. */
static struct used used_now(void)
{
	struct used used = {.wall_us = (double)clock_boottime_ns() / 1e3};
	used.all_us = cpu_us_below(shop.pid, &used.serve_us);
	return used;
}

/* Since then; `idle`: what is used in a microsecond in which nobody calls. */
static struct used used_since(struct used then, struct used idle)
{
	struct used now = used_now();
	double wall_us = now.wall_us - then.wall_us;
	return (struct used){.all_us = now.all_us - then.all_us - wall_us * idle.all_us,
	                     .serve_us = now.serve_us - then.serve_us - wall_us * idle.serve_us,
	                     .wall_us = wall_us};
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

static const char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *format(const char *format, ...)
{
	static char ring[8][2000];
	static unsigned next;
	char *out = ring[next++ % 8];
	va_list arguments;
	va_start(arguments, format);
	CHECK((size_t)vsnprintf(out, sizeof ring[0], format, arguments) < sizeof ring[0]);
	va_end(arguments);
	return out;
}

static struct answer call(const char *key, const char *method, const char *path, const char *headers, const char *body,
                          int status)
{
	struct answer answer = service_call(&shop, key, method, path, headers, body);
	if (answer.status != status) {
		fprintf(stderr, "%s %s: %d %s\n", method, path, answer.status, answer.body ? answer.body : "");
		abort();
	}
	return answer;
}

/* What a member said, which must have something to say, or the turn was another one than is measured. */
static void keep(const struct answer *answer, const char *path, char *out, size_t room)
{
	snprintf(out, room, "%s", answer_string(answer, path));
	if (!*out) {
		fprintf(stderr, "no %s in %s\n", path, answer->body);
		abort();
	}
}

static void plain(enum deed deed, int turn)
{
	struct answer answer = deed == LOOK
	                           ? call(shop.key_web, "GET", format("/v1/skus/%s", sku), NULL, NULL, 200)
	                           : call(shop.key_web, "POST", "/v1/reservations", NULL,
	                                  format("{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}",
	                                         service_new_key(), sku),
	                                  201);
	answer_done(&answer);
}

static void mcp(enum deed deed, int turn)
{
	const char *arguments = deed == LOOK ? format("{\"skus\":[\"%s\"]}", sku)
	                                     : format("{\"offer_id\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}",
	                                              offers[turn], sku);
	struct answer answer = call(shop.key_agent, "POST", "/mcp", "MCP-Protocol-Version: 2025-11-25\r\n",
	                            format("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":"
	                                   "{\"name\":\"%s\",\"arguments\":%s}}",
	                                   deed == LOOK ? "check_stock" : "hold", arguments),
	                            200);
	char id[40];
	if (deed == LOOK)
		keep(&answer, "result.structuredContent.offer_id", offers[turn], sizeof offers[turn]);
	else
		keep(&answer, "result.structuredContent.hold_id", id, sizeof id);
	answer_done(&answer);
}

static struct answer telegram_call(const char *update)
{
	static int update_id;
	return call(NULL, "POST", "/channels/telegram", format("X-Telegram-Bot-Api-Secret-Token: %s\r\n", telegram_secret),
	            format("{\"update_id\":%d,%s}", ++update_id, update), 200);
}

/* The search that a chat begins with: what a button that looks again carries. Not measured. */
static void telegram_begin(void)
{
	struct answer answer = telegram_call(
		format("\"message\":{\"message_id\":1,\"from\":{\"id\":1},\"chat\":{\"id\":1},\"date\":1,\"text\":\"%s\"}",
	           title));
	keep(&answer, "reply_markup.inline_keyboard.0.1.callback_data", check, sizeof check);
	answer_done(&answer);
}

static void telegram(enum deed deed, int turn)
{
	struct answer answer = telegram_call(
		format("\"callback_query\":{\"id\":\"q\",\"from\":{\"id\":%d,\"language_code\":\"en\"},"
	           "\"message\":{\"message_id\":5,\"chat\":{\"id\":%d},\"text\":\"x\"},\"data\":\"%s\"}",
	           turn + 1, turn + 1, deed == LOOK ? check : presses[turn]));
	char data[65];
	keep(&answer, "reply_markup.inline_keyboard.0.0.callback_data", deed == LOOK ? presses[turn] : data, sizeof data);
	CHECK(deed == LOOK ? *presses[turn] == 'h' : *data == 'b');
	answer_done(&answer);
}

static void alexa(enum deed deed, int turn)
{
	char stamp[32];
	struct tm tm;
	time_t now = time(NULL);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	const char *intent =
		deed == LOOK ? format(
						   "{\"name\":\"Find\",\"slots\":{\"p\":{\"name\":\"p\",\"value\":\"it\",\"resolutions\":"
						   "{\"resolutionsPerAuthority\":[{\"status\":{\"code\":\"ER_SUCCESS_MATCH\"},\"values\":"
						   "[{\"value\":{\"id\":\"%s\",\"name\":\"it\"}}]}]}}}}",
						   sku)
					 : "{\"name\":\"AMAZON.YesIntent\"}";
	const char *attributes = deed == LOOK ? "{}" : format("{\"state\":\"%s\"}", states[turn]);
	struct answer answer = call(
		NULL, "POST", "/channels/alexa", NULL,
		format("{\"version\":\"1.0\",\"session\":{\"sessionId\":\"s\",\"user\":{\"userId\":\"u%d\"},\"attributes\":%s},"
	           "\"context\":{\"System\":{\"application\":{\"applicationId\":\"%s\"}}},\"request\":{\"type\":"
	           "\"IntentRequest\",\"requestId\":\"r\",\"timestamp\":\"%s\",\"locale\":\"en-US\",\"intent\":%s}}",
	           turn, attributes, application, stamp, intent),
		200);
	char state[400];
	keep(&answer, "sessionAttributes.state", deed == LOOK ? states[turn] : state, sizeof state);
	CHECK(deed == LOOK ? *states[turn] == 'h' : *state == 'b');
	answer_done(&answer);
}

static void (*const ways[WAYS])(enum deed deed, int turn) = {plain, mcp, telegram, alexa};

/* --- rounds ------------------------------------------------------------------------------------------------------- */

static void open_shop(void)
{
	char path[200], line[200];
	service_start(&shop, NULL);
	snprintf(path, sizeof path, "%s/dev.env", shop.directory);
	FILE *env = fopen(path, "re");
	CHECK(env);
	while (fgets(line, sizeof line, env)) {
		sscanf(line, "LASTUNIT_TELEGRAM_SECRET=%63s", telegram_secret);
		sscanf(line, "LASTUNIT_ALEXA_APPLICATION=%79s", application);
	}
	fclose(env);
	/* Nobody holds as much in earnest. */
	static const char *const names[] = {"web", "agent", "telegram", "voice"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		CHECK(service_run(&shop, (const char *[]){"key", "set", names[i], "--holds-max", "0", "--caller-holds-max", "0",
		                                          "--caller-held-units-max", "0", NULL}) == 0);
}

static void round_begin(int round)
{
	snprintf(sku, sizeof sku, "BENCH-%d", round);
	snprintf(title, sizeof title, "w%dx", 100000 + round);
	struct answer answer = call(shop.key_admin, "PUT", format("/v1/skus/%s", sku), NULL,
	                            format("{\"on_hand\":100000,\"titles\":{\"en\":\"%s\"}}", title), 201);
	answer_done(&answer);
}

static struct used idle_use(void)
{
	struct used used = used_now();
	sleep(IDLE_S);
	used = used_since(used, (struct used){0});
	return (struct used){.all_us = used.all_us / used.wall_us, .serve_us = used.serve_us / used.wall_us};
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quartile(double *values, int count)
{
	qsort(values, (size_t)count, sizeof *values, compare);
	return values[count / 4];
}

static double median_difference(const double *values, const double *others, int count)
{
	static double differences[ROUNDS_MAX];
	for (int i = 0; i < count; i++)
		differences[i] = values[i] - others[i];
	qsort(differences, (size_t)count, sizeof *differences, compare);
	return (differences[(count - 1) / 2] + differences[count / 2]) / 2;
}

int main(int argc, char **argv)
{
	static double all[DEEDS][WAYS][ROUNDS_MAX], serve[DEEDS][WAYS][ROUNDS_MAX];
	int rounds = argc > 1 ? atoi(argv[1]) : 150, missed = 0;
	CHECK(rounds > 0 && rounds <= ROUNDS_MAX);
	open_shop();
	struct used idle = {0};
	for (int round = -1; round < rounds; round++) { /* the first warms up */
		round_begin(round + 1);
		telegram_begin();
		for (int deed = 0; deed < DEEDS; deed++)
			for (int i = 0; i < WAYS; i++) {
				int way = (i + round + WAYS) % WAYS; /* whoever holds first finds fewer holds there */
				struct used used = used_now();
				for (int turn = 0; turn < TURNS; turn++)
					ways[way](deed, turn);
				used = used_since(used, idle);
				if (round < 0)
					continue;
				all[deed][way][round] = used.all_us / TURNS;
				serve[deed][way][round] = used.serve_us / TURNS;
			}
		if (round < 0)
			idle = idle_use();
	}
	CHECK(service_stop(&shop) == 0);

	printf("CPU of a turn in us, the lower quartile of %d rounds of %d: of all processes, of the service alone\n",
	       rounds, TURNS);
	printf("(less %.1f %% and %.1f %% of a core, which they use while nobody calls)\n\n", 100 * idle.all_us,
	       100 * idle.serve_us);
	for (int deed = 0; deed < DEEDS; deed++) {
		double added[WAYS], added_serve[WAYS];
		for (int way = 0; way < WAYS; way++) { /* before quartile() puts them in order */
			added[way] = median_difference(all[deed][way], all[deed][PLAIN], rounds);
			added_serve[way] = median_difference(serve[deed][way], serve[deed][PLAIN], rounds);
		}
		for (int way = 0; way < WAYS; way++) {
			printf("%-5s by %-10s %6.0f %6.0f", deed_names[deed], way_names[way], quartile(all[deed][way], rounds),
			       quartile(serve[deed][way], rounds));
			if (way != PLAIN)
				printf("   adds %6.0f %6.0f, at most %d   %s", added[way], added_serve[way], TARGET_US,
				       added[way] <= TARGET_US ? "ok" : "MISSED");
			printf("\n");
			missed += way != PLAIN && added[way] > TARGET_US;
		}
	}
	return missed != 0;
}
