/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "tests/kernel/page_attempts.h"
#include "tests/kernel/pages.h"
#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/*
 * Pages that other users may only read: root, an ordinary user, and root of a user namespace try every way to write to them by the fd
 * that a client gets. The expected errors are in tables.
 */

struct attempt {
	const char *name;
	int (*run)(int fd);
	int of[NAMESPACE_ROOT + 1]; /* the result expected for each person */
};

#define ALL(error)                                                                                                     \
	{                                                                                                              \
		error, error, error                                                                                    \
	}

static int mapped(int fd, int protection)
{
	void *words = mmap(NULL, PAGE_BYTES, protection, MAP_SHARED, fd, 0);

	return words == MAP_FAILED ? -errno : 0;
}

/* The first attempt with an unexpected result, and that result; { n } if there is none. */
struct outcome {
	size_t attempt;
	int said;
	bool changed;
};

/* Many attempts of one process, whose outcome is in shared memory. */
static int attempt_all(struct page *page, enum who who, const struct attempt *attempts, size_t n,
		       struct outcome *outcome)
{
	for (size_t i = 0; i < n; i++) {
		outcome->attempt = i;
		outcome->said = attempts[i].run(page->client);
		outcome->changed = page->words[0] != 0x5a;
		if (outcome->said != attempts[i].of[who] || outcome->changed)
			return 0;
	}
	outcome->attempt = n;
	return 0;
}

static void expect_refused(struct page *page, const struct attempt *attempts, size_t n)
{
	static const char *const names[] = { "root", "an unprivileged user", "a namespace's root" };
	struct outcome *outcome =
		mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(outcome, MAP_FAILED);
	page->words[0] = 0x5a;
	for (enum who who = ROOT; who <= NAMESPACE_ROOT; who++) {
		ck_assert_int_eq(as(who, attempt_all(page, who, attempts, n, outcome)), 0);
		ck_assert_msg(outcome->attempt == n, "%s by %s: %d%s", attempts[outcome->attempt].name, names[who],
			      outcome->said, outcome->changed ? ", and went through" : "");
	}
	munmap(outcome, sizeof(*outcome));
}

TEST(page_on_read_only_mount_is_read_only_for_all)
{
	static const struct attempt attempts[] = {
		{ "a writable map", map_writable, ALL(-EACCES) },
		{ "a writable map behind the end", map_writable_behind, ALL(-EACCES) },
		{ "a private map", map_private, ALL(0) },
		{ "mprotect", make_map_writable, ALL(-EACCES) },
		{ "mremap and mprotect", move_map_and_make_it_writable, ALL(-EACCES) },
		{ "MADV_REMOVE", punch_through_map, ALL(-EACCES) },
		{ "/proc/self/mem", write_as_a_debugger, ALL(-EIO) },
		{ "read", read_into_map, ALL(-EFAULT) },
		{ "pwrite", write_at, ALL(-EBADF) },
		{ "pwritev2", write_vector, ALL(-EBADF) },
		{ "splice", splice_into, ALL(-EBADF) },
		{ "sendfile", send_file_into, ALL(-EBADF) },
		{ "copy_file_range", copy_range_into, ALL(-EBADF) },
		{ "a write to a pipe it was spliced into", write_to_spliced_page, ALL(0) },
		{ "a write to a pipe it was vmspliced into", write_to_page_in_pipe, ALL(0) },
		{ "F_SETFL", set_write_mode, ALL(-EBADF) },
		{ "punching a hole", punch, ALL(-EBADF) },
		{ "fallocate", allocate, ALL(-EBADF) },
		{ "ftruncate", cut, ALL(-EINVAL) },
		{ "ftruncate beyond the end", grow, ALL(-EINVAL) },
		{ "truncate", cut_by_path, ALL(-EROFS) },
		{ "reopening", reopen_to_write, ALL(-EROFS) },
		{ "reopening to map it", reopen_to_map, ALL(-EROFS) },
		{ "reopening through map_files", reopen_map_file, { -EROFS, -EPERM, -EPERM } },
		{ "reopening to append", reopen_to_append, ALL(-EROFS) },
		{ "reopening with O_TRUNC", reopen_to_cut, ALL(-EROFS) },
		{ "a handle", reopen_by_handle, { -EROFS, -EPERM, -EPERM } },
		{ "fchmod", change_page_mode, ALL(-EROFS) },
		{ "a seal", seal, ALL(-EPERM) },
	};
	_cleanup_(page_free) struct page page = page_on_two_mounts();

	expect_refused(&page, attempts, ARRAY_SIZE(attempts));
	/* Also after the mounts have ended with the process that made them. */
	page.mounts[0] = fd_close(page.mounts[0]);
	page.mounts[1] = fd_close(page.mounts[1]);
	ck_assert_int_eq(umount2("/mnt", MNT_DETACH), 0);
	expect_refused(&page, attempts, ARRAY_SIZE(attempts));
}
END_TEST

TEST(the_writable_fd_of_such_a_page_can_be_mapped_again)
{
	_cleanup_(page_free) struct page page = page_on_two_mounts();

	ck_assert_int_eq(as(ROOT, mapped(page.fd, PROT_READ | PROT_WRITE)), 0);
	munmap(page.words, PAGE_BYTES);
	page_map(&page);
	page.words[0] = 1;
	ck_assert_int_eq(as(UNPRIVILEGED, mapped(page.client, PROT_READ)), 0);
}
END_TEST

TEST(page_sealed_against_writing_is_read_only_for_all)
{
	static const struct attempt attempts[] = {
		{ "a writable map", map_writable, ALL(-EPERM) },
		{ "mprotect", make_map_writable, ALL(-EACCES) },
		{ "pwrite", write_at, ALL(-EPERM) },
		{ "pwritev2", write_vector, ALL(-EPERM) },
		{ "punching a hole", punch, ALL(-EPERM) },
		{ "fallocate", allocate, ALL(-EPERM) },
		{ "ftruncate", cut, ALL(-EPERM) },
		{ "truncate", cut_by_path, ALL(-EPERM) },
		{ "reopening with O_TRUNC", reopen_to_cut, ALL(-EPERM) },
		{ "a seal", seal, ALL(-EPERM) },
	};
	_cleanup_(page_free) struct page page = page_sealed_against_later_writing();

	expect_refused(&page, attempts, ARRAY_SIZE(attempts));
}
END_TEST

TEST(sealed_page_may_be_reopened_but_not_written)
{
	_cleanup_(page_free) struct page page = page_sealed_against_later_writing();

	ck_assert_int_eq(as(UNPRIVILEGED, reopen_to_write(page.client)), -EPERM);
	ck_assert_int_eq(as(UNPRIVILEGED, reopen_to_map(page.client)), -EPERM);
	page.words[0] = 1; /* the existing mapping */
	ck_assert_int_eq(map_writable(page.fd), -EPERM);
}
END_TEST

TEST(page_of_mode_0600_is_read_only_but_for_root)
{
	static const struct attempt attempts[] = {
		{ "a writable map", map_writable, ALL(-EACCES) },
		{ "mprotect", make_map_writable, ALL(-EACCES) },
		{ "MADV_REMOVE", punch_through_map, ALL(-EACCES) },
		{ "/proc/self/mem", write_as_a_debugger, ALL(-EIO) },
		{ "pwrite", write_at, ALL(-EBADF) },
		{ "punching a hole", punch, ALL(-EBADF) },
		{ "ftruncate", cut, ALL(-EINVAL) },
		{ "truncate", cut_by_path, { -EPERM, -EACCES, -EACCES } },
		{ "reopening with O_TRUNC", reopen_to_cut, { -EPERM, -EACCES, -EACCES } },
		{ "fchmod", change_page_mode, { 0, -EPERM, -EPERM } },
		{ "a seal", seal, ALL(-EPERM) },
	};
	_cleanup_(page_free) struct page page = page_of_an_owner(0600);

	expect_refused(&page, attempts, ARRAY_SIZE(attempts));
	ck_assert_int_eq(as(UNPRIVILEGED, reopen_to_map(page.client)), -EACCES);
	ck_assert_int_eq(as(NAMESPACE_ROOT, reopen_to_map(page.client)), -EACCES);
	ck_assert_int_eq(as(ROOT, reopen_to_map(page.client)), 0);
	ck_assert_int_eq(as(ROOT, mapped(page.fd, PROT_READ | PROT_WRITE)), 0);
}
END_TEST

TEST(plain_memfd_is_writable_when_reopened)
{
	_cleanup_(page_free) struct page page = page_of_an_owner(0777);

	ck_assert_int_eq(as(UNPRIVILEGED, write_at(page.client)), -EBADF);
	ck_assert_int_eq(as(UNPRIVILEGED, reopen_to_write(page.client)), 0);
	ck_assert_uint_eq(page.words[0], 'x');
	ck_assert_int_eq(as(NAMESPACE_ROOT, reopen_to_map(page.client)), 0);
}
END_TEST

static int word_of(const struct page *page)
{
	const uint64_t *words = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, page->client, 0);

	return words == MAP_FAILED ? -errno : (int)words[0];
}

static void expect_bits_to_reach(struct page page)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(enable(machine.data, machine.text, page.words, 4), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(as(UNPRIVILEGED, word_of(&page)), 1 << 4);
	switch_event(machine.event, false);
	ck_assert_int_eq(as(NAMESPACE_ROOT, word_of(&page)), 0);
	ck_assert_int_eq(disable(machine.data, page.words, 4), 0);
	page_free(&page);
}

TEST(kernel_sets_bits_in_every_kind_of_page)
{
	expect_bits_to_reach(page_on_two_mounts());
	expect_bits_to_reach(page_sealed_against_later_writing());
	expect_bits_to_reach(page_of_an_owner(0600));
}
END_TEST

PROMISES("page access", EITHER(page_on_read_only_mount_is_read_only_for_all),
	 EITHER(the_writable_fd_of_such_a_page_can_be_mapped_again),
	 EITHER(page_sealed_against_writing_is_read_only_for_all), EITHER(sealed_page_may_be_reopened_but_not_written),
	 EITHER(page_of_mode_0600_is_read_only_but_for_root), EITHER(plain_memfd_is_writable_when_reopened),
	 ENABLE_ADDRESS(kernel_sets_bits_in_every_kind_of_page))
