/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Programs that speak user_events by themselves: what the daemon does with the files of kernel/guard/admission/, whose admission.bpf.c has
 * the rules. It needs no privilege and no bpf(2) for it, only these files, which are opened for it before.
 */

#include "kernel/guard/admission.h"
#include "protocol/base/base.h"

enum native_file {
	NATIVE_SHARED, /* struct admission_shared, to be mapped */
	NATIVE_NOTES,  /* a ring of struct admission_note; readable when there are some */
	NATIVE_LIST,   /* O_PATH, as the next one: each is opened anew for each reading. The grants */
	NATIVE_SWEEP,
	NATIVE_FILES,
};

struct native {
	int fd[NATIVE_FILES];
	struct admission_shared *shared;
	const struct ring *ring;
};

/* Opens what userevd-guard has pinned in this directory, by its number. For root. An fd or a negative errno. */
int native_pin_open(const char *directory, enum native_file);
/* Takes the fds over, also where it fails. 0 or a negative errno. */
int native_new(const int fds[NATIVE_FILES], struct native **ret);
struct native *native_free(struct native *);

/*
 * What the programs of this cgroup, or of those below it, may register; for another one than it was before, or a new one. 0, or -ENOSPC.
 * The entry's own `cgroup` and `turn` are not looked at. NATIVE_PROVER: the process that the shared memory names.
 */
int native_set_tenant(const struct native *, uint64_t cgroup, const struct admission_tenant *);
void native_remove_tenant(const struct native *, uint64_t cgroup);
enum { NATIVE_PROVER = 0 };
/* Those that are there now, for free(). A negative errno: it can't be read. Those that come or go meanwhile may be left out. */
int native_list(const struct native *, struct admission_listed **ret, size_t *ret_n);
/* The oldest note that was not read yet. False: there is none. */
bool native_read_note(const struct native *, struct admission_note *);
/* Ends grants that nobody holds any more. Returns how many linger still, or a negative errno. */
int native_sweep(const struct native *);
