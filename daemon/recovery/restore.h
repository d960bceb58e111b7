/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

struct daemon;

/*
 * Restores the state of the last daemon from the keeper, before the daemon serves clients. Things that cannot be restored are left
 * out. 0; or a negative errno, after a line in the log: the next daemon can try again.
 */
int restore(struct daemon *);
