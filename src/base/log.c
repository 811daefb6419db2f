/* The log: `2026-11-29T13:45:00.123Z info event key=value`, one write(2) per line, so that lines of several threads
 * and processes on one pipe do not mix.
 *
 * Happy path: format into a buffer on the stack, write. Failure modes: a line longer than LINE_BYTES_MAX is cut and
 * ends in "..."; a control byte that slipped in is shown as a blank, so one event is always one line; a line that
 * stderr does not take now is lost and counted, and the next that it takes comes behind one that says how many were.
 * errno is left as it was.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

#include "base/clock.h"
#include "base/metrics.h"

#define LINE_BYTES_MAX 4096 /* PIPE_BUF: a write of so much to a pipe is atomic */
#define QUOTE_BYTES_MAX 200
#define QUOTE_RING 4

static _Atomic(enum log_level) level_min = LOG_INFO;

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&level_min, level, memory_order_relaxed);
}

/* Whoever reads a pipe or a terminal may have stopped, and a write that waits for him would stop the service. O_NONBLOCK
 * belongs to the open file, which other processes share: it is set on one of our own, opened anew, never on theirs. */
static bool write_own(const char *line, size_t size, bool *ret_written)
{
	int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (own < 0)
		return false;
	*ret_written = write(own, line, size) == (ssize_t)size;
	close(own);
	return true;
}

/* One that may not be opened anew (of another user, no descriptor left). Linux says that a pipe is writable while it has
 * a free page, which holds a line. Only if another process takes the last one right now does this wait. */
static bool write_polled(const char *line, size_t size)
{
	struct pollfd shared = {.fd = STDERR_FILENO, .events = POLLOUT};
	return poll(&shared, 1, 0) == 1 && shared.revents & POLLOUT && write(STDERR_FILENO, line, size) == (ssize_t)size;
}

bool log_write(const char *line, size_t size)
{
	struct stat kind;
	bool written = false;
	int error = errno;
	if (fstat(STDERR_FILENO, &kind) != 0)
		;
	else if (S_ISSOCK(kind.st_mode))
		written = send(STDERR_FILENO, line, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
	else if (S_ISREG(kind.st_mode)) /* opened anew it would begin at its start */
		written = write(STDERR_FILENO, line, size) == (ssize_t)size;
	else if (!write_own(line, size, &written))
		written = write_polled(line, size);
	errno = error;
	return written;
}

static size_t begin_line(char *line, const char *level)
{
	clock_format(clock_unix_us(), line);
	return 24 + (size_t)snprintf(line + 24, 16, " %s ", level);
}

/* One at a time, or another thread could take the room that write_polled() saw. */
static void put_line(const char *line, size_t size)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static unsigned long long lost;
	pthread_mutex_lock(&mutex);
	if (lost) {
		char note[128];
		size_t at = begin_line(note, "warn");
		at += (size_t)snprintf(note + at, 64, "log_lost lines=%llu\n", lost);
		if (log_write(note, at))
			lost = 0;
	}
	if (lost || !log_write(line, size)) {
		lost++;
		metric_add(METRIC_LOG_LOST, 1);
	}
	pthread_mutex_unlock(&mutex);
}

void log_event(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	if (level < atomic_load_explicit(&level_min, memory_order_relaxed))
		return;
	int error = errno;
	char line[LINE_BYTES_MAX];
	size_t size = begin_line(line, names[level]);
	size_t room = sizeof line - size - 1; /* a line feed takes the place of the NUL */
	va_list arguments;
	va_start(arguments, format);
	int wanted = vsnprintf(line + size, room + 1, format, arguments);
	va_end(arguments);
	if (wanted > 0) {
		size_t message = (size_t)wanted <= room ? (size_t)wanted : room;
		for (size_t i = size; i < size + message; i++)
			if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
				line[i] = ' ';
		size += message;
		if ((size_t)wanted > room)
			memcpy(line + size - 3, "...", 3);
	}
	line[size++] = '\n';
	put_line(line, size);
	errno = error;
}

/* Bytes at `from` that may stand in a line as they are; 0 if the first must be escaped. */
static size_t plain_bytes(const uint8_t *from, size_t left)
{
	if (*from < 0x80)
		return *from >= ' ' && *from != 0x7f && *from != '"' && *from != '\\';
	utf8proc_int32_t code;
	utf8proc_ssize_t size = utf8proc_iterate(from, (utf8proc_ssize_t)left, &code);
	if (size <= 0)
		return 0;
	switch (utf8proc_category(code)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF: /* among them the marks that turn a line around in a terminal */
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
	case UTF8PROC_CATEGORY_ZS:
		return 0;
	default:
		return (size_t)size;
	}
}

const char *log_quote(struct text text)
{
	static _Thread_local char ring[QUOTE_RING][1 + QUOTE_BYTES_MAX + sizeof "...\""];
	static _Thread_local unsigned turn;
	char *const quoted = ring[turn++ % QUOTE_RING], *const out = quoted + 1;
	if (!text.size)
		return strcpy(out, "\"\"");
	bool blank = false;
	size_t size = 0, i = 0;
	while (i < text.size) {
		const uint8_t *from = (const uint8_t *)text.data + i;
		size_t plain = plain_bytes(from, text.size - i);
		size_t wanted = plain ? plain : sizeof "\\x00" - 1;
		if (size + wanted > QUOTE_BYTES_MAX)
			break;
		blank |= *from == ' ';
		if (plain)
			memcpy(out + size, from, plain);
		else
			snprintf(out + size, sizeof "\\x00", "\\x%02x", *from);
		size += wanted;
		i += plain ? plain : 1;
	}
	strcpy(out + size, i < text.size ? "..." : "");
	if (!blank)
		return out;
	*quoted = '"';
	strcat(out, "\"");
	return quoted;
}
