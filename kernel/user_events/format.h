/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* An event's format file in tracefs, against a description. */

enum { FORMAT_SAME = 0, FORMAT_NONE = 1, FORMAT_OTHER = 2 };

/*
 * Whether the event of the canonical description's name has its fields: FORMAT_SAME, FORMAT_OTHER, FORMAT_NONE where there is
 * no such event, or a negative errno. `tracefs`: its directory.
 */
int format_compare(int tracefs, const char *canonical);
