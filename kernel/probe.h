/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which backend does this machine have, and why not a better one. Looks, never changes anything; found by trying, not by version. */

#include "protocol/protocol.h"

struct probe {
	bool tracefs_mounted;
	char tracefs[256];	/* where, if mounted */
	bool may_look;		/* and this process may search it */
	bool has_user_events;	/* there is a user_events_data */
	bool may_open;		/* and this process may open it */
	enum wire_backend kind; /* which ABI it speaks; BACKEND_EMBEDDED where none */
	char sentence[256];	/* what was found, and what to do for more */
};

/* `mountinfo`: NULL for /proc/self/mountinfo (tests have their own). */
void probe_machine(const char *mountinfo, struct probe *ret);

/* The same of a directory of tracefs that is open. Sets has_user_events, may_open and kind, in a `ret` of zeros. */
void probe_tracefs(int tracefs, struct probe *ret);

/*
 * Chooses for `--backend=NAME` ("auto", "embedded", "status-page", "enable-address"), and for root or somebody else: 0, or
 * -EINVAL for an unknown name, or -EOPNOTSUPP with the sentence in `probe` saying why this machine has no such backend. What is
 * not embedded is up to the keeper then, who sees more: with "auto" it may find another one, or none.
 */
int probe_choose(const char *name, bool root, struct probe *, enum wire_backend *ret);

const char *backend_name(uint16_t backend);
