/* What every page of the service is sent with. Thread: the loop's. */
#ifndef CHANNELS_PAGE_H
#define CHANNELS_PAGE_H

#include "http/request.h"

/* Replies with the body under an ETag of its bytes (304 where it is known), and a policy that lets the page load and ask
 * nothing but this service, and run no script but its files. */
void page_send(struct request *request, const char *type, struct text body);

/* The same policy, but this status (404, 503) and no ETag. */
void page_send_failed(struct request *request, int status, const char *type, struct text body);

/* Does the page of `lastunit dev`, in a browser on the same machine, ask? False: the request was replied. */
bool page_is_own(struct request *request) LU_MUST_CHECK;

#endif
