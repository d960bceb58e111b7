/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Status pages as files. They have names, in a directory of their own, so they outlive our processes, and a successor finds them. */

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "kernel/kernel.h"

struct page_files {
	int directory; /* writable; -1: none, so pages are not files */
	int read_only; /* the same through a read-only mount, if possible */
	int timer;
	int marker;	/* a page without a tenant, so that the directory is not removed */
	unsigned held;	/* pages that this process has, also those that another process has made */
	unsigned pause; /* seconds until the next look at the directory; 0: none */
};

#define PAGE_FILES_NONE                                                                                                \
	(struct page_files)                                                                                            \
	{                                                                                                              \
		.directory = -1, .read_only = -1, .timer = -1, .marker = -1                                            \
	}

/* Borrows the directories, and sweeps: now, and later for pages that are still held. 0 or a negative errno. */
int page_files_init(struct page_files *, int directory, int read_only, int epoll);
void page_files_deinit(struct page_files *);
/* When the timer may have expired. */
void page_files_dispatch(struct page_files *);

/* A page of zeros, with room for what is behind it: `ret_fd` is writable, `ret_client` is not. 0 or a negative errno. */
int page_file_new(struct page_files *, int *ret_fd, int *ret_client);
/* The end of a page: clients look for another daemon. Closes the fd. */
void page_file_free(struct page_files *, int fd);

/* Whether a file may be a page: one of an older version ends with the page. */
bool page_file_has_size(const struct stat *);
/* Makes room behind a page for traces: 0 or a negative errno. */
int page_file_grow(int fd);
/* The byte that tells clients of KERNEL_STATES. */
uint8_t page_traces_byte(uint16_t state);
/* Writes behind the page which traces have the event of this bit: KERNEL_STATES. 0 or a negative errno. */
int page_file_trace(int fd, uint32_t bit, uint16_t state);

/* Abandons each page in the directory that no process holds. Returns how many are held, or a negative errno if some failed. */
int page_files_sweep(int directory);

/* --- the directory --- */

/* Opens it, or makes it: it has to be on a tmpfs, and only the owner may write to it. An fd or a negative errno. */
int page_directory_open(const char *path, uid_t owner);
/* A copy of the mount that is attached nowhere, and ends with its fd; or a negative errno. */
int mount_clone(const char *path, bool read_only);
/* The same directory through a read-only mount, or -1. */
int page_directory_clone(const char *path);
/* Opens the directory of the daemon with this control socket, for its own pages ("pages") or a keeper's. `ret`: its path. */
int page_directory_find(const char *control_socket, const char *kind, uid_t owner, char *ret, size_t size);
