/* The objects of the API as JSON: one function per object, so that every route, a batch and every channel show the same.
 *
 * Pure: writes into a json_writer, reads nothing else. The shapes are those of src/api/README.md. `available` is what the
 * principal given may sell, by the same rule as `decide`: cells and rows hold raw figures. Thread: any.
 */
#ifndef API_RENDER_H
#define API_RENDER_H

#include "base/json.h"
#include "inventory/read.h"
#include "lastunit/decide.h"
#include "store/ledger.h"
#include "store/sku.h"

/* {"sku", "status", "available", "held", "tracked", "version"} [, "stale": true]; {"sku", "status": "unknown"}. */
void render_availability(struct json_writer *w, const struct lookup_item *item, const struct principal *principal);
/* The same with members of the caller behind: close the object. */
void render_availability_open(struct json_writer *w, const struct lookup_item *item, const struct principal *principal);
/* `"version.available.held"`, quotes included: everything the body depends on beside the SKU, so that it stays a strong
 * validator even when a restored database gives a version out again. Returns its length. */
#define ETAG_BYTES_MAX 72
size_t render_etag(const struct figures *figures, const struct principal *principal, char out[ETAG_BYTES_MAX]);

void render_checkout(struct json_writer *w, const struct checkout *checkout);
/* now_us: the database's clock; a hold that is due by it is shown as expired. */
void render_reservation(struct json_writer *w, const struct reservation *reservation, int64_t now_us);
/* The state that render_reservation() shows. */
enum reservation_state reservation_state_at(const struct reservation *reservation, int64_t now_us);
const char *reservation_state_name(enum reservation_state state);
bool reservation_state_parse(struct text name, enum reservation_state *ret_state) LU_MUST_CHECK;
void render_order(struct json_writer *w, const struct order *order);
void render_adjustment(struct json_writer *w, const struct verdict *verdict);
struct sku_names {
	const struct text *names;
	size_t count;
};
/* titles_json with data NULL, names NULL: they are not known and are left out. available: to whom it is told. */
void render_sku(struct json_writer *w, struct text code, const struct figures *figures, struct text titles_json,
                const struct sku_names *names, int64_t available);
void render_ledger_row(struct json_writer *w, const struct ledger_row *row);
/* The same with its SKU in front: an entry of the change feed. */
void render_change(struct json_writer *w, struct text sku, const struct ledger_row *row);

/* The answer to an operation that was not refused, SKU_PUT excepted. */
void render_verdict(struct json_writer *w, const struct operation *operation);
/* The status of an operation's answer, refused or not. */
int verdict_status(const struct operation *operation);
/* `detail` of a refusal of an operation of this kind: a sentence with numbers, and what helps, as the figures have it. */
struct text verdict_detail(struct arena *arena, enum operation_kind kind, const struct verdict *verdict);
/* `"lines": […]` of a refusal, if it has some. */
void render_shortages(struct json_writer *w, const struct verdict *verdict);

#endif
