/* A whole file in memory, so that its hash is that of what is read, however often. */
#ifndef CMD_FILE_READ_H
#define CMD_FILE_READ_H

#include "base/buffer.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

/* path "-": standard input. False with a sentence; the buffer is the caller's either way. */
bool file_read(const char *path, struct buffer *out, char ret_why[256]) __attribute__((warn_unused_result));

#endif
