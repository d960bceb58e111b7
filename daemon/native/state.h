/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Shared by the modules of native/. */

#include <ev.h>

#include "daemon/native/accounts.h"
#include "daemon/policy/policy.h"
#include "kernel/native.h"

/* A tenant's entry in the kernel. */
struct native_tenant {
	uint64_t cgroup; /* its number */
	struct tenant
		*tenant; /* NULL: its programs may register nothing, though it is inside of one whose programs may */
	struct account *own, *share;
	struct account *reserves[ADMISSION_RESERVES];
	unsigned walk; /* that has found it last */
	UT_hash_handle by_cgroup;
	char path[];
};

/* States of an automaton, and what they were made from. */
struct ruleset {
	uint16_t first;
	struct ruleset *next;
	size_t size;
	char key[];
};

struct watched {
	int watch;
	UT_hash_handle by_watch;
	char path[];
};

/* The keeper is asked for. */
enum { ANSWER_FILE = NATIVE_FILES, ANSWER_FILE_TO_LOOK, ANSWER_REASON, NATIVE_CALLS };

struct natives {
	struct registry *registry;
	struct kernel_call calls[NATIVE_CALLS]; /* under way */
	bool asking;
	struct native *kernel; /* NULL: there are no native events */
	char why[WIRE_SENTENCE_MAX + 1];
	struct accounts accounts;
	struct native_tenant *tenants;
	struct ruleset *rulesets;
	unsigned half; /* of the states, in which these are */
	uint16_t next_state;
	int inotify;
	struct watched *watched;
	unsigned walk;
	uint32_t granted;
	uint64_t violations;
	ev_io w_notes, w_cgroups;
	ev_timer w_sweep;
	int file; /* as containers have it: whether the kernel still refuses us there is asked now and then */
	ev_timer w_look;
};

/* --- names.c: the state in which names of a tenant with these rules begin; or a negative errno --- */

int names_find(struct natives *, const struct policy_rules *);
/* Before all tenants get new rules: those of before are used until then. */
void names_begin_anew(struct natives *);
void names_deinit(struct natives *);

/* --- tenants.c: finds tenants among the cgroups, from the start and as they come and go --- */

int tenants_watch(struct natives *);
/* All of them once more, by the policy's present rules. */
void tenants_walk(struct natives *);
/* Of the pool, from now on. */
void tenants_share(struct natives *);
struct native_tenant *tenants_find(const struct natives *, uint64_t cgroup);
void tenants_deinit(struct natives *);

/* --- proof.c: whether the kernel refuses what it is to refuse, on this file. 0, or a negative errno with a sentence --- */

int native_prove(const struct natives *, int file, struct text *why);
/* Whether it still does, in less time. */
int native_look(const struct natives *, int file, struct text *why);
