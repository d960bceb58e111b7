/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Gives the system back what was freed, once that is much: libc keeps what lies below something that is still in use. */

#include <stddef.h>

struct daemon;

void memory_init(struct daemon *);
void memory_deinit(struct daemon *);
/* So many bytes were, or are about to be. */
void memory_freed(struct daemon *, size_t bytes);
