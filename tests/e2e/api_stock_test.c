/* The API against the real service: SKUs, availability, adjustments and the ledger. */
#include "e2e/api_fixture.h"

static void put(const char *path, const char *body, int status)
{
	call(service.key_admin, "PUT", path, NULL, body, status);
}

static void adjust(const char *body, int status)
{
	char key[80];
	snprintf(key, sizeof key, "Idempotency-Key: %s\r\n", service_new_key());
	call(service.key_admin, "POST", "/v1/adjustments", key, body, status);
}

/* --- SKUs --------------------------------------------------------------------------------------------------------- */

static void a_sku_is_created_once_and_changed_often(void **state)
{
	put("/v1/skus/CUP", "{\"on_hand\":5,\"safety_stock\":1,\"titles\":{\"en\":\"Cup\"},\"names\":[\"mug\"]}", 201);
	assert_int_equal(answer_int(&answer, "on_hand"), 5);
	assert_int_equal(answer_int(&answer, "available"), 4);
	assert_int_equal(answer_int(&answer, "version"), 1);
	assert_string_equal(answer_string(&answer, "titles.en"), "Cup");
	assert_string_equal(answer_string(&answer, "names.0"), "mug");
	assert_null(strstr(answer.body, "\": ")); /* PostgreSQL writes blanks, nobody else does */
	put("/v1/skus/CUP", "{\"on_hand\":6}", 409);
	problem("sku_exists", "adjustments");
	put("/v1/skus/CUP", "{\"safety_stock\":2}", 200);
	assert_int_equal(answer_int(&answer, "available"), 3);
	assert_int_equal(answer_int(&answer, "version"), 2);
	assert_string_equal(answer_string(&answer, "titles.en"), "Cup");
	/* A title is no change of stock. */
	put("/v1/skus/CUP", "{\"titles\":{\"de\":\"Becher\"}}", 200);
	assert_int_equal(answer_int(&answer, "version"), 2);
	assert_string_equal(answer_string(&answer, "titles.de"), "Becher");
	assert_string_equal(answer_string(&answer, "names.0"), "mug");
	put("/v1/skus/CUP", "{\"tracked\":false}", 200);
	assert_true(json_is_null(answer_at(&answer, "available")));
	get("/v1/skus/CUP", 200);
	assert_string_equal(answer_string(&answer, "sku"), "CUP");
	assert_int_equal(answer_int(&answer, "on_hand"), 5);
	assert_int_equal(answer_int(&answer, "safety_stock"), 2);
	assert_true(json_is_false(answer_at(&answer, "tracked")));
	assert_int_equal(answer_int(&answer, "version"), 3);
	get("/v1/skus/NO-CUP", 404);
	problem("unknown_sku", "Look at its spelling");
	call(service.key_admin, "PUT", "/v1/skus/EMPTY", NULL, NULL, 201);
	assert_int_equal(answer_int(&answer, "on_hand"), 0);
	assert_true(json_is_true(answer_at(&answer, "tracked")));
}

static void a_replayed_put_repeats_its_titles(void **state)
{
	static const char key[] = "Idempotency-Key: spoon\r\n", more[] = "Idempotency-Key: spoon-2\r\n";
	const char *made = "{\"on_hand\":1,\"titles\":{\"en\":\"Spoon\",\"de\":\"Löffel\"}}",
			   *named = "{\"names\":[\"a\"]}";
	call(service.key_admin, "PUT", "/v1/skus/SPOON", key, made, 201);
	json_t *first = json_incref(answer.json);
	call(service.key_admin, "PUT", "/v1/skus/SPOON", more, named, 200);
	put("/v1/skus/SPOON", "{\"titles\":{\"en\":\"Ladle\"},\"names\":[\"b\"]}", 200);
	/* It was made by that call, so all of it is known: what was not given was empty. */
	call(service.key_admin, "PUT", "/v1/skus/SPOON", key, made, 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_true(json_equal(answer.json, first));
	json_decref(first);
	/* What was not given to a change was as it was then, which nobody knows any more: better nothing than today's. */
	call(service.key_admin, "PUT", "/v1/skus/SPOON", more, named, 200);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_string_equal(answer_string(&answer, "names.0"), "a");
	assert_null(answer_at(&answer, "titles"));
	get("/v1/skus/SPOON", 200);
	assert_string_equal(answer_string(&answer, "titles.en"), "Ladle");
	for (int i = 0; i < 2; i++) {
		call(service.key_admin, "PUT", "/v1/skus/SPOON-NO-BODY", "Idempotency-Key: spoon-3\r\n", NULL, 201);
		assert_int_equal(json_object_size(answer_at(&answer, "titles")), 0);
		assert_true(json_is_array(answer_at(&answer, "names")));
	}
}

static void skus_come_in_pages_by_code(void **state)
{
	for (int i = 0; i < 5; i++) {
		char sku[20];
		snprintf(sku, sizeof sku, "PAGE-%d", i);
		service_create_sku(&service, sku, i);
	}
	get("/v1/skus?after=PAGE-&limit=2", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-0");
	assert_string_equal(answer_string(&answer, "next"), "PAGE-1");
	get("/v1/skus?after=PAGE-1&limit=2", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-2");
	get("/v1/skus?after=PAGE-3&limit=1", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-4");
	get("/v1/skus?limit=500&after=zzzz", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 0);
	assert_true(json_is_null(answer_at(&answer, "next")));
	/* A code of earlier days, with a noncharacter, is `next` of a page as any other. */
	get("/v1/skus?after=PAGE-3%EF%BF%BE&limit=1", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-4");
	const char *const wrong[] = {"limit=0", "limit=501", "limit=x", "limit=", "after=A&after=B", "page=2"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char path[60];
		snprintf(path, sizeof path, "/v1/skus?%s", wrong[i]);
		get(path, 422);
	}
}

/* B64, B66, B67, B73 */
static void codes_are_bytes_with_one_spelling(void **state)
{
	static const struct {
		const char *path;
		int status;
	} rows[] = {
		{"/v1/skus/SPELL%20", 422},
		{"/v1/skus/%20SPELL", 422},
		{"/v1/skus/SPELL%09", 422},
		{"/v1/skus/SPELL%C2%A0", 422},
		{"/v1/skus/SPELL%0D", 422},
		{"/v1/skus/Cafe%CC%81", 422},
		{"/v1/skus/SPELL%E2%80%8B", 422},
		{"/v1/skus/SPELL%00X", 400},
		{"/v1/skus/%00", 400},
		{"/v1/skus/%", 400},
		{"/v1/skus/%4", 400},
		{"/v1/skus/%zz", 400},
		{"/v1/skus/%C0%AF", 400},
		{"/v1/skus/%ED%A0%80", 400},
		{"/v1/availability?sku=SPELL%00", 400},
		{"/v1/availability/SPELL%00", 400},
		{"/v1/skus/spell", 404},
	};
	service_create_sku(&service, "SPELL", 5);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		get(rows[i].path, rows[i].status);
	char longest[200] = "/v1/skus/", *end = longest + strlen(longest);
	memset(end, 'L', 129);
	put(longest, "{\"on_hand\":1}", 422);
	problem("invalid_sku", "128 bytes");
	end[128] = 0;
	put(longest, "{\"on_hand\":1}", 201);
	const char *const odd[] = {"A B", "100%s%n", "Café 🍋", "x/../y", "DEL \"y\"", "'; DROP", "{a}*?", "a+b", "SPELL"};
	for (size_t i = 0; i < 8; i++) {
		service_create_sku(&service, odd[i], 2 + (int64_t)i);
		assert_int_equal(service_see(&service, odd[i]).available, 2 + (int64_t)i);
		assert_int_equal(service_sell(&service, service.key_web, NULL, odd[i], 1), 201);
		assert_int_equal(service_see(&service, odd[i]).available, 1 + (int64_t)i);
	}
	/* A plus in a path is a plus, in a query a blank. */
	get("/v1/availability/a+b", 200);
	get("/v1/availability?sku=A+B&sku=a%2Bb", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "A B");
	assert_string_equal(answer_string(&answer, "items.1.sku"), "a+b");
	assert_int_equal(service_see(&service, "SPELL").available, 5);
}

/* --- availability ------------------------------------------------------------------------------------------------- */

static void availability_carries_a_tag_until_it_changes(void **state)
{
	service_create_sku(&service, "TAG", 3);
	get("/v1/availability/TAG", 200);
	assert_string_equal(answer.body,
	                    "{\"sku\":\"TAG\",\"status\":\"in_stock\",\"available\":3,\"held\":0,\"tracked\":true,"
	                    "\"version\":1}\n");
	assert_string_equal(answer_header(&answer, "Cache-Control"), "no-cache");
	assert_memory_equal(answer_header(&answer, "Cache-Status"), "lastunit; ", 10);
	char tag[100], header[300];
	snprintf(tag, sizeof tag, "%s", answer_header(&answer, "ETag"));
	assert_int_equal(tag[0], '"');
	static const char *const same[] = {"%s", "W/%s", "\"x\", %s", "\"a,b\",W/\"c\" , %s, \"d\"", "*%.0s"};
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		char list[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(list, sizeof list, same[i], tag);
#pragma GCC diagnostic pop
		snprintf(header, sizeof header, "If-None-Match: %s\r\n", list);
		call(service.key_web, "GET", "/v1/availability/TAG", header, NULL, 304);
		assert_int_equal(answer.body_size, 0);
		assert_string_equal(answer_header(&answer, "ETag"), tag);
	}
	call(service.key_web, "GET", "/v1/availability/TAG", "If-None-Match: \"x\", y\r\n", NULL, 200);
	snprintf(header, sizeof header, "If-None-Match: %s\r\n", tag);
	assert_int_equal(service_sell(&service, service.key_web, NULL, "TAG", 1), 201);
	call(service.key_web, "GET", "/v1/availability/TAG", header, NULL, 200);
	assert_int_equal(answer_int(&answer, "available"), 2);
	assert_string_not_equal(answer_header(&answer, "ETag"), tag);
	call(service.key_web, "HEAD", "/v1/availability/TAG", NULL, NULL, 200);
	assert_int_equal(answer.body_size, 0);
	call(service.key_web, "GET", "/v1/availability/NO-TAG", header, NULL, 404);
	problem("unknown_sku", "");
}

static void a_hit_says_so(void **state)
{
	service_create_sku(&service, "HIT", 1);
	/* The epoch opens when Redis has been well for a while; from then on the second look is a hit. */
	for (int i = 0; i < 20000; i++) {
		get("/v1/availability/HIT", 200);
		if (strcmp(answer_header(&answer, "Cache-Status"), "lastunit; hit") == 0)
			break;
	}
	assert_string_equal(answer_header(&answer, "Cache-Status"), "lastunit; hit");
	assert_int_equal(answer_int(&answer, "available"), 1);
	/* Of several the one that had to go furthest. */
	get("/v1/availability?sku=HIT", 200);
	assert_string_equal(answer_header(&answer, "Cache-Status"), "lastunit; hit");
	get("/v1/availability?sku=HIT&sku=NO-HIT", 200);
	assert_string_equal(answer_header(&answer, "Cache-Status"), "lastunit; fwd=miss");
	call(NULL, "GET", "/readyz", NULL, NULL, 200);
	assert_string_equal(answer_string(&answer, "status"), "ok");
	assert_string_equal(answer_string(&answer, "epoch"), "open");
	assert_int_equal(answer_int(&answer, "queue_depth"), 0);
	assert_true(json_is_true(answer_at(&answer, "redis_reachable")));
	assert_true(json_is_true(answer_at(&answer, "lease")));
}

static void many_are_answered_in_the_order_asked(void **state)
{
	service_create_sku(&service, "MANY-1", 1);
	service_create_sku(&service, "MANY-2", 0);
	put("/v1/skus/MANY-3", "{\"tracked\":false}", 201);
	static const char *const bodies[] = {NULL, "{\"skus\":[\"MANY-2\",\"NONE\",\"MANY-1\",\"MANY-2\",\"MANY-3\"]}"};
	for (int i = 0; i < 2; i++) {
		call(service.key_web, i ? "POST" : "GET",
		     i ? "/v1/availability" : "/v1/availability?sku=MANY-2&sku=NONE&sku=MANY-1&sku=MANY-2&sku=MANY-3", NULL,
		     bodies[i], 200);
		assert_int_equal(json_array_size(answer_at(&answer, "items")), 5);
		assert_string_equal(answer_string(&answer, "items.0.status"), "out_of_stock");
		assert_string_equal(answer_string(&answer, "items.1.sku"), "NONE");
		assert_string_equal(answer_string(&answer, "items.1.status"), "unknown");
		assert_null(answer_at(&answer, "items.1.available"));
		assert_int_equal(answer_int(&answer, "items.2.available"), 1);
		assert_string_equal(answer_string(&answer, "items.3.sku"), "MANY-2");
		assert_true(json_is_null(answer_at(&answer, "items.4.available")));
		assert_string_equal(answer_string(&answer, "items.4.status"), "in_stock");
		assert_string_equal(answer_header(&answer, "Cache-Control"), "no-cache");
	}
	get("/v1/availability", 422);
	problem("invalid_field", "sku");
	get("/v1/availability?sku=", 422);
	get("/v1/availability?sku=A%20", 422);
	get("/v1/availability?skus=A", 422);
	problem("invalid_field", "skus");
	call(service.key_web, "POST", "/v1/availability", NULL, "{\"skus\":[]}", 422);
	problem("invalid_field", "`skus`");
	char *body = malloc(10000), *to = body + sprintf(body, "{\"skus\":[");
	for (int i = 0; i < 500; i++)
		to += sprintf(to, "%s\"N%d\"", i ? "," : "", i);
	strcpy(to, "]}");
	call(service.key_web, "POST", "/v1/availability", NULL, body, 200);
	assert_string_equal(answer_string(&answer, "items.499.sku"), "N499");
	strcpy(to, ",\"N\"]}");
	call(service.key_web, "POST", "/v1/availability", NULL, body, 422);
	free(body);
}

/* --- adjustments and the ledger ----------------------------------------------------------------------------------- */

static void adjustments_move_the_count_and_never_below_what_is_held(void **state)
{
	service_create_sku(&service, "ADJ", 10);
	service_create_sku(&service, "ADJ-2", 0);
	char id[37];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "ADJ", 6, 60, id), 201);
	adjust("{\"reason\":\"delivery\",\"lines\":[{\"sku\":\"ADJ\",\"delta\":5},{\"sku\":\"ADJ-2\",\"delta\":7}]}", 201);
	assert_int_equal(answer_int(&answer, "lines.0.on_hand"), 15);
	assert_int_equal(answer_int(&answer, "lines.0.reserved"), 6);
	assert_int_equal(answer_int(&answer, "lines.0.available"), 9);
	assert_int_equal(answer_int(&answer, "lines.0.version"), 3);
	assert_int_equal(answer_int(&answer, "lines.1.on_hand"), 7);
	assert_int_equal(strlen(answer_string(&answer, "id")), 36);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ\",\"set\":6,\"change_from\":15}]}", 201);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ\",\"set\":8,\"change_from\":15}]}", 412);
	problem("change_from_mismatch", "on_hand is 6");
	assert_int_equal(answer_int(&answer, "lines.0.change_from"), 15);
	assert_int_equal(answer_int(&answer, "lines.0.on_hand"), 6);
	/* All or nothing: ADJ-2 does not move either. */
	adjust("{\"reason\":\"loss\",\"lines\":[{\"sku\":\"ADJ\",\"delta\":-1},{\"sku\":\"ADJ-2\",\"delta\":-1}]}", 409);
	problem("insufficient_stock", "ADJ: 1 to take away, 0 may be, 6 held");
	assert_int_equal(service_row(&service, "ADJ-2").on_hand, 7);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ\",\"set\":5,\"change_from\":null}]}", 409);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ-2\",\"set\":3,\"change_from\":null}]}", 201);
	adjust("{\"reason\":\"more\",\"lines\":[{\"sku\":\"ADJ-2\",\"delta\":1000000000000000}]}", 409);
	problem("count_out_of_range", "1000000000000000");
	adjust("{\"reason\":\"x\",\"lines\":[{\"sku\":\"NO-ADJ\",\"delta\":1}]}", 404);
	problem("unknown_sku", "NO-ADJ");
	adjust("{\"lines\":[{\"sku\":\"ADJ\",\"delta\":1}]}", 422);
	problem("invalid_field", "`reason`");
	call(service.key_admin, "POST", "/v1/adjustments", NULL,
	     "{\"reason\":\"x\",\"lines\":[{\"sku\":\"ADJ\",\"delta\":1}]}", 400);
	problem("idempotency_key_required", "Idempotency-Key");
	assert_int_equal(service_end(&service, service.key_web, id, "release"), 200);
	assert_int_equal(service_row(&service, "ADJ").reserved, 0);
}

static void the_ledger_has_every_change_in_order(void **state)
{
	service_create_sku(&service, "BOOK", 10);
	assert_int_equal(service_sell(&service, service.key_pos, NULL, "BOOK", 3), 201);
	assert_int_equal(service_adjust(&service, "BOOK", 5), 201);
	get("/v1/skus/BOOK/ledger", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 3);
	assert_true(json_is_null(answer_at(&answer, "next")));
	assert_string_equal(answer_string(&answer, "items.0.kind"), "create");
	assert_int_equal(answer_int(&answer, "items.0.on_hand_after"), 10);
	assert_string_equal(answer_string(&answer, "items.1.kind"), "sale");
	assert_string_equal(answer_string(&answer, "items.1.channel"), "pos");
	assert_string_equal(answer_string(&answer, "items.1.principal"), "pos");
	assert_int_equal(answer_int(&answer, "items.1.on_hand_delta"), -3);
	assert_int_equal(answer_int(&answer, "items.1.on_hand_after"), 7);
	assert_int_equal(answer_int(&answer, "items.2.version"), 3);
	get("/v1/skus/BOOK/ledger?limit=2", 200);
	assert_string_equal(answer_string(&answer, "next"), "2");
	get("/v1/skus/BOOK/ledger?limit=3", 200); /* they fit, and there is no more */
	assert_true(json_is_null(answer_at(&answer, "next")));
	get("/v1/skus/BOOK/ledger?limit=2&after=2", 200);
	assert_int_equal(answer_int(&answer, "items.0.version"), 3);
	assert_true(json_is_null(answer_at(&answer, "next")));
	adjust("{\"reason\":\"found\",\"lines\":[{\"sku\":\"BOOK\",\"delta\":1}]}", 201);
	adjust("{\"reason\":\"found\",\"reference\":\"note-7\",\"lines\":[{\"sku\":\"BOOK\",\"delta\":1}]}", 201);
	get("/v1/skus/BOOK/ledger?after=3", 200);
	assert_string_equal(answer_string(&answer, "items.0.reference"), "found");
	assert_string_equal(answer_string(&answer, "items.1.reference"), "note-7");
	get("/v1/skus/NO-BOOK/ledger", 404);
	get("/v1/skus/BOOK/ledger?after=x", 422);
	get("/v1/skus/BOOK/ledger?after=-1", 422);
	assert_int_equal(service_ledger_count(&service, "BOOK", "sale"), 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_replayed_put_repeats_its_titles),
	cmocka_unit_test(a_sku_is_created_once_and_changed_often),
	cmocka_unit_test(skus_come_in_pages_by_code),
	cmocka_unit_test(codes_are_bytes_with_one_spelling),
	cmocka_unit_test(availability_carries_a_tag_until_it_changes),
	cmocka_unit_test(a_hit_says_so),
	cmocka_unit_test(many_are_answered_in_the_order_asked),
	cmocka_unit_test(adjustments_move_the_count_and_never_below_what_is_held),
	cmocka_unit_test(the_ledger_has_every_change_in_order),
};

API_MAIN(tests)
