/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The instance of a tail: made, set up, removed; and what others of ours left behind. */

#include "client/userevctl/tracing/tail.h"

/* An instance whose files somebody has open can't be removed, so that a pid of another namespace does no harm. */
static bool is_leftover(const char *name)
{
	uint64_t pid = instance_name_pid(name);

	if (pid == 0)
		return false;
	return pid == (uint64_t)getpid() || (kill((pid_t)pid, 0) < 0 && errno == ESRCH);
}

static int remove_leftover(const char *name, void *data _unused_)
{
	struct tracefs_instance *instance = is_leftover(name) ? tracefs_instance_alloc(NULL, name) : NULL;

	if (instance)
		tracefs_instance_destroy(instance);
	tracefs_instance_free(instance);
	return 0;
}

/* What an instance takes over from the top one is anybody's choice. Which of these there are depends on the kernel. */
static int set_up_instance(struct tracefs_instance *instance)
{
	static const struct {
		const char *file, *value;
	} settings[] = {
		{ "buffer_percent", "0" },	   { "options/overwrite", "1" },
		{ "options/record-cmd", "1" },	   { "options/stacktrace", "0" },
		{ "options/userstacktrace", "0" }, { "options/pause-on-trace", "0" },
		{ "options/event-fork", "0" },	   { "tracing_on", "1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (tracefs_file_exists(instance, settings[i].file))
			tracefs_instance_file_write(instance, settings[i].file, settings[i].value);
	errno = 0;
	if (tracefs_instance_file_write(instance, "trace_clock", "mono") < 0)
		return errno ? -errno : -EIO;
	return 0;
}

int tail_instance_make(struct tail_session *session)
{
	tracefs_instances_walk(remove_leftover, NULL);
	snprintf(session->instance_name, sizeof(session->instance_name), "userevctl-%d", (int)getpid());
	errno = 0;
	session->instance = tracefs_instance_create(session->instance_name);
	if (!session->instance)
		return errno ? -errno : -EIO;
	return set_up_instance(session->instance);
}

void tail_instance_remove(struct tail_session *session)
{
	if (!session->instance)
		return;
	errno = 0;
	if (tracefs_instance_destroy(session->instance) < 0)
		ctl_error("cannot remove the instance %s of tracefs: %s. The next 'userevctl tail' tries again.",
			  session->instance_name, strerror(errno));
	tracefs_instance_free(session->instance);
	session->instance = NULL;
}
