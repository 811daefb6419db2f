/* The API against the real service: checkouts, reservations, keys used twice, batches, and who sees what.
 * Each test has SKUs of its own. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/service.h"

#define NO_ID "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"

static struct service service;
static struct answer answer; /* the last one */

static void call(const char *key, const char *method, const char *path, const char *headers, const char *body,
                 int status)
{
	answer_done(&answer);
	answer = service_call(&service, key, method, path, headers, body);
	if (answer.status != status)
		fail_msg("%s %s %.200s: %d instead of %d: %s", method, path, body ? body : "", answer.status, status,
		         answer.body ? answer.body : "");
}

/* As the web shop, under a new key. */
static void post(const char *path, const char *body, int status)
{
	char header[80];
	snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", service_new_key());
	call(service.key_web, "POST", path, header, body, status);
}

static void get(const char *path, int status)
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

static void problem(const char *code, const char *word)
{
	assert_string_equal(answer_string(&answer, "code"), code);
	if (!strstr(answer_string(&answer, "detail"), word))
		fail_msg("\"%s\" does not name %s", answer_string(&answer, "detail"), word);
}

static void row_is(const char *sku, int64_t on_hand, int64_t reserved)
{
	struct row row = service_row(&service, sku);
	if (row.on_hand != on_hand || row.reserved != reserved)
		fail_msg("%s is %lld/%lld instead of %lld/%lld", sku, (long long)row.on_hand, (long long)row.reserved,
		         (long long)on_hand, (long long)reserved);
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
	get(path_of("checkouts", id, ""), 200);
	assert_true(json_equal(answer.json, sold));
	get("/v1/checkouts?reference=order%201/%C3%BC", 200);
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
	get(path_of("checkouts", NO_ID, ""), 404);
	problem("unknown_checkout", "");
	get(path_of("checkouts", "nonsense", ""), 404);
	get("/v1/checkouts", 422);
	problem("invalid_field", "`reference`");
	get("/v1/checkouts?reference=nobody", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 0);
}

static void checkouts_of_one_reference_come_in_pages(void **state)
{
	service_create_sku(&service, "PAGES", 9);
	for (int i = 0; i < 3; i++)
		post("/v1/checkouts", "{\"lines\":[{\"sku\":\"PAGES\",\"quantity\":1}],\"reference\":\"pages\"}", 201);
	get("/v1/checkouts?reference=pages&limit=2", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	char path[120];
	snprintf(path, sizeof path, "/v1/checkouts?reference=pages&limit=2&after=%s", answer_string(&answer, "next"));
	assert_string_equal(answer_string(&answer, "next"), answer_string(&answer, "items.1.id"));
	get(path, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	assert_true(json_is_null(answer_at(&answer, "next")));
	get("/v1/checkouts?reference=pages&limit=3", 200); /* they fit, and there is no more */
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 3);
	assert_true(json_is_null(answer_at(&answer, "next")));
	get("/v1/checkouts?reference=pages&after=x", 422);
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
	get(path_of("checkouts", id, ""), 200);
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
	get(path_of("reservations", id, ""), 200);
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
	get(path_of("reservations", id, ""), 200);
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
	get(path_of("reservations", NO_ID, ""), 404);
	call(service.key_web, "POST", path_of("reservations", "x", "/commit"), NULL, NULL, 404);
}

static void an_extension_never_shortens(void **state)
{
	service_create_sku(&service, "LONG", 5);
	char id[37], expires[40];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "LONG", 1, 1000, id), 201);
	get(path_of("reservations", id, ""), 200);
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
		get(path_of("reservations", id, ""), 200);
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
	get("/v1/reservations?sku=SWAP&status=active", 200);
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
	get("/v1/reservations?sku=FIND", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	assert_string_equal(answer_string(&answer, "items.0.id"), first);
	get("/v1/reservations?sku=FIND&status=active", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	assert_int_equal(answer_int(&answer, "items.0.lines.0.quantity"), 2);
	get("/v1/reservations?sku=FIND&status=released", 200);
	assert_string_equal(answer_string(&answer, "items.0.id"), first);
	get("/v1/reservations?reference=find+me", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 1);
	get("/v1/reservations?sku=FIND&limit=1", 200);
	assert_string_equal(answer_string(&answer, "next"), first);
	char path[120];
	snprintf(path, sizeof path, "/v1/reservations?sku=FIND&limit=1&after=%s", first);
	get(path, 200);
	assert_int_equal(answer_int(&answer, "items.0.lines.0.quantity"), 2);
	assert_true(json_is_null(answer_at(&answer, "next")));
	get("/v1/reservations?status=due", 422);
	get("/v1/reservations?after=1", 422);
	get("/v1/reservations?skus=FIND", 422);
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
	get(path_of("checkouts", id, ""), 200);
	get("/v1/reservations?sku=WHOSE", 200);
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

/* --- batches ------------------------------------------------------------------------------------------------------ */

static void batch(const char *key, const char *body, int status)
{
	call(key, "POST", "/v1/batch", NULL, body, status);
}

static void a_batch_answers_each_by_itself(void **state)
{
	service_create_sku(&service, "TILL", 5);
	service_create_sku(&service, "TILL-2", 1);
	char id[37], sold[37], body[2000];
	assert_int_equal(service_reserve(&service, service.key_admin, NULL, "TILL", 1, 60, id), 201);
	call(service.key_admin, "POST", "/v1/checkouts", "Idempotency-Key: till-0\r\n",
	     "{\"lines\":[{\"sku\":\"TILL-2\",\"quantity\":1}]}", 201);
	snprintf(sold, sizeof sold, "%s", answer_string(&answer, "id"));
	snprintf(
		body, sizeof body,
		"{\"operations\":["
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-1\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]},"
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-2\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":9}]},"
		"{\"operation\":\"reserve\",\"idempotency_key\":\"till-3\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]},"
		"{\"operation\":\"commit\",\"reservation_id\":\"%s\"},"
		"{\"operation\":\"cancel\",\"checkout_id\":\"%s\",\"idempotency_key\":\"till-4\"},"
		"{\"operation\":\"adjustment\",\"idempotency_key\":\"till-5\",\"reason\":\"found\","
		"\"lines\":[{\"sku\":\"TILL-2\",\"delta\":2}]},"
		"{\"operation\":\"release\",\"reservation_id\":\"" NO_ID
		"\"},"
		"{\"operation\":\"checkout\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]},"
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-6\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1.5}]},"
		"{\"operation\":\"steal\"},7,"
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-1\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]}"
		"]}",
		id, sold);
	static const int expected[] = {201, 409, 201, 200, 200, 201, 404, 400, 422, 422, 400, 201};
	batch(service.key_admin, body, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "results")), 12);
	for (int i = 0; i < 12; i++) {
		char path[40];
		snprintf(path, sizeof path, "results.%d.status", i);
		if (answer_int(&answer, path) != expected[i])
			fail_msg("result %d is %lld instead of %d: %s", i, (long long)answer_int(&answer, path), expected[i],
			         answer.body);
	}
	assert_string_equal(answer_string(&answer, "results.0.body.status"), "completed");
	assert_int_equal(answer_int(&answer, "results.1.body.lines.0.requested"), 9);
	assert_string_equal(answer_string(&answer, "results.2.body.status"), "active");
	assert_string_equal(answer_string(&answer, "results.3.body.reservation_id"), id);
	assert_string_equal(answer_string(&answer, "results.4.body.status"), "cancelled");
	assert_string_equal(answer_string(&answer, "results.6.body.code"), "unknown_reservation");
	assert_string_equal(answer_string(&answer, "results.7.body.code"), "idempotency_key_required");
	assert_non_null(strstr(answer_string(&answer, "results.7.body.detail"),
	                       "`operations[7].idempotency_key` is missing: in a batch each entry has its own"));
	assert_null(strstr(answer_string(&answer, "results.7.body.detail"), "Send `Idempotency-Key:"));
	assert_non_null(strstr(answer_string(&answer, "results.8.body.detail"), "lines[0].quantity"));
	/* The same key twice in one batch: one effect. */
	assert_true(json_is_true(answer_at(&answer, "results.11.idempotent_replayed")));
	assert_string_equal(answer_string(&answer, "results.11.body.id"), answer_string(&answer, "results.0.body.id"));
	row_is("TILL", 3, 1);
	row_is("TILL-2", 3, 0);
	/* The till was cut off and sends everything again (B51). */
	batch(service.key_admin, body, 200);
	assert_true(json_is_true(answer_at(&answer, "results.0.idempotent_replayed")));
	assert_true(json_is_true(answer_at(&answer, "results.1.idempotent_replayed")));
	assert_int_equal(answer_int(&answer, "results.1.status"), 409);
	row_is("TILL", 3, 1);
	row_is("TILL-2", 3, 0);
}

/* An entry that names an object is read up first; nobody behind it may use the detour to overtake. */
static void a_batch_is_done_in_its_order(void **state)
{
	enum { ROUNDS = 20 };
	char sold[37], held[37], body[1600];
	service_create_sku(&service, "TURN", 1);
	service_create_sku(&service, "TURN-2", 1);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "TURN-2", 1, 600, held), 201);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"TURN\",\"quantity\":1}]}", 201);
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(sold, sizeof sold, "%s", answer_string(&answer, i ? "results.2.body.id" : "id"));
		snprintf(
			body, sizeof body,
			"{\"operations\":["
			"{\"operation\":\"checkout\",\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"TURN\",\"quantity\":1}]},"
			"{\"operation\":\"cancel\",\"checkout_id\":\"%s\",\"idempotency_key\":\"%s\"},"
			"{\"operation\":\"checkout\",\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"TURN\",\"quantity\":1}]},"
			"{\"operation\":\"release\",\"reservation_id\":\"%s\"},"
			"{\"operation\":\"commit\",\"reservation_id\":\"%s\"},"
			"{\"operation\":\"reserve\",\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"TURN-2\",\"quantity\":1}],"
			"\"ttl_seconds\":600}]}",
			service_new_key(), sold, service_new_key(), service_new_key(), held, held, service_new_key());
		batch(service.key_web, body, 200);
		static const int expected[] = {409, 200, 201, 200, 409, 201};
		for (int j = 0; j < 6; j++) {
			char path[40];
			snprintf(path, sizeof path, "results.%d.status", j);
			if (answer_int(&answer, path) != expected[j])
				fail_msg("round %d, result %d is %lld instead of %d: %s", i, j, (long long)answer_int(&answer, path),
				         expected[j], answer.body);
		}
		snprintf(held, sizeof held, "%s", answer_string(&answer, "results.5.body.id"));
	}
	assert_int_equal(service_end(&service, service.key_web, held, "release"), 200);
	row_is("TURN", 0, 0);
	row_is("TURN-2", 1, 0);
}

static void a_batch_asks_for_the_scope_of_each(void **state)
{
	service_create_sku(&service, "SCOPE", 5);
	batch(service.key_pos,
	      "{\"operations\":[{\"operation\":\"adjustment\",\"idempotency_key\":\"s-1\",\"reason\":\"x\","
	      "\"lines\":[{\"sku\":\"SCOPE\",\"delta\":1}]},"
	      "{\"operation\":\"checkout\",\"idempotency_key\":\"s-2\",\"lines\":[{\"sku\":\"SCOPE\",\"quantity\":1}]}]}",
	      200);
	assert_int_equal(answer_int(&answer, "results.0.status"), 403);
	assert_int_equal(answer_int(&answer, "results.1.status"), 201);
	row_is("SCOPE", 4, 0);
}

#define LONG_CODE "LONG-%03d-%0118d" /* 128 bytes */
#define LONG_LINES 1000

static void create_long_codes(void)
{
	char path[] = "/tmp/lastunit-long-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	fputs("sku,on_hand\n", file);
	for (int i = 0; i < LONG_LINES; i++)
		fprintf(file, LONG_CODE ",1000\n", i, 0);
	fclose(file);
	assert_int_equal(service_run(&service, (const char *[]){"import", path, NULL}), 0);
	unlink(path);
}

/* A release of a hundred bytes is answered with a thousand lines. */
static void a_batch_whose_answers_are_too_long_leaves_its_rest_undone(void **state)
{
	enum { HOLDS = 40, WAVE = 32 };
	char code[129], path[50], *body = malloc(200 * LONG_LINES), *to = body + sprintf(body, "{\"lines\":[");
	char *batch_body = malloc(HOLDS * 100), *end = batch_body + sprintf(batch_body, "{\"operations\":[");
	create_long_codes();
	snprintf(code, sizeof code, LONG_CODE, 0, 0);
	for (int i = 0; i < LONG_LINES; i++)
		to += sprintf(to, "%s{\"sku\":\"" LONG_CODE "\",\"quantity\":1}", i ? "," : "", i, 0);
	strcpy(to, "]}");
	for (int i = 0; i < HOLDS; i++) {
		post("/v1/reservations", body, 201);
		end += sprintf(end, "%s{\"operation\":\"release\",\"reservation_id\":\"%s\"}", i ? "," : "",
		               answer_string(&answer, "id"));
	}
	strcpy(end, "]}");
	batch(service.key_web, batch_body, 200);
	assert_in_range(answer.body_size, 4 << 20, 6 << 20);
	for (int i = 0; i < HOLDS; i++) {
		snprintf(path, sizeof path, "results.%d.status", i);
		assert_int_equal(answer_int(&answer, path), i < WAVE ? 200 : 503);
	}
	assert_string_equal(answer_string(&answer, "results.39.body.code"), "overloaded");
	assert_non_null(strstr(answer_string(&answer, "results.39.body.detail"), "in a batch of their own"));
	row_is(code, 1000, HOLDS - WAVE);
	free(body);
	free(batch_body);
}

static void a_batch_has_one_to_a_thousand_entries(void **state)
{
	service_create_sku(&service, "QUEUE", 2000);
	batch(service.key_pos, "{\"operations\":[]}", 422);
	batch(service.key_pos, "{\"operation\":[]}", 422);
	problem("invalid_field", "`operation`");
	batch(service.key_pos, "[]", 400);
	char *body = malloc(200000), *to = body + sprintf(body, "{\"operations\":[");
	for (int i = 0; i < 1000; i++)
		to += sprintf(to,
		              "%s{\"operation\":\"checkout\",\"idempotency_key\":\"queue-%d\",\"lines\":[{\"sku\":\"QUEUE\","
		              "\"quantity\":1}]}",
		              i ? "," : "", i);
	strcpy(to, "]}");
	batch(service.key_pos, body, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "results")), 1000);
	for (size_t i = 0; i < 1000; i++) {
		json_t *result = json_array_get(answer_at(&answer, "results"), i);
		assert_int_equal(json_integer_value(json_object_get(result, "status")), 201);
	}
	row_is("QUEUE", 1000, 0);
	strcpy(to, ",{}]}");
	batch(service.key_pos, body, 422);
	problem("invalid_field", "1000");
	row_is("QUEUE", 1000, 0);
	free(body);
}

static int start(void **state)
{
	service_start(&service, NULL);
	return 0;
}

static int stop(void **state)
{
	answer_done(&answer);
	int audited = service_audit(&service);
	int code = service_stop(&service);
	return audited || code;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(a_batch_answers_each_by_itself),
		cmocka_unit_test(a_batch_is_done_in_its_order),
		cmocka_unit_test(a_batch_asks_for_the_scope_of_each),
		cmocka_unit_test(a_batch_whose_answers_are_too_long_leaves_its_rest_undone),
		cmocka_unit_test(a_batch_has_one_to_a_thousand_entries),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
