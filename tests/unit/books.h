/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Whether all that the daemon counts in several places agrees, and the kernel with it. That one is the fake kernel, or the embedded
 * backend.
 */

#include "tests/unit/fake_kernel.h"

void check_books(const struct daemon *);
/* How many clients have a share of it. */
unsigned count_shares(const struct daemon *, const struct stream *);
