/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Programs that register by themselves get what the maps allow and nothing else, and are charged for as long as they hold it. The test
 * takes the daemon's part. As root, in a guest.
 */

#include <bpf/bpf.h>
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "kernel/native.h"
#include "kernel/uapi.h"
#include "tests/guard/loader.h"
#include "tests/guard/native_program.h"
#include "tests/guard/stand_in.h"
#include "tests/suite.h"

/* The nodes of two tenants, each with a level above it that they share, and a reserve. */
enum { POOL = 1, ROOT, QUOTA_A, SHARE_A, QUOTA_B, SHARE_B, RESERVE };
enum { RULES = 1 }; /* names that begin with an "a" */

static struct stand_in keeper;
static struct native *native;
static uint64_t cgroup_a, cgroup_b;
static uint64_t inode;
static struct native_program program, other;

static void set_node(unsigned node, unsigned parent, unsigned limit)
{
	native->shared->nodes[node].parent = parent;
	native->shared->nodes[node].limit = limit;
	native->shared->nodes[node].taken = 1;
}

static void set_rules(void)
{
	enum { OTHERS, LETTER_A, ALLOWED };
	struct admission_shared *shared = native->shared;

	for (unsigned i = 0; i < 256; i++)
		shared->classes[i] = i == 'a'			   ? LETTER_A
				     : isalnum((int)i) || i == '_' ? ALLOWED
				     : i == ' ' || i == '\0'	   ? ADMISSION_END
								   : OTHERS;
	shared->states[0].verdict = ADMISSION_NAME_DENIED;
	shared->states[RULES].verdict = ADMISSION_NAME_BAD;
	shared->states[RULES].next[LETTER_A] = RULES + 1;
	shared->states[RULES + 1].next[LETTER_A] = shared->states[RULES + 1].next[ALLOWED] = RULES + 1;
}

static void load(void)
{
	ck_assert_msg(loader("--mount=%llu --cgroup=/sys/fs/cgroup/guard-keeper --native=%llu",
			     (unsigned long long)keeper.mount, (unsigned long long)inode) == 0,
		      "%s", loader_output);
}

/* Once: loading takes longer than most tests. */
static void start_all(void)
{
	int fds[NATIVE_FILES];

	stand_in_start(&keeper, "guard-keeper");
	inode = native_mount();
	load();
	for (enum native_file i = 0; i < NATIVE_FILES; i++) {
		fds[i] = native_pin_open(loader_directory, i);
		ck_assert_int_ge(fds[i], 0);
	}
	ck_assert_int_eq(native_new(fds, &native), 0);
	set_rules();
}

static void end_all(void)
{
	native = native_free(native);
	native_unmount();
	stand_in_end(&keeper);
	ck_assert_int_eq(loader("--remove"), 0);
	rmdir("/sys/fs/cgroup/native-a");
	rmdir("/sys/fs/cgroup/native-b");
}

static void start(void)
{
	struct admission_note note;

	while (native_read_note(native, &note))
		;
	set_node(POOL, 0, 100);
	set_node(ROOT, 0, 100);
	set_node(QUOTA_A, ROOT, 4);
	set_node(SHARE_A, 0, 100);
	set_node(QUOTA_B, ROOT, 4);
	set_node(SHARE_B, 0, 100);
	set_node(RESERVE, 0, 0);
	native_start(&program, "native-a");
	native_start(&other, "native-b");
	cgroup_a = native_cgroup("native-a");
	cgroup_b = native_cgroup("native-b");
	ck_assert_int_eq(native_set_tenant(native, cgroup_a,
					   &(struct admission_tenant){ .quota = QUOTA_A,
								       .share = SHARE_A,
								       .pool = POOL,
								       .rules = RULES,
								       .reserves = { RESERVE } }),
			 0);
	ck_assert_int_eq(native_set_tenant(native, cgroup_b,
					   &(struct admission_tenant){ .quota = QUOTA_B,
								       .share = SHARE_B,
								       .pool = POOL,
								       .rules = RULES,
								       .flags = ADMISSION_KILL }),
			 0);
	ck_assert_int_eq(native_open(&program, 0), 0);
	ck_assert_int_eq(native_open(&other, 0), 0);
}

static unsigned used(unsigned node)
{
	return __atomic_load_n(&native->shared->nodes[node].used, __ATOMIC_SEQ_CST);
}

/* The kernel lets go of a process's events a moment after the process. */
static void await_used(unsigned node, unsigned expected)
{
	for (unsigned i = 0; i < 500 && used(node) != expected; i++) {
		usleep(10000);
		ck_assert_int_ge(native_sweep(native), 0);
	}
	ck_assert_uint_eq(used(node), expected);
}

static void end(void)
{
	native_end(&program);
	native_end(&other);
	await_used(ROOT, 0);
	await_used(POOL, 0);
	await_used(RESERVE, 0);
}

static unsigned count_grants(uint64_t cgroup, struct admission_grant *ret_last)
{
	struct admission_listed *list;
	unsigned count = 0;
	size_t n;

	ck_assert_int_eq(native_list(native, &list, &n), 0);
	for (size_t i = 0; i < n; i++) {
		if (list[i].key.tenant != cgroup)
			continue;
		count++;
		if (ret_last)
			*ret_last = list[i].grant;
	}
	free(list);
	return count;
}

static bool exists(const char *event)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/user_events/%s", event);
	return access(path, F_OK) == 0;
}

/* Whether a note tells this, after all that came before it. */
static bool was_told(enum admission_news what, enum admission_verdict verdict, struct admission_note *ret)
{
	struct admission_note note;

	while (native_read_note(native, &note)) {
		if (note.what != what || note.verdict != verdict)
			continue;
		if (ret)
			*ret = note;
		return true;
	}
	return false;
}

TEST(program_registers_and_is_charged_until_it_ends)
{
	struct admission_grant grant = { 0 };
	struct admission_note note = { 0 };

	ck_assert_int_eq(native_register(&program, 0, 0, "a_first u32 x", 0), 0);
	ck_assert(exists("a_first"));
	ck_assert_uint_eq(used(QUOTA_A), 1);
	ck_assert_uint_eq(used(ROOT), 1);
	ck_assert_uint_eq(used(POOL), 1);
	ck_assert_uint_eq(used(SHARE_A), 1);
	ck_assert_uint_eq(count_grants(cgroup_a, &grant), 1);
	ck_assert_str_eq(grant.text, "a_first u32 x");
	ck_assert_str_eq(grant.comm, "test_native");
	ck_assert_uint_eq(grant.pid, (unsigned)program.pid);
	ck_assert_uint_eq(grant.uid, 1000);
	ck_assert_uint_eq(grant.files, 1);
	ck_assert(was_told(ADMISSION_GRANTED, 0, &note));
	ck_assert_uint_eq(note.tenant, cgroup_a);
	ck_assert_str_eq(note.name, "a_first u32 x");
	native_end(&program);
	await_used(QUOTA_A, 0);
	ck_assert_uint_eq(used(ROOT) + used(POOL) + used(SHARE_A), 0);
	ck_assert_uint_eq(count_grants(cgroup_a, NULL), 0);
	native_start(&program, "native-a");
}

TEST(one_more_than_the_limit_is_refused)
{
	char text[32];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "a_%u u32 x", i);
		ck_assert_int_eq(native_register(&program, 0, i, text, 0), 0);
	}
	ck_assert_int_eq(native_register(&program, 0, 4, "a_4 u32 x", 0), EDQUOT);
	ck_assert(!exists("a_4"));
	ck_assert(was_told(ADMISSION_REFUSED, ADMISSION_QUOTA, NULL));
	/* What it has it may have once more, on this file and on others. */
	ck_assert_int_eq(native_register(&program, 0, 5, "a_0 u32 x", 0), 0);
	ck_assert_int_eq(native_open(&program, 1), 0);
	ck_assert_int_eq(native_register(&program, 1, 6, "a_1 u32 x", 0), 0);
	ck_assert_uint_eq(used(QUOTA_A), 4);
	ck_assert_uint_eq(count_grants(cgroup_a, NULL), 4);
}

TEST(limit_above_the_tenant_counts_for_both)
{
	native->shared->nodes[ROOT].limit = 2;
	ck_assert_int_eq(native_register(&program, 0, 0, "a_one u32 x", 0), 0);
	ck_assert_int_eq(native_register(&other, 0, 0, "a_two u32 x", 0), 0);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_three u32 x", 0), EDQUOT);
	ck_assert_int_eq(native_register(&other, 0, 1, "a_three u32 x", 0), EDQUOT);
	ck_assert_uint_eq(used(QUOTA_A), 1);
	ck_assert_uint_eq(used(QUOTA_B), 1);
}

TEST(reserve_is_filled_first_and_is_nobody_elses)
{
	native->shared->nodes[POOL].limit = 1;
	native->shared->nodes[RESERVE].limit = 1;
	ck_assert_int_eq(native_register(&program, 0, 0, "a_reserved u32 x", 0), 0);
	ck_assert_uint_eq(used(RESERVE), 1);
	ck_assert_uint_eq(used(POOL), 0);
	ck_assert_int_eq(native_register(&other, 0, 0, "a_common u32 x", 0), 0);
	ck_assert_int_eq(native_register(&other, 0, 1, "a_more u32 x", 0), EDQUOT);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_more u32 x", 0), EDQUOT);
	native_end(&program);
	await_used(RESERVE, 0);
	ck_assert_uint_eq(used(POOL), 1);
	native_start(&program, "native-a");
}

TEST(forbidden_name_is_refused)
{
	struct admission_note note = { 0 };

	ck_assert_int_eq(native_register(&program, 0, 0, "b_name u32 x", 0), EPERM);
	ck_assert(was_told(ADMISSION_REFUSED, ADMISSION_NAME_DENIED, &note));
	ck_assert_str_eq(note.name, "b_name u32 x");
	ck_assert_int_eq(native_register(&program, 0, 0, "a.name u32 x", 0), EPERM);
	ck_assert_int_eq(native_register(&program, 0, 0, "", 0), EPERM);
	/* What is not there cannot be looked at: then the kernel's own copy decides. */
	ck_assert_int_eq(native_register_absent(&program, 0, 0, "b_name u32 x"), ENOMEM);
	ck_assert(!exists("b_name"));
	ck_assert_int_eq(native_register_absent(&program, 0, 0, "a_name u32 x"), 0);
	ck_assert(exists("a_name"));
	ck_assert_uint_eq(used(QUOTA_A), 1);
}

TEST(only_registering_and_its_end_are_allowed)
{
	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_int_eq(native_delete(&program, 0, "a_name"), EPERM);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_stays u32 x", UAPI_PERSIST), EPERM);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_many u32 x", UAPI_MULTI_FORMAT), EPERM);
	ck_assert_int_eq(native_lock(&program, 0), EPERM);
	ck_assert_int_eq(native_chmod(&program, 0), EPERM);
	ck_assert_int_eq(native_unregister(&program, 0), 0);
	ck_assert(exists("a_name"));
}

TEST(multi_format_by_policy)
{
	struct admission_tenant tenant = {
		.quota = QUOTA_A, .share = SHARE_A, .pool = POOL, .rules = RULES, .flags = ADMISSION_MULTI_FORMAT
	};

	ck_assert_int_eq(native_set_tenant(native, cgroup_a, &tenant), 0);
	ck_assert_int_eq(native_register(&program, 0, 0, "a_many u32 x", UAPI_MULTI_FORMAT), 0);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_many u64 x", UAPI_MULTI_FORMAT), 0);
	ck_assert_uint_eq(used(QUOTA_A), 2);
}

TEST(stranger_is_refused)
{
	struct native_program stranger;

	native_start(&stranger, "native-stranger");
	ck_assert_int_eq(native_open(&stranger, 0), 0);
	ck_assert_int_eq(native_register(&stranger, 0, 0, "a_name u32 x", 0), EPERM);
	ck_assert(was_told(ADMISSION_REFUSED, ADMISSION_STRANGER, NULL));
	native_end(&stranger);
	ck_assert_int_eq(rmdir("/sys/fs/cgroup/native-stranger"), 0);
	/* Host's root may use the file that is root's. */
	int fd = open_data_file(clone_tracefs(&(uint64_t){ 0 }));
	struct uapi_register words = { .size = sizeof(words),
				       .enable_size = 4,
				       .enable_address = (uintptr_t) & (uint32_t){ 0 },
				       .description = (uintptr_t) "b_of_root u32 x" };

	ck_assert_int_eq(ioctl(fd, UAPI_IOCTL_REGISTER, &words), 0);
	close(fd);
}

TEST(failed_registration_costs_nothing)
{
	/* No such type; an address that is not mapped, after the event was made; the same word twice; no description. */
	ck_assert_int_eq(native_register(&program, 0, 0, "a_bad nonsense x", 0), EINVAL);
	ck_assert_int_eq(native_register(&program, 0, 0, "a_bad:flag u32 x", 0), EPERM);
	native_sweep(native);
	ck_assert_uint_eq(used(QUOTA_A), 0);
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, 0x20000), EFAULT);
	native_sweep(native);
	ck_assert_uint_eq(used(QUOTA_A), 0);
	for (unsigned i = 0; i < 4; i++) {
		char text[32];

		ck_assert_int_eq(native_register(&program, 0, 100, "a_bad nonsense x", 0), EINVAL);
		snprintf(text, sizeof(text), "a_%u u32 x", i);
		ck_assert_int_eq(native_register(&program, 0, i, text, 0), 0);
	}
	ck_assert_uint_eq(used(QUOTA_A), 4);
	ck_assert_int_eq(native_register(&program, 0, 0, "a_0 u32 x", 0), EADDRINUSE);
	ck_assert_uint_eq(used(QUOTA_A), 4);
}

TEST(bad_input_costs_nothing)
{
	static char long_name[600], endless[600];
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(endless, 'a', sizeof(endless));
	memcpy(long_name, endless, 511);
	/* Shared with the program: a description that goes on where nothing is mapped, and one at a page's end. */
	ck_assert_ptr_ne(pages, MAP_FAILED);
	native_end(&program);
	ck_assert_int_eq(munmap(pages + 4096, 4096), 0);
	memset(pages, 'a', 4096);
	native_start(&program, "native-a");
	ck_assert_int_eq(native_open(&program, 0), 0);
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, (uintptr_t)long_name), EPERM);
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, (uintptr_t)endless), EPERM);
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, (uintptr_t)pages + 3896), EFAULT);
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, (uintptr_t)pages + 4095), EFAULT);
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, UINT64_MAX), EFAULT);
	ck_assert_int_eq(native_register_at(&program, 0, UINT64_MAX - 2, (uintptr_t)endless), EPERM);
	/* No event of ours has one of these: the kernel has no such entry, and io_uring passes nothing on. */
	ck_assert_int_eq(native_register_32(&program, 0, "a_name u32 x"), ENOTTY);
	ck_assert_int_eq(native_register_by_ring(&program, 0), EOPNOTSUPP);
	native_sweep(native);
	ck_assert_uint_eq(used(QUOTA_A), 0);
	ck_assert_uint_eq(used(POOL), 0);
	munmap(pages, 4096);
}

TEST(addresses_at_the_end_of_memory_are_charged)
{
	static const uint64_t addresses[] = { UINT64_MAX - 3, 0x7ffffffff000 - 4, 0x7ffffffff000, 0xffff800000000000,
					      4 };
	static const char description[] = "a_far u32 x";

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		/* One of them is the end of the stack. */
		(void)native_register_at(&program, 0, addresses[i], (uintptr_t)description);
	ck_assert_uint_le(used(QUOTA_A), 1);
	native_end(&program);
	await_used(QUOTA_A, 0);
	native_start(&program, "native-a");
}

TEST(event_at_many_addresses_is_one)
{
	/* Beyond some thousands they are too many for a sweep. */
	ck_assert_int_eq(native_register_often(&program, 0, getenv("FLIPS") ? 65000 : 5000, "a_name u32 x"), 0);
	ck_assert_uint_eq(used(QUOTA_A), 1);
	/* Two have it, so the charge is for the sweep to end. */
	ck_assert_int_eq(native_register(&other, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_int_eq(native_close(&program, 0), 0);
	usleep(1100000);
	native_sweep(native);
	ck_assert_uint_eq(used(QUOTA_A), 1);
	native_end(&program);
	usleep(1100000);
	await_used(QUOTA_A, 0);
	native_start(&program, "native-a");
}

TEST(users_are_all_the_same_to_it)
{
	static const enum native_user users[] = { NATIVE_USER, NATIVE_ROOT, NATIVE_ROOT_OF_NAMESPACE };

	/* As on a host where containers have the file. */
	ck_assert_int_eq(chmod("/sys/kernel/tracing", 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		native_end(&program);
		native_start_as(&program, "native-a", users[i]);
		ck_assert_int_eq(native_open(&program, 0), 0);
		ck_assert_int_eq(native_register(&program, 0, 0, "b_name u32 x", 0), EPERM);
		ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 1), EPERM);
		ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
		ck_assert_int_eq(native_delete(&program, 0, "a_name"), EPERM);
		ck_assert_int_eq(native_open_tracefs(&program), users[i] == NATIVE_ROOT ? 0 : EACCES);
	}
}

/* The file keeps the event that it could not enable. */
TEST(event_of_a_bad_address_is_charged)
{
	static const char description[] = "a_kept u32 x";

	/* The test's own address is the program's, too. */
	ck_assert_int_eq(native_register_at(&program, 0, 0x10000, (uintptr_t)description), ENOMEM);
	ck_assert(exists("a_kept"));
	ck_assert_uint_eq(used(QUOTA_A), 1);
	ck_assert_int_eq(native_close(&program, 0), 0);
	await_used(QUOTA_A, 0);
	ck_assert(!exists("a_kept"));
}

TEST(charge_ends_with_the_last_holder)
{
	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_int_eq(native_close(&program, 0), 0);
	native_sweep(native);
	/* Its memory is enabled by the event, which therefore is there. */
	ck_assert(exists("a_name"));
	ck_assert_uint_eq(used(QUOTA_A), 1);
	ck_assert_int_eq(native_open(&program, 0), 0);
	ck_assert_int_eq(native_fork(&program), 0);
	ck_assert_int_eq(native_unregister(&program, 0), 0);
	usleep(100000);
	native_sweep(native);
	ck_assert_uint_eq(used(QUOTA_A), 1);
	native_end(&program);
	await_used(QUOTA_A, 0);
	ck_assert(!exists("a_name"));
	native_start(&program, "native-a");
}

TEST(copy_in_another_program_holds_the_charge)
{
	ck_assert_int_eq(native_register_in_thread(&program, 0, 0, "a_name u32 x"), 0);
	ck_assert_int_eq(native_exec(&program, 0), 0);
	/* What that thread enabled has gone with it. */
	ck_assert_int_eq(native_unregister(&program, 0), ENOENT);
	ck_assert_int_eq(native_close(&program, 0), 0);
	usleep(1100000);
	native_sweep(native);
	ck_assert(exists("a_name"));
	ck_assert_uint_eq(used(QUOTA_A), 1);
	native_end(&program);
	await_used(QUOTA_A, 0);
	native_start(&program, "native-a");
}

/* The kernel's count of grants, which would take an hour to reach. */
static uint32_t *grants_at(uint8_t *globals)
{
	enum { BEFORE = 3 * sizeof(uint64_t) };

	return (uint32_t *)(void *)(globals + BEFORE);
}

TEST(full_map_refuses)
{
	_cleanup_(fd_closep) int map = -1;
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info), zero = 0, before;
	uint8_t globals[2048];
	char path[256];

	snprintf(path, sizeof(path), "%s/native1-globals", loader_directory);
	map = bpf_obj_get(path);
	ck_assert_int_ge(map, 0);
	ck_assert_int_eq(bpf_obj_get_info_by_fd(map, &info, &size), 0);
	ck_assert_uint_le(info.value_size, sizeof(globals));
	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_int_eq(bpf_map_lookup_elem(map, &zero, globals), 0);
	before = *grants_at(globals);
	ck_assert_uint_eq(before, 1);
	*grants_at(globals) = ADMISSION_GRANTS;
	ck_assert_int_eq(bpf_map_update_elem(map, &zero, globals, BPF_ANY), 0);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_more u32 x", 0), EDQUOT);
	ck_assert(was_told(ADMISSION_REFUSED, ADMISSION_FULL, NULL));
	*grants_at(globals) = before;
	ck_assert_int_eq(bpf_map_update_elem(map, &zero, globals, BPF_ANY), 0);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_more u32 x", 0), 0);
}

TEST(tenants_of_one_event_are_charged_apart)
{
	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_int_eq(native_register(&other, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_uint_eq(used(QUOTA_A), 1);
	ck_assert_uint_eq(used(QUOTA_B), 1);
	native_end(&program);
	await_used(QUOTA_A, 0);
	ck_assert_uint_eq(used(QUOTA_B), 1);
	ck_assert_uint_eq(used(POOL), 1);
	ck_assert(exists("a_name"));
	native_start(&program, "native-a");
}

TEST(file_is_the_tenants_that_registers_first)
{
	ck_assert_int_eq(native_open(&program, 1), 0);
	native_pass(&program, 1, &other, 1);
	/* Who opened it does not matter. */
	ck_assert_int_eq(native_register(&other, 1, 0, "a_name u32 x", 0), 0);
	ck_assert_uint_eq(used(QUOTA_B), 1);
	ck_assert_uint_eq(used(QUOTA_A), 0);
	ck_assert_int_eq(native_register(&program, 1, 0, "a_name u32 x", 0), EPERM);
	ck_assert(was_told(ADMISSION_REFUSED, ADMISSION_FOREIGN, NULL));
	native_end(&other);
	native_sweep(native);
	ck_assert_uint_eq(used(QUOTA_B), 1);
	ck_assert_int_eq(native_close(&program, 1), 0);
	await_used(QUOTA_B, 0);
	native_start(&other, "native-b");
}

TEST(reopened_file_is_a_file_of_its_own)
{
	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_int_eq(native_reopen(&program, 0, 1), 0);
	ck_assert_int_eq(native_register(&program, 1, 1, "b_name u32 x", 0), EPERM);
	ck_assert_int_eq(native_register(&program, 1, 1, "a_more u32 x", 0), 0);
	ck_assert_uint_eq(used(QUOTA_A), 2);
}

TEST(forbidden_join_is_killed)
{
	int fd = open_data_file(clone_tracefs(&(uint64_t){ 0 }));
	struct uapi_register words = { .size = sizeof(words),
				       .enable_size = 4,
				       .enable_address = (uintptr_t) & (uint32_t){ 0 },
				       .description = (uintptr_t) "b_secret u32 x" };
	struct admission_note note = { 0 };

	ck_assert_int_eq(ioctl(fd, UAPI_IOCTL_REGISTER, &words), 0);
	ck_assert_int_eq(native_register(&other, 0, 0, "b_secret u32 x", 0), EPERM);
	ck_assert_int_eq(native_register_absent(&other, 0, 0, "b_secret u32 x"), -1);
	ck_assert(was_told(ADMISSION_VIOLATED, ADMISSION_NAME_DENIED, &note));
	ck_assert_uint_eq(note.pid, (unsigned)other.pid);
	ck_assert_str_eq(note.name, "b_secret u32 x");
	native_end(&other);
	await_used(QUOTA_B, 0);
	/* This tenant's are only told. */
	ck_assert_int_eq(native_register_absent(&program, 0, 0, "b_secret u32 x"), 0);
	ck_assert(was_told(ADMISSION_VIOLATED, ADMISSION_NAME_DENIED, NULL));
	ck_assert_uint_eq(used(QUOTA_A), 1);
	close(fd);
	native_start(&other, "native-b");
}

TEST(forbidden_join_is_told_whatever_else_there_is_to_tell)
{
	const int fd = open_data_file(clone_tracefs(&(uint64_t){ 0 }));
	struct uapi_register words = { .size = sizeof(words),
				       .enable_size = 4,
				       .enable_address = (uintptr_t) & (uint32_t){ 0 },
				       .description = (uintptr_t) "b_secret u32 x" };

	ck_assert_int_eq(ioctl(fd, UAPI_IOCTL_REGISTER, &words), 0);
	for (unsigned i = 0; i < ADMISSION_NOTES / sizeof(struct admission_note); i++)
		ck_assert_int_eq(native_register(&program, 0, 1, "b_secret u32 x", 0), EPERM);
	ck_assert_int_eq(native_register_absent(&program, 0, 0, "b_secret u32 x"), 0);
	ck_assert(was_told(ADMISSION_VIOLATED, ADMISSION_NAME_DENIED, NULL));
	close(fd);
}

TEST(name_that_changes_meanwhile_is_never_made)
{
	struct admission_note note = { 0 };

	const char *flips = getenv("FLIPS");

	(void)native_race(&program, flips ? (unsigned)atoi(flips) : 3000, "aflip u32 x", "bflip u32 x");
	ck_assert(!exists("bflip"));
	native_end(&program);
	await_used(QUOTA_A, 0);
	while (native_read_note(native, &note))
		ck_assert_msg(note.what != ADMISSION_GRANTED || note.name[0] == 'a', "%s", note.name);
	native_start(&program, "native-a");
}

/* The same, where the forbidden name is that of an event which exists. */
TEST(name_that_changes_meanwhile_is_killed_for_it)
{
	enum { DEATHS = 3, ROUNDS = 20000 };
	const unsigned attempts = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 50 : 1;
	const int fd = open_data_file(clone_tracefs(&(uint64_t){ 0 }));
	struct uapi_register words = { .size = sizeof(words),
				       .enable_size = 4,
				       .enable_address = (uintptr_t) & (uint32_t){ 0 },
				       .description = (uintptr_t) "bflip u32 x" };
	unsigned deaths = 0, told = 0;

	ck_assert_int_eq(ioctl(fd, UAPI_IOCTL_REGISTER, &words), 0);
	set_node(QUOTA_A, ROOT, 1);
	set_node(RESERVE, 0, 1);
	for (unsigned i = 0; i < attempts && deaths < DEATHS; i++) {
		const bool is_dead = native_race(&other, ROUNDS, "aflip u32 x", "bflip u32 x") < 0;

		told += was_told(ADMISSION_VIOLATED, ADMISSION_NAME_DENIED, NULL);
		deaths += is_dead;
		ck_assert_uint_eq(told, deaths);
		if (is_dead) {
			native_end(&other);
			native_start(&other, "native-b");
		}
	}
	ck_assert(attempts == 1 || deaths > 0);
	/* The neighbour has its place. */
	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	ck_assert_uint_eq(used(RESERVE), 1);
	close(fd);
}

TEST(maps_outlive_the_programs_of_a_build)
{
	char before[512], after[640];

	ck_assert_int_eq(native_register(&program, 0, 0, "a_name u32 x", 0), 0);
	find_pinned("admitting1-", before, sizeof(before));
	snprintf(after, sizeof(after), "%s/admitting1-0000000000000000", loader_directory);
	char path[640];
	snprintf(path, sizeof(path), "%s/%s", loader_directory, before);
	ck_assert_int_eq(rename(path, after), 0);
	load();
	ck_assert_int_lt(access(after, F_OK), 0);
	ck_assert_uint_eq(used(QUOTA_A), 1);
	ck_assert_int_eq(native_register(&program, 0, 1, "a_more u32 x", 0), 0);
	ck_assert_int_eq(native_register(&program, 0, 2, "b_name u32 x", 0), EPERM);
	ck_assert_uint_eq(used(QUOTA_A), 2);
	ck_assert_int_eq(native_close(&program, 0), 0);
	native_end(&program);
	await_used(QUOTA_A, 0);
	native_start(&program, "native-a");
}

int main(void)
{
	const TTest *const tests[] = { program_registers_and_is_charged_until_it_ends,
				       one_more_than_the_limit_is_refused,
				       limit_above_the_tenant_counts_for_both,
				       reserve_is_filled_first_and_is_nobody_elses,
				       forbidden_name_is_refused,
				       only_registering_and_its_end_are_allowed,
				       multi_format_by_policy,
				       stranger_is_refused,
				       failed_registration_costs_nothing,
				       bad_input_costs_nothing,
				       addresses_at_the_end_of_memory_are_charged,
				       event_at_many_addresses_is_one,
				       users_are_all_the_same_to_it,
				       event_of_a_bad_address_is_charged,
				       charge_ends_with_the_last_holder,
				       copy_in_another_program_holds_the_charge,
				       full_map_refuses,
				       tenants_of_one_event_are_charged_apart,
				       file_is_the_tenants_that_registers_first,
				       reopened_file_is_a_file_of_its_own,
				       forbidden_join_is_killed,
				       forbidden_join_is_told_whatever_else_there_is_to_tell,
				       name_that_changes_meanwhile_is_never_made,
				       name_that_changes_meanwhile_is_killed_for_it,
				       maps_outlive_the_programs_of_a_build };
	Suite *suite = suite_create("admission");
	TCase *cases = tcase_create("admission");

	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	if (access("/proc/sys/kernel/user_events_max", F_OK) < 0) {
		printf("0 passed, 0 failed, 1 skipped: programs register by themselves on Linux 6.4 and later\n");
		return EXIT_SUCCESS;
	}
	loader_directory = "/sys/fs/bpf/native-test";
	tcase_add_unchecked_fixture(cases, start_all, end_all);
	tcase_add_checked_fixture(cases, start, end);
	tcase_set_timeout(cases, 120);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		tcase_add_test(cases, tests[i]);
	suite_add_tcase(suite, cases);
	return suite_run(suite);
}
