/* What a thousand event streams cost those who buy: checkouts per second without streams, with streams that watch what
 * nobody buys, and with streams that watch what is being sold (most of them one SKU, every second of those the hottest,
 * and a few everything); in turns, so that a noisy moment falls on all three.
 *
 *	stream_bench [ROUNDS [SECONDS_EACH]]
 *
 * It prints medians and ratios: of the checkouts per second, which must be at least 0.95 (src/api/README.md), and
 * of the CPU that a checkout takes, of all processes of `lastunit dev`. Buyers and listeners run on the same
 * machine and take their part of it; the listeners' reading is in the first ratio and not in the second. Exit code
 * 1 if a rate is below 0.95.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/crowd.h"
#include "lib/http_client.h"
#include "lib/process.h"
#include "lib/shop.h"

enum { STREAMS = 1000, BUYERS = 16, SKUS = 100, ROUNDS_MAX = 50 };

static struct http_client streams[STREAMS];
static _Atomic int64_t sold, heard_bytes;
static int ear;

static void buy(int index, void *context)
{
	char sku[32];
	for (int i = index; !crowd_is_over(); i++) {
		/* Every second sale is of the hottest. */
		snprintf(sku, sizeof sku, "STREAM-%d", i % 2 ? i % SKUS : 0);
		if (service_sell(&shop, shop.key_pos, NULL, sku, 1) == 201)
			sold++;
	}
}

static void listen_to_all(int index, void *context)
{
	static char bytes[65536];
	struct epoll_event events[64];
	while (!crowd_is_over()) {
		int count = epoll_wait(ear, events, 64, 100);
		for (int i = 0; i < count; i++) {
			ssize_t n = read(events[i].data.fd, bytes, sizeof bytes);
			if (n > 0)
				heard_bytes += n;
			else
				epoll_ctl(ear, EPOLL_CTL_DEL, events[i].data.fd, NULL);
		}
	}
}

static void open_streams(bool sold_ones)
{
	char request[300];
	for (int i = 0; i < STREAMS; i++) {
		streams[i] = http_client(shop.url, NULL);
		char query[40] = ""; /* everything */
		if (!sold_ones)
			snprintf(query, sizeof query, "?sku=OTHER-%d", i % SKUS);
		else if (i % 100)
			snprintf(query, sizeof query, "?sku=STREAM-%d", i % 2 ? 0 : i % SKUS);
		snprintf(request, sizeof request,
		         "GET /v1/events%s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", query, shop.key_web);
		if (!http_client_open(&streams[i]) || !http_client_send_text(&streams[i], request)) {
			fprintf(stderr, "stream_bench: %s\n", streams[i].error);
			exit(1);
		}
		struct epoll_event event = {.events = EPOLLIN, .data.fd = streams[i].fd};
		epoll_ctl(ear, EPOLL_CTL_ADD, streams[i].fd, &event);
	}
}

static void close_streams(void)
{
	for (int i = 0; i < STREAMS; i++)
		http_client_done(&streams[i]);
}

struct window {
	double sales_per_s, cpu_us_each;
};

static struct window look(double seconds)
{
	clock_sleep_until(deadline_in_ms(1000)); /* what opening and closing cost is not asked */
	int64_t before = sold, from_ns = clock_boottime_ns(), cpu_us = process_cpu_below_us(shop.pid);
	clock_sleep_until(deadline_in_ms((int64_t)(seconds * 1000)));
	double took_s = (double)(clock_boottime_ns() - from_ns) / 1e9, count = (double)(sold - before);
	return (struct window){count / took_s, (double)(process_cpu_below_us(shop.pid) - cpu_us) / count};
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

enum watching { NOTHING, OTHERS, SOLD, WATCHINGS };
static const char *const watching_names[WATCHINGS] = {"no streams", "streams of others", "streams of what is sold"};
static double rates[WATCHINGS][ROUNDS_MAX], costs[WATCHINGS][ROUNDS_MAX];

static void play(int round, double seconds)
{
	for (int i = 0; i < WATCHINGS; i++) {
		enum watching watching = (enum watching)((i + round) % WATCHINGS);
		if (watching != NOTHING)
			open_streams(watching == SOLD);
		int64_t heard = heard_bytes;
		struct window window = look(seconds);
		rates[watching][round] = window.sales_per_s;
		costs[watching][round] = window.cpu_us_each;
		printf("round %d, %-24s %6.0f checkouts/s, %4.0f us of CPU each; %.1f MB/s heard\n", round + 1,
		       watching_names[watching], window.sales_per_s, window.cpu_us_each,
		       (double)(heard_bytes - heard) / 1e6 / (seconds + 1));
		if (watching != NOTHING)
			close_streams();
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 6, missed = 0;
	double seconds = argc > 2 ? atof(argv[2]) : 4;
	char sku[32];
	rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){4096, 4096});
	ear = epoll_create1(EPOLL_CLOEXEC);
	shop_open(NULL);
	for (int i = 0; i < SKUS; i++) {
		snprintf(sku, sizeof sku, "STREAM-%d", i);
		service_create_sku(&shop, sku, 1000000000);
		snprintf(sku, sizeof sku, "OTHER-%d", i);
		service_create_sku(&shop, sku, 1000000000);
	}
	struct crowd *buyers = crowd_begin(BUYERS, buy, NULL), *listener = crowd_begin(1, listen_to_all, NULL);
	look(seconds); /* warm */
	for (int round = 0; round < rounds; round++)
		play(round, seconds);
	crowd_end(buyers);
	crowd_end(listener);
	double rate = median(rates[NOTHING], rounds), cost = median(costs[NOTHING], rounds);
	printf("medians of %d rounds of %.0f s: %.0f checkouts/s of %.0f us without streams\n", rounds, seconds, rate,
	       cost);
	for (int i = OTHERS; i < WATCHINGS; i++) {
		double ratio = median(rates[i], rounds) / rate;
		double each = median(costs[i], rounds);
		printf("%d %-24s %.3f of the checkouts/s, at least 0.95   %s; %.3f of the CPU of each, %.0f ms a second more\n",
		       STREAMS, watching_names[i], ratio, ratio >= 0.95 ? "ok" : "MISSED", each / cost,
		       (each - cost) * median(rates[i], rounds) / 1e3);
		missed += ratio < 0.95;
	}
	return shop_close(NULL) || missed;
}
