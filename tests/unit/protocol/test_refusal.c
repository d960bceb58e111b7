/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/refusal.h"
#include "tests/suite.h"

TEST(every_refusal_has_a_unique_name_and_an_errno)
{
	ck_assert_int_eq(refusal_to_errno(REFUSAL_NONE), 0);
	for (uint32_t i = 0; i < REFUSAL_MAX_; i++) {
		const char *name = refusal_name(i);

		ck_assert_msg(name && *name, "%u has no name", i);
		ck_assert_msg(strspn(name, "abcdefghijklmnopqrstuvwxyz-") == strlen(name), "%s", name);
		ck_assert_str_ne(name, "unknown");
		for (uint32_t other = 0; other < i; other++)
			ck_assert_str_ne(name, refusal_name(other));
		ck_assert_msg(i == 0 || (refusal_to_errno(i) < 0 && refusal_to_errno(i) > -200), "%s", name);
	}
}

TEST(unknown_refusals_are_errors)
{
	static const uint32_t numbers[] = { REFUSAL_MAX_, REFUSAL_MAX_ + 1, 65535, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		ck_assert_str_eq(refusal_name(numbers[i]), "unknown");
		ck_assert_int_eq(refusal_to_errno(numbers[i]), -EIO);
	}
}

/* Clients in other languages and scripts rely on these. Only additions are permitted. */
TEST(numbers_and_names_never_change)
{
	static const struct {
		const char *name;
		uint32_t number;
		int error;
	} known[] = {
		{ "bad-packet", 1, EPROTO },
		{ "unknown-kind", 2, EPROTO },
		{ "unexpected-fds", 3, EPROTO },
		{ "hello-first", 4, EPROTO },
		{ "feature-missing", 5, EPROTO },
		{ "wrong-user", 6, EACCES },
		{ "unknown-peer", 7, EACCES },
		{ "too-slow", 8, ETIMEDOUT },
		{ "too-many-connections", 9, EDQUOT },
		{ "bad-description", 10, EINVAL },
		{ "name-taken", 11, EEXIST },
		{ "quota-exceeded", 12, EDQUOT },
		{ "page-full", 13, ENOSPC },
		{ "machine-full", 14, ENOSPC },
		{ "not-permitted", 15, EACCES },
		{ "kernel-too-old", 16, EOPNOTSUPP },
		{ "no-such-event", 17, ENOENT },
		{ "trouble", 18, EIO },
		{ "not-the-tracer", 19, EOPNOTSUPP },
		{ "self-registered", 20, EACCES },
		{ "in-use", 21, EBUSY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		ck_assert_str_eq(refusal_name(known[i].number), known[i].name);
		ck_assert_int_eq(refusal_to_errno(known[i].number), -known[i].error);
	}
}
