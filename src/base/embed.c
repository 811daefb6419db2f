/* Looks up a file built into the binary. There are a few dozen, looked up at start: a walk is enough.
 * Failure modes: a name that is not there is a bug of the build (CHECK). */
#include "base/embed.h"

#include <string.h>

#include "base/check.h"

struct text embed_find(const char *name)
{
	const struct embedded_file *file = embedded_files;
	while (file->name && strcmp(file->name, name) != 0)
		file++;
	CHECK(file->name && "embedded file");
	return file->content;
}
