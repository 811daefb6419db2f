/* Values through the wire: what goes in comes out, whatever its size, whichever way (B95). */
#include "store/fixture.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* Each is one byte more than some width can hold, or the end of a range. */
static const int64_t numbers[] =
	{0, 1, 255, 256, 65536, INT64_C(1) << 31, INT64_C(1) << 40, LU_COUNT_MAX, -1, -32768, INT64_MAX, INT64_MIN};

static PGresult *echo(struct pg *pg, const struct pg_statement *statement, const struct pg_params *params)
{
	PGresult *r;
	ok(pg, pg_query(pg, statement, params, SOON, &r));
	return r;
}

static void integers_come_back_as_they_went(void **state)
{
	static const struct pg_statement one = {"one", "SELECT $1, $1::text"};
	static const struct pg_statement many = {"many", "SELECT $1, $1::text"};
	struct pg *pg = session();
	struct pg_params p;
	for (size_t i = 0; i < LENGTH(numbers); i++) {
		char digits[32];
		snprintf(digits, sizeof digits, "%lld", (long long)numbers[i]);
		pg_params_init(&p, &arena);
		pg_add_int8(&p, numbers[i]);
		PGresult *r = echo(pg, &one, &p);
		assert_int_equal(pg_get_int(r, 0, 0), numbers[i]);
		assert_text(pg_get_text(r, 0, 1, &arena), digits);
		PQclear(r);
	}
	/* By stride, out of structs as they lie. */
	struct {
		char before;
		int64_t n;
		char behind[3];
	} rows[LENGTH(numbers)];
	for (size_t i = 0; i < LENGTH(numbers); i++)
		rows[i].n = numbers[i];
	pg_params_init(&p, &arena);
	pg_add_int8s(&p, &rows[0].n, sizeof rows[0], LENGTH(rows));
	PGresult *r = echo(pg, &many, &p);
	int64_t *back;
	assert_int_equal(pg_get_int8s(r, 0, 0, &arena, &back), LENGTH(numbers));
	assert_memory_equal(back, numbers, sizeof numbers);
	assert_text(pg_get_text(r, 0, 1, &arena),
	            "{0,1,255,256,65536,2147483648,1099511627776,1000000000000000,-1,-32768,9223372036854775807,"
	            "-9223372036854775808}");
	PQclear(r);
	pg_free(pg);
}

static void small_integers_and_booleans_come_back(void **state)
{
	static const struct pg_statement statement =
		{"small", "SELECT $1::text, $2, $2::text, $3, ($1)[2], ($1)[3]::integer, pg_current_xact_id()"};
	static const int16_t channels[] = {1, 255, 256, INT16_MAX, INT16_MIN};
	static const bool flags[] = {true, false, true};
	struct pg *pg = session();
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_int2s(&p, channels, sizeof channels[0], LENGTH(channels));
	pg_add_bools(&p, flags, sizeof flags[0], LENGTH(flags));
	pg_add_bool(&p, true);
	PGresult *r = echo(pg, &statement, &p);
	assert_text(pg_get_text(r, 0, 0, &arena), "{1,255,256,32767,-32768}");
	bool *back;
	assert_int_equal(pg_get_bools(r, 0, 1, &arena, &back), 3);
	assert_memory_equal(back, flags, sizeof flags);
	assert_text(pg_get_text(r, 0, 2, &arena), "{t,f,t}");
	assert_true(pg_get_bool(r, 0, 3));
	assert_int_equal(pg_get_int(r, 0, 4), 255); /* smallint */
	assert_int_equal(pg_get_int(r, 0, 5), 256); /* integer */
	assert_true(pg_get_int(r, 0, 6) > 0);       /* xid8 */
	PQclear(r);
	pg_free(pg);
}

static void texts_bytes_and_ids_come_back_with_their_nulls(void **state)
{
	static const struct pg_statement statement =
		{"texts", "SELECT $1, $2, $2::text, $3, $4::text, $5, $6::text, $7::text, $8, $9, $10, $11::text"};
	static const struct text texts[] = {{"a,b\"\\{}", 7}, {NULL, 0}, {"", 0}, {"NULL", 4}, {"\xC3\xA9", 2}};
	static const char zeros[4];
	const struct text bytes[] = {{zeros, 4}, {NULL, 0}, {"", 0}};
	struct uuid ids[3] = {uuid_new(), {{0}}, uuid_new()};
	struct pg *pg = session();
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_text(&p, TEXT("one"));
	pg_add_texts(&p, texts, sizeof texts[0], LENGTH(texts));
	pg_add_text(&p, (struct text){0});
	pg_add_byteas(&p, bytes, sizeof bytes[0], LENGTH(bytes));
	pg_add_uuid(&p, &ids[0]);
	pg_add_uuids(&p, ids, sizeof ids[0], LENGTH(ids));
	pg_add_bytes(&p, "\0\1", 2);
	pg_add_text(&p, TEXT(""));
	pg_add_uuid(&p, &ids[1]);
	pg_add_texts(&p, NULL, sizeof texts[0], 0);
	pg_add_int8s(&p, NULL, sizeof(int64_t), 0);
	PGresult *r = echo(pg, &statement, &p);
	assert_text(pg_get_text(r, 0, 0, &arena), "one");
	struct text *back;
	assert_int_equal(pg_get_texts(r, 0, 1, &arena, &back), LENGTH(texts));
	for (size_t i = 0; i < LENGTH(texts); i++) {
		assert_int_equal(back[i].data == NULL, texts[i].data == NULL);
		assert_true(text_equal(back[i], texts[i]));
	}
	assert_text(pg_get_text(r, 0, 2, &arena), "{\"a,b\\\"\\\\{}\",NULL,\"\",\"NULL\",\xC3\xA9}");
	assert_null(pg_get_text(r, 0, 3, &arena).data);
	assert_text(pg_get_text(r, 0, 4, &arena), "{\"\\\\x00000000\",NULL,\"\\\\x\"}");
	struct uuid id = pg_get_uuid(r, 0, 5);
	assert_true(uuid_equal(&id, &ids[0]));
	char first[UUID_TEXT_BYTES + 1], third[UUID_TEXT_BYTES + 1];
	uuid_format(&ids[0], first);
	uuid_format(&ids[2], third);
	assert_text(pg_get_text(r, 0, 6, &arena), arena_printf(&arena, "{%s,NULL,%s}", first, third).data);
	assert_text(pg_get_text(r, 0, 7, &arena), "\\x0001");
	struct text empty = pg_get_text(r, 0, 8, &arena);
	assert_non_null(empty.data);
	assert_int_equal(empty.size, 0);
	id = pg_get_uuid(r, 0, 9);
	assert_true(uuid_is_nil(&id));
	assert_int_equal(pg_get_texts(r, 0, 10, &arena, &back), 0);
	assert_text(pg_get_text(r, 0, 11, &arena), "{}");
	PQclear(r);
	pg_free(pg);
}

static void times_keep_their_microseconds(void **state)
{
	static const struct pg_statement statement = {"times", "SELECT $1, $1::text, $2, $3::text"};
	static const int64_t times[] = {INT64_C(1796046300123456), 0, 1, INT64_C(946684800000000), -1};
	struct pg *pg = session();
	ok(pg, pg_command(pg, "SET timezone = 'UTC'", SOON));
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_time(&p, times[0]);
	pg_add_time(&p, 0);
	pg_add_times(&p, times, sizeof times[0], LENGTH(times));
	PGresult *r = echo(pg, &statement, &p);
	assert_int_equal(pg_get_time(r, 0, 0), times[0]);
	assert_text(pg_get_text(r, 0, 1, &arena), "2026-11-30 13:45:00.123456+00");
	assert_int_equal(pg_get_time(r, 0, 2), 0);
	assert_text(pg_get_text(r, 0, 3, &arena),
	            "{\"2026-11-30 13:45:00.123456+00\",NULL,\"1970-01-01 00:00:00.000001+00\","
	            "\"2000-01-01 00:00:00+00\",\"1969-12-31 23:59:59.999999+00\"}");
	PQclear(r);
	pg_free(pg);
}

/* As SQL has them for what never ends: the reaper waits for it, and does not take it for long due. */
static void infinite_times_are_the_last_and_the_first(void **state)
{
	static const struct pg_statement statement = {"infinite",
	                                              "SELECT 'infinity'::timestamptz, '-infinity'::timestamptz"};
	struct pg *pg = session();
	PGresult *r;
	ok(pg, pg_query(pg, &statement, NULL, SOON, &r));
	assert_true(pg_get_time(r, 0, 0) > clock_unix_us());
	assert_true(pg_get_time(r, 0, 1) < 0);
	PQclear(r);
	pg_free(pg);
}

/* A statement of rows is two for the server. Of one row the columns are sent as they are, not as arrays of one element;
 * what is an array in itself stays one. */
static void the_columns_of_one_row_are_its_values(void **state)
{
	static const struct pg_statement statement = {
		"columns",
		"SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), ($8)[1], pg_typeof($1)::text",
	};
	static const struct row {
		int64_t number;
		int16_t small;
		bool flag;
		struct text text, bytes;
		struct uuid id;
		int64_t at_us;
	} rows[] = {
		{-7, 256, true, {"a,b", 3}, {"\0\1", 2}, {{1}}, INT64_C(1796046300123456)},
		{INT64_MIN, -1, false, {NULL, 0}, {"", 0}, {{0}}, 0},
	};
	static const int64_t lines[] = {41, 42};
	struct pg *pg = session();
	for (size_t from = 0; from < 2; from++)
		for (size_t count = 1; from + count <= 2; count++) {
			struct pg_params p;
			const struct row *first = rows + from;
			pg_params_init_rows(&p, &arena, count);
			pg_add_int8s(&p, &first->number, sizeof *first, count);
			pg_add_int2s(&p, &first->small, sizeof *first, count);
			pg_add_bools(&p, &first->flag, sizeof *first, count);
			pg_add_texts(&p, &first->text, sizeof *first, count);
			pg_add_byteas(&p, &first->bytes, sizeof *first, count);
			pg_add_uuids(&p, &first->id, sizeof *first, count);
			pg_add_times(&p, &first->at_us, sizeof *first, count);
			pg_params_arrays(&p);
			pg_add_int8s(&p, lines, sizeof *lines, LENGTH(lines));
			PGresult *r = echo(pg, &statement, &p);
			assert_int_equal(PQntuples(r), count);
			for (int i = 0; i < PQntuples(r); i++) {
				const struct row *row = first + i;
				struct uuid id = pg_get_uuid(r, i, 5);
				assert_int_equal(pg_get_int(r, i, 0), row->number);
				assert_int_equal(pg_get_int(r, i, 1), row->small);
				assert_int_equal(pg_get_bool(r, i, 2), row->flag);
				assert_int_equal(pg_get_text(r, i, 3, &arena).data == NULL, row->text.data == NULL);
				assert_true(text_equal(pg_get_text(r, i, 3, &arena), row->text));
				assert_false(PQgetisnull(r, i, 4));
				assert_int_equal(PQgetlength(r, i, 4), row->bytes.size);
				assert_memory_equal(PQgetvalue(r, i, 4), row->bytes.data, row->bytes.size);
				assert_true(uuid_equal(&id, &row->id));
				assert_int_equal(pg_get_time(r, i, 6), row->at_us);
				assert_int_equal(pg_get_int(r, i, 7), lines[0]);
				assert_text(pg_get_text(r, i, 8, &arena), count == 1 ? "bigint" : "bigint[]");
			}
			PQclear(r);
		}
	/* Both are prepared: a batch of one and a batch of many take turns without a Parse. */
	static const struct pg_statement prepared =
		{"prepared", "SELECT count(*) FROM pg_prepared_statements WHERE name IN ('columns', 'columns_one')"};
	PGresult *r = echo(pg, &prepared, NULL);
	assert_int_equal(pg_get_int(r, 0, 0), 2);
	PQclear(r);
	pg_free(pg);
}

static void an_array_of_nothing_is_read_as_nothing(void **state)
{
	static const struct pg_statement statement =
		{"nothing", "SELECT '{}'::bigint[], NULL::bigint[], '{}'::text[], '{NULL,7}'::bigint[], NULL::bigint"};
	struct pg *pg = session();
	PGresult *r = echo(pg, &statement, NULL);
	int64_t *values;
	struct text *texts;
	assert_int_equal(pg_get_int8s(r, 0, 0, &arena, &values), 0);
	assert_int_equal(pg_get_int8s(r, 0, 1, &arena, &values), 0);
	assert_int_equal(pg_get_texts(r, 0, 2, &arena, &texts), 0);
	assert_int_equal(pg_get_int8s(r, 0, 3, &arena, &values), 2);
	assert_int_equal(values[0], 0);
	assert_int_equal(values[1], 7);
	assert_int_equal(pg_get_int(r, 0, 4), 0);
	PQclear(r);
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(integers_come_back_as_they_went),
	STORE_TEST(small_integers_and_booleans_come_back),
	STORE_TEST(texts_bytes_and_ids_come_back_with_their_nulls),
	STORE_TEST(infinite_times_are_the_last_and_the_first),
	STORE_TEST(times_keep_their_microseconds),
	STORE_TEST(the_columns_of_one_row_are_its_values),
	STORE_TEST(an_array_of_nothing_is_read_as_nothing),
};

STORE_MAIN(tests)
