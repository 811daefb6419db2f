/* What one webhook is to be sent (webhook_internal.h).
 *
 * Happy path: the next SKUs that changed behind its place, each once with its figures as they are; of those it follows,
 * the messages it wants. Its place in memory runs ahead of that in its row, which is written when a page is through, or
 * when somebody else could need it.
 * Failure modes: PostgreSQL away: the caller gives up the lead, and whoever has it next begins at the row. A place that
 * this PostgreSQL has not come to yet (both came out of a dump) is moved to now.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/text.h"
#include "channels/webhook_internal.h"

#define PAGE_ENTRIES 500
#define WRITE_NS (10 * NS_PER_S) /* how far a place that only moved, with nothing to tell, may lag in its row */

struct target *target_new(void)
{
	struct target *target = calloc(1, sizeof *target);
	CHECK(target);
	arena_init(&target->page_arena, 4096);
	return target;
}

void target_free(struct target *target)
{
	if (target->easy)
		curl_easy_cleanup(target->easy);
	curl_slist_free_all(target->headers);
	buffer_done(&target->body);
	arena_done(&target->page_arena);
	free(target);
}

static void forget_page(struct target *target)
{
	arena_reset(&target->page_arena);
	target->items = NULL;
	target->item_count = target->item = 0;
	target->out_count = target->back_count = 0;
}

void target_rewind(struct target *target)
{
	forget_page(target);
	target->position = target->page_end = target->row.position;
	target->delivered = false;
	target->seen_xid = 0;
}

bool target_is_through(const struct target *target)
{
	return target->item == target->item_count;
}

static bool follows(const struct target *target, struct text sku)
{
	const struct webhook *row = &target->row;
	return !row->skus || bsearch(&sku, row->skus, row->sku_count, sizeof *row->skus, text_compare_at);
}

/* Out of stock for the shop as a whole, safety stock left alone. */
static bool is_out(const struct figures *figures)
{
	static const struct principal anybody;
	return !figures_in_stock(figures, &anybody);
}

static void plan(struct target *target, struct page_item *item, const struct feed_change *change, bool was_out)
{
	bool out = is_out(&change->figures);
	*item = (struct page_item){
		.change = change,
		.todo = WEBHOOK_AVAILABILITY,
		.goes_out = out && !was_out,
		.comes_back = !out && was_out,
	};
	if (item->goes_out)
		item->todo |= WEBHOOK_STOCK_OUT;
	if (item->comes_back)
		item->todo |= WEBHOOK_STOCK_BACK;
	item->todo &= target->row.events;
}

/* Passes over the items of which nothing is left to tell, noting what was told. */
static void settle(struct target *target)
{
	for (; !target_is_through(target) && !target->items[target->item].todo; target->item++) {
		const struct page_item *item = &target->items[target->item];
		if (item->goes_out)
			target->outs[target->out_count++] = item->change->position.sku_id;
		if (item->comes_back)
			target->backs[target->back_count++] = item->change->position.sku_id;
		target->position = item->change->position;
	}
	if (target_is_through(target))
		target->position = target->page_end;
}

enum webhook_event target_event(const struct target *target)
{
	unsigned todo = target->items[target->item].todo;
	return todo & WEBHOOK_STOCK_OUT    ? WEBHOOK_STOCK_OUT
	       : todo & WEBHOOK_STOCK_BACK ? WEBHOOK_STOCK_BACK
	                                   : WEBHOOK_AVAILABILITY;
}

const struct feed_change *target_change(const struct target *target)
{
	return target->items[target->item].change;
}

void target_next(struct target *target, bool taken)
{
	target->items[target->item].todo &= ~(unsigned)target_event(target);
	target->delivered |= taken;
	target->attempts = 0;
	settle(target);
}

/* A row that came out of a dump names a place in another cluster's numbers. */
static bool adopt(struct target *target, const struct feed_position *now)
{
	bool ahead = target->position.xid > now->xid;
	char id[UUID_TEXT_BYTES + 1];
	if (ahead) {
		uuid_format(&target->row.id, id);
		log_event(LOG_WARN, "webhook_restored id=%s why=\"its place is of another PostgreSQL: it goes on from now\"",
		          id);
		target->position = *now;
	}
	target->position.identity = now->identity;
	return ahead;
}

/* Of the changes those that it follows, and what it was told last of each. */
static enum lu_error fill_page(struct target *target, struct pg *pg, struct feed_change *changes, size_t count,
                               int64_t deadline_ns)
{
	struct arena *arena = &target->page_arena;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (follows(target, changes[i].sku))
			changes[kept++] = changes[i];
	bool *was_out = ARENA_ARRAY(arena, kept, bool);
	int64_t *sku_ids = ARENA_ARRAY(arena, kept, int64_t);
	for (size_t i = 0; i < kept; i++)
		sku_ids[i] = changes[i].position.sku_id;
	if (kept && (target->row.events & (WEBHOOK_STOCK_OUT | WEBHOOK_STOCK_BACK))) {
		enum lu_error error = webhook_outs(pg, arena, &target->row.id, sku_ids, kept, deadline_ns, &was_out);
		if (error)
			return error;
	}
	target->outs = ARENA_ARRAY(arena, kept, int64_t);
	target->backs = ARENA_ARRAY(arena, kept, int64_t);
	target->items = ARENA_ARRAY(arena, kept, struct page_item);
	target->item_count = kept;
	for (size_t i = 0; i < kept; i++)
		plan(target, &target->items[i], &changes[i], was_out[i]);
	return LU_OK;
}

enum lu_error target_read(struct target *target, struct pg *pg, int64_t deadline_ns)
{
	struct feed_state state;
	struct feed_change *changes;
	size_t count;
	bool more;
	CHECK(!target->out_count && !target->back_count);
	forget_page(target);
	enum lu_error error = feed_changes(pg, &target->page_arena, &target->position, PAGE_ENTRIES, deadline_ns, &state,
	                                   &changes, &count, &more);
	if (error || adopt(target, &state.now))
		return error;
	target->page_end = count ? changes[count - 1].position : target->position;
	if (!more && feed_position_compare(&state.now, &target->page_end) > 0)
		target->page_end = state.now;
	target->seen_xid = more ? 0 : state.now.xid;
	error = fill_page(target, pg, changes, count, deadline_ns);
	if (!error)
		settle(target);
	return error;
}

enum lu_error target_write(struct target *target, struct pg *pg, bool urgent, int64_t deadline_ns)
{
	const struct webhook_progress progress = {
		.from = target->row.position,
		.to = target->position,
		.outs = target->outs,
		.backs = target->backs,
		.out_count = target->out_count,
		.back_count = target->back_count,
		.delivered = target->delivered,
	};
	int64_t now_ns = clock_boottime_ns();
	bool noted = target->delivered || target->out_count || target->back_count;
	bool moved = memcmp(&progress.from, &progress.to, sizeof progress.to) != 0;
	if (!noted && (!moved || (!urgent && now_ns - target->written_ns < WRITE_NS)))
		return LU_OK;
	struct arena arena;
	arena_init(&arena, 0);
	enum lu_error error = webhook_advance(pg, &arena, &target->row.id, &progress, deadline_ns);
	arena_done(&arena);
	if (error)
		return error;
	target->row.position = target->position;
	target->written_ns = now_ns;
	target->delivered = false;
	target->out_count = target->back_count = 0;
	return LU_OK;
}
