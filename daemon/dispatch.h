/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"
#include "protocol/transport.h"

/* Checks one packet against the table of requests and hands it to its handler. */
void dispatch(struct client *, const void *packet, size_t size, const struct transport_from *);
