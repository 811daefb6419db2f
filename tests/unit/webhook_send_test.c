/* Webhooks whose names are not resolved: libcurl would wait for its resolver's thread when a message is given up, and
 * with it everybody else's messages. And those whose names are several addresses, one of them private; and a proxy that the
 * environment names: it is not told where messages go.
 *
 * The getaddrinfo() of this program stands before the C library's, for libcurl too: it answers when it is told to, but for
 * BOTH at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "channels/webhook_address.h"
#include "channels/webhook_internal.h"
#include "lib/receiver.h"

#define BOTH "both.example"
#define PRIVATE "127.0.0.2"
#define PUBLIC "127.0.0.1" /* for the time being */

static sem_t may_answer, answered;
static atomic_int asked;

bool webhook_address_is_public(const struct sockaddr *address)
{
	return ((const struct sockaddr_in *)address)->sin_addr.s_addr == inet_addr(PUBLIC);
}

/* As freeaddrinfo() frees it. */
static struct addrinfo *address_new(const char *address, const char *service, struct addrinfo *next)
{
	struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
	assert_non_null(info);
	*info = (struct addrinfo){.ai_family = AF_INET,
	                          .ai_socktype = SOCK_STREAM,
	                          .ai_protocol = IPPROTO_TCP,
	                          .ai_addrlen = sizeof(struct sockaddr_in),
	                          .ai_addr = (struct sockaddr *)(info + 1),
	                          .ai_next = next};
	*(struct sockaddr_in *)info->ai_addr = (struct sockaddr_in){.sin_family = AF_INET,
	                                                            .sin_port = htons((uint16_t)atoi(service)),
	                                                            .sin_addr.s_addr = inet_addr(address)};
	return info;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	if (strcmp(node, BOTH) == 0) {
		*result = address_new(PRIVATE, service, address_new(PUBLIC, service, NULL));
		return 0;
	}
	atomic_fetch_add(&asked, 1);
	while (sem_wait(&may_answer) < 0)
		;
	sem_post(&answered);
	return EAI_NONAME;
}

static const struct config impatient = {.webhook_timeout_ms = 200, .webhook_private_addresses = true};
static struct feed_change change = {.sku = {"A", 1}, .figures = {.version = 1}};
static struct page_item item = {.change = &change, .todo = WEBHOOK_AVAILABILITY};

static struct target *target_to(struct text url)
{
	struct target *target = target_new();
	target->row = (struct webhook){.id = uuid_new(),
	                               .url = url,
	                               .secret = TEXT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")};
	target->items = &item;
	target->item_count = 1;
	return target;
}

static enum outcome send_to(struct sender *sender, struct target *target, char ret_why[200])
{
	enum outcome outcome = OUTCOME_TAKEN;
	int64_t retry_after_s;
	struct target *ended = NULL;
	assert_true(sender_begin(sender, target));
	while (!ended) {
		int running;
		curl_multi_perform(sender->multi, &running);
		ended = sender_take(sender, &outcome, ret_why, &retry_after_s);
		if (!ended)
			curl_multi_poll(sender->multi, NULL, 0, 50, NULL);
	}
	assert_ptr_equal(ended, target);
	return outcome;
}

static void a_proxy_of_the_environment_is_not_told(void **state)
{
	struct sender sender;
	struct sockaddr_in door = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof door;
	char proxy[60], why[200];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&door, size), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&door, &size), 0);
	snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", ntohs(door.sin_port));
	setenv("http_proxy", proxy, 1);
	assert_true(sender_init(&sender, &impatient));
	struct target *target = target_to(TEXT("http://127.0.0.1:1/"));
	assert_int_equal(send_to(&sender, target, why), OUTCOME_AWAY);
	unsetenv("http_proxy");
	assert_int_equal(accept(fd, NULL, NULL), -1);
	close(fd);
	target_free(target);
	sender_done(&sender);
}

static void a_name_that_is_never_resolved_holds_up_nobody(void **state)
{
	struct sender sender;
	char why[200];
	assert_true(sender_init(&sender, &impatient));
	struct target *target = target_to(TEXT("http://slow.example/"));
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(send_to(&sender, target, why), OUTCOME_AWAY);
		assert_int_equal(atomic_load(&asked), i);
	}
	target_free(target);
	sender_done(&sender);
	for (int i = 0; i < 2; i++) { /* all that was waited for, and it is still to come */
		sem_post(&may_answer);
		while (sem_wait(&answered) < 0)
			;
	}
}

/* The operator is not to look for a private address where the endpoint says that it is ill. */
static void what_a_public_address_answered_is_not_laid_to_a_private_one(void **state)
{
	const struct config config = {.webhook_timeout_ms = 20000};
	struct sender sender;
	struct receiver receiver;
	char why[200], url[80];
	receiver_open(&receiver);
	receiver_answer(&receiver, 500, "");
	snprintf(url, sizeof url, "http://" BOTH ":%d/", receiver.port);
	assert_true(sender_init(&sender, &config));
	struct target *target = target_to(text_of(url));
	assert_int_equal(send_to(&sender, target, why), OUTCOME_AWAY);
	assert_string_equal(why, "it answered 500");
	target_free(target);
	target = target_to(TEXT("http://" PRIVATE "/"));
	assert_int_equal(send_to(&sender, target, why), OUTCOME_AWAY);
	assert_non_null(strstr(why, "its address is private"));
	target_free(target);
	sender_done(&sender);
	receiver_close(&receiver);
}

int main(void)
{
	alarm(60); /* who waits for the resolver must fail, not hang */
	sem_init(&may_answer, 0, 0);
	sem_init(&answered, 0, 0);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_proxy_of_the_environment_is_not_told),
		cmocka_unit_test(a_name_that_is_never_resolved_holds_up_nobody),
		cmocka_unit_test(what_a_public_address_answered_is_not_laid_to_a_private_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
