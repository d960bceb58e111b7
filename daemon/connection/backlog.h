/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a tenant has asked of the kernel and is not answered. backlog.c explains. */

#include "protocol/base/base.h"

struct client;
struct tenant;

void backlog_add(struct tenant *, size_t calls);
/* Who waits for that has its turn again. */
void backlog_answered(struct tenant *, size_t calls);

/* Whether the client has to wait, which it does then. */
bool backlog_holds(struct client *);
/* It waits no more. Fine if it did not. */
void backlog_remove(struct client *);
