/* The page: `/` and its files, built into the binary, and what `lastunit dev` lets it do on its own machine.
 *
 * Happy path: the browser gets index.html under a strict policy (nothing from elsewhere, nothing inline), its files by
 * ETag, and asks POST /page-keys: under `dev` it is answered with keys to play with, under `serve` its visitor pastes one,
 * which stays in the page's memory.
 * Failure modes: keys and the breaking of Redis are for a page of this service on this machine only (origin_is_own_page());
 * anybody else is told 403, and where dev set nothing, 404. POST, because with it every browser says its Origin.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/text.h"
#include "cache/redis.h"
#include "channels/handlers.h"
#include "channels/origin.h"
#include "channels/page.h"
#include "http/problem.h"

#define FOLDER "src/channels/page/"
#define ETAG_BYTES 16
#define BREAK_MS 1000

/* --- files -------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *ending, *type;
} types[] = {
	{".html", "text/html; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".svg", "image/svg+xml"},
};

static const char *type_of(struct text name)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct text ending = text_of(types[i].ending);
		if (name.size > ending.size && memcmp(name.data + name.size - ending.size, ending.data, ending.size) == 0)
			return types[i].type;
	}
	return "application/octet-stream";
}

static void add_policy(struct request *request)
{
	request_add_header(request, "Cache-Control", TEXT("no-cache"));
	request_add_header(
		request, "Content-Security-Policy",
		TEXT("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
	         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"));
	request_add_header(request, "X-Content-Type-Options", TEXT("nosniff"));
	request_add_header(request, "Referrer-Policy", TEXT("no-referrer"));
}

void page_send_failed(struct request *request, int status, const char *type, struct text body)
{
	add_policy(request);
	request_reply(request, status, type, body);
}

void page_send(struct request *request, const char *type, struct text body)
{
	uint8_t sha256[32];
	char etag[2 * ETAG_BYTES + 3] = "\"";
	CHECK(EVP_Digest(body.data, body.size, sha256, NULL, EVP_sha256(), NULL) == 1);
	for (size_t i = 0; i < ETAG_BYTES; i++)
		sprintf(etag + 1 + 2 * i, "%02x", sha256[i]);
	strcat(etag, "\"");
	request_add_header(request, "ETag", text_of(etag));
	add_policy(request);
	if (request_knows_tag(request, text_of(etag)))
		request_reply(request, 304, type, (struct text){0});
	else
		request_reply(request, 200, type, body);
}

static const struct embedded_file *find(struct text name)
{
	struct text folder = TEXT(FOLDER);
	for (size_t i = 0; i < embedded_file_count; i++) {
		struct text path = text_of(embedded_files[i].name);
		if (path.size == folder.size + name.size && memcmp(path.data, folder.data, folder.size) == 0 &&
		    memcmp(path.data + folder.size, name.data, name.size) == 0)
			return &embedded_files[i];
	}
	return NULL;
}

void page_get(struct request *request)
{
	page_send(request, "text/html; charset=utf-8", embed_find(FOLDER "index.html"));
}

void page_file_get(struct request *request)
{
	struct text name = request_param(request, 0);
	const struct embedded_file *file = find(name);
	if (file)
		page_send(request, type_of(name), file->content);
	else
		problem_reply(request, LU_NOT_FOUND, (struct text){0});
}

/* --- on the developer's own machine ------------------------------------------------------------------------------- */

bool page_is_own(struct request *request)
{
	if (!*loop_of(request)->config->page_keys) {
		problem_reply(request, LU_NOT_FOUND, TEXT("Only `lastunit dev` gives its page keys. Here, paste one into it."));
		return false;
	}
	if (origin_is_own_page(request))
		return true;
	problem_reply(request, LU_FORBIDDEN,
	              TEXT("This is for the page of this service on its own machine: Host and Origin must be one loopback "
	                   "address, that of the service."));
	return false;
}

void page_keys_post(struct request *request)
{
	if (!page_is_own(request))
		return;
	request_add_header(request, "Cache-Control", TEXT("no-store"));
	request_reply(request, 200, "application/json", text_of(loop_of(request)->config->page_keys));
}

struct breaking {
	struct ask ask; /* first */
	const char *url;
};

/* On a loader's thread, for it waits. SHUTDOWN has no answer but the end of the connection. */
static enum lu_error break_redis(struct query *query, struct pg *pg)
{
	const struct text ping[] = {TEXT("PING")}, shutdown[] = {TEXT("SHUTDOWN"), TEXT("NOSAVE")};
	const struct breaking *breaking = (const struct breaking *)query; /* its first member's first member */
	struct redis_address address;
	const char *why;
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	redisReply *none __attribute__((cleanup(redis_reply_done))) = NULL;
	if (!redis_address_parse(breaking->url, &address, &why))
		return LU_CACHE_UNAVAILABLE;
	struct redis *redis = redis_new(&address);
	enum lu_error error = redis_call(redis, 1, ping, deadline_in_ms(BREAK_MS), &reply);
	if (!error && !redis_call(redis, 2, shutdown, deadline_in_ms(BREAK_MS), &none))
		error = LU_INTERNAL; /* it stayed */
	redis_free(redis);
	return error;
}

static void on_broken(struct ask *ask)
{
	request_reply(ask->request, 202, "application/json", TEXT("{\"redis\":\"gone\"}\n"));
}

void page_break_redis_post(struct request *request)
{
	if (!page_is_own(request))
		return;
	struct breaking *breaking = ARENA_NEW(request_arena(request), struct breaking);
	breaking->url = loop_of(request)->config->redis_url;
	ask_init(&breaking->ask, request);
	ask_run(&breaking->ask, break_redis, on_broken);
}
