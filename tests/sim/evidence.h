/* The history of a run, put together when all is quiet: the ledger as it stands in PostgreSQL, and what clients,
 * strangers and the stage wrote down. Thread: the main thread.
 */
#ifndef TESTS_SIM_EVIDENCE_H
#define TESTS_SIM_EVIDENCE_H

#include <stdio.h>

#include "sim/client.h"
#include "sim/history.h"
#include "sim/stage.h"
#include "sim/stranger.h"

struct evidence_source {
	const struct stage *stage;
	const struct client *clients;
	size_t client_count;
	const struct stranger *stranger;
	const struct history_outage *stalls;
	size_t stall_count;
	int64_t unix_minus_monotonic_ns;
};

/* Copies everything; evidence_free() gives it back. */
struct history *evidence_gather(const struct evidence_source *source);
void evidence_free(struct history *history);
/* All of it as text, in order of time, for a look at a run that failed. */
void evidence_print(const struct history *history, FILE *out);

#endif
