/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The fd of userev_fd(). */

struct userev;

/* From now on the fd is readable when this one is; -1: never. */
void poll_follow(struct userev *, int fd);
