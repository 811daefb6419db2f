/* The answer to a method that a path has no handler for: 405, or what OPTIONS asks, CORS's preflight among it.
 *
 * Thread: the request's loop. Replies.
 */
#ifndef HTTP_OTHER_METHOD_H
#define HTTP_OTHER_METHOD_H

struct request;

/* allow: the enum http_method bits that the path has handlers for. */
void other_method_answer(struct request *request, unsigned allow);

#endif
