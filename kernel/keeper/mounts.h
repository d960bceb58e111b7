/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's own mounts: of tracefs, by which the guard knows the keeper's files, and of the directory of status pages. */

#include "kernel/user_events/user_events.h"
#include "protocol/base/text.h"

/* Mounts a BPF file system for all processes, before mounts_open_tracefs() enters a mount namespace. */
void mounts_prepare(void);
/*
 * Opens tracefs through a mount of our own, wherever it is mounted (NULL: nowhere yet). 0, or a negative errno with a sentence that
 * says what to do. Needs CAP_SYS_ADMIN, as do the others.
 */
int mounts_open_tracefs(const char *mounted, struct mounts *ret, struct text *why);
/* Where tracefs is mounted if it is not mounted yet. */
#define KEEPER_TRACEFS "/sys/kernel/tracing"
/*
 * Opens the directory of pages, writable, and `read_only` through a read-only mount: the same directory; or for the page of kernels
 * before 6.4 tracefs once more. Otherwise the host's root in a container could reopen a page for writing, or truncate it, which removes
 * it from all memory.
 */
int mounts_open_pages(const char *directory, const char *read_only, struct mounts *ret, struct text *why);
