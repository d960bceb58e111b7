/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/kernel/pages.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/suite.h"

void page_map(struct page *page)
{
	page->words = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd, 0);
	ck_assert_ptr_ne(page->words, MAP_FAILED);
}

int page_reopen(int fd, int flags)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = open(path, flags | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

/* As kernel/keeper/mounts.c makes them. */
static void mount_pages(struct page *page)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	int context;

	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	context = fsopen("tmpfs", FSOPEN_CLOEXEC);
	ck_assert_int_ge(context, 0);
	ck_assert_int_eq(fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), 0);
	page->mounts[0] = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID);
	close(context);
	ck_assert_int_ge(page->mounts[0], 0);
	ck_assert_int_eq(move_mount(page->mounts[0], "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH), 0);
	page->mounts[1] = open_tree(AT_FDCWD, "/mnt", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	ck_assert_int_ge(page->mounts[1], 0);
	ck_assert_int_eq(mount_setattr(page->mounts[1], "", AT_EMPTY_PATH, &read_only, sizeof(read_only)), 0);
}

struct page page_on_two_mounts(void)
{
	struct page page;

	mount_pages(&page);
	page.fd = openat(page.mounts[0], "page", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	ck_assert_int_ge(page.fd, 0);
	ck_assert_int_eq(fchmod(page.fd, 0666), 0);
	ck_assert_int_eq(ftruncate(page.fd, PAGE_BYTES), 0);
	page.client = openat(page.mounts[1], "page", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(page.client, 0);
	ck_assert_int_eq(unlinkat(page.mounts[0], "page", 0), 0);
	page_map(&page);
	return page;
}

static struct page page_of_a_memfd(mode_t mode)
{
	struct page page = { .mounts = { -1, -1 } };

	page.fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(page.fd, 0);
	ck_assert_int_eq(fchmod(page.fd, mode), 0);
	ck_assert_int_eq(ftruncate(page.fd, PAGE_BYTES), 0);
	page_map(&page);
	return page;
}

struct page page_sealed_against_later_writing(void)
{
	struct page page = page_of_a_memfd(0777);

	ck_assert_int_eq(fcntl(page.fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
			 0);
	page.client = fcntl(page.fd, F_DUPFD_CLOEXEC, 0);
	return page;
}

struct page page_of_an_owner(mode_t mode)
{
	struct page page = page_of_a_memfd(mode);

	ck_assert_int_eq(fcntl(page.fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	page.client = page_reopen(page.fd, O_RDONLY);
	ck_assert_int_ge(page.client, 0);
	return page;
}

void page_free(struct page *page)
{
	munmap(page->words, PAGE_BYTES);
	fd_close(page->fd);
	fd_close(page->client);
	fd_close(page->mounts[0]);
	fd_close(page->mounts[1]);
}
