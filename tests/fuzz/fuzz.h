/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A harness is one function that libFuzzer calls with bytes of its choice. It does no I/O, keeps nothing, and says by
 * require() what has to hold whatever the bytes are.
 */

#include "protocol/base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			__builtin_trap();                                                                              \
	} while (0)

/* A copy with nothing behind it, so that who reads on is caught; freed by _cleanup_(freep). With a NUL where it is text. */
static inline void *exactly(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);

	require(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

static inline char *as_text(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);

	require(copy);
	if (size)
		memcpy(copy, data, size);
	copy[size] = '\0';
	return copy;
}
