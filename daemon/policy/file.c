/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The syntax of a policy file is that of systemd: sections, assignments, comments, and continuation after a backslash.
 *
 * So are the directories: files are read in the order of their names, whichever directory they are in; of files of the same name only
 * the one in the first directory; and a file that is empty or a link to /dev/null is a mask, which only hides the others.
 */

#include "daemon/policy/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "protocol/base/array.h"

enum { FILE_BYTES_MAX = 1 << 20 }; /* twenty times 500 sections */

char *policy_strip(char *text)
{
	static const char blanks[] = " \t\r";
	size_t length;

	text += strspn(text, blanks);
	length = strlen(text);
	while (length > 0 && strchr(blanks, text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

/* Continuations are moved up to the line that they continue: the text only gets shorter. */
char *policy_read_line(struct policy_reader *reader)
{
	char *whole = NULL, *end = NULL, *line;

	while ((line = strsep(&reader->at, "\n"))) {
		const char *first = line + strspn(line, " \t\r");
		size_t length = strlen(line), backslashes = 0;

		reader->lines++;
		if (*first == '#' || *first == ';' || (!*first && !whole))
			continue;
		if (!whole) {
			whole = end = line;
			reader->number = reader->lines;
		}
		memmove(end, line, length + 1);
		/* Lines of a file from Windows end with \r. */
		while (length > 0 && end[length - 1] == '\r')
			length--;
		while (backslashes < length && end[length - 1 - backslashes] == '\\')
			backslashes++;
		/* Each pair of backslashes is two bytes of the line; the last one of an odd number continues it. */
		if (backslashes % 2 == 0)
			break;
		end += length;
		end[-1] = ' ';
		*end = '\0';
	}
	return whole ? policy_strip(whole) : NULL;
}

void policy_files_deinit(struct policy_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(files->path[i]);
	free(files->path);
}

const char *policy_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *cannot_read(const char *path, int error, struct problems *problems)
{
	problems_add(problems, PROBLEM_ERROR, (struct policy_origin){ .file = path }, "cannot be read: %s",
		     error == EINVAL ? "it is no file" : strerror(error));
	return NULL;
}

/* Adds its files, but for hidden files, editors' leftovers, and names that an earlier directory has. */
static void list_directory(const char *directory, struct policy_files *files, struct problems *problems)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	if (!stream && errno != ENOENT)
		cannot_read(directory, errno, problems);
	while (stream && (errno = 0, entry = readdir(stream))) {
		const char *name = entry->d_name, *suffix = strrchr(name, '.');
		bool wanted = name[0] != '.' && suffix && streq(suffix, ".conf");
		char **path;

		for (size_t i = 0; wanted && i < files->n; i++)
			wanted = !streq(policy_file_name(files->path[i]), name);
		if (!wanted)
			continue;
		path = array_grow(files->path, files->n, sizeof(*path));
		files->path = path ? path : files->path;
		if (!path || asprintf(&path[files->n], "%s/%s", directory, name) < 0)
			break;
		files->n++;
	}
	if (stream && errno != 0)
		cannot_read(directory, errno, problems);
	if (stream)
		closedir(stream);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(policy_file_name(*(char *const *)a), policy_file_name(*(char *const *)b));
}

void policy_list_files(const char *directories, const char *root, struct problems *problems, struct policy_files *ret)
{
	for (size_t length; *directories; directories += length + (directories[length] == ':')) {
		char directory[4096];

		length = strcspn(directories, ":");
		if (length == 0)
			continue;
		if ((size_t)snprintf(directory, sizeof(directory), "%s%.*s", root ? root : "", (int)length,
				     directories) >= sizeof(directory))
			cannot_read(directory, ENAMETOOLONG, problems);
		else
			list_directory(directory, ret, problems);
	}
	if (ret->n > 0)
		qsort(ret->path, ret->n, sizeof(*ret->path), compare_names);
}

char *policy_read_file(const char *path, struct problems *problems)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct stat status;
	ssize_t length;

	if (stat(path, &status) < 0)
		return cannot_read(path, errno, problems);
	/* No device is a policy file, and opening one may have effects. */
	if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
		return NULL;
	if (!S_ISREG(status.st_mode))
		return cannot_read(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL, problems);
	text = malloc(FILE_BYTES_MAX + 2);
	fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	/* A regular file is read up to its end. */
	length = fd < 0 ? -1 : read(fd, text, FILE_BYTES_MAX + 1);
	if (length < 0 || length > FILE_BYTES_MAX)
		return cannot_read(path, length < 0 ? errno : EFBIG, problems);
	text[length] = '\0';
	if (strlen(text) < (size_t)length)
		problems_add(problems, PROBLEM_ERROR, (struct policy_origin){ .file = path },
			     "is no text: byte %zu is zero", strlen(text) + 1);
	return length > 0 && strlen(text) == (size_t)length ? steal_pointer(text) : NULL;
}
