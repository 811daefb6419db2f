/* What `lastunit import` refuses and how it says so: rows that stock or their own fields forbid, files and options that
 * cannot be followed. Files of other programs, which it maps and decodes.
 *
 * Bugs it guards against (B10, B27, B66, B69): a count set below what is held; a change_from that nobody compares; a line
 * number that is not the editor's; twins in case taken for one SKU.
 */
#include "e2e/import_fixture.h"

#include <netinet/in.h>
#include <signal.h>

#include "lib/freeze.h"
#include "lib/orders_generator.h"

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void a_count_never_goes_below_what_is_held(void **state)
{
	char id[37];
	service_create_sku(&service, "held", 10);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "held", 6, 600, id), 201);
	struct result result = import(write_text("h1.csv", "sku,on_hand\nheld,5\n"), NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_refusal(&result, 0, 2, "held", "insufficient_stock");
	done(&result);
	result = import(write_text("h2.csv", "sku,delta\nheld,-5\n"), NULL, NULL);
	assert_refusal(&result, 0, 2, "held", "insufficient_stock");
	done(&result);
	assert_row("held", 10, 2);
	import_ok(write_text("h3.csv", "sku,on_hand\nheld,6\n"));
	assert_row("held", 6, 3);
	assert_int_equal(service_end(&service, service.key_web, id, "release"), 200);
	assert_row("held", 6, 4);
}

/* The `serve` that `dev` runs. */
static pid_t serving(void)
{
	char path[60], children[200] = "", name[40];
	pid_t found = 0;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", service.pid, service.pid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(children, sizeof children, file));
	fclose(file);
	for (char *pid = strtok(children, " "); pid && !found; pid = strtok(NULL, " ")) {
		snprintf(path, sizeof path, "/proc/%s/comm", pid);
		if (!(file = fopen(path, "r")))
			continue;
		if (fgets(name, sizeof name, file) && !strcmp(name, "lastunit\n"))
			found = atoi(pid);
		fclose(file);
	}
	assert_true(found > 0);
	return found;
}

/* An import expires nothing. Where no service runs, or stands still, its refusal says that one would help. */
static void holds_that_are_due_are_told_of(void **state)
{
	char id[37];
	service_create_sku(&service, "due", 10);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "due", 6, 2, id), 201);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "due", 2, 600, id), 201);
	pid_t serve = serving();
	freeze(serve);
	wait_until(
		"SELECT count(*) FROM lastunit.hold h JOIN lastunit.sku s ON s.id = h.sku_id WHERE s.code = 'due'"
		" AND h.expires_at <= clock_timestamp()",
		"1");
	const char *path = write_text("due.csv", "sku,on_hand\ndue,3\n");
	static const char *const options[] = {NULL, "--partial"};
	for (int i = 0; i < 2; i++) {
		struct result result = import(path, options[i], NULL);
		assert_refusal(&result, 0, 2, "due", "insufficient_stock");
		json_t *refusal = json_array_get(json_object_get(result.json, "refusals"), 0);
		assert_string_equal(json_string_value(json_object_get(refusal, "detail")),
		                    "on_hand would be 3 while 8 are held, 6 of them by holds that are due: a running service "
		                    "frees those");
		done(&result);
	}
	kill(serve, SIGCONT);
	wait_until("SELECT reserved FROM lastunit.sku WHERE code = 'due'", "2");
	import_ok(path);
}

static void change_from_is_what_on_hand_must_be(void **state)
{
	service_create_sku(&service, "from", 100);
	assert_int_equal(service_sell(&service, service.key_pos, NULL, "from", 30), 201);
	struct result result = import(write_text("f1.csv", "sku,on_hand,change_from\nfrom,120,100\n"), NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_refusal(&result, 0, 2, "from", "change_from_mismatch");
	done(&result);
	assert_row("from", 70, 2);
	import_ok(write_text("f2.csv", "sku,on_hand,change_from\nfrom,120,70\n"));
	assert_row("from", 120, 3);
}

static void counts_stay_in_their_range_however_many_rows_add_up(void **state)
{
	struct buffer file = {0};
	buffer_add_string(&file, "sku,delta\n");
	for (int i = 0; i < 10000; i++) /* their sum does not fit 64 bits */
		buffer_add_string(&file, "much,1000000000000000\n");
	struct result result = import(write_bytes("much.csv", file.data, file.size), NULL, NULL);
	buffer_done(&file);
	assert_int_equal(result.exit_code, 1);
	assert_int_equal(number(&result, "refused"), 9999);
	assert_refusal(&result, 0, 3, "much", "count_out_of_range");
	done(&result);
	assert_int_equal(service_row(&service, "much").status, 404);
	result = import(write_text("minus.csv", "sku,delta\nminus,-1\n"), NULL, NULL);
	assert_refusal(&result, 0, 2, "minus", "insufficient_stock");
	done(&result);
	import_ok(write_text("most.csv", "sku,on_hand\nmost,1000000000000000\n"));
	assert_row("most", INT64_C(1000000000000000), 1);
}

static const char *read_text(const char *path)
{
	static char text[2000];
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void with_partial_the_good_rows_go_in_and_each_row_has_its_outcome(void **state)
{
	import_ok(write_text("p0.csv", "sku,on_hand\npart-A,5\npart-B,5\n"));
	const char *path = write_text("p1.csv",
	                              "sku,delta\n"
	                              "part-A,-2\n"     /* 2: applied */
	                              "part-B,-9\n"     /* 3: refused */
	                              "part-A,-9\n"     /* 4: refused */
	                              "\"part-A \",1\n" /* 5: no SKU code */
	                              "part-A,1\n"      /* 6: rests on line 4 */
	                              "part-C,4\n");    /* 7: created */
	const char *list = path_of("outcomes.csv");
	const char *options[] = {"--partial", "--outcomes", list, NULL};
	struct result result = import_with(variables, path, options);
	assert_int_equal(result.exit_code, 1);
	assert_true(flag(&result, "applied"));
	assert_int_equal(number(&result, "refused"), 4);
	assert_refusal(&result, 0, 5, "part-A ", "invalid_sku");
	assert_refusal(&result, 1, 3, "part-B", "insufficient_stock");
	assert_refusal(&result, 2, 4, "part-A", "insufficient_stock");
	assert_refusal(&result, 3, 6, "part-A", "insufficient_stock");
	done(&result);
	assert_row("part-A", 3, 2);
	assert_row("part-B", 5, 1);
	assert_row("part-C", 4, 1);
	const char *text = read_text(list);
	static const char *const expected[] = {"\n2,\"part-A\",changed,2,3,",        "\n3,\"part-B\",insufficient_stock,",
	                                       "\n4,\"part-A\",insufficient_stock,", "\n5,\"part-A \",invalid_sku,",
	                                       "\n6,\"part-A\",insufficient_stock,", "\n7,\"part-C\",created,1,4,"};
	const char *at = text; /* in the order of the file, whoever refused them */
	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
		if (!(at = strstr(at, expected[i])))
			fail_msg("no \"%s\" behind those before it in %s", expected[i] + 1, text);
	/* again: the same end, told again, nothing done */
	result = import_with(variables, path, options);
	assert_true(flag(&result, "replayed"));
	assert_int_equal(number(&result, "refused"), 4);
	assert_int_equal(result.exit_code, 1);
	done(&result);
	assert_row("part-A", 3, 2);
}

static void a_list_of_outcomes_that_found_no_room_is_told_of(void **state)
{
	const char *path = write_text("full.csv", "sku,on_hand\nFULL,1\n");
	struct result result = import(path, "--outcomes", "/dev/full");
	assert_true(flag(&result, "applied"));
	assert_non_null(strstr(result.err, "the list of outcomes is not complete; the import itself is done\n"));
	assert_int_equal(result.exit_code, 1);
	done(&result);
}

/* A list of an earlier file is not left for this one's, nor this one's lost because the file comes again. */
static void a_list_of_outcomes_is_of_its_own_file(void **state)
{
	const char *list = write_text("list.csv", "what another file has left\n");
	struct result result = import(write_text("bad.csv", "sku,on_hand\nLISTED,1\nLISTED,x\n"), "--outcomes", list);
	assert_int_equal(result.exit_code, 1);
	done(&result);
	assert_string_equal(read_text(list),
	                    "line,sku,outcome,version,on_hand,detail\n"
	                    "3,\"LISTED\",invalid_field,,,\"on_hand is not a whole number from 0 to 1000000000000000\"\n");
	const char *path = write_text("good.csv", "sku,on_hand\nLISTED,1\n");
	for (int again = 0; again < 2; again++) {
		result = import(path, "--outcomes", list);
		assert_int_equal(result.exit_code, 0);
		assert_int_equal(strstr(result.err, "nothing is listed, the file was imported before") != NULL, again);
		done(&result);
		assert_string_equal(read_text(list),
		                    "line,sku,outcome,version,on_hand,detail\n2,\"LISTED\",created,1,1,\"\"\n");
	}
}

/* A list that ends early looks as whole as any. */
static void a_list_of_outcomes_has_a_line_for_each_row_of_many(void **state)
{
	enum { ROWS = 10001 };
	struct buffer file = {0};
	const char *list = path_of("long.csv");
	buffer_add_string(&file, "sku,on_hand\n\"a \"\"long\"\" list\",1\n");
	for (int i = 1; i < ROWS; i++)
		buffer_add_format(&file, "list-%d,1\n", i);
	struct result result = import(write_bytes("rows.csv", file.data, file.size), "--outcomes", list);
	assert_int_equal(result.exit_code, 0);
	done(&result);
	buffer_clear(&file);
	buffer_add_string(&file, "line,sku,outcome,version,on_hand,detail\n2,\"a \"\"long\"\" list\",created,1,1,\"\"\n");
	for (int i = 1; i < ROWS; i++)
		buffer_add_format(&file, "%d,\"list-%d\",created,1,1,\"\"\n", i + 2, i);
	char *text = malloc(file.size + 1);
	FILE *stream = fopen(list, "r");
	assert_non_null(text);
	assert_non_null(stream);
	assert_int_equal(fread(text, 1, file.size + 1, stream), file.size);
	fclose(stream);
	assert_memory_equal(text, file.data, file.size);
	free(text);
	buffer_done(&file);
}

static void a_file_that_cannot_be_read_changes_nothing_and_names_the_line(void **state)
{
	static const struct {
		const char *file, *why;
	} cases[] = {
		{"sku;on_hand\nbroken;1\n", "separated by semicolons"},
		{"sku,on_hand\nbroken,1\n\"broken,2\n", "line 3: a quote is opened and never closed"},
		{"sku,on_hand\nbroken,1\nbroken\xff,2\n", "line 3: not UTF-8"},
		{"sku,on_hnad\nbroken,1\n", "column \"on_hnad\" is unknown"},
		{"", "the file is empty"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct result result = import(write_text("broken.csv", cases[i].file), NULL, NULL);
		assert_int_equal(result.exit_code, 1);
		assert_false(flag(&result, "applied"));
		const char *why = json_string_value(json_object_get(result.json, "why"));
		if (!why || !strstr(why, cases[i].why))
			fail_msg("\"%s\" should contain \"%s\"", why ? why : "", cases[i].why);
		done(&result);
	}
	assert_int_equal(service_row(&service, "broken").status, 404);
}

static void exit_codes_tell_the_user_from_the_backend(void **state)
{
	struct result result = import("/nonexistent/file.csv", NULL, NULL);
	assert_int_equal(result.exit_code, 2);
	done(&result);
	const char *path = write_text("ok.csv", "sku,on_hand\nnowhere,1\n");
	result = import(path, "--profile", "offline-retail");
	assert_int_equal(result.exit_code, 2);
	assert_non_null(strstr(result.err, "there is online-retail"));
	done(&result);
	result = import(path, "--no-such-flag", "1");
	assert_int_equal(result.exit_code, 2);
	done(&result);
	result = import_with((const char *[]){NULL}, path, NULL);
	assert_int_equal(result.exit_code, 2);
	assert_non_null(strstr(result.err, "LASTUNIT_DATABASE_URL"));
	done(&result);
	result = import_with((const char *[]){"LASTUNIT_DATABASE_URL=host=/nonexistent", NULL}, path, NULL);
	assert_int_equal(result.exit_code, 3);
	done(&result);
}

/* Nothing could be told to Redis of such a row, so it is found before COMMIT. */
static void a_sku_whose_figures_cannot_be_is_named_and_nothing_is_imported(void **state)
{
	service_create_sku(&service, "damaged", 10);
	const char *was = strdup(
		ask("SELECT pg_get_constraintdef(oid) FROM pg_constraint"
	        " WHERE conname = 'sku_figures_stay_in_range'"));
	ask("ALTER TABLE lastunit.sku DROP CONSTRAINT sku_figures_stay_in_range");
	ask("UPDATE lastunit.sku SET safety_stock = -1 WHERE code = 'damaged'");
	wait_until_open();
	struct result result = import(write_text("damaged.csv", "sku,on_hand\ndamaged,5\nwhole,5\n"), NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_non_null(strstr(result.err, "the figures of SKU damaged cannot be"));
	done(&result);
	assert_string_equal(
		ask("SELECT count(*) || ' ' || sum(on_hand) FROM lastunit.sku WHERE code IN ('damaged', 'whole')"), "1 10");
	ask("UPDATE lastunit.sku SET safety_stock = 0 WHERE code = 'damaged'");
	char again[400];
	snprintf(again, sizeof again, "ALTER TABLE lastunit.sku ADD CONSTRAINT sku_figures_stay_in_range %s", was);
	ask(again);
	free((char *)was);
}

static void options_that_cannot_be_followed_are_named_before_anything_is_done(void **state)
{
	static const struct {
		const char *options[5], *sentence;
	} rows[] = {
		{{"--separator", "ab"}, "--separator is one ASCII character, or \\t"},
		{{"--separator", "\""}, "--separator is one ASCII character, or \\t"},
		{{"--separator", "\xc3"}, "--separator is one ASCII character, or \\t"},
		{{"--key", "a\nb"}, "--key: "},
		{{"--reason", "a\x01z"}, "--reason has more than 255 bytes, control characters"},
		{{"--profile", "online-retail", "--map", "sku=sku"}, "--profile and --map exclude each other"},
		{{"--outcomes", "/nowhere/list.csv"}, "--outcomes /nowhere/list.csv: No such file or directory"},
	};
	const char *path = write_text("options.csv", "sku,on_hand\noptions,1\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct result result = import_with(variables, path, rows[i].options);
		if (result.exit_code != 2 || !strstr(result.err, rows[i].sentence))
			fail_msg("%s: exit code %d: %s", rows[i].options[0], result.exit_code, result.err);
		done(&result);
	}
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE code = 'options'"), "0");
}

/* For people: what is to be mended, line by line, and that nothing was done, so that it is not done twice. */
static void expect_told(const char *path, int exit_code, const char *out, const char *const *err)
{
	struct command command = command_run((const char *[]){"import", path, NULL}, variables);
	if (command.exit_code != exit_code || !strstr(command.out, out))
		fail_msg("exit code %d: %s%s", command.exit_code, command.out, command.err);
	for (; *err; err++)
		if (!strstr(command.err, *err))
			fail_msg("no \"%s\" in %s", *err, command.err);
	command_done(&command);
}

static void what_became_of_a_file_is_told_in_words(void **state)
{
	static const char *const nothing[] = {NULL};
	char bad[400] = "sku,on_hand\nwords-A,5\n";
	for (int i = 0; i < 21; i++)
		strcat(bad, "words-B,x\n");
	expect_told(write_text("bad.csv", bad), 1, "",
	            (const char *[]){"line 3: words-B: on_hand is not a whole number",
	                             "\nline 22: words-B: ", "\n… and 1 more; --json lists them\n",
	                             "\nNothing was imported: refused 21 of 22 rows (--partial applies the others).\n",
	                             "\nStock was not looked at yet: it may refuse others.\n", NULL});
	expect_told(write_text("wide.csv", "sku;on_hand\nwords-A;5\n"), 1, "",
	            (const char *[]){"wide.csv: line 1: the columns seem to be separated by semicolons",
	                             "\nNothing was imported.\n", NULL});
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'words-%'"), "0");
	const char *good = write_text("good.csv", "sku,on_hand\nwords-A,5\n");
	expect_told(good, 0, "1 SKU created, 0 changed, 0 described; 1 ledger entry, +5 units\n", nothing);
	expect_told(good, 0, "already imported at 2", nothing);
	expect_told(write_text("less.csv", "sku,delta\nwords-A,-6\n"), 1, "",
	            (const char *[]){"line 2: words-A: on_hand would be -1 (insufficient_stock)\n",
	                             "Nothing was imported: refused 1 of 1 row (", NULL});
}

/* A PostgreSQL that stands still takes connections and answers none: the kernel does that for it. */
static void its_time_is_over_also_while_it_connects(void **state)
{
	struct sockaddr_in door = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof door;
	char silent[100];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), tries = 0, taken;
	assert_int_equal(bind(fd, (struct sockaddr *)&door, size), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&door, &size), 0);
	snprintf(silent, sizeof silent, "LASTUNIT_DATABASE_URL=host=127.0.0.1 port=%d sslmode=disable",
	         ntohs(door.sin_port));
	struct result result = import_with((const char *[]){silent, NULL}, write_text("late.csv", "sku,on_hand\nlate,1\n"),
	                                   (const char *[]){"--timeout-s", "1", NULL});
	for (; (taken = accept(fd, NULL, NULL)) >= 0; tries++)
		close(taken);
	close(fd);
	assert_int_equal(result.exit_code, 3);
	assert_int_equal(tries, 1); /* not one of five seconds after the other */
	done(&result);
}

/* --- foreign files ------------------------------------------------------------------------------------------------ */

static void lines_are_counted_as_an_editor_does(void **state)
{
	/* BOM, CRLF, a quoted line end in a title, a blank line, no line end at the end */
	const char *path = write_text("lines.csv",
	                              "\xef\xbb\xbfsku,delta,title_en\r\nlines-A,7,\"two\r\nlines\"\r\n\r\nlines-B,7,\r\n"
	                              "lines-C,seven,\r\nlines-D,7,x");
	struct result result = import(path, "--partial", NULL);
	assert_refusal(&result, 0, 6, "lines-C", "invalid_field");
	assert_int_equal(number(&result, "rows"), 4);
	done(&result);
	assert_row("lines-A", 7, 1);
	assert_row("lines-B", 7, 1);
	assert_row("lines-D", 7, 1);
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/lines-A", NULL, NULL);
	assert_string_equal(answer_string(&answer, "titles.en"), "two\r\nlines");
	answer_done(&answer);
}

static void a_foreign_file_is_mapped_and_decoded(void **state)
{
	const char *path = write_text("foreign.csv",
	                              "Lager;Artikel;Menge;Text\nX;foreign-\xc4;12;Gr\xfc\xdf"
	                              "e\n");
	const char *options[] = {"--map",       "sku=Artikel,on_hand=Menge,title_de=Text",
	                         "--separator", ";",
	                         "--encoding",  "ISO-8859-1",
	                         NULL};
	struct result result = import_with(variables, path, options);
	if (result.exit_code)
		fail_msg("%s", result.err);
	done(&result);
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/foreign-%C3%84", NULL, NULL);
	assert_int_equal(answer_int(&answer, "on_hand"), 12);
	assert_string_equal(answer_string(&answer, "titles.de"),
	                    "Gr\xc3\xbc\xc3\x9f"
	                    "e");
	answer_done(&answer);
}

static void columns_may_be_separated_by_tabs(void **state)
{
	struct result result = import(write_text("tabs.tsv", "sku\ton_hand\ntabs, and a comma\t4\n"), "--separator", "\\t");
	assert_int_equal(result.exit_code, 0);
	done(&result);
	assert_string_equal(ask("SELECT on_hand FROM lastunit.sku WHERE code = 'tabs, and a comma'"), "4");
}

static void an_order_file_brings_its_skus_and_descriptions(void **state)
{
	struct buffer file = {0};
	orders_generate(&(struct orders_generator){.seed = 7, .invoices = 120, .skus = 700}, &file);
	const char *path = write_bytes("orders.csv", file.data, file.size);
	buffer_done(&file);
	struct result result = import(path, "--profile", "online-retail");
	if (result.exit_code)
		fail_msg("%s", result.err);
	assert_true(number(&result, "created") >= 600);
	assert_int_equal(number(&result, "created"), number(&result, "entries"));
	assert_int_equal(number(&result, "units"), 0);
	assert_true(number(&result, "merged") > 500);
	done(&result);
	/* twins in case are two SKUs; the pound sign came through */
	assert_int_equal(service_row(&service, "84010B").status, 200);
	assert_int_equal(service_row(&service, "84010b").status, 200);
	assert_string_equal(ask("SELECT count(*) > 10 FROM lastunit.sku_text WHERE titles->>'en' = 'Gift Voucher \xc2\xa3"
	                        "40.00'"),
	                    "t");
	/* they exist now: titles again, and not one more entry */
	result = import(path, "--reason", "again");
	done(&result);
	result = import_with(variables, path, (const char *[]){"--profile", "online-retail", "--reason", "again", NULL});
	assert_int_equal(result.exit_code, 0);
	assert_int_equal(number(&result, "created"), 0);
	assert_int_equal(number(&result, "entries"), 0);
	assert_string_equal(json_string_value(json_object_get(result.json, "cache")), "unconcerned");
	done(&result);
}

static const struct CMUnitTest tests[] = {
	SOUND(a_count_never_goes_below_what_is_held),
	SOUND(holds_that_are_due_are_told_of),
	SOUND(change_from_is_what_on_hand_must_be),
	SOUND(counts_stay_in_their_range_however_many_rows_add_up),
	SOUND(with_partial_the_good_rows_go_in_and_each_row_has_its_outcome),
	SOUND(a_list_of_outcomes_that_found_no_room_is_told_of),
	SOUND(a_list_of_outcomes_is_of_its_own_file),
	SOUND(a_list_of_outcomes_has_a_line_for_each_row_of_many),
	SOUND(a_file_that_cannot_be_read_changes_nothing_and_names_the_line),
	SOUND(exit_codes_tell_the_user_from_the_backend),
	SOUND(a_sku_whose_figures_cannot_be_is_named_and_nothing_is_imported),
	SOUND(options_that_cannot_be_followed_are_named_before_anything_is_done),
	SOUND(what_became_of_a_file_is_told_in_words),
	SOUND(its_time_is_over_also_while_it_connects),
	SOUND(lines_are_counted_as_an_editor_does),
	SOUND(a_foreign_file_is_mapped_and_decoded),
	SOUND(columns_may_be_separated_by_tabs),
	SOUND(an_order_file_brings_its_skus_and_descriptions),
};

IMPORT_MAIN(tests)
