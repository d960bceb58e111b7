/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What tests and writes of events do for the connection. */

struct userev;

/* At intervals: connects, sends and receives, without blocking. */
void look_for_daemon(struct userev *);
