/* A process, seen from outside (process.h). */
#include "lib/process.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

int process_open_files(pid_t pid)
{
	char path[64];
	int count = -2; /* . and .. */
	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *files = opendir(path);
	if (!files)
		return -1;
	while (readdir(files))
		count++;
	closedir(files);
	return count;
}

int64_t process_resident_kib(pid_t pid)
{
	char path[64], line[200];
	long kib = -1;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %ld", &kib) != 1)
		;
	if (file)
		fclose(file);
	return kib;
}

int64_t process_cpu_us(pid_t pid)
{
	clockid_t clock;
	struct timespec used;
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return -1;
	return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

int64_t process_cpu_below_us(pid_t pid)
{
	char path[64];
	int64_t sum = 0, own;
	int child;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	FILE *children = fopen(path, "re");
	while (children && fscanf(children, "%d", &child) == 1) {
		own = process_cpu_us(child);
		sum += (own > 0 ? own : 0) + process_cpu_below_us(child);
	}
	if (children)
		fclose(children);
	return sum;
}
