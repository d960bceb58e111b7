/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Instances and probes that a killed command has left behind, which the next command removes.
 *
 * A command that makes or removes a session holds a lock on the directory of all instances until it ends. `create` marks the instance last,
 * with a buffer_percent that differs from the kernel's default, and `destroy` removes the mark first. So an instance without the mark, seen
 * under the lock, is the rest of a killed command. (The instance's clock cannot be the mark: setting it drops all records.) Probes outlive
 * their instance: probes of an instance that does not exist are such a rest, too.
 */

#include "client/userevctl/session/session.h"

#include <fcntl.h>
#include <sys/file.h>

enum { PERCENT_COMPLETE = 0, PERCENT_OF_NEW = 50 };

struct tracefs_instance *session_instance(const char *name)
{
	char instance[sizeof(SESSION_PREFIX) + SESSION_NAME_MAX];

	snprintf(instance, sizeof(instance), SESSION_PREFIX "%s", name);
	return tracefs_instance_exists(instance) ? tracefs_instance_alloc(NULL, instance) : NULL;
}

static bool is_complete(struct tracefs_instance *instance)
{
	long long percent;

	/* Any other number is a user's. */
	return tracefs_instance_file_read_number(instance, "buffer_percent", &percent) < 0 || percent != PERCENT_OF_NEW;
}

static int write_percent(struct tracefs_instance *instance, int percent)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", percent);
	return instance_write(instance, "buffer_percent", text);
}

int session_mark_complete(struct tracefs_instance *instance)
{
	return write_percent(instance, PERCENT_COMPLETE);
}

/* Its probes on events of programs are triggers of these, which the kernel removes when a probe is switched off, not with an instance. */
static void turn_probes(struct tracefs_instance *instance, const char *group, const char *on)
{
	char file[SESSION_GROUP_MAX + 32];

	snprintf(file, sizeof(file), "events/%s/enable", group);
	if (tracefs_file_exists(instance, file))
		instance_write(instance, file, on);
}

int session_erase(const char *name)
{
	struct tracefs_instance *instance = session_instance(name);
	char group[SESSION_GROUP_MAX];
	bool has_group = session_group(name, group);
	int r = 0;

	if (instance) {
		bool was_complete = is_complete(instance);

		write_percent(instance, PERCENT_OF_NEW);
		if (has_group)
			turn_probes(instance, group, "0");
		r = instance_remove(instance);
		instance = r < 0 && was_complete ? session_instance(name) : NULL;
	}
	/* Another program has it open: it stays as it was. */
	if (instance) {
		if (has_group)
			turn_probes(instance, group, "1");
		session_mark_complete(instance);
		tracefs_instance_free(instance);
	}
	return r == 0 && has_group ? session_remove_probes(group) : r;
}

int sessions_lock(const struct tracing *tracing)
{
	char path[sizeof(tracing->place) + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/instances", tracing->place);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX) == 0)
		return fd;
	fd_close(fd);
	return -errno;
}

static int clean_instance(const char *instance_name, void *data _unused_)
{
	const char *name = session_of_instance(instance_name);
	struct tracefs_instance *instance = name ? session_instance(name) : NULL;
	bool left = instance && !is_complete(instance);

	tracefs_instance_free(instance);
	/* If that fails, the next command tries again. */
	if (left)
		session_erase(name);
	return 0;
}

static int clean_probe(void *data _unused_, const char *group, const char *event _unused_, const char *line _unused_)
{
	struct tracefs_instance *instance;
	char name[SESSION_GROUP_MAX];

	if (!session_of_group(group, name))
		return 0;
	instance = session_instance(name);
	if (!instance)
		session_remove_probes(group);
	tracefs_instance_free(instance);
	return 0;
}

void sessions_clean(void)
{
	tracefs_instances_walk(clean_instance, NULL);
	session_probes_walk(clean_probe, NULL);
}
