#include "lib/freeze.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The state is what follows the name, which may hold anything, ")" too. A thread that is gone stands still. */
static bool stands_still(pid_t pid, const char *thread)
{
	char path[64], line[512] = "";
	snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, thread);
	FILE *file = fopen(path, "r");
	if (!file)
		return true;
	size_t size = fread(line, 1, sizeof line - 1, file);
	fclose(file);
	const char *name_end = size ? strrchr(line, ')') : NULL;
	return !name_end || strchr("TtZX", name_end[2]);
}

static bool all_stand_still(pid_t pid)
{
	char path[64];
	bool still = true;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *threads = opendir(path);
	if (!threads)
		return true;
	for (struct dirent *thread; still && (thread = readdir(threads));)
		still = thread->d_name[0] == '.' || stands_still(pid, thread->d_name);
	closedir(threads);
	return still;
}

void freeze(pid_t pid)
{
	kill(pid, SIGSTOP);
	while (!all_stand_still(pid))
		usleep(1000);
}
