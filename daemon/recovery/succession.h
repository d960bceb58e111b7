/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* When the keeper has ended: passes its pages, streams and events to the next keeper. succession.c explains. */

#include "protocol/base/base.h"

struct daemon;

/* The kernel has failed with a negative errno. True: the daemon connects to the next keeper as soon as there is one. */
bool succession_begin(struct daemon *, int error);
