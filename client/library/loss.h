/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Lost records: counted, and reported to the daemon in LOST. */

#include "client/library/library.h"

/* Counts one more lost record. A later record, if no other call, reports it. Lock-free. */
void loss_add(struct userev *, _Atomic uint64_t *count);
/* Sends the daemon how many records were lost since the last report. With the lock held. */
void loss_report(struct userev *);
