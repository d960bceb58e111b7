/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Muted and blocked tenants, and events that are on for some tenants alone. Functions that return an enum exit_code print their errors. */

#include "client/userevctl/ctl.h"

/* A pattern of tenants' cgroups; with SILENCE_OF_PROCESS the cgroup of a process, for whose tenant the daemon looks. */
struct silence_pattern {
	char *text;
	uint16_t flags;
};

struct silence_patterns {
	struct silence_pattern *at;
	size_t n;
};

void silence_patterns_deinit(struct silence_patterns *);
void silence_patterns_add(struct silence_patterns *, const char *text, uint16_t flags);
/*
 * pattern.c: those that people mean: a pid; the path of a cgroup, or a pattern as in policy files; or the name of a tenant, or a glob of
 * names. A name that several tenants have is refused. An enum exit_code.
 */
int silence_find(struct ctl *, const char *const *arguments, size_t n, struct silence_patterns *ret);
/* Adds the tenants that are there now, and are called so or have such a path: 0 or a negative errno. */
int silence_find_present(struct ctl *, const char *name, struct silence_patterns *);
/* Those of the daemon's rules of that kind ("muted") that match one of the arguments. An enum exit_code. */
int silence_find_rules(struct ctl *, const char *rule, const char *const *arguments, size_t n,
		       struct silence_patterns *ret);
/* Without the backslashes before *, ? and [. False: the pattern has wildcards. */
bool silence_unescape(const char *pattern, char *ret, size_t size);
/* A tenant's name, or the pattern as it is. Safe to show. */
struct safe_string silence_shown(const char *pattern);

/* The rows of the daemon's answers, one for each pattern. */
struct silence_answer {
	struct cursor *rows; /* of each pattern, in their order; copies */
	size_t n;
	uint64_t on, off; /* tenants with one of the events, and those of them that see it as off */
	bool kept;	  /* the next daemon finds the rules, even if nothing of this one is left */
	char kept_error[256];
};

void silence_answer_deinit(struct silence_answer *);
/* request.c: asks the daemon, in as many requests as it takes. An enum exit_code. */
int silence_ask(const struct ctl *, uint16_t asked, const char *const *events, size_t n_events,
		const struct silence_patterns *, struct silence_answer *ret);
/* The same on one connection: 0 or a negative errno. */
int silence_ask_on(struct control *, uint16_t asked, const char *const *events, size_t n_events,
		   const struct silence_patterns *, struct silence_answer *ret);
/* Prints a note if the rules end with the daemon. */
void silence_note_kept(const struct silence_answer *);
