/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A program that uses user_events by itself, as root, without a daemon: its events are foreign.
 *
 *	direct [OPTION…] DESCRIPTION [FIELD=VALUE…]
 *
 * Registers the event, says "registered", waits until it is on, writes the record, says "written". With --count=N it writes N of them,
 * with --number=FIELD counting from 0 in that field of 4 or 8 bytes, with --every=MS so many milliseconds apart. --when=FILE: not before
 * there is such a file. --hold: then stays until it is killed. --multi: as multi-format.
 */

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "kernel/uapi.h"
#include "protocol/event/record.h"

#define TRACEFS "/sys/kernel/tracing/"

enum { PAGE_BYTES = 4096, PAYLOAD_MAX = 4096, POLL_US = 1000 };
enum { OPTION_COUNT = 1, OPTION_NUMBER, OPTION_EVERY, OPTION_HOLD, OPTION_MULTI, OPTION_WHEN };

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

static void read_options(struct direct *direct, int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, OPTION_COUNT },
		{ "number", required_argument, NULL, OPTION_NUMBER },
		{ "every", required_argument, NULL, OPTION_EVERY },
		{ "hold", no_argument, NULL, OPTION_HOLD },
		{ "multi", no_argument, NULL, OPTION_MULTI },
		{ "when", required_argument, NULL, OPTION_WHEN },
		{ 0 },
	};
	int option;

	direct->count = 1;
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == OPTION_COUNT)
			direct->count = strtoul(optarg, NULL, 10);
		else if (option == OPTION_NUMBER)
			direct->number = optarg;
		else if (option == OPTION_EVERY)
			direct->every = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == OPTION_HOLD)
			direct->hold = true;
		else if (option == OPTION_MULTI)
			direct->multi = true;
		else if (option == OPTION_WHEN)
			direct->when = optarg;
		else
			exit(2);
	}
	if (optind == argc)
		exit(2);
	direct->text = argv[optind];
}

int main(int argc, char **argv)
{
	static struct direct direct;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));

	read_options(&direct, argc, argv);
	if (description_parse(direct.text, strlen(direct.text), &direct.description, &why) != 0 ||
	    record_build(&direct.description, (const char *const *)&argv[optind + 1], (size_t)(argc - optind - 1),
			 direct.payload, sizeof(direct.payload), &direct.size, &why) != 0) {
		fprintf(stderr, "direct: %s\n", sentence);
		return 2;
	}
	register_event(&direct);
	write_records(&direct);
	while (direct.hold)
		pause();
	return 0;
}
