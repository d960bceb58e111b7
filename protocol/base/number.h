/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "protocol/base/base.h"

/* Reads `text`, which has to be decimal digits from its first byte to its last, up to `maximum`. */
bool number_parse(const char *text, uint64_t maximum, uint64_t *ret);
