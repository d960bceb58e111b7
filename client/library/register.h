/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* REGISTER and REGISTERED. */

#include "client/library/library.h"

bool register_is_wanted(const struct userev *);
int register_ask(struct userev *);
int register_take(struct userev *, const struct message *, struct fdset *, uint16_t count);
