/* SPDX-License-Identifier: CC0-1.0 */
/* cc use_stack.c -L. -lstack: has no events of its own; those of the library are registered. */
#include <stdio.h>

#include "stack.h"

int main(void)
{
	struct stack stack = { .n = 0 };
	int number = 0;

	for (int i = 1; i <= 10; i++)
		stack_push(&stack, i * i);
	while (stack_pop(&stack, &number))
		printf("%d\n", number);
	return 0;
}
