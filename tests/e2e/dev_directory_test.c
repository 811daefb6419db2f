/* The directory of `lastunit dev`: one supervisor in each, nothing of others is touched, an ephemeral one leaves nothing.
 *
 * Bugs it guards against: two supervisors on one directory; a directory under /root that `postgres` cannot reach;
 * somebody's files removed with it.
 */
#include "e2e/dev_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cmd/dev_home.h"

static void is_refused_the_directory(struct dev *second)
{
	assert_false(dev_says(second, "ready"));
	assert_int_equal(reap(second->pid), 2);
	close(second->output);
	assert_non_null(strstr(second->text, "is in use by another `lastunit dev`"));
}

static void two_on_one_directory_are_refused(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	struct dev second = dev;
	dev_start(&second, NULL);
	is_refused_the_directory(&second);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	/* on the same port, too: another port would not help */
	dev_start_listening(&second, dev_value(&dev, "LASTUNIT_URL") + strlen("http://"), NULL);
	is_refused_the_directory(&second);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

/* It must not clear away at its end what it was refused at its beginning. */
static void a_refused_ephemeral_one_removes_nothing(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	struct dev second = dev;
	dev_start(&second, "--ephemeral");
	is_refused_the_directory(&second);
	assert_true(exists("%s/dev.env", dev.data));
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void a_busy_port_is_said_before_anything_is_made(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	char listen_address[32];
	snprintf(listen_address, sizeof listen_address, "127.0.0.1:%d", ntohs(address.sin_port));
	dev_start_listening(&dev, listen_address, NULL);
	assert_false(dev_says(&dev, "ready"));
	assert_int_equal(reap(dev.pid), 2);
	close(dev.output);
	close(fd);
	assert_non_null(strstr(dev.text, listen_address));
	assert_non_null(strstr(dev.text, "is in use"));
	assert_false(exists("%s", dev.data));
	dev_done(&dev);
}

static void ephemeral_leaves_nothing(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	char sockets[PATH_BYTES], link[PATH_BYTES + 16];
	snprintf(link, sizeof link, "%s/sockets", dev.data);
	ssize_t size = readlink(link, sockets, sizeof sockets - 1);
	assert_true(size > 0);
	sockets[size] = 0;
	assert_int_equal(dev_stop(&dev), 0);
	assert_false(exists("%s", dev.data));
	assert_false(exists("%s", sockets));
	dev_done(&dev);
}

static void keep(const struct dev *dev, const char *name)
{
	char path[PATH_BYTES + 16];
	snprintf(path, sizeof path, "%s/%s", dev->data, name);
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	close(fd);
}

static void refused_directory(struct dev *dev, const char *why)
{
	dev_start(dev, "--ephemeral");
	assert_false(dev_says(dev, "ready"));
	assert_int_equal(reap(dev->pid), 2);
	close(dev->output);
	if (!strstr(dev->text, why))
		fail_msg("%s", dev->text);
}

static void a_directory_of_others_is_refused_and_left_as_it_was(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	assert_int_equal(mkdir(dev.data, 0700), 0);
	keep(&dev, "diary");
	refused_directory(&dev, "/data is not empty and no data directory of lastunit dev: choose another\n");
	assert_false(exists("%s/lock", dev.data));
	assert_false(exists("%s/sockets", dev.data));
	struct stat status;
	assert_int_equal(stat(dev.data, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	char path[PATH_BYTES + 16];
	snprintf(path, sizeof path, "%s/diary", dev.data);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof path, "%s/postgres", dev.data); /* a cluster of somebody's own may be called so, too */
	assert_int_equal(mkdir(path, 0700), 0);
	refused_directory(&dev, "no data directory of lastunit dev");
	assert_false(exists("%s/lock", dev.data));
	dev_done(&dev);
}

/* As somebody who is not root, of a directory that is another's. */
static void refused_to_nobody(const char *directory, const char *why)
{
	char said[512] = "";
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct child_user user;
		struct dev_home home;
		bool opened = setresuid(65534, 65534, 65534) < 0 || !child_user_find(&user) ||
		              dev_home_open(directory, &user, &home, said);
		_exit(write(ends[1], said, sizeof said) != sizeof said || opened);
	}
	assert_int_equal(reap(pid), 0);
	assert_int_equal(read(ends[0], said, sizeof said), sizeof said);
	close(ends[0]);
	close(ends[1]);
	if (!strstr(said, why))
		fail_msg("%s", said);
}

static void a_directory_of_another_user_is_told_as_such(void **state)
{
	if (geteuid() != 0)
		skip(); /* nobody else to be */
	struct dev dev;
	dev_begin(&dev);
	assert_int_equal(mkdir(dev.data, 0700), 0);
	refused_to_nobody(dev.data, "/data is another user's, who lets nobody in: choose another --data");
	assert_int_equal(chmod(dev.data, 0711), 0);
	refused_to_nobody(dev.data, "/data/lock: Permission denied: choose another --data");
	dev_done(&dev);
}

/* In /tmp anybody may have made it before, with a dev.env whose keys he knows. */
static void a_directory_that_others_may_write_into_is_refused(void **state)
{
	struct dev dev;
	struct stat status;
	char path[PATH_BYTES + 16];
	dev_begin(&dev);
	assert_int_equal(mkdir(dev.data, 0700), 0);
	assert_int_equal(chmod(dev.data, 0777), 0);
	keep(&dev, "lock");
	refused_directory(&dev, "/data is another user's, or others may write into it: choose another --data\n");
	assert_int_equal(stat(dev.data, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0777);
	/* Where nobody has put anything it is shut, and taken: a volume of a container is often so. */
	snprintf(path, sizeof path, "%s/lock", dev.data);
	assert_int_equal(unlink(path), 0);
	dev_ready(&dev, "--ephemeral");
	assert_int_equal(stat(dev.data, &status), 0);
	assert_int_equal(status.st_mode & S_IWOTH, 0);
	assert_int_equal(dev_stop(&dev), 0);
	if (geteuid() == 0) {
		assert_int_equal(mkdir(dev.data, 0755), 0);
		assert_int_equal(chown(dev.data, 65534, 65534), 0);
		refused_directory(&dev, "/data is another user's, or others may write into it: choose another --data\n");
		setenv("SUDO_UID", "65534", 1); /* he asked for it himself */
		dev_ready(&dev, "--ephemeral");
		unsetenv("SUDO_UID");
		assert_int_equal(dev_stop(&dev), 0);
	}
	dev_done(&dev);
}

static void ephemeral_leaves_what_others_keep_there(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	assert_int_equal(dev_stop(&dev), 0);
	keep(&dev, "diary");
	dev_ready(&dev, "--ephemeral");
	assert_int_equal(dev_stop(&dev), 0);
	assert_true(exists("%s/diary", dev.data));
	assert_false(exists("%s/postgres", dev.data));
	assert_false(exists("%s/dev.env", dev.data));
	dev_done(&dev);
}

static void a_directory_that_postgres_cannot_reach_becomes_a_link(void **state)
{
	if (geteuid() != 0)
		skip(); /* whoever runs it reaches its own directory */
	struct dev dev;
	dev_begin(&dev);
	assert_int_equal(chmod(dev.base, 0700), 0);
	dev_ready(&dev, "--ephemeral");
	struct stat status;
	assert_int_equal(lstat(dev.data, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	char target[PATH_BYTES];
	ssize_t size = readlink(dev.data, target, sizeof target - 1);
	assert_true(size > 0);
	target[size] = 0;
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	assert_int_equal(dev_stop(&dev), 0);
	assert_false(exists("%s", dev.data));
	assert_false(exists("%s", target));
	dev_done(&dev);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(two_on_one_directory_are_refused),
	cmocka_unit_test(a_refused_ephemeral_one_removes_nothing),
	cmocka_unit_test(a_busy_port_is_said_before_anything_is_made),
	cmocka_unit_test(ephemeral_leaves_nothing),
	cmocka_unit_test(a_directory_of_others_is_refused_and_left_as_it_was),
	cmocka_unit_test(a_directory_that_others_may_write_into_is_refused),
	cmocka_unit_test(a_directory_of_another_user_is_told_as_such),
	cmocka_unit_test(ephemeral_leaves_what_others_keep_there),
	cmocka_unit_test(a_directory_that_postgres_cannot_reach_becomes_a_link),
};

DEV_MAIN(tests)
