/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/build.h"

#include "protocol/protocol.h"
#include "tests/suite.h"

static const struct policy_origin here = { .section = "/a", .file = "a.conf", .line = 7 };

static const char *text_of(enum policy_key key, const struct policy_value *value)
{
	static char buffer[512];
	struct text text = text_make(buffer, sizeof(buffer));

	policy_value_text(key, value, &text);
	return buffer;
}

static struct policy *policy;

/* The text of the value, or the sentence that refuses it. */
static const char *set_again(enum policy_key key, const char *text, const struct policy_origin *origin,
			     struct policy_value *value)
{
	static char buffer[512];
	struct text why = text_make(buffer, sizeof(buffer));
	char *line = policy_allocate(policy, strlen(text) + 1);

	memcpy(line, text, strlen(text));
	if (!policy_value_set(policy, key, line, origin, value, &why))
		return buffer;
	ck_assert_ptr_eq(value->origin.file, origin->file);
	ck_assert(value->is_default == (*text == '\0'));
	return text_of(key, value);
}

static const char *set(enum policy_key key, const char *text)
{
	policy_unref(policy);
	policy = policy_new();
	return set_again(key, text, &here, &(struct policy_value){ 0 });
}

/* tests/unit/test_man.py compares names, sections and defaults with the manual. */
TEST(key_is_found_by_its_name)
{
	for (enum policy_key key = 0; key < POLICY_KEYS; key++) {
		ck_assert_uint_eq(policy_key_find(policy_keys[key].name), key);
		ck_assert((policy_key_section(key) == POLICY_SECTION_CGROUPS) == (key < POLICY_CGROUP_KEYS));
		ck_assert(policy_keys[key].value.is_default);
		ck_assert_ptr_null(policy_keys[key].value.origin.file);
		ck_assert_str_eq(set(key, ""), text_of(key, &policy_keys[key].value));
	}
	ck_assert_uint_eq(policy_key_find("maxevents"), POLICY_KEYS);
	ck_assert_uint_eq(policy_key_find(""), POLICY_KEYS);
}

#define LIMIT(key, most, above)                                                                                        \
	{ key, "0", "0" }, { key, "007", "7" }, { key, most, most },                                                   \
		{ key, above, "too large; give 0 to " most ", or infinity" }, { key, "infinity", "infinity" },         \
	{                                                                                                              \
		key, "-1", "not a number; give 0 to " most ", or infinity"                                             \
	}
#define NUMBER(key, most, above)                                                                                       \
	{ key, "0", "0" }, { key, most, most }, { key, above, "too large; give 0 to " most },                          \
	{                                                                                                              \
		key, "infinity", "not a number; give 0 to " most                                                       \
	}
#define YES_NO(key)                                                                                                    \
	{ key, "yes", "yes" }, { key, "no", "no" },                                                                    \
	{                                                                                                              \
		key, "maybe", "give yes or no"                                                                         \
	}
#define RATE	    " give N or N/BURST, both 1 to 1000000, or infinity"
#define PREFIX	    "no name begins so; give at most 32 letters, digits and _, and no digit first"
#define TIME	    "give seconds, or a number with s, min, h or d behind it, up to a day"
#define GLOBS(byte) "no name of an event has a '" byte "'; write globs such as http_*, with blanks between them"
#define MOST_EVENTS "not a number; give 0 to 65535, or infinity"

/* The value that a text gives a key, or the sentence that refuses it. */
TEST(value_is_taken_or_refused)
{
	static const struct {
		enum policy_key key;
		const char *text, *result;
	} cases[] = {
		YES_NO(POLICY_TENANT),
		YES_NO(POLICY_ALLOW_PERSIST),
		YES_NO(POLICY_ALLOW_MULTI_FORMAT),
		YES_NO(POLICY_ALLOW_HOST_ROOT),
		YES_NO(POLICY_ALLOW_HOST_USERNS),
		YES_NO(POLICY_SET_KERNEL_MAXIMUM),
		YES_NO(POLICY_PERSIST),
		{ POLICY_TENANT, "true", "yes" },
		{ POLICY_TENANT, "on", "yes" },
		{ POLICY_TENANT, "1", "yes" },
		{ POLICY_TENANT, "Yes", "yes" },
		{ POLICY_TENANT, "false", "no" },
		{ POLICY_TENANT, "off", "no" },
		{ POLICY_TENANT, "0", "no" },
		{ POLICY_TENANT, "NO", "no" },
		{ POLICY_TENANT, "yes please", "give yes or no" },
		{ POLICY_TENANT, "2", "give yes or no" },
		LIMIT(POLICY_MAX_EVENTS, "65535", "65536"),
		LIMIT(POLICY_MAX_CONNECTIONS, "1048576", "1048577"),
		LIMIT(POLICY_MAX_FILES, "1048576", "1048577"),
		LIMIT(POLICY_MAX_LEASES, "16777216", "16777217"),
		LIMIT(POLICY_DEFAULT_MAX_EVENTS, "65535", "65536"),
		LIMIT(POLICY_DEFAULT_MAX_CONNECTIONS, "1048576", "1048577"),
		LIMIT(POLICY_DEFAULT_MAX_FILES, "1048576", "1048577"),
		LIMIT(POLICY_DEFAULT_MAX_LEASES, "16777216", "16777217"),
		NUMBER(POLICY_RESERVE_EVENTS, "65535", "65536"),
		NUMBER(POLICY_KERNEL_MARGIN, "65535", "65536"),
		/* 2^64, which wraps around to 0. */
		{ POLICY_MAX_EVENTS, "18446744073709551616", "too large; give 0 to 65535, or infinity" },
		{ POLICY_MAX_EVENTS, "many", MOST_EVENTS },
		{ POLICY_MAX_EVENTS, "1K", MOST_EVENTS },
		{ POLICY_MAX_EVENTS, "Infinity", MOST_EVENTS },
		{ POLICY_MAX_EVENTS, " ", MOST_EVENTS },
		{ POLICY_MAX_EVENTS, "1 2", MOST_EVENTS },
		/* Without a burst, the number is the burst. */
		{ POLICY_MAX_REQUESTS_PER_SECOND, "100", "100" },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "400/100", "400/100" },
		{ POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND, "100/400", "100/400" },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "1000000/1000000", "1000000" },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "infinity", "infinity" },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "0", "too small;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "10/0", "too small;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "1000001", "too large;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "1/1000001", "too large;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "/5", "not a number;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "5/", "not a number;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "5/5/5", "not a number;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "5 / 5", "not a number;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "fast", "not a number;" RATE },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "infinity/5", "not a number;" RATE },
		{ POLICY_STREAM, "auto", "auto" },
		{ POLICY_STREAM, "shared", "shared" },
		{ POLICY_STREAM, "client", "client" },
		{ POLICY_STREAM, "clients", "give auto, shared or client" },
		{ POLICY_STREAM, "Auto", "auto" },
		{ POLICY_GUARD, "require", "require" },
		{ POLICY_GUARD, "off", "off" },
		{ POLICY_GUARD, "no", "give require, prefer or off" },
		{ POLICY_NAME_PREFIX, "ci_", "ci_" },
		{ POLICY_NAME_PREFIX, "_", "_" },
		{ POLICY_NAME_PREFIX, "a2345678901234567890123456789012", "a2345678901234567890123456789012" },
		{ POLICY_NAME_PREFIX, "a23456789012345678901234567890123", PREFIX },
		{ POLICY_NAME_PREFIX, "1a", PREFIX },
		{ POLICY_NAME_PREFIX, "a-b", PREFIX },
		{ POLICY_NAME_PREFIX, "a b", PREFIX },
		{ POLICY_NAME_PREFIX, "a*", PREFIX },
		{ POLICY_METRICS_SOCKET, "/run/userevd/metrics.sock", "/run/userevd/metrics.sock" },
		{ POLICY_AUTO_RELOAD, "yes", "yes" },
		{ POLICY_METRICS_TENANTS, "yes", "yes" },
		{ POLICY_METRICS_TENANTS, "few", "give yes or no" },
		{ POLICY_METRICS_SOCKET, "metrics.sock", "give a path that begins with '/' and has at most 107 bytes" },
		{ POLICY_KEEP_FOR, "0", "0" },
		{ POLICY_KEEP_FOR, "90s", "90" },
		{ POLICY_KEEP_FOR, "10min", "600" },
		{ POLICY_KEEP_FOR, "10 min", "600" },
		{ POLICY_KEEP_FOR, "1d", "86400" },
		{ POLICY_KEEP_FOR, "86401", TIME },
		{ POLICY_KEEP_FOR, "2d", TIME },
		{ POLICY_KEEP_FOR, "min", TIME },
		{ POLICY_KEEP_FOR, "1m", TIME },
		{ POLICY_KEEP_FOR, "-1", TIME },
		{ POLICY_KEEP_FOR, "1.5h", TIME },
		{ POLICY_KEEP_FOR, "infinity", TIME },
		{ POLICY_KEEP_FOR, "99999999999999999999", TIME },
		{ POLICY_ALLOW_EVENTS, "http_* kvm_[a-f]?  \t*", "http_* kvm_[a-f]? *" },
		{ POLICY_DENY_EVENTS, "x_[!0-9]", "x_[!0-9]" },
		{ POLICY_DENY_EVENTS, "a,b", GLOBS(",") },
		{ POLICY_ALLOW_EVENTS, "good_* \"bad\"", GLOBS("\"") },
		{ POLICY_DENY_EVENTS, "!kvm_*", GLOBS("!") },
		{ POLICY_DENY_EVENTS, "a.b", GLOBS(".") },
		{ POLICY_DENY_EVENTS, "x:y", GLOBS(":") },
		{ POLICY_DENY_EVENTS, "a\\*", GLOBS("\\") },
		{ POLICY_DENY_EVENTS, "a \x01", GLOBS("\\x01") },
		{ POLICY_DENY_EVENTS, "a-b", GLOBS("-") },
		{ POLICY_DENY_EVENTS, "good [bad",
		  "a '[' has no ']' in the same name; write \\[ for the character itself" },
		{ POLICY_TENANTS, "/a/* /b", "/a/* /b" },
		{ POLICY_TENANTS, "/c d", "a pattern of cgroups begins with '/'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_msg(streq(set(cases[i].key, cases[i].text), cases[i].result), "%s=%s: %s",
			      policy_keys[cases[i].key].name, cases[i].text, set(cases[i].key, cases[i].text));
}

TEST(longest_value_is_taken_and_a_longer_one_refused)
{
	static const struct {
		enum policy_key key;
		size_t most;
		char byte;
		const char *refusal; /* NULL: there is no limit here */
	} cases[] = {
		{ POLICY_METRICS_SOCKET, 107, '/', "give a path that begins with '/' and has at most 107 bytes" },
		{ POLICY_OWN_NAMES, GLOB_BYTES_MAX, 'x', "a glob is longer than 255 bytes" },
		{ POLICY_DENY_EVENTS, GLOB_BYTES_MAX, 'x', NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[GLOB_BYTES_MAX + 2] = "";

		memset(text, cases[i].byte, cases[i].most);
		ck_assert_str_eq(set(cases[i].key, text), text);
		text[cases[i].most] = cases[i].byte;
		ck_assert_str_eq(set(cases[i].key, text), cases[i].refusal ? cases[i].refusal : text);
	}
}

/* Gives one key several values, and checks the text after each. */
static void expect_values(enum policy_key key, const char *const (*values)[2], size_t n)
{
	const struct policy_origin origin = { .section = "/b", .file = "b.conf", .line = 1 };
	struct policy_value value = { 0 };

	policy_unref(policy);
	policy = policy_new();
	for (size_t i = 0; i < n; i++) {
		ck_assert_str_eq(set_again(key, values[i][0], i == 0 ? &here : &origin, &value), values[i][1]);
		/* Each entry of a list has the origin of its line. */
		for (size_t j = 0; j < value.n_globs && i == 1; j++)
			ck_assert_str_eq(value.globs[j].origin.file, j < 2 ? "a.conf" : "b.conf");
	}
}

TEST(later_value_replaces_a_text_and_adds_to_a_list)
{
	static const char *const globs[][2] = { { "a b", "a b" }, { "c", "a b c" }, { "", "-" }, { "g", "g" } };
	static const char *const patterns[][2] = { { "/a/* /b", "/a/* /b" }, { "/c", "/a/* /b /c" }, { "", "/**" } };
	static const char *const prefixes[][2] = { { "one_", "one_" }, { "two_", "two_" } };

	expect_values(POLICY_DENY_EVENTS, globs, ARRAY_SIZE(globs));
	expect_values(POLICY_TENANTS, patterns, ARRAY_SIZE(patterns));
	expect_values(POLICY_NAME_PREFIX, prefixes, ARRAY_SIZE(prefixes));
}

TEST(fields_are_parsed_with_the_name_of_their_section)
{
	const struct policy_origin origin = { .section = "Event request", .file = "a.conf", .line = 1 };
	struct policy_value value = { 0 };
	char many[WIRE_DESCRIPTION_MAX];

	set(POLICY_MAX_EVENTS, "");
	ck_assert_str_eq(set_again(POLICY_FIELDS, "u32 status; char[8] text", &origin, &value),
			 "u32 status; char[8] text");
	ck_assert_str_eq(set_again(POLICY_FIELDS, "long x", &origin, &value),
			 "field 1: 'long' has no fixed size; use s64 or u64");
	memset(many, 'x', sizeof(many) - 1);
	memcpy(many, "u8 ", 3);
	many[sizeof(many) - 1] = '\0';
	ck_assert_str_eq(set_again(POLICY_FIELDS, many, &origin, &value), "longer than 511 bytes, with the name");
}

TEST(misspelt_key_gets_a_suggestion_of_its_section)
{
	ck_assert_uint_eq(policy_key_suggest("MaxEvent", POLICY_SECTION_CGROUPS), POLICY_MAX_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("maxevents", POLICY_SECTION_CGROUPS), POLICY_MAX_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("AllowEvetns", POLICY_SECTION_CGROUPS), POLICY_ALLOW_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("DefaultMaxEvent", POLICY_SECTION_DAEMON), POLICY_DEFAULT_MAX_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("Field", POLICY_SECTION_EVENT), POLICY_FIELDS);
	ck_assert_uint_eq(policy_key_suggest("Field", POLICY_SECTION_DAEMON), POLICY_KEYS);
	ck_assert_uint_eq(policy_key_suggest("Description", POLICY_SECTION_CGROUPS), POLICY_KEYS);
	ck_assert_uint_eq(policy_key_suggest("", POLICY_SECTION_DAEMON), POLICY_KEYS);
}
