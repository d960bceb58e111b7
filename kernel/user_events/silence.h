/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Holdings whose bits stay off or on. */

#include "kernel/user_events/user_events.h"

/* SILENCE. An answer; that of a call that changes something comes with silences_send(), or with a later call. */
int on_silence(struct user_events *, struct kernel_call *, const struct target *);
/* Changes the holdings of earlier calls. */
void silences_send(struct user_events *);
/* At once, for one holding. 0, or a negative errno: then it is as it was. */
int silence_set(struct user_events *, struct holding *, uint16_t state);
