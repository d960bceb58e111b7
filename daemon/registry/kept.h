/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* KeepFor=: streams without a client that are kept for a while, since their programs may start again. */

#include "protocol/base/base.h"

struct level;
struct stream;

/* Whether one of its events is used on no other stream of the tenant. Kept streams don't count: they may end sooner. */
bool kept_is_needed(const struct stream *);
/* Keeps it for the time that the policy says; then stream_leave(). */
void kept_begin(struct stream *);
/* It is used again, or ends. Fine if it is not kept. */
void kept_end(struct stream *);
/* Gives up the kept streams of the level whose events are all on this one, too. */
void kept_replace(const struct stream *);
/* After a refusal at this level: gives up its kept streams. Whether there were any. */
bool kept_yield(struct level *);
