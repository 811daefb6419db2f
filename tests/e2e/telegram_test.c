/* The Telegram bot: what people type and press, twice, too late, and all at once.
 *
 * Guards against: a press that is sent again under another update and holds twice; a button that grew old and takes a unit;
 * "sold out" for what somebody else only holds; a repeated press that is told what was true when it was first made; an
 * answer other than 200, which Telegram repeats for hours.
 */
#include "lib/shop.h"

static char secret[64];
static int64_t update_id = 700000000000;

static int open_shop(void **state)
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

static void update(const char *body, int status)
{
	shop_expect(NULL, "POST", "/channels/telegram", shop_text("X-Telegram-Bot-Api-Secret-Token: %s\r\n", secret), body,
	            status);
}

/* As a person in this chat. */
static void type(int64_t chat, const char *language, const char *text)
{
	update(
		shop_text("{\"update_id\":%lld,\"message\":{\"message_id\":1,\"from\":{\"id\":%lld,\"language_code\":\"%s\"},"
	              "\"chat\":{\"id\":%lld,\"type\":\"private\"},\"date\":1,\"text\":\"%s\"}}",
	              (long long)update_id++, (long long)chat, language, (long long)chat, text),
		200);
}

/* `message`: the members of the message that the button is on. */
static void press_on(int64_t user, const char *message, const char *data)
{
	update(shop_text(
			   "{\"update_id\":%lld,\"callback_query\":{\"id\":\"q1\",\"from\":{\"id\":%lld,\"language_code\":\"en\"},"
			   "\"message\":{\"message_id\":5,%s},\"data\":\"%s\"}}",
			   (long long)update_id++, (long long)user, message, data),
	       200);
}

static void press_in(int64_t chat, int64_t user, const char *data)
{
	char message[100];
	snprintf(message, sizeof message, "\"chat\":{\"id\":%lld},\"date\":1,\"text\":\"x\"", (long long)chat);
	press_on(user, message, data);
}

static void press(int64_t chat, const char *data)
{
	press_in(chat, chat, data);
}

static const char *reply(const char *member)
{
	return answer_string(&shop_answer, member);
}

static void expect_text(const char *words)
{
	if (!strstr(reply("text"), words))
		fail_msg("\"%s\" does not say \"%s\"", reply("text"), words);
}

/* The data of a button, copied: row and column as shown. */
static void button(int row, int column, char ret_data[65])
{
	const char *data = answer_string(&shop_answer,
	                                 shop_text("reply_markup.inline_keyboard.%d.%d.callback_data", row, column));
	assert_in_range(strlen(data), 1, 64);
	strcpy(ret_data, data);
}

static void stock(const char *sku, int on_hand, const char *english, const char *russian)
{
	shop_expect(shop.key_admin, "PUT", shop_text("/v1/skus/%s", sku), NULL,
	            shop_text("{\"on_hand\":%d,\"titles\":{\"en\":\"%s\",\"ru\":\"%s\"}}", on_hand, english, russian), 201);
}

static void a_question_in_russian_is_answered_in_russian(void **state)
{
	stock("TG-MUG", 2, "Porcelain mug", "Фарфоровая кружка");
	type(100200300400500, "ru", "фарфоровая кружка есть?");
	assert_string_equal(reply("method"), "sendMessage");
	assert_int_equal(answer_int(&shop_answer, "chat_id"), 100200300400500);
	assert_string_equal(reply("text"), "Фарфоровая кружка: доступно 2 штуки. Товар ваш, только когда вы его отложите.");
	assert_string_equal(reply("reply_markup.inline_keyboard.0.0.text"), "Отложить");
	type(1, "ru", "/stock porcelain mugs?");
	expect_text("Porcelain mug: 2 pieces available");
	type(1, "en", "велосипед");
	expect_text("Ничего похожего");
}

/* The Bot API refuses a keyboard with an empty row, and a line that is true of all is said once. */
static void of_several_only_those_that_are_left_have_a_row(void **state)
{
	stock("TG-FEW-1", 2, "Vermilion kite small", "Алый змей малый");
	stock("TG-FEW-2", 0, "Vermilion kite large", "Алый змей большой");
	stock("TG-FEW-3", 3, "Vermilion kite medium", "Алый змей средний");
	type(1, "en", "vermilion kite");
	expect_text("Vermilion kite large: sold out.");
	const char *once = strstr(reply("text"), "yours only once you hold them");
	assert_non_null(once);
	assert_null(strstr(once + 1, "yours only once you hold them"));
	assert_int_equal(json_array_size(answer_at(&shop_answer, "reply_markup.inline_keyboard")), 2);
	for (int row = 0; row < 2; row++)
		assert_int_equal(json_array_size(answer_at(&shop_answer, shop_text("reply_markup.inline_keyboard.%d", row))),
		                 1);
}

static void a_start_is_welcomed(void **state)
{
	type(1, "ru", "/start");
	expect_text("Спросите");
	type(1, "en", "/start@shop_bot from-a-link");
	expect_text("Ask me");
	type(1, "en", "/stock");
	expect_text("Ask me");
}

static void a_hold_is_bought_by_its_buttons(void **state)
{
	char hold[65], buy[65], check[65];
	stock("TG-BUY", 1, "Cinnabar teapot", "Киноварный чайник");
	type(7, "en", "cinnabar teapot");
	button(0, 0, hold);
	button(0, 1, check);
	press(7, hold);
	assert_string_equal(reply("method"), "editMessageText");
	assert_int_equal(answer_int(&shop_answer, "message_id"), 5);
	expect_text("1 piece held for you until ");
	button(0, 0, buy);
	shop_expect_row("TG-BUY", 1, 1);
	press(8, check);
	expect_text("held by another buyer until ");
	press(7, buy);
	expect_text("1 piece bought");
	shop_expect_row("TG-BUY", 0, 0);
	press(7, buy);
	expect_text("1 piece bought");
	press(8, check);
	expect_text("sold out");
	shop_expect_row("TG-BUY", 0, 0);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id"
	                              " WHERE s.code = 'TG-BUY' AND l.channel = 2"),
	                 2);
}

/* The app lost the answer: the same press comes under another update. */
static void the_same_press_holds_once(void **state)
{
	char hold[65], first[65], second[65];
	stock("TG-TWICE", 5, "Basalt bowl", "Базальтовая миска");
	type(7, "en", "basalt bowl");
	button(0, 0, hold);
	press(7, hold);
	button(0, 0, first);
	press(7, hold);
	button(0, 0, second);
	assert_string_equal(first, second);
	shop_expect_row("TG-TWICE", 5, 1);
}

/* The hold of this product ends at this time, an expression of SQL. */
static void move_end(const char *sku, const char *when)
{
	shop_sql(
		"WITH it AS (UPDATE lastunit.hold h SET expires_at = %s FROM lastunit.sku s"
		" WHERE s.id = h.sku_id AND s.code = '%s' RETURNING h.reservation_id, h.expires_at)"
		" UPDATE lastunit.reservation r SET expires_at = it.expires_at FROM it"
		" WHERE r.id = it.reservation_id",
		when, sku);
}

/* What it is called in the answers: `name`. */
static void hold_one(const char *name, char ret_hold[65], char ret_buy[65], char ret_release[65])
{
	type(7, "en", name);
	button(0, 0, ret_hold);
	press(7, ret_hold);
	expect_text("1 piece held for you until ");
	button(0, 0, ret_buy);
	button(0, 1, ret_release);
}

/* The stored answer of a hold is that of the moment in which it was made. */
static void the_same_press_is_told_how_the_hold_stands_now(void **state)
{
	char hold[65], buy[65], release[65];
	stock("TG-AGAIN", 3, "Fuchsia ladle", "Пурпурный половник");
	hold_one("fuchsia ladle", hold, buy, release);
	move_end("TG-AGAIN", "clock_timestamp() + interval '5 minutes 20 seconds'");
	press(7, hold);
	expect_text("that is 5 minutes.");
	move_end("TG-AGAIN", "clock_timestamp() + interval '25 seconds'");
	press(7, hold);
	expect_text("that is 1 minute.");
	press(7, release);
	expect_text("Released. It is no longer held for you.");
	press(7, hold);
	expect_text("already released");
	hold_one("fuchsia ladle", hold, buy, release);
	move_end("TG-AGAIN", "clock_timestamp()");
	press(7, hold);
	expect_text("That hold has ended, and nothing was bought.");
	press(7, release); /* expires it */
	hold_one("fuchsia ladle", hold, buy, release);
	press(7, buy);
	press(7, hold);
	expect_text("already bought");
	shop_expect_row("TG-AGAIN", 2, 0);
}

/* By a hand: what is held or was bought by it, nobody can say. */
static void a_press_whose_hold_or_sale_lost_its_lines_is_answered(void **state)
{
	char hold[65], buy[65], release[65];
	stock("TG-BARE", 3, "Ochre jug", "Охровый кувшин");
	hold_one("ochre jug", hold, buy, release);
	shop_sql(
		"UPDATE lastunit.reservation SET quantities = '{-1}' WHERE sku_ids ="
		" ARRAY(SELECT id FROM lastunit.sku WHERE code = 'TG-BARE')");
	press(7, hold);
	expect_text("I cannot answer just now.");
	shop_sql("UPDATE lastunit.reservation SET quantities = '{1}' WHERE quantities = '{-1}'");
	press(7, buy);
	shop_sql(
		"UPDATE lastunit.checkout SET quantities = '{-1}' WHERE sku_ids ="
		" ARRAY(SELECT id FROM lastunit.sku WHERE code = 'TG-BARE')");
	press(7, buy);
	expect_text("I cannot answer just now.");
	shop_sql("UPDATE lastunit.checkout SET quantities = '{1}' WHERE quantities = '{-1}'");
	press(7, buy);
	expect_text("Ochre jug: 1 piece bought. Thank you!");
}

static void a_refused_press_made_again_is_told_what_is_left_now(void **state)
{
	char refused[65], hold[65], release[65];
	stock("TG-REFUSED", 1, "Ochre skillet", "Охристая сковорода");
	type(8, "en", "ochre skillet");
	button(0, 0, refused);
	type(7, "en", "ochre skillet");
	button(0, 0, hold);
	press(7, hold);
	button(0, 1, release);
	press(8, refused);
	expect_text("held by another buyer until ");
	press(7, release);
	press(8, refused);
	expect_text("Ochre skillet: 1 piece available.");
	shop_expect_row("TG-REFUSED", 1, 0);
	button(0, 0, hold);
	press(8, hold);
	expect_text("1 piece held for you until ");
}

/* It may be anybody's by now. */
static void what_had_ended_is_not_released(void **state)
{
	char hold[65], buy[65], release[65], late[65];
	stock("TG-GONE", 1, "Taupe colander", "Серый дуршлаг");
	hold_one("taupe colander", hold, buy, late);
	move_end("TG-GONE", "clock_timestamp()");
	press(7, late);
	expect_text("That hold has ended, and nothing was bought.");
	hold_one("taupe colander", hold, buy, release);
	press(7, late);
	expect_text("That hold has ended, and nothing was bought.");
	press(7, release);
	expect_text("Released. It is no longer held for you.");
	press(7, release);
	expect_text("already released");
	shop_expect_row("TG-GONE", 1, 0);
}

/* What was released may stay off sale: nothing is promised but that it is released. */
static void what_a_safety_stock_keeps_is_not_said_to_be_on_sale(void **state)
{
	char hold[65], buy[65], release[65], check[65];
	stock("TG-KEPT", 1, "Sepia ramekin", "Керамический рамекин");
	hold_one("sepia ramekin", hold, buy, release);
	shop_expect(shop.key_admin, "PUT", "/v1/skus/TG-KEPT", NULL, "{\"safety_stock\":1}", 200);
	press(7, release);
	assert_string_equal(reply("text"), "Released. It is no longer held for you.");
	button(0, 0, check);
	press(7, check);
	expect_text("sold out");
	shop_expect_row("TG-KEPT", 1, 0);
}

static void a_late_press_is_told_kindly(void **state)
{
	char hold[65], buy[65], release[65];
	stock("TG-LATE", 1, "Opal goblet", "Опаловый кубок");
	type(7, "en", "opal goblet");
	button(0, 0, hold);
	press(7, hold);
	button(0, 0, buy);
	button(0, 1, release);
	move_end("TG-LATE", "clock_timestamp()");
	press(7, buy);
	expect_text("That hold has ended");
	press(7, release);
	expect_text("That hold has ended");
	shop_expect_row("TG-LATE", 1, 0);
	type(7, "en", "opal goblet");
	button(0, 0, hold);
	press(7, hold);
	button(0, 0, buy);
	button(0, 1, release);
	press(7, release);
	expect_text("Released");
	press(7, buy);
	expect_text("already released");
	shop_expect_row("TG-LATE", 1, 0);
}

static void what_nobody_wrote_is_understood_by_nobody(void **state)
{
	static const char *const forged[] = {"",
	                                     "x",
	                                     "h.1",
	                                     "hAAAAAAAAAAAAAAAAAAAAAAAAAAA.1",
	                                     "b.1",
	                                     "bAAAA.1",
	                                     "c.0",
	                                     "c1",
	                                     "c.1.1",
	                                     "c.99999999999999999999",
	                                     "rAAAAAAAAAAAAAAAAAAAAAB.1"};
	for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
		press(7, forged[i]);
		assert_true(strlen(reply("method")) > 0);
	}
	/* A well-formed hold by an offer that nobody minted. */
	press(7,
	      shop_text("hAAAAAAAAAAAAAAAAAAAAAAAAAAA.%lld", (long long)shop_sql_int("SELECT min(id) FROM lastunit.sku")));
	expect_text("do not know");
	press(7, "c.999999999"); /* of a catalogue that was restored, say */
	expect_text("I found nothing like that.");
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.reservation WHERE reference = 'forged'"), 0);
	update("{\"update_id\":1,\"edited_message\":{}}", 200);
	assert_int_equal(shop_answer.body_size, 0);
	update("{\"update_id\":1,\"message\":{\"chat\":{\"id\":1},\"photo\":[]}}", 200);
	assert_int_equal(shop_answer.body_size, 0);
}

/* "Nothing like that" would send them elsewhere. */
static void what_cannot_be_looked_up_now_is_not_said_to_be_unknown(void **state)
{
	static const char later[] = "I cannot answer just now.";
	char check[65];
	stock("TG-AWAY", 1, "Amber decanter", "Янтарный графин");
	type(7, "en", "amber decanter");
	button(0, 1, check);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN");
	stranger_say(stranger, "LOCK TABLE lastunit.sku");
	type(7, "en", "amber decanter");
	expect_text(later);
	press(7, check);
	assert_string_equal(reply("method"), "answerCallbackQuery");
	expect_text(later);
	stranger_free(stranger);
	press(7, check);
	expect_text("Amber decanter: 1 piece available.");
}

static void only_telegram_may_speak(void **state)
{
	shop_expect(NULL, "POST", "/channels/telegram", NULL, "{\"update_id\":1}", 401);
	shop_expect(NULL, "POST", "/channels/telegram", "X-Telegram-Bot-Api-Secret-Token: wrong\r\n", "{\"update_id\":1}",
	            401);
	shop_expect(shop.key_admin, "POST", "/channels/telegram", NULL, "{\"update_id\":1}", 401);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

#define GROUP (-1001)

static void expect_nothing_but(const char *alert)
{
	assert_string_equal(reply("method"), "answerCallbackQuery");
	assert_string_equal(reply("callback_query_id"), "q1");
	expect_text(alert);
}

/* All see the same buttons; what is held is held for one of them. */
static void in_a_group_a_hold_is_its_holders(void **state)
{
	static const char another[] = "This one is held for somebody else.";
	char hold[65], buy[65], release[65];
	stock("TG-GROUP", 1, "Beryl tankard", "Берилловая кружка");
	type(GROUP, "en", "beryl tankard");
	button(0, 0, hold);
	press_in(GROUP, 7, hold);
	expect_text("1 piece held for you until ");
	button(0, 0, buy);
	button(0, 1, release);
	press_in(GROUP, 8, hold);
	expect_nothing_but(another);
	press_in(GROUP, 8, buy);
	expect_nothing_but(another);
	press_in(GROUP, 8, release);
	expect_nothing_but(another);
	press_in(8, 8, buy); /* carried elsewhere, by a client that can */
	expect_nothing_but(another);
	shop_expect_row("TG-GROUP", 1, 1);
	press_in(GROUP, 7, release);
	expect_text("Released.");
	type(GROUP, "en", "beryl tankard");
	button(0, 0, hold);
	press_in(GROUP, 8, hold);
	button(0, 0, buy);
	press_in(GROUP, 8, buy);
	expect_text("1 piece bought");
	shop_expect_row("TG-GROUP", 0, 0);
}

static void in_a_group_each_has_a_share_of_his_own(void **state)
{
	char hold[65];
	stock("TG-SHARE", 60, "Garnet spoon", "Гранатовая ложка");
	for (int i = 0; i <= 20; i++) {
		type(GROUP, "en", "garnet spoon");
		button(0, 0, hold);
		press_in(GROUP, 9, hold);
	}
	expect_nothing_but("You hold as much as you may");
	press_in(GROUP, 10, hold);
	expect_text("1 piece held for you until ");
	shop_expect_row("TG-SHARE", 60, 21);
}

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
	expect_nothing_but("Nothing has changed.");
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
	expect_nothing_but("Nothing has changed.");
	assert_int_equal(service_adjust(&shop, "TG-STILL", -1), 201);
	press_on(7, message, check);
	assert_string_equal(reply("method"), "editMessageText");
	expect_text("2 pieces available");
	take_shown(message);
	press_on(7, message, check);
	expect_nothing_but("Nothing has changed.");
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

/* Twenty chats, ten units, all at once. */
#define CHATS 20
static char offers[CHATS][65];
static _Atomic int held;

static void hold_at_once(int member, void *context)
{
	char body[400], headers[120];
	snprintf(headers, sizeof headers, "X-Telegram-Bot-Api-Secret-Token: %s\r\n", secret);
	snprintf(
		body, sizeof body,
		"{\"update_id\":%d,\"callback_query\":{\"id\":\"q\",\"from\":{\"id\":%d},\"message\":{\"message_id\":5,\"chat\":{"
		"\"id\":%d},\"text\":\"x\"},\"data\":\"%s\"}}",
		900 + member, 1000 + member, 1000 + member, offers[member]);
	struct answer answer = service_call(&shop, NULL, "POST", "/channels/telegram", headers, body);
	if (answer.status == 200 && strstr(answer_string(&answer, "text"), "held for you"))
		held++;
	answer_done(&answer);
}

static void twenty_chats_hold_ten_units(void **state)
{
	stock("TG-TEN", 10, "Malachite lantern", "Малахитовый фонарь");
	for (int i = 0; i < CHATS; i++) {
		type(1000 + i, "en", "malachite lantern");
		button(0, 0, offers[i]);
	}
	crowd_run(CHATS, hold_at_once, NULL);
	assert_int_equal(held, 10);
	shop_expect_row("TG-TEN", 10, 10);
}

/* --- what a product is called (channels/names.h) ------------------------------------------------------------------ */

#define ELSEWHERE 3
static char told_elsewhere[ELSEWHERE][400];

/* Threads have connections of their own, and the service does not give all of them to the loop of the main thread's. */
static void press_elsewhere(int member, void *context)
{
	char body[400], headers[120];
	int chat = *(const int *)context + member;
	snprintf(headers, sizeof headers, "X-Telegram-Bot-Api-Secret-Token: %s\r\n", secret);
	snprintf(body, sizeof body,
	         "{\"update_id\":%d,\"callback_query\":{\"id\":\"q\",\"from\":{\"id\":%d},\"message\":{\"message_id\":5,"
	         "\"chat\":{\"id\":%d},\"text\":\"x\"},\"data\":\"%s\"}}",
	         chat, chat, chat, offers[member]);
	struct answer answer = service_call(&shop, NULL, "POST", "/channels/telegram", headers, body);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_in_russian_is_answered_in_russian),
		cmocka_unit_test(of_several_only_those_that_are_left_have_a_row),
		cmocka_unit_test(a_start_is_welcomed),
		cmocka_unit_test_teardown(a_hold_is_bought_by_its_buttons, shop_audit),
		cmocka_unit_test_teardown(the_same_press_holds_once, shop_audit),
		cmocka_unit_test_teardown(the_same_press_is_told_how_the_hold_stands_now, shop_audit),
		cmocka_unit_test_teardown(a_press_whose_hold_or_sale_lost_its_lines_is_answered, shop_audit),
		cmocka_unit_test_teardown(a_refused_press_made_again_is_told_what_is_left_now, shop_audit),
		cmocka_unit_test_teardown(what_had_ended_is_not_released, shop_audit),
		cmocka_unit_test_teardown(what_a_safety_stock_keeps_is_not_said_to_be_on_sale, shop_audit),
		cmocka_unit_test_teardown(a_late_press_is_told_kindly, shop_audit),
		cmocka_unit_test(what_nobody_wrote_is_understood_by_nobody),
		cmocka_unit_test(what_cannot_be_looked_up_now_is_not_said_to_be_unknown),
		cmocka_unit_test(only_telegram_may_speak),
		cmocka_unit_test_teardown(in_a_group_a_hold_is_its_holders, shop_audit),
		cmocka_unit_test_teardown(in_a_group_each_has_a_share_of_his_own, shop_audit),
		cmocka_unit_test(a_message_that_cannot_be_edited_is_answered_by_another),
		cmocka_unit_test(long_titles_are_told_short),
		cmocka_unit_test(a_look_that_finds_nothing_new_says_so),
		cmocka_unit_test_teardown(a_look_at_what_is_still_left_leaves_the_message_alone, shop_audit),
		cmocka_unit_test_teardown(an_offer_that_was_refused_is_replaced_though_all_looks_the_same, shop_audit),
		cmocka_unit_test(a_topic_is_answered_in_the_topic),
		cmocka_unit_test_teardown(twenty_chats_hold_ten_units, shop_audit),
		cmocka_unit_test(presses_ask_for_no_name_that_a_look_has_told),
		cmocka_unit_test(a_new_title_is_told_by_each_look_and_after_it),
		cmocka_unit_test_teardown(what_was_told_before_a_flush_is_believed_no_more, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_shop, shop_close);
}
