/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the programs of admission.bpf.c remember. */

#include <asm-generic/errno-base.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdbool.h>

/* After <linux/bpf.h>, whose types they need. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel/guard/admission.h"
#include "kernel/guard/admission/types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct admission_shared);
} shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ADMISSION_FILES);
	__type(key, __u64);
	__type(value, struct admission_file);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ADMISSION_GRANTS);
	__type(key, struct admission_key);
	__type(value, struct admission_grant);
} grants SEC(".maps");

/* Which event a description was last granted as, so that a tenant without a free place can have it once more. */
struct known {
	__u64 tenant, hash;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ADMISSION_GRANTS);
	__type(key, struct known);
	__type(value, __u64);
} known SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ADMISSION_NOTES);
} notes SEC(".maps");

/* Tenants whose memory a sweep has not looked through, and which sweep that was. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} crowded SEC(".maps");

/* A task's ioctl, from its first look to the kernel's copy. */
struct asking {
	__u64 cgroup, file, info;
	__u32 tenant;
	bool asked;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct asking);
} askings SEC(".maps");

/* The registration that has come as far as the kernel's copy, under the kernel's lock: the last one, until it is settled. */
struct registration {
	__u64 open; /* its number; 0: settled */
	__u64 number;
	__u64 task, thread, file, info;
	__u64 event; /* that it has got */
	struct admission_tenant tenant;
	struct admission_charge charge;
	__u32 verdict;
	bool took;	/* the charge */
	bool under_way; /* until its file has the event */
	bool created;
	char text[ADMISSION_TEXT];
};

struct global {
	__u64 lock;	/* the kernel's, of registrations */
	__u64 image;	/* an address within the kernel's own image */
	__u64 memories; /* the head of the kernel's list of memory that it enables, which is in the image */
	__u32 grants;
	__u32 lingering;
	__u32 sweep;
	__u32 uncounted; /* references that could not be counted */
	__u32 sweep_is_due;
	struct registration registration;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct global);
} globals SEC(".maps");

struct scratch {
	char text[ADMISSION_TEXT];
	struct admission_grant grant;
	__u64 cgroups[ADMISSION_DEPTH]; /* around a process, from below the root; 0 behind the last one */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct global *global_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&globals, &zero);
}

static __always_inline struct admission_shared *shared_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shared, &zero);
}

static __always_inline struct scratch *scratch_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

/*
 * False: the daemon has not read what it was told before. A program can register and be refused as fast as it likes: half of the ring is kept
 * for what must not be lost in that, such as a forbidden join.
 */
static __always_inline bool tell(__u64 cgroup, __u32 what, __u32 verdict, const char *kernel_text)
{
	const bool is_common = what == ADMISSION_GRANTED || what == ADMISSION_REFUSED;
	struct admission_note *note;

	if (is_common && bpf_ringbuf_query(&notes, BPF_RB_AVAIL_DATA) > ADMISSION_NOTES / 2)
		return false;
	note = bpf_ringbuf_reserve(&notes, sizeof(*note), 0);
	if (!note)
		return false;
	note->tenant = cgroup;
	note->what = what;
	note->verdict = verdict;
	note->pid = bpf_get_current_pid_tgid() >> 32;
	note->uid = bpf_get_current_uid_gid();
	bpf_get_current_comm(note->comm, sizeof(note->comm));
	note->name[0] = '\0';
	if (kernel_text)
		bpf_probe_read_kernel_str(note->name, sizeof(note->name), kernel_text);
	bpf_ringbuf_submit(note, 0);
	return true;
}
