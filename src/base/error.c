/* The table errors.def as C arrays indexed by enum lu_error, LU_OK first.
 *
 * Failure modes: a number outside the table is a bug (CHECK); an unknown code makes lu_error_parse() false.
 */
#include "lastunit/error.h"

#include <string.h>

#include "base/check.h"

struct error_row {
	const char *code;
	const char *title;
	const char *mend;
	int status;
	enum lu_retry retry;
};

#define X(NAME, code_, status_, retry_, title_, mend_) \
	[LU_##NAME] = {.code = #code_, .title = title_, .mend = mend_, .status = status_, .retry = LU_RETRY_##retry_},
static const struct error_row errors[LU_ERROR_COUNT] = {
	[LU_OK] = {.code = "ok", .title = "Done", .mend = "Nothing to mend.", .status = 200, .retry = LU_RETRY_STORED},
#include "lastunit/errors.def"
};
#undef X

static const struct error_row *row(enum lu_error error)
{
	CHECK((unsigned)error < LU_ERROR_COUNT);
	return &errors[error];
}

const char *lu_error_code(enum lu_error error)
{
	return row(error)->code;
}

int lu_error_status(enum lu_error error)
{
	return row(error)->status;
}

const char *lu_error_title(enum lu_error error)
{
	return row(error)->title;
}

const char *lu_error_mend(enum lu_error error)
{
	return row(error)->mend;
}

enum lu_retry lu_error_retry(enum lu_error error)
{
	return row(error)->retry;
}

bool lu_error_stored(enum lu_error error)
{
	return row(error)->retry == LU_RETRY_STORED;
}

bool lu_error_parse(const char *code, enum lu_error *ret_error)
{
	for (unsigned i = 0; i < LU_ERROR_COUNT; i++)
		if (strcmp(errors[i].code, code) == 0) {
			*ret_error = (enum lu_error)i;
			return true;
		}
	return false;
}
