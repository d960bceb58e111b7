/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/look.h"

#include <fcntl.h>
#include <inttypes.h>

#include "protocol/base/number.h"

static const char maximum_path[] = "/proc/sys/kernel/user_events_max";

FILE *look_list(int list)
{
	int copy = list < 0 ? -1 : fcntl(list, F_DUPFD_CLOEXEC, 0);
	FILE *lines = copy < 0 ? NULL : fdopen(copy, "r");

	if (lines)
		rewind(lines);
	else
		fd_close(copy);
	return lines;
}

/* Both ABIs: a line for each event, then an empty one and "Active: 7". No event's name has a colon. */
int look_count_events(int list, uint32_t *ret)
{
	FILE *lines = look_list(list);
	char line[256];
	int r = -ENODATA;

	if (!lines)
		return -EBADF;
	while (r < 0 && fgets(line, sizeof(line), lines))
		if (*line == 'A' && sscanf(line, "Active: %" SCNu32, ret) == 1)
			r = 0;
	fclose(lines);
	return r;
}

/* In one read(2): a second one finds the end there, and stdio without memory for a buffer reads byte by byte. */
uint32_t look_maximum(void)
{
	_cleanup_(fd_closep) int fd = open(maximum_path, O_RDONLY | O_CLOEXEC);
	char text[16];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	uint64_t maximum;

	text[MAX(n, 0)] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return number_parse(text, strlen(text), KERNEL_EVENTS_MAX, &maximum) == NUMBER_GOOD ? (uint32_t)maximum
											    : KERNEL_EVENTS_MAX;
}

/* The setting is the whole machine's: a compromised daemon must neither end all registration with it nor lift the limit. */
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
