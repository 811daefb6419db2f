/* A witness of P2: of each SKU it knows the newest version that any client was answered and that any reader was shown.
 * A read that began afterwards and shows less, on whichever instance, is wrong; the witness keeps what it saw.
 *
 *	witness_open(&witness, &shop, "W", 100, 1000000);     W000 … W099, of so many units each
 *	witness_read(&witness, &door, sku);                   one read, judged
 *	witness_answered(&witness, sku, version);             after the answer to a write, with the version in it
 *
 * Thread: any.
 */
#ifndef TESTS_LIB_WITNESS_H
#define TESTS_LIB_WITNESS_H

#include "lib/crowd.h"
#include "lib/service.h"

#define WITNESS_SKUS_MAX 256

struct witness {
	const char *prefix;
	int count;
	int64_t stock;
	/* Nothing but sales of one unit happen to these SKUs: then a version says how many are left, and a read that says
	 * otherwise is wrong, too. */
	bool single_sales;
	struct {
		_Atomic int64_t answered, seen;
	} of[WITNESS_SKUS_MAX];
	struct tally reads; /* by status; complaints: reads that were wrong */
};

void witness_open(struct witness *witness, const struct service *service, const char *prefix, int count, int64_t stock);
/* Its code, in a buffer of the caller's. */
const char *witness_sku(const struct witness *witness, int sku, char out[16]);
void witness_answered(struct witness *witness, int sku, int64_t version);
/* Returns the status; 0: no answer. */
int witness_read(struct witness *witness, const struct service *door, int sku);

#endif
