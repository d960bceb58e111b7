/* SPDX-License-Identifier: GPL-2.0-or-later */

/* An instance is called userevctl-PID: a later userevctl removes the instances of processes that were killed. */

#include <signal.h>

#include "client/userevctl/tracing/tracefs.h"

int instance_remove(struct tracefs_instance *instance)
{
	int r;

	errno = 0;
	r = tracefs_instance_destroy(instance) < 0 ? errno ? -errno : -EIO : 0;
	tracefs_instance_free(instance);
	return r;
}

/* An instance in use cannot be removed, so a pid that belongs to another namespace does no harm. */
static int remove_leftover(const char *name, void *data _unused_)
{
	pid_t pid = text_instance_pid(name);
	struct tracefs_instance *instance;

	if (pid == 0 || (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH)))
		return 0;
	instance = tracefs_instance_alloc(NULL, name);
	if (instance)
		instance_remove(instance);
	return 0;
}

int instance_make(struct tracefs_instance **ret)
{
	/* A new instance inherits options of the top instance. Which of these files exist depends on the kernel. */
	static const struct {
		const char *file, *value;
	} settings[] = {
		{ "buffer_percent", "0" },	   { "options/overwrite", "1" },
		{ "options/record-cmd", "1" },	   { "options/stacktrace", "0" },
		{ "options/userstacktrace", "0" }, { "options/pause-on-trace", "0" },
		{ "options/event-fork", "0" },	   { "tracing_on", "1" },
	};
	struct tracefs_instance *instance;
	char name[32];

	tracefs_instances_walk(remove_leftover, NULL);
	snprintf(name, sizeof(name), "userevctl-%d", (int)getpid());
	errno = 0;
	*ret = instance = tracefs_instance_create(name);
	if (!instance)
		return errno ? -errno : -EIO;
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (tracefs_file_exists(instance, settings[i].file))
			tracefs_instance_file_write(instance, settings[i].file, settings[i].value);
	errno = 0;
	if (tracefs_instance_file_write(instance, "trace_clock", "mono") < 0)
		return errno ? -errno : -EIO;
	return 0;
}
