/* The judge of the simulation, judged: an honest history passes, and each history that is wrong in one way is refused
 * under the rule it breaks. A judge that lets one of these pass would let the service do it.
 *
 * The honest day, in milliseconds, for one SKU of which one unit is safety stock:
 *
 *	v1 created with 10 · v2 sale of 1 (100 to 110) · v3 hold of 2 (200 to 210) · v4 its commit (300 to 310)
 *	v5 a stranger's +5 (400 to 410, binds from 460) · v6 hold of 3 (500 to 510) · v7 it expires (600)
 *	v8 a set (700 to 710) · v9 cancel of the sale (800 to 810)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/history.h"

#define MS INT64_C(1000000)
#define ROOM 40

enum { SALE, HOLD, COMMIT, HOLD_2, SET, CANCEL, REFUSED, HONEST_WRITES };

struct day {
	struct history history;
	struct history_sku skus[2];
	struct history_entry entries[ROOM];
	struct history_write writes[ROOM];
	struct history_read reads[ROOM];
	struct history_sql sqls[ROOM];
	struct history_request requests[ROOM];
	struct history_outage outages[ROOM];
};

static struct uuid id(int number)
{
	return (struct uuid){{(uint8_t)number}};
}

static void enter(struct day *d, enum ledger_kind kind, int64_t on_hand, int64_t reserved, int64_t at_ms, int object)
{
	struct history_sku *sku = &d->skus[0];
	const struct history_entry *last = sku->entry_count ? &d->entries[sku->entry_count - 1] : NULL;
	d->entries[sku->entry_count] = (struct history_entry){
		.kind = kind,
		.version = (int64_t)sku->entry_count + 1,
		.on_hand_delta = on_hand,
		.reserved_delta = reserved,
		.on_hand_after = (last ? last->on_hand_after : 0) + on_hand,
		.reserved_after = (last ? last->reserved_after : 0) + reserved,
		.at_ns = at_ms * MS,
		.operation_id = id(object),
	};
	sku->entry_count++;
}

static struct history_write *write_down(struct day *d, enum operation_kind kind, int64_t called_ms, int64_t quantity,
                                        int64_t version)
{
	struct history_write *w = &d->writes[d->history.write_count++];
	*w = (struct history_write){
		.kind = kind,
		.called_ns = called_ms * MS,
		.answers = {{.returned_ns = (called_ms + 10) * MS, .status = 201, .digest = 7}},
		.answer_count = 1,
		.lines = {{.quantity = quantity, .version = version, .requested = -1}},
		.line_count = 1,
	};
	snprintf(w->key, sizeof w->key, "key-%zu", d->history.write_count);
	return w;
}

static struct history_read *look(struct day *d, int64_t called_ms, int64_t version)
{
	struct history_read *r = &d->reads[d->history.read_count++];
	const struct history_entry *e = &d->entries[version - 1];
	int64_t available = e->on_hand_after - e->reserved_after - 1;
	*r = (struct history_read){
		.client = 1,
		.called_ns = called_ms * MS,
		.returned_ns = (called_ms + 4) * MS,
		.version = version,
		.available = available > 0 ? available : 0,
		.held = e->reserved_after,
		.on_hand = -1,
		.tracked = true,
	};
	return r;
}

static struct day *honest(void)
{
	struct day *d = calloc(1, sizeof *d);
	assert_non_null(d);
	d->history = (struct history){
		.skus = d->skus,
		.sku_count = 2,
		.writes = d->writes,
		.reads = d->reads,
		.sqls = d->sqls,
		.requests = d->requests,
		.outages = d->outages,
		.deadline_ns = 1000 * MS,
		.sql_lag_ns = 50 * MS,
		.recovery_ns = 20 * MS,
		.clock_slack_ns = MS,
	};
	d->skus[0] = (struct history_sku){.code = "A", .safety_stock = 1, .tracked = true, .entries = d->entries};
	d->skus[1] = (struct history_sku){.code = "B"};
	enter(d, LEDGER_CREATE, 10, 0, 0, 0);
	enter(d, LEDGER_SALE, -1, 0, 105, 1);
	enter(d, LEDGER_RESERVE, 0, 2, 205, 2);
	enter(d, LEDGER_COMMIT, -2, -2, 305, 2);
	enter(d, LEDGER_SQL, 5, 0, 405, 0);
	enter(d, LEDGER_RESERVE, 0, 3, 505, 4);
	enter(d, LEDGER_EXPIRE, 0, -3, 600, 4);
	enter(d, LEDGER_SET, 8, 0, 705, 5);
	enter(d, LEDGER_CANCEL, 1, 0, 805, 1);
	write_down(d, OPERATION_CHECKOUT, 100, 1, 2)->object = id(1);
	write_down(d, OPERATION_RESERVE, 200, 2, 3)->object = id(2);
	d->writes[HOLD].expires_at_ns = 1205 * MS;
	*write_down(d, OPERATION_COMMIT, 300, 2, 4) = (struct history_write){.kind = OPERATION_COMMIT,
	                                                                     .key = "key-3",
	                                                                     .called_ns = 300 * MS,
	                                                                     .answers = {{310 * MS, 200, 3}},
	                                                                     .answer_count = 1,
	                                                                     .object = id(3),
	                                                                     .target = id(2),
	                                                                     .lines = {{.quantity = 2, .version = 4}},
	                                                                     .line_count = 1};
	write_down(d, OPERATION_RESERVE, 500, 3, 6)->object = id(4);
	d->writes[HOLD_2].expires_at_ns = 599 * MS;
	write_down(d, OPERATION_ADJUST, 700, 20, 8)->object = id(5);
	d->writes[SET].lines[0].set = true;
	write_down(d, OPERATION_CANCEL, 800, 1, 0)->target = id(1);
	struct history_write *refused = write_down(d, OPERATION_CHECKOUT, 250, 40, 0);
	refused->answers[0].status = 409;
	strcpy(refused->code, "insufficient_stock");
	refused->lines[0].requested = 40;
	refused->lines[0].available = 6;
	refused->lines[0].held = 2;
	d->sqls[d->history.sql_count++] = (struct history_sql){.version = 5,
	                                                       .on_hand_delta = 5,
	                                                       .called_ns = 400 * MS,
	                                                       .returned_ns = 410 * MS,
	                                                       .sure = true};
	/* One look after each answer, one while each write is under way, which may show either. */
	look(d, 50, 1);
	look(d, 102, 1);
	look(d, 111, 2);
	look(d, 204, 3);
	look(d, 311, 4);
	look(d, 406, 4);
	look(d, 420, 5);
	look(d, 430, 4); /* a stranger's: not bound yet */
	look(d, 470, 5);
	look(d, 520, 6);
	look(d, 605, 7);
	look(d, 720, 8);
	look(d, 820, 9);
	d->requests[d->history.request_count++] = (struct history_request){.called_ns = 100 * MS,
	                                                                   .returned_ns = 110 * MS,
	                                                                   .status = 201};
	return d;
}

static void passes(struct day *d)
{
	struct history_report report;
	history_check(&d->history, &report);
	for (size_t i = 0; i < report.shown_count; i++)
		print_error("%s\n", report.shown[i]);
	assert_int_equal(report.total, 0);
	history_report_done(&report);
	free(d);
}

/* It breaks this rule, and no other. */
static void breaks(struct day *d, enum history_rule rule)
{
	struct history_report report;
	history_check(&d->history, &report);
	for (int i = 0; i < HISTORY_RULES; i++)
		if ((i == (int)rule) != (report.broken[i] > 0)) {
			for (size_t k = 0; k < report.shown_count; k++)
				print_error("%s\n", report.shown[k]);
			fail_msg("%s broken %u times", history_rule_name((enum history_rule)i), report.broken[i]);
		}
	assert_true(report.shown_count > 0);
	history_report_done(&report);
	free(d);
}

/* It breaks this rule; others with it. */
static void catches(struct day *d, enum history_rule rule)
{
	struct history_report report;
	history_check(&d->history, &report);
	assert_true(report.broken[rule] > 0);
	history_report_done(&report);
	free(d);
}

static void an_honest_day_passes(void **state)
{
	passes(honest());
}

/* --- the four conditions of a read -------------------------------------------------------------------------------- */

static void a_read_older_than_an_answer_is_caught(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	look(d, 111, 1); /* the sale was answered at 110 */
	breaks(d, HISTORY_ANSWERED);
}

static void a_read_older_than_the_answer_of_a_release_or_a_cancel_is_caught(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	look(d, 811, 8); /* its answer names no version: the ledger does */
	breaks(d, HISTORY_ANSWERED);
}

static void a_read_older_than_another_read_is_caught(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	look(d, 103, 2); /* ended at 107, before the sale was answered */
	look(d, 108, 1);
	breaks(d, HISTORY_SEEN);
}

static void reads_that_overlap_may_come_in_any_order(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	look(d, 103, 2);
	look(d, 106, 1);
	passes(d);
}

static void a_read_of_a_write_that_had_not_begun_is_caught(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	look(d, 190, 3);
	catches(d, HISTORY_BEGUN);
}

static void a_read_above_a_write_that_had_not_begun_is_caught(void **state)
{
	struct day *d = honest();
	/* v6 was asked for before v5 was; that v5 was there already when v6 was returned is as impossible. */
	d->sqls[0].called_ns = 530 * MS;
	d->sqls[0].returned_ns = 540 * MS;
	d->entries[4].at_ns = 535 * MS;
	d->history.read_count = 0;
	look(d, 524, 6);
	breaks(d, HISTORY_BEGUN);
}

static void a_read_before_the_entry_was_written_is_caught(void **state)
{
	struct day *d = honest();
	d->entries[6].at_ns = 650 * MS;
	d->history.read_count = 0;
	look(d, 605, 7);
	breaks(d, HISTORY_BEGUN);
	d = honest();
	d->entries[2].at_ns = 210 * MS; /* called at 200, returned at 208 */
	breaks(d, HISTORY_BEGUN);
}

static void a_read_that_says_something_else_than_the_ledger_is_caught(void **state)
{
	struct day *d = honest();
	d->reads[3].available++;
	breaks(d, HISTORY_CONTENT);
	d = honest();
	d->reads[3].held--;
	breaks(d, HISTORY_CONTENT);
	d = honest();
	d->reads[3].on_hand = 8;
	breaks(d, HISTORY_CONTENT);
}

static void a_read_of_a_version_that_the_ledger_has_lost_is_caught(void **state)
{
	struct day *d = honest();
	struct history_read *r = look(d, 830, 9);
	r->version = 10;
	breaks(d, HISTORY_CONTENT);
}

/* --- strangers ---------------------------------------------------------------------------------------------------- */

static void a_strangers_write_binds_readers_after_its_time(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	look(d, 461, 4);
	breaks(d, HISTORY_ANSWERED);
}

static void a_fault_puts_that_off(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_FAULT, -1, 440 * MS, 450 * MS};
	look(d, 461, 4); /* bound from 450 + 20 + 50 */
	passes(d);
	d = honest();
	d->history.read_count = 0;
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_FAULT, -1, 405 * MS, 406 * MS};
	look(d, 480, 4);
	breaks(d, HISTORY_ANSWERED);
}

static void who_has_seen_a_strangers_write_has_seen_all_before_it(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	d->writes[COMMIT].answers[0].returned_ns = 490 * MS; /* answered late: only the read binds */
	look(d, 412, 5);
	look(d, 420, 3);
	breaks(d, HISTORY_SEEN);
}

static void a_strangers_write_that_is_gone_is_caught(void **state)
{
	struct day *d = honest();
	d->sqls[0].on_hand_delta = 4;
	breaks(d, HISTORY_ONCE);
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

static void a_write_below_what_was_answered_before_it_is_caught(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	d->writes[SALE].called_ns = 215 * MS; /* the hold with the higher version was answered at 210 */
	d->writes[SALE].answers[0].returned_ns = 220 * MS;
	catches(d, HISTORY_ORDER);
}

static void an_effect_that_was_answered_and_is_not_there_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[CANCEL].target = id(2);
	catches(d, HISTORY_ONCE);
}

static void an_effect_of_another_size_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[SALE].lines[0].quantity = 2;
	catches(d, HISTORY_ONCE);
}

static void an_effect_twice_is_caught(void **state)
{
	struct day *d = honest();
	enter(d, LEDGER_SALE, -1, 0, 850, 9); /* nobody was answered so */
	breaks(d, HISTORY_ONCE);
}

static void one_effect_for_two_keys_is_caught(void **state)
{
	struct day *d = honest();
	struct history_write *again = write_down(d, OPERATION_CHECKOUT, 104, 1, 2);
	again->object = id(1);
	breaks(d, HISTORY_ONCE);
}

static void two_answers_to_one_key_are_caught(void **state)
{
	struct day *d = honest();
	d->writes[SALE].answers[1] = (struct history_answer){130 * MS, 201, 8};
	d->writes[SALE].answer_count = 2;
	breaks(d, HISTORY_ONCE);
	d = honest();
	d->writes[REFUSED].answers[1] = (struct history_answer){280 * MS, 201, 7};
	d->writes[REFUSED].answer_count = 2;
	breaks(d, HISTORY_ONCE);
}

static void the_same_answer_twice_passes(void **state)
{
	struct day *d = honest();
	d->writes[SALE].answers[1] = (struct history_answer){130 * MS, 201, 7};
	d->writes[SALE].answer_count = 2;
	passes(d);
}

static void a_key_without_an_answer_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[REFUSED].answer_count = 0;
	breaks(d, HISTORY_ONCE);
}

/* --- the ledger, holds, refusals ---------------------------------------------------------------------------------- */

static void a_gap_in_the_versions_is_caught(void **state)
{
	struct day *d = honest();
	d->entries[8].version = 10;
	catches(d, HISTORY_LEDGER);
}

static void a_balance_that_does_not_add_up_is_caught(void **state)
{
	struct day *d = honest();
	d->history.read_count = 0;
	d->history.write_count--; /* the refusal saw other figures */
	d->entries[2].on_hand_after++;
	breaks(d, HISTORY_LEDGER);
}

static void selling_what_is_not_there_is_caught(void **state)
{
	struct day *d = honest();
	enter(d, LEDGER_SALE, -22, 0, 905, 9);
	write_down(d, OPERATION_CHECKOUT, 900, 22, 10)->object = id(9);
	breaks(d, HISTORY_LEDGER);
}

static void selling_the_safety_stock_is_caught(void **state)
{
	struct day *d = honest();
	enter(d, LEDGER_SALE, -21, 0, 905, 9);
	write_down(d, OPERATION_CHECKOUT, 900, 21, 10)->object = id(9);
	breaks(d, HISTORY_LEDGER);
}

static void a_hold_that_never_ends_is_caught(void **state)
{
	struct day *d = honest();
	enter(d, LEDGER_RESERVE, 0, 1, 905, 9);
	write_down(d, OPERATION_RESERVE, 900, 1, 10)->object = id(9);
	breaks(d, HISTORY_ENDS);
}

static void a_hold_that_ends_twice_is_caught(void **state)
{
	struct day *d = honest();
	enter(d, LEDGER_RESERVE, 0, 3, 905, 9);
	write_down(d, OPERATION_RESERVE, 900, 3, 10)->object = id(9);
	d->writes[HONEST_WRITES].expires_at_ns = 906 * MS;
	enter(d, LEDGER_EXPIRE, 0, -3, 910, 4);
	enter(d, LEDGER_EXPIRE, 0, 0, 911, 9);
	d->entries[11].reserved_delta = -3;
	d->entries[11].reserved_after = -3;
	struct history_report report;
	history_check(&d->history, &report);
	assert_true(report.broken[HISTORY_ENDS] > 0);
	assert_true(report.broken[HISTORY_LEDGER] > 0);
	history_report_done(&report);
	free(d);
}

static void a_hold_that_expires_before_its_promised_end_is_caught(void **state)
{
	struct day *d = honest();
	struct history_write *w = write_down(d, OPERATION_EXTEND, 550, 0, 0);
	w->line_count = 0;
	w->target = id(4);
	w->expires_at_ns = 900 * MS;
	breaks(d, HISTORY_ENDS);
}

static void a_hold_that_is_sold_after_its_end_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[COMMIT].created_at_ns = 1206 * MS;
	breaks(d, HISTORY_ENDS);
}

static void a_refusal_with_figures_that_never_were_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[REFUSED].lines[0].available = 5;
	breaks(d, HISTORY_REFUSAL);
}

static void a_refusal_with_figures_of_before_the_call_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[REFUSED].lines[0].available = 8; /* v2: but the hold was answered before */
	d->writes[REFUSED].lines[0].held = 0;
	breaks(d, HISTORY_REFUSAL);
}

static void a_refusal_of_what_was_there_is_caught(void **state)
{
	struct day *d = honest();
	d->writes[REFUSED].lines[0].requested = 6;
	breaks(d, HISTORY_REFUSAL);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct history_request *ask(struct day *d, int64_t called_ms, int64_t took_ms, int status)
{
	struct history_request *r = &d->requests[d->history.request_count++];
	*r = (struct history_request){.called_ns = called_ms * MS,
	                              .returned_ns = (called_ms + took_ms) * MS,
	                              .status = status};
	return r;
}

static void an_answer_after_the_deadline_is_caught(void **state)
{
	struct day *d = honest();
	ask(d, 0, 1001, 503);
	breaks(d, HISTORY_TIME);
}

static void an_answer_that_never_came_is_caught(void **state)
{
	struct day *d = honest();
	ask(d, 0, 5000, 0)->timed_out = true;
	breaks(d, HISTORY_TIME);
}

static void time_in_which_the_instance_was_stopped_does_not_count_and_overlaps_count_once(void **state)
{
	struct day *d = honest();
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_STOPPED, 0, 1100 * MS, 1500 * MS};
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_STALL, -1, 1300 * MS, 1600 * MS};
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_STOPPED, 1, 1600 * MS, 1900 * MS};
	ask(d, 1000, 1500, 200);
	passes(d);
	d = honest();
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_STOPPED, 0, 1100 * MS, 1500 * MS};
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_STALL, -1, 1300 * MS, 1600 * MS};
	ask(d, 1000, 1501, 200);
	breaks(d, HISTORY_TIME);
}

static void a_connection_lost_without_a_fault_is_caught(void **state)
{
	struct day *d = honest();
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_DEAD, 1, 0, 5000 * MS};
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_STOPPED, 0, 0, 5000 * MS};
	ask(d, 100, 10, 0);
	breaks(d, HISTORY_LOST);
}

static void a_connection_lost_to_a_killed_instance_passes(void **state)
{
	struct day *d = honest();
	d->outages[d->history.outage_count++] = (struct history_outage){HISTORY_DEAD, 0, 105 * MS, 5000 * MS};
	ask(d, 100, 10, 0);
	passes(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_honest_day_passes),
		cmocka_unit_test(a_read_older_than_an_answer_is_caught),
		cmocka_unit_test(a_read_older_than_the_answer_of_a_release_or_a_cancel_is_caught),
		cmocka_unit_test(a_read_older_than_another_read_is_caught),
		cmocka_unit_test(reads_that_overlap_may_come_in_any_order),
		cmocka_unit_test(a_read_of_a_write_that_had_not_begun_is_caught),
		cmocka_unit_test(a_read_above_a_write_that_had_not_begun_is_caught),
		cmocka_unit_test(a_read_before_the_entry_was_written_is_caught),
		cmocka_unit_test(a_read_that_says_something_else_than_the_ledger_is_caught),
		cmocka_unit_test(a_read_of_a_version_that_the_ledger_has_lost_is_caught),
		cmocka_unit_test(a_strangers_write_binds_readers_after_its_time),
		cmocka_unit_test(a_fault_puts_that_off),
		cmocka_unit_test(who_has_seen_a_strangers_write_has_seen_all_before_it),
		cmocka_unit_test(a_strangers_write_that_is_gone_is_caught),
		cmocka_unit_test(a_write_below_what_was_answered_before_it_is_caught),
		cmocka_unit_test(an_effect_that_was_answered_and_is_not_there_is_caught),
		cmocka_unit_test(an_effect_of_another_size_is_caught),
		cmocka_unit_test(an_effect_twice_is_caught),
		cmocka_unit_test(one_effect_for_two_keys_is_caught),
		cmocka_unit_test(two_answers_to_one_key_are_caught),
		cmocka_unit_test(the_same_answer_twice_passes),
		cmocka_unit_test(a_key_without_an_answer_is_caught),
		cmocka_unit_test(a_gap_in_the_versions_is_caught),
		cmocka_unit_test(a_balance_that_does_not_add_up_is_caught),
		cmocka_unit_test(selling_what_is_not_there_is_caught),
		cmocka_unit_test(selling_the_safety_stock_is_caught),
		cmocka_unit_test(a_hold_that_never_ends_is_caught),
		cmocka_unit_test(a_hold_that_ends_twice_is_caught),
		cmocka_unit_test(a_hold_that_expires_before_its_promised_end_is_caught),
		cmocka_unit_test(a_hold_that_is_sold_after_its_end_is_caught),
		cmocka_unit_test(a_refusal_with_figures_that_never_were_is_caught),
		cmocka_unit_test(a_refusal_with_figures_of_before_the_call_is_caught),
		cmocka_unit_test(a_refusal_of_what_was_there_is_caught),
		cmocka_unit_test(an_answer_after_the_deadline_is_caught),
		cmocka_unit_test(an_answer_that_never_came_is_caught),
		cmocka_unit_test(time_in_which_the_instance_was_stopped_does_not_count_and_overlaps_count_once),
		cmocka_unit_test(a_connection_lost_without_a_fault_is_caught),
		cmocka_unit_test(a_connection_lost_to_a_killed_instance_passes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
