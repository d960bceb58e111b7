/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What tracefs says in text, where others choose the names: user_events_status, format files, saved_cmdlines. */

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

	while (status_text_next(&status, &line))
		require(line.length > 0 && line.name >= text && line.name + line.length <= text + size);
	event_format_parse(text, &format);
	text_find_number(text, "max", &number);
	text_has_line(text, "total");
	if (cmdlines_find(text, 1, name, sizeof(name)))
		require(memchr(name, 0, sizeof(name)));
	instance_name_pid(text);
	return 0;
}
