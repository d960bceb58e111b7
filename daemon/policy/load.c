/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Files become a policy, by way of a copy of them all. */

#include <sched.h>
#include <stdio.h>

#include "daemon/policy/build.h"
#include "protocol/base/suggest.h"

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

/* Each policy is made from a copy. */
int policy_load_files(char *const *files, size_t n, struct problems *problems, struct policy **ret)
{
	_cleanup_(policy_copy_deinit) struct policy_copy copy = { 0 };
	FILE *to = open_memstream(&copy.bytes, &copy.size);
	bool failed;

	if (!to)
		return -ENOMEM;
	fwrite(copy_magic, sizeof(copy_magic), 1, to);
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *text = policy_read_file(files[i], problems);

		if (text)
			fprintf(to, "%s%c%s%c", files[i], '\0', text, '\0');
	}
	failed = ferror(to);
	if (fclose(to) != 0 || failed)
		return -ENOMEM;
	return policy_load_copy(&copy, problems, ret);
}

int policy_load(const char *directories, const char *root, struct problems *problems, struct policy **ret)
{
	_cleanup_(policy_files_deinit) struct policy_files files = { 0 };

	policy_list_files(directories, root, problems, &files);
	return policy_load_files(files.path, files.n, problems, ret);
}
