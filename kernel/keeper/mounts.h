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
/* Opens the directory of pages, writable and through a read-only mount, in the same namespace. */
int mounts_open_pages(const char *directory, struct mounts *ret, struct text *why);
/* For the page of kernels before 6.4: tracefs once more, read-only; and the directory for a successor's information. */
int mounts_open_status(const char *mounted, const char *directory, struct mounts *ret, struct text *why);
