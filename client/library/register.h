/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Registering events at the daemon. */

#include "client/library/session.h"

/* The only event of its batch, with a copy of its registration. */
struct register_single {
	struct batch batch;
	struct userev_registration *caller; /* of the userev_register_all() that is running; else NULL */
	struct userev_declaration declaration;
	char text[]; /* the description, and the name */
};

struct register_single *register_single_of(const struct userev_event *);

/* Of the table of exchanges, session.h. */
bool register_is_wanted(const struct userev *);
int register_ask(struct userev *, uint8_t *buffer);
int register_take(struct userev *, struct reply *, uint16_t count);
