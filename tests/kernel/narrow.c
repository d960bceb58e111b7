/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A 32-bit program with a data file as its fd 3: tries every ioctl by its 32-bit and 64-bit number, and writes a record of 4 bytes with
 * index 0. It writes the results to fd 4, as 32-bit numbers: 0 or an errno for an ioctl, the bytes written for the record.
 */

#include <sys/uio.h>

#include "kernel/uapi.h"

enum { DATA = 3, ANSWERS = 4 };

int main(int argc, char **argv)
{
	static uint64_t word;
	const char *text = argc > 1 ? argv[1] : "";
	struct uapi_register request = {
		.size = sizeof(request),
		.enable_size = 4,
		.enable_address = (uint64_t)(uintptr_t)&word,
		.description = (uint64_t)(uintptr_t)text,
	};
	struct uapi_unregister unregister = {
		.size = sizeof(unregister),
		.disable_address = (uint64_t)(uintptr_t)&word,
	};
	const struct {
		unsigned long command;
		const void *argument;
	} calls[] = {
		{ UAPI_IOCTL_REGISTER, &request },	  { 0xC0082A00, &request },
		{ UAPI_IOCTL_DELETE, "promise_no_such" }, { 0x40082A01, "promise_no_such" },
		{ UAPI_IOCTL_UNREGISTER, &unregister },	  { 0x40082A02, &unregister },
	};
	static const uint32_t record[] = { 0, 7 };
	int32_t answers[ARRAY_SIZE(calls) + 1];

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		answers[i] = ioctl(DATA, calls[i].command, calls[i].argument) < 0 ? errno : 0;
	answers[ARRAY_SIZE(calls)] = (int32_t)write(DATA, record, sizeof(record));
	return write(ANSWERS, answers, sizeof(answers)) == sizeof(answers) ? 0 : 1;
}
