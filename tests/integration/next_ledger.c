/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The ledger of another version, in place of the daemon's own. */

#define LEDGER_VERSION 1000
#include "daemon/ledger/ledger.c" /* NOLINT(bugprone-suspicious-include): the same source with another number */
