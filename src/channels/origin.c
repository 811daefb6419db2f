/* Host and Origin (RFC 9110, 7.2; RFC 6454). Names are compared without case, ports are not compared: who controls the
 * machine's other ports does not need a browser. Failure modes: what cannot be read is not allowed. */
#include "channels/origin.h"

#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "base/text.h"
#include "http/problem.h"

/* "name", "name:port", "[::1]:port" → the name, brackets included. */
static struct text without_port(struct text authority)
{
	if (!authority.size)
		return authority;
	if (authority.data[0] == '[') {
		const char *end = memchr(authority.data, ']', authority.size);
		return end ? (struct text){authority.data, (size_t)(end + 1 - authority.data)} : (struct text){0};
	}
	const char *colon = memchr(authority.data, ':', authority.size);
	return colon ? (struct text){authority.data, (size_t)(colon - authority.data)} : authority;
}

/* "https://name:port/path" → "name". */
static struct text host_of_url(struct text url)
{
	const char *start = memmem(url.data, url.size, "://", 3);
	if (!start)
		return (struct text){0};
	start += 3;
	size_t size = (size_t)(url.data + url.size - start);
	const char *slash = memchr(start, '/', size);
	return without_port((struct text){start, slash ? (size_t)(slash - start) : size});
}

static bool same_name(struct text a, struct text b)
{
	return a.size && a.size == b.size && strncasecmp(a.data, b.data, a.size) == 0;
}

static bool is_loopback(struct text name)
{
	static const char *const names[] = {"localhost", "[::1]", "127.0.0.1"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (same_name(name, text_of(names[i])))
			return true;
	return false;
}

bool origin_allowed(struct text public_url, struct text listen, struct text host, struct text origin)
{
	struct text name = without_port(host), public_name = public_url.size ? host_of_url(public_url) : (struct text){0};
	bool host_allowed = same_name(name, public_name) || (is_loopback(name) && is_loopback(without_port(listen))) ||
	                    (!public_url.size && !is_loopback(without_port(listen)) && name.size);
	if (!host_allowed)
		return false;
	if (!origin.size)
		return true;
	struct text page = host_of_url(origin);
	return same_name(page, name) || (is_loopback(page) && is_loopback(name));
}

bool origin_own(struct text listen, struct text host, struct text origin)
{
	const struct text scheme = TEXT("http://");
	return is_loopback(without_port(listen)) && is_loopback(without_port(host)) &&
	       origin.size == scheme.size + host.size && memcmp(origin.data, scheme.data, scheme.size) == 0 &&
	       strncasecmp(origin.data + scheme.size, host.data, host.size) == 0;
}

bool origin_is_own_page(const struct request *request)
{
	/* A proxy on this machine makes everybody a neighbour. */
	static const char *const between[] = {"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"};
	struct text host, origin, other;
	for (size_t i = 0; i < sizeof between / sizeof *between; i++)
		if (request_header(request, between[i], &other))
			return false;
	return request_header(request, "Host", &host) && request_header(request, "Origin", &origin) &&
	       origin_own(text_of(loop_of((struct request *)request)->config->listen), host, origin);
}

bool origin_check(struct request *request)
{
	const struct config *config = loop_of(request)->config;
	struct text host = {0}, origin = {0};
	if (!request_header(request, "Host", &host))
		host = (struct text){0};
	if (!request_header(request, "Origin", &origin))
		origin = (struct text){0};
	if (origin_allowed(text_of(config->public_url), text_of(config->listen), host, origin))
		return true;
	problem_reply(request, LU_FORBIDDEN,
	              TEXT("The headers `Host` or `Origin` name another site. Behind a name of its own the service wants "
	                   "--public-url."));
	return false;
}

struct text origin_address(struct request *request)
{
	struct text address = text_of(loop_of(request)->config->public_url), host;
	if (!address.size && request_header(request, "Host", &host))
		address = arena_printf(request_arena(request), "http://%.*s", (int)host.size, host.data);
	while (address.size && address.data[address.size - 1] == '/')
		address.size--;
	return address;
}
