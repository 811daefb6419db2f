/* A file of order lines as carts. Bugs it guards against: case twins that become one SKU, twin lines of a cart that are
 * each checked alone (B06), a cart too long for the service, cancellations and write-offs taken for sales. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/buffer.h"
#include "base/text.h"
#include "cmd/orders.h"

#define HEADER "InvoiceNo,StockCode,Description,Quantity\n"

static struct arena arena;
static struct order_book book;

static void read_lines(const char *lines)
{
	char why[CSV_WHY_BYTES];
	arena_init(&arena, 1024);
	assert_true(orders_read(&book, &arena, text_of(lines), &(struct csv_format){0}, 0, why));
}

static void assert_line(const struct order *order, size_t at, const char *sku, int64_t quantity)
{
	assert_true(at < order->line_count);
	assert_true(text_equal(book.skus[order->lines[at].sku].code, text_of(sku)));
	assert_int_equal(order->lines[at].quantity, quantity);
}

static void an_invoice_becomes_a_cart_in_the_order_of_the_file(void **state)
{
	read_lines(HEADER "1,B,x,2\n1,A,x,3\n2,A,x,1\n");
	assert_int_equal(book.order_count, 2);
	assert_int_equal(book.line_count, 3);
	assert_int_equal(book.orders[0].kind, ORDER_SALE);
	assert_true(text_equal(book.orders[0].number, TEXT("1")));
	assert_int_equal(book.orders[0].line_count, 2);
	assert_line(&book.orders[0], 0, "B", 2);
	assert_line(&book.orders[0], 1, "A", 3);
	assert_line(&book.orders[1], 0, "A", 1);
	assert_int_equal(book.skus[1].wanted, 4);
	arena_done(&arena);
}

static void twin_lines_are_merged_also_when_the_invoice_comes_back_later(void **state)
{
	read_lines(HEADER "1,A,x,2\n1,B,x,1\n1,A,x,3\n2,A,x,9\n1,A,x,1\n");
	assert_int_equal(book.order_count, 2);
	assert_int_equal(book.orders[0].line_count, 2);
	assert_line(&book.orders[0], 0, "A", 6);
	assert_line(&book.orders[1], 0, "A", 9);
	assert_int_equal(book.merged_count, 2);
	arena_done(&arena);
}

static void twins_that_differ_only_in_case_stay_two(void **state)
{
	read_lines(HEADER "1,85123A,x,2\n1,85123a,x,3\n");
	assert_int_equal(book.sku_count, 2);
	assert_line(&book.orders[0], 0, "85123A", 2);
	assert_line(&book.orders[0], 1, "85123a", 3);
	arena_done(&arena);
}

static void cancellations_and_write_offs_are_told_from_sales(void **state)
{
	read_lines(HEADER "1,A,x,5\nC2,A,x,-3\n3,A,x,-2\n1,B,x,-1\nC4,A,x,7\n");
	assert_int_equal(book.order_count, 4);
	assert_int_equal(book.orders[1].kind, ORDER_CANCELLATION);
	assert_line(&book.orders[1], 0, "A", 3);
	assert_int_equal(book.orders[2].kind, ORDER_WRITE_OFF);
	assert_line(&book.orders[2], 0, "A", 2);
	/* a negative line in the middle of a sale is an order of its own */
	assert_int_equal(book.orders[3].kind, ORDER_WRITE_OFF);
	assert_line(&book.orders[3], 0, "B", 1);
	/* each counts among its own kind */
	assert_int_equal(book.orders[2].turn, 0);
	assert_int_equal(book.orders[3].turn, 1);
	assert_int_equal(book.skus[0].wanted, 5);
	assert_int_equal(book.skip_count, 1);
	assert_true(text_equal(book.skips[0].what, TEXT("C4")));
	arena_done(&arena);
}

static void a_cart_of_more_than_a_thousand_lines_is_cut(void **state)
{
	struct buffer file = {0};
	buffer_add_string(&file, HEADER);
	for (int i = 0; i < 2001; i++)
		buffer_add_format(&file, "7,S%d,x,1\n", i);
	buffer_add_char(&file, '\0');
	read_lines(file.data);
	buffer_done(&file);
	assert_int_equal(book.order_count, 3);
	assert_int_equal(book.orders[0].line_count, 1000);
	assert_int_equal(book.orders[1].line_count, 1000);
	assert_int_equal(book.orders[2].line_count, 1);
	assert_true(text_equal(book.orders[0].number, TEXT("7")));
	assert_true(text_equal(book.orders[2].number, TEXT("7#3")));
	assert_line(&book.orders[2], 0, "S2000", 1);
	arena_done(&arena);
}

static void what_cannot_be_played_is_named_once_with_its_count(void **state)
{
	read_lines(HEADER "1,A ,x,1\n1,A ,x,1\n1,B,x,1.5\n1,B,x,0\n1,B,x,1000000001\n1,B\n1,C,x,1\n");
	assert_int_equal(book.skip_count, 5);
	assert_true(text_equal(book.skips[0].what, TEXT("A ")));
	assert_int_equal(book.skips[0].count, 2);
	assert_int_equal(book.skips[0].line, 2);
	assert_int_equal(book.order_count, 1);
	assert_int_equal(book.sku_count, 1);
	assert_line(&book.orders[0], 0, "C", 1);
	arena_done(&arena);
}

static void a_sum_of_twin_lines_stays_a_quantity(void **state)
{
	read_lines(HEADER "1,A,x,1000000000\n1,A,x,1\n");
	assert_line(&book.orders[0], 0, "A", 1000000000);
	assert_int_equal(book.skip_count, 1);
	assert_int_equal(book.skus[0].wanted, 1000000000);
	arena_done(&arena);
}

static void the_share_of_the_stock_is_rounded_up(void **state)
{
	assert_int_equal(order_sku_stock(&(struct order_sku){.wanted = 0}, 60), 0);
	assert_int_equal(order_sku_stock(&(struct order_sku){.wanted = 1}, 60), 1);
	assert_int_equal(order_sku_stock(&(struct order_sku){.wanted = 5}, 60), 3);
	assert_int_equal(order_sku_stock(&(struct order_sku){.wanted = 6}, 60), 4);
}

static void a_file_without_the_columns_is_refused(void **state)
{
	char why[CSV_WHY_BYTES];
	arena_init(&arena, 1024);
	assert_false(orders_read(&book, &arena, TEXT("InvoiceNo,Quantity\n1,1\n"), &(struct csv_format){0}, 0, why));
	assert_string_equal(why, "line 1: the file has no column StockCode: InvoiceNo, StockCode and Quantity are read");
	assert_false(orders_read(&book, &arena, TEXT(""), &(struct csv_format){0}, 0, why));
	assert_string_equal(why, "the file is empty");
	assert_false(orders_read(&book, &arena, TEXT(HEADER "1,A,\"x,1\n"), &(struct csv_format){0}, 0, why));
	arena_done(&arena);
}

static void reading_stops_after_so_many_lines(void **state)
{
	char why[CSV_WHY_BYTES];
	arena_init(&arena, 1024);
	assert_true(
		orders_read(&book, &arena, TEXT(HEADER "1,A,x,1\n1,B,x,1\n1,C,x,1\n"), &(struct csv_format){0}, 2, why));
	assert_int_equal(book.line_count, 2);
	assert_int_equal(book.sku_count, 2);
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_invoice_becomes_a_cart_in_the_order_of_the_file),
		cmocka_unit_test(twin_lines_are_merged_also_when_the_invoice_comes_back_later),
		cmocka_unit_test(twins_that_differ_only_in_case_stay_two),
		cmocka_unit_test(cancellations_and_write_offs_are_told_from_sales),
		cmocka_unit_test(a_cart_of_more_than_a_thousand_lines_is_cut),
		cmocka_unit_test(what_cannot_be_played_is_named_once_with_its_count),
		cmocka_unit_test(a_sum_of_twin_lines_stays_a_quantity),
		cmocka_unit_test(the_share_of_the_stock_is_rounded_up),
		cmocka_unit_test(a_file_without_the_columns_is_refused),
		cmocka_unit_test(reading_stops_after_so_many_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
