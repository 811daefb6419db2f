/* What became of a run, by three witnesses: the buyers' answers, the rows of sales, the stock row. Pure.
 *
 * An item is one SKU, or one customer who may have one unit.
 */
#ifndef CMD_RACE_JUDGE_H
#define CMD_RACE_JUDGE_H

#include <stddef.h>
#include <stdint.h>

struct race_item {
	int64_t units;    /* there were */
	int64_t answered; /* units that buyers were told are theirs */
	int64_t rows;     /* units by the rows of sales */
	int64_t left;     /* by the stock row; below 0 if it was allowed to */
};

struct race_verdict {
	int64_t oversold; /* units sold beyond what there was, by answers or rows, whichever is more */
	int64_t lost;     /* units sold by the rows that the stock row does not miss, and answers without a row */
};

struct race_verdict race_judge(const struct race_item *items, size_t count);

#endif
