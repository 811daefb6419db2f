/* A process, seen from outside: what it holds and what it uses. Any thread; -1 where it is gone. */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* Descriptors open now. */
int process_open_files(pid_t pid);
int64_t process_resident_kib(pid_t pid);
/* CPU used so far by all its threads, in us. */
int64_t process_cpu_us(pid_t pid);
/* The same of all whom it started, and of those whom they did: `lastunit dev` has the service and its servers there. */
int64_t process_cpu_below_us(pid_t pid);

#endif
