/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Texts of the kernel. user_events_status has a line for each event, `1:test # Used by ftrace perf other` with the
 * status page ABI and without the number since Linux 6.4, and then some sums. Programs choose the names, which have neither
 * blanks nor colons.
 */

#include "client/userevctl/tracing/tracefs.h"

#include <inttypes.h>
#include <stdio.h>

struct span {
	const char *at;
	size_t length;
};

/* Takes the text up to the first `end`, or all of it; `end` itself belongs to neither part. */
static struct span span_cut(struct span *rest, char end)
{
	const char *found = memchr(rest->at, end, rest->length);
	struct span taken = { rest->at, found ? (size_t)(found - rest->at) : rest->length };

	rest->length -= taken.length + (found ? 1 : 0);
	rest->at = found ? found + 1 : rest->at + taken.length;
	return taken;
}

static bool span_is(struct span span, const char *text)
{
	return strlen(text) == span.length && memcmp(text, span.at, span.length) == 0;
}

static bool span_begins(struct span span, const char *text)
{
	return strlen(text) <= span.length && memcmp(text, span.at, strlen(text)) == 0;
}

static bool span_is_number(struct span span)
{
	for (size_t i = 0; i < span.length; i++)
		if (span.at[i] < '0' || span.at[i] > '9')
			return false;
	return span.length > 0;
}

/* " ftrace perf": unknown users count as "other". */
static unsigned read_users(struct span rest)
{
	unsigned used_by = 0;

	while (rest.length > 0) {
		struct span word = span_cut(&rest, ' ');

		if (span_is(word, "ftrace"))
			used_by |= USED_BY_FTRACE;
		else if (span_is(word, "perf"))
			used_by |= USED_BY_PERF;
		else if (word.length > 0)
			used_by |= USED_BY_OTHER;
	}
	return used_by;
}

static bool read_status_line(struct span line, struct status_line *ret)
{
	static const char used[] = "# Used by ";
	struct span name = span_cut(&line, ' '), number;

	if (memchr(name.at, ':', name.length)) {
		number = span_cut(&name, ':');
		if (!span_is_number(number) || memchr(name.at, ':', name.length))
			return false;
	}
	if (name.length == 0 || (line.length > 0 && !span_begins(line, used)))
		return false;
	*ret = (struct status_line){ name.at, name.length, 0 };
	if (line.length > 0)
		ret->used_by = read_users((struct span){ line.at + strlen(used), line.length - strlen(used) });
	return true;
}

bool text_next_status(struct cursor *text, struct status_line *ret)
{
	struct span rest = { (const char *)text->at, text->left };
	bool found = false;

	while (!found && rest.length > 0)
		found = read_status_line(span_cut(&rest, '\n'), ret);
	*text = cursor_make(rest.at, rest.length);
	return found;
}

/* "offset:8;" of "\toffset:8;\tsize:4;". */
static bool span_find_number(struct span line, const char *key, uint64_t *ret)
{
	while (line.length > 0) {
		struct span part = span_cut(&line, ';');

		while (part.length > 0 && part.at[0] == '\t') {
			part.at++;
			part.length--;
		}
		if (!span_begins(part, key) || part.length == strlen(key))
			continue;
		*ret = strtoull(part.at + strlen(key), NULL, 10);
		return true;
	}
	return false;
}

/*
 * "char name[8]" is written as "char[8] name". The number in the brackets is not reliable: the kernel prints uninitialised
 * memory there. A field of fixed size has its size in the line; in the others the brackets are empty.
 */
static void text_put_field(struct text *fields, struct span declaration, uint64_t size)
{
	const char *space = memrchr(declaration.at, ' ', declaration.length);
	struct span type = { declaration.at, space ? (size_t)(space - declaration.at) : 0 };
	struct span name = { declaration.at + type.length + 1, space ? declaration.length - type.length - 1 : 0 };
	const char *bracket = name.length > 0 ? memchr(name.at, '[', name.length) : NULL;

	if (bracket)
		name.length = (size_t)(bracket - name.at);
	text_printf(fields, "%s%.*s", fields->length > 0 ? "; " : "", (int)type.length, type.at);
	if (bracket && (span_begins(type, "__rel_loc ") || span_begins(type, "__data_loc ")))
		text_printf(fields, "[]");
	else if (bracket)
		text_printf(fields, "[%" PRIu64 "]", size);
	text_printf(fields, " %.*s", (int)name.length, name.at);
	if (span_begins(type, "struct "))
		text_printf(fields, " %" PRIu64, size);
}

enum { COMMON_FIELDS_BYTES = 8 }; /* type, flags, preempt count and pid, at the beginning of each record */

/* One line; `end`: the end of the field before it. False: not a line of that form. */
static bool text_read_field(struct span line, struct text *fields, uint64_t *end, bool *exact)
{
	struct span declaration = span_cut(&line, ';');
	uint64_t offset, size;

	declaration.at += strlen("\tfield:");
	declaration.length -= strlen("\tfield:");
	if (!span_find_number(line, "offset:", &offset) || !span_find_number(line, "size:", &size) || size > UINT16_MAX)
		return false;
	if (offset < COMMON_FIELDS_BYTES)
		return true;
	/* A description has no offsets: it determines the layout only without gaps. */
	if (offset != *end)
		*exact = false;
	*end = offset + size;
	text_put_field(fields, declaration, size);
	return true;
}

int text_read_format(const char *text, struct event_format *ret)
{
	struct text fields = text_make(ret->fields, sizeof(ret->fields));
	uint64_t end = COMMON_FIELDS_BYTES, id;
	struct span rest = { text, strlen(text) };
	bool has_id = false;

	ret->exact = true;
	while (rest.length > 0) {
		struct span line = span_cut(&rest, '\n');

		if (span_begins(line, "print fmt:"))
			break;
		if (span_begins(line, "\tfield:") && !text_read_field(line, &fields, &end, &ret->exact))
			return -EBADMSG;
		if (!span_begins(line, "ID: "))
			continue;
		id = strtoull(line.at + strlen("ID: "), NULL, 10);
		has_id = id > 0 && id <= UINT16_MAX;
		ret->id = (uint16_t)id;
	}
	ret->exact = ret->exact && !fields.cut;
	return has_id ? 0 : -EBADMSG;
}

bool text_find_number(const char *text, const char *key, uint64_t *ret)
{
	struct span rest = { text, strlen(text) };

	while (rest.length > 0) {
		struct span line = span_cut(&rest, '\n');

		if (!span_begins(line, key) || line.length == strlen(key) || line.at[strlen(key)] != ':')
			continue;
		*ret = strtoull(line.at + strlen(key) + 1, NULL, 10);
		return true;
	}
	return false;
}

bool text_has_line(const char *text, const char *wanted)
{
	struct span rest = { text, strlen(text) };

	while (rest.length > 0)
		if (span_is(span_cut(&rest, '\n'), wanted))
			return true;
	return false;
}

bool text_find_command(const char *text, uint64_t pid, char *ret, size_t size)
{
	struct span rest = { text, strlen(text) };

	while (rest.length > 0) {
		struct span line = span_cut(&rest, '\n'), number = span_cut(&line, ' ');
		struct text command;

		if (!span_is_number(number) || strtoull(number.at, NULL, 10) != pid || line.length == 0)
			continue;
		command = text_make(ret, size);
		text_put(&command, line.at, line.length);
		return true;
	}
	return false;
}

uint64_t text_instance_pid(const char *name)
{
	static const char prefix[] = "userevctl-";
	struct span number = { name, strlen(name) };

	if (!span_begins(number, prefix))
		return 0;
	number.at += strlen(prefix);
	number.length -= strlen(prefix);
	return span_is_number(number) && number.length < 10 ? strtoull(number.at, NULL, 10) : 0;
}
