/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <asm-generic/errno-base.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdbool.h>

/* After <linux/bpf.h>, whose types they need. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel/guard/admission.h"
#include "kernel/guard/admission_types.h"

/*
 * Programs that speak user_events by themselves get the kernel's own file, through a mount of this one file. What they register is
 * admitted here, while their ioctl is under way:
 *
 *   1. ask_ioctl looks at what user memory says, so that an honest program gets an errno that tells it why. A second thread can change
 *	that memory afterwards, so nothing relies on it.
 *   2. name_copied sees the kernel's own copy of the description. From here to the end the kernel has its lock of registrations, so
 *	only one registration of the machine is in this part. A place is taken for it.
 *   3. refuse_new refuses a new event before anybody can see it, by the verdict of 2.
 *   4. reference_added: the file has a reference to the event, whether it is a new one or not. The place becomes a grant's, or it is
 *	returned if the tenant has a grant of the event already. An event that existed can't be refused: here the process is killed.
 *
 * A registration that fails between 2 and 4 has no function that one could hook. So its place is returned when the next one
 * comes to 2, when its file is closed, and in a sweep.
 *
 * A grant ends with the tenant's last file that has the event, unless memory that the kernel enables refers to the event beyond
 * that. Then it lingers until the kernel has destroyed the event, or a sweep has read the kernel's list of such memory.
 */

char LICENSE[] SEC("license") = "GPL";

enum { EDQUOT_ = 122, REGISTER = 0xC0082A00, DELETE = 0x40082A01, KILLED = 9 };
enum { FLAG_PERSIST = 1, FLAG_MULTI_FORMAT = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ADMISSION_NODES);
	__type(key, __u32);
	__type(value, struct admission_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ADMISSION_STATES);
	__type(key, __u32);
	__type(value, struct admission_state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ADMISSION_TENANTS);
	__type(key, __u64);
	__type(value, struct admission_tenant);
} tenants SEC(".maps");

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
	__uint(max_entries, 1 << 18);
} notes SEC(".maps");

/* A task's ioctl, from its first look to the kernel's copy. */
struct asking {
	__u64 tenant, file, info;
	bool asked, named, created;
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
	__u64 task, file, info, tenant;
	__u64 event; /* that it has got */
	struct admission_tenant charged;
	__u32 place, verdict, took, pad;
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
	__u64 violations;
	struct registration registration;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct global);
} globals SEC(".maps");

/* Written by the loader and the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct admission_settings);
} settings SEC(".maps");

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

static __always_inline const struct admission_settings *settings_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline struct scratch *scratch_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

static __always_inline void tell_with(__u64 tenant, __u32 what, __u32 verdict, const char *kernel_text, __u64 flags)
{
	struct admission_note *note = bpf_ringbuf_reserve(&notes, sizeof(*note), 0);

	if (!note)
		return;
	note->tenant = tenant;
	note->what = what;
	note->verdict = verdict;
	note->pid = bpf_get_current_pid_tgid() >> 32;
	note->uid = bpf_get_current_uid_gid();
	bpf_get_current_comm(note->comm, sizeof(note->comm));
	note->name[0] = '\0';
	if (kernel_text)
		bpf_probe_read_kernel_str(note->name, sizeof(note->name), kernel_text);
	bpf_ringbuf_submit(note, flags);
}

static __always_inline void tell(__u64 tenant, __u32 what, __u32 verdict, const char *kernel_text)
{
	/* Forced: behind one that woke nobody the kernel thinks that the daemon is awake. */
	tell_with(tenant, what, verdict, kernel_text, BPF_RB_FORCE_WAKEUP);
}

/* Wakes the daemon for each eighth event of a tenant: it only has to divide the fair share anew. */
static __always_inline void tell_quietly(__u64 tenant, __u32 what, const char *kernel_text, __u32 quota)
{
	struct admission_node *node = bpf_map_lookup_elem(&nodes, &quota);

	tell_with(tenant, what, 0, kernel_text, node && node->used % 8 ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

/* --- places --- */

static __noinline bool node_take(__u32 number)
{
	struct admission_node *node = bpf_map_lookup_elem(&nodes, &number);
	__u32 before;

	if (!node)
		return false;
	before = __sync_fetch_and_add(&node->used, 1);
	/* Only now: see admission.h. */
	if (before < *(volatile __u32 *)&node->limit)
		return true;
	__sync_fetch_and_sub(&node->used, 1);
	return false;
}

static __noinline bool node_put(__u32 number)
{
	struct admission_node *node = number ? bpf_map_lookup_elem(&nodes, &number) : NULL;

	if (node)
		__sync_fetch_and_sub(&node->used, 1);
	return node;
}

static __noinline __u32 node_parent(__u32 number)
{
	struct admission_node *node = bpf_map_lookup_elem(&nodes, &number);

	return node ? node->parent : 0;
}

/* Returns places from `number` up to below `end`. */
static __noinline int quota_put(__u32 number, __u32 end)
{
	for (int i = 0; i < ADMISSION_DEPTH && number != end && number != 0; i++) {
		node_put(number);
		number = node_parent(number);
	}
	return 0;
}

static __noinline bool quota_take(__u32 first)
{
	__u32 number = first;

	for (int i = 0; i < ADMISSION_DEPTH && number != 0; i++) {
		if (!node_take(number)) {
			quota_put(first, number);
			return false;
		}
		number = node_parent(number);
	}
	return first != 0;
}

/* A reserve that has room, or the pool within the fair share. */
static __always_inline bool place_take(const struct admission_tenant *tenant, __u32 *ret_place)
{
	*ret_place = 0;
	for (int i = 0; i < ADMISSION_RESERVES; i++)
		if (tenant->reserves[i] != 0 && node_take(tenant->reserves[i])) {
			*ret_place = tenant->reserves[i];
			return true;
		}
	if (!node_take(tenant->share))
		return false;
	if (node_take(tenant->pool))
		return true;
	node_put(tenant->share);
	return false;
}

static __always_inline bool charge(const struct admission_tenant *tenant, __u32 *ret_place)
{
	if (!quota_take(tenant->quota))
		return false;
	if (place_take(tenant, ret_place))
		return true;
	quota_put(tenant->quota, 0);
	return false;
}

static __always_inline void refund(const struct admission_tenant *tenant, __u32 place)
{
	quota_put(tenant->quota, 0);
	if (place) {
		node_put(place);
	} else {
		node_put(tenant->share);
		node_put(tenant->pool);
	}
}

static __noinline bool node_has_room(__u32 number)
{
	struct admission_node *node = bpf_map_lookup_elem(&nodes, &number);

	return node && node->used < node->limit;
}

/* Whether a place would be found. Nothing is taken, so others are not refused meanwhile. */
static __always_inline bool has_room(const struct admission_tenant *tenant)
{
	__u32 number = tenant->quota;

	for (int i = 0; i < ADMISSION_DEPTH && number != 0; i++) {
		if (!node_has_room(number))
			return false;
		number = node_parent(number);
	}
	for (int i = 0; i < ADMISSION_RESERVES; i++)
		if (tenant->reserves[i] != 0 && node_has_room(tenant->reserves[i]))
			return true;
	return node_has_room(tenant->share) && node_has_room(tenant->pool);
}

/* --- names --- */

/* 0 to 9, A to Z, a to z, _, and the rest: see struct admission_state. */
static __always_inline __u32 class_of(__u8 character)
{
	if (character >= 'a' && character <= 'z')
		return 36 + character - 'a';
	if (character == '_')
		return 62;
	if (character >= 'A' && character <= 'Z')
		return 10 + character - 'A';
	return character >= '0' && character <= '9' ? character - '0' : 63;
}

/* The name ends at the first blank, as it does in the kernel. */
static long read_character(__u32 i, void *data)
{
	__u32 *state = data;
	struct scratch *scratch = scratch_get();
	struct admission_state *now;
	__u8 character;

	if (!scratch || i >= ADMISSION_TEXT)
		return 1;
	character = scratch->text[i];
	if (character == '\0' || character == ' ')
		return 1;
	now = bpf_map_lookup_elem(&states, state);
	*state = now && i < ADMISSION_NAME_MAX ? now->next[class_of(character) & (ADMISSION_CLASSES - 1)] : 0;
	return *state == 0;
}

/* The verdict about the name that the scratch's text begins with. */
static __always_inline __u32 judge_name(__u32 rules)
{
	struct admission_state *state;
	__u32 number = rules;

	bpf_loop(ADMISSION_TEXT, read_character, &number, 0);
	state = bpf_map_lookup_elem(&states, &number);
	return state ? state->verdict : ADMISSION_NAME_BAD;
}

static long hash_character(__u32 i, void *data)
{
	__u64 *hash = data;
	struct scratch *scratch = scratch_get();

	if (!scratch || i >= ADMISSION_TEXT || scratch->text[i] == '\0')
		return 1;
	*hash = (*hash ^ (__u8)scratch->text[i]) * 0x100000001b3ULL;
	return 0;
}

/* Of the whole description in the scratch. */
static __always_inline __u64 hash_text(void)
{
	__u64 hash = 0xcbf29ce484222325ULL;

	bpf_loop(ADMISSION_TEXT, hash_character, &hash, 0);
	return hash;
}

/* Whether the tenant has the event that it last got by the description in the scratch. */
static __always_inline bool has_already(__u64 tenant)
{
	struct known asked = { .tenant = tenant, .hash = hash_text() };
	struct admission_key key = { .tenant = tenant };
	__u64 *event = bpf_map_lookup_elem(&known, &asked);

	if (!event)
		return false;
	key.event = *event;
	return bpf_map_lookup_elem(&grants, &key);
}

/* --- who --- */

/* Whether it was opened through a mount of this file alone, as containers have it. */
static __always_inline bool is_native(const struct inode *inode, const struct path *path)
{
	const struct admission_settings *chosen = settings_get();

	return chosen && inode->i_sb->s_magic == TRACEFS_MAGIC && path->mnt->mnt_root == path->dentry &&
	       inode->i_ino == chosen->inode;
}

static __always_inline struct admission_tenant *find_tenant(__u64 *ret)
{
	const struct admission_settings *chosen = settings_get();
	struct admission_tenant *tenant, *found = NULL;

	*ret = 0;
	if (chosen && chosen->prover == bpf_get_current_pid_tgid() >> 32)
		return bpf_map_lookup_elem(&tenants, ret);
	for (int level = 1; level < ADMISSION_DEPTH; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);

		if (id == 0)
			break;
		tenant = bpf_map_lookup_elem(&tenants, &id);
		if (!tenant || (found && tenant->flags & ADMISSION_DEFAULT))
			continue;
		*ret = id;
		found = tenant;
		if (!(tenant->flags & ADMISSION_DEFAULT))
			break;
	}
	return found && found->quota ? found : NULL;
}

/* Whether the current task is in a registration: nobody else of the machine is then. */
static __always_inline bool has_lock(const struct global *global, __u64 task)
{
	const struct mutex *lock = (const void *)global->lock;

	return lock && ((__u64)BPF_CORE_READ(lock, owner.counter) & ~7ULL) == task;
}

/* --- settling --- */

static __always_inline void note_holder(struct admission_grant *grant, __u32 verdict)
{
	grant->pid = bpf_get_current_pid_tgid() >> 32;
	grant->uid = bpf_get_current_uid_gid();
	if (verdict)
		grant->violation = verdict;
	bpf_get_current_comm(grant->comm, sizeof(grant->comm));
}

/* An event that the tenant may not have counts nevertheless, whatever the limits. */
static __noinline int quota_force(__u32 number)
{
	for (int i = 0; i < ADMISSION_DEPTH && number != 0; i++) {
		struct admission_node *node = bpf_map_lookup_elem(&nodes, &number);

		if (!node)
			break;
		__sync_fetch_and_add(&node->used, 1);
		number = node->parent;
	}
	return 0;
}

/* The registration has given its file a reference to this event. Returns what is wrong about that. */
static __always_inline __u32 grant_event(struct global *global, struct registration *registration)
{
	struct known asked = { .tenant = registration->tenant };
	struct admission_key key = { .tenant = registration->tenant, .event = registration->event };
	struct admission_grant *grant = bpf_map_lookup_elem(&grants, &key);
	struct scratch *scratch = scratch_get();
	__u32 verdict = registration->verdict;

	if (grant) {
		if (registration->took)
			refund(&registration->charged, registration->place);
		if (grant->files == 0)
			__sync_fetch_and_sub(&global->lingering, 1);
		grant->files++;
		note_holder(grant, verdict);
		return verdict;
	}
	if (!registration->took) {
		if (!verdict)
			verdict = ADMISSION_QUOTA;
		quota_force(registration->charged.quota);
		quota_force(registration->charged.share);
		quota_force(registration->charged.pool);
		registration->place = 0;
	}
	if (!scratch)
		return verdict;
	__builtin_memset(&scratch->grant, 0, sizeof(scratch->grant));
	grant = &scratch->grant;
	grant->files = 1;
	grant->place = registration->place;
	grant->charged = registration->charged;
	note_holder(grant, verdict);
	bpf_probe_read_kernel_str(grant->text, sizeof(grant->text), registration->text);
	if (bpf_map_update_elem(&grants, &key, grant, BPF_NOEXIST) < 0) {
		refund(&registration->charged, registration->place);
		__sync_fetch_and_add(&global->uncounted, 1);
		return ADMISSION_FULL;
	}
	__sync_fetch_and_add(&global->grants, 1);
	bpf_probe_read_kernel_str(scratch->text, sizeof(scratch->text), registration->text);
	asked.hash = hash_text();
	bpf_map_update_elem(&known, &asked, &key.event, BPF_ANY);
	tell_quietly(registration->tenant, ADMISSION_GRANTED, registration->text, registration->charged.quota);
	return verdict;
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
		refund(&registration->charged, registration->place);
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
	const struct admission_tenant charged = registration->charged;
	const struct user_event_file_info *info = (const void *)registration->info;
	const __u32 took = registration->took, place = registration->place;
	const struct user_event_refs *refs = BPF_CORE_READ(info, refs);
	const __u32 count = refs ? BPF_CORE_READ(refs, count) : 0;
	__u64 name = registration->file;
	const struct admission_file *file = bpf_map_lookup_elem(&files, &name);

	if (number == 0 || (closed ? name != closed : !file || count > file->references))
		return 0;
	if (__sync_val_compare_and_swap(&registration->open, number, 0) == number && took)
		refund(&charged, place);
	return 0;
}

/* --- 1 --- */

struct registration_words {
	__u32 size;
	__u8 bit, bytes;
	__u16 flags;
	__u64 address, text;
	__u32 index;
} __attribute__((packed));

static __always_inline int refuse(__u64 tenant, __u32 verdict, const char *text)
{
	tell(tenant, ADMISSION_REFUSED, verdict, text);
	return verdict == ADMISSION_QUOTA || verdict == ADMISSION_FULL ? -EDQUOT_ : -EPERM;
}

/* The file is the first tenant's that registers on it. */
static __always_inline __u32 claim_file(__u64 file, __u64 tenant)
{
	struct admission_file made = { .tenant = tenant };
	const struct admission_file *found = bpf_map_lookup_elem(&files, &file);

	if (!found) {
		if (bpf_map_update_elem(&files, &file, &made, BPF_NOEXIST) == 0)
			return 0;
		found = bpf_map_lookup_elem(&files, &file);
		if (!found)
			return ADMISSION_FULL;
	}
	return found->tenant == tenant ? 0 : ADMISSION_FOREIGN;
}

/* By what user memory says at this moment. Memory that is not there has no faults. */
static __always_inline __u32 look(const struct admission_tenant *tenant, __u64 id, struct scratch *scratch,
				  unsigned long argument)
{
	struct registration_words words;
	__u32 verdict;

	scratch->text[0] = '\0';
	if (bpf_probe_read_user(&words, sizeof(words), (const void *)argument) < 0)
		return 0;
	if (words.flags & FLAG_PERSIST ||
	    (words.flags & FLAG_MULTI_FORMAT && !(tenant->flags & ADMISSION_MULTI_FORMAT)))
		return ADMISSION_FLAGS;
	if (bpf_probe_read_user_str(scratch->text, sizeof(scratch->text), (const void *)words.text) < 0)
		return 0;
	verdict = judge_name(tenant->rules);
	if (verdict)
		return verdict;
	return has_room(tenant) || has_already(id) ? 0 : ADMISSION_QUOTA;
}

static __always_inline int ask(struct file *file, unsigned int command, unsigned long argument)
{
	struct global *global = global_get();
	struct scratch *scratch = scratch_get();
	const struct user_event_file_info *info;
	struct admission_tenant *tenant;
	struct asking *asking;
	__u32 verdict;
	__u64 id;

	if (!global || !scratch || !is_native(file->f_inode, &file->f_path))
		return 0;
	/* What else there is concerns the process's own memory, or reaches no event. */
	if (command != REGISTER && command != DELETE)
		return 0;
	tenant = find_tenant(&id);
	if (!tenant)
		return refuse(0, ADMISSION_STRANGER, NULL);
	if (command == DELETE)
		return refuse(id, ADMISSION_COMMAND, NULL);
	info = file->private_data;
	global->image = (__u64)file->f_op;
	if (global->lock == 0)
		global->lock =
			(__u64)BPF_CORE_READ(info, group) + bpf_core_field_offset(struct user_event_group, reg_mutex);
	if (global->registration.open && !has_lock(global, global->registration.task))
		settle_failed(global, 0);
	if (global->grants >= ADMISSION_GRANTS - 64)
		return refuse(id, ADMISSION_FULL, NULL);
	verdict = look(tenant, id, scratch, argument);
	if (!verdict)
		verdict = claim_file((__u64)file, id);
	if (verdict)
		return refuse(id, verdict, scratch->text);
	asking = bpf_task_storage_get(&askings, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!asking)
		return refuse(id, ADMISSION_FULL, NULL);
	*asking = (struct asking){ .tenant = id, .file = (__u64)file, .info = (__u64)info, .asked = true };
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

static __always_inline struct asking *current_asking(const struct global *global)
{
	struct asking *asking = bpf_task_storage_get(&askings, bpf_get_current_task_btf(), 0, 0);

	return asking && asking->asked && global && has_lock(global, bpf_get_current_task()) ? asking : NULL;
}

SEC("fexit/strndup_user")
int BPF_PROG(name_copied, const char *user, long n, char *copy)
{
	struct global *global = global_get();
	struct scratch *scratch = scratch_get();
	struct asking *asking = current_asking(global);
	struct admission_tenant *tenant;
	struct registration *registration;

	if (!asking || !scratch || !global)
		return 0;
	asking->asked = asking->created = false;
	if ((unsigned long)copy >= (unsigned long)-4095L)
		return 0;
	settle(global);
	tenant = bpf_map_lookup_elem(&tenants, &asking->tenant);
	registration = &global->registration;
	registration->task = bpf_get_current_task();
	registration->file = asking->file;
	registration->info = asking->info;
	registration->tenant = asking->tenant;
	/* A tenant that has gone meanwhile pays nothing. */
	registration->charged = (struct admission_tenant){ 0 };
	registration->verdict = ADMISSION_STRANGER;
	registration->took = false;
	bpf_probe_read_kernel_str(scratch->text, sizeof(scratch->text), copy);
	bpf_probe_read_kernel_str(registration->text, sizeof(registration->text), scratch->text);
	if (tenant) {
		registration->charged = *tenant;
		registration->verdict = judge_name(tenant->rules);
		registration->took = charge(tenant, &registration->place);
		if (!registration->took && !registration->verdict && !has_already(asking->tenant))
			registration->verdict = ADMISSION_QUOTA;
	}
	asking->named = true;
	registration->open = ++registration->number;
	return 0;
}

SEC("fmod_ret/security_prepare_creds")
int BPF_PROG(refuse_new)
{
	struct asking *asking = bpf_task_storage_get(&askings, bpf_get_current_task_btf(), 0, 0);
	struct global *global = global_get();

	if (!asking || !asking->named || !global || !has_lock(global, bpf_get_current_task()))
		return 0;
	asking->created = true;
	/* A new event is none that the tenant has. */
	if (!global->registration.verdict && !global->registration.took)
		global->registration.verdict = ADMISSION_QUOTA;
	if (!global->registration.verdict)
		return 0;
	return refuse(asking->tenant, global->registration.verdict, global->registration.text);
}

/* Those of the event itself: a second thread can have changed what was asked for. */
static __always_inline __u32 judge_flags(const struct user_event *event, const struct admission_tenant *tenant,
					 bool created)
{
	const int flags = BPF_CORE_READ(event, reg_flags);

	return (created && flags & FLAG_PERSIST) ||
			       (flags & FLAG_MULTI_FORMAT && !(tenant->flags & ADMISSION_MULTI_FORMAT))
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
	struct asking *asking = bpf_task_storage_get(&askings, bpf_get_current_task_btf(), 0, 0);
	struct global *global = global_get();
	__u32 verdict;

	if (!asking || !asking->named || !global || !has_lock(global, bpf_get_current_task()))
		return 0;
	asking->named = false;
	if (global->memories == 0)
		find_memories(global);
	verdict = settle(global);
	if (!verdict && global->registration.event)
		verdict = judge_flags((const void *)global->registration.event, &global->registration.charged,
				      asking->created);
	if (!verdict)
		return 0;
	__sync_fetch_and_add(&global->violations, 1);
	tell(asking->tenant, ADMISSION_VIOLATED, verdict, global->registration.text);
	if (global->registration.charged.flags & ADMISSION_KILL)
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
	if (global->lingering > 0)
		tell(closing.tenant, ADMISSION_LINGERS, 0, NULL);
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
	struct admission_tenant charged;
	__u32 place;

	if (grant->files > 0 || (ending->event ? key->event != ending->event
					       : grant->swept == ending->sweep || grant->since >= ending->since))
		return 0;
	charged = grant->charged;
	place = grant->place;
	tell(key->tenant, ADMISSION_ENDED, 0, grant->text);
	/* Two may end it at the same moment. */
	if (bpf_map_delete_elem(&grants, &copy) == 0) {
		refund(&charged, place);
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

/* --- a sweep: the daemon runs it when grants linger --- */

enum { MEMORIES = 1 << 17, ENABLERS = 1 << 16 };

struct visit {
	__u64 at, head; /* in a list */
	__u32 sweep;
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
	if (inner.complete)
		return 0;
	/* It has more than we look at, or its list has changed below us. */
	visit->at = 0;
	return 1;
}

/* Returns how many grants linger still. */
SEC("raw_tp/userevd_sweep")
int sweep(void *context)
{
	struct global *global = global_get();
	/* The kernel destroys what nobody holds in less time, and that is the end that counts: this is for events that others hold. */
	struct ending ending = { .global = global, .since = bpf_ktime_get_boot_ns() - 1000000000ULL };
	struct visit visit = { 0 };
	const struct list_head *head;

	if (!global)
		return 0;
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
