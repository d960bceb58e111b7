/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A harness is one function, which libFuzzer calls with bytes of its choice. It keeps no state. require() states the
 * properties for all inputs.
 */

#include "protocol/base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			__builtin_trap();                                                                              \
	} while (0)

/* A copy of exactly that size, so that ASan sees each access behind it; freed by _cleanup_(freep). as_text() adds a NUL. */
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
