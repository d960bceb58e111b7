/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A daemon that is started with errors in the policy files uses the last policy without errors, so that the machine is not left
 * without a daemon. The copy is the text of the files, and is parsed and checked like these.
 *
 * A new copy is written under another name, and is on the disk before it is renamed: so one complete copy exists whenever the
 * machine stops.
 */

#include "daemon/recovery/last_policy.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static const char kept_name[] = "policy", new_name[] = "policy.new";

enum { KEPT_BYTES_MAX = 64 << 20 };

/* Written by root, or by a user that the daemon is or becomes, and by no other. */
static bool kept_is_trusted(const struct stat *status, uid_t user)
{
	return (status->st_uid == 0 || status->st_uid == geteuid() || status->st_uid == user) &&
	       !(status->st_mode & (S_IWGRP | S_IWOTH));
}

/* 0; -EPERM: another user may have written it; or another negative errno. */
static int kept_read(const char *directory, uid_t user, struct policy_copy *ret, struct stat *ret_status)
{
	_cleanup_(fd_closep) int parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	_cleanup_(freep) char *bytes = NULL;
	ssize_t n;

	if (parent < 0 || fstat(parent, ret_status) < 0)
		return -errno;
	if (!kept_is_trusted(ret_status, user))
		return -EPERM;
	fd = openat(parent, kept_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, ret_status) < 0)
		return -errno;
	if (!S_ISREG(ret_status->st_mode) || !kept_is_trusted(ret_status, user))
		return -EPERM;
	if (ret_status->st_size > KEPT_BYTES_MAX)
		return -EFBIG;
	bytes = malloc((size_t)ret_status->st_size + 1);
	if (!bytes)
		return -ENOMEM;
	n = read(fd, bytes, (size_t)ret_status->st_size);
	if (n < 0)
		return -errno;
	*ret = (struct policy_copy){ .bytes = steal_pointer(bytes), .size = (size_t)n };
	return 0;
}

int last_policy_read(const char *directory, uid_t user, struct policy **ret, time_t *ret_since, struct text *why)
{
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	_cleanup_(policy_copy_deinit) struct policy_copy copy = { 0 };
	struct stat status = { 0 };
	int r = kept_read(directory, user, &copy, &status);

	if (r == 0 && policy_load_copy(&copy, &problems, ret) != 0)
		r = -EBADMSG;
	if (r == -ENOENT)
		text_printf(why, "none is kept in %s", directory);
	else if (r < 0)
		text_printf(why, "%s/%s is not used: %s", directory, kept_name,
			    r == -EPERM	    ? "another user than root and userevd's could have written it"
			    : r == -EBADMSG ? "it is damaged, or has errors itself"
					    : strerror(-r));
	if (r < 0)
		return r;
	*ret_since = status.st_mtime;
	return 0;
}

int last_policy_keep(const char *directory, const struct policy_copy *copy)
{
	_cleanup_(policy_copy_deinit) struct policy_copy kept = { 0 };
	_cleanup_(fd_closep) int parent = -1, fd = -1;
	struct stat status;
	ssize_t n;
	int r;

	if (kept_read(directory, geteuid(), &kept, &status) == 0 && kept.bytes && kept.size == copy->size &&
	    memcmp(kept.bytes, copy->bytes, kept.size) == 0)
		return 0;
	parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	unlinkat(parent, new_name, 0);
	fd = openat(parent, new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	n = write(fd, copy->bytes, copy->size);
	r = n < 0 || fsync(fd) < 0 ? -errno : (size_t)n < copy->size ? -ENOSPC : 0;
	return r == 0 && renameat(parent, new_name, parent, kept_name) < 0 ? -errno : r;
}
