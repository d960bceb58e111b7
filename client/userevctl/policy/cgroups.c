/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * policy check: a section that matches no cgroup is most often a misspelt one, or one for another cgroup driver. What is started
 * later may match it, so it is only warned of.
 */

#include "client/userevctl/policy/policy.h"

#include <dirent.h>

#include "daemon/identity/cgroup.h"

struct walk {
	const struct policy *policy;
	bool *matched; /* for each section */
	char directory[2 * PATH_MAX];
	size_t mount; /* bytes of the directory that the path of a cgroup has not */
};

/* The directory is the one of a cgroup; it is the same when this returns. What goes away meanwhile, or is too long, is left out. */
static void walk(struct walk *at, size_t length, unsigned depth)
{
	DIR *stream;
	const struct dirent *entry;

	policy_match(at->policy, length > at->mount ? at->directory + at->mount : "/", at->matched);
	stream = depth < POLICY_LEVELS_MAX ? opendir(at->directory) : NULL;
	while (stream && (entry = readdir(stream))) {
		size_t room = sizeof(at->directory) - length;
		int n;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		n = snprintf(at->directory + length, room, "/%s", entry->d_name);
		if ((size_t)n < room)
			walk(at, length + (size_t)n, depth + 1);
		at->directory[length] = '\0';
	}
	if (stream)
		closedir(stream);
}

static void warn(const struct policy_origin *section, struct problems *problems)
{
	char buffer[256];
	struct text shown = text_make(buffer, sizeof(buffer));

	text_excerpt(&shown, section->section, strlen(section->section));
	problems_add(problems, PROBLEM_WARNING, (struct place){ section->file, section->line, NULL },
		     "[%s]: no cgroup matches that here now; systemd-cgls shows those that there are", buffer);
}

int policy_check_cgroups(const struct policy *policy, struct problems *problems)
{
	size_t n = policy_count_sections(policy);
	_cleanup_(freep) bool *matched = calloc(n + 1, sizeof(*matched));
	struct cgroups cgroups;
	struct walk at = { .policy = policy, .matched = matched };

	if (!matched)
		return -ENOMEM;
	/* In a container's own view the paths are not those that the daemon sees. */
	if (cgroups_find(NULL, &cgroups) < 0 || !*cgroups.mount || !streq(cgroups.root, "/"))
		return 0;
	at.mount = strlen(cgroups.mount);
	string_copy(at.directory, sizeof(at.directory), cgroups.mount);
	walk(&at, at.mount, 0);
	for (size_t i = 0; i < n; i++)
		if (!matched[i])
			warn(policy_section_origin(policy, i), problems);
	return 0;
}
