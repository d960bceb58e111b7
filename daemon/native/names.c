/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Tenants with the same rules have the same states. A new policy's states are put into the half of the room that the last one does not
 * use, so that registrations under way go on by the rules with which they have begun.
 */

#include <stdio.h>

#include "daemon/native/automaton.h"
#include "daemon/native/state.h"

enum { HALF = (ADMISSION_STATES - ADMISSION_PROOF_STATES) / 2, KEY_BYTES = 4096 };

void names_deinit(struct natives *natives)
{
	while (natives->rulesets) {
		struct ruleset *next = natives->rulesets->next;

		free(natives->rulesets);
		natives->rulesets = next;
	}
}

void names_begin_anew(struct natives *natives)
{
	names_deinit(natives);
	natives->half = 1 - natives->half;
	/* State 0 refuses. */
	natives->next_state = natives->half * HALF + 1;
	automaton_begin(natives->kernel->shared->classes, &natives->kernel->shared->states[0]);
}

/* Everything in the policy that decides about names: values of one policy are where they are. */
static void put_key(const struct policy_rules *rules, struct text *text)
{
	const struct sections *owners = &rules->policy->owners, *events = &rules->policy->events;

	text_printf(text, "%p %p", (const void *)rules->value[POLICY_ALLOW_EVENTS],
		    (const void *)rules->value[POLICY_NAME_PREFIX]);
	for (size_t i = 0; i < rules->n_denials; i++)
		text_printf(text, " %p", (const void *)rules->denials[i]);
	text_printf(text, ":");
	for (size_t i = 0; i < owners->n; i++)
		text_put(text, policy_section_has(owners->at[i], rules->path) ? "y" : "n", 1);
	text_printf(text, ":");
	for (size_t i = 0; i < events->n; i++)
		text_put(text, policy_keeps_event(rules, events->at[i]) ? "y" : "n", 1);
}

int names_find(struct natives *natives, const struct policy_rules *rules)
{
	const uint16_t first = natives->next_state;
	struct ruleset *ruleset;
	TEXT(key, KEY_BYTES);
	int n;

	put_key(rules, &key);
	for (ruleset = natives->rulesets; ruleset; ruleset = ruleset->next)
		if (ruleset->size == key.length && memcmp(ruleset->key, key.buffer, key.length) == 0)
			return ruleset->first;
	n = automaton_make(rules, first, &natives->kernel->shared->states[first], (natives->half + 1) * HALF - first);
	if (n < 0)
		return n;
	natives->next_state = (uint16_t)(first + n);
	/* A key that does not fit is not found again, and one that can't be kept neither. */
	ruleset = key.length + 1 < KEY_BYTES ? malloc(sizeof(*ruleset) + key.length) : NULL;
	if (!ruleset)
		return first;
	ruleset->first = first;
	ruleset->size = key.length;
	ruleset->next = natives->rulesets;
	memcpy(ruleset->key, key.buffer, key.length);
	natives->rulesets = ruleset;
	return first;
}
