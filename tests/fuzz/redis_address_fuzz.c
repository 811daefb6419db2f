/* Fuzz target: the URL of a Redis. What is accepted is whole and within bounds, and is the same when it is written again
 * with every byte escaped that may be; what is refused says why and leaves the address alone. Input: the URL.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "cache/redis.h"
#include "fuzz/fuzz.h"

static void add_escaped(struct buffer *out, const char *text)
{
	for (; *text; text++)
		buffer_add_format(out, "%%%02x", (unsigned char)*text);
}

static void check_again(const struct redis_address *address)
{
	struct buffer url = {0};
	struct redis_address again;
	const char *why = "";
	memset(&again, 0x5a, sizeof again);
	buffer_add_string(&url, address->unix_socket ? "unix://" : "redis://");
	if (address->password[0]) {
		add_escaped(&url, address->user);
		buffer_add_char(&url, ':');
		add_escaped(&url, address->password);
		buffer_add_char(&url, '@');
	}
	if (address->unix_socket) {
		buffer_add_char(&url, '/');
		add_escaped(&url, address->host + 1);
		buffer_add_format(&url, "?db=%d", address->db);
	} else {
		buffer_add_format(&url, strchr(address->host, ':') ? "[%s]:%d/%d" : "%s:%d/%d", address->host, address->port,
		                  address->db);
	}
	buffer_add_char(&url, '\0');
	CHECK(redis_address_parse(url.data, &again, &why));
	CHECK(again.unix_socket == address->unix_socket && again.port == address->port && again.db == address->db);
	CHECK(!strcmp(again.host, address->host) && !strcmp(again.user, address->user) &&
	      !strcmp(again.password, address->password));
	buffer_done(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct redis_address address, untouched;
	const char *why = NULL;
	memset(&untouched, 0x5a, sizeof untouched);
	memcpy(&address, &untouched, sizeof address);
	char *url = malloc(size + 1); /* as large as it is, so that a read behind it is seen */
	CHECK(url);
	memcpy(url, data, size);
	url[size] = '\0';
	if (redis_address_parse(url, &address, &why)) {
		CHECK(memchr(address.host, 0, sizeof address.host) && address.host[0]);
		CHECK(memchr(address.user, 0, sizeof address.user) && memchr(address.password, 0, sizeof address.password));
		CHECK(address.db >= 0 && address.db <= 65535);
		CHECK(address.unix_socket ? address.host[0] == '/' && strlen(address.host) < 108
		                          : address.port > 0 && address.port <= 65535);
		CHECK(address.password[0] || !address.user[0]);
		check_again(&address);
	} else {
		CHECK(why && *why && memcmp(&address, &untouched, sizeof address) == 0);
	}
	free(url);
	return 0;
}
