/* Two instances on one PostgreSQL and one Redis are one shop: what is sold, answered, held or seen at one of them is so
 * at the other, at once. Every client changes the instance from call to call.
 */
#include "lib/figures.h"
#include "lib/fleet.h"
#include "lib/shop.h"
#include "lib/witness.h"

#define SELLERS 24
#define READERS 8
#define HOLDERS 16
#define SKUS 5

static struct fleet fleet;

static const struct service *door(int number)
{
	return &fleet.doors[number % 2];
}

static struct answer post(int at, const char *path, const char *body)
{
	return service_call(door(at), fleet.doors[0].key_web, "POST", path, NULL, body);
}

/* --- a hot SKU ---------------------------------------------------------------------------------------------------- */

struct hot {
	struct witness witness;
	struct tally first, again;
	_Atomic int sold_at[2];
};

/* The same key at the other instance: the same answer, and nothing more is sold. */
static void ask_again(struct hot *x, int at, const char *body, const struct answer *first)
{
	struct answer again = post(at, "/v1/checkouts", body);
	tally_add(&x->again, again.status);
	if (again.status != first->status || strcmp(answer_header(&again, "Idempotent-Replayed"), "true") != 0 ||
	    again.body_size != first->body_size || memcmp(again.body, first->body, first->body_size) != 0)
		tally_complain(&x->again, "%d, then at the other %d: %.100s / %.100s", first->status, again.status, first->body,
		               again.body ? again.body : "");
	answer_done(&again);
}

/* What was answered at one is seen at the other. */
static void sell_out(struct hot *x, int index)
{
	bool sold_out = false;
	for (int at = index; !sold_out; at++) {
		char body[120];
		snprintf(body, sizeof body, "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"H000\",\"quantity\":1}]}",
		         service_new_key());
		struct answer answer = post(at, "/v1/checkouts", body);
		tally_add(&x->first, answer.status);
		/* Too busy: the same once more, and it is sold once. */
		while (answer.status == 503) {
			answer_done(&answer);
			answer = post(++at, "/v1/checkouts", body);
			tally_add(&x->first, answer.status);
		}
		if (answer.status == 201) {
			x->sold_at[at % 2]++;
			witness_answered(&x->witness, 0, answer_int(&answer, "lines.0.version"));
			witness_read(&x->witness, door(at + 1), 0);
		} else if (strcmp(answer_string(&answer, "code"), "insufficient_stock") != 0) {
			tally_complain(&x->first, "%d: %.200s", answer.status, answer.body ? answer.body : "");
		}
		sold_out = answer.status != 201;
		if (sold_out || at % 4 == 0)
			ask_again(x, at + 1, body, &answer);
		answer_done(&answer);
	}
}

static void buy_or_look(int index, void *context)
{
	struct hot *x = context;
	if (index < SELLERS) {
		sell_out(x, index);
		return;
	}
	for (int at = index; !tally_of(&x->first, 409); at++)
		witness_read(&x->witness, door(at), 0);
}

static void a_hot_sku_is_sold_out_through_both_and_neither_goes_back(void **state)
{
	static struct hot x;
	int stock = endure_full() ? 20000 : shop_scaled(1500, 300);
	witness_open(&x.witness, &shop, "H", 1, stock);
	x.witness.single_sales = true;
	int64_t since_ms = shop_now_ms();
	crowd_run(SELLERS + READERS, buy_or_look, &x);
	double seconds = (double)(shop_now_ms() - since_ms) / 1000;
	printf("A hot SKU of %d units, %d sellers, %d readers, two instances\n", stock, SELLERS, READERS);
	figure("sold at the first", x.sold_at[0], "", "");
	figure("sold at the second", x.sold_at[1], "", "");
	figure("sales", stock / seconds, "/s", "");
	figure("sales answered 503, and asked for again", tally_of(&x.first, 503), "", "");
	figure("keys asked again at the other, the same answer", tally_total(&x.again), "", "");
	figure("reads judged", tally_of(&x.witness.reads, 200), "", "");
	figure("reads that were wrong", x.witness.reads.complaints, "", "0");
	assert_string_equal(x.first.complaint, "");
	assert_string_equal(x.again.complaint, "");
	assert_string_equal(x.witness.reads.complaint, "");
	assert_int_equal(tally_of(&x.witness.reads, 200) + tally_of(&x.witness.reads, 503), tally_total(&x.witness.reads));
	assert_int_equal(tally_of(&x.first, 201), stock);
	assert_int_equal(tally_of(&x.first, 409), SELLERS);
	assert_true(x.sold_at[0] > 0 && x.sold_at[1] > 0);
	shop_expect_row("H000", 0, 0);
	shop_expect_seen(&fleet.doors[0], "H000", 0, 0);
	shop_expect_seen(&fleet.doors[1], "H000", 0, 0);
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

struct holds {
	struct witness witness;
	struct tally answers; /* complaints: what the two did not agree on */
	_Atomic int64_t committed[SKUS];
	_Atomic int ended;
	int rounds;
};

/* One call, and the versions in its answer are known from then on. Returns the status. */
static int tell(struct holds *x, int at, int sku, const char *id, const char *what, char ret_text[40])
{
	struct answer answer = post(at, *id ? shop_path("reservations", id, what) : "/v1/reservations",
	                            *id ? "{}" : shop_cart(shop_text("G%03d=1", sku)));
	int status = answer.status;
	tally_add(&x->answers, status);
	int64_t version = answer_int(&answer, "lines.0.version");
	if (status < 300 && version > 0)
		witness_answered(&x->witness, sku, version);
	snprintf(ret_text, 40, "%s", answer_string(&answer, "id"));
	answer_done(&answer);
	return status;
}

static void expect_status(struct holds *x, int at, const char *id, const char *wanted)
{
	struct answer answer = service_call(door(at), fleet.doors[0].key_web, "GET", shop_path("reservations", id, ""),
	                                    NULL, NULL);
	if (answer.status != 200 || strcmp(answer_string(&answer, "status"), wanted) != 0)
		tally_complain(&x->answers, "%s, answered by one, is %s at the other (%d)", wanted,
		               answer_string(&answer, "status"), answer.status);
	answer_done(&answer);
}

static void hold_and_end(int index, void *context)
{
	struct holds *x = context;
	for (int round = 0; round < x->rounds; round++) {
		int at = index + round, sku = (index + round / 2) % SKUS;
		char id[40], sale[40], again[40], none[40];
		bool commits = (index + round) % 3 == 0;
		if (tell(x, at, sku, "", "", id) != 201) {
			tally_complain(&x->answers, "not held");
			continue;
		}
		expect_status(x, at + 1, id, "active");
		witness_read(&x->witness, door(at + 1), sku);
		/* Begun at one, extended and ended at the other, ended again where it began, and then the other way. */
		int statuses[] = {tell(x, at + 1, sku, id, "/extend", none),
		                  tell(x, at + 1, sku, id, commits ? "/commit" : "/release", sale),
		                  tell(x, at, sku, id, commits ? "/commit" : "/release", again),
		                  tell(x, at, sku, id, commits ? "/release" : "/commit", none)};
		if (statuses[0] != 200 || statuses[1] != 200 || statuses[2] != 200 || statuses[3] != 409 ||
		    strcmp(sale, again) != 0)
			tally_complain(&x->answers, "%s: %d %d %d %d, %s then %s", commits ? "committed" : "released", statuses[0],
			               statuses[1], statuses[2], statuses[3], sale, again);
		expect_status(x, at, id, commits ? "committed" : "released");
		witness_read(&x->witness, door(at), sku);
		x->committed[sku] += commits;
		x->ended++;
	}
}

static void holds_begun_at_one_are_ended_at_the_other(void **state)
{
	static struct holds x;
	int64_t stock = 1000000;
	x.rounds = endure_full() ? 500 : shop_scaled(20, 4);
	witness_open(&x.witness, &shop, "G", SKUS, stock);
	crowd_run(HOLDERS, hold_and_end, &x);
	printf("Holds of %d clients, begun at one instance, ended at the other\n", HOLDERS);
	figure("holds begun and ended", x.ended, "", "");
	figure("calls to it", tally_total(&x.answers), "", tally_text(&x.answers));
	figure("reads judged", tally_of(&x.witness.reads, 200), "", "");
	figure("reads that were wrong", x.witness.reads.complaints, "", "0");
	assert_string_equal(x.answers.complaint, "");
	assert_string_equal(x.witness.reads.complaint, "");
	assert_int_equal(x.ended, HOLDERS * x.rounds);
	for (int i = 0; i < SKUS; i++) {
		char code[16];
		shop_expect_row(witness_sku(&x.witness, i, code), stock - x.committed[i], 0);
		shop_expect_seen(&fleet.doors[0], code, stock - x.committed[i], 0);
		shop_expect_seen(&fleet.doors[1], code, stock - x.committed[i], 0);
	}
}

static int open_fleet(void **state)
{
	fleet_open(&fleet, 2, NULL);
	shop = fleet.doors[0];
	return 0;
}

static int close_fleet(void **state)
{
	return fleet_close(&fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_hot_sku_is_sold_out_through_both_and_neither_goes_back, shop_audit),
		cmocka_unit_test_teardown(holds_begun_at_one_are_ended_at_the_other, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_fleet, close_fleet);
}
