/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What programs can query about an event and about refusals. */

#include <stddef.h>

/* Sets what userev_refusal() returns in this thread. */
void event_set_refusal(const char *text, size_t length);
