/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A daemon that is started with errors in the policy files uses the last policy without errors, so that the machine is not left
 * without a daemon. The copy is the text of the files, and is parsed and checked like these.
 */

#include "daemon/recovery/last_policy.h"

#include <sys/stat.h>

#include "daemon/recovery/state_file.h"

static const char kept_name[] = "policy";

static int kept_read(const char *directory, uid_t user, struct policy_copy *ret, struct stat *ret_status)
{
	return state_file_read(directory, kept_name, user, &ret->bytes, &ret->size, ret_status);
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
	struct stat status;

	if (kept_read(directory, geteuid(), &kept, &status) == 0 && kept.bytes && kept.size == copy->size &&
	    memcmp(kept.bytes, copy->bytes, kept.size) == 0)
		return 0;
	return state_file_write(directory, kept_name, copy->bytes, copy->size, true);
}
