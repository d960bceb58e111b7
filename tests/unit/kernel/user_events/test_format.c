/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "kernel/user_events/format.h"
#include "protocol/protocol.h"
#include "tests/suite.h"

/* The fields of all events. */
#define COMMON                                                                                                         \
	"name: event\nID: 1714\nformat:\n"                                                                             \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                                 \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

#define PRINT "\nprint fmt: \"\", REC->x\n"

#define X "\tfield:u32 x;\toffset:8;\tsize:4;\tsigned:0;\n"
#define Y "\tfield:u64 y;\toffset:12;\tsize:8;\tsigned:0;\n"

/* A directory that stands for tracefs. */
struct place {
	char path[64];
	int fd;
};

static void make(const struct place *place, const char *name)
{
	ck_assert_int_eq(mkdirat(place->fd, name, 0700), 0);
}

static struct place place_make(void)
{
	struct place place;

	make_temporary_directory(place.path, sizeof(place.path));
	place.fd = open(place.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(place.fd, 0);
	make(&place, "events");
	make(&place, "events/user_events");
	return place;
}

static void event_write(const struct place *place, const char *name, const char *text)
{
	char path[256 + 64];
	int fd;

	snprintf(path, sizeof(path), "events/user_events/%s", name);
	mkdirat(place->fd, path, 0700);
	snprintf(path, sizeof(path), "events/user_events/%s/format", name);
	fd = openat(place->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void event_remove(const struct place *place, const char *name)
{
	char path[256 + 64];

	snprintf(path, sizeof(path), "events/user_events/%s/format", name);
	unlinkat(place->fd, path, 0);
	unlinkat(place->fd, path, AT_REMOVEDIR);
	snprintf(path, sizeof(path), "events/user_events/%s", name);
	unlinkat(place->fd, path, AT_REMOVEDIR);
}

static void place_deinit(struct place *place)
{
	event_remove(place, "event");
	unlinkat(place->fd, "events/user_events", AT_REMOVEDIR);
	unlinkat(place->fd, "events", AT_REMOVEDIR);
	ck_assert_int_eq(rmdir(place->path), 0);
	close(place->fd);
}

#define PLACE(name) _cleanup_(place_deinit) struct place name = place_make()

static int compare(const struct place *place, const char *text, const char *description)
{
	event_write(place, "event", text);
	return format_compare(place->fd, description);
}

/* As Linux 6.12 writes it. */
#define OF_ALL_KINDS                                                                                                   \
	"\tfield:u32 x;\toffset:8;\tsize:4;\tsigned:0;\n"                                                              \
	"\tfield:s16 y;\toffset:12;\tsize:2;\tsigned:1;\n"                                                             \
	"\tfield:unsigned short us;\toffset:14;\tsize:2;\tsigned:0;\n"                                                 \
	"\tfield:__rel_loc char path[];\toffset:16;\tsize:4;\tsigned:1;\n"                                             \
	"\tfield:char name[];\toffset:20;\tsize:8;\tsigned:1;\n"                                                       \
	"\tfield:unsigned char raw[];\toffset:28;\tsize:3;\tsigned:0;\n"                                               \
	"\tfield:struct blob b;\toffset:31;\tsize:5;\tsigned:1;\n"                                                     \
	"\tfield:__data_loc char[] old;\toffset:36;\tsize:4;\tsigned:1;\n"                                             \
	"\tfield:__rel_loc unsigned char bytes[];\toffset:40;\tsize:4;\tsigned:1;\n"
#define ALL_KINDS                                                                                                      \
	"event u32 x; s16 y; unsigned short us; __rel_loc char[] path; char[8] name; unsigned char[3] raw; "           \
	"struct blob b 5; __data_loc char[] old; __rel_loc unsigned char[] bytes"

#define FIELD(type_and_name, offset, size, sign)                                                                       \
	"\tfield:" type_and_name ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #sign ";\n"

/* Linux 6.1 writes uninitialised memory between the brackets of an array. */
static const struct {
	const char *fields; /* between COMMON and PRINT */
	const char *description;
	int result;
} rows[] = {
	{ OF_ALL_KINDS, ALL_KINDS, FORMAT_SAME },
	{ FIELD("char name[11]", 8, 8, 1), "event char[8] name", FORMAT_SAME },
	{ FIELD("char name[9]", 8, 8, 1), "event char[9] name", FORMAT_OTHER },
	{ FIELD("__rel_loc char t[0]", 8, 4, 1), "event __rel_loc char[] t", FORMAT_SAME },
	{ FIELD("__rel_loc char t[]", 8, 4, 1), "event __rel_loc u8[] t", FORMAT_OTHER },
	{ FIELD("__data_loc char[] t", 8, 4, 1), "event __data_loc char[] t", FORMAT_SAME },
	{ FIELD("__data_loc char[] t", 8, 4, 1), "event __rel_loc char[] t", FORMAT_OTHER },
	{ FIELD("char c", 8, 1, 1), "event char[1] c", FORMAT_OTHER },
	{ FIELD("char c[1]", 8, 1, 1), "event char c", FORMAT_OTHER },
	{ FIELD("u32 xy", 8, 4, 0), "event u32 x", FORMAT_OTHER },
	{ X Y, "event u32 x; u64 y", FORMAT_SAME },
	{ X Y, "event u32 x", FORMAT_OTHER },
	{ X Y, "event u32 x; u64 y; u8 z", FORMAT_OTHER },
	{ X Y, "event u64 y; u32 x", FORMAT_OTHER },
	{ X Y, "event u32 x; u64 z", FORMAT_OTHER },
	{ X Y, "event u32 x; s64 y", FORMAT_OTHER },
	{ X Y, "event u32 x; u32 y", FORMAT_OTHER },
	{ X, "event u32 x; u64 y", FORMAT_OTHER },
	{ X FIELD("u64 y", 16, 8, 0), "event u32 x; u64 y", FORMAT_OTHER },
	{ X FIELD("u64 y", 12, 4, 0), "event u32 x; u64 y", FORMAT_OTHER },
	{ X FIELD("u64 y[]", 12, 8, 0), "event u32 x; u64 y", FORMAT_OTHER },
	{ "", "event", FORMAT_SAME },
	{ "", "event u32 x", FORMAT_OTHER },
	/* tracefs may be a file system of another kind. */
	{ "\tfield:u32 x;", "event u32 x", FORMAT_OTHER },
	{ "field:u32 x;\toffset:8;\tsize:4;\tsigned:0;\n", "event u32 x", FORMAT_OTHER },
	{ FIELD("%s%n%s", 8, 4, 0), "event u32 x", FORMAT_OTHER },
	{ FIELD("u32 x", 08, 4, 0), "event u32 x", FORMAT_OTHER },
	{ FIELD("u32 x", 8, 44, 0), "event u32 x", FORMAT_OTHER },
	{ FIELD("u32 x", 18, 4, 0), "event u32 x", FORMAT_OTHER },
	{ X X, "event u32 x", FORMAT_OTHER },
	{ " \n" X, "event u32 x", FORMAT_OTHER },
};

TEST(fields_are_compared_one_by_one)
{
	PLACE(place);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[2048];

		snprintf(text, sizeof(text), "%s%s%s", COMMON, rows[i].fields, PRINT);
		ck_assert_msg(compare(&place, text, rows[i].description) == rows[i].result, "%zu: %s", i,
			      rows[i].description);
	}
}

TEST(file_without_common_fields_is_another_event)
{
	static const char *const texts[] = { "", "\n", "no newline", X, "\n" Y PRINT, COMMON };
	PLACE(place);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		ck_assert_msg(compare(&place, texts[i], "event u32 x") == FORMAT_OTHER, "%zu", i);
	/* Truncated, it must not be taken for an event without fields. */
	ck_assert_int_eq(compare(&place, "name: event\nID: 1714\n", "event"), FORMAT_OTHER);
}

TEST(missing_event_is_none)
{
	PLACE(place);

	ck_assert_int_eq(format_compare(place.fd, "event u32 x"), FORMAT_NONE);
	event_write(&place, "event", COMMON X PRINT);
	ck_assert_int_eq(format_compare(place.fd, "event u32 x"), FORMAT_SAME);
	ck_assert_int_eq(format_compare(place.fd, "even u32 x"), FORMAT_NONE);
	ck_assert_int_eq(format_compare(place.fd, "event2 u32 x"), FORMAT_NONE);
	event_remove(&place, "event");
	ck_assert_int_eq(format_compare(place.fd, "event u32 x"), FORMAT_NONE);
}

TEST(longest_name_is_found)
{
	PLACE(place);
	char name[201], description[256];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	event_write(&place, name, COMMON X PRINT);
	snprintf(description, sizeof(description), "%s u32 x", name);
	ck_assert_int_eq(format_compare(place.fd, description), FORMAT_SAME);
	event_remove(&place, name);
}

/* A missing event would be registered. */
TEST(unreadable_format_is_an_error)
{
	PLACE(place);
	int fds = count_open_fds();

	make(&place, "events/user_events/event");
	ck_assert_int_eq(symlinkat("format", place.fd, "events/user_events/event/format"), 0);
	ck_assert_int_eq(format_compare(place.fd, "event u32 x"), -ELOOP);
	ck_assert_int_eq(unlinkat(place.fd, "events/user_events/event/format", 0), 0);
	make(&place, "events/user_events/event/format");
	ck_assert_int_eq(format_compare(place.fd, "event u32 x"), -EIO);
	ck_assert_int_eq(format_compare(place.fd, "event"), -EIO);
	ck_assert_int_eq(format_compare(-1, "event u32 x"), -EBADF);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(invalid_description_is_an_error)
{
	static const char *const bad[] = { "", "event long x", "../event u32 x", "event u32", "ev/ent u32 x" };
	PLACE(place);

	event_write(&place, "event", COMMON X PRINT);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(format_compare(place.fd, bad[i]), -EINVAL);
}

/* Its rest looks like a field. */
TEST(long_line_is_read_to_its_end)
{
	PLACE(place);
	char text[4096] = COMMON;

	memset(text + strlen(COMMON), 'x', 2047);
	memcpy(text + strlen(text), X PRINT, sizeof(X PRINT));
	ck_assert_int_eq(compare(&place, text, "event u32 x"), FORMAT_OTHER);
}
