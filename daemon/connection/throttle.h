/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* So many requests a second, and no more: who has asked too much is not read for a while. throttle.c explains. */

#include "protocol/base/base.h"

struct client;
struct connections;

void throttle_init(struct connections *);
void throttle_deinit(struct connections *);

/* Whether the client's tenant, and all around it, may ask now; else it stands aside until then. */
bool throttle_passes(struct client *);
/* It has asked. */
void throttle_count(struct client *);
/* It asks no more. Fine if it did not stand aside. */
void throttle_remove(struct client *);
