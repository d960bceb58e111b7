/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "protocol/base/text.h"

/*
 * Where user_events lives and which ABI it speaks. The ABI is told apart by an ioctl that both refuse, each at another
 * point: a registration of 28 zero bytes is EINVAL where byte 5 is a size that may not be 0 (6.4 and later), and EFAULT
 * where bytes 4 to 11 are the address of the description (before). The mode of the status file says the same, and has to
 * do where the data file cannot be opened.
 */

#define USER_EVENTS_MAX "/proc/sys/kernel/user_events_max"

enum { STATUS_MODE_OLD = 0640, STATUS_MODE_NEW = 0440 };

struct empty_registration {
	uint32_t size;
	uint8_t zero[24];
};
_Static_assert(sizeof(struct empty_registration) == 28, "the larger of the two layouts");

/* _IOWR('*', 0, struct user_reg *): the size in it is a pointer's. */
#define REGISTER_IOCTL _IOWR('*', 0, void *)

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

/* mountinfo writes space, tab, newline and backslash as \040 and so on. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
			*to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

struct mount_line {
	const char *device, *root, *type;
	char *point;
};

/* "36 35 98:0 /root /mount/point options tag:1 - type source options": 0, or -1 where it is something else. */
static int parse_mount(char *line, struct mount_line *ret)
{
	char *separator = strstr(line, " - "), *rest = line, *type;

	if (!separator)
		return -1;
	*separator = '\0';
	type = separator + 3;
	type[strcspn(type, " \n")] = '\0';
	ret->type = type;
	strsep(&rest, " ");
	strsep(&rest, " ");
	ret->device = strsep(&rest, " ");
	ret->root = strsep(&rest, " ");
	ret->point = strsep(&rest, " ");
	return ret->point ? 0 : -1;
}

/* Another file system may be mounted over it, or over a directory on the way. */
static bool is_visible(const struct mount_line *mount)
{
	unsigned major, minor;
	struct stat status;

	return sscanf(mount->device, "%u:%u", &major, &minor) == 2 && stat(mount->point, &status) == 0 &&
	       status.st_dev == makedev(major, minor);
}

/* debugfs mounts tracefs inside itself when somebody goes there. */
static bool tracefs_at(const struct mount_line *mount, char *ret, size_t size)
{
	struct text path = text_make(ret, size);

	if (!streq(mount->root, "/"))
		return false;
	if (streq(mount->type, "tracefs"))
		text_printf(&path, "%s", mount->point);
	else if (streq(mount->type, "debugfs"))
		text_printf(&path, "%s/tracing", mount->point);
	else
		return false;
	return !path.cut && is_visible(mount) && access(ret, F_OK) == 0;
}

static void find_tracefs(FILE *mountinfo, struct probe *probe)
{
	_cleanup_(freep) char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, mountinfo) >= 0) {
		struct mount_line mount;
		char path[sizeof(probe->tracefs)];

		if (parse_mount(line, &mount) < 0)
			continue;
		unescape(mount.point);
		if (!tracefs_at(&mount, path, sizeof(path)))
			continue;
		/* A tracefs of its own is better than debugfs', which may go away. */
		if (!probe->tracefs_mounted || streq(mount.type, "tracefs"))
			string_copy(probe->tracefs, sizeof(probe->tracefs), path);
		probe->tracefs_mounted = true;
		if (streq(mount.type, "tracefs"))
			return;
	}
}

/* By the mode of the status file. */
static enum wire_backend abi_by_mode(int tracefs)
{
	struct stat status;

	if (fstatat(tracefs, "user_events_status", &status, 0) < 0)
		return BACKEND_EMBEDDED;
	if ((status.st_mode & 0777) == STATUS_MODE_NEW)
		return BACKEND_ENABLE_ADDRESS;
	return (status.st_mode & 0777) == STATUS_MODE_OLD ? BACKEND_STATUS_PAGE : BACKEND_EMBEDDED;
}

static enum wire_backend abi_by_trying(int data)
{
	struct empty_registration empty = { .size = sizeof(empty) };

	if (ioctl(data, REGISTER_IOCTL, &empty) == 0)
		return BACKEND_EMBEDDED; /* not user_events at all */
	if (errno == EINVAL)
		return BACKEND_ENABLE_ADDRESS;
	return errno == EFAULT ? BACKEND_STATUS_PAGE : BACKEND_EMBEDDED;
}

/* Where neither says: the sysctl came with the newer ABI, and an admin may have changed the mode. */
static enum wire_backend abi_otherwise(int tracefs)
{
	enum wire_backend kind = abi_by_mode(tracefs);

	if (kind == BACKEND_EMBEDDED && access(USER_EVENTS_MAX, F_OK) == 0)
		return BACKEND_ENABLE_ADDRESS;
	return kind;
}

void probe_tracefs(int tracefs, struct probe *ret)
{
	_cleanup_(fd_closep) int data = -1;

	ret->has_user_events = faccessat(tracefs, "user_events_data", F_OK, 0) == 0;
	if (!ret->has_user_events)
		return;
	data = openat(tracefs, "user_events_data", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ret->may_open = data >= 0;
	if (ret->may_open)
		ret->kind = abi_by_trying(data);
	if (ret->kind == BACKEND_EMBEDDED)
		ret->kind = abi_otherwise(tracefs);
}

static void look_at_user_events(struct probe *probe)
{
	_cleanup_(fd_closep) int tracefs = open(probe->tracefs, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (tracefs >= 0)
		probe_tracefs(tracefs, probe);
}

#define MOUNT_IT "mount -t tracefs tracefs /sys/kernel/tracing"

static void say_what_bars(const struct probe *probe, struct text *sentence)
{
	if (!probe->tracefs_mounted)
		text_printf(sentence, "tracefs is not mounted (%s)", MOUNT_IT);
	else if (probe->has_user_events)
		text_printf(sentence, "this user may not open %.80s/user_events_data", probe->tracefs);
	else
		text_printf(sentence, "this user may not look into %.80s", probe->tracefs);
}

static void say(const struct probe *probe, struct text *sentence)
{
	if (probe->may_open) {
		text_printf(sentence, "this kernel has user_events (%s)", backend_name(probe->kind));
	} else if (probe->has_user_events || access(USER_EVENTS_MAX, F_OK) == 0) {
		text_printf(sentence, "this kernel has user_events (%s), but ",
			    backend_name(probe->has_user_events ? probe->kind : BACKEND_ENABLE_ADDRESS));
		say_what_bars(probe, sentence);
	} else if (!probe->may_look) {
		text_printf(sentence, "no user_events was found: ");
		say_what_bars(probe, sentence);
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
	struct text sentence;

	*ret = (struct probe){ .kind = BACKEND_EMBEDDED };
	if (file) {
		find_tracefs(file, ret);
		fclose(file);
	}
	/* tracefs is 0700 by default, so that others cannot even see what is in it. */
	ret->may_look = ret->tracefs_mounted && access(ret->tracefs, X_OK) == 0;
	if (ret->tracefs_mounted)
		look_at_user_events(ret);
	sentence = text_make(ret->sentence, sizeof(ret->sentence));
	say(ret, &sentence);
}

static int backend_by_name(const char *name, enum wire_backend *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		if (streq(backends[i].name, name)) {
			*ret = backends[i].kind;
			return 0;
		}
	}
	return -EINVAL;
}

static void say_why_not(struct probe *probe, enum wire_backend kind)
{
	char found[sizeof(probe->sentence)];
	struct text sentence;

	string_copy(found, sizeof(found), probe->sentence);
	sentence = text_make(probe->sentence, sizeof(probe->sentence));
	text_printf(&sentence, "this machine has no %s: %s", backend_name(kind), found);
}

/* Where it can't be seen yet, the keeper will: it may mount tracefs. */
static bool may_have(const struct probe *probe)
{
	return probe->has_user_events || !probe->tracefs_mounted;
}

int probe_choose(const char *name, bool root, struct probe *probe, enum wire_backend *ret)
{
	enum wire_backend kind = BACKEND_EMBEDDED;
	bool any = streq(name, "auto");
	int r;

	r = any ? 0 : backend_by_name(name, &kind);
	if (r < 0)
		return r;
	if (any && root && may_have(probe))
		kind = probe->has_user_events ? probe->kind : BACKEND_ENABLE_ADDRESS;
	if (kind == BACKEND_EMBEDDED) {
		if (any && probe->may_open && !root)
			string_copy(probe->sentence, sizeof(probe->sentence),
				    "this kernel has user_events, but userevd was not started as root");
		*ret = kind;
		return 0;
	}
	if (!root || !may_have(probe) || (probe->has_user_events && probe->kind != kind)) {
		say_why_not(probe, kind);
		return -EOPNOTSUPP;
	}
	*ret = kind;
	return 0;
}
