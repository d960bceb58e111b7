/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Reading descriptions. `text` is of ADMISSION_TEXT bytes. */

#include "kernel/guard/admission/maps.h"

/* By the automaton that begins with the state `rules`. */
static __noinline __u32 judge_name(const char text[static ADMISSION_TEXT], __u32 rules)
{
	const struct admission_shared *memory = shared_get();
	__u32 state = rules;

	if (!memory)
		return ADMISSION_NAME_BAD;
	for (int i = 0; i < ADMISSION_NAME_MAX + 1; i++) {
		const __u8 class = memory->classes[(__u8)text[i]];
		const struct admission_state *now = &memory->states[state & (ADMISSION_STATES - 1)];

		if (class == ADMISSION_END)
			return now->verdict;
		state = now->next[class & (ADMISSION_CLASSES - 1)];
		if (state == 0)
			return memory->states[0].verdict;
	}
	return ADMISSION_NAME_BAD;
}

/* Of a description that has `n` bytes. */
static __always_inline __u64 hash_text(const char *text, __u32 n)
{
	const __u64 *words = (const void *)text;
	__u64 hash = n;

	for (__u32 i = 0; i < ADMISSION_TEXT / 8 && i * 8 < n; i++) {
		__u64 word = words[i];

		if (n - i * 8 < 8)
			word &= (1ULL << (n - i * 8) * 8) - 1;
		hash = (hash ^ word) * 0x100000001b3ULL;
		hash ^= hash >> 29;
	}
	return hash;
}

/* Whether the tenant has the event that it last got by this description. */
static __always_inline bool has_already(__u64 cgroup, const char *text, __u32 n)
{
	const struct known asked = { .tenant = cgroup, .hash = hash_text(text, n) };
	const __u64 *event = bpf_map_lookup_elem(&known, &asked);
	struct admission_key key = { .tenant = cgroup };

	if (!event)
		return false;
	key.event = *event;
	return bpf_map_lookup_elem(&grants, &key);
}
