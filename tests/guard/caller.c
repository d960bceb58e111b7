/* SPDX-License-Identifier: GPL-2.0-or-later */

/* caller FD OPERATION MANNER EVENT: tries the operation, and exits with the errno. Built for 64 and for 32 bits. */

#include "tests/guard/attempt.h"

int main(int argc, char **argv)
{
	if (argc != 5)
		return 255;
	return attempt((int)strtol(argv[1], NULL, 10), (enum operation)strtol(argv[2], NULL, 10),
		       (unsigned)strtoul(argv[3], NULL, 10), argv[4]);
}
