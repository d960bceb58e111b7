/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Without a broker: the program has access to user_events_data, and asks the kernel itself. */

#include <fcntl.h>

#include "kernel/uapi.h"
#include "tests/bench/bench.h"

const char tracefs[] = "/sys/kernel/tracing";

int direct_open(void)
{
	int data = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);

	if (data < 0)
		fail("user_events_data");
	return data;
}

bool has_status_page(void)
{
	static int known = -1;

	if (known < 0)
		known = access("/proc/sys/kernel/user_events_max", F_OK) != 0;
	return known;
}

/* Before 6.4: all bits are in one page, and the kernel chooses them. */
static uint32_t register_on_status_page(int data, const char *description)
{
	struct uapi_register_status asked = {
		.size = sizeof(asked),
		.description = (uint64_t)(uintptr_t)description,
	};

	if (ioctl(data, UAPI_IOCTL_REGISTER, &asked) < 0)
		fail(description);
	return asked.index;
}

uint32_t direct_register(int data, const char *description, uint32_t *word)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(*word),
		.enable_address = (uint64_t)(uintptr_t)word,
		.description = (uint64_t)(uintptr_t)description,
	};

	if (has_status_page())
		return register_on_status_page(data, description);
	if (ioctl(data, UAPI_IOCTL_REGISTER, &asked) < 0)
		fail(description);
	return asked.index;
}

/* The kernel keeps the words: they are never freed. */
void direct_register_all(int data, char (*names)[NAME_BYTES], unsigned n)
{
	uint32_t *words = calloc(n, sizeof(*words));

	if (!words)
		fail("calloc");
	for (unsigned i = 0; i < n; i++)
		direct_register(data, names[i], &words[i]);
}

void direct_close(int data, uint32_t *word)
{
	struct uapi_unregister asked = { .size = sizeof(asked), .disable_address = (uint64_t)(uintptr_t)word };

	/* Before 6.4 there is no such request, and nothing to undo. */
	ioctl(data, UAPI_IOCTL_UNREGISTER, &asked);
	close(data);
}

static long count_events(void)
{
	FILE *file = fopen("/sys/kernel/tracing/user_events_status", "re");
	char line[512];
	long active = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Active: %ld", &active) == 1)
			break;
	if (file)
		fclose(file);
	return active;
}

void direct_settle(void)
{
	enum { PAUSE = 200000 };
	long before = -1, active = count_events();

	while (active != before) {
		usleep(PAUSE);
		before = active;
		active = count_events();
	}
}

double direct_switch(const char *name, bool on)
{
	char path[160];
	double begin;
	int fd;

	snprintf(path, sizeof(path), "%s/events/user_events/%s/enable", tracefs, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	begin = now();
	if (write(fd, on ? "1" : "0", 1) != 1)
		fail(path);
	begin = now() - begin;
	close(fd);
	return begin;
}
