/* The secret that all instances on one database share (sql/0008): made by the migration, never changed. */
#ifndef STORE_SECRET_H
#define STORE_SECRET_H

#include "store/pg.h"

#define SECRET_BYTES 32

/* Untouched on failure. */
enum lu_error secret_load(struct pg *pg, int64_t deadline_ns, uint8_t ret_secret[SECRET_BYTES]) LU_MUST_CHECK;

#endif
