/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A program that uses user_events itself, as root, without a daemon: its events are foreign.
 *
 *	direct [OPTION…] DESCRIPTION [FIELD=VALUE…]
 *
 * Registers the event, prints "registered", waits until the event is on, writes the record, prints "written". --count=N: writes N
 * records. --number=FIELD: counts from 0 in that field of 4 or 8 bytes. --every=MS: so many milliseconds apart. --when=FILE: not before
 * that file exists. --hold: stays until it is killed. --multi: as multi-format.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "kernel/uapi.h"
#include "protocol/event/record.h"

#define TRACEFS "/sys/kernel/tracing/"

enum { PAGE_BYTES = 4096, PAYLOAD_MAX = 4096, POLL_US = 1000 };

struct direct {
	const char *text;
	struct description description;
	unsigned long count;
	const char *number; /* field, or NULL */
	unsigned every;
	bool hold;
	bool multi;
	const char *when;
	int data;
	uint32_t index;
	volatile uint64_t enabled;	/* with the newer ABI bit 0 of this */
	const volatile uint8_t *status; /* with the older one a byte of this, and a bit of it */
	uint8_t mask;
	uint8_t payload[PAYLOAD_MAX];
	size_t size;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "direct: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool is_on(const struct direct *direct)
{
	return direct->status ? *direct->status & direct->mask : direct->enabled & 1;
}

static void register_by_address(struct direct *direct)
{
	struct uapi_register registration = {
		.size = sizeof(registration),
		.enable_size = sizeof(direct->enabled),
		.flags = direct->multi ? UAPI_MULTI_FORMAT : 0,
		.enable_address = (uintptr_t)&direct->enabled,
		.description = (uintptr_t)direct->text,
	};

	if (ioctl(direct->data, UAPI_IOCTL_REGISTER, &registration) < 0)
		die(direct->text);
	direct->index = registration.index;
}

static void register_by_status(struct direct *direct)
{
	struct uapi_register_status registration = {
		.size = sizeof(registration),
		.description = (uintptr_t)direct->text,
	};
	int fd = open(TRACEFS "user_events_status", O_RDONLY | O_CLOEXEC);
	const uint8_t *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || page == MAP_FAILED)
		die("the status page");
	if (ioctl(direct->data, UAPI_IOCTL_REGISTER, &registration) < 0)
		die(direct->text);
	direct->index = registration.index;
	direct->status = page + registration.bit / 8;
	direct->mask = (uint8_t)(1U << registration.bit % 8);
}

static void register_event(struct direct *direct)
{
	direct->data = open(TRACEFS "user_events_data", O_RDWR | O_CLOEXEC);
	if (direct->data < 0)
		die("user_events_data");
	if (access("/proc/sys/kernel/user_events_max", F_OK) == 0)
		register_by_address(direct);
	else
		register_by_status(direct);
	puts("registered");
	fflush(stdout);
}

static void put_number(struct direct *direct, uint64_t number)
{
	const struct description *description = &direct->description;
	const uint32_t number32 = (uint32_t)number;

	for (size_t i = 0; direct->number && i < description->n_fields; i++) {
		const struct field *field = &description->field[i];

		if (strlen(direct->number) != field->name_length ||
		    memcmp(direct->number, field->name, field->name_length) != 0)
			continue;
		if (field->size == sizeof(number32))
			memcpy(direct->payload + field->offset, &number32, sizeof(number32));
		else
			memcpy(direct->payload + field->offset, &number, sizeof(number));
	}
}

static void write_records(struct direct *direct)
{
	struct iovec parts[] = {
		{ &direct->index, sizeof(direct->index) },
		{ direct->payload, direct->size },
	};

	while (direct->when && access(direct->when, F_OK) < 0)
		usleep(POLL_US);
	for (unsigned long i = 0; i < direct->count; i++) {
		while (!is_on(direct))
			usleep(POLL_US);
		put_number(direct, i);
		if (writev(direct->data, parts, ARRAY_SIZE(parts)) < 0 && errno != EBADF)
			die("a record");
		if (direct->every > 0)
			usleep(direct->every * 1000);
	}
	puts("written");
	fflush(stdout);
}

/* NULL: the argument is not that option. */
static const char *option_value(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

/* The index of the description. */
static int read_options(struct direct *direct, char **argv)
{
	const char *value;
	int i = 1;

	direct->count = 1;
	for (; argv[i] && argv[i][0] == '-'; i++) {
		if ((value = option_value(argv[i], "--count=")))
			direct->count = strtoul(value, NULL, 10);
		else if ((value = option_value(argv[i], "--number=")))
			direct->number = value;
		else if ((value = option_value(argv[i], "--every=")))
			direct->every = (unsigned)strtoul(value, NULL, 10);
		else if ((value = option_value(argv[i], "--when=")))
			direct->when = value;
		else if (streq(argv[i], "--hold"))
			direct->hold = true;
		else if (streq(argv[i], "--multi"))
			direct->multi = true;
		else
			exit(2);
	}
	if (!argv[i])
		exit(2);
	direct->text = argv[i];
	return i;
}

int main(int argc, char **argv)
{
	static struct direct direct;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));

	int first = read_options(&direct, argv) + 1;

	if (description_parse(direct.text, strlen(direct.text), &direct.description, &why) != 0 ||
	    record_build(&direct.description, (const char *const *)&argv[first], (size_t)(argc - first), direct.payload,
			 sizeof(direct.payload), &direct.size, &why) != 0) {
		fprintf(stderr, "direct: %s\n", sentence);
		return 2;
	}
	register_event(&direct);
	write_records(&direct);
	while (direct.hold)
		pause();
	return 0;
}
