/* /openapi.json: the description of this API for machines, as it was built in. */
#include "api/call.h"
#include "api/handlers.h"
#include "base/embed.h"

void openapi_get(struct request *request)
{
	request_add_header(request, "Access-Control-Allow-Origin", TEXT("*")); /* open, as documentation is */
	request_add_header(request, "Cache-Control", TEXT("max-age=300"));
	request_reply(request, 200, "application/json", embed_find("src/api/openapi.json"));
}
