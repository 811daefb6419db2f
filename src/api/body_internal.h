/* What body.c and body_lines.c share; nobody else includes it. */
#ifndef API_BODY_INTERNAL_H
#define API_BODY_INTERNAL_H

#include "api/body.h"

struct decoding {
	struct operation *operation;
	struct arena *arena;
	struct fault *fault;
};

/* Returns false. */
bool body_refuse(struct fault *fault, enum lu_error error, struct text detail);
#define REFUSE(d, error, ...) body_refuse((d)->fault, (error), arena_printf((d)->arena, __VA_ARGS__))

/* A client's word for use in a sentence: cut, but never inside a character. */
struct text body_excerpt(struct text text);
#define FIT(text) (int)body_excerpt(text).size, (text).data

/* A JSON integer of that range; else false, and *ret_value is as it was. value may be NULL. */
bool body_integer_within(const json_t *value, int64_t min, int64_t max, int64_t *ret_value);
/* The member `lines`. */
bool body_take_lines(struct decoding *d, const char *name, const json_t *value);

#endif
