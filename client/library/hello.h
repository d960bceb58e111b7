/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* HELLO and WELCOME. */

#include "client/library/library.h"

int hello_ask(struct userev *);
int hello_take(struct userev *, const struct message *, struct fdset *, uint16_t count);
