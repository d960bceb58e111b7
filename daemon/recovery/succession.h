/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What becomes of a daemon whose keeper has gone: another keeper is given all that the first one had. succession.c explains. */

#include "protocol/base/base.h"

struct daemon;

void succession_init(struct daemon *);
void succession_deinit(struct daemon *);
/* The kernel has failed, with a negative errno: whether there may be another keeper, which is looked for from now on. */
bool succession_begin(struct daemon *, int error);
