/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The files that pages are. They have names, in a directory of their own, so that they outlive every process of ours and a
 * successor finds them.
 */

#include <sys/types.h>

#include "protocol/protocol.h"

struct page_files {
	int directory; /* writable; -1: there is none, and pages have no files here */
	int read_only; /* the same through a read-only mount where that could be had */
	int timer;
	int marker;	/* a page of no tenant's, so that nobody removes the directory */
	unsigned held;	/* pages that this process has */
	unsigned pause; /* seconds until the directory is looked through again; 0: it is not */
};

#define PAGE_FILES_NONE                                                                                                \
	(struct page_files)                                                                                            \
	{                                                                                                              \
		.directory = -1, .read_only = -1, .timer = -1, .marker = -1                                            \
	}

/* Borrows the directories, and abandons what a predecessor left behind: now, and later what still ends. 0 or a negative errno. */
int page_files_init(struct page_files *, int directory, int read_only, int epoll);
void page_files_deinit(struct page_files *);
/* Once the timer may have expired. */
void page_files_dispatch(struct page_files *);

/* A page of zeros: `ret_fd` is writable, `ret_client` is not. 0 or a negative errno. */
int page_file_new(struct page_files *, int *ret_fd, int *ret_client);
/* One that another process has made. */
void page_file_adopt(struct page_files *);
/* The end of a page: who still has it looks for another daemon. Closes the fd. */
void page_file_free(struct page_files *, int fd);

/* Abandons each page in the directory that no process holds. How many are held, or a negative errno: some could not be asked. */
int page_files_sweep(int directory);

/* --- the directory --- */

/* Opens it, made where it is missing: it has to be on a tmpfs, and the owner's alone. An fd or a negative errno. */
int page_directory_open(const char *path, uid_t owner);
/* The same directory through a mount that is read-only for everybody; -1 where that can't be had. */
int page_directory_clone(const char *path);
/* Opens that of the daemon with that control socket, for its own pages ("pages") or a keeper's. `ret`: its path. As above. */
int page_directory_find(const char *control_socket, const char *kind, uid_t owner, char *ret, size_t size);
/* Where no page is left in it, nor anybody who could make one. */
void page_directory_remove(const char *path);
