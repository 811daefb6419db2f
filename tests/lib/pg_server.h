/* A private PostgreSQL for a test: a new cluster on a unix socket in a directory of its own.
 *
 *	struct pg_server server;
 *	pg_server_start(&server, "fsync = on\n");
 *	... server.url ...
 *	pg_server_done(&server);
 *
 * Every function waits until what it says is true (start: it accepts connections; stop: the process is gone), so no
 * test sleeps. Whatever fails ends the test program with a sentence and the server's log on stderr: there is nothing a
 * test could do about it. PostgreSQL refuses to run as root: then it runs as `postgres`, or `nobody` where there is no
 * such user. The server dies with the thread that started it, so start it from the main thread.
 * Thread: one at a time per server.
 */
#ifndef TESTS_LIB_PG_SERVER_H
#define TESTS_LIB_PG_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct pg_server {
	pid_t pid;          /* the postmaster; 0 while it does not run */
	char directory[64]; /* 0700; holds the socket, the data and the log. TMPDIR or /tmp */
	char url[160];      /* the superuser's, database postgres */
};

enum pg_server_end {
	PG_SERVER_FAST,      /* sessions are ended, everything is written: as by an administrator */
	PG_SERVER_IMMEDIATE, /* as by a power cut, if fsync is on */
};

/* `options` are lines of postgresql.conf, put behind ours (NULL: none). Ours: fsync off, a small cache, no TCP. */
void pg_server_start(struct pg_server *server, const char *options);
/* Ends the server; the directory stays, so pg_server_restart() finds what was written. */
void pg_server_stop(struct pg_server *server, enum pg_server_end how);
/* Starts it again on the same data and socket; ends it first if it runs. */
void pg_server_restart(struct pg_server *server, enum pg_server_end how);
/* Ends it, waits, removes the directory. Accepts one that was stopped. */
void pg_server_done(struct pg_server *server);
/* SIGSTOP and SIGCONT for the session with this backend pid: it keeps its locks and does not answer. */
void pg_server_pause(pid_t backend);
void pg_server_resume(pid_t backend);

/* A new database with the schema in it; `url` gets room for 200 bytes. */
void pg_server_database(const struct pg_server *server, const char *name, char url[200]);
/* Runs SQL (several statements are one transaction) as the superuser, past the code under test; the first value of the
 * last result as text ("" if none). The text lives in a ring of eight per thread. Ends the test program on an error,
 * unless `ret_sqlstate` is given: then it gets "" or the SQLSTATE. */
const char *pg_server_ask(const char *url, const char *sql);
const char *pg_server_try(const char *url, const char *sql, char ret_sqlstate[6]);

#endif
