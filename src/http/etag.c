/* If-None-Match by RFC 9110, 13.1.2: `*`, or a list of tags, compared weakly: a proxy that compresses an answer makes its
 * tag a weak one (`W/"…"`), and the client sends it back so. A comma may stand inside a tag.
 */
#include <string.h>

#include "base/text.h"
#include "http/request.h"

bool request_knows_tag(const struct request *request, struct text etag)
{
	struct text list;
	if (!request_header(request, "If-None-Match", &list))
		return false;
	if (text_equal(list, TEXT("*")))
		return true;
	const char *at = list.data, *end = list.data + list.size;
	while (at < end) {
		const char *open = memchr(at, '"', (size_t)(end - at));
		const char *close = open ? memchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
		if (!close)
			return false;
		if (text_equal((struct text){open, (size_t)(close + 1 - open)}, etag))
			return true;
		at = close + 1;
	}
	return false;
}
