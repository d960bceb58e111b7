/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* policy: what the policy files say, and what a daemon makes of it. */

#include <limits.h>

#include "client/userevctl/ctl.h"
#include "daemon/policy/policy.h"

struct policy_question {
	struct ctl *ctl;
	const char *directories;
	char found[PATH_MAX]; /* a daemon's */
	bool is_ours;	      /* nobody asked for other files than what a daemon here has, or would have */
	const char *root;     /* of another machine's file system; NULL: this one's */
	uint64_t capacity;
	bool strict;
	bool persist, multi_format;
	unsigned flags; /* REGISTER_… */
	struct problems problems;
	struct policy *policy;
};

/* ctl_policy_check.c, ctl_policy_show.c, ctl_policy_explain.c: an enum exit_code. */
int policy_check(struct policy_question *);
/* ctl_policy_cgroups.c: warns of sections that match no cgroup of this machine. Silent where none can be seen. */
int policy_check_cgroups(const struct policy *, struct problems *);
/* One line each; or as a key of an object that has been begun. */
void problems_print(const struct problems *, const struct output *);
void problems_json(const struct problems *, struct json *);
/* Reads the files; what is wrong with them is said on stderr. */
int policy_open(struct policy_question *);
int policy_show(struct policy_question *);
int policy_explain(struct policy_question *);

/* ctl_policy.c: which cgroup is the tenant of one. */
struct tenancy {
	char path[PATH_MAX];
	struct policy_origin origin; /* of Tenant=, if that says so */
	const char *by;		     /* "policy", "delegation", "level" */
	bool sure;		     /* false: nobody can see here whether one further out was given away */
};
/* The path of a cgroup that was typed. False after a sentence. */
bool policy_take_path(const char *typed, char *ret, size_t size);
void policy_find_tenant(const struct policy_question *, const char *path, struct tenancy *ret);
void policy_note_tenancy(const struct tenancy *);

/* ctl_policy_show.c: values with where they come from, as rows of a table or in JSON. */
struct values {
	struct ctl *ctl;
	struct table table;
	struct json json;
};
struct values values_make(struct ctl *);
void values_deinit(struct values *);
void values_put_text(struct values *, const char *cgroup, const char *key, const char *value,
		     const struct policy_origin *);
void values_put(struct values *, const char *cgroup, enum policy_key, const struct policy_value *);
/* The tenant, the limits of all levels down to the path, and those of [Daemon] where the tenant has none. */
void values_put_levels(struct values *, const struct policy_question *, const char *path, const struct tenancy *);

/* ctl_policy_ledger.c: what a running daemon would answer. */
struct ledger {
	struct control *control; /* NULL: nobody was asked */
	struct cursor answer;	 /* the first row */
	bool granted;
	bool one_of_many; /* formats of that name */
	char sentence[WIRE_SENTENCE_MAX + 1];
};
/* False: there is no daemon, or it is not about this machine. */
bool ledger_ask(const struct policy_question *, const char *path, struct ledger *ret);
void ledger_deinit(struct ledger *);
/* The rest of it: 0 or a negative errno. */
int ledger_print(struct ledger *, const struct output *);
int ledger_print_json(struct ledger *, struct json *);
