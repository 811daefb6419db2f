/* The Telegram bot: what people type and press, twice, too late, in groups, and all at once. Its messages:
 * telegram_messages_test.c.
 *
 * Guards against: a press that is sent again under another update and holds twice; a button that grew old and takes a unit;
 * "sold out" for what somebody else only holds; a repeated press that is told what was true when it was first made; an
 * answer other than 200, which Telegram repeats for hours.
 */
#include "e2e/telegram_fixture.h"

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
	type(1, "ru", "/start from-a-link"); /* whose letters are nobody's language */
	expect_text("Спросите");
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
	/* Nor whoever has all of the secret but its end, or something behind it. */
	const char *const nearly[] = {shop_text("%.31s%c", secret, secret[31] == 'x' ? 'y' : 'x'),
	                              shop_text("%.31s", secret), shop_text("%sx", secret)};
	for (size_t i = 0; i < sizeof nearly / sizeof *nearly; i++)
		shop_expect(NULL, "POST", "/channels/telegram", shop_text("X-Telegram-Bot-Api-Secret-Token: %s\r\n", nearly[i]),
		            "{\"update_id\":1}", 401);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

#define GROUP (-1001)

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
	expect_alert(another);
	press_in(GROUP, 8, buy);
	expect_alert(another);
	press_in(GROUP, 8, release);
	expect_alert(another);
	press_in(8, 8, buy); /* carried elsewhere, by a client that can */
	expect_alert(another);
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
	expect_alert("You hold as much as you may");
	press_in(GROUP, 10, hold);
	expect_text("1 piece held for you until ");
	shop_expect_row("TG-SHARE", 60, 21);
}

/* Twenty chats, ten units, all at once. */
#define CHATS 20
static char offers[CHATS][65];
static _Atomic int held;

static void hold_at_once(int member, void *context)
{
	struct answer answer = press_apart(900 + member, 1000 + member, offers[member]);
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

static const struct CMUnitTest tests[] = {
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
	cmocka_unit_test_teardown(twenty_chats_hold_ten_units, shop_audit),
};

TELEGRAM_MAIN(tests)
