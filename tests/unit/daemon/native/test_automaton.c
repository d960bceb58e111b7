/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The kernel's automaton says the same about each name as the policy does. */

#include "daemon/native/automaton.h"

#include "protocol/event/description.h"
#include "tests/unit/daemon/policy/files.h"

enum { STATES = 4096, FIRST = 7 };
static struct admission_state states[FIRST + STATES];
static unsigned char classes[256];

/* As the kernel does it. */
static enum admission_verdict follow(const char *name)
{
	uint16_t state = FIRST;

	for (const char *at = name; *at; at++) {
		state = states[state].next[classes[(unsigned char)*at]];
	}
	return (enum admission_verdict)states[state].verdict;
}

static int make(const struct policy *policy, const char *path, struct policy_rules *rules)
{
	policy_resolve(policy, path, rules);
	automaton_begin(classes, &states[0]);
	return automaton_make(rules, FIRST, states + FIRST, STATES);
}

static enum admission_verdict expected(const struct policy_rules *rules, const char *name)
{
	const char *prefix = rules->value[POLICY_NAME_PREFIX]->text;
	struct policy_verdict verdict;
	TEXT(why, 512);

	if (!description_is_name(name, strlen(name)))
		return ADMISSION_NAME_BAD;
	if (prefix && strncmp(name, prefix, strlen(prefix)) != 0)
		return ADMISSION_NAME_PREFIX;
	if (policy_may_register(rules, name, strlen(name), 0, &verdict, &why) == 0)
		return ADMISSION_ALLOWED;
	return verdict.key == POLICY_DENY_EVENTS    ? ADMISSION_NAME_DENIED
	       : verdict.key == POLICY_ALLOW_EVENTS ? ADMISSION_NAME_UNLISTED
						    : ADMISSION_NAME_OWNED;
}

static void expect_same(const struct policy_rules *rules, const char *name)
{
	ck_assert_msg(follow(name) == expected(rules, name), "%s: %u, expected %u", name, follow(name),
		      expected(rules, name));
}

TEST(without_rules_all_names_are_allowed)
{
	FILES;
	POLICY(policy, "");
	struct policy_rules rules;

	ck_assert_int_gt(make(policy, "/a", &rules), 0);
	ck_assert_uint_eq(follow("http_request2"), ADMISSION_ALLOWED);
	ck_assert_uint_eq(follow(""), ADMISSION_NAME_BAD);
	ck_assert_uint_eq(follow("2http"), ADMISSION_NAME_BAD);
	ck_assert_uint_eq(follow("http.request"), ADMISSION_NAME_BAD);
	ck_assert_uint_eq(follow("http:flag"), ADMISSION_NAME_BAD);
}

TEST(each_rule_has_its_verdict)
{
	FILES;
	POLICY(policy, "[/a]\nDenyEvents=*secret* x?z [m-o]*\nAllowEvents=shop_* secret x* m*\nNamePrefix=\n"
		       "[/owner]\nOwnNames=shop_audit*\n"
		       "[/p]\nNamePrefix=p_\n"
		       "[Event shop_kept]\nFields=u32 x\nTenants=/b\n");
	struct policy_rules rules;

	ck_assert_int_gt(make(policy, "/a", &rules), 0);
	ck_assert_uint_eq(follow("shop_order"), ADMISSION_ALLOWED);
	ck_assert_uint_eq(follow("shop_secret_order"), ADMISSION_NAME_DENIED);
	ck_assert_uint_eq(follow("xyz"), ADMISSION_NAME_DENIED);
	ck_assert_uint_eq(follow("xyzz"), ADMISSION_ALLOWED);
	ck_assert_uint_eq(follow("metric"), ADMISSION_NAME_DENIED);
	ck_assert_uint_eq(follow("shop_audit1"), ADMISSION_NAME_OWNED);
	ck_assert_uint_eq(follow("shop_kept"), ADMISSION_NAME_OWNED);
	ck_assert_uint_eq(follow("shop_kept2"), ADMISSION_ALLOWED);
	ck_assert_uint_eq(follow("rest"), ADMISSION_NAME_UNLISTED);
	ck_assert_int_gt(make(policy, "/owner", &rules), 0);
	ck_assert_uint_eq(follow("shop_audit1"), ADMISSION_ALLOWED);
	ck_assert_int_gt(make(policy, "/b", &rules), 0);
	ck_assert_uint_eq(follow("shop_kept"), ADMISSION_ALLOWED);
	ck_assert_int_gt(make(policy, "/p", &rules), 0);
	ck_assert_uint_eq(follow("p_event"), ADMISSION_ALLOWED);
	ck_assert_uint_eq(follow("p"), ADMISSION_NAME_PREFIX);
	ck_assert_uint_eq(follow("event"), ADMISSION_NAME_PREFIX);
}

/* From few letters, so that globs and names meet often. */
static void random_text(char *ret, size_t size, const char *letters)
{
	const size_t length = 1 + (size_t)random() % (size - 1);

	for (size_t i = 0; i < length; i++)
		ret[i] = letters[(size_t)random() % strlen(letters)];
	ret[length] = '\0';
}

static void random_globs(struct text *text, const char *key)
{
	char glob[8];

	text_printf(text, "%s=", key);
	for (long i = random() % 4; i >= 0; i--) {
		random_text(glob, sizeof(glob), "abA_1**?");
		text_printf(text, "%s%s ", glob, random() % 4 == 0 ? "[a-b]*" : "");
	}
	text_printf(text, "\n");
}

TEST(random_rules_agree_with_the_policy)
{
	FILES;

	srandom(1);
	for (unsigned round = 0; round < 100; round++) {
		struct policy_rules rules;
		TEXT(text, 1024);
		char name[10];

		text_printf(&text, "[/a]\n");
		if (random() % 2)
			random_globs(&text, "DenyEvents");
		if (random() % 2)
			random_globs(&text, "AllowEvents");
		if (random() % 3 == 0)
			text_printf(&text, "NamePrefix=a\n");
		text_printf(&text, "[/b]\n");
		if (random() % 2)
			random_globs(&text, "OwnNames");
		POLICY(policy, text.buffer);

		ck_assert_int_gt(make(policy, "/a", &rules), 0);
		for (unsigned i = 0; i < 300; i++) {
			random_text(name, sizeof(name), "abABc_12.");
			expect_same(&rules, name);
		}
	}
}

TEST(rules_that_need_too_many_states_are_refused)
{
	FILES;
	POLICY(policy, "[/a]\nDenyEvents=*a?????????????* *b?????????????*\n");
	struct policy_rules rules;

	ck_assert_int_eq(make(policy, "/a", &rules), -E2BIG);
}
