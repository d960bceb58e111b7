/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The names of the events that are switched on at each boot. Functions that return an enum exit_code print their errors. */

#include "client/userevctl/tracing/tracing.h"

struct kept {
	char **names;
	char **tenants; /* of each: a pattern for which alone it is to be on; or NULL */
	int n;
};
void kept_deinit(struct kept *);
/* They become the patterns of the tracing, which looks; a note for each that is not there. An enum exit_code. */
int kept_look(struct kept *ret, struct tracing *);
/* Adds the command's arguments, for the tenants of `only` if it has any; or removes all names that match them. An enum exit_code. */
struct silence_answer;
int kept_change(const struct ctl *, bool keep, const struct silence_answer *only);
