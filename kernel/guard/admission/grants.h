/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* From a registration's place to a tenant's grant of an event. */

#include "kernel/guard/admission/maps.h"
#include "kernel/guard/admission/names.h"
#include "kernel/guard/admission/places.h"

/* Whether the current task is in a registration: nobody else of the machine is then. */
static __always_inline bool has_lock(const struct global *global, __u64 task)
{
	const struct mutex *lock = (const void *)global->lock;

	return lock && ((__u64)BPF_CORE_READ(lock, owner.counter) & ~7ULL) == task;
}

/* The current task's, if it has come as far as the kernel's copy. NULL: it has not. */
static __always_inline struct registration *current_registration(struct global *global)
{
	/* A task that has ended leaves its address to another one. */
	return global && global->registration.under_way && global->registration.task == bpf_get_current_task() &&
			       global->registration.thread == bpf_get_current_pid_tgid() &&
			       has_lock(global, bpf_get_current_task())
		       ? &global->registration
		       : NULL;
}

static __always_inline void note_holder(struct admission_grant *grant, __u32 verdict)
{
	grant->pid = bpf_get_current_pid_tgid() >> 32;
	grant->uid = bpf_get_current_uid_gid();
	if (verdict)
		grant->violation = verdict;
	bpf_get_current_comm(grant->comm, sizeof(grant->comm));
}

/* Of each eighth event of a tenant: the daemon only has to divide the fair share anew. */
static __always_inline void tell_of_some(const struct registration *registration)
{
	const struct admission_node *node = node_get(registration->charge.quota);

	if (node && node->used % 8 == 1)
		tell(registration->tenant.cgroup, ADMISSION_GRANTED, 0, registration->text);
}

static __always_inline __u32 grant_new(struct global *global, struct registration *registration,
				       const struct admission_key *key, __u32 verdict)
{
	struct known asked = { .tenant = key->tenant };
	struct scratch *scratch = scratch_get();
	struct admission_grant *grant;
	long n;

	if (!scratch)
		return verdict;
	grant = &scratch->grant;
	grant->files = 1;
	grant->violation = grant->swept = grant->pad = 0;
	grant->since = 0;
	grant->charge = registration->charge;
	note_holder(grant, verdict);
	n = bpf_probe_read_kernel_str(grant->text, sizeof(grant->text), registration->text);
	if (bpf_map_update_elem(&grants, key, grant, BPF_NOEXIST) < 0) {
		refund(&registration->charge);
		__sync_fetch_and_add(&global->uncounted, 1);
		return ADMISSION_FULL;
	}
	__sync_fetch_and_add(&global->grants, 1);
	asked.hash = hash_text(grant->text, n);
	bpf_map_update_elem(&known, &asked, &key->event, BPF_ANY);
	tell_of_some(registration);
	return verdict;
}

/* The registration has given its file a reference to this event. Returns what is wrong about that. */
static __always_inline __u32 grant_event(struct global *global, struct registration *registration)
{
	const struct admission_key key = { .tenant = registration->tenant.cgroup, .event = registration->event };
	struct admission_grant *grant = bpf_map_lookup_elem(&grants, &key);
	__u32 verdict = registration->verdict;

	if (grant) {
		if (registration->took)
			refund(&registration->charge);
		if (grant->files == 0)
			__sync_fetch_and_sub(&global->lingering, 1);
		grant->files++;
		note_holder(grant, verdict);
		return verdict;
	}
	/* An event that the tenant may not have counts nevertheless. */
	if (!registration->took && !charge(&registration->tenant, &registration->charge)) {
		if (!verdict)
			verdict = ADMISSION_QUOTA;
		charge_by_force(&registration->tenant, &registration->charge);
	}
	return grant_new(global, registration, &key, verdict);
}

/*
 * Ends the last registration that has come as far as the kernel's copy. For a task with the kernel's lock. Returns what is wrong about
 * what the registration has got.
 */
static __noinline int settle(struct global *global)
{
	struct registration *registration = &global->registration;
	const struct user_event_file_info *info = (const void *)registration->info;
	const struct user_event_refs *refs;
	struct admission_file *file;
	__u32 count = 0;

	if (registration->open == 0 || __sync_lock_test_and_set(&registration->open, 0) == 0)
		return 0;
	refs = BPF_CORE_READ(info, refs);
	if (refs)
		count = BPF_CORE_READ(refs, count);
	file = bpf_map_lookup_elem(&files, &registration->file);
	registration->event = 0;
	if (file && count > file->references) {
		file->references = count;
		bpf_core_read(&registration->event, sizeof(registration->event), &refs->events[count - 1]);
		return grant_event(global, registration);
	}
	if (registration->took)
		refund(&registration->charge);
	return 0;
}

/*
 * The same without the lock, for a registration that is over and has brought its file nothing, or whose file is being closed. The values
 * are its own if its number is still there afterwards.
 */
static __noinline int settle_failed(struct global *global, __u64 closed)
{
	struct registration *registration = &global->registration;
	const __u64 number = *(volatile __u64 *)&registration->open;
	const struct admission_charge charged = registration->charge;
	const struct user_event_file_info *info = (const void *)registration->info;
	const bool took = registration->took;
	const struct user_event_refs *refs = BPF_CORE_READ(info, refs);
	const __u64 count = refs ? BPF_CORE_READ(refs, count) : 0;
	__u64 name = registration->file;
	const struct admission_file *file = bpf_map_lookup_elem(&files, &name);

	if (number == 0 || (closed ? name != closed : !file || count > file->references))
		return 0;
	if (__sync_val_compare_and_swap(&registration->open, number, 0) == number && took)
		refund(&charged);
	return 0;
}
