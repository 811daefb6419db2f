/* The log: one event, one line, whatever is in it. The tests catch stderr in a pipe. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"

static int saved_stderr, ends[2];
static char caught[16384];

static void catch_stderr(void)
{
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	saved_stderr = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
}

/* What was written since; "" for nothing. */
static const char *caught_text(void)
{
	ssize_t size = read(ends[0], caught, sizeof caught - 1);
	caught[size > 0 ? size : 0] = 0;
	return caught;
}

static void let_go_stderr(void)
{
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(ends[0]);
	close(ends[1]);
	log_set_level(LOG_INFO);
}

static void a_line_has_time_level_and_event(void **state)
{
	catch_stderr();
	errno = ENOENT;
	log_event(LOG_WARN, "epoch_closed namespace=%s instances=%d", "lu:x", 3);
	int error = errno;
	const char *line = caught_text();
	let_go_stderr();
	assert_int_equal(error, ENOENT);
	assert_string_equal(line + 24, " warn epoch_closed namespace=lu:x instances=3\n");
	assert_int_equal(line[10], 'T');
	assert_int_equal(line[23], 'Z');
}

static void a_line_that_cannot_be_written_is_dropped_and_errno_kept(void **state)
{
	int saved = dup(STDERR_FILENO), full = open("/dev/full", O_WRONLY);
	assert_true(saved >= 0 && full >= 0);
	dup2(full, STDERR_FILENO);
	errno = ENOENT;
	log_event(LOG_ERROR, "x");
	int error = errno;
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(full);
	log_event(LOG_ERROR, "so that the next test finds nothing lost");
	assert_int_equal(error, ENOENT);
}

/* The pipe blocks whoever writes to it once it is full, as that of a shell does. */
static void a_full_pipe_keeps_nobody_and_the_next_line_says_what_was_lost(void **state)
{
	int pipe_ends[2], saved = dup(STDERR_FILENO), flags;
	int64_t before = metric_get(METRIC_LOG_LOST);
	char page[4096], text[200] = "";
	assert_int_equal(pipe(pipe_ends), 0);
	int size = fcntl(pipe_ends[1], F_SETPIPE_SZ, 2 * (int)sizeof page);
	memset(page, 'x', sizeof page);
	for (int left = size; left > 0; left -= (int)sizeof page)
		assert_int_equal(write(pipe_ends[1], page, sizeof page), sizeof page);
	dup2(pipe_ends[1], STDERR_FILENO);
	log_event(LOG_WARN, "first");
	log_event(LOG_WARN, "second");
	int64_t lost = metric_get(METRIC_LOG_LOST) - before;
	for (int left = size; left > 0; left -= (int)sizeof page)
		assert_int_equal(read(pipe_ends[0], page, sizeof page), sizeof page);
	log_event(LOG_INFO, "third");
	log_event(LOG_INFO, "fourth");
	dup2(saved, STDERR_FILENO);
	flags = fcntl(pipe_ends[1], F_GETFL);
	assert_true(read(pipe_ends[0], text, sizeof text - 1) > 0);
	close(saved);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	assert_int_equal(lost, 2);
	assert_string_equal(strtok(text, "\n") + 24, " warn log_lost lines=2");
	assert_string_equal(strtok(NULL, "\n") + 24, " info third");
	assert_string_equal(strtok(NULL, "\n") + 24, " info fourth");
	assert_null(strtok(NULL, "\n"));
	assert_int_equal(flags & O_NONBLOCK, 0); /* it is shared: others may rely on waiting */
}

/* The same where stderr cannot be opened anew. */
static void a_full_socket_keeps_nobody_and_a_pipe_without_a_descriptor_to_spare_neither(void **state)
{
	int ends_of_socket[2], ends_of_pipe[2], saved = dup(STDERR_FILENO), full = 2;
	struct rlimit limit, none;
	int64_t before = metric_get(METRIC_LOG_LOST);
	char page[4096] = "";
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of_socket), 0);
	while (send(ends_of_socket[1], page, sizeof page, MSG_DONTWAIT) > 0)
		;
	dup2(ends_of_socket[1], STDERR_FILENO);
	log_event(LOG_WARN, "to a socket");
	int64_t by_socket = metric_get(METRIC_LOG_LOST) - before;
	assert_int_equal(pipe(ends_of_pipe), 0);
	full = fcntl(ends_of_pipe[1], F_SETPIPE_SZ, 2 * (int)sizeof page);
	dup2(ends_of_pipe[1], STDERR_FILENO);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_cur = 1, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	log_event(LOG_WARN, "to a pipe"); /* with what was lost before */
	int64_t by_free_pipe = metric_get(METRIC_LOG_LOST) - before - by_socket;
	setrlimit(RLIMIT_NOFILE, &limit);
	ssize_t told = read(ends_of_pipe[0], page, sizeof page);
	for (int left = full; left > 0; left -= (int)sizeof page)
		assert_int_equal(write(ends_of_pipe[1], page, sizeof page), sizeof page);
	setrlimit(RLIMIT_NOFILE, &none);
	log_event(LOG_WARN, "to a full pipe");
	setrlimit(RLIMIT_NOFILE, &limit);
	int64_t by_full_pipe = metric_get(METRIC_LOG_LOST) - before - by_socket - by_free_pipe;
	dup2(saved, STDERR_FILENO);
	log_event(LOG_WARN, "so that the next test finds nothing lost");
	close(saved);
	for (int i = 0; i < 2; i++) {
		close(ends_of_socket[i]);
		close(ends_of_pipe[i]);
	}
	assert_int_equal(by_socket, 1);
	assert_true(told > 0);
	assert_int_equal(by_free_pipe, 0);
	assert_int_equal(by_full_pipe, 1);
}

static void lower_levels_are_left_out(void **state)
{
	static const enum log_level levels[] = {LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR};
	unsigned written[4] = {0};
	catch_stderr();
	for (int min = 0; min < 4; min++) {
		log_set_level(levels[min]);
		for (int i = 0; i < 4; i++) {
			log_event(levels[i], "x");
			written[min] += *caught_text() != 0;
		}
	}
	let_go_stderr();
	for (unsigned min = 0; min < 4; min++)
		assert_int_equal(written[min], 4 - min);
}

static void an_event_is_one_line_even_with_line_feeds_in_it(void **state)
{
	catch_stderr();
	log_event(LOG_ERROR, "a=%s b=\x1b[2J\x7f", "1\n2026 info forged\r\n");
	const char *line = caught_text();
	let_go_stderr();
	assert_string_equal(line + 24, " error a=1 2026 info forged   b= [2J \n");
}

static void a_long_event_is_cut_and_says_so(void **state)
{
	char message[8000];
	memset(message, 'x', sizeof message - 1);
	message[sizeof message - 1] = 0;
	catch_stderr();
	log_event(LOG_INFO, "%s", message);
	const char *line = caught_text();
	let_go_stderr();
	assert_int_equal(strlen(line), 4096);
	assert_string_equal(line + 4096 - 6, "xx...\n");
	/* the longest that fits is whole */
	message[4096 - strlen("2026-11-29T13:45:00.123Z info ") - 1] = 0;
	catch_stderr();
	log_event(LOG_INFO, "%s", message);
	line = caught_text();
	let_go_stderr();
	assert_int_equal(strlen(line), 4096);
	assert_string_equal(line + 4096 - 6, "xxxxx\n");
}

static void quoting_leaves_plain_text_and_escapes_the_rest(void **state)
{
	static const struct {
		struct text text;
		const char *quoted;
	} pairs[] = {
		{TEXT("SKU-123/a=b"), "SKU-123/a=b"},
		{TEXT(""), "\"\""},
		{{NULL, 0}, "\"\""},
		{TEXT("a b"), "\"a b\""},
		{TEXT("a\r\nDEL y"), "\"a\\x0d\\x0aDEL y\""},
		{TEXT("\"\\"), "\\x22\\x5c"},
		{TEXT("a\0b"), "a\\x00b"},
		{TEXT("caf\xc3\xa9"), "caf\xc3\xa9"},
		{TEXT("\xff\xc3"), "\\xff\\xc3"},
		{TEXT("\xc2\xa0"), "\\xc2\\xa0"},
		{TEXT("\xe2\x80\xae"), "\\xe2\\x80\\xae"},
		{TEXT("\xc2\x9b"), "\\xc2\\x9b"},
		{TEXT("100%s%n"), "100%s%n"},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		assert_string_equal(log_quote(pairs[i].text), pairs[i].quoted);
}

static void a_quoted_text_is_cut_at_200_bytes_and_never_within_a_character(void **state)
{
	char text[600];
	memset(text, 'x', sizeof text);
	assert_int_equal(strlen(log_quote((struct text){text, 200})), 200);
	assert_int_equal(strlen(log_quote((struct text){text, 201})), 203);
	assert_string_equal(log_quote((struct text){text, 600}) + 198, "xx...");
	memset(text, '\n', sizeof text);
	assert_string_equal(log_quote((struct text){text, 600}) + 196, "\\x0a...");
	for (size_t i = 1; i + 2 < 600; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[0] = 'x';
	const char *cut = log_quote((struct text){text, 599});
	assert_int_equal(strlen(cut), 199 + 3);
	assert_string_equal(cut + 197, "\xc3\xa9...");
}

static void four_quoted_texts_may_stand_in_one_event(void **state)
{
	const char *quoted[] = {log_quote(TEXT("a")), log_quote(TEXT("b")), log_quote(TEXT("c")), log_quote(TEXT("d"))};
	assert_string_equal(quoted[0], "a");
	assert_string_equal(quoted[1], "b");
	assert_string_equal(quoted[2], "c");
	assert_string_equal(quoted[3], "d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_time_level_and_event),
		cmocka_unit_test(a_line_that_cannot_be_written_is_dropped_and_errno_kept),
		cmocka_unit_test(a_full_pipe_keeps_nobody_and_the_next_line_says_what_was_lost),
		cmocka_unit_test(a_full_socket_keeps_nobody_and_a_pipe_without_a_descriptor_to_spare_neither),
		cmocka_unit_test(lower_levels_are_left_out),
		cmocka_unit_test(an_event_is_one_line_even_with_line_feeds_in_it),
		cmocka_unit_test(a_long_event_is_cut_and_says_so),
		cmocka_unit_test(quoting_leaves_plain_text_and_escapes_the_rest),
		cmocka_unit_test(a_quoted_text_is_cut_at_200_bytes_and_never_within_a_character),
		cmocka_unit_test(four_quoted_texts_may_stand_in_one_event),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
