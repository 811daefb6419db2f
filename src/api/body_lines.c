/* The lines of an operation: of a cart (sku, quantity) or of an adjustment (sku, and delta or set with change_from).
 *
 * Happy path: the members of each line are found first, whatever their order, and then read together: which of them must
 * be there depends on the others. Failure modes: the first fault ends the decoding, with the line's number in its path.
 */
#include <inttypes.h>
#include <string.h>

#include "api/body_internal.h"
#include "base/json.h"
#include "base/text.h"

enum line_form { LINE_OF_CART, LINE_OF_ADJUSTMENT };

/* What one line held, before it is known whether that goes together. */
struct line_members {
	const json_t *sku, *quantity, *delta, *set, *change_from;
};

static bool line_members(struct decoding *d, const json_t *line, size_t i, enum line_form form,
                         struct line_members *found)
{
	if (!json_is_object(line))
		return REFUSE(d, LU_INVALID_LINES, "`lines[%zu]` must be an object.", i);
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)line, name, value)
	{
		if (!strcmp(name, "sku"))
			found->sku = value;
		else if (form == LINE_OF_CART && !strcmp(name, "quantity"))
			found->quantity = value;
		else if (form == LINE_OF_ADJUSTMENT && !strcmp(name, "delta"))
			found->delta = json_is_null(value) ? NULL : value;
		else if (form == LINE_OF_ADJUSTMENT && !strcmp(name, "set"))
			found->set = json_is_null(value) ? NULL : value;
		else if (form == LINE_OF_ADJUSTMENT && !strcmp(name, "change_from"))
			found->change_from = value; /* an explicit null says something: do not compare */
		else
			return REFUSE(d, LU_INVALID_FIELD, "`lines[%zu].%.*s` is not a field of a line; it has %s.", i,
			              FIT(text_of(name)),
			              form == LINE_OF_CART ? "sku and quantity" : "sku and delta, or sku, set and change_from");
	}
	return true;
}

static bool line_sku(struct decoding *d, const json_t *sku, size_t i, struct text *ret_sku)
{
	if (!sku || json_is_null(sku))
		return REFUSE(d, LU_INVALID_SKU, "`lines[%zu].sku` is missing.", i);
	if (!json_is_string(sku) || text_check_sku(json_text(sku)))
		return REFUSE(d, LU_INVALID_SKU, "`lines[%zu].sku` is not a SKU code. %s", i, lu_error_mend(LU_INVALID_SKU));
	*ret_sku = json_text(sku);
	return true;
}

static bool cart_line(struct decoding *d, const struct line_members *found, size_t i, struct line *line)
{
	if (!body_integer_within(found->quantity, 1, LU_QUANTITY_MAX, &line->quantity))
		return REFUSE(d, LU_INVALID_QUANTITY, "`lines[%zu].quantity` must be a JSON integer from 1 to %" PRId64 ".", i,
		              LU_QUANTITY_MAX);
	return true;
}

static bool adjustment_line(struct decoding *d, const struct line_members *found, size_t i, struct line *line)
{
	if (!found->delta == !found->set)
		return REFUSE(d, LU_INVALID_LINES, "`lines[%zu]` must have either `delta` or `set`.", i);
	if (found->delta) {
		if (found->change_from)
			return REFUSE(d, LU_INVALID_FIELD, "`lines[%zu].change_from` goes with `set`, not with `delta`.", i);
		if (!body_integer_within(found->delta, -LU_COUNT_MAX, LU_COUNT_MAX, &line->quantity) || !line->quantity)
			return REFUSE(d, LU_INVALID_QUANTITY,
			              "`lines[%zu].delta` must be a JSON integer from -%" PRId64 " to %" PRId64 ", and not 0.", i,
			              LU_COUNT_MAX, LU_COUNT_MAX);
		return true;
	}
	line->set = true;
	if (!body_integer_within(found->set, 0, LU_COUNT_MAX, &line->quantity))
		return REFUSE(d, LU_INVALID_QUANTITY, "`lines[%zu].set` must be a JSON integer from 0 to %" PRId64 ".", i,
		              LU_COUNT_MAX);
	if (!found->change_from)
		return REFUSE(d, LU_INVALID_FIELD,
		              "`lines[%zu].change_from` is missing: send the on_hand you believe there is, or null to set the "
		              "count whatever it is.",
		              i);
	line->change_from_given = !json_is_null(found->change_from);
	if (line->change_from_given && !body_integer_within(found->change_from, 0, LU_COUNT_MAX, &line->change_from))
		return REFUSE(d, LU_INVALID_QUANTITY,
		              "`lines[%zu].change_from` must be a JSON integer from 0 to %" PRId64 ", or null.", i,
		              LU_COUNT_MAX);
	return true;
}

bool body_take_lines(struct decoding *d, const char *name, const json_t *value)
{
	struct operation *operation = d->operation;
	enum line_form form = operation->kind == OPERATION_ADJUST ? LINE_OF_ADJUSTMENT : LINE_OF_CART;
	int least = operation->kind == OPERATION_ORDER_PUT ? 0 : 1; /* an order without lines is cancelled */
	size_t count = json_array_size(value);                      /* 0 for what is no array */
	if (!json_is_array(value) || count < (size_t)least || count > LU_LINES_MAX)
		return REFUSE(d, LU_INVALID_LINES, "`lines` must be an array of %d to %d lines.", least, LU_LINES_MAX);
	operation->lines = ARENA_ARRAY(d->arena, count, struct line);
	operation->line_count = count;
	for (size_t i = 0; i < count; i++) {
		struct line_members found = {0};
		struct line *line = &operation->lines[i];
		if (!line_members(d, json_array_get(value, i), i, form, &found) || !line_sku(d, found.sku, i, &line->sku) ||
		    !(form == LINE_OF_CART ? cart_line : adjustment_line)(d, &found, i, line))
			return false;
	}
	return true;
}
