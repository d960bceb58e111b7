/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Programs that live until they get a signal, or end by themselves. They assert nothing: check would count that as the test's. They print
 * errors on stderr, and exit with a failure.
 */

#include "tests/soak/deeds.h"

/* Registers, writes, releases, forks, through the library, which finds the daemon by USEREV_SOCKET. */
_Noreturn void live_honestly(struct dice);
/* Sends what no client should send, and reads the answers or not. */
_Noreturn void live_hostilely(struct dice, const char *socket);
