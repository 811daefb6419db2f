/* Drawing a plan (plan.h). xorshift128+ seeded by splitmix64: small, ours, the same everywhere and for ever.
 *
 * A seed enables some kinds of faults and leaves the others out: if everything broke all the time, the cache would hardly
 * ever be open, and what breaks it would never meet it. A few seeds have no faults at all: only there the bound on
 * strangers' writes is judged from the first to the last moment.
 */
#include "sim/plan.h"

#include <inttypes.h>
#include <stdlib.h>

#define CALM_BEFORE_MS 400 /* the epoch is open and cells are filled before anything breaks */
#define CALM_AFTER_MS 300

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

struct dice dice_of(uint64_t seed, uint64_t stream)
{
	uint64_t state = seed * UINT64_C(0xD1342543DE82EF95) + stream * UINT64_C(0x2545F4914F6CDD1D) + 1;
	struct dice dice = {{splitmix(&state), splitmix(&state)}};
	return dice;
}

static uint64_t dice_next(struct dice *dice)
{
	uint64_t a = dice->state[0], b = dice->state[1];
	dice->state[0] = b;
	a ^= a << 23;
	dice->state[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
	return dice->state[1] + b;
}

uint64_t dice_roll(struct dice *dice, uint64_t sides)
{
	return (dice_next(dice) >> 11) % sides;
}

int64_t dice_between(struct dice *dice, int64_t low, int64_t high)
{
	return low + (int64_t)dice_roll(dice, (uint64_t)(high - low) + 1);
}

bool dice_chance(struct dice *dice, unsigned percent)
{
	return dice_roll(dice, 100) < percent;
}

static const struct {
	const char *name, *what;
	int64_t least_ms, most_ms;
} kinds[FAULT_KINDS] = {
#define X(name, what, least_ms, most_ms) {#name, what, least_ms, most_ms},
	PLAN_FAULT_TABLE
#undef X
};

const char *fault_name(enum fault_kind kind)
{
	return kinds[kind].name;
}

const char *fault_what(enum fault_kind kind)
{
	return kinds[kind].what;
}

static void draw_faults(struct plan *plan, struct dice *dice)
{
	enum fault_kind enabled[FAULT_KINDS];
	unsigned count = 0;
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		/* Those that widen the gaps between two messages, or hit in one, find most. */
		if (dice_chance(dice, kind <= FAULT_DELAY ? 50 : 25))
			enabled[count++] = (enum fault_kind)kind;
	if (!count || dice_chance(dice, 5))
		return;
	int64_t gap_ms = dice_between(dice, 150, 900);
	int64_t last_ms = plan->run_ms - CALM_AFTER_MS;
	for (int64_t at_ms = CALM_BEFORE_MS; plan->fault_count < PLAN_FAULTS_MAX; plan->fault_count++) {
		at_ms += dice_between(dice, 20, 2 * gap_ms);
		if (at_ms >= last_ms)
			break;
		enum fault_kind kind = enabled[dice_roll(dice, count)];
		/* Most are short, some as long as they may be. */
		int64_t most_ms = kinds[kind].most_ms, least_ms = kinds[kind].least_ms;
		if (dice_chance(dice, 50))
			most_ms = least_ms + (most_ms - least_ms) / 4;
		plan->faults[plan->fault_count] = (struct fault){
			.kind = kind,
			.instance = (int)dice_roll(dice, PLAN_INSTANCES),
			.at_ms = at_ms,
			.for_ms = dice_between(dice, least_ms, most_ms),
			.choice = (unsigned)dice_roll(dice, 1u << 30),
		};
	}
}

struct plan plan_draw(uint64_t seed, int64_t run_ms)
{
	static const int ttls_s[] = {1, 2, 300};
	struct dice dice = dice_of(seed, 0);
	struct plan plan = {.seed = seed, .run_ms = run_ms};
	plan.clients = (int)dice_between(&dice, 5, PLAN_CLIENTS_MAX);
	plan.strangers = dice_chance(&dice, 75);
	for (int i = 0; i < PLAN_SKUS; i++) {
		/* Few of some: the last unit is what it is all about. */
		plan.skus[i].on_hand = dice_chance(&dice, 40) ? dice_between(&dice, 0, 6) : dice_between(&dice, 5, 80);
		plan.skus[i].safety_stock = dice_chance(&dice, 25) ? dice_between(&dice, 1, 3) : 0;
	}
	plan.lease_ms = (int)dice_between(&dice, 200, 400);
	plan.reopen_after_ms = (int)dice_between(&dice, 100, 250);
	plan.redis_timeout_ms = (int)dice_between(&dice, 80, 200);
	plan.lock_timeout_ms = (int)dice_between(&dice, 40, 120);
	plan.cell_ttl_s = ttls_s[dice_roll(&dice, 3)];
	plan.writers = (int)dice_between(&dice, 2, 3);
	plan.loaders = (int)dice_between(&dice, 1, 3);
	plan.loops = (int)dice_between(&dice, 1, 2);
	draw_faults(&plan, &dice);
	return plan;
}

bool plan_has(const struct plan *plan, enum fault_kind kind)
{
	for (int i = 0; i < plan->fault_count; i++)
		if (plan->faults[i].kind == kind)
			return true;
	return false;
}

void plan_print(const struct plan *plan, FILE *out)
{
	fprintf(out, "seed %" PRIu64 ": %d clients for %" PRId64 " ms, strangers %s\n", plan->seed, plan->clients,
	        plan->run_ms, plan->strangers ? "write" : "do not write");
	fprintf(out,
	        "lease %d ms, reopen after %d ms, redis timeout %d ms, lock timeout %d ms, cells live %d s, %d writers,"
	        " %d loaders, %d loops\n",
	        plan->lease_ms, plan->reopen_after_ms, plan->redis_timeout_ms, plan->lock_timeout_ms, plan->cell_ttl_s,
	        plan->writers, plan->loaders, plan->loops);
	for (int i = 0; i < plan->fault_count; i++) {
		const struct fault *f = &plan->faults[i];
		fprintf(out, "%7.3f s for %5" PRId64 " ms  %-13s %s (instance %d, %u)\n", (double)f->at_ms / 1000, f->for_ms,
		        fault_name(f->kind), fault_what(f->kind), f->instance, f->choice % 100);
	}
}
