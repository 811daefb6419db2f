/* The Telegram bot's messages: those that Telegram would refuse or show unchanged, and what a product is called in them. */
#include "e2e/telegram_fixture.h"

/* --- what Telegram would refuse ----------------------------------------------------------------------------------- */

/* A message that is too old to be edited comes without its contents, dated 0. */
static void a_message_that_cannot_be_edited_is_answered_by_another(void **state)
{
	char check[65];
	stock("TG-OLD", 0, "Jasper trivet", "Яшмовая подставка");
	type(7, "en", "jasper trivet");
	button(0, 0, check);
	press_on(7, "\"chat\":{\"id\":-1002},\"date\":0", check);
	assert_string_equal(reply("method"), "sendMessage");
	assert_int_equal(answer_int(&shop_answer, "chat_id"), -1002);
	assert_null(answer_at(&shop_answer, "message_id"));
	expect_text("Jasper trivet: sold out.");
}

/* Sent by way of another bot's line, a button is on a message that is not ours to edit. */
static void a_press_on_no_message_is_answered_to_who_pressed(void **state)
{
	char check[65];
	stock("TG-INLINE", 0, "Jade skimmer", "Нефритовая шумовка");
	type(7, "en", "jade skimmer");
	button(0, 0, check);
	update(
		shop_text("{\"update_id\":1,\"callback_query\":{\"id\":\"q1\",\"from\":{\"id\":4711,\"language_code\":\"en\"},"
	              "\"inline_message_id\":\"i\",\"data\":\"%s\"}}",
	              check),
		200);
	assert_string_equal(reply("method"), "sendMessage");
	assert_int_equal(answer_int(&shop_answer, "chat_id"), 4711);
	expect_text("Jade skimmer: sold out.");
}

/* At most 4096 UTF-16 code units, and a button that can be read. */
static void long_titles_are_told_short(void **state)
{
	char title[961] = "Periwinkle";
	for (size_t i = strlen(title); i + 4 < sizeof title; i += 4)
		strcat(title, "\xf0\x9f\xab\x96"); /* a teapot: two units */
	for (int i = 0; i < 5; i++)
		stock(shop_text("TG-LONG-%d", i), 3, title, title);
	type(7, "en", "periwinkle");
	for (int row = 0; row < 5; row++) {
		const char *label = reply(shop_text("reply_markup.inline_keyboard.%d.0.text", row));
		assert_in_range(strlen(label), 20, 4 * 30 + 3);
		assert_non_null(strstr(label, "\xf0\x9f\xab\x96\xe2\x80\xa6"));
	}
	assert_in_range(strlen(reply("text")), 1000, 4096);
	expect_text("\xf0\x9f\xab\x96\xe2\x80\xa6: 3 pieces available.");
}

/* Telegram refuses an edit that changes nothing, and the button turns for ever. */
static void a_look_that_finds_nothing_new_says_so(void **state)
{
	char check[65], message[1000];
	stock("TG-SAME", 0, "Lapis saucepan", "Лазуритовый ковш");
	type(7, "en", "lapis saucepan");
	button(0, 0, check);
	char *keyboard = json_dumps(answer_at(&shop_answer, "reply_markup"), 0);
	snprintf(message, sizeof message, "\"chat\":{\"id\":7},\"date\":1,\"text\":\"%s\",\"reply_markup\":%s",
	         reply("text"), keyboard);
	press_on(7, message, check);
	expect_notice("Nothing has changed.");
	snprintf(message, sizeof message, "\"chat\":{\"id\":7},\"date\":1,\"text\":\"It was there.\",\"reply_markup\":%s",
	         keyboard);
	press_on(7, message, check);
	assert_string_equal(reply("method"), "editMessageText");
	snprintf(message, sizeof message, "\"chat\":{\"id\":7},\"date\":1,\"text\":\"%s\"", "Lapis saucepan: sold out.");
	press_on(7, message, check); /* the button is new */
	assert_string_equal(reply("method"), "editMessageText");
	free(keyboard);
}

/* The message that was just answered with, as a press on it brings it. */
static void take_shown(char ret_message[1000])
{
	char *keyboard = json_dumps(answer_at(&shop_answer, "reply_markup"), 0);
	snprintf(ret_message, 1000, "\"chat\":{\"id\":7},\"date\":1,\"text\":\"%s\",\"reply_markup\":%s", reply("text"),
	         keyboard);
	free(keyboard);
}

/* An edit for nothing but another offer, which is as good as the one that is shown. */
static void a_look_at_what_is_still_left_leaves_the_message_alone(void **state)
{
	char hold[65], check[65], message[1000];
	stock("TG-STILL", 3, "Agate tureen", "Агатовая супница");
	type(7, "en", "agate tureen");
	take_shown(message);
	button(0, 0, hold);
	button(0, 1, check);
	press_on(7, message, check);
	expect_notice("Nothing has changed.");
	assert_int_equal(service_adjust(&shop, "TG-STILL", -1), 201);
	press_on(7, message, check);
	assert_string_equal(reply("method"), "editMessageText");
	expect_text("2 pieces available");
	take_shown(message);
	press_on(7, message, check);
	expect_notice("Nothing has changed.");
	/* One that is not ours is no good. */
	char *offer = strstr(message, "\"h") + 2;
	offer[0] = offer[0] == 'A' ? 'B' : 'A';
	press_on(7, message, check);
	assert_string_equal(reply("method"), "editMessageText");
}

/* Its answer was lost, so it is still shown: only a new offer gets what is left now. */
static void an_offer_that_was_refused_is_replaced_though_all_looks_the_same(void **state)
{
	char hold[65], other[65], release[65], again[65], message[1000];
	stock("TG-SPENT", 1, "Onyx cruet", "Ониксовый судок");
	type(7, "en", "onyx cruet");
	take_shown(message);
	button(0, 0, hold);
	type(8, "en", "onyx cruet");
	button(0, 0, other);
	press(8, other);
	button(0, 1, release);
	press_on(7, message, hold);
	expect_text("held by another buyer");
	press(8, release);
	press_on(7, message, hold);
	assert_string_equal(reply("method"), "editMessageText");
	expect_text("1 piece available");
	button(0, 0, again);
	press_on(7, message, again);
	expect_text("1 piece held for you");
}

/* A message begins with a title, whose language is the catalogue's and not the customer's. */
static void a_press_is_answered_in_the_language_of_its_message(void **state)
{
	char data[65], message[1000];
	shop_expect(shop.key_admin, "PUT", "/v1/skus/TG-LATIN", NULL,
	            "{\"on_hand\":2,\"titles\":{\"en\":\"Celadon ewer\"},\"names\":[\"селадоновый кувшинчик\"]}", 201);
	type(7, "ru", "селадоновый кувшинчик");
	expect_text("Celadon ewer: доступно 2 штуки.");
	take_shown(message);
	button(0, 0, data);
	press_on(7, message, data);
	expect_text("Celadon ewer: 1 штука отложено для вас до ");
	take_shown(message);
	button(0, 1, data);
	press_on(7, message, data);
	expect_text("Отменено.");
	/* And the other way round. */
	stock("TG-CYRILLIC", 2, "Селадоновая пиала", "Селадоновая пиала");
	type(7, "en", "TG-CYRILLIC");
	expect_text("Селадоновая пиала: 2 pieces available.");
	take_shown(message);
	button(0, 0, data);
	press_on(7, message, data);
	expect_text("Селадоновая пиала: 1 piece held for you");
}

/* Whoever writes a command often goes on in the next line. */
static void words_behind_a_command_may_stand_in_the_next_line(void **state)
{
	stock("TG-LINE", 3, "Vermilion carafe", "Алый графин");
	type(7, "en", "/stock\\nvermilion");
	expect_text("Vermilion carafe: 3 pieces available.");
	type(7, "en", "/stock@shop_bot\\n\\tTG-LINE\\n");
	expect_text("Vermilion carafe: 3 pieces available.");
	type(7, "en", "/start\\nvermilion");
	expect_text("Ask me what is in stock");
}

static void a_topic_is_answered_in_the_topic(void **state)
{
	update(
		"{\"update_id\":2,\"message\":{\"message_id\":1,\"from\":{\"id\":7,\"language_code\":\"en\"},\"chat\":{"
		"\"id\":-1003,\"is_forum\":true},\"message_thread_id\":44,\"is_topic_message\":true,\"date\":1,"
		"\"text\":\"/start\"}}",
		200);
	assert_int_equal(answer_int(&shop_answer, "message_thread_id"), 44);
	/* A thread of replies has a number, too, and is no topic. */
	update(
		"{\"update_id\":3,\"message\":{\"message_id\":1,\"from\":{\"id\":7,\"language_code\":\"en\"},\"chat\":{"
		"\"id\":-1003},\"message_thread_id\":44,\"date\":1,\"text\":\"/start\"}}",
		200);
	assert_null(answer_at(&shop_answer, "message_thread_id"));
}

/* --- what a product is called (channels/names.h) ------------------------------------------------------------------ */

#define ELSEWHERE 3
static char offers[ELSEWHERE][65], told_elsewhere[ELSEWHERE][400];

/* Threads have connections of their own, and the service does not give all of them to the loop of the main thread's. */
static void press_elsewhere(int member, void *context)
{
	int chat = *(const int *)context + member;
	struct answer answer = press_apart(chat, chat, offers[member]);
	snprintf(told_elsewhere[member], sizeof told_elsewhere[member], "%s", answer_string(&answer, "text"));
	answer_done(&answer);
}

static int64_t known(void)
{
	return shop_metric(&shop, "lastunit_names_known_total");
}

static int64_t asked(void)
{
	return shop_metric(&shop, "lastunit_names_asked_total");
}

/* A machine so busy that the lease runs out makes it ask, so: of several products, one for which nobody asked. */
static void presses_ask_for_no_name_that_a_look_has_told(void **state)
{
	stock("TG-NAME", 1, "Heliotrope jug", "Гелиотроповый кувшин");
	shop_warm(&shop, "TG-NAME"); /* there is a lease */
	int64_t asked_before, known_before;
	int product = 0, chat = 2000; /* another each time: nobody may hold much */
	do {
		assert_true(++product < 20);
		chat += ELSEWHERE;
		stock(shop_text("TG-NAME-%d", product), 10, shop_text("Gamboge%d", product), "Гуммигут");
		for (int i = 0; i < ELSEWHERE; i++) {
			type(chat + i, "en", shop_text("gamboge%d", product));
			button(0, 0, offers[i]);
		}
		asked_before = asked();
		known_before = known();
		crowd_run(ELSEWHERE, press_elsewhere, &chat);
		assert_int_equal(known() + asked(), known_before + asked_before + ELSEWHERE);
		for (int i = 0; i < ELSEWHERE; i++)
			assert_non_null(strstr(told_elsewhere[i], shop_text("Gamboge%d: 1 piece held for you until ", product)));
	} while (asked() > asked_before);
}

static void rename_to(const char *sku, const char *english)
{
	shop_expect(shop.key_admin, "PUT", shop_text("/v1/skus/%s", sku), NULL,
	            shop_text("{\"titles\":{\"en\":\"%s\"}}", english), 200);
}

static void a_new_title_is_told_by_each_look_and_after_it(void **state)
{
	char hold[65], check[65];
	stock("TG-RENAMED", 5, "Indigo saucer", "Индиговое блюдце");
	shop_warm(&shop, "TG-RENAMED");
	type(21, "en", "indigo saucer");
	button(0, 0, hold);
	button(0, 1, check);
	rename_to("TG-RENAMED", "Cobalt saucer");
	press(21, check);
	expect_text("Cobalt saucer: 5 pieces available");
	press(21, hold);
	expect_text("Cobalt saucer: 1 piece held for you");
}

/* And so after a database was restored, whose products may have other ids. */
static void what_was_told_before_a_flush_is_believed_no_more(void **state)
{
	char hold[65];
	stock("TG-FLUSHED", 5, "Sepia vase", "Сепиевая ваза");
	shop_warm(&shop, "TG-FLUSHED");
	type(22, "en", "sepia vase");
	button(0, 0, hold);
	rename_to("TG-FLUSHED", "Umber vase");
	assert_int_equal(service_run(&shop, (const char *[]){"flush", NULL}), 0);
	shop_warm(&shop, "TG-FLUSHED"); /* there is a lease again */
	press(22, hold);
	expect_text("Umber vase: 1 piece held for you");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_message_that_cannot_be_edited_is_answered_by_another),
	cmocka_unit_test(a_press_on_no_message_is_answered_to_who_pressed),
	cmocka_unit_test(long_titles_are_told_short),
	cmocka_unit_test(a_look_that_finds_nothing_new_says_so),
	cmocka_unit_test_teardown(a_look_at_what_is_still_left_leaves_the_message_alone, shop_audit),
	cmocka_unit_test_teardown(an_offer_that_was_refused_is_replaced_though_all_looks_the_same, shop_audit),
	cmocka_unit_test(a_press_is_answered_in_the_language_of_its_message),
	cmocka_unit_test(words_behind_a_command_may_stand_in_the_next_line),
	cmocka_unit_test(a_topic_is_answered_in_the_topic),
	cmocka_unit_test(presses_ask_for_no_name_that_a_look_has_told),
	cmocka_unit_test(a_new_title_is_told_by_each_look_and_after_it),
	cmocka_unit_test_teardown(what_was_told_before_a_flush_is_believed_no_more, shop_audit),
};

TELEGRAM_MAIN(tests)
