/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/format.h"

#include <fcntl.h>
#include <stdio.h>

#include "protocol/event/description.h"

enum { COMMON_BYTES = 8 }; /* in front of each record's own fields */

/*
 * "\tfield:char name[8];\toffset:8;\tsize:8;\tsigned:1;": the kernel writes an array's brackets behind the name, except for
 * __data_loc. Linux 6.1 writes uninitialised memory between the brackets, so only the size is compared.
 */
static bool format_line_matches(const char *line, const struct field *field)
{
	const char *bracket = field->kind == FIELD_DATA_LOC ? NULL : memchr(field->type, '[', field->type_length);
	size_t before = bracket ? (size_t)(bracket - field->type) : field->type_length;
	char buffer[2 * WIRE_DESCRIPTION_MAX];

	snprintf(buffer, sizeof(buffer), "\tfield:%.*s %.*s%s", (int)before, field->type, (int)field->name_length,
		 field->name, bracket ? "[" : ";");
	if (strncmp(line, buffer, strlen(buffer)) != 0)
		return false;
	snprintf(buffer, sizeof(buffer), ";\toffset:%u;\tsize:%u;", COMMON_BYTES + field->offset, field->size);
	return strstr(line, buffer) != NULL;
}

/* Three paragraphs: fields of all events, the event's own fields, and how to print it. */
static bool format_file_matches(FILE *file, const struct description *description)
{
	char line[2048];
	size_t n = 0, paragraph = 0;

	while (paragraph < 2 && fgets(line, sizeof(line), file)) {
		if (streq(line, "\n"))
			paragraph++;
		else if (paragraph == 1 &&
			 (n == description->n_fields || !format_line_matches(line, &description->field[n++])))
			return false;
	}
	return paragraph > 0 && n == description->n_fields;
}

int format_compare(int tracefs, const char *canonical)
{
	static struct description description; /* large */
	char path[DESCRIPTION_NAME_MAX + 64];
	_cleanup_(fd_closep) int fd = -1;
	bool same, failed;
	FILE *file;

	if (description_parse_canonical(canonical, strlen(canonical), &description) != 0)
		return -EINVAL;
	snprintf(path, sizeof(path), "events/user_events/%.*s/format", (int)description.name_length, canonical);
	fd = openat(tracefs, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? FORMAT_NONE : -errno;
	file = fdopen(fd, "r");
	if (!file)
		return -errno;
	fd_steal(&fd);
	same = format_file_matches(file, &description);
	failed = ferror(file);
	fclose(file);
	if (failed)
		return -EIO;
	return same ? FORMAT_SAME : FORMAT_OTHER;
}
