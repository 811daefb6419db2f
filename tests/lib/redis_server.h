/* A private redis-server for a test: on a unix socket (and, if asked, a loopback port) in a directory of its own.
 *
 *	struct redis_server server;
 *	redis_server_start(&server, "maxmemory 3mb\nmaxmemory-policy noeviction\n");
 *	... server.url, "unix:///tmp/lu-redis-…/s" ...
 *	redis_server_stop(&server);
 *
 * Every function waits until what it says is true (start: PING is answered; kill: the process is gone), so no test
 * sleeps. Whatever fails ends the test program with a sentence on stderr: there is nothing a test could do about it.
 * The server dies with the thread that started it, so start it from the main thread.
 * Thread: one at a time per server.
 */
#ifndef TESTS_LIB_REDIS_SERVER_H
#define TESTS_LIB_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct redis_server {
	pid_t pid;          /* 0 while it does not run */
	int port;           /* 0: unix socket only */
	char directory[64]; /* 0700; holds the socket, the configuration, the log and, if it saves, dump.rdb */
	char socket[96];
	char url[128];    /* unix:///…/s */
	char url_tcp[64]; /* redis://127.0.0.1:port, or "" */
};

/* `options` are lines of redis.conf, put behind ours (NULL: none). Ours: no persistence, DEBUG allowed locally. */
void redis_server_start(struct redis_server *server, const char *options);
/* The same, also listening on a free port of 127.0.0.1. */
void redis_server_start_tcp(struct redis_server *server, const char *options);
/* Ends it, waits, removes the directory. Accepts a server that was killed. */
void redis_server_stop(struct redis_server *server);
/* SIGKILL and wait; the directory stays, so that redis_server_restart() finds what was saved. */
void redis_server_kill(struct redis_server *server);
/* Starts it again, in the same directory, on the same socket and port: another run_id. Kills it first if it runs. */
void redis_server_restart(struct redis_server *server);
/* SIGSTOP and SIGCONT: connections are accepted by the kernel, nothing is answered. */
void redis_server_pause(struct redis_server *server);
void redis_server_resume(struct redis_server *server);

/* True when PING is answered, by PONG or by a demand to authenticate: it serves. */
bool redis_server_answers(const struct redis_server *server);
/* One command line, answered as text (errors as "-ERR …", arrays one element a line, nil as "(nil)"); the caller
 * frees it. For arranging and looking, past the code under test. The words are separated by blanks. */
char *redis_server_command(struct redis_server *server, const char *line);

#endif
