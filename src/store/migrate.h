/* Schema migrations: sql/NNNN_name.sql, embedded, applied in order, each once, in one transaction under an advisory
 * lock. A database that is newer than the binary is refused. */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include "store/pg.h"

struct migrate_report {
	int64_t found; /* version before */
	int64_t now;   /* version after */
	int64_t known; /* newest version this binary knows */
};

/* Applies what is missing. False with a sentence in ret_why. The session must not have SET ROLE. */
bool migrate_run(struct pg *pg, int64_t deadline_ns, struct migrate_report *ret_report, char ret_why[512])
	LU_MUST_CHECK;
/* The same. While another session has the lock, on_wait hears who it is, after a second and every few seconds from then. */
bool migrate_run_told(struct pg *pg, int64_t deadline_ns, void (*on_wait)(const char *sentence),
                      struct migrate_report *ret_report, char ret_why[512]) LU_MUST_CHECK;
/* Only looks: for serve, which refuses a database that is older or newer than itself. */
bool migrate_check(struct pg *pg, int64_t deadline_ns, struct migrate_report *ret_report, char ret_why[512])
	LU_MUST_CHECK;
/* Is the role there that the service works under? Its databases' GRANTs come with a dump, the role itself does not. */
bool migrate_check_role(struct pg *pg, int64_t deadline_ns, char ret_why[512]) LU_MUST_CHECK;
/* May the user of this session work under lastunit_service? Otherwise ret_why has the GRANT to run. True where there is
 * no such role yet: then there is no schema either, and migrate_check() says so. */
bool migrate_check_member(struct pg *pg, int64_t deadline_ns, char ret_why[512]) LU_MUST_CHECK;

#endif
