/* A private redis-server for a test. Happy path: mkdtemp, write redis.conf, fork, exec, poll for PONG.
 *
 * Debian's redis-tools holds the whole server under the name redis-check-rdb: the program looks at argv[0] to know
 * what it is. So no system service is ever installed for the tests.
 * Failure modes: no binary, no directory, a server that ends at once. Each ends the test program, with the server's
 * log. If the test program dies, PR_SET_PDEATHSIG takes the server along; the directory is left for a look.
 */
#include "lib/redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#define START_WAIT_MS 20000

static _Noreturn void fail(const struct redis_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static _Noreturn void fail(const struct redis_server *server, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("redis_server: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	char path[96], line[512];
	snprintf(path, sizeof path, "%s/log", server->directory);
	FILE *log = fopen(path, "r");
	while (log && fgets(line, sizeof line, log))
		fputs(line, stderr);
	if (log)
		fclose(log);
	if (server->pid > 0)
		kill(server->pid, SIGKILL);
	exit(1);
}

static void write_configuration(const struct redis_server *server, const char *options)
{
	char path[96];
	snprintf(path, sizeof path, "%s/redis.conf", server->directory);
	FILE *conf = fopen(path, "w");
	if (!conf)
		fail(server, "cannot write %s: %s", path, strerror(errno));
	fprintf(conf, "port %d\nbind 127.0.0.1\nunixsocket %s\nunixsocketperm 700\ndir %s\nlogfile %s/log\n", server->port,
	        server->socket, server->directory, server->directory);
	fputs("save \"\"\nappendonly no\ndaemonize no\ndatabases 4\nrepl-diskless-sync-delay 0\n", conf);
	fputs("maxmemory-policy noeviction\nenable-debug-command local\n", conf);
	if (options)
		fputs(options, conf);
	if (fclose(conf) != 0)
		fail(server, "cannot write %s: %s", path, strerror(errno));
}

bool redis_server_answers(const struct redis_server *server)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(address.sun_path, server->socket);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char reply[64] = "";
	bool ready = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
	             send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && recv(fd, reply, sizeof reply - 1, 0) > 0 &&
	             (strncmp(reply, "+PONG", 5) == 0 || strncmp(reply, "-NOAUTH", 7) == 0 ||
	              strncmp(reply, "-NOPERM", 7) == 0);
	if (fd >= 0)
		close(fd);
	return ready;
}

static void launch(struct redis_server *server)
{
	char conf[96];
	snprintf(conf, sizeof conf, "%s/redis.conf", server->directory);
	pid_t parent = getpid();
	server->pid = fork();
	if (server->pid < 0)
		fail(server, "fork: %s", strerror(errno));
	if (server->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		const char *own = getenv("REDIS_SERVER");
		if (own)
			execl(own, "redis-server", conf, (char *)NULL);
		execlp("redis-server", "redis-server", conf, (char *)NULL);
		execl("/usr/bin/redis-check-rdb", "redis-server", conf, (char *)NULL);
		fprintf(stderr, "redis_server: no redis-server and no /usr/bin/redis-check-rdb: install redis-tools\n");
		_exit(127);
	}
	for (int waited_ms = 0; !redis_server_answers(server); waited_ms += 2) {
		int status;
		if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
			server->pid = 0;
			fail(server, "the server ended at once (status %d)", status);
		}
		if (waited_ms > START_WAIT_MS)
			fail(server, "no answer to PING after %d ms", START_WAIT_MS);
		poll(NULL, 0, 2);
	}
}

/* A port that was free a moment ago. Nobody else on the machine is told; a clash ends the start with Redis's log. */
static int free_port(const struct redis_server *server)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		fail(server, "no free port: %s", strerror(errno));
	close(fd);
	return ntohs(address.sin_port);
}

static void start(struct redis_server *server, const char *options, bool tcp)
{
	signal(SIGPIPE, SIG_IGN); /* hiredis writes into connections that are gone */
	memset(server, 0, sizeof *server);
	strcpy(server->directory, "/tmp/lu-redis-XXXXXX");
	if (!mkdtemp(server->directory))
		fail(server, "mkdtemp: %s", strerror(errno));
	snprintf(server->socket, sizeof server->socket, "%s/s", server->directory);
	snprintf(server->url, sizeof server->url, "unix://%s", server->socket);
	if (tcp) {
		server->port = free_port(server);
		snprintf(server->url_tcp, sizeof server->url_tcp, "redis://127.0.0.1:%d", server->port);
	}
	write_configuration(server, options);
	launch(server);
}

void redis_server_start(struct redis_server *server, const char *options)
{
	start(server, options, false);
}

void redis_server_start_tcp(struct redis_server *server, const char *options)
{
	start(server, options, true);
}

static void end(struct redis_server *server, int signal_number)
{
	if (server->pid <= 0)
		return;
	kill(server->pid, signal_number);
	kill(server->pid, SIGCONT);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	server->pid = 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status, (void)kind, (void)walk;
	return remove(path);
}

void redis_server_stop(struct redis_server *server)
{
	/* SIGKILL: there is nothing to save, and SIGTERM would wait for a script that is running. */
	end(server, SIGKILL);
	nftw(server->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void redis_server_kill(struct redis_server *server)
{
	end(server, SIGKILL);
}

void redis_server_restart(struct redis_server *server)
{
	end(server, SIGKILL);
	unlink(server->socket);
	launch(server);
}

void redis_server_pause(struct redis_server *server)
{
	int status;
	kill(server->pid, SIGSTOP);
	if (waitpid(server->pid, &status, WUNTRACED) != server->pid || !WIFSTOPPED(status)) {
		server->pid = 0;
		fail(server, "the server did not stop");
	}
}

void redis_server_resume(struct redis_server *server)
{
	int status;
	kill(server->pid, SIGCONT);
	if (waitpid(server->pid, &status, WCONTINUED) != server->pid || !WIFCONTINUED(status)) {
		server->pid = 0;
		fail(server, "the server did not go on");
	}
}

static void print_reply(FILE *out, const redisReply *reply)
{
	switch (reply->type) {
	case REDIS_REPLY_ARRAY:
		for (size_t i = 0; i < reply->elements; i++) {
			if (i > 0)
				fputc('\n', out);
			print_reply(out, reply->element[i]);
		}
		break;
	case REDIS_REPLY_INTEGER:
		fprintf(out, "%lld", reply->integer);
		break;
	case REDIS_REPLY_NIL:
		fputs("(nil)", out);
		break;
	case REDIS_REPLY_ERROR:
		fputc('-', out);
		fwrite(reply->str, 1, (size_t)reply->len, out);
		break;
	default:
		fwrite(reply->str, 1, (size_t)reply->len, out);
	}
}

char *redis_server_command(struct redis_server *server, const char *line)
{
	redisContext *context = redisConnectUnix(server->socket);
	if (!context || context->err)
		fail(server, "cannot connect for \"%s\"", line);
	/* hiredis splits a format at blanks; a literal % must be doubled, so the words are passed one by one. */
	char *copy = strdup(line), *save = NULL;
	const char *words[64];
	int count = 0;
	for (char *word = strtok_r(copy, " ", &save); word && count < 64; word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	redisReply *reply = redisCommandArgv(context, count, words, NULL);
	if (!reply)
		fail(server, "\"%s\": %s", line, context->errstr);
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		fail(server, "out of memory");
	print_reply(out, reply);
	fclose(out);
	freeReplyObject(reply);
	redisFree(context);
	free(copy);
	return text;
}
