/* SPDX-License-Identifier: CC0-1.0 */
#pragma once

/* A stack of numbers, as an example of a library. */

#include <stdbool.h>

struct stack {
	int number[8];
	unsigned n;
};

bool stack_push(struct stack *, int number);
bool stack_pop(struct stack *, int *ret);
