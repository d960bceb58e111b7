/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Releasing events at the daemon. */

#include "client/library/session.h"

/* An event with this bit was released. */
void release_bit(struct userev *, uint32_t bit);
void release_forget(struct userev *);

/* Of the table of exchanges, session.h. */
bool release_is_wanted(const struct userev *);
int release_ask(struct userev *, uint8_t *buffer);
int release_take(struct userev *, struct reply *, uint16_t count);
