/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Which files there are, and what stands in them. As systemd does it: files are read in the order of their names, whichever
 * directory they are in; of the same name only the one in the first directory; and one that is empty or a link to /dev/null is a
 * mask, which only hides the others.
 */

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/policy/build.h"
#include "daemon/policy/file.h"
#include "protocol/base/suggest.h"

enum { FILE_BYTES_MAX = 1 << 20 }; /* 500 sections are a twentieth of it */

struct names {
	char **path;
	size_t n;
};

static void names_deinit(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->path[i]);
	free(names->path);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_hidden(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (streq(base_name(names->path[i]), name))
			return true;
	return false;
}

static int add_name(struct names *names, const char *directory, const char *name)
{
	char **path = reallocarray(names->path, names->n + 1, sizeof(*path));

	if (!path)
		return -ENOMEM;
	names->path = path;
	if (asprintf(&path[names->n], "%s/%s", directory, name) < 0)
		return -ENOMEM;
	names->n++;
	return 0;
}

/* An editor's leftovers and hidden files are none. */
static bool is_wanted(const char *name)
{
	const char *suffix = strrchr(name, '.');

	return name[0] != '.' && suffix && streq(suffix, ".conf");
}

static int cannot_read(const char *path, int error, struct problems *problems)
{
	if (error == ENOMEM)
		return -ENOMEM;
	problems_add(problems, PROBLEM_ERROR, (struct place){ .file = path }, "cannot be read: %s",
		     error == EINVAL ? "it is no file" : strerror(error));
	return 0;
}

static int list_directory(const char *directory, struct names *names, struct problems *problems)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;
	int r = 0;

	if (!stream)
		return errno == ENOENT ? 0 : cannot_read(directory, errno, problems);
	while (r == 0 && (errno = 0, entry = readdir(stream)))
		if (is_wanted(entry->d_name) && !is_hidden(names, entry->d_name))
			r = add_name(names, directory, entry->d_name);
	if (r == 0 && errno != 0)
		r = cannot_read(directory, errno, problems);
	closedir(stream);
	return r;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

/* Above 0 while there is a file that says something; 0 for a mask; or a negative errno. */
static int open_file(const char *path, int *ret)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return -errno;
	/* Whichever device it is: none of them is a policy, and to open one may do something. */
	if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) || (S_ISREG(status.st_mode) && status.st_size == 0))
		return 0;
	if (!S_ISREG(status.st_mode))
		return S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
	*ret = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return *ret < 0 ? -errno : 1;
}

/* All of it, and a NUL. */
static int read_all(int fd, char **ret, size_t *ret_length)
{
	_cleanup_(freep) char *text = malloc(FILE_BYTES_MAX + 2);
	size_t length = 0;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	while (length <= FILE_BYTES_MAX && (n = read(fd, text + length, FILE_BYTES_MAX + 1 - length)) != 0) {
		if (n < 0)
			return -errno;
		length += (size_t)n;
	}
	if (length > FILE_BYTES_MAX)
		return -EFBIG;
	text[length] = '\0';
	*ret = steal_pointer(text);
	*ret_length = length;
	return 0;
}

/* What is being read. */
struct reading {
	struct policy *policy;
	struct problems *problems;
	const char *file;
	struct section *section; /* NULL: assignments are passed over */
	bool begun;		 /* there was a section */
};

static void warn_of_section(const struct reading *reading, const struct policy_line *line, struct place place)
{
	struct suggestions suggestions = { .wanted = line->name };
	char buffer[256];
	struct text shown = text_make(buffer, sizeof(buffer));

	text_excerpt(&shown, line->name, strlen(line->name));
	suggest(&suggestions, "Daemon", strlen("Daemon"));
	if (suggestions_nearest(&suggestions))
		problems_add(reading->problems, PROBLEM_UNKNOWN, place,
			     "[%s]: there is no such section; did you mean [Daemon]?", buffer);
	else
		problems_add(reading->problems, PROBLEM_UNKNOWN, place,
			     "[%s]: there is no such section; a pattern of cgroups begins with '/', such as "
			     "[/system.slice/*], and an event is [Event NAME]",
			     buffer);
}

static int begin_section(struct reading *reading, const struct policy_line *line, struct place place)
{
	int r;

	reading->begun = true;
	reading->section = NULL;
	if (line->name[0] != '/' && policy_section_kind(line->name) == POLICY_SECTION_CGROUPS) {
		if (strncmp(line->name, "X-", 2) != 0)
			warn_of_section(reading, line, place);
		return 0;
	}
	/* In the daemon this is a thread that nobody waits for, while others wait for the processor. */
	sched_yield();
	r = policy_section(reading->policy, line->name, place, reading->problems, &reading->section);
	return MIN(r, 0);
}

/* What is wrong, with the beginning of the line or the key. */
static int refuse_line(struct reading *reading, struct place place, const char *excerpt, const char *why)
{
	char buffer[256];
	struct text shown = text_make(buffer, sizeof(buffer));

	text_excerpt(&shown, excerpt, strlen(excerpt));
	problems_add(reading->problems, PROBLEM_ERROR, place, "%s: %s", buffer, why);
	return 0;
}

static int take_line(struct reading *reading, const struct policy_line *line)
{
	struct place place = { .file = reading->file, .line = line->number };

	if (line->kind == LINE_SECTION)
		return begin_section(reading, line, place);
	if (line->kind == LINE_WRONG)
		return refuse_line(reading, place, line->name, line->wrong);
	place.key = line->name;
	if (!reading->begun)
		return refuse_line(reading, place, line->name,
				   "stands in no section; begin one with [Daemon] or with a pattern of cgroups");
	if (!reading->section)
		return 0;
	return policy_assign(reading->policy, reading->section, line->name, line->value, place, reading->problems);
}

static int read_text(struct reading *reading, char *text, size_t length)
{
	struct policy_reader reader = policy_reader_make(text, length);
	const char *nul = memchr(text, '\0', length);
	struct policy_line line;
	int r = 0;

	if (nul) {
		problems_add(reading->problems, PROBLEM_ERROR, (struct place){ .file = reading->file },
			     "is no text: byte %zu is zero", (size_t)(nul - text) + 1);
		return 0;
	}
	while (r == 0 && policy_reader_next(&reader, &line))
		r = take_line(reading, &line);
	return r;
}

int policy_load_text(struct policy *policy, const char *name, char *text, size_t length, struct problems *problems)
{
	struct reading reading = { .policy = policy, .problems = problems, .file = policy_add_file(policy, name) };

	return reading.file ? read_text(&reading, text, length) : -ENOMEM;
}

/*
 * --- a copy ---
 *
 * "userevd-policy 1", then for each file its length and name on a line of their own, its bytes, and a newline.
 */

static const char copy_magic[] = "userevd-policy 1\n";

void policy_copy_deinit(struct policy_copy *copy)
{
	free(copy->bytes);
	*copy = (struct policy_copy){ 0 };
}

static int copy_put(struct policy_copy *copy, const char *bytes, size_t size)
{
	char *grown = realloc(copy->bytes, copy->size + size);

	if (!grown)
		return -ENOMEM;
	memcpy(grown + copy->size, bytes, size);
	copy->bytes = grown;
	copy->size += size;
	return 0;
}

/* A name with a newline in it would be two lines: such a file goes by a name that has none. */
static int copy_file(struct policy_copy *copy, const char *path, const char *text, size_t length)
{
	char head[4200];
	int size = snprintf(head, sizeof(head), "%zu %s\n", length, strchr(path, '\n') ? "a file" : path);
	int r = (size_t)size < sizeof(head) ? copy_put(copy, head, (size_t)size) : -ENOMEM;

	if (r == 0)
		r = copy_put(copy, text, length);
	return r == 0 ? copy_put(copy, "\n", 1) : r;
}

/* The next file of a copy, cut out of it; false where that is not all there. */
static bool next_of_copy(char **at, const char *end, char **ret_name, char **ret_text, size_t *ret_length)
{
	char *newline = memchr(*at, '\n', (size_t)(end - *at)), *name;

	if (!newline || **at < '0' || **at > '9')
		return false;
	*newline = '\0';
	errno = 0;
	*ret_length = strtoul(*at, &name, 10);
	*ret_text = newline + 1;
	if (errno || *name != ' ' || *ret_length >= (size_t)(end - *ret_text) || (*ret_text)[*ret_length] != '\n')
		return false;
	(*ret_text)[*ret_length] = '\0';
	*ret_name = name + 1;
	*at = *ret_text + *ret_length + 1;
	return true;
}

static int read_copy(struct policy *policy, char *bytes, size_t size, struct problems *problems)
{
	char *at = bytes + strlen(copy_magic), *name, *text;
	size_t length;
	int r = 0;

	if (size < strlen(copy_magic) || memcmp(bytes, copy_magic, strlen(copy_magic)) != 0)
		return POLICY_E_WRONG;
	while (r == 0 && at < bytes + size)
		r = next_of_copy(&at, bytes + size, &name, &text, &length)
			    ? policy_load_text(policy, name, text, length, problems)
			    : POLICY_E_WRONG;
	return r;
}

/* Nothing of what has errors is used. */
static int finish(int r, struct policy **policy, struct problems *problems, struct policy **ret)
{
	if (r == 0)
		policy_check_sections(*policy, problems);
	if (r < 0 || problems->failed)
		return -ENOMEM;
	if (r > 0 || problems->errors > 0)
		return POLICY_E_WRONG;
	*ret = steal_pointer(*policy);
	return 0;
}

int policy_load_copy(const struct policy_copy *copy, struct problems *problems, struct policy **ret)
{
	_cleanup_(policy_unrefp) struct policy *policy = policy_new();
	_cleanup_(freep) char *bytes = malloc(copy->size + 1);

	if (!policy || !bytes)
		return -ENOMEM;
	memcpy(bytes, copy->bytes, copy->size);
	return finish(read_copy(policy, bytes, copy->size, problems), &policy, problems, ret);
}

/* --- files --- */

/* 0 or -ENOMEM. */
static int read_file(struct policy *policy, const char *path, struct problems *problems, struct policy_copy *copy)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *text = NULL;
	size_t length = 0;
	int r = open_file(path, &fd);

	if (r == 0)
		return 0;
	if (r > 0)
		r = read_all(fd, &text, &length);
	if (!text)
		return cannot_read(path, -r, problems);
	r = copy ? copy_file(copy, path, text, length) : 0;
	return r == 0 ? policy_load_text(policy, path, text, length, problems) : r;
}

static int load_files(char *const *files, size_t n, struct problems *problems, struct policy_copy *copy,
		      struct policy **ret)
{
	_cleanup_(policy_unrefp) struct policy *policy = policy_new();
	int r = policy ? 0 : -ENOMEM;

	if (r == 0 && copy)
		r = copy_put(copy, copy_magic, strlen(copy_magic));
	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_file(policy, files[i], problems, copy);
	return finish(r, &policy, problems, ret);
}

int policy_load_files(char *const *files, size_t n, struct problems *problems, struct policy **ret)
{
	return load_files(files, n, problems, NULL, ret);
}

static int list_directories(const char *directories, const char *root, struct names *names, struct problems *problems)
{
	int r = 0;

	for (size_t length; r == 0 && *directories; directories += length + (directories[length] == ':')) {
		char directory[4096];

		length = strcspn(directories, ":");
		if (length == 0)
			continue;
		if ((size_t)snprintf(directory, sizeof(directory), "%s%.*s", root ? root : "", (int)length,
				     directories) >= sizeof(directory))
			r = cannot_read(directory, ENAMETOOLONG, problems);
		else
			r = list_directory(directory, names, problems);
	}
	return r;
}

int policy_load_copying(const char *directories, const char *root, struct problems *problems,
			struct policy_copy *ret_copy, struct policy **ret)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	int r = list_directories(directories, root, &names, problems);

	if (r < 0)
		return r;
	if (names.n > 0)
		qsort(names.path, names.n, sizeof(*names.path), compare_names);
	return load_files(names.path, names.n, problems, ret_copy, ret);
}

int policy_load(const char *directories, const char *root, struct problems *problems, struct policy **ret)
{
	return policy_load_copying(directories, root, problems, NULL, ret);
}
