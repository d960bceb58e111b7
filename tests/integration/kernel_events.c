/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/kernel_events.h"

#include <fcntl.h>
#include <stdio.h>

#include "kernel/uapi.h"
#include "tests/integration/fixture.h"

char *read_events(void)
{
	FILE *status = fopen(TRACEFS "/user_events_status", "re"), *names;
	char line[640], *text = NULL;
	size_t size, start;

	if (!status)
		return NULL;
	names = open_memstream(&text, &size);
	fputc('\n', names);
	/* "BIT:NAME # Used by …" or "NAME # Used by …", and behind an empty line how many. */
	while (fgets(line, sizeof(line), status) && *line != '\n') {
		start = strspn(line, "0123456789");
		start = line[start] == ':' ? start + 1 : 0;
		line[start + strcspn(line + start, " \n")] = '\0';
		fprintf(names, "%s\n", line + start);
	}
	fclose(status);
	fclose(names);
	return text;
}

bool find_new_event(const char *before, char *ret, size_t size)
{
	_cleanup_(freep) char *now = before ? read_events() : NULL;
	char *rest = now, *line, wanted[640];

	*ret = '\0';
	while ((line = strsep(&rest, "\n"))) {
		snprintf(wanted, sizeof(wanted), "\n%s\n", line);
		if (*line && !strstr(before, wanted))
			snprintf(ret, size, "%s", line);
	}
	return *ret;
}

static bool try_to_delete(const char *event)
{
	int data = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);
	bool deleted = ioctl(data, UAPI_IOCTL_DELETE, event) == 0 || errno == ENOENT;

	fd_close(data);
	return deleted;
}

void delete_event(const char *event)
{
	ck_assert_msg(eventually(try_to_delete(event)), "%s is still used", event);
}

void delete_new_events(const char *before)
{
	char name[640];

	for (int i = 0; i < 1000 && find_new_event(before, name, sizeof(name)); i++)
		delete_event(name);
}

unsigned count_events(const char *events)
{
	unsigned n = 0;

	while (events && (events = strchr(events + 1, '\n')))
		n++;
	return n;
}

void foreign_event_begin(struct janitor *janitor, const char *description)
{
	char name[128], line[256];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(description, " "), description);
	snprintf(line, sizeof(line), "u:%s\n", description);
	janitor_start(janitor, delete_event, name);
	write_file(TRACEFS "/dynamic_events", line);
}

int register_by_itself(int data, const char *description)
{
	static uint64_t word;
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(word),
		.enable_address = (uintptr_t)&word,
		.description = (uintptr_t)description,
	};
	struct uapi_register_status asked_before_6_4 = {
		.size = sizeof(asked_before_6_4),
		.description = (uintptr_t)description,
	};
	struct uapi_unregister taken_back = { .size = sizeof(taken_back), .disable_address = asked.enable_address };
	const bool has_enablers = access("/proc/sys/kernel/user_events_max", F_OK) == 0;

	if (ioctl(data, UAPI_IOCTL_REGISTER, has_enablers ? (void *)&asked : &asked_before_6_4) < 0)
		return -errno;
	if (has_enablers)
		ck_assert_int_eq(ioctl(data, UAPI_IOCTL_UNREGISTER, &taken_back), 0);
	return 0;
}

/* "BIT:NAME # Used by …" or "NAME # Used by …". */
static bool is_line_of(const char *line, const char *event)
{
	size_t bit = strspn(line, "0123456789");

	if (line[bit] == ':')
		line += bit + 1;
	return strncmp(line, event, strlen(event)) == 0 && strchr(" \n", line[strlen(event)]);
}

bool status_line(const char *event, char *ret, size_t size)
{
	FILE *status = fopen(TRACEFS "/user_events_status", "re");
	char line[640];

	ck_assert_ptr_nonnull(status);
	*ret = '\0';
	while (fgets(line, sizeof(line), status))
		if (is_line_of(line, event))
			snprintf(ret, size, "%.*s", (int)strcspn(line, "\n"), line);
	fclose(status);
	return *ret;
}

bool kernel_has(const char *event)
{
	char line[640];

	return status_line(event, line, sizeof(line));
}
