/* The files that a race is asked for: each is there whole when the race is over, or as it was before.
 *
 * Thread: any. The sentence in `why` begins with the path.
 */
#ifndef CMD_RACE_FILE_H
#define CMD_RACE_FILE_H

#include "base/buffer.h"

/* Could it be written? Opens and creates nothing: minutes may pass until there is something to write. */
bool race_file_check(const char *path, char why[512]) __attribute__((warn_unused_result));
/* A new file takes the place of a regular one, with its mode; whatever else has the name (a FIFO, a device) is written
 * to. A FIFO that nobody reads is a failure, not a wait. */
bool race_file_write(const char *path, struct text content, char why[512]) __attribute__((warn_unused_result));

#endif
