/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Texts of the kernel. user_events_status has a line for each event, `1:test # Used by ftrace perf other` with the
 * status page ABI and without the number since Linux 6.4, and then some sums. Programs choose the names, which have neither
 * blanks nor colons.
 */

#include <inttypes.h>
#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/number.h"

const char *const user_names[USERS] = { "ftrace", "perf", "other" };

char *text_next_status(char **text, unsigned *ret_used_by)
{
	static const char used[] = "# Used by ";
	char *line;

	while ((line = strsep(text, "\n"))) {
		char *name = strsep(&line, " "), *colon = strchr(name, ':');
		uint64_t number;

		if (colon && number_parse(name, (size_t)(colon - name), UINT64_MAX, &number) != NUMBER_GOOD)
			continue;
		name = colon ? colon + 1 : name;
		if (!*name || strchr(name, ':') || (line && strncmp(line, used, strlen(used)) != 0))
			continue;
		*ret_used_by = 0;
		for (char *users = line ? line + strlen(used) : NULL, *word; (word = strsep(&users, " "));) {
			unsigned user = 0;

			/* Unknown users count as "other". */
			while (user + 1 < USERS && !streq(word, user_names[user]))
				user++;
			if (*word)
				*ret_used_by |= 1U << user;
		}
		return name;
	}
	return NULL;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

enum { COMMON_FIELDS_BYTES = 8 }; /* type, flags, preempt count and pid, at the beginning of each record */

int text_read_format(char *text, struct event_format *ret)
{
	static const char field[] = "\tfield:";
	struct text fields = text_make(ret->fields, sizeof(ret->fields));
	unsigned offset, size;
	char *line;

	ret->id = 0;
	while ((line = strsep(&text, "\n")) && !begins(line, "print fmt:")) {
		char *declaration = strsep(&line, ";"), *space = strrchr(declaration, ' '),
		     *bracket = space ? strchr(space, '[') : NULL;

		sscanf(declaration, "ID: %u", &ret->id);
		if (!begins(declaration, field))
			continue;
		if (!line || sscanf(line, "\toffset:%u;\tsize:%u;", &offset, &size) != 2 || size > UINT16_MAX)
			return -EBADMSG;
		/* The event's own fields follow each other without gaps. */
		if (offset < COMMON_FIELDS_BYTES)
			continue;
		/*
		 * "char name[8]" is written as "char[8] name". The number in the brackets is not reliable: the kernel prints
		 * uninitialised memory there. A field of fixed size has its size in the line; in the others the brackets are empty.
		 */
		declaration += strlen(field);
		if (space)
			*space = '\0';
		if (bracket)
			*bracket = '\0';
		text_printf(&fields, "%s%s", fields.length > 0 ? "; " : "", declaration);
		if (bracket && (begins(declaration, "__rel_loc ") || begins(declaration, "__data_loc ")))
			text_printf(&fields, "[]");
		else if (bracket)
			text_printf(&fields, "[%u]", size);
		text_printf(&fields, " %s", space ? space + 1 : "");
		if (begins(declaration, "struct "))
			text_printf(&fields, " %u", size);
	}
	ret->complete = !fields.cut;
	return ret->id > 0 && ret->id <= UINT16_MAX ? 0 : -EBADMSG;
}

bool text_is_file_name(const char *name)
{
	return name[0] && !strchr(name, '/') && !streq(name, ".") && !streq(name, "..");
}

bool text_find_command(char *text, uint64_t pid, char ret[static 64])
{
	uint64_t number;

	for (const char *line; (line = strsep(&text, "\n"));)
		if (sscanf(line, "%" SCNu64 "%*1[ ]%63[^\n]", &number, ret) == 2 && number == pid)
			return true;
	*ret = '\0';
	return false;
}

pid_t text_instance_pid(const char *name)
{
	pid_t pid;
	char more;

	return sscanf(name, "userevctl-%9d%c", &pid, &more) == 1 ? MAX(pid, 0) : 0;
}

void text_read_stats(const char *text, struct buffer_stats *ret)
{
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		sscanf(line, "entries: %" SCNu64, &ret->entries);
		sscanf(line, "overrun: %" SCNu64, &ret->overrun);
		sscanf(line, "dropped events: %" SCNu64, &ret->dropped);
	}
}

bool text_read_snapshot(const char *text, uint64_t *ret_lost)
{
	const char *line = text;
	uint64_t left, written;

	*ret_lost = 0;
	for (; *line == '#' || *line == '\n'; line += strcspn(line, "\n"), line += *line == '\n')
		if (sscanf(line, "# entries-in-buffer/entries-written: %" SCNu64 "/%" SCNu64, &left, &written) == 2)
			*ret_lost = written - MIN(left, written);
	return *line;
}
