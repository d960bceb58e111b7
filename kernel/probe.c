/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kernel/uapi.h"
#include "protocol/base/mountinfo.h"
#include "protocol/base/text.h"

/*
 * Finds user_events and its ABI. An ioctl that both ABIs refuse, each at another point, tells them apart: for a registration of 28 zero
 * bytes the kernel returns EINVAL from 6.4 on, where byte 5 is a size that may not be 0, and EFAULT before, where bytes 4 to 11 are the
 * address of the description. If the data file can't be opened the setting has to do that came with 6.4.
 */

#define USER_EVENTS_MAX "/proc/sys/kernel/user_events_max"

static const struct {
	const char *name;
	enum wire_backend kind;
} backends[] = {
	{ "embedded", BACKEND_EMBEDDED },
	{ "status-page", BACKEND_STATUS_PAGE },
	{ "enable-address", BACKEND_ENABLE_ADDRESS },
};

const char *backend_name(uint16_t backend)
{
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
		if (backends[i].kind == backend)
			return backends[i].name;
	return "unknown";
}

/*
 * The path of tracefs if this is one, and visible: another file system may be mounted over it, or over a directory on its way. debugfs
 * mounts tracefs inside itself on access.
 */
static bool mount_has_tracefs(const struct mount_line *mount, char *ret, size_t size)
{
	struct text path = text_make(ret, size);
	unsigned major, minor;
	struct stat status;

	if (!streq(mount->root, "/"))
		return false;
	if (streq(mount->type, "tracefs"))
		text_printf(&path, "%s", mount->point);
	else if (streq(mount->type, "debugfs"))
		text_printf(&path, "%s/tracing", mount->point);
	else
		return false;
	return !path.cut && sscanf(mount->device, "%u:%u", &major, &minor) == 2 && stat(mount->point, &status) == 0 &&
	       status.st_dev == makedev(major, minor) && access(ret, F_OK) == 0;
}

static void probe_find_tracefs(FILE *mountinfo, struct probe *probe)
{
	_cleanup_(freep) char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, mountinfo) >= 0) {
		struct mount_line mount;
		char path[sizeof(probe->tracefs)];

		if (!mountinfo_parse(line, &mount) || !mount_has_tracefs(&mount, path, sizeof(path)))
			continue;
		/* A mount of its own is preferred to debugfs, which may be unmounted. */
		if (!probe->tracefs_mounted || streq(mount.type, "tracefs"))
			string_copy(probe->tracefs, sizeof(probe->tracefs), path);
		probe->tracefs_mounted = true;
		if (streq(mount.type, "tracefs"))
			return;
	}
}

void probe_tracefs(int tracefs, struct probe *ret)
{
	struct uapi_register empty = { .size = sizeof(empty) };
	_cleanup_(fd_closep) int data = -1;

	ret->has_user_events = faccessat(tracefs, "user_events_data", F_OK, 0) == 0;
	if (!ret->has_user_events)
		return;
	data = openat(tracefs, "user_events_data", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ret->may_open = data >= 0;
	if (!ret->may_open)
		ret->kind = access(USER_EVENTS_MAX, F_OK) == 0 ? BACKEND_ENABLE_ADDRESS : BACKEND_STATUS_PAGE;
	else if (ioctl(data, UAPI_IOCTL_REGISTER, &empty) == 0)
		ret->kind = BACKEND_EMBEDDED; /* not user_events */
	else
		ret->kind = errno == EINVAL   ? BACKEND_ENABLE_ADDRESS
			    : errno == EFAULT ? BACKEND_STATUS_PAGE
					      : BACKEND_EMBEDDED;
}

#define MOUNT_IT "mount -t tracefs tracefs /sys/kernel/tracing"

static void explain_obstacle(const struct probe *probe, struct text *sentence)
{
	if (!probe->tracefs_mounted)
		text_printf(sentence, "tracefs is not mounted (%s)", MOUNT_IT);
	else if (probe->has_user_events)
		text_printf(sentence, "this user may not open %.80s/user_events_data", probe->tracefs);
	else
		text_printf(sentence, "this user may not look into %.80s", probe->tracefs);
}

static void probe_explain(const struct probe *probe, struct text *sentence)
{
	if (probe->may_open) {
		text_printf(sentence, "this kernel has user_events (%s)", backend_name(probe->kind));
	} else if (probe->has_user_events || access(USER_EVENTS_MAX, F_OK) == 0) {
		text_printf(sentence, "this kernel has user_events (%s), but ",
			    backend_name(probe->has_user_events ? probe->kind : BACKEND_ENABLE_ADDRESS));
		explain_obstacle(probe, sentence);
	} else if (!probe->may_look) {
		text_printf(sentence, "no user_events was found: ");
		explain_obstacle(probe, sentence);
	} else {
		text_printf(sentence,
			    "this kernel has no user_events (no user_events_data in %.80s); Linux 6.4 or later with "
			    "CONFIG_USER_EVENTS=y has",
			    probe->tracefs);
	}
}

void probe_machine(const char *mountinfo, struct probe *ret)
{
	FILE *file = fopen(mountinfo ? mountinfo : "/proc/self/mountinfo", "re");
	_cleanup_(fd_closep) int tracefs = -1;
	struct text sentence;

	*ret = (struct probe){ .kind = BACKEND_EMBEDDED };
	if (file) {
		probe_find_tracefs(file, ret);
		fclose(file);
	}
	/* By default only root may search tracefs. */
	ret->may_look = ret->tracefs_mounted && access(ret->tracefs, X_OK) == 0;
	if (ret->tracefs_mounted)
		tracefs = open(ret->tracefs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (tracefs >= 0)
		probe_tracefs(tracefs, ret);
	sentence = text_make(ret->sentence, sizeof(ret->sentence));
	probe_explain(ret, &sentence);
}

int probe_choose(const char *name, bool root, struct probe *probe, enum wire_backend *ret)
{
	/* If user_events can't be seen yet the keeper finds out: it may mount tracefs. */
	const bool may_have = probe->has_user_events || !probe->tracefs_mounted;
	const bool any = streq(name, "auto");
	char found[sizeof(probe->sentence)];
	enum wire_backend kind;
	size_t i = 0;

	while (!any && i < ARRAY_SIZE(backends) && !streq(backends[i].name, name))
		i++;
	if (i == ARRAY_SIZE(backends))
		return -EINVAL;
	kind = any ? BACKEND_EMBEDDED : backends[i].kind;
	if (any && root && may_have)
		kind = probe->has_user_events ? probe->kind : BACKEND_ENABLE_ADDRESS;
	if (kind == BACKEND_EMBEDDED) {
		if (any && probe->may_open && !root)
			string_copy(probe->sentence, sizeof(probe->sentence),
				    "this kernel has user_events, but userevd was not started as root");
	} else if (!root || !may_have || (probe->has_user_events && probe->kind != kind)) {
		string_copy(found, sizeof(found), probe->sentence);
		snprintf(probe->sentence, sizeof(probe->sentence), "this machine has no %s: %.200s", backend_name(kind),
			 found);
		return -EOPNOTSUPP;
	}
	*ret = kind;
	return 0;
}

int probe_native(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	return ioctl(fd, UAPI_IOCTL_REGISTER, NULL) < 0 && errno != EFAULT ? errno : 0;
}
