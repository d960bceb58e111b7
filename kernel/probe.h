/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Finds which backend this machine has, and why not a better one: by trying, not by version, and without changing anything. */

#include "protocol/protocol.h"

struct probe {
	bool tracefs_mounted;
	char tracefs[256];	/* where, if mounted */
	bool may_look;		/* and this process may search it */
	bool has_user_events;	/* there is a user_events_data */
	bool may_open;		/* and this process may open it */
	enum wire_backend kind; /* which ABI it speaks; BACKEND_EMBEDDED where none */
	char sentence[256];	/* the result, and what to do for a better one */
};

/* `mountinfo`: NULL for /proc/self/mountinfo (tests have their own). */
void probe_machine(const char *mountinfo, struct probe *ret);

/* The same for an open directory of tracefs. Sets has_user_events, may_open and kind in a `ret` of zeros. */
void probe_tracefs(int tracefs, struct probe *ret);

/*
 * Chooses the backend for `--backend=NAME` ("auto", "embedded", "status-page", "enable-address"). 0; -EINVAL for an unknown name; or
 * -EOPNOTSUPP, with the reason in the probe's sentence. A backend other than embedded is up to the keeper, which sees more: with "auto"
 * it may find a different backend, or none.
 */
int probe_choose(const char *name, bool root, struct probe *, enum wire_backend *ret);

const char *backend_name(uint16_t backend);
/* Whether this process may register events by itself on that file of the kernel's: 0, or the errno. It registers nothing. */
int probe_native(const char *path);
