/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * As systemd does it: files are read in the order of their names, whichever directory they are in; of files of the same name only
 * the one in the first directory; and a file that is empty or a link to /dev/null is a mask, which only hides the others.
 */

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/policy/build.h"
#include "protocol/base/array.h"
#include "protocol/base/suggest.h"

enum { FILE_BYTES_MAX = 1 << 20 }; /* twenty times 500 sections */

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

static int cannot_read(const char *path, int error, struct problems *problems)
{
	if (error == ENOMEM)
		return -ENOMEM;
	problems_add(problems, PROBLEM_ERROR, (struct policy_origin){ .file = path }, "cannot be read: %s",
		     error == EINVAL ? "it is no file" : strerror(error));
	return 0;
}

/* Adds its files, but for hidden files, editors' leftovers, and names that an earlier directory has. */
static int list_directory(const char *directory, struct names *names, struct problems *problems)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;
	int r = 0;

	if (!stream)
		return errno == ENOENT ? 0 : cannot_read(directory, errno, problems);
	while (r == 0 && (errno = 0, entry = readdir(stream))) {
		const char *name = entry->d_name, *suffix = strrchr(name, '.');
		bool wanted = name[0] != '.' && suffix && streq(suffix, ".conf");
		char **path;

		for (size_t i = 0; wanted && i < names->n; i++)
			wanted = !streq(base_name(names->path[i]), name);
		if (!wanted)
			continue;
		path = array_grow(names->path, names->n, sizeof(*path));
		names->path = path ? path : names->path;
		r = path && asprintf(&path[names->n], "%s/%s", directory, name) >= 0 ? 0 : -ENOMEM;
		names->n += r == 0;
	}
	if (r == 0 && errno != 0)
		r = cannot_read(directory, errno, problems);
	closedir(stream);
	return r;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

/* NULL: assignments in it are skipped. A section that is none gets a warning. */
static struct section *begin_section(struct policy *policy, char *name, struct policy_origin place,
				     struct problems *problems)
{
	if (name[0] == '/' || policy_section_kind(name) != POLICY_SECTION_CGROUPS)
		return policy_section(policy, name, place, problems);
	if (strncmp(name, "X-", 2) != 0)
		problems_add(problems, PROBLEM_UNKNOWN, place, "[%s]: there is no such section; %s",
			     excerpt_of(name).text,
			     edit_distance(name, "Daemon") <= 2
				     ? "did you mean [Daemon]?"
				     : "a pattern of cgroups begins with '/', such as [/system.slice/*], and an "
				       "event is [Event NAME]");
	return NULL;
}

void policy_load_text(struct policy *policy, const char *name, char *text, struct problems *problems)
{
	static const char mark[] = "\xef\xbb\xbf";
	struct policy_reader reader = { .at = strncmp(text, mark, strlen(mark)) == 0 ? text + strlen(mark) : text };
	struct section *section = NULL;
	bool begun = false;
	char *line;

	policy->n_files++;
	while (!policy->failed && (line = policy_read_line(&reader))) {
		struct policy_origin place = { .file = name, .line = reader.number };
		char *end = line + strlen(line) - 1, *value = strchr(line, '=');

		if (*line == '[' && *end == ']') {
			*end = '\0';
			begun = true;
			/* In the daemon a thread reads the files: the loop may be waiting for the processor. */
			sched_yield();
			section = begin_section(policy, policy_strip(line + 1), place, problems);
		} else if (*line == '[' || !value || value == line) {
			problems_add(problems, PROBLEM_ERROR, place,
				     "%s: write [Section] or Key=value, or # and a comment, on a line of its own",
				     excerpt_of(line).text);
		} else {
			*value++ = '\0';
			place.key = policy_strip(line);
			if (!begun)
				problems_add(problems, PROBLEM_ERROR, place,
					     "%s: stands in no section; begin one with [Daemon] or with a pattern of "
					     "cgroups",
					     excerpt_of(place.key).text);
			if (section)
				policy_assign(policy, section, place.key, policy_strip(value), place, problems);
		}
	}
}

/* --- a copy: these bytes, then the name and the text of each file, each with its NUL --- */

static const char copy_magic[] = "userevd-policy 2";

void policy_copy_deinit(struct policy_copy *copy)
{
	free(copy->bytes);
	*copy = (struct policy_copy){ 0 };
}

/* False: it is no copy. */
static bool copy_read(struct policy *policy, char *bytes, size_t size, struct problems *problems)
{
	if (size < sizeof(copy_magic) || memcmp(bytes, copy_magic, sizeof(copy_magic)) != 0 || bytes[size - 1])
		return false;
	for (char *name = bytes + sizeof(copy_magic), *text, *next; name < bytes + size; name = next) {
		text = name + strlen(name) + 1;
		if (text == bytes + size)
			return false;
		next = text + strlen(text) + 1;
		policy_load_text(policy, name, text, problems);
	}
	return true;
}

int policy_load_copy(struct policy_copy *copy, struct problems *problems, struct policy **ret)
{
	_cleanup_(policy_unrefp) struct policy *policy = policy_new();
	/* A memory stream that has failed leaves no bytes, and its fclose() succeeds. */
	char *bytes = policy && copy->bytes ? policy_allocate(policy, copy->size) : NULL;
	bool is_copy;

	if (!bytes)
		return -ENOMEM;
	is_copy = copy_read(policy, memcpy(bytes, copy->bytes, copy->size), copy->size, problems);
	if (!policy->failed)
		policy_check_sections(policy, problems);
	if (policy->failed || problems->failed)
		return -ENOMEM;
	/* Files with an error are not used at all. */
	if (!is_copy || problems->errors > 0)
		return POLICY_E_WRONG;
	policy->copy = *copy;
	*copy = (struct policy_copy){ 0 };
	*ret = steal_pointer(policy);
	return 0;
}

/* Adds the file's name and its text, unless the file is a mask. 0 or a negative errno. */
static int copy_put_file(FILE *copy, const char *path, struct problems *problems)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct stat status;
	ssize_t length;

	if (stat(path, &status) < 0)
		return -errno;
	/* No device is a policy file, and opening one may have effects. */
	if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
		return 0;
	if (!S_ISREG(status.st_mode))
		return S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
	text = malloc(FILE_BYTES_MAX + 2);
	if (!text)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* A regular file is read up to its end. */
	length = fd < 0 ? -1 : read(fd, text, FILE_BYTES_MAX + 1);
	if (length < 0)
		return -errno;
	if (length > FILE_BYTES_MAX)
		return -EFBIG;
	text[length] = '\0';
	if (strlen(text) < (size_t)length)
		problems_add(problems, PROBLEM_ERROR, (struct policy_origin){ .file = path },
			     "is no text: byte %zu is zero", strlen(text) + 1);
	else if (length > 0)
		fprintf(copy, "%s%c%s%c", path, '\0', text, '\0');
	return 0;
}

/* Each policy is made from a copy. */
int policy_load_files(char *const *files, size_t n, struct problems *problems, struct policy **ret)
{
	_cleanup_(policy_copy_deinit) struct policy_copy copy = { 0 };
	FILE *to = open_memstream(&copy.bytes, &copy.size);
	int r = 0;

	if (!to)
		return -ENOMEM;
	fwrite(copy_magic, sizeof(copy_magic), 1, to);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = copy_put_file(to, files[i], problems);
		if (r < 0)
			r = cannot_read(files[i], -r, problems);
	}
	if (ferror(to))
		r = -ENOMEM;
	if (fclose(to) != 0 || r < 0)
		return -ENOMEM;
	return policy_load_copy(&copy, problems, ret);
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

int policy_load(const char *directories, const char *root, struct problems *problems, struct policy **ret)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	int r = list_directories(directories, root, &names, problems);

	if (r < 0)
		return r;
	if (names.n > 0)
		qsort(names.path, names.n, sizeof(*names.path), compare_names);
	return policy_load_files(names.path, names.n, problems, ret);
}
