/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A library with events. They are registered when the library is loaded; programs that use it need no change.
 *
 * cc -fPIC -shared stack.c -o libstack.so $(pkg-config --cflags --libs libuserev)
 */

#include "stack.h"

#include <userev.h>

USEREV_EVENT(stack, pushed, (s32, number), (u32, depth));
USEREV_EVENT(stack, full, (s32, refused));

bool stack_push(struct stack *stack, int number)
{
	if (stack->n == sizeof(stack->number) / sizeof(stack->number[0])) {
		userev_emit(stack_full, number);
		return false;
	}
	stack->number[stack->n++] = number;
	userev_emit(stack_pushed, number, stack->n);
	return true;
}

bool stack_pop(struct stack *stack, int *ret)
{
	if (stack->n == 0)
		return false;
	*ret = stack->number[--stack->n];
	return true;
}
