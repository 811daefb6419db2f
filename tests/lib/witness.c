/* Who saw which version (witness.h). */
#include "lib/witness.h"

#include <stdio.h>
#include <string.h>

static void raise_to(_Atomic int64_t *version, int64_t to)
{
	int64_t was = *version;
	while (was < to && !atomic_compare_exchange_weak(version, &was, to))
		continue;
}

const char *witness_sku(const struct witness *w, int sku, char out[16])
{
	snprintf(out, 16, "%s%03d", w->prefix, sku);
	return out;
}

void witness_open(struct witness *w, const struct service *service, const char *prefix, int count, int64_t stock)
{
	char code[16];
	memset(w, 0, sizeof *w);
	w->prefix = prefix;
	w->count = count;
	w->stock = stock;
	for (int i = 0; i < count; i++)
		service_create_sku(service, witness_sku(w, i, code), stock);
}

void witness_answered(struct witness *w, int sku, int64_t version)
{
	raise_to(&w->of[sku].answered, version);
}

int witness_read(struct witness *w, const struct service *door, int sku)
{
	/* Both before the request leaves: what becomes known later may or may not be in its answer. */
	int64_t answered = w->of[sku].answered, seen = w->of[sku].seen;
	char code[16], path[64];
	snprintf(path, sizeof path, "/v1/availability/%s", witness_sku(w, sku, code));
	struct answer answer = service_try(door, door->key_web, "GET", path, NULL, NULL);
	int status = answer.status;
	tally_add(&w->reads, status);
	if (status == 200) {
		int64_t version = answer_int(&answer, "version"), available = answer_int(&answer, "available");
		if (version < answered || version < seen)
			tally_complain(&w->reads, "%s was read as version %lld; %lld had been answered, %lld seen", code,
			               (long long)version, (long long)answered, (long long)seen);
		if (w->single_sales && available != w->stock - (version - 1))
			tally_complain(&w->reads, "%s was read as %lld, version %lld", code, (long long)available,
			               (long long)version);
		raise_to(&w->of[sku].seen, version);
	}
	answer_done(&answer);
	return status;
}
