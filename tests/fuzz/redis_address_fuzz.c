/* Fuzz target: the URL of a Redis. What is accepted is whole and within bounds; what is refused says why and leaves
 * the address alone. Input: the URL. Run: clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cache/redis.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct redis_address address, untouched;
	const char *why = NULL;
	memset(&untouched, 0x5a, sizeof untouched);
	address = untouched;
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
	} else {
		CHECK(why && *why && memcmp(&address, &untouched, sizeof address) == 0);
	}
	free(url);
	return 0;
}
