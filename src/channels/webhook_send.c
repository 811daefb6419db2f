/* Sending a message (webhook_internal.h), by libcurl's multi interface: many endpoints at once, none waits for another.
 *
 * Happy path: POST, signed as of now, over a connection that stays open between messages. Failure modes: an address in
 * the operator's own network is refused when it is connected to, whatever name led there; a body in the answer is read
 * and thrown away; everything ends by the timeout.
 */
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "channels/webhook_address.h"
#include "channels/webhook_internal.h"

#define CONNECTIONS_KEPT 100L

bool sender_init(struct sender *sender, const struct config *config)
{
	*sender = (struct sender){.multi = curl_multi_init(),
	                          .private_allowed = config->webhook_private_addresses,
	                          .timeout_ms = config->webhook_timeout_ms};
	return sender->multi && !curl_multi_setopt(sender->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
}

void sender_done(struct sender *sender)
{
	curl_multi_cleanup(sender->multi);
}

static size_t throw_away(char *data, size_t size, size_t count, void *context)
{
	return size * count;
}

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct target *target = context;
	/* Of a name's addresses the one that was tried last. */
	target->address_refused = !webhook_address_is_public(&address->addr);
	if (target->address_refused)
		return CURL_SOCKET_BAD;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* What is the same for each message of a webhook. */
static CURL *easy_new(struct sender *sender, struct target *target)
{
	CURL *easy = curl_easy_init();
	CHECK(easy);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, target);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* not even one that the environment names: it would see the addresses */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT,
	                 1L); /* else a name that is not resolved is waited for, past the timeout */
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)sender->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)sender->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "Lastunit");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, throw_away);
	if (!sender->private_allowed) {
		curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
		curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, target);
	}
	return easy;
}

static void add_header(struct target *target, const char *name, const char *value)
{
	struct buffer line = {0};
	buffer_add_format(&line, "%s: %s", name, value);
	buffer_add_char(&line, 0);
	target->headers = curl_slist_append(target->headers, line.data);
	CHECK(target->headers);
	buffer_done(&line);
}

bool sender_begin(struct sender *sender, struct target *target)
{
	enum webhook_event event = target_event(target);
	const struct feed_change *change = target_change(target);
	char signature[WEBHOOK_SIGNATURE_BYTES_MAX + 1], time[24], url[2001];
	int64_t now_s = clock_unix_us() / US_PER_S;
	CHECK(!target->sending && target->row.url.size < sizeof url);
	target->sent_ns = clock_boottime_ns();
	buffer_clear(&target->body);
	webhook_message_body(&target->body, event, change);
	webhook_message_id(&target->row, event, change, target->id);
	if (!webhook_sign(&target->row, target->id, now_s, buffer_text(&target->body), signature))
		return false;
	snprintf(time, sizeof time, "%lld", (long long)now_s);
	curl_slist_free_all(target->headers);
	target->headers = NULL;
	add_header(target, "Content-Type", "application/json");
	add_header(target, "Expect", "");
	add_header(target, "webhook-id", target->id);
	add_header(target, "webhook-timestamp", time);
	add_header(target, "webhook-signature", signature);
	memcpy(url, target->row.url.data, target->row.url.size);
	url[target->row.url.size] = 0;
	if (!target->easy)
		target->easy = easy_new(sender, target);
	curl_easy_setopt(target->easy, CURLOPT_URL, url);
	curl_easy_setopt(target->easy, CURLOPT_HTTPHEADER, target->headers);
	curl_easy_setopt(target->easy, CURLOPT_POSTFIELDSIZE, (long)target->body.size);
	curl_easy_setopt(target->easy, CURLOPT_POSTFIELDS, target->body.data);
	target->address_refused = false;
	target->sending = true;
	CHECK(curl_multi_add_handle(sender->multi, target->easy) == CURLM_OK);
	return true;
}

void sender_cut(struct sender *sender, struct target *target)
{
	if (target->sending)
		curl_multi_remove_handle(sender->multi, target->easy);
	target->sending = false;
}

static enum outcome judge(struct target *target, CURLcode code, char ret_error[200], int64_t *ret_retry_after_s)
{
	long status = 0;
	curl_off_t retry_after_s = 0;
	curl_easy_getinfo(target->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(target->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
	*ret_retry_after_s = retry_after_s;
	if (code && target->address_refused)
		snprintf(ret_error, 200, "its address is private, which --webhook-private-addresses would allow");
	else if (code)
		snprintf(ret_error, 200, "%.180s", curl_easy_strerror(code));
	else
		snprintf(ret_error, 200, "it answered %ld", status);
	if (code)
		return OUTCOME_AWAY;
	if (status >= 200 && status <= 299)
		return OUTCOME_TAKEN;
	if (status == 410)
		return OUTCOME_GONE;
	return status >= 400 && status <= 499 && status != 408 && status != 425 && status != 429 ? OUTCOME_REFUSED
	                                                                                         : OUTCOME_AWAY;
}

struct target *sender_take(struct sender *sender, enum outcome *ret_outcome, char ret_error[200],
                           int64_t *ret_retry_after_s)
{
	CURLMsg *message;
	int left;
	do {
		message = curl_multi_info_read(sender->multi, &left);
		if (!message)
			return NULL;
	} while (message->msg != CURLMSG_DONE);
	char *private = NULL;
	CURLcode code = message->data.result;
	curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
	struct target *target = (struct target *)private;
	*ret_outcome = judge(target, code, ret_error, ret_retry_after_s);
	sender_cut(sender, target);
	return target;
}
