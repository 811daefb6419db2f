/* Where Redis is, from a URL.
 *
 *	unix://[user:password@]/path[?db=N]      redis://[user:password@]host[:port][/db]      (host: name, IPv4, [IPv6])
 *
 * %XX is decoded in user, password and path. Happy path: scheme, authority, rest, to the last byte.
 * Failure modes: whatever is not exactly of these forms is refused with a sentence; nothing is guessed.
 */
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/text.h"
#include "cache/redis.h"

#define DB_MAX 65535

/* Decodes %XX into out[room], NUL behind. False when it does not fit, or is no text. */
static bool decode(struct text in, char *out, size_t room)
{
	size_t used = 0;
	for (size_t i = 0; i < in.size; i++) {
		char c = in.data[i];
		if (c == '%') {
			if (in.size - i < 3 || text_hex_digit(in.data[i + 1]) < 0 || text_hex_digit(in.data[i + 2]) < 0)
				return false;
			c = (char)(text_hex_digit(in.data[i + 1]) * 16 + text_hex_digit(in.data[i + 2]));
			i += 2;
		}
		if (c == '\0' || used + 1 >= room)
			return false;
		out[used++] = c;
	}
	out[used] = '\0';
	return true;
}

static bool number(struct text digits, int64_t max, int *ret_value)
{
	int64_t value;
	if (digits.size == 0 || digits.data[0] == '-' || !text_to_int64(digits, &value) || value > max)
		return false;
	*ret_value = (int)value;
	return true;
}

static bool starts_with(struct text text, const char *prefix)
{
	size_t size = strlen(prefix);
	return text.size >= size && memcmp(text.data, prefix, size) == 0;
}

static struct text behind(struct text text, size_t size)
{
	return (struct text){text.data + size, text.size - size};
}

/* Takes "user:password@" off the front of the authority, which ends at the first '/'. */
static bool credentials_take(struct text *rest, struct redis_address *address, const char **ret_why)
{
	const char *slash = memchr(rest->data, '/', rest->size);
	size_t authority = slash ? (size_t)(slash - rest->data) : rest->size;
	const char *at = memrchr(rest->data, '@', authority);
	if (!at)
		return true;
	struct text both = {rest->data, (size_t)(at - rest->data)};
	const char *colon = memchr(both.data, ':', both.size);
	*ret_why = "credentials are written user:password@, with %XX for special characters";
	if (!colon)
		return false;
	size_t user = (size_t)(colon - both.data);
	if (!decode((struct text){both.data, user}, address->user, sizeof address->user) ||
	    !decode(behind(both, user + 1), address->password, sizeof address->password) || !address->password[0])
		return false;
	*rest = behind(*rest, both.size + 1);
	return true;
}

static bool unix_parse(struct text rest, struct redis_address *address, const char **ret_why)
{
	const char *query = memchr(rest.data, '?', rest.size);
	struct text path = {rest.data, query ? (size_t)(query - rest.data) : rest.size};
	*ret_why = "a unix socket is written unix:///absolute/path, its path shorter than 108 bytes";
	if (!starts_with(path, "/") || path.size < 2 || !decode(path, address->host, sizeof address->host) ||
	    strlen(address->host) >= sizeof((struct sockaddr_un *)0)->sun_path)
		return false;
	*ret_why = "behind the path only ?db=N is known";
	struct text option = behind(rest, path.size);
	return option.size == 0 || (starts_with(option, "?db=") && number(behind(option, 4), DB_MAX, &address->db));
}

static bool tcp_parse(struct text rest, struct redis_address *address, const char **ret_why)
{
	const char *slash = memchr(rest.data, '/', rest.size);
	struct text host = {rest.data, slash ? (size_t)(slash - rest.data) : rest.size};
	struct text db = behind(rest, host.size), port = {0};
	*ret_why = "the path of a redis:// URL is a database number, e.g. redis://host:6379/0";
	if (db.size > 1 && !number(behind(db, 1), DB_MAX, &address->db))
		return false;

	*ret_why = "a host is a name, an IPv4 address or an [IPv6 address]";
	if (starts_with(host, "[")) {
		const char *bracket = memchr(host.data, ']', host.size);
		if (!bracket)
			return false;
		port = behind(host, (size_t)(bracket + 1 - host.data));
		host = (struct text){host.data + 1, (size_t)(bracket - host.data - 1)};
	} else {
		const char *colon = memchr(host.data, ':', host.size);
		if (colon) {
			port = behind(host, (size_t)(colon - host.data));
			host.size = (size_t)(colon - host.data);
		}
	}
	if (host.size == 0 || host.size >= sizeof address->host)
		return false;
	for (size_t i = 0; i < host.size; i++)
		if ((unsigned char)host.data[i] <= ' ' || strchr("/?#@%[]\\\"\x7f", host.data[i]))
			return false;
	memcpy(address->host, host.data, host.size);
	address->host[host.size] = '\0';

	*ret_why = "a port is a number from 1 to 65535";
	address->port = 6379;
	return port.size == 0 ||
	       (port.data[0] == ':' && number(behind(port, 1), 65535, &address->port) && address->port > 0);
}

bool redis_address_parse(const char *url, struct redis_address *ret_address, const char **ret_why)
{
	struct redis_address address = {0};
	struct text rest = text_of(url);
	const char *why = "a Redis URL begins with unix:// or redis://";
	bool ok = false;
	if (starts_with(rest, "rediss://")) {
		why = "TLS (rediss://) is not supported: use a unix socket, a private network or a tunnel";
	} else if (starts_with(rest, "unix://")) {
		address.unix_socket = true;
		rest = behind(rest, 7);
		ok = credentials_take(&rest, &address, &why) && unix_parse(rest, &address, &why);
	} else if (starts_with(rest, "redis://")) {
		rest = behind(rest, 8);
		ok = credentials_take(&rest, &address, &why) && tcp_parse(rest, &address, &why);
	}
	if (ok)
		*ret_address = address;
	else
		*ret_why = why;
	return ok;
}

const char *redis_address_place(const struct redis_address *address, char ret_place[REDIS_PLACE_BYTES])
{
	if (address->unix_socket)
		snprintf(ret_place, REDIS_PLACE_BYTES, "%s", address->host);
	else
		snprintf(ret_place, REDIS_PLACE_BYTES, strchr(address->host, ':') ? "[%s]:%d" : "%s:%d", address->host,
		         address->port);
	return ret_place;
}
