/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Whether all that the daemon writes down several times agrees, and the fake kernel with it: after whatever has happened. */

#include "tests/unit/fake_kernel.h"

void check_books(const struct daemon *);
/* How many clients have it. */
unsigned count_shares(const struct daemon *, const struct stream *);
