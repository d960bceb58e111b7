/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* RELEASE and RELEASED. */

#include "client/library/library.h"

/* Its events are off and not registered, and will be released at the daemon. */
void release_batch(struct userev *, struct batch *);
/* An event with this bit was released. */
void release_bit(struct userev *, uint32_t bit);

bool release_is_wanted(const struct userev *);
int release_ask(struct userev *);
int release_take(struct userev *, const struct message *, struct fdset *, uint16_t count);
