/* Webhooks whose names are not resolved: libcurl would wait for its resolver's thread when a message is given up, and
 * with it everybody else's messages.
 *
 * The getaddrinfo() of this program stands before the C library's, for libcurl too: it answers when it is told to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "channels/webhook_internal.h"

static sem_t may_answer, answered;
static atomic_int asked;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	atomic_fetch_add(&asked, 1);
	while (sem_wait(&may_answer) < 0)
		;
	sem_post(&answered);
	return EAI_NONAME;
}

static void a_name_that_is_never_resolved_holds_up_nobody(void **state)
{
	const struct config config = {.webhook_timeout_ms = 200, .webhook_private_addresses = true};
	struct feed_change change = {.sku = TEXT("A"), .figures = {.version = 1}};
	struct page_item item = {.change = &change, .todo = WEBHOOK_AVAILABILITY};
	struct sender sender;
	assert_true(sender_init(&sender, &config));
	struct target *target = target_new();
	target->row = (struct webhook){.id = uuid_new(),
	                               .url = TEXT("http://slow.example/"),
	                               .secret = TEXT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")};
	target->items = &item;
	target->item_count = 1;
	for (int i = 1; i <= 2; i++) {
		assert_true(sender_begin(&sender, target));
		enum outcome outcome = OUTCOME_TAKEN;
		char why[200];
		int64_t retry_after_s;
		struct target *ended = NULL;
		while (!ended) {
			int running;
			curl_multi_perform(sender.multi, &running);
			ended = sender_take(&sender, &outcome, why, &retry_after_s);
			if (!ended)
				curl_multi_poll(sender.multi, NULL, 0, 50, NULL);
		}
		assert_ptr_equal(ended, target);
		assert_int_equal(outcome, OUTCOME_AWAY);
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

int main(void)
{
	alarm(60); /* who waits for the resolver must fail, not hang */
	sem_init(&may_answer, 0, 0);
	sem_init(&answered, 0, 0);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_that_is_never_resolved_holds_up_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
