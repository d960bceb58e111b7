/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Arrays that grow. */

#include "protocol/base/base.h"

/* The array with room for one more element behind its first `n`, in powers of two. NULL: no memory, and the array is as it was. */
static inline void *array_grow(void *array, size_t n, size_t element_size)
{
	return n & (n - 1) ? array : reallocarray(array, MAX(n * 2, (size_t)1), element_size);
}
