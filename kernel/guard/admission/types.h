/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* As in the folder above: members of kernel structs that admission.bpf.c reads. */

#define _relocated_ __attribute__((preserve_access_index))

struct super_block {
	unsigned long s_magic;
} _relocated_;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
} _relocated_;

struct dentry {
	struct inode *d_inode;
} _relocated_;

struct vfsmount {
	struct dentry *mnt_root;
} _relocated_;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} _relocated_;

struct file {
	struct inode *f_inode;
	struct path f_path;
	const void *f_op;
	void *private_data;
} _relocated_;

typedef struct {
	long long counter;
} atomic64_t;

struct mutex {
	atomic64_t owner; /* a task, with three bits of flags */
} _relocated_;

struct list_head {
	struct list_head *next, *prev;
} _relocated_;

struct kernfs_node {
	__u64 id;
} _relocated_;

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
} _relocated_;

struct css_set {
	struct cgroup *dfl_cgrp;
} _relocated_;

struct task_struct {
	struct css_set *cgroups;
	struct user_event_mm *user_event_mm;
} _relocated_;

struct mm_struct {
	struct task_struct *owner;
} _relocated_;

struct user_event_group {
	struct mutex reg_mutex;
} _relocated_;

struct trace_event_call {
	void *data;
} _relocated_;

struct user_event {
	struct trace_event_call call;
	int reg_flags;
} _relocated_;

struct user_event_refs {
	int count;
	struct user_event *events[];
} _relocated_;

struct user_event_file_info {
	struct user_event_group *group;
	struct user_event_refs *refs;
} _relocated_;

struct user_event_enabler {
	struct list_head mm_enablers_link;
	struct user_event *event;
} _relocated_;

struct user_event_mm {
	struct list_head mms_link;
	struct list_head enablers;
	struct mm_struct *mm;
} _relocated_;

struct trace_array {
	char *name; /* NULL: the machine's own, not that of an instance */
} _relocated_;

struct trace_event_file {
	struct trace_event_call *event_call;
	struct trace_array *tr;
} _relocated_;

struct eventfs_inode {
	void *data;
} _relocated_;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} _relocated_;

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
} _relocated_;
