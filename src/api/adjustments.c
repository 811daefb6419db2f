/* Adjustments: receipts, corrections and stock-takes. Body, key, submit, reply: see call.c. */
#include "api/call.h"
#include "api/handlers.h"

void adjustment_post(struct request *request)
{
	call_run(call_new(request, OPERATION_ADJUST), call_reply);
}
