/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How many events the machine has room for, ours and others'. capacity.c explains. */

#include "protocol/base/base.h"

struct daemon;

/* Events of others in the kernel's list, when it was looked at last: ours come and go meanwhile. */
struct foreign_count {
	uint32_t least;
	uint32_t most;
	uint32_t ours;		  /* events, when the kernel was asked */
	uint32_t registering;	  /* calls of REGISTER that are under way */
	uint32_t was_registering; /* when the kernel was asked */
};

/* At the start: what the backend can, and SetKernelMaximum=. */
void capacity_init(struct daemon *);
/* Somebody asks, or the policy has changed: the kernel is looked at, if that was not done just now. */
void capacity_look(struct daemon *);
/* One event more has been charged, or the kernel has refused one: looks if there is not much room any more. */
void capacity_note(struct daemon *, bool refused);
