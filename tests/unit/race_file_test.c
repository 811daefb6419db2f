/* The files of a race.
 *
 * Bugs it guards against: an empty file where a report was asked for and the race was stopped; half a report
 * on a full disk; a race that waits for ever to write to a FIFO which nobody reads; a device or a link that
 * is replaced by a file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/race_file.h"

static char directory[] = "/tmp/race-file-XXXXXX";
static char why[512];

static const char *in_directory(const char *name)
{
	static char path[2][200];
	static int turn;
	snprintf(path[turn ^= 1], sizeof path[0], "%s/%s", directory, name);
	return path[turn];
}

static const char *content(const char *path)
{
	static char text[200];
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

static int files(void)
{
	int count = 0;
	DIR *all = opendir(directory);
	assert_non_null(all);
	for (struct dirent *one; (one = readdir(all));)
		count += strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0;
	closedir(all);
	return count;
}

static mode_t mode_of(const char *path)
{
	struct stat status;
	assert_int_equal(lstat(path, &status), 0);
	return status.st_mode;
}

static void a_look_whether_it_can_be_written_leaves_nothing(void **state)
{
	assert_true(race_file_check(in_directory("new"), why));
	assert_int_equal(files(), 0);
	assert_false(race_file_check(in_directory("none/new"), why));
	assert_non_null(strstr(why, "none/new cannot be written: No such file"));
	assert_false(race_file_check(directory, why));
	assert_non_null(strstr(why, "Is a directory"));
	assert_true(race_file_check("of-the-current-directory", why));
}

static void a_file_is_replaced_as_a_whole_with_its_mode(void **state)
{
	const char *path = in_directory("report");
	assert_true(race_file_write(path, TEXT("first, and longer"), why));
	assert_int_equal(chmod(path, 0640), 0);
	FILE *reader = fopen(path, "r");
	char seen[40] = "";
	assert_true(race_file_write(path, TEXT("second"), why));
	/* Who has it open reads what he opened. */
	assert_non_null(fgets(seen, sizeof seen, reader));
	assert_string_equal(seen, "first, and longer");
	fclose(reader);
	assert_string_equal(content(path), "second");
	assert_int_equal(mode_of(path) & 07777, 0640);
	assert_int_equal(files(), 1);
	unlink(path);
}

static void what_cannot_be_written_to_its_end_leaves_what_was_there(void **state)
{
	const char *path = in_directory("report");
	struct rlimit before, small;
	assert_true(race_file_write(path, TEXT("what was"), why));
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	bool written = race_file_write(path, TEXT("longer than that"), why);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_false(written);
	assert_non_null(strstr(why, "report cannot be written: File too large"));
	assert_string_equal(content(path), "what was");
	assert_int_equal(files(), 1);
	unlink(path);
}

static void behind_a_link_the_file_is_replaced_and_the_link_stays(void **state)
{
	const char *path = in_directory("report"), *link = in_directory("link");
	assert_true(race_file_write(path, TEXT("one"), why));
	assert_int_equal(symlink(path, link), 0);
	assert_true(race_file_write(link, TEXT("two"), why));
	assert_true(S_ISLNK(mode_of(link)));
	assert_string_equal(content(path), "two");
	unlink(link);
	unlink(path);
}

static void a_fifo_that_nobody_reads_is_a_failure_and_not_a_wait(void **state)
{
	const char *path = in_directory("fifo");
	char seen[10] = "";
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(20); /* it would wait for ever */
	assert_true(race_file_check(path, why));
	assert_false(race_file_write(path, TEXT("report"), why));
	alarm(0);
	assert_non_null(strstr(why, "fifo cannot be written: No such device or address"));
	int reader = open(path, O_RDONLY | O_NONBLOCK);
	assert_true(race_file_write(path, TEXT("report"), why));
	assert_int_equal(read(reader, seen, sizeof seen), 6);
	assert_string_equal(seen, "report");
	assert_true(S_ISFIFO(mode_of(path)));
	close(reader);
	unlink(path);
	assert_false(race_file_write("/dev/full", TEXT("report"), why));
	assert_string_equal(why, "/dev/full cannot be written: No space left on device");
	assert_true(S_ISCHR(mode_of("/dev/full")));
}

static int start(void **state)
{
	return mkdtemp(directory) == NULL;
}

static int end(void **state)
{
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_look_whether_it_can_be_written_leaves_nothing),
		cmocka_unit_test(a_file_is_replaced_as_a_whole_with_its_mode),
		cmocka_unit_test(what_cannot_be_written_to_its_end_leaves_what_was_there),
		cmocka_unit_test(behind_a_link_the_file_is_replaced_and_the_link_stays),
		cmocka_unit_test(a_fifo_that_nobody_reads_is_a_failure_and_not_a_wait),
	};
	return cmocka_run_group_tests(tests, start, end);
}
