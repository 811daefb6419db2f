/* Who asks: `Authorization: Bearer lu_…` → principal, through the keyring (store/keyring.h). Called by the server
 * before a handler whose route needs scopes: 400 malformed_request (two fields), 401 unauthorized, 403 forbidden
 * (naming the scope), 503 database_unavailable (the keyring is not fresh and the route does more than read; the server
 * asks again for half of the request's time before it says so). A
 * connection remembers its last key while the keyring's generation stands, so a kept-alive client is hashed once.
 */
#ifndef HTTP_AUTH_H
#define HTTP_AUTH_H

#include "http/request.h"
#include "store/keyring.h"

/* The keyring the server asks; set once before server_start. */
void auth_use(struct keyring *keyring);
/* The server's question before a handler: LU_OK or one of these four, with *ret_why (for the request's life). */
enum lu_error auth_check(struct request *request, unsigned scopes, const char **ret_why) LU_MUST_CHECK;
/* The same for a route without scopes, whose caller proved itself in another way (a webhook's secret): from here on the
 * request is that of the principal of this key. */
enum lu_error auth_as(struct request *request, struct text key, unsigned scopes, const char **ret_why) LU_MUST_CHECK;
/* The publishable key of a browser that can set no header. */
#define AUTH_QUERY_NAME "key"
/* Valid in handlers of routes with scopes, and after auth_as(). */
const struct principal *request_principal(const struct request *request);
/* Its id; 0 where nobody is known. */
int64_t request_asker(const struct request *request);

#endif
