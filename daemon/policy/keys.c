/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One row for each key: what may be said, and what holds where nothing is. userevd.conf(5) says what they mean. */

#include "daemon/policy/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "daemon/limits.h"
#include "daemon/policy/glob.h"
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
	KEEP_MAX = 86400,     /* seconds: who wants an event for ever declares it */
};

enum kind {
	KIND_YES_NO,
	KIND_NUMBER,
	KIND_LIMIT,
	KIND_RATE,
	KIND_WORD,
	KIND_GLOBS,
	KIND_PREFIX,
	KIND_PATH,
	KIND_TIME,
	KIND_FIELDS,
	KIND_PATTERNS,
};

struct key {
	const char *name;
	enum policy_reach reach;
	enum kind kind;
	uint32_t most;
	const char *words[3];
	struct policy_value value; /* the default */
};

#define NUMBER(default_number)                                                                                         \
	{                                                                                                              \
		.is_default = true, .number = (default_number), .burst = (default_number)                              \
	}
#define NOTHING NUMBER(0)

static const struct key keys[POLICY_KEYS] = {
	[POLICY_TENANT] = { "Tenant", POLICY_OF_CGROUP, KIND_YES_NO, .value = NUMBER(POLICY_TENANT_UNSAID) },
	[POLICY_MAX_EVENTS] = { "MaxEvents", POLICY_OF_CGROUP, KIND_LIMIT, EVENTS_MAX,
				.value = NUMBER(POLICY_INFINITY) },
	[POLICY_RESERVE_EVENTS] = { "ReserveEvents", POLICY_OF_CGROUP, KIND_NUMBER, EVENTS_MAX, .value = NUMBER(0) },
	[POLICY_MAX_CONNECTIONS] = { "MaxConnections", POLICY_OF_CGROUP, KIND_LIMIT, CONNECTIONS_MAX,
				     .value = NUMBER(POLICY_INFINITY) },
	[POLICY_MAX_FILES] = { "MaxFiles", POLICY_OF_CGROUP, KIND_LIMIT, FILES_MAX, .value = NUMBER(POLICY_INFINITY) },
	[POLICY_MAX_LEASES] = { "MaxLeases", POLICY_OF_CGROUP, KIND_LIMIT, LEASES_MAX,
				.value = NUMBER(POLICY_INFINITY) },
	[POLICY_MAX_REQUESTS_PER_SECOND] = { "MaxRequestsPerSecond", POLICY_OF_CGROUP, KIND_RATE, RATE_MAX,
					     .value = NUMBER(POLICY_INFINITY) },
	[POLICY_ALLOW_EVENTS] = { "AllowEvents", POLICY_OF_TENANT, KIND_GLOBS, .value = NOTHING },
	[POLICY_DENY_EVENTS] = { "DenyEvents", POLICY_OF_TENANT, KIND_GLOBS, .value = NOTHING },
	[POLICY_OWN_NAMES] = { "OwnNames", POLICY_OF_SECTION, KIND_GLOBS, GLOB_COMPARED_MAX, .value = NOTHING },
	[POLICY_NAME_PREFIX] = { "NamePrefix", POLICY_OF_TENANT, KIND_PREFIX, PREFIX_MAX, .value = NOTHING },
	[POLICY_ALLOW_PERSIST] = { "AllowPersist", POLICY_OF_TENANT, KIND_YES_NO, .value = NUMBER(false) },
	[POLICY_ALLOW_MULTI_FORMAT] = { "AllowMultiFormat", POLICY_OF_TENANT, KIND_YES_NO, .value = NUMBER(true) },
	[POLICY_ALLOW_HOST_ROOT] = { "AllowHostRoot", POLICY_OF_TENANT, KIND_YES_NO, .value = NUMBER(false) },
	[POLICY_ALLOW_HOST_USERNS] = { "AllowHostUserns", POLICY_OF_TENANT, KIND_YES_NO, .value = NUMBER(false) },
	[POLICY_STREAM] = { "Stream", POLICY_OF_TENANT, KIND_WORD, .words = { "auto", "shared", "client" },
			    .value = NUMBER(POLICY_STREAM_AUTO) },
	[POLICY_KEEP_FOR] = { "KeepFor", POLICY_OF_TENANT, KIND_TIME, KEEP_MAX, .value = NOTHING },
	[POLICY_DEFAULT_MAX_EVENTS] = { "DefaultMaxEvents", POLICY_OF_DAEMON, KIND_LIMIT, EVENTS_MAX,
					.value = NUMBER(DEFAULT_MAX_EVENTS) },
	[POLICY_DEFAULT_MAX_CONNECTIONS] = { "DefaultMaxConnections", POLICY_OF_DAEMON, KIND_LIMIT, CONNECTIONS_MAX,
					     .value = NUMBER(DEFAULT_MAX_CONNECTIONS) },
	[POLICY_DEFAULT_MAX_FILES] = { "DefaultMaxFiles", POLICY_OF_DAEMON, KIND_LIMIT, FILES_MAX,
				       .value = NUMBER(DEFAULT_MAX_FILES) },
	[POLICY_DEFAULT_MAX_LEASES] = { "DefaultMaxLeases", POLICY_OF_DAEMON, KIND_LIMIT, LEASES_MAX,
					.value = NUMBER(DEFAULT_MAX_LEASES) },
	[POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND] = { "DefaultMaxRequestsPerSecond", POLICY_OF_DAEMON, KIND_RATE,
						     RATE_MAX, .value = NUMBER(POLICY_INFINITY) },
	[POLICY_SET_KERNEL_MAXIMUM] = { "SetKernelMaximum", POLICY_OF_DAEMON, KIND_YES_NO, .value = NUMBER(false) },
	[POLICY_KERNEL_MARGIN] = { "KernelMargin", POLICY_OF_DAEMON, KIND_NUMBER, EVENTS_MAX,
				   .value = NUMBER(DEFAULT_KERNEL_MARGIN) },
	[POLICY_GUARD] = { "Guard", POLICY_OF_DAEMON, KIND_WORD, .words = { "require", "prefer", "off" },
			   .value = NUMBER(POLICY_GUARD_PREFER) },
	[POLICY_METRICS_SOCKET] = { "MetricsSocket", POLICY_OF_DAEMON, KIND_PATH, PATH_BYTES_MAX, .value = NOTHING },
	[POLICY_FIELDS] = { "Fields", POLICY_OF_EVENT, KIND_FIELDS, .value = NOTHING },
	[POLICY_PERSIST] = { "Persist", POLICY_OF_EVENT, KIND_YES_NO, .value = NUMBER(false) },
	[POLICY_TENANTS] = { "Tenants", POLICY_OF_EVENT, KIND_PATTERNS, .value = NOTHING },
};

const char *policy_event_name(const char *section)
{
	static const char word[] = "Event";
	size_t blanks;

	if (strncmp(section, word, strlen(word)) != 0)
		return NULL;
	blanks = strspn(section + strlen(word), " \t");
	return blanks > 0 ? section + strlen(word) + blanks : NULL;
}

enum policy_section policy_section_kind(const char *section)
{
	if (streq(section, "Daemon"))
		return POLICY_SECTION_DAEMON;
	return policy_event_name(section) ? POLICY_SECTION_EVENT : POLICY_SECTION_CGROUPS;
}

const char *policy_key_name(enum policy_key key)
{
	return keys[key].name;
}

enum policy_reach policy_key_reach(enum policy_key key)
{
	return keys[key].reach;
}

enum policy_section policy_key_section(enum policy_key key)
{
	static const enum policy_section sections[] = {
		[POLICY_OF_DAEMON] = POLICY_SECTION_DAEMON,  [POLICY_OF_EVENT] = POLICY_SECTION_EVENT,
		[POLICY_OF_CGROUP] = POLICY_SECTION_CGROUPS, [POLICY_OF_SECTION] = POLICY_SECTION_CGROUPS,
		[POLICY_OF_TENANT] = POLICY_SECTION_CGROUPS,
	};

	return sections[keys[key].reach];
}

const struct policy_value *policy_key_default(enum policy_key key)
{
	return &keys[key].value;
}

enum policy_key policy_key_find(const char *name)
{
	size_t i = 0;

	while (i < POLICY_KEYS && !streq(keys[i].name, name))
		i++;
	return (enum policy_key)i;
}

enum policy_key policy_key_suggest(const char *name, enum policy_section section)
{
	struct suggestions suggestions = { .wanted = name };
	const char *nearest;

	for (size_t i = 0; i < POLICY_KEYS; i++)
		if (policy_key_section((enum policy_key)i) == section)
			suggest(&suggestions, keys[i].name, strlen(keys[i].name));
	nearest = suggestions_nearest(&suggestions);
	return nearest ? policy_key_find(nearest) : POLICY_KEYS;
}

static int parse_yes_no(const char *text, struct policy_value *value, struct text *why)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			value->number = i % 2;
			return 0;
		}
	}
	text_printf(why, "give yes or no");
	return POLICY_E_WRONG;
}

/* Digits, and nothing else. NULL: it is; else what it is instead. */
static const char *read_number(const char *text, size_t length, uint32_t least, uint32_t most, uint32_t *ret)
{
	uint64_t number = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return "not a number";
		number = MIN(number * 10 + (uint64_t)(text[i] - '0'), (uint64_t)UINT32_MAX);
	}
	if (length == 0)
		return "not a number";
	if (number < least || number > most)
		return number < least ? "too small" : "too large";
	*ret = (uint32_t)number;
	return NULL;
}

static int parse_number(const struct key *key, const char *text, struct policy_value *value, struct text *why)
{
	const char *wrong;

	if (key->kind == KIND_LIMIT && streq(text, "infinity")) {
		value->number = POLICY_INFINITY;
		return 0;
	}
	wrong = read_number(text, strlen(text), 0, key->most, &value->number);
	if (!wrong)
		return 0;
	text_printf(why, "%s; give 0 to %" PRIu32 "%s", wrong, key->most,
		    key->kind == KIND_LIMIT ? ", or infinity" : "");
	return POLICY_E_WRONG;
}

/* N, or N/BURST; without one, what comes in a second may come at once. */
static int parse_rate(const struct key *key, const char *text, struct policy_value *value, struct text *why)
{
	size_t length = strcspn(text, "/");
	const char *wrong;

	if (streq(text, "infinity")) {
		value->number = value->burst = POLICY_INFINITY;
		return 0;
	}
	wrong = read_number(text, length, 1, key->most, &value->number);
	value->burst = value->number;
	if (!wrong && text[length] == '/')
		wrong = read_number(text + length + 1, strlen(text + length + 1), 1, key->most, &value->burst);
	if (!wrong)
		return 0;
	text_printf(why, "%s; give N or N/BURST, both 1 to %" PRIu32 ", or infinity", wrong, key->most);
	return POLICY_E_WRONG;
}

static int parse_word(const struct key *key, const char *text, struct policy_value *value, struct text *why)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(key->words); i++) {
		if (streq(text, key->words[i])) {
			value->number = i;
			return 0;
		}
	}
	text_printf(why, "give %s, %s or %s", key->words[0], key->words[1], key->words[2]);
	return POLICY_E_WRONG;
}

static int set_text(const char *text, struct policy_value *value)
{
	value->text = strdup(text);
	return value->text ? 0 : -ENOMEM;
}

static int parse_prefix(const struct key *key, const char *text, struct policy_value *value, struct text *why)
{
	if (strlen(text) <= key->most && description_is_name(text, strlen(text)))
		return set_text(text, value);
	text_printf(why, "no name begins so; give at most %" PRIu32 " letters, digits and _, and no digit first",
		    key->most);
	return POLICY_E_WRONG;
}

static int parse_path(const struct key *key, const char *text, struct policy_value *value, struct text *why)
{
	if (text[0] == '/' && strlen(text) <= key->most)
		return set_text(text, value);
	text_printf(why, "give a path that begins with '/' and has at most %" PRIu32 " bytes", key->most);
	return POLICY_E_WRONG;
}

/* What else could stand in a glob would match no name; "!http_*" looks as if it did something. */
static bool may_stand_in_glob(const char *glob, size_t at)
{
	static const char anywhere[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*?[";

	return strchr(anywhere, glob[at]) || (strchr("]!^-", glob[at]) && memchr(glob, '[', at));
}

static int check_event_glob(const struct key *key, const char *glob, size_t length, struct text *why)
{
	if (key->most > 0 && length > key->most) {
		text_printf(why, "a glob is longer than %" PRIu32 " bytes", key->most);
		return POLICY_E_WRONG;
	}
	for (size_t i = 0; i < length; i++) {
		if (may_stand_in_glob(glob, i))
			continue;
		text_printf(why, "no name of an event has a '");
		text_safe(why, &glob[i], 1);
		text_printf(why, "'; write globs such as http_*, with blanks between them");
		return POLICY_E_WRONG;
	}
	return glob_check(glob, length, why) == 0 ? 0 : POLICY_E_WRONG;
}

/* Takes over the text, which may be NULL: no memory. */
static int append_glob(struct policy_value *value, char *text, const struct policy_origin *origin)
{
	struct policy_glob *globs = text ? reallocarray(value->globs, value->n_globs + 1, sizeof(*globs)) : NULL;

	if (!globs) {
		free(text);
		return -ENOMEM;
	}
	value->globs = globs;
	globs[value->n_globs++] = (struct policy_glob){ .text = text, .origin = *origin };
	return 0;
}

/* The next word of a list: its length, 0 at the end. */
static size_t next_word(const char **at)
{
	*at += strspn(*at, " \t\r");
	return strcspn(*at, " \t\r");
}

/* All of them are good, or none is taken. */
static int parse_globs(const struct key *key, const char *text, const struct policy_origin *origin,
		       struct policy_value *value, struct text *why)
{
	size_t length;
	int r = 0;

	for (const char *at = text; r == 0 && (length = next_word(&at)) > 0; at += length)
		r = check_event_glob(key, at, length, why);
	for (const char *at = text; r == 0 && (length = next_word(&at)) > 0; at += length)
		r = append_glob(value, strndup(at, length), origin);
	return r;
}

/* Of the list's end: what was added since. */
static void cut_globs(struct policy_value *value, size_t n)
{
	while (value->n_globs > n) {
		struct policy_glob *last = &value->globs[--value->n_globs];

		pattern_deinit(&last->pattern);
		free(last->text);
	}
}

static int append_pattern(struct policy_value *value, const char *word, size_t length,
			  const struct policy_origin *origin, struct text *why)
{
	int r = append_glob(value, strndup(word, length), origin);
	struct policy_glob *last;

	if (r < 0)
		return r;
	last = &value->globs[value->n_globs - 1];
	r = pattern_parse(last->text, &last->pattern, why);
	return r > 0 ? POLICY_E_WRONG : r;
}

static int parse_patterns(const char *text, const struct policy_origin *origin, struct policy_value *value,
			  struct text *why)
{
	size_t before = value->n_globs, length;
	int r = 0;

	for (const char *at = text; r == 0 && (length = next_word(&at)) > 0; at += length)
		r = append_pattern(value, at, length, origin, why);
	if (r != 0)
		cut_globs(value, before);
	return r;
}

/* Together with the name in front, which stands in the section's. */
static int parse_fields(const char *text, const struct policy_origin *origin, struct policy_value *value,
			struct text *why)
{
	static _Thread_local struct description description; /* large */
	char whole[WIRE_DESCRIPTION_MAX + 2];
	int length = snprintf(whole, sizeof(whole), "%s %s", policy_event_name(origin->section), text);

	if (length >= (int)sizeof(whole)) {
		text_printf(why, "longer than %d bytes, with the name", WIRE_DESCRIPTION_MAX);
		return POLICY_E_WRONG;
	}
	if (description_parse(whole, (size_t)length, &description, why) != 0)
		return POLICY_E_WRONG;
	return set_text(text, value);
}

/* Seconds, or with a unit behind the number. */
static int parse_time(const struct key *key, const char *text, struct policy_value *value, struct text *why)
{
	static const struct {
		const char *name;
		uint32_t seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits + strspn(text + digits, " ");
	uint32_t number;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!streq(unit, units[i].name) || read_number(text, digits, 0, key->most / units[i].seconds, &number))
			continue;
		value->number = number * units[i].seconds;
		return 0;
	}
	text_printf(why, "give seconds, or a number with s, min, h or d behind it, up to a day");
	return POLICY_E_WRONG;
}

static int parse(enum policy_key which, const char *text, const struct policy_origin *origin,
		 struct policy_value *value, struct text *why)
{
	const struct key *key = &keys[which];

	switch (key->kind) {
	case KIND_YES_NO:
		return parse_yes_no(text, value, why);
	case KIND_NUMBER:
	case KIND_LIMIT:
		return parse_number(key, text, value, why);
	case KIND_RATE:
		return parse_rate(key, text, value, why);
	case KIND_WORD:
		return parse_word(key, text, value, why);
	case KIND_PREFIX:
		return parse_prefix(key, text, value, why);
	case KIND_PATH:
		return parse_path(key, text, value, why);
	case KIND_TIME:
		return parse_time(key, text, value, why);
	case KIND_FIELDS:
		return parse_fields(text, origin, value, why);
	case KIND_PATTERNS:
		return parse_patterns(text, origin, value, why);
	case KIND_GLOBS:
		break;
	}
	return parse_globs(key, text, origin, value, why);
}

int policy_value_parse(enum policy_key key, const char *text, const struct policy_origin *origin,
		       struct policy_value *value, struct text *why)
{
	bool grows = (keys[key].kind == KIND_GLOBS || keys[key].kind == KIND_PATTERNS) && *text;
	struct policy_value new = grows ? *value : *policy_key_default(key);
	int r;

	new.origin = *origin;
	new.is_default = *text == '\0';
	r = *text ? parse(key, text, origin, &new, why) : 0;
	if (grows) {
		/* Also when memory ran short on the way: what there is of the list is the value's. */
		value->globs = new.globs;
		value->n_globs = new.n_globs;
	}
	if (r != 0)
		return r;
	if (!grows)
		policy_value_deinit(value);
	*value = new;
	return 0;
}

void policy_value_deinit(struct policy_value *value)
{
	cut_globs(value, 0);
	free(value->globs);
	free(value->text);
	*value = (struct policy_value){ 0 };
}

static void put_globs(const struct policy_value *value, struct text *text)
{
	for (size_t i = 0; i < value->n_globs; i++)
		text_printf(text, "%s%s", i > 0 ? " " : "", value->globs[i].text);
}

static void put_number(const struct key *key, const struct policy_value *value, struct text *text)
{
	if (value->number == POLICY_INFINITY)
		text_printf(text, "infinity");
	else
		text_printf(text, "%" PRIu32, value->number);
	if (key->kind == KIND_RATE && value->number != POLICY_INFINITY && value->burst != value->number)
		text_printf(text, "/%" PRIu32, value->burst);
}

void policy_value_text(enum policy_key which, const struct policy_value *value, struct text *text)
{
	const struct key *key = &keys[which];

	switch (key->kind) {
	case KIND_YES_NO:
		text_printf(text, "%s", value->number == POLICY_TENANT_UNSAID ? "-" : value->number ? "yes" : "no");
		break;
	case KIND_NUMBER:
	case KIND_LIMIT:
	case KIND_RATE:
	case KIND_TIME:
		put_number(key, value, text);
		break;
	case KIND_WORD:
		text_printf(text, "%s", key->words[value->number]);
		break;
	case KIND_GLOBS:
	case KIND_PATTERNS:
		put_globs(value, text);
		break;
	case KIND_PREFIX:
	case KIND_PATH:
	case KIND_FIELDS:
		text_safe(text, value->text ? value->text : "", value->text ? strlen(value->text) : 0);
		break;
	}
	if (text->length == 0)
		text_printf(text, "%s", which == POLICY_ALLOW_EVENTS ? "*" : which == POLICY_TENANTS ? "/**" : "-");
}
