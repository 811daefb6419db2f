/* The advisory locks of the service. Whoever takes one writes it as ADVISORY(…) into its statement; pg_locks shows it as
 * classid (the upper half) and objid (the lower). The numbers are "lastunit" in ASCII, and on from there: ours by name.
 */
#ifndef STORE_ADVISORY_H
#define STORE_ADVISORY_H

#define ADVISORY_EPOCH 7809650172860721524   /* batches share it; who opens an epoch waits for all of them */
#define ADVISORY_MIGRATE 7809650172860721525 /* one migration at a time */
#define ADVISORY_LEAD 7809650172860721526    /* held by the session of the one instance that delivers webhooks */

#define ADVISORY_TEXT(number) #number
#define ADVISORY(number) ADVISORY_TEXT(number)

/* One number for two purposes makes one of them wait for the other for ever. */
_Static_assert(ADVISORY_EPOCH != ADVISORY_MIGRATE && ADVISORY_EPOCH != ADVISORY_LEAD &&
                   ADVISORY_MIGRATE != ADVISORY_LEAD,
               "each lock has a number of its own");

#endif
