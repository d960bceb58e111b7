/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/user_events.h"

/* What tracefs says. */

void read_file(const char *path, char *ret, size_t size)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t n;

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	while ((n = read(fd, ret + length, size - 1 - length)) > 0)
		length += (size_t)n;
	ck_assert_int_eq(n, 0);
	ck_assert_uint_lt(length, size - 1);
	ret[length] = '\0';
}

int write_file(const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

void event_path(const char *name, const char *file, char *ret, size_t size)
{
	snprintf(ret, size, TRACEFS "/events/%s/%s/%s", strchr(name, '.') ? "user_events_multi" : "user_events", name,
		 file);
}

void switch_event(const char *name, bool on)
{
	char path[192];
	int r;

	event_path(name, "enable", path, sizeof(path));
	r = write_file(path, on ? "1" : "0");
	ck_assert_msg(r == 0, "%s: %s", path, strerror(-r));
}

/*
 * A line is "COMM-PID [CPU] FLAGS TIME: NAME: FIELDS" on the newer ABI. The older one prints no name but a hex dump of the
 * record, of which the first line is "00000000: " and begins with what trace_entry has: the event's number and, four bytes
 * on, the pid.
 */
struct scan {
	char named[64];
	unsigned id;
	unsigned records;
	pid_t pid;
};

static bool is_dumped(const char *line, struct scan *scan)
{
	unsigned bytes[8];

	if (sscanf(line, "00000000: %x %x %x %x %x %x %x %x", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4],
		   &bytes[5], &bytes[6], &bytes[7]) != 8 ||
	    (bytes[0] | bytes[1] << 8) != scan->id)
		return false;
	scan->pid = (pid_t)(bytes[4] | bytes[5] << 8 | bytes[6] << 16 | bytes[7] << 24);
	return true;
}

static bool is_named(const char *line, struct scan *scan)
{
	const char *name = strstr(line, scan->named), *at = strstr(line, " [");

	if (!name || !at || at > name)
		return false;
	while (at > line && *at != '-')
		at--;
	scan->pid = (pid_t)strtol(at + 1, NULL, 10);
	return true;
}

static struct scan scan_trace(const char *name)
{
	struct scan scan = { 0 };
	char path[192], line[4096];
	FILE *trace;

	event_path(name, "id", path, sizeof(path));
	read_file(path, line, sizeof(line));
	scan.id = (unsigned)strtoul(line, NULL, 10);
	snprintf(scan.named, sizeof(scan.named), ": %s:", name);
	trace = fopen(TRACEFS "/trace", "re");
	ck_assert_ptr_nonnull(trace);
	while (fgets(line, sizeof(line), trace))
		if (abi_of_this_kernel() == ABI_STATUS_PAGE ? is_dumped(line, &scan) : is_named(line, &scan))
			scan.records++;
	fclose(trace);
	return scan;
}

unsigned count_records(const char *name)
{
	return scan_trace(name).records;
}

unsigned count_all_records(void)
{
	FILE *trace = fopen(TRACEFS "/trace", "re");
	unsigned records = UINT32_MAX;
	char line[4096];

	ck_assert_ptr_nonnull(trace);
	while (fgets(line, sizeof(line), trace) &&
	       sscanf(line, "# entries-in-buffer/entries-written: %u/", &records) != 1)
		;
	fclose(trace);
	return records;
}

pid_t writer_of_last_record(const char *name)
{
	return scan_trace(name).pid;
}

/* "BIT:NAME # Used by …" or "NAME # Used by …". */
static bool is_line_of(const char *line, const char *name)
{
	size_t bit = strspn(line, "0123456789");

	if (line[bit] == ':')
		line += bit + 1;
	return strncmp(line, name, strlen(name)) == 0 && strchr(" \n", line[strlen(name)]);
}

void status_line(const char *name, char *ret, size_t size)
{
	FILE *status = fopen(TRACEFS "/user_events_status", "re");
	char line[640];

	ck_assert_ptr_nonnull(status);
	*ret = '\0';
	while (fgets(line, sizeof(line), status)) {
		if (!is_line_of(line, name))
			continue;
		line[strcspn(line, "\n")] = '\0';
		string_copy(ret, size, line);
	}
	fclose(status);
}

bool event_exists(const char *name)
{
	char line[640];

	status_line(name, line, sizeof(line));
	return *line;
}

long status_number(const char *key)
{
	FILE *status = fopen(TRACEFS "/user_events_status", "re");
	size_t length = strlen(key);
	long number = -1;
	char line[640];

	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		if (strncmp(line, key, length) == 0)
			number = strtol(line + length, NULL, 10);
	fclose(status);
	return number;
}
