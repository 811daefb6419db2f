#include "fuzz/service.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/check.h"
#include "fuzz/peer.h"
#include "http/auth.h"

static struct api *api;
static struct keyring *keyring;

void service_config(struct config *config)
{
	char *argv[] = {"serve", NULL};
	int positionals;
	bool help;
	CHECK(config_load(config, "*", NULL, 1, argv, &positionals, &help, stderr));
}

void service_start(const struct config *config, enum channel channel, unsigned scopes)
{
	struct keyring_entry entry = {.principal = {.id = 1, .channel = channel, .scopes = scopes}};
	CHECK(EVP_Digest(SERVICE_KEY, sizeof SERVICE_KEY - 1, entry.sha256, NULL, EVP_sha256(), NULL) == 1);
	keyring = keyring_new();
	keyring_replace(keyring, &entry, 1);
	api = api_new(config, NULL);
	auth_use(keyring);
	peer_start(api_router(api), api_hooks(api));
}

void service_stop(void)
{
	peer_stop();
	api_free(api);
	keyring_free(keyring);
}

struct text line_cut(struct text *rest)
{
	const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
	struct text line = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
	rest->data += line.size + (end != NULL);
	rest->size -= line.size + (end != NULL);
	return line;
}
