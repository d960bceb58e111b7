/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Creating and closing a userev. */

struct userev;

/* Does not connect. 0 or a negative errno. */
int open_new(const char *socket, struct userev **ret);
