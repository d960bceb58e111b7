/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* REGISTER → REGISTERED: an answer to each event. */
int handle_register(struct client *, const struct message *);
/* It is the turn of a client whose last request has not been decided wholly: go on with that. */
void register_continue(struct client *);
/* What clients are told of an answer of the kernel's, with which refusal; NULL: nobody expected it. */
const char *register_sentence(int answer, uint32_t *ret_refusal);
/* Who asked has left: what has been decided is ended, the rest is not begun. */
void register_abandon(struct client *);
