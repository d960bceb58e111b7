/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

struct daemon;

/*
 * Takes over what the last daemon has left with the keeper, before anybody is served. What can't be had of it is said in the log
 * and done without. 0, or a negative errno where there is no going on.
 */
int restore(struct daemon *);
