/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/look.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

static const char maximum_path[] = "/proc/sys/kernel/user_events_max";

int look_open(int tracefs)
{
	int fd = openat(tracefs, "user_events_status", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The last place where it says so: no event's name has a colon. */
static bool find_active(const char *text, uint32_t *ret)
{
	const char *found = strstr(text, "Active: ");

	return found && strchr(found, '\n') && sscanf(found, "Active: %" SCNu32, ret) == 1;
}

/* A line for each event, then an empty one and "Active: 7": both ABIs. What may be the beginning of that is kept. */
int look_count_events(int fd, uint32_t *ret)
{
	enum { KEPT = 32 };
	char text[4096 + KEPT + 1];
	size_t kept = 0;
	ssize_t n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		size_t length = kept + (size_t)n;

		text[length] = '\0';
		if (find_active(text, ret))
			return 0;
		kept = MIN(length, (size_t)KEPT);
		memmove(text, text + length - kept, kept);
	}
	return n < 0 ? -errno : -ENODATA;
}

/* At once, for who reads on finds the end there: stdio does, when it has no memory for more than a byte. */
uint32_t look_maximum(uint32_t otherwise)
{
	_cleanup_(fd_closep) int fd = open(maximum_path, O_RDONLY | O_CLOEXEC);
	char text[16], *end;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned long maximum;

	if (n <= 0)
		return otherwise;
	text[n] = '\0';
	maximum = strtoul(text, &end, 10);
	return end > text && maximum <= UINT32_MAX ? (uint32_t)maximum : otherwise;
}

/* The setting is the whole machine's: a daemon that was taken over must not end all registration with it, or lift the limit. */
int look_set_maximum(uint32_t maximum)
{
	_cleanup_(fd_closep) int fd = -1;
	char text[16];
	int length = snprintf(text, sizeof(text), "%" PRIu32, maximum);

	if (maximum == 0 || maximum > KERNEL_EVENTS_MAX)
		return -ERANGE;
	fd = open(maximum_path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, text, (size_t)length) == length ? 0 : -errno;
}
