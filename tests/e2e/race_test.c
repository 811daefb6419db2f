/* Six channels, one unit: the last one is wanted at the same moment on every wire the service speaks. The site and the till
 * sell it by HTTP, a person presses Hold in Telegram, an agent calls `hold`, a caller says yes, a
 * marketplace reports an order.
 *
 * Guards against: a channel with a count, a lock or a rule of its own, which nobody sees as long as each is raced alone.
 * Always exactly one gets it, and each of the others is told why in the words of its wire.
 *
 * Fewer rounds in `make test`; LASTUNIT_RACE_ROUNDS=500 for a long look.
 */
#include "lib/shop.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum wire { SITE, TELEGRAM, AGENT, PHONE, MARKETPLACE, TILL, WIRES };
static const char *const wire_names[WIRES] = {"site", "telegram", "agent", "phone", "marketplace", "till"};

#define HEAD_START_US 500

enum outcome { WON, LOST, BROKEN };

static char telegram_secret[64], twilio_token[64];

static int open_shop(void **state)
{
	int failed = shop_open(state);
	char line[200];
	FILE *env = fopen(shop_text("%s/dev.env", shop.directory), "r");
	assert_non_null(env);
	while (fgets(line, sizeof line, env)) {
		sscanf(line, "LASTUNIT_TELEGRAM_SECRET=%63s", telegram_secret);
		sscanf(line, "LASTUNIT_TWILIO_TOKEN=%63s", twilio_token);
	}
	fclose(env);
	assert_true(*telegram_secret && *twilio_token);
	return failed;
}

/* --- one round: who looked before, and what they bring with them -------------------------------------------------- */

struct round {
	int number;
	char sku[32];
	char press[65];    /* the button that holds */
	char offer[64];    /* the agent's */
	char address[600]; /* of the caller's next turn */
	enum outcome outcomes[WIRES];
	char said[WIRES][400];
};

static struct answer telegram_call(const char *update)
{
	return service_call(&shop, NULL, "POST", "/channels/telegram",
	                    shop_text("X-Telegram-Bot-Api-Secret-Token: %s\r\n", telegram_secret), update);
}

static struct answer agent_call(const char *tool, const char *arguments)
{
	return service_call(&shop, shop.key_agent, "POST", "/mcp", "MCP-Protocol-Version: 2025-11-25\r\n",
	                    shop_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
	                              "\"params\":{\"name\":\"%s\",\"arguments\":%s}}",
	                              tool, arguments));
}

static struct answer phone_call(int round, const char *address, const char *said)
{
	unsigned char mac[EVP_MAX_MD_SIZE], signature[64];
	unsigned size;
	const char *message = shop_text("%s%sFrom%dSpeechResult%s", shop.url, address, round, said);
	HMAC(EVP_sha1(), twilio_token, (int)strlen(twilio_token), (const unsigned char *)message, strlen(message), mac,
	     &size);
	EVP_EncodeBlock(signature, mac, (int)size);
	return service_call(&shop, NULL, "POST", address,
	                    shop_text("Content-Type: application/x-www-form-urlencoded\r\nX-Twilio-Signature: %s\r\n",
	                              signature),
	                    shop_text("From=%d&SpeechResult=%s", round, said));
}

static void action_of(const char *twiml, char *ret_address)
{
	const char *at = strstr(twiml, "action=\"");
	assert_non_null(at);
	for (at += strlen("action=\""); *at != '"'; at++) {
		*ret_address++ = *at;
		if (strncmp(at, "&amp;", 5) == 0)
			at += 4;
	}
	*ret_address = 0;
}

/* One unit, a name that no other round's search finds, and three who have looked and were offered it. */
static void round_prepare(struct round *round, int number)
{
	*round = (struct round){.number = number};
	snprintf(round->sku, sizeof round->sku, "RACE-%d", number);
	shop_expect(shop.key_admin, "PUT", shop_text("/v1/skus/%s", round->sku), NULL,
	            shop_text("{\"on_hand\":1,\"titles\":{\"en\":\"w%dx\"}}", 100000 + number), 201);
	const char *title = shop_text("w%dx", 100000 + number);

	struct answer answer = telegram_call(shop_text(
		"{\"update_id\":%d,\"message\":{\"message_id\":1,\"from\":{\"id\":%d},\"chat\":{\"id\":%d},\"text\":\"%s\"}}",
		2 * number + 1, number + 1, number + 1, title));
	snprintf(round->press, sizeof round->press, "%s",
	         answer_string(&answer, "reply_markup.inline_keyboard.0.0.callback_data"));
	assert_int_equal(*round->press, 'h');
	answer_done(&answer);

	answer = agent_call("check_stock", shop_text("{\"skus\":[\"%s\"]}", round->sku));
	snprintf(round->offer, sizeof round->offer, "%s", answer_string(&answer, "result.structuredContent.offer_id"));
	assert_true(*round->offer);
	answer_done(&answer);

	answer = phone_call(number, "/channels/twilio?language=en", title);
	assert_int_equal(answer.status, 200);
	action_of(answer.body, round->address);
	assert_non_null(strstr(round->address, "state="));
	answer_done(&answer);
}

/* --- the wires: each takes the unit in its own way and reads its own answer --------------------------------------- */

static enum outcome judge(bool won, bool lost)
{
	return won == lost ? BROKEN : won ? WON : LOST;
}

static enum outcome judge_code(const struct answer *answer, int status, const char *body)
{
	return judge(answer->status == status,
	             answer->status == 409 && strcmp(answer_string(answer, body), "insufficient_stock") == 0);
}

static const char *lines_of(const struct round *round)
{
	return shop_text("\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]", round->sku);
}

static enum outcome on_site(const struct round *round, struct answer *answer)
{
	*answer = service_call(&shop, shop.key_web, "POST", "/v1/checkouts", NULL,
	                       shop_cart(shop_text("%s=1", round->sku)));
	return judge_code(answer, 201, "code");
}

static enum outcome on_telegram(const struct round *round, struct answer *answer)
{
	*answer = telegram_call(shop_text(
		"{\"update_id\":%d,\"callback_query\":{\"id\":\"q\",\"from\":{\"id\":%d},\"message\":{\"message_id\":5,"
		"\"chat\":{\"id\":%d},\"text\":\"x\"},\"data\":\"%s\"}}",
		2 * round->number + 2, round->number + 1, round->number + 1, round->press));
	const char *text = answer_string(answer, "text");
	return judge(strstr(text, "held for you"), strstr(text, "sold out") || strstr(text, "held by another buyer"));
}

static enum outcome on_agent(const struct round *round, struct answer *answer)
{
	*answer = agent_call("hold", shop_text("{\"offer_id\":\"%s\",%s}", round->offer, lines_of(round)));
	json_t *granted = answer_at(answer, "result.structuredContent.granted");
	return judge(json_is_true(granted),
	             json_is_false(granted) && answer_int(answer, "result.structuredContent.lines.0.available") == 0);
}

static enum outcome on_phone(const struct round *round, struct answer *answer)
{
	*answer = phone_call(round->number, round->address, "yes");
	if (answer->status != 200)
		return BROKEN;
	return judge(strstr(answer->body, "held for you"),
	             strstr(answer->body, "sold out") || strstr(answer->body, "held by another buyer"));
}

static enum outcome on_marketplace(const struct round *round, struct answer *answer)
{
	*answer = service_call(&shop, shop.key_marketplace, "PUT", shop_text("/v1/orders/O-%d", round->number), NULL,
	                       shop_text("{\"version\":1,%s}", lines_of(round)));
	return judge_code(answer, 200, "code");
}

static enum outcome on_till(const struct round *round, struct answer *answer)
{
	*answer =
		service_call(&shop, shop.key_pos, "POST", "/v1/batch", NULL,
	                 shop_text("{\"operations\":[{\"operation\":\"checkout\",\"idempotency_key\":\"till-%d\",%s}]}",
	                           round->number, lines_of(round)));
	int64_t status = answer_int(answer, "results.0.status");
	return judge(status == 201,
	             status == 409 && strcmp(answer_string(answer, "results.0.body.code"), "insufficient_stock") == 0);
}

static enum outcome (*const wires[WIRES])(const struct round *round, struct answer *answer) = {
	[SITE] = on_site,   [TELEGRAM] = on_telegram,       [AGENT] = on_agent,
	[PHONE] = on_phone, [MARKETPLACE] = on_marketplace, [TILL] = on_till,
};

static void take(int wire, void *context)
{
	struct round *round = context;
	struct answer answer;
	crowd_meet();
	/* In turn each has a head start: those who look the product up first would never win. It decides nothing else. */
	usleep((useconds_t)((wire + round->number) % WIRES) * HEAD_START_US);
	round->outcomes[wire] = wires[wire](round, &answer);
	snprintf(round->said[wire], sizeof round->said[wire], "%d %s", answer.status, answer.body ? answer.body : "");
	answer_done(&answer);
}

/* --- the referee -------------------------------------------------------------------------------------------------- */

/* Sold, or held by the winner of a wire that holds. */
static enum wire round_check(const struct round *round)
{
	int winners = 0;
	enum wire winner = WIRES;
	for (enum wire wire = 0; wire < WIRES; wire++) {
		if (round->outcomes[wire] == BROKEN)
			fail_msg("round %d: the %s was told neither yes nor why not: %s", round->number, wire_names[wire],
			         round->said[wire]);
		if (round->outcomes[wire] == WON) {
			winners++;
			winner = wire;
		}
	}
	if (winners != 1)
		fail_msg("round %d: %d winners", round->number, winners);
	bool holds = winner == TELEGRAM || winner == AGENT || winner == PHONE;
	shop_expect_row(round->sku, holds, holds);
	shop_expect_seen(&shop, round->sku, 0, holds);
	assert_int_equal(service_ledger_count(&shop, round->sku, NULL), 2);
	return winner;
}

static void one_unit_on_six_wires_goes_to_exactly_one(void **state)
{
	static struct round round;
	const char *given = getenv("LASTUNIT_RACE_ROUNDS");
	int rounds = given ? atoi(given) : shop_scaled(30, 5), wins[WIRES] = {0};
	for (int i = 0; i < rounds; i++) {
		round_prepare(&round, i);
		crowd_run(WIRES, take, &round);
		wins[round_check(&round)]++;
	}
	print_message("%d rounds:", rounds);
	for (enum wire wire = 0; wire < WIRES; wire++)
		print_message(" %s %d", wire_names[wire], wins[wire]);
	print_message("\n");
	/* What the ledger says of all of them: a unit each was received, and one unit each was sold or is held. */
	assert_int_equal(shop_sql_int(
						 "SELECT sum(on_hand_delta) FILTER (WHERE on_hand_delta < 0) * -1 + sum(reserved_delta)"
						 " FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id WHERE s.code LIKE 'RACE-%%'"),
	                 rounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(one_unit_on_six_wires_goes_to_exactly_one, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_shop, shop_close);
}
