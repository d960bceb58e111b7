/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Creating and closing a userev. */

#include "client/library/library.h"

/*
 * Does not connect. The status page will be at `page`, where WIRE_PAGE_FILE_BYTES of the caller's are mapped, zeros so far. The caller
 * takes them back, by files.page = NULL, before userev_close(). 0 or a negative errno.
 */
int open_at(const char *socket, uint8_t *page, struct userev **ret);
/* NULL stands for the userev of declared events, which is NULL until the first module is loaded. */
struct userev *open_resolve(struct userev *);
/* The userev of declared events, which is created if it does not exist. NULL: there is no memory. */
struct userev *open_declared(void);
