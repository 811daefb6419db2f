/* The struct that a member is embedded in: how a callback that is given the member finds what it belongs to.
 * Thread: any; pure.
 */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
