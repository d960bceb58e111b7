/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "protocol/base/base.h"

/*
 * Behind a backslash: the bytes for which the escape stands, at most four of UTF-8, and their number. Those of JSON, and \xNN for
 * a single byte. 0: there is no such escape, it is half of a pair, or a NUL.
 */
size_t escape_take(const char **at, const char *end, char ret[4]);
