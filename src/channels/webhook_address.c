/* Where a webhook may be sent (webhook_address.h).
 *
 * Happy path: libcurl takes the URL apart, so that what is checked is what is called. Failure modes: none; what is not
 * understood is not public.
 */
#include "channels/webhook_address.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* IPv4, in host order: the first `bits` of `network`. */
static const struct {
	uint32_t network;
	int bits;
} not_public[] = {
	{0x00000000, 8},  /* this network */
	{0x0a000000, 8},  /* private */
	{0x64400000, 10}, /* shared, behind carriers */
	{0x7f000000, 8},  /* loopback */
	{0xa9fe0000, 16}, /* link-local; the clouds' metadata */
	{0xac100000, 12}, /* private */
	{0xc0000000, 24}, /* protocol assignments */
	{0xc0000200, 24}, /* documentation */
	{0xc0586300, 24}, /* 6to4 relays */
	{0xc0a80000, 16}, /* private */
	{0xc6120000, 15}, /* benchmarks */
	{0xc6336400, 24}, /* documentation */
	{0xcb007100, 24}, /* documentation */
	{0xe0000000, 4},  /* multicast */
	{0xf0000000, 4},  /* reserved, broadcast */
};

static bool is_public_4(uint32_t address)
{
	for (size_t i = 0; i < sizeof not_public / sizeof *not_public; i++)
		if ((address ^ not_public[i].network) >> (32 - not_public[i].bits) == 0)
			return false;
	return true;
}

static uint32_t ipv4_at(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Only 2000::/3 is given out to anybody; inside it, ways to write an IPv4 address, and what is for documents. */
static bool is_public_6(const uint8_t a[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, translated[12] = {0, 0x64, 0xff, 0x9b};
	if (memcmp(a, mapped, sizeof mapped) == 0 || memcmp(a, translated, sizeof translated) == 0)
		return is_public_4(ipv4_at(a + 12));
	if (a[0] >> 5 != 1)
		return false;
	if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
		return is_public_4(ipv4_at(a + 2));
	if (a[0] == 0x20 && a[1] == 0x01 && a[2] < 2) /* 2001::/23: Teredo, ORCHID, benchmarks */
		return false;
	return !(a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0d && a[3] == 0xb8);
}

bool webhook_address_is_public(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return is_public_4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
	if (address->sa_family == AF_INET6)
		return is_public_6(((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr);
	return false;
}

/* A host that is an address, or a name that everybody knows to be this machine. */
static bool host_is_private(const char *host)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	char bare[64];
	size_t size = strlen(host);
	if (!strcasecmp(host, "localhost") || (size > 10 && !strcasecmp(host + size - 10, ".localhost")))
		return true;
	/* libcurl has written 127.1 and 0x7f000001 out already. */
	if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
		return !webhook_address_is_public((struct sockaddr *)&v4);
	if (host[0] != '[' || size < 3 || size > sizeof bare)
		return false;
	snprintf(bare, size - 1, "%s", host + 1);
	return inet_pton(AF_INET6, bare, &v6.sin6_addr) != 1 || !webhook_address_is_public((struct sockaddr *)&v6);
}

static const char *url_flaw(CURLU *parsed, const char *url, bool private_allowed)
{
	char *scheme = NULL, *host = NULL, *user = NULL;
	const char *flaw = NULL;
	if (curl_url_set(parsed, CURLUPART_URL, url, 0) || curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) ||
	    curl_url_get(parsed, CURLUPART_HOST, &host, 0) || !*host)
		flaw = "`url` must be an absolute http or https address.";
	else if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
		flaw = "`url` must begin with https:// or http://.";
	else if (curl_url_get(parsed, CURLUPART_USER, &user, 0) == CURLUE_OK)
		flaw = "`url` must not hold a user or a password: deliveries are known by their signature.";
	else if (!private_allowed && host_is_private(host))
		flaw = "`url` leads into the service's own network, which --webhook-private-addresses would allow.";
	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	return flaw;
}

const char *webhook_url_flaw(const char *url, bool private_allowed)
{
	for (const char *at = url; *at; at++)
		if (*at <= 0x20 || *at >= 0x7f)
			return "`url` must be written in ASCII without blanks: percent-encode the rest.";
	CURLU *parsed = curl_url();
	const char *flaw = parsed ? url_flaw(parsed, url, private_allowed) : "`url` cannot be read now.";
	curl_url_cleanup(parsed);
	return flaw;
}
