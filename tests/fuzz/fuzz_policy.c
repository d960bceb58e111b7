/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A policy file, and a tenant whose path is the first line: the file has an error, or the policy decides about an event. */

#include "daemon/policy/build.h"
#include "protocol/protocol.h"
#include "protocol/refusal.h"
#include "tests/fuzz/fuzz.h"

static void ask(const struct policy *policy, const char *path)
{
	struct policy_rules rules;
	struct policy_verdict verdict;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	policy_resolve(policy, path, &rules);
	for (size_t i = 0; i < POLICY_CGROUP_KEYS; i++)
		require(rules.value[i]);
	r = policy_may_register(&rules, "some_event", strlen("some_event"), REGISTER_PERSIST, &verdict, &why);
	require(r == 0 || (r == REFUSAL_NOT_PERMITTED && why.length > 0));
	policy_tenant(policy, path);
	policy_sum_maxima(policy);
	for (size_t i = 0; i < policy->events.n; i++) {
		const char *name = policy_event_name(policy->events.at[i]->name);

		require(policy_find_event(policy, name, strlen(name)) == policy->events.at[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = as_text(data, size), *path = NULL;
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	_cleanup_(policy_unrefp) struct policy *policy = policy_new();
	size_t line = strcspn(text, "\n");

	path = strndup(text, line);
	require(policy && path);
	policy_load_text(policy, "fuzz.conf", text, &problems);
	policy_check_sections(policy, &problems);
	require(!policy->failed && !problems.failed && problems.errors <= problems.n);
	for (size_t i = 0; i < problems.n; i++)
		require(*problems.list[i].sentence);
	if (problems.errors > 0)
		return 0;
	policy_check_capacity(policy, 1000, &problems);
	ask(policy, *path == '/' ? path : "/system.slice/some.service");
	return 0;
}
