/* What ten thousand open connections cost those who ask: availability hits per second by 64 clients, alone and beside
 * 10,000 others, who have asked once and are silent since; in turns, so that a noisy moment falls on both sides.
 *
 *	connections_bench [ROUNDS [SECONDS_EACH]]
 *
 * It prints medians and ratios: hits per second beside the others, which must be at least 0.9 of those alone; the CPU of
 * the service for each; its memory, which must stay under 200 MiB; and the p99 of a hit against its p50, 3 at most.
 * Load and service share the machine. Exit code 1 if one is missed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "lib/process.h"
#include "lib/shop.h"

enum { OTHERS = 10000, CLIENTS = 64, SKUS = 1000, ROUNDS_MAX = 50, ANSWER_BYTES = 4096, HITS_MAX = 2000000 };

#define RATE_MIN 0.9
#define RESIDENT_MIB_MAX 200
#define TAIL_MAX 3.0

struct client {
	int fd;
	unsigned next; /* SKU to ask for */
	int64_t asked_ns;
	size_t size; /* of the answer so far */
	char answer[ANSWER_BYTES];
};

static int others[OTHERS];
static struct client clients[CLIENTS];
static float took_us[HITS_MAX];
static size_t hits;

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "connections_bench: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* --- one exchange ------------------------------------------------------------------------------------------------- */

static int come(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	                              .sin_port = htons((uint16_t)shop.port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
		give_up("connect");
	return fd;
}

static void ask(int fd, unsigned sku)
{
	char text[300];
	int size = snprintf(text, sizeof text,
	                    "GET /v1/availability/OPEN-%u HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n",
	                    sku % SKUS, shop.key_web);
	if (send(fd, text, (size_t)size, MSG_NOSIGNAL) != size)
		give_up("send");
}

/* True when `size` bytes are a whole answer; ends the program if it is not a 200. */
static bool is_whole(const char *answer, size_t size)
{
	const char *end = memmem(answer, size, "\r\n\r\n", 4), *length = memmem(answer, size, "Content-Length: ", 16);
	if (!end)
		return false;
	CHECK(length && memcmp(answer, "HTTP/1.1 200", 12) == 0);
	return size >= (size_t)(end + 4 - answer) + (size_t)atoi(length + 16);
}

/* --- the others --------------------------------------------------------------------------------------------------- */

static void open_others(void)
{
	for (int i = 0; i < OTHERS; i++) {
		char answer[ANSWER_BYTES];
		size_t size = 0;
		others[i] = come();
		ask(others[i], (unsigned)i);
		while (!is_whole(answer, size)) {
			ssize_t n = recv(others[i], answer + size, sizeof answer - size, 0);
			if (n <= 0)
				give_up("recv");
			size += (size_t)n;
		}
	}
}

static void close_others(void)
{
	for (int i = 0; i < OTHERS; i++)
		close(others[i]);
	while (shop_metric(&shop, "lastunit_http_connections") > CLIENTS + 10)
		shop_sleep_ms(20);
}

/* --- those who ask ------------------------------------------------------------------------------------------------ */

static void ask_again(struct client *client)
{
	client->size = 0;
	client->asked_ns = clock_boottime_ns();
	client->next += 7;
	ask(client->fd, client->next);
}

static void take(struct client *client)
{
	ssize_t n = recv(client->fd, client->answer + client->size, sizeof client->answer - client->size, 0);
	if (n <= 0)
		give_up("recv");
	client->size += (size_t)n;
	if (!is_whole(client->answer, client->size))
		return;
	if (hits < HITS_MAX)
		took_us[hits] = (float)(clock_boottime_ns() - client->asked_ns) / 1e3F;
	hits++;
	ask_again(client);
}

static void ask_for(int epoll, double seconds)
{
	struct epoll_event events[CLIENTS];
	int64_t until_ns = clock_boottime_ns() + (int64_t)(seconds * 1e9);
	hits = 0;
	while (clock_boottime_ns() < until_ns) {
		int count = epoll_wait(epoll, events, CLIENTS, 100);
		for (int i = 0; i < count; i++)
			take(events[i].data.ptr);
	}
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof *values, compare);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

enum { ALONE, BESIDE, SIDES };
static double rates[SIDES][ROUNDS_MAX], costs[SIDES][ROUNDS_MAX], tails[SIDES][ROUNDS_MAX];
static int64_t resident_kib;

static void play(int epoll, int round, double seconds)
{
	static const char *const names[SIDES] = {"alone", "beside 10,000"};
	for (int i = 0; i < SIDES; i++) {
		int side = (i + round) % SIDES;
		pid_t serve = shop_child("lastunit");
		if (side == BESIDE)
			open_others();
		ask_for(epoll, 0.5); /* what opening and closing cost is not asked */
		int64_t cpu_us = process_cpu_us(serve);
		ask_for(epoll, seconds);
		cpu_us = process_cpu_us(serve) - cpu_us;
		size_t kept = hits < HITS_MAX ? hits : HITS_MAX;
		qsort(took_us, kept, sizeof *took_us, by_size);
		double p50 = took_us[kept / 2], p99 = took_us[kept * 99 / 100];
		rates[side][round] = (double)hits / seconds;
		costs[side][round] = (double)cpu_us / (double)hits;
		tails[side][round] = p99 / p50;
		if (side == BESIDE && process_resident_kib(serve) > resident_kib)
			resident_kib = process_resident_kib(serve);
		printf("round %d, %-14s %7.0f hits/s, %5.1f us of CPU each; p50 %.2f ms, p99 %.2f ms\n", round + 1, names[side],
		       rates[side][round], costs[side][round], p50 / 1e3, p99 / 1e3);
		if (side == BESIDE)
			close_others();
	}
}

static int judge(const char *what, double value, const char *bound, bool good)
{
	printf("%-46s %8.2f   %-14s %s\n", what, value, bound, good ? "ok" : "MISSED");
	return !good;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5, missed = 0;
	double seconds = argc > 2 ? atof(argv[2]) : 4;
	rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){OTHERS + 2000, OTHERS + 2000}) != 0)
		give_up("as many descriptors as connections");
	shop_open(NULL);
	shop_sql("INSERT INTO lastunit.sku (code, on_hand) SELECT 'OPEN-' || n, 1000 FROM generate_series(0, 999) n");
	shop_warm(&shop, "OPEN-0");
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < CLIENTS; i++) {
		clients[i].fd = come();
		clients[i].next = (unsigned)i * 31;
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0)
			give_up("epoll");
		ask_again(&clients[i]);
	}
	ask_for(epoll, 2); /* every cell is filled */
	for (int round = 0; round < rounds; round++)
		play(epoll, round, seconds);
	double rate = median(rates[ALONE], rounds), cost = median(costs[ALONE], rounds);
	printf("\nmedians of %d rounds of %.0f s, %d clients: %.0f hits/s of %.1f us alone\n", rounds, seconds, CLIENTS,
	       rate, cost);
	double ratio = median(rates[BESIDE], rounds) / rate, tail = median(tails[ALONE], rounds);
	double mib = (double)resident_kib / 1024;
	printf("%-46s %8.2f\n", "CPU of a hit beside 10,000 open connections", median(costs[BESIDE], rounds) / cost);
	missed += judge("hits/s beside 10,000 open connections", ratio, "at least 0.9", ratio >= RATE_MIN);
	missed += judge("MiB resident then", mib, "at most 200", mib <= RESIDENT_MIB_MAX);
	missed += judge("p99 of a hit by its p50", tail, "at most 3", tail <= TAIL_MAX);
	close(epoll);
	for (int i = 0; i < CLIENTS; i++)
		close(clients[i].fd);
	return shop_close(NULL) || missed;
}
