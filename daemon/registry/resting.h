/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Levels whose tenants have gone, but whose request rate and logged refusals still count. resting.c explains. */

#include "daemon/registry/registry.h"

/* A tenant of this level ends: its requests and refusals count for the next tenant of that path. */
void resting_add(struct registry *, struct level *);
/* Forgets all of them. */
void resting_clear(struct registry *);
