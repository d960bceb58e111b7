/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/refusal.h"

#include "protocol/base/base.h"

static const struct {
	const char *name;
	int error;
} refusals[REFUSAL_MAX_] = {
	[REFUSAL_NONE] = { "none", 0 },
	[REFUSAL_BAD_PACKET] = { "bad-packet", EPROTO },
	[REFUSAL_UNKNOWN_KIND] = { "unknown-kind", EPROTO },
	[REFUSAL_UNEXPECTED_FDS] = { "unexpected-fds", EPROTO },
	[REFUSAL_HELLO_FIRST] = { "hello-first", EPROTO },
	[REFUSAL_FEATURE_MISSING] = { "feature-missing", EPROTO },
	[REFUSAL_WRONG_USER] = { "wrong-user", EACCES },
	[REFUSAL_UNKNOWN_PEER] = { "unknown-peer", EACCES },
	[REFUSAL_TOO_SLOW] = { "too-slow", ETIMEDOUT },
	[REFUSAL_TOO_MANY_CONNECTIONS] = { "too-many-connections", EDQUOT },
	[REFUSAL_BAD_DESCRIPTION] = { "bad-description", EINVAL },
	[REFUSAL_NAME_TAKEN] = { "name-taken", EEXIST },
	[REFUSAL_QUOTA_EXCEEDED] = { "quota-exceeded", EDQUOT },
	[REFUSAL_PAGE_FULL] = { "page-full", ENOSPC },
	[REFUSAL_MACHINE_FULL] = { "machine-full", ENOSPC },
	[REFUSAL_NOT_PERMITTED] = { "not-permitted", EACCES },
	[REFUSAL_KERNEL_TOO_OLD] = { "kernel-too-old", EOPNOTSUPP },
	[REFUSAL_NO_SUCH_EVENT] = { "no-such-event", ENOENT },
	[REFUSAL_TROUBLE] = { "trouble", EIO },
	[REFUSAL_SELF_REGISTERED] = { "self-registered", EACCES },
	[REFUSAL_NOT_THE_TRACER] = { "not-the-tracer", EOPNOTSUPP },
	[REFUSAL_IN_USE] = { "in-use", EBUSY },
};

const char *refusal_name(uint32_t refusal)
{
	return refusal < REFUSAL_MAX_ ? refusals[refusal].name : "unknown";
}

int refusal_to_errno(uint32_t refusal)
{
	/* A newer daemon may have refusals that this build does not know. */
	return refusal < REFUSAL_MAX_ ? -refusals[refusal].error : -EIO;
}
