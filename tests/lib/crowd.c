/* Threads that begin at the same moment (crowd.h). */
#include "lib/crowd.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member {
	struct crowd *crowd;
	int index;
	pthread_t thread;
};

struct crowd {
	pthread_barrier_t barrier;
	void (*work)(int index, void *context);
	void *context;
	_Atomic bool over;
	int count;
	struct member *members;
};

static _Thread_local struct crowd *mine;

static void *member_main(void *context)
{
	struct member *member = context;
	mine = member->crowd;
	pthread_barrier_wait(&mine->barrier);
	mine->work(member->index, mine->context);
	return NULL;
}

struct crowd *crowd_begin(int count, void (*work)(int index, void *context), void *context)
{
	struct crowd *crowd = calloc(1, sizeof *crowd);
	if (!crowd || !(crowd->members = calloc((size_t)count, sizeof *crowd->members)))
		abort();
	crowd->work = work;
	crowd->context = context;
	crowd->count = count;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1024 * 1024);
	if (pthread_barrier_init(&crowd->barrier, NULL, (unsigned)count))
		abort();
	for (int i = 0; i < count; i++) {
		crowd->members[i] = (struct member){.crowd = crowd, .index = i};
		if (pthread_create(&crowd->members[i].thread, &attributes, member_main, &crowd->members[i]))
			abort();
	}
	pthread_attr_destroy(&attributes);
	return crowd;
}

bool crowd_is_over(void)
{
	return mine->over;
}

void crowd_meet(void)
{
	pthread_barrier_wait(&mine->barrier);
}

void crowd_end(struct crowd *crowd)
{
	crowd->over = true;
	for (int i = 0; i < crowd->count; i++)
		pthread_join(crowd->members[i].thread, NULL);
	pthread_barrier_destroy(&crowd->barrier);
	free(crowd->members);
	free(crowd);
}

void crowd_run(int count, void (*work)(int index, void *context), void *context)
{
	crowd_end(crowd_begin(count, work, context));
}

/* --- tallies ------------------------------------------------------------------------------------------------------ */

void tally_add(struct tally *tally, int status)
{
	tally->of[status > 0 && status < TALLY_STATUSES ? status : 0]++;
}

void tally_complain(struct tally *tally, const char *format, ...)
{
	if (tally->complaints++)
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(tally->complaint, sizeof tally->complaint, format, arguments);
	va_end(arguments);
}

int tally_of(const struct tally *tally, int status)
{
	return tally->of[status];
}

int tally_total(const struct tally *tally)
{
	int total = 0;
	for (int i = 0; i < TALLY_STATUSES; i++)
		total += tally->of[i];
	return total;
}

const char *tally_text(const struct tally *tally)
{
	static char ring[4][400];
	static unsigned next;
	char *out = ring[next++ % 4], *to = out;
	*to = 0;
	for (int i = 0; i < TALLY_STATUSES && to < out + 300; i++)
		if (tally->of[i])
			to += sprintf(to, "%s%d x %d", to == out ? "" : ", ", tally->of[i], i);
	if (tally->complaints)
		snprintf(to, (size_t)(out + 400 - to), "; %d complaints: %.60s", tally->complaints, tally->complaint);
	return out;
}
