/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Included in front of everything by `make coverage`: processes that end with _exit() write their counts, too. */

#include <unistd.h>

#ifdef __cplusplus
extern "C"
#endif
	void
	__gcov_dump(void);

__attribute__((__noreturn__)) static inline void counted_exit(int status)
{
	__gcov_dump();
	_exit(status);
}

#define _exit counted_exit
