/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Text files of tracefs with names chosen by others: user_events_status, format files, saved_cmdlines. */

#include "client/userevctl/tracing/tracefs.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = as_text(data, size);
	struct cursor status = cursor_make(text, size);
	static struct event_format format; /* large */
	struct status_line line;
	char name[16];
	uint64_t number;

	while (text_next_status(&status, &line))
		require(line.length > 0 && line.name >= text && line.name + line.length <= text + size);
	text_read_format(text, &format);
	text_find_number(text, "max", &number);
	text_has_line(text, "total");
	if (text_find_command(text, 1, name, sizeof(name)))
		require(memchr(name, 0, sizeof(name)));
	text_instance_pid(text);
	return 0;
}
