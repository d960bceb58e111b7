/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* policy: the policy files, and a daemon's answer to a request under them. */

#include <limits.h>

#include "client/userevctl/ctl.h"
#include "daemon/policy/policy.h"

/* Which cgroup is the tenant of a cgroup. */
struct tenancy {
	char cgroup[PATH_MAX];
	char path[PATH_MAX];	     /* of the tenant */
	struct policy_origin origin; /* of the Tenant= that decides it, if one does */
	const char *by;		     /* "policy", "delegation", "level"; NULL: the question is not about a cgroup */
	bool sure;		     /* false: a cgroup that is not visible here may be delegated */
};

struct policy_question {
	struct ctl *ctl;
	const char *directories;
	char found[PATH_MAX]; /* the directories of the daemon that runs here */
	bool is_ours;	      /* the files are those of a daemon here, because no option names others */
	const char *root;     /* of another machine's file system; NULL: this one's */
	uint64_t capacity;
	bool strict;
	bool persist, multi_format; /* REGISTER_… */
	struct problems problems;
	struct policy *policy;
	struct tenancy tenancy;
};

/* check.c, show.c, explain.c: an enum exit_code. */
int policy_check(struct policy_question *);
int policy_show(struct policy_question *);
int policy_explain(struct policy_question *);

/* check.c. Reads the files, and prints their problems on stderr: an enum exit_code. */
int policy_open(struct policy_question *);
/* As a line, or as an item of a JSON array. */
void problem_print(const struct problem *, const struct output *, struct json *);
/* As lines, or as an object of JSON that also has whether the files are good. */
void problems_show(const struct problems *, const struct output *);
/* On stderr, as lines; colours as `when` says. */
void problems_note(const struct problems *, const char *when);

/* policy.c. Reads the files, and finds the tenant of a path that was typed: an enum exit_code. */
int policy_find_tenant(struct policy_question *, const char *typed);

/* show.c: values and their origins, as rows of a table or in JSON. */
struct values {
	const struct policy_question *question;
	struct table table;
	struct json json;
};
/* Begins the table, or an object of JSON with the tenant, if there is one. */
void values_begin(struct values *, const struct policy_question *);
/* Ends the table; the caller ends the object. */
void values_end(struct values *);
void values_put_text(struct values *, const char *cgroup, const char *key, const char *value,
		     const struct policy_origin *);
void values_put(struct values *, const char *cgroup, enum policy_key, const struct policy_value *);
/* The tenant, the limits of all levels down to the path, and those of [Daemon] where the tenant has none. */
void values_put_levels(struct values *);
