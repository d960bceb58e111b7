/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The rules of admins that keep bits off while events are on: muted tenants, blocked tenants, and events that are on for some tenants
 * alone. A rule names tenants by a pattern of their cgroups' paths, as in policy files.
 */

#include "daemon/policy/glob.h"
#include "daemon/registry/registry.h"

enum silence_kind {
	SILENCE_MUTE = 1, /* all events of the tenants are silent */
	SILENCE_BLOCK,	  /* likewise, and the tenants' clients are disconnected and refused */
	SILENCE_ONLY,	  /* an event is silent in all tenants that no such rule of the event matches */
	SILENCE_KINDS,
};

struct silence_rule {
	enum silence_kind kind;
	uint64_t number;
	uint32_t entry;	    /* in the ledger */
	const void *owner;  /* the admin's connection with which it ends; NULL: it stays */
	const char *tenant; /* the pattern's text */
	struct pattern pattern;
	TAILQ_ENTRY(silence_rule) in_list;
	TAILQ_ENTRY(silence_rule) in_all;
	char event[]; /* a name, or "" */
};

TAILQ_HEAD(silence_rules, silence_rule);
TAILQ_HEAD(silence_waiting, silence_waiter);

/* Called when the kernel has answered for all changes. */
struct silence_waiter {
	void (*done)(struct silence_waiter *);
	TAILQ_ENTRY(silence_waiter) entry;
};

struct silence {
	struct registry *registry;
	unsigned n;
	struct silence_rules all;		  /* in the order of their numbers */
	struct silence_rules list[SILENCE_KINDS]; /* mutes and blocks */
	struct silenced_event *events;		  /* table by name, each with its rules */

	/* silencing.c: */
	struct silence_waiting waiting;
	uint64_t walked; /* the number of the event up to which the kernel was told */
	bool walking;
	bool busy;   /* walking, or the kernel has not answered */
	bool forced; /* the walk sends all grants, changed or not */
	bool failed; /* the kernel has refused a call: the next walk sends all grants again */
	unsigned tries;
	unsigned under_way; /* batches */
	uint32_t entry;	    /* in the ledger, while it is busy */
	ev_timer w_walk;
};

/* NULL: no memory. */
struct silence *silence_get(struct registry *);
/* NULL, or a sentence that says the fault. */
const char *silence_check(const char *event, const char *tenant);
/* Makes the rule, unless this owner has it. 0, SILENCE_E_FULL, -EINVAL, or -ENOMEM. silencing_begin() tells the kernel. */
enum { SILENCE_E_FULL = 1 };
int silence_add(struct registry *, enum silence_kind, const char *event, const char *tenant, const void *owner);
/* False: there is no such rule without an owner. `tenant` NULL: all rules of the event. */
bool silence_remove(struct registry *, enum silence_kind, const char *event, const char *tenant);
/* Removes the owner's rules. False: it has none. */
bool silence_leave(struct registry *, const void *owner);
void silence_deinit(struct registry *);

/* Whether a pattern matches the tenant's cgroup, or a cgroup around it. */
bool silence_matches(const struct silence_rule *, const struct tenant *);
/* A new tenant: sets its members `muted` and `blocked`. */
void silence_note_tenant(struct tenant *);
/* Whether the bit of the event of that name has to stay off on the tenant's page. */
bool silence_is_wanted(const struct tenant *, const char *event, size_t length);
/* The rules of the event, in `in_list`; NULL: it is on for all. */
const struct silence_rules *silence_of_event(const struct registry *, const char *event, size_t length);
/* Whether this backend can keep a bit off: not if all tenants have the kernel's own page. */
bool silence_is_possible(const struct registry *);
/* The first rule with a number above this; NULL: none. */
const struct silence_rule *silence_after(const struct registry *, uint64_t number);
