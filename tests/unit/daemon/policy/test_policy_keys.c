/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/keys.h"

#include <stdio.h>

#include "daemon/limits.h"
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

/* What the value is then, written out; or what is wrong with it. */
static const char *set(enum policy_key key, const char *text)
{
	static char buffer[512];
	struct text why = text_make(buffer, sizeof(buffer));
	struct policy_value value = { 0 };

	if (policy_value_parse(key, text, &here, &value, &why) == 0) {
		ck_assert_ptr_eq(value.origin.file, here.file);
		ck_assert(value.is_default == (*text == '\0'));
		string_copy(buffer, sizeof(buffer), text_of(key, &value));
	} else {
		/* As it was. */
		ck_assert_ptr_null(value.origin.file);
		ck_assert_ptr_null(value.text);
		ck_assert_uint_eq(value.n_globs, 0);
	}
	policy_value_deinit(&value);
	return buffer;
}

TEST(each_key_is_found_by_its_name_and_belongs_somewhere)
{
	for (size_t i = 0; i < POLICY_KEYS; i++) {
		const char *name = policy_key_name((enum policy_key)i);

		ck_assert_ptr_nonnull(name);
		ck_assert_uint_eq(policy_key_find(name), i);
		ck_assert((policy_key_section((enum policy_key)i) == POLICY_SECTION_CGROUPS) ==
			  (i < POLICY_CGROUP_KEYS));
		ck_assert(policy_key_default((enum policy_key)i)->is_default);
		ck_assert_ptr_null(policy_key_default((enum policy_key)i)->origin.file);
	}
	ck_assert_uint_eq(policy_key_find("maxevents"), POLICY_KEYS);
	ck_assert_uint_eq(policy_key_find(""), POLICY_KEYS);
}
END_TEST

TEST(the_defaults_are_those_of_the_manual)
{
	static const struct {
		enum policy_key key;
		const char *text;
	} defaults[] = {
		{ POLICY_TENANT, "-" },
		{ POLICY_MAX_EVENTS, "infinity" },
		{ POLICY_RESERVE_EVENTS, "0" },
		{ POLICY_MAX_CONNECTIONS, "infinity" },
		{ POLICY_MAX_FILES, "infinity" },
		{ POLICY_MAX_LEASES, "infinity" },
		{ POLICY_MAX_REQUESTS_PER_SECOND, "infinity" },
		{ POLICY_ALLOW_EVENTS, "*" },
		{ POLICY_DENY_EVENTS, "-" },
		{ POLICY_OWN_NAMES, "-" },
		{ POLICY_NAME_PREFIX, "-" },
		{ POLICY_ALLOW_PERSIST, "no" },
		{ POLICY_ALLOW_MULTI_FORMAT, "yes" },
		{ POLICY_ALLOW_HOST_ROOT, "no" },
		{ POLICY_ALLOW_HOST_USERNS, "no" },
		{ POLICY_STREAM, "auto" },
		{ POLICY_KEEP_FOR, "0" },
		{ POLICY_DEFAULT_MAX_EVENTS, "1024" },
		{ POLICY_DEFAULT_MAX_CONNECTIONS, "1024" },
		{ POLICY_DEFAULT_MAX_FILES, "2048" },
		{ POLICY_DEFAULT_MAX_LEASES, "65536" },
		{ POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND, "infinity" },
		{ POLICY_SET_KERNEL_MAXIMUM, "no" },
		{ POLICY_KERNEL_MARGIN, "256" },
		{ POLICY_GUARD, "prefer" },
		{ POLICY_METRICS_SOCKET, "-" },
		{ POLICY_FIELDS, "-" },
		{ POLICY_PERSIST, "no" },
		{ POLICY_TENANTS, "/**" },
	};

	ck_assert_uint_eq(ARRAY_SIZE(defaults), POLICY_KEYS);
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		ck_assert_uint_eq(defaults[i].key, i);
		ck_assert_str_eq(text_of(defaults[i].key, policy_key_default(defaults[i].key)), defaults[i].text);
		/* And an empty value gives them back. */
		ck_assert_str_eq(set(defaults[i].key, ""), defaults[i].text);
	}
	ck_assert_uint_eq(policy_key_default(POLICY_TENANT)->number, POLICY_TENANT_UNSAID);
	ck_assert_uint_eq(policy_key_default(POLICY_DEFAULT_MAX_EVENTS)->number, DEFAULT_MAX_EVENTS);
}
END_TEST

TEST(yes_and_no_have_the_words_that_systemd_has)
{
	static const enum policy_key keys[] = {
		POLICY_TENANT,		POLICY_ALLOW_PERSIST,	  POLICY_ALLOW_MULTI_FORMAT,
		POLICY_ALLOW_HOST_ROOT, POLICY_ALLOW_HOST_USERNS, POLICY_SET_KERNEL_MAXIMUM
	};
	static const char *const yes[] = { "yes", "true", "on", "1", "Yes" };
	static const char *const no[] = { "no", "false", "off", "0", "NO" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(yes); j++) {
			ck_assert_str_eq(set(keys[i], yes[j]), "yes");
			ck_assert_str_eq(set(keys[i], no[j]), "no");
		}
		ck_assert_str_eq(set(keys[i], "maybe"), "give yes or no");
		ck_assert_str_eq(set(keys[i], "yes please"), "give yes or no");
		ck_assert_str_eq(set(keys[i], "2"), "give yes or no");
	}
}
END_TEST

TEST(numbers_have_their_limits_and_the_sentence_says_which)
{
	static const struct {
		enum policy_key key;
		const char *most, *above, *range;
	} limits[] = {
		{ POLICY_MAX_EVENTS, "65535", "65536", "give 0 to 65535, or infinity" },
		{ POLICY_RESERVE_EVENTS, "65535", "65536", "give 0 to 65535" },
		{ POLICY_MAX_FILES, "1048576", "1048577", "give 0 to 1048576, or infinity" },
		{ POLICY_MAX_LEASES, "16777216", "16777217", "give 0 to 16777216, or infinity" },
		{ POLICY_MAX_CONNECTIONS, "1048576", "1048577", "give 0 to 1048576, or infinity" },
		{ POLICY_DEFAULT_MAX_EVENTS, "65535", "65536", "give 0 to 65535, or infinity" },
		{ POLICY_DEFAULT_MAX_CONNECTIONS, "1048576", "1048577", "give 0 to 1048576, or infinity" },
		{ POLICY_KERNEL_MARGIN, "65535", "65536", "give 0 to 65535" },
	};
	static const char *const words[] = { "many", "-1", "+1", "1.5", "1K", "10%", "0x10", " ", "1 2", "Infinity" };
	char sentence[64];

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		ck_assert_str_eq(set(limits[i].key, "0"), "0");
		ck_assert_str_eq(set(limits[i].key, "007"), "7");
		ck_assert_str_eq(set(limits[i].key, limits[i].most), limits[i].most);
		snprintf(sentence, sizeof(sentence), "too large; %s", limits[i].range);
		ck_assert_str_eq(set(limits[i].key, limits[i].above), sentence);
		/* 2^64, which is 0 for who does not look. */
		ck_assert_str_eq(set(limits[i].key, "18446744073709551616"), sentence);
		snprintf(sentence, sizeof(sentence), "not a number; %s", limits[i].range);
		for (size_t j = 0; j < ARRAY_SIZE(words); j++)
			ck_assert_str_eq(set(limits[i].key, words[j]), sentence);
		ck_assert_str_eq(set(limits[i].key, "infinity"),
				 strstr(limits[i].range, "infinity") ? "infinity" : sentence);
	}
}
END_TEST

TEST(a_rate_is_a_number_and_perhaps_a_burst)
{
	static const enum policy_key keys[] = { POLICY_MAX_REQUESTS_PER_SECOND,
						POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND };
	static const char range[] = "give N or N/BURST, both 1 to 1000000, or infinity";
	static const struct {
		const char *text, *wrong;
	} bad[] = {
		{ "0", "too small" },	     { "10/0", "too small" },
		{ "1000001", "too large" },  { "1/1000001", "too large" },
		{ "/5", "not a number" },    { "5/", "not a number" },
		{ "5/5/5", "not a number" }, { "5 / 5", "not a number" },
		{ "fast", "not a number" },  { "infinity/5", "not a number" },
	};
	char sentence[128];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		ck_assert_str_eq(set(keys[i], "100"), "100");
		ck_assert_str_eq(set(keys[i], "100/400"), "100/400");
		ck_assert_str_eq(set(keys[i], "400/100"), "400/100");
		ck_assert_str_eq(set(keys[i], "1000000/1000000"), "1000000");
		ck_assert_str_eq(set(keys[i], "infinity"), "infinity");
		for (size_t j = 0; j < ARRAY_SIZE(bad); j++) {
			snprintf(sentence, sizeof(sentence), "%s; %s", bad[j].wrong, range);
			ck_assert_str_eq(set(keys[i], bad[j].text), sentence);
		}
	}
}
END_TEST

TEST(without_a_burst_a_second_may_come_at_once)
{
	struct policy_value value = { 0 };

	ck_assert_int_eq(policy_value_parse(POLICY_MAX_REQUESTS_PER_SECOND, "70", &here, &value, NULL), 0);
	ck_assert_uint_eq(value.number, 70);
	ck_assert_uint_eq(value.burst, 70);
}
END_TEST

TEST(words_are_taken_whole_and_the_sentence_says_which_there_are)
{
	ck_assert_str_eq(set(POLICY_STREAM, "auto"), "auto");
	ck_assert_str_eq(set(POLICY_STREAM, "shared"), "shared");
	ck_assert_str_eq(set(POLICY_STREAM, "client"), "client");
	ck_assert_str_eq(set(POLICY_STREAM, "clients"), "give auto, shared or client");
	ck_assert_str_eq(set(POLICY_STREAM, "Auto"), "give auto, shared or client");
	ck_assert_str_eq(set(POLICY_GUARD, "require"), "require");
	ck_assert_str_eq(set(POLICY_GUARD, "off"), "off");
	ck_assert_str_eq(set(POLICY_GUARD, "no"), "give require, prefer or off");
}
END_TEST

TEST(a_prefix_is_how_a_name_may_begin)
{
	static const char wrong[] = "no name begins so; give at most 32 letters, digits and _, and no digit first";

	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "ci_"), "ci_");
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "_"), "_");
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "a2345678901234567890123456789012"),
			 "a2345678901234567890123456789012");
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "a23456789012345678901234567890123"), wrong);
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "1a"), wrong);
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "a-b"), wrong);
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "a b"), wrong);
	ck_assert_str_eq(set(POLICY_NAME_PREFIX, "a*"), wrong);
}
END_TEST

TEST(a_socket_has_a_path_from_the_root_that_fits_in_an_address)
{
	static const char wrong[] = "give a path that begins with '/' and has at most 107 bytes";
	char path[109];

	ck_assert_str_eq(set(POLICY_METRICS_SOCKET, "/run/userevd/metrics.sock"), "/run/userevd/metrics.sock");
	ck_assert_str_eq(set(POLICY_METRICS_SOCKET, "metrics.sock"), wrong);
	memset(path, '/', sizeof(path));
	path[107] = '\0';
	ck_assert_str_eq(set(POLICY_METRICS_SOCKET, path), path);
	path[107] = 'x';
	path[108] = '\0';
	ck_assert_str_eq(set(POLICY_METRICS_SOCKET, path), wrong);
}
END_TEST

TEST(an_owned_glob_is_as_long_as_can_be_compared)
{
	char text[GLOB_COMPARED_MAX + 2] = "";

	memset(text, 'x', GLOB_COMPARED_MAX);
	ck_assert_str_eq(set(POLICY_OWN_NAMES, text), text);
	text[GLOB_COMPARED_MAX] = 'x';
	ck_assert_str_eq(set(POLICY_OWN_NAMES, text), "a glob is longer than 255 bytes");
	ck_assert_str_eq(set(POLICY_DENY_EVENTS, text), text);
}
END_TEST

TEST(a_list_of_globs_is_taken_whole_or_not_at_all)
{
	static const char tail[] = "'; write globs such as http_*, with blanks between them";
	static const struct {
		const char *list, *wrong;
	} bad[] = {
		{ "a,b", "," }, { "good_* \"bad\"", "\"" }, { "!kvm_*", "!" },	   { "a.b", "." },
		{ "x:y", ":" }, { "a\\*", "\\" },	    { "a \x01", "\\x01" }, { "a-b", "-" },
	};
	static const enum policy_key keys[] = { POLICY_ALLOW_EVENTS, POLICY_DENY_EVENTS };
	char sentence[128];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		ck_assert_str_eq(set(keys[i], "http_* kvm_[a-f]?  \t*"), "http_* kvm_[a-f]? *");
		ck_assert_str_eq(set(keys[i], "x_[!0-9]"), "x_[!0-9]");
		for (size_t j = 0; j < ARRAY_SIZE(bad); j++) {
			snprintf(sentence, sizeof(sentence), "no name of an event has a '%s%s", bad[j].wrong, tail);
			ck_assert_str_eq(set(keys[i], bad[j].list), sentence);
		}
		ck_assert_str_eq(set(keys[i], "good [bad"),
				 "a '[' has no ']' in the same name; write \\[ for the character itself");
	}
}
END_TEST

TEST(lists_grow_line_by_line_and_an_empty_one_begins_anew)
{
	struct policy_origin later = { .section = "/a", .file = "b.conf", .line = 2 };
	struct policy_value value = { 0 };
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));

	ck_assert_int_eq(policy_value_parse(POLICY_DENY_EVENTS, "a b", &here, &value, &why), 0);
	ck_assert_int_eq(policy_value_parse(POLICY_DENY_EVENTS, "c", &later, &value, &why), 0);
	ck_assert_str_eq(text_of(POLICY_DENY_EVENTS, &value), "a b c");
	ck_assert_str_eq(value.globs[1].origin.file, "a.conf");
	ck_assert_uint_eq(value.globs[1].origin.line, 7);
	ck_assert_str_eq(value.globs[2].origin.file, "b.conf");
	/* What is wrong leaves it as it was. */
	ck_assert_int_eq(policy_value_parse(POLICY_DENY_EVENTS, "d e,f", &later, &value, &why), POLICY_E_WRONG);
	ck_assert_str_eq(text_of(POLICY_DENY_EVENTS, &value), "a b c");
	ck_assert_int_eq(policy_value_parse(POLICY_DENY_EVENTS, "", &later, &value, &why), 0);
	ck_assert_str_eq(text_of(POLICY_DENY_EVENTS, &value), "-");
	ck_assert(value.is_default);
	ck_assert_int_eq(policy_value_parse(POLICY_DENY_EVENTS, "g", &later, &value, &why), 0);
	ck_assert_str_eq(text_of(POLICY_DENY_EVENTS, &value), "g");
	ck_assert(!value.is_default);
	policy_value_deinit(&value);
}
END_TEST

TEST(of_two_values_the_later_counts_and_a_wrong_one_changes_nothing)
{
	struct policy_value value = { 0 };
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));

	ck_assert_int_eq(policy_value_parse(POLICY_NAME_PREFIX, "one_", &here, &value, &why), 0);
	ck_assert_int_eq(policy_value_parse(POLICY_NAME_PREFIX, "two_", &here, &value, &why), 0);
	ck_assert_str_eq(value.text, "two_");
	ck_assert_int_eq(policy_value_parse(POLICY_NAME_PREFIX, "3", &here, &value, &why), POLICY_E_WRONG);
	ck_assert_str_eq(value.text, "two_");
	policy_value_deinit(&value);
}
END_TEST

TEST(a_time_is_seconds_or_has_a_unit)
{
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "0"), "0");
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "90"), "90");
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "90s"), "90");
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "10min"), "600");
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "10 min"), "600");
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "24h"), "86400");
	ck_assert_str_eq(set(POLICY_KEEP_FOR, "1d"), "86400");
	for (size_t i = 0; i < 9; i++)
		ck_assert_str_eq(
			set(POLICY_KEEP_FOR, (const char *const[]){ "86401", "25h", "2d", "min", "1m", "-1", "1.5h",
								    "infinity", "99999999999999999999" }[i]),
			"give seconds, or a number with s, min, h or d behind it, up to a day");
}
END_TEST

TEST(fields_are_read_with_the_name_of_their_section)
{
	const struct policy_origin origin = { .section = "Event request", .file = "a.conf", .line = 1 };
	struct policy_value value = { 0 };
	char buffer[256], many[WIRE_DESCRIPTION_MAX];
	struct text why = text_make(buffer, sizeof(buffer));

	ck_assert_int_eq(policy_value_parse(POLICY_FIELDS, "u32 status; char[8] text", &origin, &value, &why), 0);
	ck_assert_str_eq(value.text, "u32 status; char[8] text");
	ck_assert_int_eq(policy_value_parse(POLICY_FIELDS, "u32", &origin, &value, &why), POLICY_E_WRONG);
	ck_assert_str_eq(value.text, "u32 status; char[8] text");
	memset(many, 'x', sizeof(many) - 1);
	memcpy(many, "u8 ", 3);
	many[sizeof(many) - 1] = '\0';
	why.length = 0;
	ck_assert_int_eq(policy_value_parse(POLICY_FIELDS, many, &origin, &value, &why), POLICY_E_WRONG);
	ck_assert_str_eq(buffer, "longer than 511 bytes, with the name");
	policy_value_deinit(&value);
}
END_TEST

TEST(a_list_of_patterns_is_taken_whole_or_not_at_all)
{
	const struct policy_origin origin = { .section = "Event request", .file = "a.conf", .line = 1 };
	struct policy_value value = { 0 };
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));

	ck_assert_int_eq(policy_value_parse(POLICY_TENANTS, "/a/* /b", &origin, &value, &why), 0);
	ck_assert_uint_eq(value.n_globs, 2);
	ck_assert_int_eq(policy_value_parse(POLICY_TENANTS, "/c d", &origin, &value, &why), POLICY_E_WRONG);
	ck_assert_str_eq(buffer, "a pattern of cgroups begins with '/'");
	ck_assert_str_eq(text_of(POLICY_TENANTS, &value), "/a/* /b");
	ck_assert_int_eq(policy_value_parse(POLICY_TENANTS, "/c", &origin, &value, &why), 0);
	ck_assert_str_eq(text_of(POLICY_TENANTS, &value), "/a/* /b /c");
	ck_assert_int_eq(policy_value_parse(POLICY_TENANTS, "", &origin, &value, &why), 0);
	ck_assert_uint_eq(value.n_globs, 0);
	policy_value_deinit(&value);
}
END_TEST

TEST(a_misspelt_key_is_like_one_of_its_section)
{
	ck_assert_uint_eq(policy_key_suggest("MaxEvent", POLICY_SECTION_CGROUPS), POLICY_MAX_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("maxevents", POLICY_SECTION_CGROUPS), POLICY_MAX_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("AllowEvetns", POLICY_SECTION_CGROUPS), POLICY_ALLOW_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("DefaultMaxEvent", POLICY_SECTION_DAEMON), POLICY_DEFAULT_MAX_EVENTS);
	ck_assert_uint_eq(policy_key_suggest("Field", POLICY_SECTION_EVENT), POLICY_FIELDS);
	ck_assert_uint_eq(policy_key_suggest("Field", POLICY_SECTION_CGROUPS), POLICY_KEYS);
	ck_assert_uint_eq(policy_key_suggest("Description", POLICY_SECTION_CGROUPS), POLICY_KEYS);
	ck_assert_uint_eq(policy_key_suggest("", POLICY_SECTION_DAEMON), POLICY_KEYS);
}
END_TEST

SUITE("policy_keys", each_key_is_found_by_its_name_and_belongs_somewhere, the_defaults_are_those_of_the_manual,
      yes_and_no_have_the_words_that_systemd_has, numbers_have_their_limits_and_the_sentence_says_which,
      a_rate_is_a_number_and_perhaps_a_burst, without_a_burst_a_second_may_come_at_once,
      words_are_taken_whole_and_the_sentence_says_which_there_are, a_prefix_is_how_a_name_may_begin,
      a_socket_has_a_path_from_the_root_that_fits_in_an_address, a_list_of_globs_is_taken_whole_or_not_at_all,
      an_owned_glob_is_as_long_as_can_be_compared, lists_grow_line_by_line_and_an_empty_one_begins_anew,
      of_two_values_the_later_counts_and_a_wrong_one_changes_nothing, a_time_is_seconds_or_has_a_unit,
      fields_are_read_with_the_name_of_their_section, a_list_of_patterns_is_taken_whole_or_not_at_all,
      a_misspelt_key_is_like_one_of_its_section)
