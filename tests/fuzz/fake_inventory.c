/* An inventory for the API under a fuzzer (fake_inventory.h).
 *
 * Happy path: what is asked is looked at, its answer made, and posted to the loop's mailbox, from where it is given.
 * Failure modes: whatever the API should not have handed on is CHECKed.
 */
#include "fuzz/fake_inventory.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/mailbox.h"
#include "base/text.h"
#include "inventory/follower.h"
#include "inventory/prepare.h"
#include "store/search.h"
#include "store/secret.h"

#define AT_US INT64_C(1796135525123000) /* 2026-12-01 */

struct reader {
	struct mailbox *mailbox;
};

/* An answer on its way. */
struct answer {
	struct mailbox_item item;
	void *to;
};

struct fake_seen fake_seen;
bool fake_products;
static struct mailbox *the_mailbox; /* of the one loop there is */

static void post(struct arena *arena, void *to, void (*deliver)(struct mailbox_item *item))
{
	struct answer *answer = ARENA_NEW(arena, struct answer);
	answer->to = to;
	answer->item.deliver = deliver;
	mailbox_post(the_mailbox, &answer->item);
}

static const struct figures some_figures = {.version = 7, .on_hand = 9, .reserved = 2, .tracked = true};

/* --- look-ups ----------------------------------------------------------------------------------------------------- */

struct reader *reader_new(struct inventory *inventory, struct event_base *base, struct mailbox *mailbox)
{
	struct reader *reader = calloc(1, sizeof *reader);
	CHECK(reader);
	reader->mailbox = the_mailbox = mailbox;
	return reader;
}

void reader_free(struct reader *reader)
{
	free(reader);
}

static void on_lookup(struct mailbox_item *item)
{
	struct lookup *lookup = ((struct answer *)item)->to;
	lookup->on_done(lookup);
}

void reader_lookup(struct reader *reader, struct lookup *lookup)
{
	CHECK(lookup->item_count >= 1 && lookup->item_count <= LU_LOOKUP_MAX && lookup->deadline_ns > 0);
	CHECK(lookup->max_stale_s >= 0 && lookup->max_stale_s <= INT32_MAX);
	for (size_t i = 0; i < lookup->item_count; i++) {
		struct lookup_item *item = &lookup->items[i];
		CHECK(!text_check_sku(item->sku));
		item->known = item->sku.data[0] != 'U';
		item->figures = some_figures;
		item->source = item->sku.data[0] == 'S' && lookup->max_stale_s ? LOOKUP_STALE : LOOKUP_HIT;
	}
	fake_seen.lookups++;
	fake_seen.max_stale_s = lookup->max_stale_s;
	fake_seen.stale = lookup->items[0].source == LOOKUP_STALE;
	post(lookup->arena, lookup, on_lookup);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static struct uuid id_of(const struct operation *operation)
{
	struct uuid id;
	memcpy(id.bytes, operation->fingerprint, sizeof id.bytes);
	return id;
}

static enum lu_error error_of(const struct operation *operation, unsigned draw)
{
	static const enum lu_error of_carts[] = {LU_INSUFFICIENT_STOCK, LU_UNKNOWN_SKU, LU_IDEMPOTENCY_CONFLICT,
	                                         LU_OUTCOME_UNKNOWN};
	static const enum lu_error of_holds[] = {LU_RESERVATION_NOT_ACTIVE, LU_RESERVATION_EXPIRED, LU_UNKNOWN_RESERVATION,
	                                         LU_DEADLINE_EXCEEDED};
	static const enum lu_error of_stock[] = {LU_CHANGE_FROM_MISMATCH, LU_COUNT_OUT_OF_RANGE, LU_UNKNOWN_SKU,
	                                         LU_IDEMPOTENCY_IN_FLIGHT};
	static const enum lu_error of_sales[] = {LU_EXCEEDS_SOLD, LU_UNKNOWN_CHECKOUT, LU_UNKNOWN_SKU, LU_OVERLOADED};
	switch (operation->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
	case OPERATION_ORDER_PUT:
		return of_carts[draw % 4];
	case OPERATION_ADJUST:
		return of_stock[draw % 4];
	case OPERATION_CANCEL:
		return of_sales[draw % 4];
	case OPERATION_SKU_PUT:
		return LU_SKU_EXISTS;
	case OPERATION_COMMIT:
	case OPERATION_RELEASE:
	case OPERATION_EXTEND:
	case OPERATION_EXPIRE:
		return of_holds[draw % 4];
	default:
		return LU_DATABASE_UNAVAILABLE;
	}
}

/* Does do_it() know what an answer of its kind shows? */
static bool is_known(enum operation_kind kind)
{
	return (kind >= OPERATION_CHECKOUT && kind <= OPERATION_EXPIRE) || kind == OPERATION_ORDER_PUT;
}

static void refuse(struct operation *operation, unsigned draw)
{
	struct verdict *verdict = &operation->verdict;
	verdict->error = error_of(operation, draw);
	verdict->shortage_count = operation->line_count;
	verdict->shortages = ARENA_ARRAY(operation->arena, operation->line_count, struct shortage);
	for (size_t i = 0; i < operation->line_count; i++)
		verdict->shortages[i] = (struct shortage){.sku = operation->lines[i].sku,
		                                          .requested = operation->lines[i].quantity,
		                                          .available = 1,
		                                          .held = draw & 1,
		                                          .next_release_us = draw & 1 ? AT_US : 0};
}

static struct order *order_of(const struct operation *operation)
{
	struct order *order = ARENA_NEW(operation->arena, struct order);
	*order = (struct order){.id = id_of(operation),
	                        .number = operation->number,
	                        .version = operation->order_version,
	                        .channel = operation->principal.channel,
	                        .created_us = AT_US,
	                        .changed_us = AT_US};
	order->lines = ARENA_ARRAY(operation->arena, operation->line_count, struct order_line);
	for (size_t i = 0; i < operation->line_count; i++)
		order->lines[order->line_count++] = (struct order_line){.sku = operation->lines[i].sku,
		                                                        .quantity = operation->lines[i].quantity};
	return order;
}

/* Whatever an answer of its kind shows. */
static void do_it(struct operation *operation)
{
	struct verdict *verdict = &operation->verdict;
	struct arena *arena = operation->arena;
	struct reservation *reservation = ARENA_NEW(arena, struct reservation);
	struct checkout *checkout = ARENA_NEW(arena, struct checkout);
	/* What is named by its id has lines as well, if they do not come with the operation. */
	static struct line some_line = {.sku = {"P-1", 3}, .quantity = 1};
	struct line *lines = operation->line_count ? operation->lines : &some_line;
	size_t line_count = operation->line_count ? operation->line_count : 1;
	verdict->object_id = id_of(operation);
	*reservation = (struct reservation){.id = verdict->object_id,
	                                    .channel = operation->principal.channel,
	                                    .state = RESERVATION_ACTIVE,
	                                    .reference = operation->reference,
	                                    .created_us = AT_US,
	                                    .expires_us = AT_US + INT64_C(1000000) * (operation->ttl_s + 1),
	                                    .lines = lines,
	                                    .line_count = line_count};
	*checkout = (struct checkout){.id = verdict->object_id,
	                              .channel = operation->principal.channel,
	                              .reference = operation->reference,
	                              .created_us = AT_US,
	                              .lines = lines,
	                              .line_count = line_count};
	verdict->reservation = reservation;
	verdict->checkout = checkout;
	verdict->order = order_of(operation);
	verdict->created = operation->fingerprint[3] & 1;
	verdict->figures_count = operation->line_count;
	verdict->figures = ARENA_ARRAY(arena, operation->line_count, struct sku_figures);
	for (size_t i = 0; i < operation->line_count; i++)
		verdict->figures[i] = (struct sku_figures){operation->lines[i].sku, some_figures, 7};
}

static void check_operation(const struct operation *operation)
{
	bool needs_key = operation->kind == OPERATION_CHECKOUT || operation->kind == OPERATION_RESERVE ||
	                 operation->kind == OPERATION_ADJUST || operation->kind == OPERATION_CANCEL;
	CHECK(operation->arena && operation->on_done && operation->deadline_ns > 0);
	CHECK(operation->client_key || !needs_key);
	CHECK(!operation->client_key || !text_check_key(operation->key));
	CHECK(operation->line_count <= LU_LINES_MAX);
	for (size_t i = 0; i < operation->line_count; i++)
		CHECK(!text_check_sku(operation->lines[i].sku));
}

static void on_operation(struct mailbox_item *item)
{
	struct operation *operation = ((struct answer *)item)->to;
	operation->on_done(operation);
}

enum lu_error inventory_submit(struct inventory *inventory, struct operation *operation)
{
	check_operation(operation);
	enum lu_error error = operation_prepare(operation);
	if (error)
		return error;
	fake_seen.operations++;
	operation->verdict = (struct verdict){.at_us = AT_US, .replayed = operation->fingerprint[1] % 4 == 0};
	if ((operation->fingerprint[0] & 1) || !is_known(operation->kind))
		refuse(operation, operation->fingerprint[2]);
	else
		do_it(operation);
	post(operation->arena, operation, on_operation);
	return LU_OK;
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

static void on_query(struct mailbox_item *item)
{
	struct query *query = ((struct answer *)item)->to;
	query->on_done(query);
}

enum lu_error inventory_query(struct inventory *inventory, struct query *query)
{
	CHECK(query->arena && query->work && query->on_done && query->deadline_ns > 0);
	fake_seen.queries++;
	query->error = fake_products ? query->work(query, NULL) : LU_DATABASE_UNAVAILABLE;
	post(query->arena, query, on_query);
	return LU_OK;
}

const uint8_t *inventory_secret(const struct inventory *inventory)
{
	static const uint8_t secret[SECRET_BYTES] = "nobody's";
	return secret;
}

/* --- products: in the place of store/search.c --------------------------------------------------------------------- */

static struct product product_of(int64_t id)
{
	static const char *const titles[FAKE_PRODUCTS_MAX] =
		{"{\"en\": \"Mug <b>\\\"&amp;\\\"</b>\", \"ru\": \"\u041a\u0440\u0443\u0436\u043a\u0430\"}",
	     "{\"en\": \"Lamp\"}", "{}"};
	static const char *const codes[FAKE_PRODUCTS_MAX] = {"P-1", "P-2", "P-3"};
	return (
		struct product){.id = id,
	                    .code = text_of(codes[id - 1]),
	                    .figures = id == 2
	                                   ? (struct figures){.version = 9, .on_hand = 2, .reserved = 2, .tracked = true}
	                                   : some_figures,
	                    .titles_json = text_of(titles[id - 1]),
	                    .next_release_us = id == 2 ? AT_US : 0};
}

enum lu_error search_products(struct pg *pg, struct arena *arena, struct text said, size_t limit, int64_t deadline_ns,
                              struct product **ret_products, size_t *ret_count)
{
	CHECK(text_is_utf8(said) && limit >= 1 && deadline_ns > 0);
	if (said.size % 7 == 6)
		return LU_DATABASE_UNAVAILABLE;
	size_t count = said.size % (FAKE_PRODUCTS_MAX + 1);
	*ret_count = count < limit ? count : limit;
	*ret_products = ARENA_ARRAY(arena, *ret_count, struct product);
	for (size_t i = 0; i < *ret_count; i++)
		(*ret_products)[i] = product_of((int64_t)i + 1);
	return LU_OK;
}

enum lu_error search_product(struct pg *pg, struct arena *arena, int64_t id, struct text code, int64_t deadline_ns,
                             struct product **ret_product)
{
	CHECK(id >= 1 || !text_check_sku(code));
	*ret_product = NULL;
	if (!id)
		id = code.size % (FAKE_PRODUCTS_MAX + 1);
	if (id >= 1 && id <= FAKE_PRODUCTS_MAX) {
		*ret_product = ARENA_NEW(arena, struct product);
		**ret_product = product_of(id);
	}
	return LU_OK;
}

enum lu_error search_name(struct pg *pg, struct arena *arena, int64_t id, int64_t deadline_ns,
                          struct product **ret_product)
{
	return search_product(pg, arena, id, (struct text){0}, deadline_ns, ret_product);
}

/* None: what one input was told, the next must not remember. */
bool inventory_lease(struct inventory *inventory, char ret_namespace[INVENTORY_NAMESPACE_ROOM])
{
	return false;
}

void inventory_status(struct inventory *inventory, struct inventory_status *ret_status)
{
	*ret_status = (struct inventory_status){.epoch = "unknown"};
}

void inventory_weaknesses(struct inventory *inventory, struct weaknesses *list)
{
	weakness_add(list, "none", "", "This inventory is none.");
}

/* --- the follower: it begins, and nothing ever changes ------------------------------------------------------------ */

struct follower *inventory_follower(struct inventory *inventory)
{
	return NULL;
}

void follower_add(struct follower *follower, struct follower_tap *tap) {}

void follower_remove(struct follower_tap *tap)
{
	if (tap->started)
		mailbox_deliver(tap->mailbox);
}

static void on_start(struct mailbox_item *item)
{
	struct follower_tap *tap = (struct follower_tap *)((char *)item - offsetof(struct follower_tap, item));
	tap->started = false;
	if (tap->open)
		tap->on_news(tap, &(struct follower_news){.word = FOLLOWER_START, .position = {.identity = 1, .xid = 1}});
}

void follower_open(struct follower_tap *tap)
{
	if (!tap->open && !tap->started) {
		tap->started = true; /* its START is on the way */
		tap->item.deliver = on_start;
		mailbox_post(tap->mailbox, &tap->item);
	}
	tap->open = true;
}

void follower_close(struct follower_tap *tap)
{
	tap->open = false;
}
