/* The API against the real service: checkouts, reservations, keys used twice, and who sees what. Several at once:
 * api_batch_test.c. */
#include "e2e/api_fixture.h"

#include <unistd.h>

static void ask(const char *path, int status)
{
	call(service.key_web, "GET", path, NULL, NULL, status);
}

static const char *path_of(const char *folder, const char *id, const char *rest)
{
	static char ring[4][160];
	static unsigned next;
	char *out = ring[next++ % 4];
	snprintf(out, sizeof ring[0], "/v1/%s/%s%s", folder, id, rest);
	return out;
}

/* --- checkouts ---------------------------------------------------------------------------------------------------- */

static void a_checkout_sells_all_lines_or_none(void **state)
{
	service_create_sku(&service, "SELL-A", 5);
	service_create_sku(&service, "SELL-B", 1);
	post("/v1/checkouts",
	     "{\"lines\":[{\"sku\":\"SELL-B\",\"quantity\":1},{\"sku\":\"SELL-A\",\"quantity\":2},"
	     "{\"sku\":\"SELL-A\",\"quantity\":1}],\"reference\":\"order 1/ü\"}",
	     201);
	char id[37];
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	assert_string_equal(answer_header(&answer, "Location"), path_of("checkouts", id, ""));
	assert_string_equal(answer_string(&answer, "status"), "completed");
	assert_string_equal(answer_string(&answer, "reference"), "order 1/ü");
	assert_string_equal(answer_string(&answer, "channel"), "web");
	assert_true(json_is_null(answer_at(&answer, "reservation_id")));
	/* Twins are one line. */
	assert_int_equal(json_array_size(answer_at(&answer, "lines")), 2);
	assert_string_equal(answer_string(&answer, "lines.0.sku"), "SELL-A");
	assert_int_equal(answer_int(&answer, "lines.0.quantity"), 3);
	assert_int_equal(answer_int(&answer, "lines.0.version"), 2);
	assert_int_equal(answer_int(&answer, "lines.0.cancelled"), 0);
	json_t *sold = json_incref(answer.json);
	ask(path_of("checkouts", id, ""), 200);
	assert_true(json_equal(answer.json, sold));
	ask("/v1/checkouts?reference=order%201/%C3%BC", 200);
	assert_true(json_equal(answer_at(&answer, "items.0"), sold));
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	assert_true(json_is_null(answer_at(&answer, "next")));
	json_decref(sold);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"SELL-A\",\"quantity\":1},{\"sku\":\"SELL-B\",\"quantity\":2}]}", 409);
	problem("insufficient_stock", "SELL-B: 2 requested, 0 available");
	assert_int_equal(json_array_size(answer_at(&answer, "lines")), 1);
	assert_string_equal(answer_string(&answer, "lines.0.sku"), "SELL-B");
	assert_int_equal(answer_int(&answer, "lines.0.requested"), 2);
	assert_int_equal(answer_int(&answer, "lines.0.available"), 0);
	assert_true(json_is_null(answer_at(&answer, "lines.0.next_release_at")));
	row_is("SELL-A", 2, 0);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"SELL-A\",\"quantity\":1},{\"sku\":\"SELL-NONE\",\"quantity\":1}]}",
	     404);
	problem("unknown_sku", "SELL-NONE");
	row_is("SELL-A", 2, 0);
	ask(path_of("checkouts", NO_ID, ""), 404);
	problem("unknown_checkout", "");
	ask(path_of("checkouts", "nonsense", ""), 404);
	ask("/v1/checkouts", 422);
	problem("invalid_field", "`reference`");
	ask("/v1/checkouts?reference=nobody", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 0);
}

static void checkouts_of_one_reference_come_in_pages(void **state)
{
	service_create_sku(&service, "PAGES", 9);
	for (int i = 0; i < 3; i++)
		post("/v1/checkouts", "{\"lines\":[{\"sku\":\"PAGES\",\"quantity\":1}],\"reference\":\"pages\"}", 201);
	ask("/v1/checkouts?reference=pages&limit=2", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	char path[120];
	snprintf(path, sizeof path, "/v1/checkouts?reference=pages&limit=2&after=%s", answer_string(&answer, "next"));
	assert_string_equal(answer_string(&answer, "next"), answer_string(&answer, "items.1.id"));
	ask(path, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	assert_true(json_is_null(answer_at(&answer, "next")));
	ask("/v1/checkouts?reference=pages&limit=3", 200); /* they fit, and there is no more */
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 3);
	assert_true(json_is_null(answer_at(&answer, "next")));
	ask("/v1/checkouts?reference=pages&after=x", 422);
}

static void an_uncounted_sku_always_sells(void **state)
{
	call(service.key_admin, "PUT", "/v1/skus/GIFT", NULL, "{\"tracked\":false}", 201);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"GIFT\",\"quantity\":1000}]}", 201);
	assert_true(json_is_null(answer_at(&answer, "lines.0.version")));
	assert_int_equal(service_row(&service, "GIFT").version, 1);
}

static void a_cancellation_restocks_at_most_what_was_sold(void **state)
{
	service_create_sku(&service, "BACK-A", 5);
	service_create_sku(&service, "BACK-B", 5);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"BACK-A\",\"quantity\":3},{\"sku\":\"BACK-B\",\"quantity\":2}]}", 201);
	char id[37];
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	call(service.key_web, "POST", path_of("checkouts", id, "/cancel"), NULL, NULL, 400);
	problem("idempotency_key_required", "");
	post(path_of("checkouts", id, "/cancel"), "{\"lines\":[{\"sku\":\"BACK-A\",\"quantity\":1}]}", 200);
	assert_string_equal(answer_string(&answer, "status"), "partially_cancelled");
	assert_int_equal(answer_int(&answer, "lines.0.cancelled"), 1);
	row_is("BACK-A", 3, 0);
	post(path_of("checkouts", id, "/cancel"), "{\"lines\":[{\"sku\":\"BACK-A\",\"quantity\":3}]}", 409);
	problem("exceeds_sold", "BACK-A: 3 to cancel, 2 left");
	assert_int_equal(answer_int(&answer, "lines.0.left"), 2);
	post(path_of("checkouts", id, "/cancel"), NULL, 200);
	assert_string_equal(answer_string(&answer, "status"), "cancelled");
	row_is("BACK-A", 5, 0);
	row_is("BACK-B", 5, 0);
	post(path_of("checkouts", id, "/cancel"), "{}", 200);
	row_is("BACK-A", 5, 0);
	ask(path_of("checkouts", id, ""), 200);
	assert_string_equal(answer_string(&answer, "status"), "cancelled");
	post(path_of("checkouts", NO_ID, "/cancel"), NULL, 404);
	post(path_of("checkouts", id, "/cancel"), "{\"reason\":\"x\"}", 422);
	problem("invalid_field", "`reason`");
}

/* Which of its lines it was, the client could not tell. */
static void a_cancellation_that_a_count_has_no_room_for_names_its_line(void **state)
{
	char id[37];
	service_create_sku(&service, "FULL", 1);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"FULL\",\"quantity\":1}]}", 201);
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	assert_int_equal(service_adjust(&service, "FULL", 1000000000000000), 201);
	post(path_of("checkouts", id, "/cancel"), NULL, 409);
	problem("count_out_of_range", "FULL: 1 requested, on_hand is 1000000000000000. ");
	assert_string_equal(answer_string(&answer, "lines.0.sku"), "FULL");
	assert_int_equal(answer_int(&answer, "lines.0.requested"), 1);
	assert_int_equal(answer_int(&answer, "lines.0.on_hand"), 1000000000000000);
	row_is("FULL", 1000000000000000, 0);
}

/* --- reservations ------------------------------------------------------------------------------------------------- */

static void a_hold_is_committed_once(void **state)
{
	service_create_sku(&service, "HOLD", 5);
	post("/v1/reservations",
	     "{\"lines\":[{\"sku\":\"HOLD\",\"quantity\":3}],\"ttl_seconds\":600,\"reference\":\"cart 1\"}", 201);
	char id[37], checkout[37];
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	assert_string_equal(answer_header(&answer, "Location"), path_of("reservations", id, ""));
	assert_string_equal(answer_string(&answer, "status"), "active");
	assert_int_equal(answer_int(&answer, "expires_in_seconds"), 600);
	assert_int_equal(answer_int(&answer, "lines.0.version"), 2);
	assert_true(json_is_null(answer_at(&answer, "checkout_id")));
	struct seen seen = service_see(&service, "HOLD");
	assert_int_equal(seen.available, 2);
	assert_int_equal(seen.held, 3);
	post("/v1/reservations", "{\"lines\":[{\"sku\":\"HOLD\",\"quantity\":3}]}", 409);
	problem("insufficient_stock", "HOLD: 3 requested, 2 available, 3 held until ");
	assert_int_equal(answer_int(&answer, "lines.0.held"), 3);
	assert_int_equal(strlen(answer_string(&answer, "lines.0.next_release_at")), 24);
	ask(path_of("reservations", id, ""), 200);
	assert_in_range(answer_int(&answer, "expires_in_seconds"), 500, 600);
	post(path_of("reservations", id, "/commit"), NULL, 200);
	snprintf(checkout, sizeof checkout, "%s", answer_string(&answer, "id"));
	assert_string_equal(answer_string(&answer, "status"), "completed");
	assert_string_equal(answer_string(&answer, "reservation_id"), id);
	assert_string_equal(answer_string(&answer, "reference"), "cart 1");
	assert_int_equal(answer_int(&answer, "lines.0.version"), 3);
	row_is("HOLD", 2, 0);
	/* Again, with another key and with none. */
	post(path_of("reservations", id, "/commit"), "{}", 200);
	assert_string_equal(answer_string(&answer, "id"), checkout);
	call(service.key_web, "POST", path_of("reservations", id, "/commit"), NULL, NULL, 200);
	assert_string_equal(answer_string(&answer, "id"), checkout);
	post(path_of("reservations", id, "/release"), NULL, 409);
	problem("reservation_not_active", "A committed one is sold: cancel its checkout.");
	assert_null(answer_at(&answer, "lines")); /* none of them is the reason */
	post(path_of("reservations", id, "/extend"), NULL, 409);
	row_is("HOLD", 2, 0);
	ask(path_of("reservations", id, ""), 200);
	assert_string_equal(answer_string(&answer, "status"), "committed");
	assert_string_equal(answer_string(&answer, "checkout_id"), checkout);
	assert_int_equal(answer_int(&answer, "expires_in_seconds"), 0);
	assert_int_equal(service_ledger_count(&service, "HOLD", "commit"), 1);
}

static void a_hold_is_released_once(void **state)
{
	service_create_sku(&service, "FREE", 5);
	char id[37];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "FREE", 5, 0, id), 201);
	for (int i = 0; i < 2; i++) {
		call(service.key_web, "POST", path_of("reservations", id, "/release"), NULL, NULL, 200);
		assert_string_equal(answer_string(&answer, "status"), "released");
		row_is("FREE", 5, 0);
	}
	post(path_of("reservations", id, "/commit"), NULL, 409);
	problem("reservation_not_active", "");
	assert_int_equal(service_ledger_count(&service, "FREE", "release"), 1);
	call(service.key_web, "POST", path_of("reservations", NO_ID, "/release"), NULL, NULL, 404);
	problem("unknown_reservation", "");
	ask(path_of("reservations", NO_ID, ""), 404);
	call(service.key_web, "POST", path_of("reservations", "x", "/commit"), NULL, NULL, 404);
}

static void an_extension_never_shortens(void **state)
{
	service_create_sku(&service, "LONG", 5);
	char id[37], expires[40];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "LONG", 1, 1000, id), 201);
	ask(path_of("reservations", id, ""), 200);
	snprintf(expires, sizeof expires, "%s", answer_string(&answer, "expires_at"));
	call(service.key_web, "POST", path_of("reservations", id, "/extend"), NULL, "{\"ttl_seconds\":10}", 200);
	assert_string_equal(answer_string(&answer, "expires_at"), expires);
	call(service.key_web, "POST", path_of("reservations", id, "/extend"), NULL, "{\"ttl_seconds\":86400}", 200);
	assert_int_equal(answer_int(&answer, "expires_in_seconds"), 86400);
	call(service.key_web, "POST", path_of("reservations", id, "/extend"), NULL, "{\"ttl_seconds\":86401}", 422);
	problem("invalid_ttl", "`ttl_seconds`");
	call(service.key_web, "POST", path_of("reservations", id, "/extend"), NULL, "{\"ttl\":5}", 422);
	problem("invalid_field", "`ttl`");
	/* An extension moves no stock and so no version. */
	assert_int_equal(service_row(&service, "LONG").version, 2);
	post(path_of("reservations", id, "/release"), NULL, 200);
}

/* The wait is for the event, a second away: the hold says that it has expired. */
static void wait_until_expired(const char *id)
{
	do
		ask(path_of("reservations", id, ""), 200);
	while (strcmp(answer_string(&answer, "status"), "active") == 0);
	assert_string_equal(answer_string(&answer, "status"), "expired");
}

static void a_due_hold_is_over_for_everybody(void **state)
{
	service_create_sku(&service, "DUE", 2);
	char id[37], other[37];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "DUE", 2, 1, id), 201);
	wait_until_expired(id);
	/* The GET that said so has expired it: the units are back at this moment. */
	assert_int_equal(service_see(&service, "DUE").available, 2);
	post(path_of("reservations", id, "/commit"), NULL, 410);
	problem("reservation_expired", "");
	post(path_of("reservations", id, "/extend"), NULL, 410);
	call(service.key_web, "POST", path_of("reservations", id, "/release"), NULL, NULL, 200);
	assert_string_equal(answer_string(&answer, "status"), "expired");
	assert_int_equal(service_reserve(&service, service.key_pos, NULL, "DUE", 2, 60, other), 201);
	row_is("DUE", 2, 2);
	assert_int_equal(service_ledger_count(&service, "DUE", "expire"), 1);
	assert_int_equal(service_end(&service, service.key_pos, other, "release"), 200);
}

static void a_hold_takes_the_place_of_another(void **state)
{
	service_create_sku(&service, "SWAP", 4);
	char id[37], body[200];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "SWAP", 4, 60, id), 201);
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"SWAP\",\"quantity\":5}],\"replaces\":\"%s\"}", id);
	post("/v1/reservations", body, 409);
	row_is("SWAP", 4, 4);
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"SWAP\",\"quantity\":3}],\"replaces\":\"%s\"}", id);
	post("/v1/reservations", body, 201);
	row_is("SWAP", 4, 3);
	post("/v1/reservations", body, 409);
	problem("reservation_not_active", "");
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"SWAP\",\"quantity\":4}],\"releases\":\"%s\"}",
	         "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b");
	post("/v1/checkouts", body, 404);
	problem("unknown_reservation", "");
	/* The old id is gone; the new one is the latest of this SKU. */
	ask("/v1/reservations?sku=SWAP&status=active", 200);
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"SWAP\",\"quantity\":4}],\"releases\":\"%s\"}",
	         answer_string(&answer, "items.0.id"));
	post("/v1/checkouts", body, 201);
	row_is("SWAP", 0, 0);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"SWAP\",\"quantity\":4}],\"releases\":\"x\"}", 422);
	problem("invalid_field", "`releases`");
}

static void reservations_are_found_by_sku_state_and_reference(void **state)
{
	service_create_sku(&service, "FIND", 9);
	char first[37];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "FIND", 1, 600, first), 201);
	post("/v1/reservations", "{\"lines\":[{\"sku\":\"FIND\",\"quantity\":2}],\"reference\":\"find me\"}", 201);
	assert_int_equal(service_end(&service, service.key_web, first, "release"), 200);
	ask("/v1/reservations?sku=FIND", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	assert_string_equal(answer_string(&answer, "items.0.id"), first);
	ask("/v1/reservations?sku=FIND&status=active", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	assert_int_equal(answer_int(&answer, "items.0.lines.0.quantity"), 2);
	ask("/v1/reservations?sku=FIND&status=released", 200);
	assert_string_equal(answer_string(&answer, "items.0.id"), first);
	ask("/v1/reservations?reference=find+me", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	ask("/v1/reservations?sku=FIND&limit=1", 200);
	assert_string_equal(answer_string(&answer, "next"), first);
	char path[120];
	snprintf(path, sizeof path, "/v1/reservations?sku=FIND&limit=1&after=%s", first);
	ask(path, 200);
	assert_int_equal(answer_int(&answer, "items.0.lines.0.quantity"), 2);
	assert_true(json_is_null(answer_at(&answer, "next")));
	ask("/v1/reservations?status=due", 422);
	ask("/v1/reservations?after=1", 422);
	ask("/v1/reservations?skus=FIND", 422);
	call(service.key_web, "POST", "/v1/reservations", NULL, "{\"lines\":[{\"sku\":\"FIND\",\"quantity\":2}]}", 400);
	problem("idempotency_key_required", "");
	post("/v1/reservations", "{\"lines\":[{\"sku\":\"FIND\",\"quantity\":1}],\"ttl_seconds\":0}", 422);
	problem("invalid_ttl", "`ttl_seconds`");
}

/* --- whose is it -------------------------------------------------------------------------------------------------- */

static void without_the_scope_orders_anothers_does_not_exist(void **state)
{
	service_create_sku(&service, "WHOSE", 9);
	char web[37], pos[37];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "WHOSE", 1, 60, web), 201);
	assert_int_equal(service_reserve(&service, service.key_pos, NULL, "WHOSE", 1, 60, pos), 201);
	call(service.key_pos, "GET", path_of("reservations", web, ""), NULL, NULL, 404);
	problem("unknown_reservation", "orders");
	call(service.key_pos, "POST", path_of("reservations", web, "/commit"), NULL, NULL, 404);
	call(service.key_pos, "GET", path_of("reservations", pos, ""), NULL, NULL, 200);
	call(service.key_pos, "GET", "/v1/reservations?sku=WHOSE", NULL, NULL, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	assert_string_equal(answer_string(&answer, "items.0.id"), pos);
	/* Held in one channel, paid in another. */
	call(service.key_telegram, "GET", path_of("reservations", web, ""), NULL, NULL, 200);
	call(service.key_telegram, "POST", path_of("reservations", web, "/commit"), NULL, NULL, 200);
	assert_string_equal(answer_string(&answer, "channel"), "telegram");
	char id[37];
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	call(service.key_pos, "GET", path_of("checkouts", id, ""), NULL, NULL, 404);
	problem("unknown_checkout", "orders");
	ask(path_of("checkouts", id, ""), 200);
	ask("/v1/reservations?sku=WHOSE", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	assert_int_equal(service_end(&service, service.key_web, pos, "release"), 200);
	row_is("WHOSE", 8, 0);
}

/* --- keys used twice ---------------------------------------------------------------------------------------------- */

static void a_key_has_one_effect_and_one_answer(void **state)
{
	service_create_sku(&service, "ONCE", 5);
	const char *body = "{\"lines\":[{\"sku\":\"ONCE\",\"quantity\":2}]}";
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: once\r\n", body, 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "");
	json_t *first = json_incref(answer.json);
	/* Bare, quoted, or in the body; and spelled differently. */
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: \"once\"\r\n", body, 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_true(json_equal(answer.json, first));
	call(
		service.key_web, "POST", "/v1/checkouts", NULL,
		"{ \"lines\": [{\"quantity\":1,\"sku\":\"ONCE\"},{\"sku\":\"ONCE\",\"quantity\":1}], \"idempotency_key\":\"once\"}",
		201);
	assert_true(json_equal(answer.json, first));
	json_decref(first);
	row_is("ONCE", 3, 0);
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: once\r\n",
	     "{\"lines\":[{\"sku\":\"ONCE\",\"quantity\":1}]}", 422);
	problem("idempotency_conflict", "");
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: a\r\n",
	     "{\"idempotency_key\":\"b\",\"lines\":[{\"sku\":\"ONCE\",\"quantity\":1}]}", 400);
	problem("malformed_request", "differ");
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: \"\"\r\n", body, 422);
	problem("invalid_idempotency_key", "");
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key:\r\n", body, 422);
	/* Another principal's key of the same name is another key (B49). */
	call(service.key_pos, "POST", "/v1/checkouts", "Idempotency-Key: once\r\n", body, 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "");
	row_is("ONCE", 1, 0);
}

/* B50 */
static void a_refusal_is_repeated_under_its_key(void **state)
{
	service_create_sku(&service, "AGAIN", 0);
	const char *body = "{\"lines\":[{\"sku\":\"AGAIN\",\"quantity\":1}]}";
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: again\r\n", body, 409);
	json_t *first = json_incref(answer.json);
	assert_int_equal(service_adjust(&service, "AGAIN", 5), 201);
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: again\r\n", body, 409);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_true(json_equal(answer.json, first));
	json_decref(first);
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: again-2\r\n", body, 201);
	row_is("AGAIN", 4, 0);
	/* What was never decided is not stored. */
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: again-3\r\n", "{\"lines\":[]}", 422);
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: again-3\r\n", body, 201);
	/* A hold, its commit and a SKU replay as they were answered, whatever came after. */
	const char *hold = "{\"lines\":[{\"sku\":\"AGAIN\",\"quantity\":1}],\"ttl_seconds\":77}";
	call(service.key_web, "POST", "/v1/reservations", "Idempotency-Key: again-4\r\n", hold, 201);
	char id[37];
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	first = json_incref(answer.json);
	post(path_of("reservations", id, "/commit"), NULL, 200);
	call(service.key_web, "POST", "/v1/reservations", "Idempotency-Key: again-4\r\n", hold, 201);
	assert_true(json_equal(answer.json, first));
	json_decref(first);
	call(service.key_admin, "PUT", "/v1/skus/AGAIN-PUT", "Idempotency-Key: put\r\n", "{\"on_hand\":4}", 201);
	call(service.key_admin, "PUT", "/v1/skus/AGAIN-PUT", "Idempotency-Key: put\r\n", "{\"on_hand\":4}", 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_int_equal(answer_int(&answer, "version"), 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_checkout_sells_all_lines_or_none),
	cmocka_unit_test(checkouts_of_one_reference_come_in_pages),
	cmocka_unit_test(an_uncounted_sku_always_sells),
	cmocka_unit_test(a_cancellation_restocks_at_most_what_was_sold),
	cmocka_unit_test(a_cancellation_that_a_count_has_no_room_for_names_its_line),
	cmocka_unit_test(a_hold_is_committed_once),
	cmocka_unit_test(a_hold_is_released_once),
	cmocka_unit_test(an_extension_never_shortens),
	cmocka_unit_test(a_due_hold_is_over_for_everybody),
	cmocka_unit_test(a_hold_takes_the_place_of_another),
	cmocka_unit_test(reservations_are_found_by_sku_state_and_reference),
	cmocka_unit_test(without_the_scope_orders_anothers_does_not_exist),
	cmocka_unit_test(a_key_has_one_effect_and_one_answer),
	cmocka_unit_test(a_refusal_is_repeated_under_its_key),
};

API_MAIN(tests)
