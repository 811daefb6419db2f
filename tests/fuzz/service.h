/* The whole API over the inventory that is none, for the targets that speak to it as a client does. Thread: one. */
#ifndef FUZZ_SERVICE_H
#define FUZZ_SERVICE_H

#include "base/config.h"
#include "lastunit/types.h"

#define SERVICE_KEY "lu_fuzz"

/* What `serve` is without any option. */
void service_config(struct config *config);
/* Answers peer_exchange() from now on; SERVICE_KEY is a client of this channel with these scopes.
 * `config` must outlive it. */
void service_start(const struct config *config, enum channel channel, unsigned scopes);
void service_stop(void);

/* Cuts the line off the front of *rest, without its LF. */
struct text line_cut(struct text *rest);

#endif
