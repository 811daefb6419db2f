/* What every fuzz target gives: one function, that libFuzzer calls (make fuzz) or driver.c (make test). README.md.
 *
 * A target must not remember anything from one input to the next, must end, and must say what is wrong by CHECK().
 * Thread: one.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* 0, always. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
