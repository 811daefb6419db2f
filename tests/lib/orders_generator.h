/* An order file like a gift shop's, with the traps of a real one, from a seed: the same seed, the same bytes.
 *
 * Columns InvoiceNo,StockCode,Description,Quantity,UnitPrice,CustomerID,Country; ISO-8859-1 with pound signs, CRLF. In it,
 * whatever the seed, if there are at least 50 invoices and 40 SKUs: codes that differ only in case, odd codes (POST, M,
 * "BANK CHARGES", gift vouchers), a cart of 600 lines (as far as there are SKUs), lines of the same SKU in one invoice,
 * quoted descriptions with commas and doubled quotes, empty descriptions, cancellations (C…, negative), also of what
 * was never sold, and write-offs (negative, no C). Popular SKUs are much more popular than others.
 */
#ifndef TESTS_LIB_ORDERS_GENERATOR_H
#define TESTS_LIB_ORDERS_GENERATOR_H

#include "base/buffer.h"

struct orders_generator {
	uint64_t seed;
	size_t invoices;
	size_t skus;
};

void orders_generate(const struct orders_generator *options, struct buffer *out);

#endif
