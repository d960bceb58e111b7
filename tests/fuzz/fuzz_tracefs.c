/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Text files of tracefs with names chosen by others: user_events_status, format files, saved_cmdlines, hist files. */

#include "client/userevctl/tracing/hist_line.h"
#include "client/userevctl/tracing/tracefs.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = as_text(data, size), *status = as_text(data, size),
			      *format_text = as_text(data, size);
	static struct event_format format; /* large */
	static const struct hist_names names = { { "a", "b", "c" }, 2, 3 };
	struct buffer_stats stats;
	struct hist_line line;
	uint64_t lost;
	char command[64], *rest = status;
	const char *name;
	unsigned used_by;

	while ((name = text_next_status(&rest, &used_by)))
		require(*name && name >= status && name + strlen(name) <= status + size);
	if (text_read_format(format_text, &format) == 0)
		require(memchr(format.fields, 0, sizeof(format.fields)));
	if (hist_line_read(text, &names, &line))
		for (size_t i = 0; i < names.n; i++)
			require(line.at[i] >= text && line.at[i] + line.length[i] <= text + size);
	text_is_file_name(text);
	if (text_find_command(text, 1, command))
		require(memchr(command, 0, sizeof(command)));
	text_instance_pid(text);
	text_read_stats(text, &stats);
	text_read_snapshot(text, &lost);
	return 0;
}
