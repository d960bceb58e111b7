/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/admission/grants.h"
#include "kernel/guard/admission/maps.h"
#include "kernel/guard/admission/names.h"
#include "kernel/guard/admission/places.h"
#include "kernel/guard/admission/tenants.h"

/*
 * Programs that speak user_events by themselves get the kernel's own file, through a mount of this one file. What they register is
 * admitted here, while their ioctl is under way:
 *
 *   1. ask_ioctl looks at what user memory says, so that an honest program gets an errno that tells it why. A second thread can change
 *	that memory afterwards, so nothing relies on it.
 *   2. name_copied sees the kernel's own copy of the description. From here to the end the kernel has its lock of registrations, so
 *	only one registration of the machine is in this part.
 *   3. refuse_new refuses a new event before anybody can see it, by the verdict of 2, or takes a place for it.
 *   4. reference_added: the file has a reference to the event, whether it is a new one or not. The tenant gets a grant of it, unless it has
 *	one already. An event that existed can't be refused: if the tenant may not have it, or has no place, here the process is killed.
 *
 * A registration that fails between 3 and 4 has no function that one could hook. So its place is returned when the next one
 * comes to 2, when its file is closed, and in a sweep.
 *
 * A grant ends with the tenant's last file that has the event, unless memory that the kernel enables refers to the event beyond
 * that. Then it lingers until the kernel has destroyed the event, or a sweep has read the kernel's list of such memory.
 */

char LICENSE[] SEC("license") = "GPL";

enum { EDQUOT_ = 122, REGISTER = 0xC0082A00, DELETE = 0x40082A01, KILLED = 9 };
enum { FLAG_PERSIST = 1, FLAG_MULTI_FORMAT = 2 };

/* Whether it was opened through a mount of this file alone, as containers have it. */
static __always_inline bool is_native(const struct inode *inode, const struct path *path)
{
	const struct admission_shared *memory = shared_get();

	return memory && inode->i_sb->s_magic == TRACEFS_MAGIC && path->mnt->mnt_root == path->dentry &&
	       inode->i_ino == memory->inode;
}

/* --- 1 --- */

struct registration_words {
	__u32 size;
	__u8 bit, bytes;
	__u16 flags;
	__u64 address, text;
	__u32 index;
} __attribute__((packed));

static __always_inline int refuse(__u64 cgroup, __u32 verdict, const char *text)
{
	tell(cgroup, ADMISSION_REFUSED, verdict, text);
	return verdict == ADMISSION_QUOTA || verdict == ADMISSION_FULL ? -EDQUOT_ : -EPERM;
}

/* The file is the first tenant's that registers on it. */
static __always_inline __u32 claim_file(__u64 file, __u64 cgroup)
{
	struct admission_file made = { .tenant = cgroup };
	const struct admission_file *found = bpf_map_lookup_elem(&files, &file);

	if (!found) {
		if (bpf_map_update_elem(&files, &file, &made, BPF_NOEXIST) == 0)
			return 0;
		found = bpf_map_lookup_elem(&files, &file);
		if (!found)
			return ADMISSION_FULL;
	}
	return found->tenant == cgroup ? 0 : ADMISSION_FOREIGN;
}

/* By what user memory says at this moment. Memory that is not there has no faults. */
static __always_inline __u32 look(const struct admission_tenant *tenant, char *text, unsigned long argument)
{
	struct registration_words words;
	__u32 verdict;
	long n;

	*text = '\0';
	if (bpf_probe_read_user(&words, sizeof(words), (const void *)argument) < 0)
		return 0;
	if (words.flags & FLAG_PERSIST ||
	    (words.flags & FLAG_MULTI_FORMAT && !(tenant->flags & ADMISSION_MULTI_FORMAT)))
		return ADMISSION_FLAGS;
	n = bpf_probe_read_user_str(text, ADMISSION_TEXT, (const void *)words.text);
	if (n < 0)
		return 0;
	verdict = judge_name(text, tenant->rules);
	if (verdict)
		return verdict;
	return has_room(tenant) || has_already(tenant->cgroup, text, n) ? 0 : ADMISSION_QUOTA;
}

static __always_inline int ask(struct file *file, unsigned int command, unsigned long argument)
{
	struct global *global = global_get();
	struct scratch *scratch = scratch_get();
	const struct user_event_file_info *info;
	struct admission_tenant tenant;
	struct asking *asking;
	__u32 verdict;
	__u64 cgroup;
	int number;

	if (!global || !scratch)
		return 0;
	if (global->registration.thread == bpf_get_current_pid_tgid())
		global->registration.under_way = false;
	if (!is_native(file->f_inode, &file->f_path))
		return 0;
	/* Other commands concern the process's own memory, or reach no event. */
	if (command != REGISTER && command != DELETE)
		return 0;
	number = tenant_of_current(&cgroup);
	if (number < 0 || !tenant_read(number, cgroup, &tenant))
		return refuse(0, ADMISSION_STRANGER, NULL);
	if (command == DELETE)
		return refuse(cgroup, ADMISSION_COMMAND, NULL);
	info = file->private_data;
	global->image = (__u64)file->f_op;
	if (global->lock == 0)
		global->lock =
			(__u64)BPF_CORE_READ(info, group) + bpf_core_field_offset(struct user_event_group, reg_mutex);
	if (global->registration.open && !has_lock(global, global->registration.task))
		settle_failed(global, 0);
	if (global->grants >= ADMISSION_GRANTS - 64)
		return refuse(cgroup, ADMISSION_FULL, NULL);
	verdict = look(&tenant, scratch->text, argument);
	if (!verdict)
		verdict = claim_file((__u64)file, cgroup);
	if (verdict)
		return refuse(cgroup, verdict, scratch->text);
	asking = bpf_task_storage_get(&askings, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!asking)
		return refuse(cgroup, ADMISSION_FULL, NULL);
	*asking = (struct asking){
		.cgroup = cgroup, .file = (__u64)file, .info = (__u64)info, .tenant = number, .asked = true
	};
	return 0;
}

SEC("?lsm/file_ioctl")
int BPF_PROG(lsm_ask, struct file *file, unsigned int command, unsigned long argument)
{
	return ask(file, command, argument);
}

SEC("?fmod_ret/security_file_ioctl")
int BPF_PROG(modify_ask, struct file *file, unsigned int command, unsigned long argument)
{
	return ask(file, command, argument);
}

/* --- 2, 3, 4 --- */

SEC("fexit/strndup_user")
int BPF_PROG(name_copied, const char *user, long n, char *copy)
{
	struct global *global = global_get();
	struct registration *registration;
	struct asking *asking;

	if (!global || !has_lock(global, bpf_get_current_task()))
		return 0;
	registration = &global->registration;
	asking = bpf_task_storage_get(&askings, bpf_get_current_task_btf(), 0, 0);
	if (!asking || !asking->asked) {
		/* Somebody else registers, so the last one is over. In the same thread this program of another build may have just run. */
		if (registration->thread != bpf_get_current_pid_tgid())
			registration->under_way = false;
		return 0;
	}
	asking->asked = false;
	if ((unsigned long)copy >= (unsigned long)-4095L)
		return 0;
	settle(global);
	registration->task = bpf_get_current_task();
	registration->thread = bpf_get_current_pid_tgid();
	registration->file = asking->file;
	registration->info = asking->info;
	registration->took = registration->created = false;
	bpf_probe_read_kernel_str(registration->text, sizeof(registration->text), copy);
	if (tenant_read(asking->tenant, asking->cgroup, &registration->tenant)) {
		registration->verdict = judge_name(registration->text, registration->tenant.rules);
	} else {
		/* A tenant that has gone meanwhile pays nothing. */
		registration->tenant = (struct admission_tenant){ .cgroup = asking->cgroup };
		registration->verdict = ADMISSION_STRANGER;
	}
	registration->under_way = true;
	registration->open = ++registration->number;
	return 0;
}

SEC("fmod_ret/security_prepare_creds")
int BPF_PROG(refuse_new)
{
	struct registration *registration = current_registration(global_get());

	if (!registration)
		return 0;
	registration->created = true;
	if (!registration->verdict && !registration->took) {
		registration->took = charge(&registration->tenant, &registration->charge);
		if (!registration->took)
			registration->verdict = ADMISSION_QUOTA;
	}
	if (!registration->verdict)
		return 0;
	registration->under_way = false;
	return refuse(registration->tenant.cgroup, registration->verdict, registration->text);
}

/* Those of the event itself: a second thread can have changed what was asked for. */
static __always_inline __u32 judge_flags(const struct registration *registration)
{
	const struct user_event *event = (const void *)registration->event;
	const int flags = BPF_CORE_READ(event, reg_flags);

	return (registration->created && flags & FLAG_PERSIST) ||
			       (flags & FLAG_MULTI_FORMAT && !(registration->tenant.flags & ADMISSION_MULTI_FORMAT))
		       ? ADMISSION_FLAGS
		       : 0;
}

/* A process's memory is put in at the list's beginning, so the head is near. The other members are far from the kernel's image. */
static __always_inline void find_memories(struct global *global)
{
	const struct user_event_mm *memory = bpf_get_current_task_btf()->user_event_mm;
	__u64 at = (__u64)memory + bpf_core_field_offset(struct user_event_mm, mms_link);

	for (int i = 0; memory && i < 64; i++) {
		const struct list_head *link = (const void *)at;

		at = (__u64)BPF_CORE_READ(link, prev);
		if (at - global->image + (1ULL << 30) < 1ULL << 31) {
			global->memories = at;
			return;
		}
	}
}

SEC("fentry/pin_user_pages_remote")
int BPF_PROG(reference_added)
{
	struct global *global = global_get();
	struct registration *registration = current_registration(global);
	__u32 verdict;

	if (!registration || !global)
		return 0;
	registration->under_way = false;
	if (global->memories == 0)
		find_memories(global);
	verdict = settle(global);
	if (!verdict && registration->event)
		verdict = judge_flags(registration);
	if (!verdict)
		return 0;
	tell(registration->tenant.cgroup, ADMISSION_VIOLATED, verdict, registration->text);
	if (registration->tenant.flags & ADMISSION_KILL)
		bpf_send_signal(KILLED);
	return 0;
}

/* --- the end of files and events --- */

struct closing {
	const struct user_event_refs *refs;
	__u64 tenant;
};

static long close_reference(__u32 i, void *data)
{
	struct closing *closing = data;
	const struct user_event_refs *refs = closing->refs;
	struct admission_key key = { .tenant = closing->tenant };
	struct global *global = global_get();
	struct admission_grant *grant;

	bpf_core_read(&key.event, sizeof(key.event), &refs->events[i]);
	grant = bpf_map_lookup_elem(&grants, &key);
	if (!global || !grant || grant->files == 0)
		return 0;
	if (__sync_fetch_and_sub(&grant->files, 1) == 1) {
		grant->since = bpf_ktime_get_boot_ns();
		__sync_fetch_and_add(&global->lingering, 1);
	}
	return 0;
}

/* The file's last copy is closed. Its references go a moment later, and with them perhaps the events. */
SEC("fentry/security_file_release")
int BPF_PROG(file_closed, struct file *file)
{
	struct closing closing = { 0 };
	const struct user_event_file_info *info;
	struct admission_file *found;
	struct global *global;
	__u64 key = (__u64)file;
	__u32 n;

	if (file->f_inode->i_sb->s_magic != TRACEFS_MAGIC)
		return 0;
	found = bpf_map_lookup_elem(&files, &key);
	global = global_get();
	if (!found || !global)
		return 0;
	settle_failed(global, key);
	info = file->private_data;
	closing.tenant = found->tenant;
	n = found->references;
	closing.refs = n > 0 ? BPF_CORE_READ(info, refs) : NULL;
	if (closing.refs)
		bpf_loop(n, close_reference, &closing, 0);
	bpf_map_delete_elem(&files, &key);
	if (global->lingering > 0 && !global->sweep_is_due)
		global->sweep_is_due = tell(closing.tenant, ADMISSION_LINGERS, 0, NULL);
	return 0;
}

struct bpf_map;

struct ending {
	struct global *global;
	__u64 event; /* that has ended; or 0: */
	__u32 sweep; /* those that this sweep has not seen */
	__u64 since; /* and that have lingered since before it began */
};

static long end_grant(struct bpf_map *map, struct admission_key *key, struct admission_grant *grant,
		      struct ending *ending)
{
	struct admission_key copy = *key;
	struct admission_charge charged;
	const __u32 *seen;

	if (grant->files > 0 || (ending->event ? key->event != ending->event
					       : grant->swept == ending->sweep || grant->since >= ending->since))
		return 0;
	seen = ending->event ? NULL : bpf_map_lookup_elem(&crowded, &copy.tenant);
	if (seen && *seen == ending->sweep)
		return 0;
	charged = grant->charge;
	/* Two may end it at the same moment. */
	if (bpf_map_delete_elem(&grants, &copy) == 0) {
		refund(&charged);
		__sync_fetch_and_sub(&ending->global->grants, 1);
		__sync_fetch_and_sub(&ending->global->lingering, 1);
	}
	return 0;
}

/* The kernel destroys an event: then its directory goes, too. An instance's goes with the instance. */
SEC("fentry/eventfs_remove_dir")
int BPF_PROG(event_ended, struct eventfs_inode *directory)
{
	const struct trace_event_file *file = directory->data;
	const struct trace_event_call *call = BPF_CORE_READ(file, event_call);
	struct ending ending = { .global = global_get() };

	if (!ending.global || ending.global->lingering == 0)
		return 0;
	ending.event = (__u64)BPF_CORE_READ(call, data);
	if (ending.event == 0 || ending.event + bpf_core_field_offset(struct user_event, call) != (__u64)call ||
	    BPF_CORE_READ(file, tr, name))
		return 0;
	bpf_for_each_map_elem(&grants, end_grant, &ending, 0);
	return 0;
}

/* --- a sweep: for when grants linger --- */

/* Of memories, of enablers of each, and of all enablers: a sweep is not interrupted. */
enum { MEMORIES = 1 << 17, ENABLERS = 1 << 12, VISITS = 1 << 17 };

struct visit {
	__u64 at, head; /* in a list */
	__u32 sweep;
	__u32 visits;
	bool complete;
};

static long visit_enabler(__u32 i, void *data)
{
	struct visit *visit = data;
	struct scratch *scratch = scratch_get();
	const struct list_head *link = (const void *)visit->at;
	const struct user_event_enabler *enabler;
	struct admission_key key;

	if (!scratch)
		return 1;
	if (visit->at == visit->head) {
		visit->complete = true;
		return 1;
	}
	visit->visits++;
	enabler = (const void *)(visit->at - bpf_core_field_offset(struct user_event_enabler, mm_enablers_link));
	visit->at = (__u64)BPF_CORE_READ(link, next);
	key.event = (__u64)BPF_CORE_READ(enabler, event);
	for (int level = 0; level < ADMISSION_DEPTH && scratch->cgroups[level]; level++) {
		struct admission_grant *grant;

		key.tenant = scratch->cgroups[level];
		grant = bpf_map_lookup_elem(&grants, &key);
		if (grant)
			grant->swept = visit->sweep;
	}
	return 0;
}

static __always_inline bool note_cgroups(const struct user_event_mm *memory, struct scratch *scratch)
{
	const struct mm_struct *mm = BPF_CORE_READ(memory, mm);
	const struct task_struct *task = BPF_CORE_READ(mm, owner);
	const struct cgroup *cgroup = task ? BPF_CORE_READ(task, cgroups, dfl_cgrp) : NULL;
	const int depth = cgroup ? BPF_CORE_READ(cgroup, level) : 0;

	for (int level = 0; level < ADMISSION_DEPTH; level++) {
		const struct cgroup *ancestor = NULL;

		if (level < depth)
			bpf_core_read(&ancestor, sizeof(ancestor), &cgroup->ancestors[level + 1]);
		scratch->cgroups[level] = ancestor ? BPF_CORE_READ(ancestor, kn, id) : 0;
	}
	return depth > 0;
}

static long visit_memory(__u32 i, void *data)
{
	struct visit *visit = data, inner = { .sweep = visit->sweep };
	struct scratch *scratch = scratch_get();
	const struct list_head *link = (const void *)visit->at;
	const struct user_event_mm *memory;

	if (!scratch)
		return 1;
	if (visit->at == visit->head) {
		visit->complete = true;
		return 1;
	}
	memory = (const void *)(visit->at - bpf_core_field_offset(struct user_event_mm, mms_link));
	visit->at = (__u64)BPF_CORE_READ(link, next);
	/* Memory whose processes have ended holds nothing for long. */
	if (!note_cgroups(memory, scratch))
		return 0;
	inner.head = (__u64)memory + bpf_core_field_offset(struct user_event_mm, enablers);
	inner.at = (__u64)BPF_CORE_READ(memory, enablers.next);
	bpf_loop(ENABLERS, visit_enabler, &inner, 0);
	visit->visits += inner.visits;
	/* It has more than we look at. Its tenants keep what lingers, and so does everybody if all is too much. */
	for (int level = 0; !inner.complete && level < ADMISSION_DEPTH && scratch->cgroups[level]; level++)
		bpf_map_update_elem(&crowded, &scratch->cgroups[level], &visit->sweep, BPF_ANY);
	return visit->visits > VISITS;
}

static __always_inline __u32 sweep_all(struct global *global)
{
	/* The kernel destroys what nobody holds in less time, and that is the end that counts: this is for events that others hold. */
	struct ending ending = { .global = global, .since = bpf_ktime_get_boot_ns() - 1000000000ULL };
	struct visit visit = { 0 };
	const struct list_head *head;

	global->sweep_is_due = false;
	if (global->registration.open && !has_lock(global, global->registration.task))
		settle_failed(global, 0);
	if (global->lingering == 0 || global->memories == 0 || !bpf_core_field_exists(struct mm_struct, owner))
		return global->lingering;
	head = (const void *)global->memories;
	visit.head = global->memories;
	visit.at = (__u64)BPF_CORE_READ(head, next);
	visit.sweep = ending.sweep = ++global->sweep;
	bpf_loop(MEMORIES, visit_memory, &visit, 0);
	if (visit.complete)
		bpf_for_each_map_elem(&grants, end_grant, &ending, 0);
	return global->lingering;
}

/* --- files that the daemon reads --- */

/* Sweeps, and tells how many grants linger still. Of a map with one element. */
SEC("iter/bpf_map_elem")
int sweep(struct bpf_iter__bpf_map_elem *context)
{
	struct global *global = global_get();
	__u32 lingering;

	if (!context->value || !global)
		return 0;
	lingering = sweep_all(global);
	bpf_seq_write(context->meta->seq, &lingering, sizeof(lingering));
	return 0;
}

/* Each grant: struct admission_listed. */
SEC("iter/bpf_map_elem")
int list(struct bpf_iter__bpf_map_elem *context)
{
	struct seq_file *file = context->meta->seq;
	void *key = context->key, *grant = context->value;

	if (!key || !grant)
		return 0;
	bpf_seq_write(file, key, sizeof(struct admission_key));
	bpf_seq_write(file, grant, sizeof(struct admission_grant));
	return 0;
}

/* --- locks and permissions --- */

/* The keeper knows by locks which of its files are open, and the file's owner and permissions are everybody's. */
SEC("fmod_ret/security_file_lock")
int BPF_PROG(lock_file, struct file *file)
{
	return is_native(file->f_inode, &file->f_path) ? -EPERM : 0;
}

SEC("fmod_ret/security_path_chmod")
int BPF_PROG(chmod_file, const struct path *path)
{
	return is_native(path->dentry->d_inode, path) ? -EPERM : 0;
}

SEC("fmod_ret/security_path_chown")
int BPF_PROG(chown_file, const struct path *path)
{
	return is_native(path->dentry->d_inode, path) ? -EPERM : 0;
}
