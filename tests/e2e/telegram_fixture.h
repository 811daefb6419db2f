/* What the tests of the Telegram bot share: what people type and press, as Telegram tells it, and what the bot replies. */
#ifndef TESTS_E2E_TELEGRAM_FIXTURE_H
#define TESTS_E2E_TELEGRAM_FIXTURE_H

#include "lib/shop.h"

static char secret[64];
static int64_t update_id = 700000000000;

static inline int open_shop(void **state)
{
	int failed = shop_open(state);
	char line[200];
	FILE *env = fopen(shop_text("%s/dev.env", shop.directory), "r");
	assert_non_null(env);
	while (fgets(line, sizeof line, env))
		sscanf(line, "LASTUNIT_TELEGRAM_SECRET=%63s", secret);
	fclose(env);
	assert_true(strlen(secret) == 32);
	return failed;
}

static inline void update(const char *body, int status)
{
	shop_expect(NULL, "POST", "/channels/telegram", shop_text("X-Telegram-Bot-Api-Secret-Token: %s\r\n", secret), body,
	            status);
}

/* As a person in this chat. */
static inline void type(int64_t chat, const char *language, const char *text)
{
	update(
		shop_text("{\"update_id\":%lld,\"message\":{\"message_id\":1,\"from\":{\"id\":%lld,\"language_code\":\"%s\"},"
	              "\"chat\":{\"id\":%lld,\"type\":\"private\"},\"date\":1,\"text\":\"%s\"}}",
	              (long long)update_id++, (long long)chat, language, (long long)chat, text),
		200);
}

/* `message`: the members of the message that the button is on. */
static inline void press_on(int64_t user, const char *message, const char *data)
{
	update(shop_text(
			   "{\"update_id\":%lld,\"callback_query\":{\"id\":\"q1\",\"from\":{\"id\":%lld,\"language_code\":\"en\"},"
			   "\"message\":{\"message_id\":5,%s},\"data\":\"%s\"}}",
			   (long long)update_id++, (long long)user, message, data),
	       200);
}

static inline void press_in(int64_t chat, int64_t user, const char *data)
{
	char message[100];
	snprintf(message, sizeof message, "\"chat\":{\"id\":%lld},\"date\":1,\"text\":\"x\"", (long long)chat);
	press_on(user, message, data);
}

static inline void press(int64_t chat, const char *data)
{
	press_in(chat, chat, data);
}

/* On a connection of the calling thread; the answer is the caller's. */
static inline struct answer press_apart(int update_number, int chat, const char *data)
{
	char body[400], headers[120];
	snprintf(headers, sizeof headers, "X-Telegram-Bot-Api-Secret-Token: %s\r\n", secret);
	snprintf(body, sizeof body,
	         "{\"update_id\":%d,\"callback_query\":{\"id\":\"q\",\"from\":{\"id\":%d},\"message\":{\"message_id\":5,"
	         "\"chat\":{\"id\":%d},\"text\":\"x\"},\"data\":\"%s\"}}",
	         update_number, chat, chat, data);
	return service_call(&shop, NULL, "POST", "/channels/telegram", headers, body);
}

static inline const char *reply(const char *member)
{
	return answer_string(&shop_answer, member);
}

static inline void expect_text(const char *words)
{
	if (!strstr(reply("text"), words))
		fail_msg("\"%s\" does not say \"%s\"", reply("text"), words);
}

/* The data of a button, copied: row and column as shown. */
static inline void button(int row, int column, char ret_data[65])
{
	const char *data = answer_string(&shop_answer,
	                                 shop_text("reply_markup.inline_keyboard.%d.%d.callback_data", row, column));
	assert_in_range(strlen(data), 1, 64);
	strcpy(ret_data, data);
}

static inline void stock(const char *sku, int on_hand, const char *english, const char *russian)
{
	shop_expect(shop.key_admin, "PUT", shop_text("/v1/skus/%s", sku), NULL,
	            shop_text("{\"on_hand\":%d,\"titles\":{\"en\":\"%s\",\"ru\":\"%s\"}}", on_hand, english, russian), 201);
}

/* The message stays as it is. In front of everything until a tap, or gone by itself. */
static inline void expect_answer(const char *words, bool in_front)
{
	assert_string_equal(reply("method"), "answerCallbackQuery");
	assert_string_equal(reply("callback_query_id"), "q1");
	expect_text(words);
	assert_int_equal(json_is_true(answer_at(&shop_answer, "show_alert")), in_front);
}

static inline void expect_alert(const char *words)
{
	expect_answer(words, true);
}

static inline void expect_notice(const char *words)
{
	expect_answer(words, false);
}

#define TELEGRAM_MAIN(tests)                                         \
	int main(void)                                                   \
	{                                                                \
		return cmocka_run_group_tests(tests, open_shop, shop_close); \
	}

#endif
