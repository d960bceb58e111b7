/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keys of policy files: names, defaults and values. keys.c has the table. */

#include "daemon/policy/glob.h"
#include "daemon/policy/problem.h"

enum policy_key {
	/* of a section of cgroups */
	POLICY_TENANT,
	POLICY_MAX_EVENTS,
	POLICY_RESERVE_EVENTS,
	POLICY_MAX_CONNECTIONS,
	POLICY_MAX_FILES,
	POLICY_MAX_LEASES,
	POLICY_MAX_REQUESTS_PER_SECOND,
	POLICY_ALLOW_EVENTS,
	POLICY_DENY_EVENTS,
	POLICY_OWN_NAMES,
	POLICY_NAME_PREFIX,
	POLICY_ALLOW_PERSIST,
	POLICY_ALLOW_MULTI_FORMAT,
	POLICY_ALLOW_HOST_ROOT,
	POLICY_ALLOW_HOST_USERNS,
	POLICY_STREAM,
	POLICY_KEEP_FOR,
	POLICY_OWN_TRACING,
	POLICY_MAX_TRACE_BYTES,
	POLICY_NATIVE,
	POLICY_NATIVE_VIOLATIONS,
	POLICY_CGROUP_KEYS, /* so many */
	/* of [Daemon] */
	POLICY_DEFAULT_MAX_EVENTS = POLICY_CGROUP_KEYS,
	POLICY_DEFAULT_MAX_CONNECTIONS,
	POLICY_DEFAULT_MAX_FILES,
	POLICY_DEFAULT_MAX_LEASES,
	POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND,
	POLICY_SET_KERNEL_MAXIMUM,
	POLICY_KERNEL_MARGIN,
	POLICY_GUARD,
	POLICY_METRICS_SOCKET,
	POLICY_METRICS_TENANTS,
	POLICY_AUTO_RELOAD,
	/* of [Event NAME] */
	POLICY_FIELDS,
	POLICY_PERSIST,
	POLICY_TENANTS,
	POLICY_KEYS,
};

enum { POLICY_INFINITY = UINT32_MAX }; /* of a number: there is no limit */
enum policy_tenant { POLICY_TENANT_NO, POLICY_TENANT_YES, POLICY_TENANT_UNSET };
enum policy_stream { POLICY_STREAM_AUTO, POLICY_STREAM_SHARED, POLICY_STREAM_CLIENT };
enum policy_native { POLICY_NATIVE_NO, POLICY_NATIVE_YES, POLICY_NATIVE_INSIST };
enum policy_violations { POLICY_VIOLATIONS_KILL, POLICY_VIOLATIONS_LOG };
enum policy_guard { POLICY_GUARD_REQUIRE, POLICY_GUARD_PREFER, POLICY_GUARD_OFF };

enum policy_section { POLICY_SECTION_DAEMON, POLICY_SECTION_EVENT, POLICY_SECTION_CGROUPS };

/* The sections that count for a key: [Daemon], [Event NAME], or in one of these ways those of cgroups. */
enum policy_reach {
	POLICY_OF_DAEMON = POLICY_SECTION_DAEMON,
	POLICY_OF_EVENT = POLICY_SECTION_EVENT,
	POLICY_OF_CGROUP,  /* each cgroup has its own: a limit for all in it and below */
	POLICY_OF_SECTION, /* the values of all sections that match the cgroup, or one around it, count */
	POLICY_OF_TENANT,  /* the value of the nearest ancestor that has one */
};

struct policy_glob {
	const char *text;
	struct pattern pattern; /* parsed, where the list has patterns of cgroups */
	struct policy_origin origin;
};

struct policy_value {
	struct policy_origin origin;
	unsigned order;	  /* of two values the later one has the greater order */
	bool is_default;  /* no file has the key, or as "Key=" */
	uint32_t number;  /* a number, yes (1) or no, a word of an enum, seconds, or so many a second */
	uint32_t burst;	  /* of a rate */
	const char *text; /* a prefix, a path, or fields; NULL: none */
	struct policy_glob *globs;
	size_t n_globs;
};

/* Of a section [Event NAME] the name; NULL: it is another section. */
const char *policy_event_name(const char *section);
enum policy_section policy_section_kind(const char *section);

/* A row for each key: keys.c has the table. */
struct policy_key_row {
	const char *name;
	enum policy_reach reach;
	const struct key_type *type;
	uint32_t most;		   /* of a number; of bytes of a prefix, a path or a glob */
	struct policy_value value; /* the default */
	const char *empty;	   /* how the default is shown; NULL: "-" */
	enum policy_key
		of_daemon; /* of a limit of cgroups: the key of [Daemon] that tenants without one go by; 0 for other keys */
};
extern const struct policy_key_row policy_keys[POLICY_KEYS];

/* Where it may stand. */
enum policy_section policy_key_section(enum policy_key);
/* POLICY_KEYS: no key has this name. */
enum policy_key policy_key_find(const char *name);
/* The key of such a section with the most similar name; POLICY_KEYS: no name is similar. */
enum policy_key policy_key_suggest(const char *name, enum policy_section);
/* The value of a key whose values are words. */
const char *policy_key_word(enum policy_key, const struct policy_value *);

/* In the form that files have; "-" for nothing. */
void policy_value_text(enum policy_key, const struct policy_value *, struct text *);
