/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Memory that runs short when the test says so: malloc() and its kin are this program's own. */

#include "protocol/base/base.h"

/* How many allocations go well before one fails; negative: all do. */
extern long allocations_left;
/* After the one that failed all go well again; else no other does. */
extern bool memory_comes_back;

/* For ev_set_allocator(): libev ends the program when it finds no memory. */
void *evs_own_memory(void *old, long size);
