/* An order file with the traps of a real one (orders_generator.h). */
#include "lib/orders_generator.h"

#include <stdio.h>

#define BIG_CART 600

struct generator {
	const struct orders_generator *options;
	struct buffer *out;
	uint64_t state;
};

/* splitmix64: the same numbers on every machine. */
static uint64_t next(struct generator *g)
{
	uint64_t x = g->state += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static size_t below(struct generator *g, size_t bound)
{
	return (size_t)(next(g) % bound);
}

/* The smaller of two throws, twice: the first SKUs are asked for far more often. */
static size_t popular(struct generator *g)
{
	size_t best = below(g, g->options->skus);
	for (int i = 0; i < 3; i++) {
		size_t other = below(g, g->options->skus);
		best = other < best ? other : best;
	}
	return best;
}

static void code_of(size_t sku, char out[32])
{
	static const char *const odd[] = {"POST", "M", "m", "BANK CHARGES", "D", "gift_0001_40", "DOT", "AMAZONFEE"};
	size_t odd_count = sizeof odd / sizeof odd[0];
	/* Every fifth SKU has letters, and the one behind it is its twin in the other case. */
	if (sku < odd_count)
		snprintf(out, 32, "%s", odd[sku]);
	else if (sku % 5 == 0)
		snprintf(out, 32, "%zuB", 84000 + sku);
	else if (sku % 5 == 1)
		snprintf(out, 32, "%zub", 84000 + sku - 1);
	else
		snprintf(out, 32, "%zu", 20000 + sku);
}

static const char *description_of(size_t sku)
{
	static const char *const texts[] = {"WHITE HANGING HEART T-LIGHT HOLDER",
	                                    "\"AIRLINE LOUNGE,METAL SIGN\"",
	                                    "\"RECORD FRAME 7\"\" SINGLE SIZE \"",
	                                    "Gift Voucher \24340.00",
	                                    "",
	                                    "SET 7 BABUSHKA NESTING BOXES"};
	return texts[sku % (sizeof texts / sizeof texts[0])];
}

static void line(struct generator *g, const char *prefix, size_t invoice, size_t sku, long quantity)
{
	char code[32];
	code_of(sku, code);
	buffer_add_format(g->out, "%s%zu,%s,%s,%ld,2.55,17850,United Kingdom\r\n", prefix, 536365 + invoice, code,
	                  description_of(sku), quantity);
}

static void sale(struct generator *g, size_t invoice)
{
	size_t lines = invoice % 50 == 7 ? BIG_CART : 1 + below(g, invoice % 10 == 0 ? 60 : 12);
	for (size_t i = 0; i < lines; i++) {
		/* The big cart walks through the SKUs, so that it is big after merging, too. */
		size_t sku = lines == BIG_CART ? i % g->options->skus : popular(g);
		line(g, "", invoice, sku, (long)(1 + below(g, 12)));
		if (invoice % 8 == 3 && i % 4 == 0)
			line(g, "", invoice, sku, 1);
	}
}

void orders_generate(const struct orders_generator *options, struct buffer *out)
{
	struct generator g = {options, out, options->seed};
	buffer_add_string(out, "InvoiceNo,StockCode,Description,Quantity,UnitPrice,CustomerID,Country\r\n");
	for (size_t invoice = 0; invoice < options->invoices; invoice++) {
		if (invoice % 6 == 5) {
			for (size_t i = 0, lines = 1 + below(&g, 4); i < lines; i++)
				line(&g, "C", invoice, popular(&g), -(long)(1 + below(&g, 6)));
		} else if (invoice % 25 == 11) {
			line(&g, "", invoice, popular(&g), -(long)(1 + below(&g, 20)));
		} else {
			sale(&g, invoice);
		}
	}
}
