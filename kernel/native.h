/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Programs that speak user_events by themselves: what the daemon does with the maps of kernel/guard/admission.bpf.c, which has the rules. It
 * needs no privilege for it, only the fds of the maps, which a keeper opens for it.
 */

#include "kernel/guard/admission.h"
#include "protocol/base/base.h"

enum native_map {
	NATIVE_SETTINGS,
	NATIVE_NODES,
	NATIVE_STATES,
	NATIVE_TENANTS,
	NATIVE_GRANTS,
	NATIVE_NOTES,
	NATIVE_SWEEP, /* a program */
	NATIVE_MAPS,
};

struct native {
	int fd[NATIVE_MAPS]; /* that of NATIVE_NOTES is readable when there are notes */
	struct admission_settings *settings;
	struct admission_node *nodes;
	struct admission_state *states;
	const struct ring *ring;
};

/* Opens what userevd-guard has pinned in this directory. For root. An fd or a negative errno. */
int native_pin_open(const char *directory, enum native_map);
/* Takes the fds over, also where it fails. 0 or a negative errno. */
int native_new(const int fds[NATIVE_MAPS], struct native **ret);
struct native *native_free(struct native *);

/* What the programs of this cgroup, or of those below it, may register. 0 or a negative errno. */
int native_set_tenant(const struct native *, uint64_t cgroup, const struct admission_tenant *);
int native_remove_tenant(const struct native *, uint64_t cgroup);
/*
 * The grant behind this one, whose key is all zeros before the first one; both are replaced. -ENOENT: there is none. Grants that come or
 * go meanwhile may be left out or told twice.
 */
int native_next_grant(const struct native *, struct admission_key *, struct admission_grant *);
/* The oldest note that was not read yet. False: there is none. */
bool native_read_note(const struct native *, struct admission_note *);
/* Ends grants that nobody holds any more. Returns how many linger still, or a negative errno. */
int native_sweep(const struct native *);
