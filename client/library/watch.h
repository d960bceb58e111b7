/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* WATCH, WATCHING and CHANGED. */

#include "client/library/library.h"

bool watch_is_wanted(const struct userev *);
int watch_ask(struct userev *);
/* Takes CHANGED, which is not an answer. */
int watch_take_changed(struct userev *, const struct message *);
