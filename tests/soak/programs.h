/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Programs that live until they are told to end, or end by themselves. In each there is nothing of the test's: what should not
 * be they say on stderr, and exit with a failure.
 */

#include "tests/soak/deeds.h"

/* Registers, writes, releases, forks, through the library, which finds the daemon by USEREV_SOCKET. */
_Noreturn void live_honestly(struct dice);
/* Sends what nobody should, and reads or does not read what comes back. */
_Noreturn void live_hostilely(struct dice, const char *socket);
