/* Values on the wire: parameters out and results in, both binary.
 *
 * Happy path: every parameter has a declared type and network byte order; arrays are written in one pass from structs
 * as they lie. Results are read with the width checked. Failure modes: only bugs (a column of another type or width
 * than its reader believes, a parameter too many): CHECKed, because a silent misreading would sell the wrong number.
 * Source: PostgreSQL's *send and *recv functions (array: dimensions, flags, element type, then length and bound per
 * dimension, then length and bytes per element; timestamps: microseconds since 2000-01-01).
 */
#include <endian.h>
#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "store/pg.h"

// clang-format off
enum {
	OID_BOOL = 16, OID_BYTEA = 17, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25, OID_TIMESTAMPTZ = 1184,
	OID_UUID = 2950, OID_XID8 = 5069,
	OID_BOOLS = 1000, OID_BYTEAS = 1001, OID_INT2S = 1005, OID_TEXTS = 1009, OID_INT8S = 1016,
	OID_TIMESTAMPTZS = 1185, OID_UUIDS = 2951,
};
// clang-format on

#define PG_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 in Unix time */
#define HEADER_BYTES 20                      /* of an array with one dimension */

/* --- parameters --------------------------------------------------------------------------------------------------- */

void pg_params_init(struct pg_params *params, struct arena *arena)
{
	params->arena = arena;
	params->count = 0;
	params->one_row = params->arrays = false;
}

void pg_params_init_rows(struct pg_params *params, struct arena *arena, size_t row_count)
{
	pg_params_init(params, arena);
	params->one_row = row_count == 1;
}

void pg_params_arrays(struct pg_params *params)
{
	params->arrays = true;
}

static void add(struct pg_params *p, unsigned type, const void *value, size_t size)
{
	CHECK(p->count < PG_PARAMS_MAX && size <= INT_MAX);
	p->types[p->count] = type;
	p->values[p->count] = value;
	p->lengths[p->count++] = (int)size;
}

static void add_8_bytes(struct pg_params *p, unsigned type, int64_t value)
{
	uint64_t *wire = arena_alloc(p->arena, sizeof *wire);
	*wire = htobe64((uint64_t)value);
	add(p, type, wire, sizeof *wire);
}

void pg_add_int8(struct pg_params *p, int64_t value)
{
	add_8_bytes(p, OID_INT8, value);
}

void pg_add_text(struct pg_params *p, struct text value)
{
	add(p, OID_TEXT, value.data, value.size);
}

void pg_add_bool(struct pg_params *p, bool value)
{
	add(p, OID_BOOL, value ? "\1" : "\0", 1);
}

void pg_add_uuid(struct pg_params *p, const struct uuid *value)
{
	add(p, OID_UUID, uuid_is_nil(value) ? NULL : value->bytes, sizeof value->bytes);
}

void pg_add_after(struct pg_params *p, const struct uuid *value)
{
	add(p, OID_UUID, value->bytes, sizeof value->bytes);
}

void pg_add_bytes(struct pg_params *p, const void *bytes, size_t size)
{
	add(p, OID_BYTEA, bytes, size);
}

void pg_add_time(struct pg_params *p, int64_t unix_us)
{
	if (unix_us == 0)
		add(p, OID_TIMESTAMPTZ, NULL, 0);
	else
		add_8_bytes(p, OID_TIMESTAMPTZ, unix_us - PG_EPOCH_US);
}

/* An array under construction: its bytes grow in the arena, whose size is known beforehand. */
struct array {
	char *bytes, *end;
	unsigned element;
	uint32_t nulls;
};

static void put_u32(struct array *a, uint32_t value)
{
	uint32_t wire = htobe32(value);
	memcpy(a->end, &wire, sizeof wire);
	a->end += sizeof wire;
}

static void put_element(struct array *a, const void *bytes, size_t size)
{
	put_u32(a, (uint32_t)size);
	memcpy(a->end, bytes, size);
	a->end += size;
}

static void put_null(struct array *a)
{
	put_u32(a, UINT32_MAX);
	a->nulls = 1;
}

static struct array array_begin(struct pg_params *p, unsigned element, size_t count, size_t payload_bytes)
{
	CHECK(count <= INT32_MAX / 4 && payload_bytes <= INT32_MAX / 2);
	struct array a = {.bytes = arena_alloc(p->arena, HEADER_BYTES + 4 * count + payload_bytes), .element = element};
	CHECK(!p->one_row || p->arrays || count == 1);
	a.end = a.bytes;
	put_u32(&a, count > 0); /* an empty array has no dimensions */
	put_u32(&a, 0);
	put_u32(&a, element);
	if (count > 0) {
		put_u32(&a, (uint32_t)count);
		put_u32(&a, 1);
	}
	return a;
}

static void array_end(struct pg_params *p, unsigned type, struct array *a)
{
	if (p->one_row && !p->arrays) { /* its only element, which is on the wire what a value is */
		const char *value = a->bytes + HEADER_BYTES + 4;
		add(p, a->element, a->nulls ? NULL : value, a->nulls ? 0 : (size_t)(a->end - value));
		return;
	}
	uint32_t has_nulls = htobe32(a->nulls);
	memcpy(a->bytes + 4, &has_nulls, sizeof has_nulls);
	add(p, type, a->bytes, (size_t)(a->end - a->bytes));
}

#define AT(type, first, stride, i) ((const type *)(const void *)((const char *)(first) + (i) * (stride)))

void pg_add_int8s(struct pg_params *p, const int64_t *first, size_t stride, size_t count)
{
	struct array a = array_begin(p, OID_INT8, count, 8 * count);
	for (size_t i = 0; i < count; i++) {
		uint64_t wire = htobe64((uint64_t)*AT(int64_t, first, stride, i));
		put_element(&a, &wire, sizeof wire);
	}
	array_end(p, OID_INT8S, &a);
}

void pg_add_int2s(struct pg_params *p, const int16_t *first, size_t stride, size_t count)
{
	struct array a = array_begin(p, OID_INT2, count, 2 * count);
	for (size_t i = 0; i < count; i++) {
		uint16_t wire = htobe16((uint16_t)*AT(int16_t, first, stride, i));
		put_element(&a, &wire, sizeof wire);
	}
	array_end(p, OID_INT2S, &a);
}

void pg_add_bools(struct pg_params *p, const bool *first, size_t stride, size_t count)
{
	struct array a = array_begin(p, OID_BOOL, count, count);
	for (size_t i = 0; i < count; i++)
		put_element(&a, *AT(bool, first, stride, i) ? "\1" : "\0", 1);
	array_end(p, OID_BOOLS, &a);
}

static void add_texts(struct pg_params *p, unsigned element, unsigned type, const struct text *first, size_t stride,
                      size_t count)
{
	size_t payload_bytes = 0;
	for (size_t i = 0; i < count; i++)
		payload_bytes += AT(struct text, first, stride, i)->size;
	struct array a = array_begin(p, element, count, payload_bytes);
	for (size_t i = 0; i < count; i++) {
		const struct text *text = AT(struct text, first, stride, i);
		if (text->data)
			put_element(&a, text->data, text->size);
		else
			put_null(&a);
	}
	array_end(p, type, &a);
}

void pg_add_texts(struct pg_params *p, const struct text *first, size_t stride, size_t count)
{
	add_texts(p, OID_TEXT, OID_TEXTS, first, stride, count);
}

void pg_add_byteas(struct pg_params *p, const struct text *first, size_t stride, size_t count)
{
	add_texts(p, OID_BYTEA, OID_BYTEAS, first, stride, count);
}

void pg_add_uuids(struct pg_params *p, const struct uuid *first, size_t stride, size_t count)
{
	struct array a = array_begin(p, OID_UUID, count, 16 * count);
	for (size_t i = 0; i < count; i++) {
		const struct uuid *id = AT(struct uuid, first, stride, i);
		if (uuid_is_nil(id))
			put_null(&a);
		else
			put_element(&a, id->bytes, sizeof id->bytes);
	}
	array_end(p, OID_UUIDS, &a);
}

void pg_add_times(struct pg_params *p, const int64_t *first_us, size_t stride, size_t count)
{
	struct array a = array_begin(p, OID_TIMESTAMPTZ, count, 8 * count);
	for (size_t i = 0; i < count; i++) {
		int64_t unix_us = *AT(int64_t, first_us, stride, i);
		uint64_t wire = htobe64((uint64_t)(unix_us - PG_EPOCH_US));
		if (unix_us == 0)
			put_null(&a);
		else
			put_element(&a, &wire, sizeof wire);
	}
	array_end(p, OID_TIMESTAMPTZS, &a);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static int64_t int_of(const char *wire, size_t size)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;
	switch (size) {
	case 2:
		memcpy(&two, wire, size);
		return (int16_t)be16toh(two);
	case 4:
		memcpy(&four, wire, size);
		return (int32_t)be32toh(four);
	default:
		CHECK(size == 8);
		memcpy(&eight, wire, size);
		return (int64_t)be64toh(eight);
	}
}

/* The bytes of a value, checked to be binary; NULL for NULL. */
static const char *bytes_of(const PGresult *r, int row, int column, size_t *ret_size)
{
	CHECK(row < PQntuples(r) && column < PQnfields(r) && PQfformat(r, column) == 1);
	*ret_size = (size_t)PQgetlength(r, row, column);
	return PQgetisnull(r, row, column) ? NULL : PQgetvalue(r, row, column);
}

int64_t pg_get_int(const PGresult *r, int row, int column)
{
	size_t size;
	const char *wire = bytes_of(r, row, column, &size);
	switch (PQftype(r, column)) {
	case OID_INT2:
		CHECK(!wire || size == 2);
		break;
	case OID_INT4:
		CHECK(!wire || size == 4);
		break;
	default:
		CHECK((PQftype(r, column) == OID_INT8 || PQftype(r, column) == OID_XID8) && (!wire || size == 8));
	}
	return wire ? int_of(wire, size) : 0;
}

bool pg_get_bool(const PGresult *r, int row, int column)
{
	size_t size;
	const char *wire = bytes_of(r, row, column, &size);
	CHECK(PQftype(r, column) == OID_BOOL && (!wire || size == 1));
	return wire && *wire;
}

struct text pg_get_text(const PGresult *r, int row, int column, struct arena *arena)
{
	size_t size;
	const char *wire = bytes_of(r, row, column, &size);
	return wire ? arena_text(arena, (struct text){wire, size}) : (struct text){0};
}

struct uuid pg_get_uuid(const PGresult *r, int row, int column)
{
	struct uuid id = {0};
	size_t size;
	const char *wire = bytes_of(r, row, column, &size);
	CHECK(PQftype(r, column) == OID_UUID && (!wire || size == sizeof id.bytes));
	if (wire)
		memcpy(id.bytes, wire, size);
	return id;
}

int64_t pg_get_time(const PGresult *r, int row, int column)
{
	size_t size;
	const char *wire = bytes_of(r, row, column, &size);
	CHECK(PQftype(r, column) == OID_TIMESTAMPTZ && (!wire || size == 8));
	int64_t unix_us = 0;
	if (wire && __builtin_add_overflow(int_of(wire, size), PG_EPOCH_US, &unix_us))
		return INT64_MAX; /* infinity, written by a hand */
	return unix_us;
}

/* Reads an array's elements one by one; every step is bounded by the value's length. */
struct reader {
	const char *at, *end;
	size_t count;
};

static uint32_t take_u32(struct reader *in)
{
	uint32_t wire;
	CHECK(in->end - in->at >= (ptrdiff_t)sizeof wire);
	memcpy(&wire, in->at, sizeof wire);
	in->at += sizeof wire;
	return be32toh(wire);
}

static struct reader reader_of(const PGresult *r, int row, int column, unsigned type, unsigned element)
{
	size_t size;
	struct reader in = {.at = bytes_of(r, row, column, &size)};
	CHECK(PQftype(r, column) == type);
	if (!in.at)
		return in;
	in.end = in.at + size;
	uint32_t dimensions = take_u32(&in);
	take_u32(&in);
	CHECK(take_u32(&in) == element);
	/* Ours have one dimension; a hand may have written more, which are read as one list, as unnest() does. */
	for (uint32_t i = 0; i < dimensions; i++) {
		in.count = (i ? in.count : 1) * take_u32(&in);
		take_u32(&in);
		CHECK(in.count <= size / 4); /* each element has a length */
	}
	return in;
}

static const char *take_element(struct reader *in, size_t *ret_size)
{
	uint32_t size = take_u32(in);
	*ret_size = 0;
	if (size == UINT32_MAX)
		return NULL;
	CHECK((size_t)(in->end - in->at) >= size);
	const char *bytes = in->at;
	in->at += size;
	*ret_size = size;
	return bytes;
}

size_t pg_get_int8s(const PGresult *r, int row, int column, struct arena *arena, int64_t **ret_values)
{
	struct reader in = reader_of(r, row, column, OID_INT8S, OID_INT8);
	int64_t *values = ARENA_ARRAY(arena, in.count, int64_t);
	for (size_t i = 0, size; i < in.count; i++) {
		const char *wire = take_element(&in, &size);
		CHECK(!wire || size == 8);
		values[i] = wire ? int_of(wire, size) : 0;
	}
	*ret_values = values;
	return in.count;
}

size_t pg_get_bools(const PGresult *r, int row, int column, struct arena *arena, bool **ret_values)
{
	struct reader in = reader_of(r, row, column, OID_BOOLS, OID_BOOL);
	bool *values = ARENA_ARRAY(arena, in.count, bool);
	for (size_t i = 0, size; i < in.count; i++) {
		const char *wire = take_element(&in, &size);
		CHECK(!wire || size == 1);
		values[i] = wire && *wire;
	}
	*ret_values = values;
	return in.count;
}

size_t pg_get_texts(const PGresult *r, int row, int column, struct arena *arena, struct text **ret_values)
{
	struct reader in = reader_of(r, row, column, OID_TEXTS, OID_TEXT);
	struct text *values = ARENA_ARRAY(arena, in.count, struct text);
	for (size_t i = 0, size; i < in.count; i++) {
		const char *wire = take_element(&in, &size);
		if (wire)
			values[i] = arena_text(arena, (struct text){wire, size});
	}
	*ret_values = values;
	return in.count;
}

void pg_clear(PGresult **result)
{
	PQclear(*result);
	*result = NULL;
}
