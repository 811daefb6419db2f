/* What a thousand event streams cost those who buy: checkouts per second without them and with them, in turns, so that a
 * noisy moment falls on both sides. All watch what is being sold: most of them one SKU, every second of those the hottest,
 * and a few everything.
 *
 *	stream_bench [ROUNDS [SECONDS_EACH]]
 *
 * It prints the medians and their ratio; that the ratio is at least 0.95 is the promise of src/api/README.md. Buyers and
 * listeners run on the same machine as the service, so their own work is in both figures.
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

static void open_streams(void)
{
	char request[300];
	for (int i = 0; i < STREAMS; i++) {
		streams[i] = http_client(shop.url, NULL);
		char query[40] = ""; /* everything */
		if (i % 100)
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

/* Seconds of CPU that `serve` has used. */
static double cpu_s(void)
{
	char path[64], line[1000] = "";
	unsigned long user = 0, system = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)shop_child("lastunit"));
	FILE *file = fopen(path, "r");
	if (file && fgets(line, sizeof line, file))
		sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
	if (file)
		fclose(file);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

struct window {
	double sales_per_s, cpu_per_s;
};

static struct window look(double seconds)
{
	clock_sleep_until(deadline_in_ms(500)); /* what opening and closing cost is not asked */
	int64_t before = sold, from_ns = clock_boottime_ns();
	double cpu = cpu_s();
	clock_sleep_until(deadline_in_ms((int64_t)(seconds * 1000)));
	double took_s = (double)(clock_boottime_ns() - from_ns) / 1e9;
	return (struct window){(double)(sold - before) / took_s, (cpu_s() - cpu) / took_s};
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

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	double seconds = argc > 2 ? atof(argv[2]) : 4, a[ROUNDS_MAX], b[ROUNDS_MAX], extra[ROUNDS_MAX];
	char sku[32];
	rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){4096, 4096});
	ear = epoll_create1(EPOLL_CLOEXEC);
	shop_open(NULL);
	for (int i = 0; i < SKUS; i++) {
		snprintf(sku, sizeof sku, "STREAM-%d", i);
		service_create_sku(&shop, sku, 1000000000);
	}
	struct crowd *buyers = crowd_begin(BUYERS, buy, NULL), *listener = crowd_begin(1, listen_to_all, NULL);
	for (int round = 0; round < rounds; round++) {
		struct window without = look(seconds);
		open_streams();
		int64_t heard = heard_bytes;
		struct window with = look(seconds);
		a[round] = without.sales_per_s;
		b[round] = with.sales_per_s;
		/* What the streams alone cost: the rest is what so many sales cost without them. */
		extra[round] = with.cpu_per_s - without.cpu_per_s * with.sales_per_s / without.sales_per_s;
		printf(
			"round %d: %.0f checkouts/s without streams, %.0f with %d, who cost %.0f ms of CPU and heard %.1f MB a second\n",
			round + 1, a[round], b[round], STREAMS, extra[round] * 1000, (double)(heard_bytes - heard) / 1e6 / seconds);
		close_streams();
	}
	crowd_end(buyers);
	crowd_end(listener);
	double before = median(a, rounds), after = median(b, rounds);
	printf("medians: %.0f and %.0f checkouts/s: %.3f; the streams cost %.0f ms of CPU a second\n", before, after,
	       after / before, median(extra, rounds) * 1000);
	return shop_close(NULL);
}
