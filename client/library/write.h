/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Writing records. */

struct userev;

/* Sends the daemon how many records were lost since the last report. */
void write_report_losses(struct userev *);
