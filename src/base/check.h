/* CHECK(): a bug ends the process, in every build, with file, line and condition. Operating errors are never checked. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void check_failed(const char *file, int line, const char *condition);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

#endif
