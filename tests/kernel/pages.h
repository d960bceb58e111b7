/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Pages that other users may read, made in each possible way. */

#include <stdint.h>
#include <sys/types.h>

enum { PAGE_BYTES = 4096 };

struct page {
	int fd;	    /* ours */
	int client; /* theirs */
	int mounts[2];
	uint64_t *words; /* our map */
};

/* A file on two mounts of one tmpfs; the readers' mount is read-only. The file's mode permits writing. */
struct page page_on_two_mounts(void);
/* A memfd, sealed against writable mappings. */
struct page page_sealed_against_later_writing(void);
/* A memfd of that mode, opened again for reading only. */
struct page page_of_an_owner(mode_t mode);
void page_free(struct page *);
/* Our map of it, made again. */
void page_map(struct page *);

/* The fd, opened again through /proc: another fd, or a negative errno. */
int page_reopen(int fd, int flags);
