/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's own mounts: of tracefs, by which the guard knows its files, and of a file system for pages. */

#include "kernel/user_events/user_events.h"
#include "protocol/base/text.h"

/* What has to be mounted for all before the next one makes a mount namespace of our own. */
void mounts_prepare(void);
/*
 * Opens tracefs through a mount of our own, wherever it is mounted (NULL: nowhere yet). 0, or a negative errno with a
 * sentence that says what to do. Needs CAP_SYS_ADMIN, as does the next one.
 */
int mounts_open_tracefs(const char *mounted, struct mounts *ret, struct text *why);
/*
 * Opens the directory of pages, writable and by a read-only mount, in the same namespace. NULL, or where that can't be: makes a
 * file system for them, which ends with the processes that have it open.
 */
int mounts_open_pages(const char *directory, struct mounts *ret, struct text *why);
/* For the kernel's own page: tracefs once more, read-only; and the directory for what a successor has to know. */
int mounts_open_status(const char *mounted, const char *directory, struct mounts *ret, struct text *why);
