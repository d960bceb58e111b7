/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* So many requests a second, and no more: who has asked too much is not read for a while. throttle.c explains. */

#include "protocol/base/base.h"

struct client;
struct daemon;
struct level;

void throttle_init(struct daemon *);
void throttle_deinit(struct daemon *);

/* Whether the client's tenant, and all around it, may ask now; else it stands aside until then. */
bool throttle_passes(struct client *);
/* It has asked. */
void throttle_count(struct client *);
/* A tenant of this level goes: its requests and refusals count for the next tenant of that path. */
void throttle_remember(struct daemon *, struct level *);
/* Nothing is remembered of tenants that have gone. */
void throttle_forget(struct daemon *);
/* It asks no more. Fine if it did not stand aside. */
void throttle_remove(struct client *);
