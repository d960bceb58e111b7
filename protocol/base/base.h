/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Scope-bound owners, stealing, sizes; included everywhere. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(array)		    (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b)			    ((a) < (b) ? (a) : (b))
#define MAX(a, b)			    ((a) > (b) ? (a) : (b))
#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define streq(a, b)			    (strcmp((a), (b)) == 0)

#define _cleanup_(function)	   __attribute__((cleanup(function)))
#define _printf_(format_at, first) __attribute__((__format__(__printf__, format_at, first)))
#define _unused_		   __attribute__((unused))

/* To build in a local with _cleanup_, and publish in one move. */
#define steal_pointer(pointer)                                                                                         \
	({                                                                                                             \
		__typeof__(pointer) *steal_from_ = &(pointer);                                                         \
		__typeof__(pointer) stolen_ = *steal_from_;                                                            \
		*steal_from_ = NULL;                                                                                   \
		stolen_;                                                                                               \
	})

static inline void freep(void *pointer)
{
	free(*(void **)pointer);
}

/* Destruction by assignment: `fd = fd_close(fd)`. Keeps errno, accepts -1. */
static inline int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;
		close(fd);
		errno = saved;
	}
	return -1;
}

static inline void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}

static inline int fd_steal(int *fd)
{
	int stolen = *fd;
	*fd = -1;
	return stolen;
}

/* Copies what fits, always terminated. */
static inline void string_copy(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);
	memcpy(to, from, length);
	to[length] = '\0';
}
