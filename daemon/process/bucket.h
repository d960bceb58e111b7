/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A token bucket: a number of requests a second, and a burst after a pause. Pure arithmetic: the caller passes the time. */

#include "protocol/base/base.h"

struct bucket {
	uint32_t rate;	/* tokens a second; UINT32_MAX: there is no limit */
	uint32_t burst; /* that it holds */
	double tokens;
	double since; /* when there were as many */
};

/* Full. */
void bucket_init(struct bucket *, uint32_t rate, uint32_t burst, double now);
/* Keeps its tokens, as far as there is room for them. */
void bucket_set(struct bucket *, uint32_t rate, uint32_t burst, double now);
/* Seconds until there is a token; 0: there is one. */
double bucket_wait(const struct bucket *, double now);
/* So many can be taken now. */
uint32_t bucket_tokens(const struct bucket *, double now);
/* Whether all its tokens are back. */
bool bucket_is_full(const struct bucket *, double now);
/* Takes one, which is there. */
void bucket_take(struct bucket *, double now);
