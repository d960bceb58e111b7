/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One row for each key: its sections, its values and its default. userevd.conf(5) explains them. */

#include "daemon/policy/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "daemon/limits.h"
#include "protocol/base/number.h"
#include "protocol/base/suggest.h"
#include "protocol/event/description.h"

enum {
	EVENTS_MAX = 65535,	   /* types of events that a kernel can number */
	CONNECTIONS_MAX = 1 << 20, /* fds that a process can have on most machines */
	FILES_MAX = 1 << 20,	   /* likewise */
	LEASES_MAX = 1 << 24,	   /* a few gigabytes of the daemon's memory */
	RATE_MAX = 1000000,	   /* a request takes longer than a microsecond */
	PREFIX_MAX = 32,      /* with a name of 200 bytes and the suffix of multi-format, a directory's name of 255 */
	PATH_BYTES_MAX = 107, /* of a socket */
	TRACE_BYTES_MAX = 16 << 20,   /* more than a socket's buffer is on most machines, four times */
	TRACE_BYTES_LEAST = 64 << 10, /* four sockets with room for the largest record */
	KEEP_MAX = 86400,	      /* seconds: an event that is wanted for ever is declared */
};

/* The form of a key's values. */
struct key_type {
	/* Fills the value, which has the key's default and its origin. False: the text is wrong, and `why` has the right values. */
	bool (*parse)(const struct policy_key_row *, const char *text, struct policy_value *, struct text *why);
	/* Of a list: checks a new entry. */
	bool (*check)(struct policy *, const struct policy_key_row *, struct policy_glob *, struct text *why);
	bool is_number;
	bool has_infinity;
	bool has_burst; /* N/BURST */
	/* The first `n_words` are the numbers from 0 on; then come as many other spellings of the same, again and again. */
	uint32_t n_words;
	const char *words[9];
	const char *right; /* a sentence about them */
};

static bool type_parse_word(const struct policy_key_row *key, const char *text, struct policy_value *value,
			    struct text *why)
{
	const struct key_type *type = key->type;

	for (uint32_t i = 0; type->words[i]; i++) {
		if (strcasecmp(text, type->words[i]) == 0) {
			value->number = i % type->n_words;
			return true;
		}
	}
	text_printf(why, "%s", type->right);
	return false;
}

/* NULL, or the fault. */
static const char *key_read_number(const char *text, size_t length, uint32_t least, uint32_t most, uint32_t *ret)
{
	uint64_t number = 0;
	enum number_result r = number_parse(text, length, most, &number);

	if (r == NUMBER_GOOD)
		*ret = (uint32_t)number;
	return r == NUMBER_NONE	       ? "not a number"
	       : r == NUMBER_TOO_LARGE ? "too large"
	       : number < least	       ? "too small"
				       : NULL;
}

static bool type_parse_number(const struct policy_key_row *key, const char *text, struct policy_value *value,
			      struct text *why)
{
	bool has_burst = key->type->has_burst;
	size_t length = has_burst ? strcspn(text, "/") : strlen(text);
	const char *wrong;

	if (key->type->has_infinity && streq(text, "infinity")) {
		value->number = value->burst = POLICY_INFINITY;
		return true;
	}
	wrong = key_read_number(text, length, has_burst, key->most, &value->number);
	value->burst = value->number;
	if (!wrong && text[length] == '/')
		wrong = key_read_number(text + length + 1, strlen(text + length + 1), 1, key->most, &value->burst);
	if (!wrong)
		return true;
	text_printf(why, "%s; give %s to %" PRIu32 "%s", wrong, has_burst ? "N or N/BURST, both 1" : "0", key->most,
		    key->type->has_infinity ? ", or infinity" : "");
	return false;
}

/* Seconds, or a number with a unit. */
static bool type_parse_time(const struct policy_key_row *key, const char *text, struct policy_value *value,
			    struct text *why)
{
	static const struct {
		const char *name;
		uint32_t seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits + strspn(text + digits, " ");

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!streq(unit, units[i].name) ||
		    key_read_number(text, digits, 0, key->most / units[i].seconds, &value->number))
			continue;
		value->number *= units[i].seconds;
		return true;
	}
	text_printf(why, "give seconds, or a number with s, min, h or d behind it, up to a day");
	return false;
}

/* Bytes, or a number with a unit. */
static bool type_parse_bytes(const struct policy_key_row *key, const char *text, struct policy_value *value,
			     struct text *why)
{
	const size_t digits = strspn(text, "0123456789");
	const unsigned shift = streq(text + digits, "K") ? 10 : streq(text + digits, "M") ? 20 : 0;

	if ((shift > 0 || text[digits] == '\0') &&
	    !key_read_number(text, digits, 0, key->most >> shift, &value->number) &&
	    value->number << shift >= TRACE_BYTES_LEAST) {
		value->number <<= shift;
		return true;
	}
	text_printf(why, "give bytes, or a number with K or M behind it, from %dK to %" PRIu32 "M",
		    TRACE_BYTES_LEAST >> 10, key->most >> 20);
	return false;
}

static bool type_parse_prefix(const struct policy_key_row *key, const char *text, struct policy_value *value,
			      struct text *why)
{
	value->text = text;
	if (strlen(text) <= key->most && description_is_name(text, strlen(text)))
		return true;
	text_printf(why, "no name begins so; give at most %" PRIu32 " letters, digits and _, and no digit first",
		    key->most);
	return false;
}

static bool type_parse_path(const struct policy_key_row *key, const char *text, struct policy_value *value,
			    struct text *why)
{
	value->text = text;
	if (text[0] == '/' && strlen(text) <= key->most)
		return true;
	text_printf(why, "give a path that begins with '/' and has at most %" PRIu32 " bytes", key->most);
	return false;
}

/* The event's name is that of its section. */
static bool type_parse_fields(const struct policy_key_row *key _unused_, const char *text, struct policy_value *value,
			      struct text *why)
{
	static _Thread_local struct description description; /* large */
	char whole[WIRE_DESCRIPTION_MAX + 2];
	int length = snprintf(whole, sizeof(whole), "%s %s", policy_event_name(value->origin.section), text);

	value->text = text;
	if (length < (int)sizeof(whole))
		return description_parse(whole, (size_t)length, &description, why) == 0;
	text_printf(why, "longer than %d bytes, with the name", WIRE_DESCRIPTION_MAX);
	return false;
}

/* Other characters match no name of an event: "!http_*" would deny nothing. */
static bool check_event_glob(struct policy *policy _unused_, const struct policy_key_row *key, struct policy_glob *glob,
			     struct text *why)
{
	static const char anywhere[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*?[";
	const char *set = strchr(glob->text, '['), *wrong = glob_check(glob->text);

	for (const char *at = glob->text; *at; at++) {
		if (strchr(anywhere, *at) || (strchr("]!^-", *at) && set && set < at))
			continue;
		text_printf(why, "no name of an event has a '");
		text_safe(why, at, 1);
		text_printf(why, "'; write globs such as http_*, with blanks between them");
		return false;
	}
	if (wrong)
		text_printf(why, "%s", wrong);
	else if (key->most > 0 && strlen(glob->text) > key->most)
		text_printf(why, "a glob is longer than %" PRIu32 " bytes", key->most);
	return why->length == 0;
}

static bool check_pattern(struct policy *policy, const struct policy_key_row *key _unused_, struct policy_glob *glob,
			  struct text *why)
{
	char *room = policy_allocate(policy, 2 * strlen(glob->text) + 2);
	const char *wrong = room ? pattern_parse(glob->text, room, &glob->pattern) : NULL;

	if (wrong)
		text_printf(why, "%s", wrong);
	return !wrong;
}

static const struct key_type type_yes_no = { .parse = type_parse_word,
					     .n_words = 2,
					     .words = { "no", "yes", "false", "true", "off", "on", "0", "1" },
					     .right = "give yes or no" };
static const struct key_type type_stream = { .parse = type_parse_word,
					     .n_words = 3,
					     .words = { "auto", "shared", "client" },
					     .right = "give auto, shared or client" };
static const struct key_type type_native = { .parse = type_parse_word,
					     .n_words = 3,
					     .words = { "no", "yes", "insist", "false", "true", "insist" },
					     .right = "give no, yes or insist" };
static const struct key_type type_violations = {
	.parse = type_parse_word, .n_words = 2, .words = { "kill", "log" }, .right = "give kill or log"
};
static const struct key_type type_guard = { .parse = type_parse_word,
					    .n_words = 3,
					    .words = { "require", "prefer", "off" },
					    .right = "give require, prefer or off" };
static const struct key_type type_number = { .parse = type_parse_number, .is_number = true };
static const struct key_type type_limit = { .parse = type_parse_number, .is_number = true, .has_infinity = true };
static const struct key_type type_rate = {
	.parse = type_parse_number, .is_number = true, .has_infinity = true, .has_burst = true
};
static const struct key_type type_time = { .parse = type_parse_time, .is_number = true };
static const struct key_type type_bytes = { .parse = type_parse_bytes, .is_number = true };
static const struct key_type type_prefix = { .parse = type_parse_prefix };
static const struct key_type type_path = { .parse = type_parse_path };
static const struct key_type type_fields = { .parse = type_parse_fields };
static const struct key_type type_globs = { .check = check_event_glob };
static const struct key_type type_patterns = { .check = check_pattern };

#define NUMBER(default_number)                                                                                         \
	{                                                                                                              \
		.is_default = true, .number = (default_number), .burst = (default_number)                              \
	}
#define NOTHING NUMBER(0)

/* Of each cgroup, and of [Daemon] for tenants without one. */
#define LIMIT(key, name, type, most, default_number)                                                                   \
	[POLICY_##key] = { name,                                                                                       \
			   POLICY_OF_CGROUP,                                                                           \
			   type,                                                                                       \
			   most,                                                                                       \
			   .value = NUMBER(POLICY_INFINITY),                                                           \
			   .of_daemon = POLICY_DEFAULT_##key },                                                        \
	[POLICY_DEFAULT_##key] = { "Default" name, POLICY_OF_DAEMON, type, most, .value = NUMBER(default_number) }

const struct policy_key_row policy_keys[POLICY_KEYS] = {
	[POLICY_TENANT] = { "Tenant", POLICY_OF_CGROUP, &type_yes_no, .value = NUMBER(POLICY_TENANT_UNSET) },
	LIMIT(MAX_EVENTS, "MaxEvents", &type_limit, EVENTS_MAX, DEFAULT_MAX_EVENTS),
	[POLICY_RESERVE_EVENTS] = { "ReserveEvents", POLICY_OF_CGROUP, &type_number, EVENTS_MAX, .value = NUMBER(0) },
	LIMIT(MAX_CONNECTIONS, "MaxConnections", &type_limit, CONNECTIONS_MAX, DEFAULT_MAX_CONNECTIONS),
	LIMIT(MAX_FILES, "MaxFiles", &type_limit, FILES_MAX, DEFAULT_MAX_FILES),
	LIMIT(MAX_LEASES, "MaxLeases", &type_limit, LEASES_MAX, DEFAULT_MAX_LEASES),
	LIMIT(MAX_REQUESTS_PER_SECOND, "MaxRequestsPerSecond", &type_rate, RATE_MAX, POLICY_INFINITY),
	[POLICY_ALLOW_EVENTS] = { "AllowEvents", POLICY_OF_TENANT, &type_globs, .value = NOTHING, .empty = "*" },
	[POLICY_DENY_EVENTS] = { "DenyEvents", POLICY_OF_TENANT, &type_globs, .value = NOTHING },
	[POLICY_OWN_NAMES] = { "OwnNames", POLICY_OF_SECTION, &type_globs, GLOB_BYTES_MAX, .value = NOTHING },
	[POLICY_NAME_PREFIX] = { "NamePrefix", POLICY_OF_TENANT, &type_prefix, PREFIX_MAX, .value = NOTHING },
	[POLICY_ALLOW_PERSIST] = { "AllowPersist", POLICY_OF_TENANT, &type_yes_no, .value = NUMBER(false) },
	[POLICY_ALLOW_MULTI_FORMAT] = { "AllowMultiFormat", POLICY_OF_TENANT, &type_yes_no, .value = NUMBER(true) },
	[POLICY_ALLOW_HOST_ROOT] = { "AllowHostRoot", POLICY_OF_TENANT, &type_yes_no, .value = NUMBER(false) },
	[POLICY_ALLOW_HOST_USERNS] = { "AllowHostUserns", POLICY_OF_TENANT, &type_yes_no, .value = NUMBER(false) },
	[POLICY_STREAM] = { "Stream", POLICY_OF_TENANT, &type_stream, .value = NUMBER(POLICY_STREAM_AUTO) },
	[POLICY_KEEP_FOR] = { "KeepFor", POLICY_OF_TENANT, &type_time, KEEP_MAX, .value = NOTHING },
	[POLICY_OWN_TRACING] = { "OwnTracing", POLICY_OF_TENANT, &type_yes_no, .value = NUMBER(false) },
	[POLICY_MAX_TRACE_BYTES] = { "MaxTraceBytes", POLICY_OF_TENANT, &type_bytes, TRACE_BYTES_MAX,
				     .value = NUMBER(DEFAULT_MAX_TRACE_BYTES) },
	[POLICY_NATIVE] = { "Native", POLICY_OF_TENANT, &type_native, .value = NUMBER(POLICY_NATIVE_NO) },
	[POLICY_NATIVE_VIOLATIONS] = { "NativeViolations", POLICY_OF_TENANT, &type_violations,
				       .value = NUMBER(POLICY_VIOLATIONS_KILL) },
	[POLICY_SET_KERNEL_MAXIMUM] = { "SetKernelMaximum", POLICY_OF_DAEMON, &type_yes_no, .value = NUMBER(false) },
	[POLICY_KERNEL_MARGIN] = { "KernelMargin", POLICY_OF_DAEMON, &type_number, EVENTS_MAX,
				   .value = NUMBER(DEFAULT_KERNEL_MARGIN) },
	[POLICY_GUARD] = { "Guard", POLICY_OF_DAEMON, &type_guard, .value = NUMBER(POLICY_GUARD_PREFER) },
	[POLICY_METRICS_SOCKET] = { "MetricsSocket", POLICY_OF_DAEMON, &type_path, PATH_BYTES_MAX, .value = NOTHING },
	[POLICY_METRICS_TENANTS] = { "MetricsTenants", POLICY_OF_DAEMON, &type_yes_no, .value = NUMBER(false) },
	[POLICY_AUTO_RELOAD] = { "AutoReload", POLICY_OF_DAEMON, &type_yes_no, .value = NUMBER(false) },
	[POLICY_FIELDS] = { "Fields", POLICY_OF_EVENT, &type_fields, .value = NOTHING },
	[POLICY_PERSIST] = { "Persist", POLICY_OF_EVENT, &type_yes_no, .value = NUMBER(false) },
	[POLICY_TENANTS] = { "Tenants", POLICY_OF_EVENT, &type_patterns, .value = NOTHING, .empty = "/**" },
};

const char *policy_event_name(const char *section)
{
	static const char word[] = "Event";
	size_t blanks = 0;

	if (strncmp(section, word, strlen(word)) == 0)
		blanks = strspn(section + strlen(word), " \t");
	return blanks > 0 ? section + strlen(word) + blanks : NULL;
}

enum policy_section policy_section_kind(const char *section)
{
	if (streq(section, "Daemon"))
		return POLICY_SECTION_DAEMON;
	return policy_event_name(section) ? POLICY_SECTION_EVENT : POLICY_SECTION_CGROUPS;
}

enum policy_section policy_key_section(enum policy_key key)
{
	return (enum policy_section)MIN((int)policy_keys[key].reach, (int)POLICY_SECTION_CGROUPS);
}

const char *policy_key_word(enum policy_key key, const struct policy_value *value)
{
	return policy_keys[key].type->words[value->number];
}

enum policy_key policy_key_find(const char *name)
{
	size_t i = 0;

	while (i < POLICY_KEYS && !streq(policy_keys[i].name, name))
		i++;
	return (enum policy_key)i;
}

enum policy_key policy_key_suggest(const char *name, enum policy_section section)
{
	struct suggestions suggestions = { .wanted = name };
	const char *nearest;

	for (size_t i = 0; i < POLICY_KEYS; i++)
		if (policy_key_section((enum policy_key)i) == section)
			suggest(&suggestions, policy_keys[i].name, strlen(policy_keys[i].name));
	nearest = suggestions_nearest(&suggestions);
	return nearest ? policy_key_find(nearest) : POLICY_KEYS;
}

bool policy_value_set(struct policy *policy, enum policy_key which, char *text, const struct policy_origin *origin,
		      struct policy_value *value, struct text *why)
{
	const struct policy_key_row *key = &policy_keys[which];

	/* Only a list grows. */
	if (!*text || !key->type->check)
		*value = key->value;
	value->origin = *origin;
	value->order = ++policy->order;
	value->is_default = *text == '\0';
	if (!*text)
		return true;
	if (!key->type->check)
		return key->type->parse(key, text, value, why);
	for (char *word; (word = strsep(&text, " \t\r"));) {
		struct policy_glob *globs;

		if (!*word)
			continue;
		globs = policy_grow(policy, value->globs, value->n_globs, sizeof(*globs));
		if (!globs)
			break;
		value->globs = globs;
		globs += value->n_globs++;
		*globs = (struct policy_glob){ .text = word, .origin = value->origin };
		if (!key->type->check(policy, key, globs, why))
			return false;
	}
	return true;
}

void policy_value_text(enum policy_key which, const struct policy_value *value, struct text *text)
{
	const struct key_type *type = policy_keys[which].type;
	const char *empty = policy_keys[which].empty ? policy_keys[which].empty : "-";

	if (type->is_number && value->number == POLICY_INFINITY)
		text_printf(text, "infinity");
	else if (type->is_number)
		text_printf(text, "%" PRIu32, value->number);
	else if (value->number < type->n_words)
		text_printf(text, "%s", type->words[value->number]);
	else if (value->text)
		text_safe(text, value->text, strlen(value->text));
	if (type->has_burst && value->burst != value->number)
		text_printf(text, "/%" PRIu32, value->burst);
	for (size_t i = 0; i < value->n_globs; i++)
		text_printf(text, "%s%s", i > 0 ? " " : "", value->globs[i].text);
	if (text->length == 0)
		text_printf(text, "%s", empty);
}
