/* The verdict on a run: sums of what does not add up, item by item, so that no surplus hides another's want. */
#include "cmd/race_judge.h"

static int64_t above_zero(int64_t n)
{
	return n > 0 ? n : 0;
}

struct race_verdict race_judge(const struct race_item *items, size_t count)
{
	struct race_verdict verdict = {0};
	for (const struct race_item *i = items; i < items + count; i++) {
		int64_t sold = i->answered > i->rows ? i->answered : i->rows;
		verdict.oversold += above_zero(sold - i->units);
		verdict.lost += above_zero(i->rows - (i->units - i->left)) + above_zero(i->answered - i->rows);
	}
	return verdict;
}
