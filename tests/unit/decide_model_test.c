/* The decision against a naive model of it, for every short sequence of operations and for long random ones.
 *
 * The model keeps no counters: what is reserved is added up from the live holds each time. It decides one operation after
 * another; the real thing is given the same operations one by one, or several as one batch, with due holds told in
 * slices. Verdicts, shortages, figures, holds and checkouts must agree, and world.c checks what must always hold
 * after each batch. A failing sequence is printed; LASTUNIT_TEST_SEED repeats a random run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "lib/world.h"

#define SKUS 3
#define OBJECTS_MAX 512
#define DEPTH_MAX 8
#define TICK_S 100

/* --- the model ---------------------------------------------------------------------------------------------------- */

struct model_line {
	int sku;
	int64_t quantity, cancelled;
	bool counted;
};

struct model_hold {
	uint64_t id;
	int64_t principal, created_us, expires_us;
	enum reservation_state state;
	struct model_line lines[2];
	int line_count;
};

struct model_sale {
	uint64_t id;
	int64_t principal;
	struct model_line lines[2];
	int line_count;
};

struct model {
	int64_t now_us;
	struct {
		int64_t on_hand, safety;
		bool tracked;
	} skus[SKUS];
	struct model_hold holds[OBJECTS_MAX];
	struct model_sale sales[OBJECTS_MAX];
	int hold_count, sale_count;
};

struct step_line {
	int sku;
	int64_t quantity;
	bool set, change_from_given;
	int64_t change_from;
};

struct step {
	const char *name;
	enum operation_kind kind;
	const struct principal *principal;
	struct step_line lines[2];
	int line_count;
	uint64_t target, other, new_id;
	int64_t ttl_s;
	struct sku_change change;
};

struct model_verdict {
	enum lu_error error;
	struct {
		int sku;
		int64_t requested, available, held, next_release_us;
	} shortages[2];
	int shortage_count;
};

static int64_t held_of(const struct model_line *lines, int count, int sku)
{
	int64_t sum = 0;
	for (int i = 0; i < count; i++)
		if (lines[i].sku == sku && lines[i].counted)
			sum += lines[i].quantity;
	return sum;
}

static int64_t reserved(const struct model *m, int sku)
{
	int64_t sum = 0;
	for (int i = 0; i < m->hold_count; i++)
		if (m->holds[i].state == RESERVATION_ACTIVE)
			sum += held_of(m->holds[i].lines, m->holds[i].line_count, sku);
	return sum;
}

static bool due(const struct model *m, const struct model_hold *h)
{
	return h->state == RESERVATION_ACTIVE && h->expires_us <= m->now_us;
}

static int64_t free_of(const struct model *m, int sku, int64_t floor, int64_t own)
{
	return m->skus[sku].on_hand - reserved(m, sku) - floor + own;
}

/* What this principal leaves alone. */
static int64_t floor_of(const struct model *m, const struct principal *p, int sku)
{
	return p->settings.may_use_safety_stock ? p->settings.buffer : m->skus[sku].safety + p->settings.buffer;
}

static void expire_for(struct model *m, int sku, int64_t units, int64_t floor, int64_t own)
{
	while (free_of(m, sku, floor, own) < units) {
		struct model_hold *first = NULL;
		for (int i = 0; i < m->hold_count; i++) {
			struct model_hold *h = &m->holds[i];
			if (due(m, h) && held_of(h->lines, h->line_count, sku) && (!first || h->expires_us < first->expires_us))
				first = h;
		}
		if (!first)
			return;
		first->state = RESERVATION_EXPIRED;
	}
}

static struct model_hold *model_hold(struct model *m, uint64_t id, const struct principal *p)
{
	for (int i = 0; i < m->hold_count; i++)
		if (m->holds[i].id == id && (!p || m->holds[i].principal == p->id || (p->scopes & SCOPE_ORDERS)))
			return &m->holds[i];
	return NULL;
}

static void name_short(struct model *m, struct model_verdict *v, int sku, int64_t requested, int64_t available,
                       int64_t held)
{
	int64_t next_us = 0;
	for (int i = 0; i < m->hold_count; i++) {
		const struct model_hold *h = &m->holds[i];
		if (h->state == RESERVATION_ACTIVE && h->expires_us > m->now_us && held_of(h->lines, h->line_count, sku) &&
		    (!next_us || h->expires_us < next_us))
			next_us = h->expires_us;
	}
	v->shortages[v->shortage_count].sku = sku;
	v->shortages[v->shortage_count].requested = requested;
	v->shortages[v->shortage_count].available = available > 0 ? available : 0;
	v->shortages[v->shortage_count].held = held;
	v->shortages[v->shortage_count++].next_release_us = held > 0 ? next_us : 0;
}

static void model_cart(struct model *m, const struct step *s, struct model_verdict *v)
{
	struct model_hold *old = NULL;
	if (s->other) {
		old = model_hold(m, s->other, s->principal);
		if (!old)
			v->error = LU_UNKNOWN_RESERVATION;
		else if (old->state == RESERVATION_COMMITTED || old->state == RESERVATION_RELEASED)
			v->error = LU_RESERVATION_NOT_ACTIVE;
		else if (old->state == RESERVATION_EXPIRED || due(m, old))
			v->error = LU_RESERVATION_EXPIRED;
		if (old && due(m, old))
			old->state = RESERVATION_EXPIRED;
		if (v->error)
			return;
	}
	int64_t own[2] = {0};
	for (int i = 0; i < s->line_count; i++) {
		int sku = s->lines[i].sku;
		own[i] = old ? held_of(old->lines, old->line_count, sku) : 0;
		/* What the old hold has is granted already. */
		if (m->skus[sku].tracked && s->lines[i].quantity > own[i])
			expire_for(m, sku, s->lines[i].quantity, floor_of(m, s->principal, sku), own[i]);
	}
	for (int i = 0; i < s->line_count; i++) {
		int sku = s->lines[i].sku;
		int64_t available = free_of(m, sku, floor_of(m, s->principal, sku), own[i]);
		if (available < own[i])
			available = own[i];
		if (m->skus[sku].tracked && available < s->lines[i].quantity)
			name_short(m, v, sku, s->lines[i].quantity, available, reserved(m, sku) - own[i]);
	}
	if (v->shortage_count) {
		v->error = LU_INSUFFICIENT_STOCK;
		return;
	}
	if (old)
		old->state = RESERVATION_RELEASED;
	struct model_line lines[2];
	for (int i = 0; i < s->line_count; i++) {
		lines[i] = (struct model_line){s->lines[i].sku, s->lines[i].quantity, 0, m->skus[s->lines[i].sku].tracked};
		if (s->kind == OPERATION_CHECKOUT && lines[i].counted)
			m->skus[lines[i].sku].on_hand -= lines[i].quantity;
	}
	assert_in_range(m->hold_count, 0, OBJECTS_MAX - 1);
	assert_in_range(m->sale_count, 0, OBJECTS_MAX - 1);
	if (s->kind == OPERATION_CHECKOUT) {
		struct model_sale *sale = &m->sales[m->sale_count++];
		*sale = (struct model_sale){.id = s->new_id, .principal = s->principal->id, .line_count = s->line_count};
		memcpy(sale->lines, lines, sizeof lines);
	} else {
		struct model_hold *h = &m->holds[m->hold_count++];
		*h = (struct model_hold){.id = s->new_id,
		                         .principal = s->principal->id,
		                         .created_us = m->now_us,
		                         .expires_us = m->now_us + s->ttl_s * WORLD_SECOND,
		                         .state = RESERVATION_ACTIVE,
		                         .line_count = s->line_count};
		memcpy(h->lines, lines, sizeof lines);
	}
}

static void model_hold_step(struct model *m, const struct step *s, struct model_verdict *v)
{
	struct model_hold *h = model_hold(m, s->target, s->kind == OPERATION_EXPIRE ? NULL : s->principal);
	if (!h) {
		v->error = LU_UNKNOWN_RESERVATION;
		return;
	}
	if (due(m, h))
		h->state = RESERVATION_EXPIRED;
	bool alive = h->state == RESERVATION_ACTIVE;
	if (s->kind == OPERATION_EXPIRE)
		return;
	if (s->kind == OPERATION_RELEASE) {
		v->error = h->state == RESERVATION_COMMITTED ? LU_RESERVATION_NOT_ACTIVE : LU_OK;
		h->state = alive ? RESERVATION_RELEASED : h->state;
		return;
	}
	if (s->kind == OPERATION_COMMIT && h->state == RESERVATION_COMMITTED)
		return;
	if (!alive) {
		v->error = h->state == RESERVATION_EXPIRED ? LU_RESERVATION_EXPIRED : LU_RESERVATION_NOT_ACTIVE;
		return;
	}
	if (s->kind == OPERATION_EXTEND) {
		int64_t until_us = m->now_us + s->ttl_s * WORLD_SECOND;
		if (until_us > h->created_us + 7 * 86400 * WORLD_SECOND)
			v->error = LU_INVALID_TTL;
		else if (until_us > h->expires_us)
			h->expires_us = until_us;
		return;
	}
	h->state = RESERVATION_COMMITTED;
	struct model_sale *sale = &m->sales[m->sale_count++];
	*sale = (struct model_sale){.id = s->new_id, .principal = s->principal->id, .line_count = h->line_count};
	memcpy(sale->lines, h->lines, sizeof h->lines);
	for (int i = 0; i < h->line_count; i++)
		m->skus[h->lines[i].sku].on_hand -= h->lines[i].counted ? h->lines[i].quantity : 0;
}

static void model_cancel(struct model *m, const struct step *s, struct model_verdict *v)
{
	struct model_sale *sale = NULL;
	for (int i = 0; i < m->sale_count; i++)
		if (m->sales[i].id == s->target &&
		    (m->sales[i].principal == s->principal->id || (s->principal->scopes & SCOPE_ORDERS)))
			sale = &m->sales[i];
	if (!sale) {
		v->error = LU_UNKNOWN_CHECKOUT;
		return;
	}
	int64_t back[SKUS] = {0};
	for (int i = 0; i < sale->line_count; i++)
		back[sale->lines[i].sku] = s->line_count ? 0 : sale->lines[i].quantity - sale->lines[i].cancelled;
	for (int i = 0; i < s->line_count; i++) {
		int64_t left = 0;
		for (int j = 0; j < sale->line_count; j++)
			if (sale->lines[j].sku == s->lines[i].sku)
				left = sale->lines[j].quantity - sale->lines[j].cancelled;
		back[s->lines[i].sku] = s->lines[i].quantity;
		if (s->lines[i].quantity > left) {
			name_short(m, v, s->lines[i].sku, s->lines[i].quantity, left, 0);
			v->error = LU_EXCEEDS_SOLD;
		}
	}
	for (int i = 0; !v->error && i < sale->line_count; i++) {
		sale->lines[i].cancelled += back[sale->lines[i].sku];
		m->skus[sale->lines[i].sku].on_hand += sale->lines[i].counted ? back[sale->lines[i].sku] : 0;
	}
}

static void model_adjust(struct model *m, const struct step *s, struct model_verdict *v)
{
	int64_t delta[2];
	for (int i = 0; i < s->line_count; i++) {
		int sku = s->lines[i].sku;
		delta[i] = s->lines[i].set ? s->lines[i].quantity - m->skus[sku].on_hand : s->lines[i].quantity;
		if (s->lines[i].change_from_given && s->lines[i].change_from != m->skus[sku].on_hand)
			v->error = LU_CHANGE_FROM_MISMATCH;
		else if (delta[i] < 0)
			expire_for(m, sku, -delta[i], 0, 0);
	}
	for (int i = 0; i < s->line_count; i++) {
		int sku = s->lines[i].sku;
		bool mismatch = s->lines[i].change_from_given && s->lines[i].change_from != m->skus[sku].on_hand;
		if (v->error == LU_CHANGE_FROM_MISMATCH) {
			if (mismatch) {
				name_short(m, v, sku, s->lines[i].change_from, m->skus[sku].on_hand, reserved(m, sku));
				v->shortages[v->shortage_count - 1].next_release_us = 0; /* waiting would not help */
			}
		} else if (delta[i] < 0 && free_of(m, sku, 0, 0) < -delta[i]) {
			name_short(m, v, sku, -delta[i], free_of(m, sku, 0, 0), reserved(m, sku));
		}
	}
	if (v->shortage_count && !v->error)
		v->error = LU_INSUFFICIENT_STOCK;
	for (int i = 0; !v->error && i < s->line_count; i++)
		m->skus[s->lines[i].sku].on_hand += delta[i];
}

static struct model_verdict model_step(struct model *m, const struct step *s)
{
	struct model_verdict v = {0};
	switch (s->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
		model_cart(m, s, &v);
		break;
	case OPERATION_CANCEL:
		model_cancel(m, s, &v);
		break;
	case OPERATION_ADJUST:
		model_adjust(m, s, &v);
		break;
	case OPERATION_SKU_PUT:
		if (s->change.tracked_given)
			m->skus[s->lines[0].sku].tracked = s->change.tracked;
		if (s->change.safety_stock_given)
			m->skus[s->lines[0].sku].safety = s->change.safety_stock;
		break;
	default:
		model_hold_step(m, s, &v);
		break;
	}
	return v;
}

/* --- both side by side -------------------------------------------------------------------------------------------- */

static struct operation *operation_of(struct world *w, struct step *s)
{
	struct operation *op = world_operation(w, s->kind, *s->principal, NULL);
	for (int i = 0; i < s->line_count; i++) {
		static const char codes[] = "ABC";
		op->lines[op->line_count++] = (struct line){.sku = {&codes[s->lines[i].sku], 1},
		                                            .quantity = s->lines[i].quantity,
		                                            .set = s->lines[i].set,
		                                            .change_from_given = s->lines[i].change_from_given,
		                                            .change_from = s->lines[i].change_from};
	}
	op->target = world_id(s->target);
	op->other = world_id(s->other);
	op->ttl_s = s->ttl_s;
	op->sku_change = &s->change;
	assert_int_equal(world_prepare(w, op), LU_OK);
	s->new_id = w->last_id;
	/* A key of ours would fill the world's table of answers; nothing is repeated here. */
	op->key = (struct text){0};
	return op;
}

#define same(what, a, b) \
	((a) == (b) ? true   \
	            : (print_message("%s: model %lld, decide() %lld\n", (what), (long long)(a), (long long)(b)), false))

static bool same_verdict(const struct model_verdict *m, const struct verdict *v, bool alone)
{
	bool ok = same("error", m->error, v->error) && same("shortages", m->shortage_count, (int)v->shortage_count);
	for (int i = 0; ok && i < m->shortage_count; i++) {
		const struct shortage *s = &v->shortages[i];
		ok = same("short sku", m->shortages[i].sku, s->sku.data[0] - 'A') &&
		     same("requested", m->shortages[i].requested, s->requested) &&
		     same("available", m->shortages[i].available, s->available) &&
		     same("held", m->shortages[i].held, s->held) &&
		     (!alone || same("next release", m->shortages[i].next_release_us, s->next_release_us));
	}
	return ok;
}

static bool same_state(const struct model *m, struct world *w)
{
	bool ok = same("holds", m->hold_count, (int)w->hold_count) && same("sales", m->sale_count, (int)w->sale_count);
	for (int i = 0; ok && i < SKUS; i++) {
		const struct figures *f = &w->skus[i].row.figures;
		ok = same("on_hand", m->skus[i].on_hand, f->on_hand) && same("reserved", reserved(m, i), f->reserved) &&
		     same("tracked", m->skus[i].tracked, f->tracked) && same("safety", m->skus[i].safety, f->safety_stock);
	}
	for (int i = 0; ok && i < m->hold_count; i++)
		ok = same("state", m->holds[i].state, w->holds[i].row.state) &&
		     same("expires", m->holds[i].expires_us, w->holds[i].row.expires_us);
	for (int i = 0; ok && i < m->sale_count; i++)
		for (int j = 0; ok && j < m->sales[i].line_count; j++)
			ok = same("cancelled", m->sales[i].lines[j].cancelled, w->sales[i].lines[j].cancelled);
	return ok;
}

static bool run_both(struct model *m, struct world *w, struct step *steps, int count)
{
	struct operation *ops[DEPTH_MAX];
	for (int i = 0; i < count; i++)
		ops[i] = operation_of(w, &steps[i]);
	world_batch(w, ops, (size_t)count);
	bool ok = true;
	for (int i = 0; i < count; i++) {
		struct model_verdict v = model_step(m, &steps[i]);
		ok = same_verdict(&v, &ops[i]->verdict, count == 1) && ok;
	}
	return same_state(m, w) && ok;
}

static void start(struct model *m, struct world *w, int64_t a, int64_t b, int64_t c)
{
	const int64_t counts[SKUS] = {a, b, c};
	memset(m, 0, sizeof *m);
	m->now_us = w->now_us;
	for (int i = 0; i < SKUS; i++) {
		m->skus[i].on_hand = counts[i];
		m->skus[i].tracked = true;
		world_sku(w, (char)('A' + i), counts[i]);
	}
}

/* --- every short sequence ----------------------------------------------------------------------------------------- */

static uint64_t last_hold(const struct model *m)
{
	return m->hold_count ? m->holds[m->hold_count - 1].id : 999;
}

static uint64_t first_hold(const struct model *m)
{
	return m->hold_count ? m->holds[0].id : 999;
}

static uint64_t last_sale(const struct model *m)
{
	return m->sale_count ? m->sales[m->sale_count - 1].id : 999;
}

#define LETTERS 27
#define TICK (LETTERS - 1)
#define A(units, ...)                                \
	{                                                \
		.sku = 0, .quantity = (units), ##__VA_ARGS__ \
	}
#define B(units, ...)                                \
	{                                                \
		.sku = 1, .quantity = (units), ##__VA_ARGS__ \
	}
#define WHOLE(text, kind_, who, id) .name = (text), .kind = OPERATION_##kind_, .principal = &world_##who, .target = (id)
#define LINES(text, kind_, who, ...)                                                              \
	.name = (text), .kind = OPERATION_##kind_, .principal = &world_##who, .lines = {__VA_ARGS__}, \
	.line_count = sizeof((struct step_line[]){__VA_ARGS__}) / sizeof(struct step_line)

/* The letters of the alphabet; the last one lets the time pass. */
static struct step letter(const struct model *m, int which)
{
	const struct step all[LETTERS] = {
		{LINES("sell A1", CHECKOUT, web, A(1))},
		{LINES("sell A2 B1", CHECKOUT, web, A(2), B(1))},
		{LINES("hold A1", RESERVE, web, A(1)), .ttl_s = TICK_S},
		{LINES("hold A2 for long", RESERVE, web, A(2)), .ttl_s = TICK_S * 3},
		{LINES("hold A1 B1", RESERVE, web, A(1), B(1)), .ttl_s = TICK_S},
		{LINES("hold B1", RESERVE, pos, B(1)), .ttl_s = TICK_S / 2},
		{LINES("hold A2 for the last hold", RESERVE, web, A(2)), .other = last_hold(m), .ttl_s = TICK_S},
		{LINES("hold B1 for the first hold", RESERVE, web, B(1)), .other = first_hold(m), .ttl_s = TICK_S},
		{LINES("sell A1 for the last hold", CHECKOUT, web, A(1)), .other = last_hold(m)},
		{LINES("sell A3 for the last hold, by the site", CHECKOUT, site, A(3)), .other = last_hold(m)},
		{WHOLE("commit the last hold", COMMIT, web, last_hold(m))},
		{WHOLE("commit the first hold, by the site", COMMIT, site, first_hold(m))},
		{WHOLE("release the last hold", RELEASE, web, last_hold(m))},
		{WHOLE("release the first hold, by the site", RELEASE, site, first_hold(m))},
		{WHOLE("extend the last hold", EXTEND, web, last_hold(m)), .ttl_s = TICK_S + 50},
		{WHOLE("expire the first hold", EXPIRE, pos, first_hold(m))},
		{WHOLE("cancel the last sale", CANCEL, web, last_sale(m))},
		{LINES("cancel A1 of the last sale", CANCEL, site, A(1)), .target = last_sale(m)},
		{LINES("cancel A2 B1 of the last sale", CANCEL, site, A(2), B(1)), .target = last_sale(m)},
		{LINES("adjust A+1", ADJUST, admin, A(1))},
		{LINES("adjust A-1 B-1", ADJUST, admin, A(-1), B(-1))},
		{LINES("set A to 1", ADJUST, admin, A(1, .set = true))},
		{LINES("set A from 2 to 0, B-1", ADJUST, admin, A(0, .set = true, .change_from_given = true, .change_from = 2),
	           B(-1))},
		{LINES("A untracked", SKU_PUT, admin, A(0)), .change = {.tracked_given = true, .tracked = false}},
		{LINES("A tracked", SKU_PUT, admin, A(0)), .change = {.tracked_given = true, .tracked = true}},
		{LINES("A keeps 1 back", SKU_PUT, admin, A(0)), .change = {.safety_stock_given = true, .safety_stock = 1}},
		{.name = "time passes"},
	};
	return all[which];
}

static const char *path[DEPTH_MAX];

static void fail_path(int depth)
{
	for (int i = 0; i < depth; i++)
		print_message("  %d. %s\n", i + 1, path[i]);
	fail_msg("decide() and its model part ways");
}

static void pass_time(struct model *m, struct world *w)
{
	m->now_us = w->now_us += TICK_S * WORLD_SECOND;
}

static size_t sequences;

static void explore(const struct model *m, const struct world *w, const int *letters, int letter_count, int depth,
                    int depth_max)
{
	for (int i = 0; depth < depth_max && i < letter_count; i++) {
		struct model *next_m = malloc(sizeof *next_m);
		struct world *next_w = world_copy(w);
		*next_m = *m;
		struct step step = letter(m, letters[i]);
		path[depth] = step.name;
		sequences++;
		if (letters[i] == TICK)
			pass_time(next_m, next_w);
		else if (!run_both(next_m, next_w, &step, 1))
			fail_path(depth + 1);
		explore(next_m, next_w, letters, letter_count, depth + 1, depth_max);
		world_free(next_w);
		free(next_m);
	}
}

static void explore_from(int64_t a, int64_t b, const int *letters, int letter_count, int depth_max)
{
	struct model *m = malloc(sizeof *m);
	struct world *w = world_new();
	start(m, w, a, b, 0);
	w->due_limit = 1;
	sequences = 0;
	explore(m, w, letters, letter_count, 0, depth_max);
	print_message("[          ] %zu sequences\n", sequences);
	world_free(w);
	free(m);
}

/* One thread: minutes, for nothing that ThreadSanitizer could see. */
static void skip_under_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
}

static void every_sequence_of_three_operations_agrees_with_the_model(void **state)
{
	(void)state;
	int letters[LETTERS];
	for (int i = 0; i < LETTERS; i++)
		letters[i] = i;
	explore_from(2, 1, letters, LETTERS, 3);
}

static void every_sequence_of_five_operations_on_holds_agrees_with_the_model(void **state)
{
	skip_under_thread_sanitizer();
	(void)state;
	const int letters[] = {0, 2, 4, 6, 10, 12, 14, TICK};
	explore_from(2, 1, letters, sizeof letters / sizeof letters[0], 5);
}

static void every_sequence_of_four_operations_on_stock_agrees_with_the_model(void **state)
{
	skip_under_thread_sanitizer();
	(void)state;
	const int letters[] = {1, 2, 4, 7, 9, 11, 16, 17, 19, 20, 21, 22, 23, 24, 25, TICK};
	explore_from(3, 2, letters, sizeof letters / sizeof letters[0], 4);
}

/* Holds alive, due and ended, and a sale: a state in which every operation has something to do. */
static void set_the_scene(struct model *m, struct world *w, int64_t a, int64_t b)
{
	static const int before[] = {2, 5, 4, 1, 0}, after[] = {3, 2};
	start(m, w, a, b, 0);
	for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
		struct step step = letter(m, before[i]);
		assert_true(run_both(m, w, &step, 1));
	}
	pass_time(m, w);
	for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
		struct step step = letter(m, after[i]);
		assert_true(run_both(m, w, &step, 1));
	}
}

static void every_batch_of_three_operations_agrees_with_the_model(void **state)
{
	skip_under_thread_sanitizer();
	(void)state;
	struct model *m = malloc(sizeof *m), *scene_m = malloc(sizeof *m);
	struct world *scene_w = world_new();
	set_the_scene(scene_m, scene_w, 7, 3);
	size_t batches = 0;
	for (int i = 0; i < TICK * TICK * TICK; i++, batches++) {
		struct world *w = world_copy(scene_w);
		*m = *scene_m;
		w->due_limit = 1;
		struct step steps[] = {letter(m, i % TICK), letter(m, i / TICK % TICK), letter(m, i / TICK / TICK)};
		for (int j = 0; j < 3; j++)
			path[j] = steps[j].name;
		if (!run_both(m, w, steps, 3))
			fail_path(3);
		world_free(w);
	}
	print_message("[          ] %zu batches\n", batches);
	world_free(scene_w);
	free(m);
	free(scene_m);
}

/* --- long random sequences ---------------------------------------------------------------------------------------- */

static uint64_t random_state;

/* xorshift64*: the test's own, so that a seed means the same everywhere. */
static int64_t roll(int64_t bound)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (int64_t)((random_state * UINT64_C(2685821657736338717) >> 33) % (uint64_t)bound);
}

static struct step random_step(const struct model *m)
{
	static const struct principal *const principals[] = {&world_web, &world_pos, &world_site, &world_till,
	                                                     &world_bazaar};
	static const enum operation_kind kinds[] = {OPERATION_CHECKOUT, OPERATION_CHECKOUT, OPERATION_RESERVE,
	                                            OPERATION_RESERVE,  OPERATION_RESERVE,  OPERATION_COMMIT,
	                                            OPERATION_RELEASE,  OPERATION_EXTEND,   OPERATION_EXPIRE,
	                                            OPERATION_CANCEL,   OPERATION_ADJUST,   OPERATION_ADJUST,
	                                            OPERATION_SKU_PUT};
	struct step s = {.name = "random",
	                 .kind = kinds[roll(13)],
	                 .principal = principals[roll(5)],
	                 .ttl_s = 1 + roll(400)};
	bool lines = s.kind == OPERATION_CHECKOUT || s.kind == OPERATION_RESERVE || s.kind == OPERATION_ADJUST ||
	             (s.kind == OPERATION_CANCEL && roll(2)) || s.kind == OPERATION_SKU_PUT;
	int first = (int)roll(SKUS);
	s.line_count = !lines ? 0 : s.kind != OPERATION_SKU_PUT && first < SKUS - 1 && roll(2) ? 2 : 1;
	for (int i = 0; i < s.line_count; i++) {
		s.lines[i].sku = i ? first + 1 + (int)roll(SKUS - 1 - first) : first;
		s.lines[i].quantity = 1 + roll(4);
		if (s.kind == OPERATION_SKU_PUT)
			s.lines[i].quantity = 0;
		if (s.kind != OPERATION_ADJUST)
			continue;
		s.lines[i].set = roll(3) == 0;
		s.lines[i].quantity = s.lines[i].set ? roll(12) : roll(9) - 4;
		s.lines[i].change_from_given = s.lines[i].set && roll(2);
		s.lines[i].change_from = m->skus[s.lines[i].sku].on_hand + (roll(4) == 0);
	}
	s.change.tracked_given = roll(2);
	s.change.tracked = roll(4) > 0;
	s.change.safety_stock_given = !s.change.tracked_given;
	s.change.safety_stock = roll(3);
	/* Mostly young objects, for old ones have ended. */
	int64_t back = 1 + roll(6);
	if (s.kind == OPERATION_CANCEL)
		s.target = m->sale_count >= back ? m->sales[m->sale_count - back].id : 999999;
	else if (!lines)
		s.target = m->hold_count >= back ? m->holds[m->hold_count - back].id : 999999;
	else if ((s.kind == OPERATION_CHECKOUT || s.kind == OPERATION_RESERVE) && roll(3) == 0)
		s.other = m->hold_count >= back ? m->holds[m->hold_count - back].id : 999999;
	return s;
}

static void random_batches_agree_with_the_model(void **state)
{
	skip_under_thread_sanitizer();
	(void)state;
	const char *given = getenv("LASTUNIT_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 20261129;
	struct model *m = malloc(sizeof *m);
	size_t lookups = 0, relocks = 0, operations = 0;
	for (int episode = 0; episode < 600; episode++) {
		random_state = (seed + (uint64_t)episode) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		struct world *w = world_new();
		start(m, w, roll(8), roll(8), roll(8));
		for (int batch = 0; batch < 60; batch++) {
			int count = roll(2) ? 1 : 1 + (int)roll(DEPTH_MAX); /* alone, it has to ask for the locks of others */
			struct step steps[DEPTH_MAX];
			for (int i = 0; i < count; i++)
				steps[i] = random_step(m);
			w->due_limit = 1 + (size_t)roll(3);
			m->now_us = w->now_us += roll(120) * WORLD_SECOND;
			operations += (size_t)count;
			if (!run_both(m, w, steps, count))
				fail_msg("episode %d, batch %d of LASTUNIT_TEST_SEED=%llu", episode, batch, (unsigned long long)seed);
		}
		lookups += w->lookups;
		relocks += w->relocks;
		world_free(w);
	}
	print_message("[          ] %zu operations, %zu look-ups of due holds, %zu of more locks\n", operations, lookups,
	              relocks);
	/* The paths that matter were walked. */
	assert_true(lookups > 1000 && relocks > 100);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sequence_of_three_operations_agrees_with_the_model),
		cmocka_unit_test(every_sequence_of_five_operations_on_holds_agrees_with_the_model),
		cmocka_unit_test(every_sequence_of_four_operations_on_stock_agrees_with_the_model),
		cmocka_unit_test(every_batch_of_three_operations_agrees_with_the_model),
		cmocka_unit_test(random_batches_agree_with_the_model),
	};
	return cmocka_run_group_tests_name("decide_model", tests, NULL, NULL);
}
