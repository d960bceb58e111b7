/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Queries about an event. */

#include "client/library/library.h"

/* Copies what userev_why() returns, which the next call or record of another thread may change. Whether there is a text. */
bool event_copy_why(const struct userev_event *, char *to, size_t size);
