/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Compares an event's format file in tracefs with a description. */

enum { FORMAT_SAME = 0, FORMAT_NONE = 1, FORMAT_OTHER = 2 };

/*
 * Whether the event with the canonical description's name has the same fields: FORMAT_SAME, FORMAT_OTHER, FORMAT_NONE if there is no
 * such event, or a negative errno. `tracefs` is its directory.
 */
int format_compare(int tracefs, const char *canonical);
