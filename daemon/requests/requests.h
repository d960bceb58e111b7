/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The handlers of clients' requests: each answers by itself. 0, or a positive enum refusal where the packet breaks the protocol. */

#include "daemon/connection/client.h"

/* HELLO → WELCOME with the tenant's status page. */
int handle_hello(struct client *, const struct message *);
/* REGISTER → REGISTERED: an answer to each event. */
int handle_register(struct client *, const struct message *);
/* RELEASE → RELEASED: how many were the client's, and how many were not. */
int handle_release(struct client *, const struct message *);
/* WATCH → WATCHING, and CHANGED from then on when an event that the client holds is turned on or off. */
int handle_watch(struct client *, const struct message *);
/* QUERY → ACCOUNT: what the client's tenant holds, its maximum, and the records it has lost. */
int handle_query(struct client *, const struct message *);
/* TRACE_OWN → TRACING_OWN with a socket for the records of the tenant's own events. */
int handle_trace_own(struct client *, const struct message *);
/* NATIVE → NATIVE_FILE with the kernel's own file, opened for it. */
int handle_native(struct client *, const struct message *);
/* LOST: the library's count of records that found no room. */
int handle_lost(struct client *, const struct message *);
