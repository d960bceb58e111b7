/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * policy check: a section that matches no cgroup is most often misspelt, or for another cgroup driver. It is a warning, since a
 * cgroup that is made later may match it.
 */

#include "client/userevctl/policy/policy.h"

#include <dirent.h>

#include "daemon/identity/cgroup.h"

struct walk {
	const struct policy *policy;
	bool *matched; /* for each section */
	char directory[2 * PATH_MAX];
	size_t mount; /* bytes of the directory before the path of the cgroup */
};

/* at->directory is a cgroup's, before and after the call. Cgroups that are removed meanwhile, and paths that are too long, are skipped. */
static void cgroups_walk(struct walk *at, size_t length, unsigned depth)
{
	const struct dirent *entry;
	const char *path;
	DIR *stream;

	path = length > at->mount ? at->directory + at->mount : "/";
	for (size_t i = 0; i < at->policy->sections.n; i++)
		at->matched[i] |= pattern_matches(&at->policy->sections.at[i]->pattern, path, path_depth(path));
	stream = depth < POLICY_LEVELS_MAX ? opendir(at->directory) : NULL;
	while (stream && (entry = readdir(stream))) {
		size_t room = sizeof(at->directory) - length;
		int n;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		n = snprintf(at->directory + length, room, "/%s", entry->d_name);
		if ((size_t)n < room)
			cgroups_walk(at, length + (size_t)n, depth + 1);
		at->directory[length] = '\0';
	}
	if (stream)
		closedir(stream);
}

void policy_check_cgroups(const struct policy *policy, struct problems *problems)
{
	size_t n = policy->sections.n;
	_cleanup_(freep) bool *matched = must(calloc(n + 1, sizeof(*matched)));
	struct cgroups cgroups;
	struct walk at = { .policy = policy, .matched = matched };

	/* In a cgroup namespace, paths differ from those that the daemon sees. */
	if (cgroups_find(NULL, &cgroups) < 0 || !*cgroups.mount || !streq(cgroups.root, "/"))
		return;
	at.mount = strlen(cgroups.mount);
	string_copy(at.directory, sizeof(at.directory), cgroups.mount);
	cgroups_walk(&at, at.mount, 0);
	for (size_t i = 0; i < n; i++) {
		const struct policy_origin *section = &policy->sections.at[i]->origin;

		if (!matched[i])
			problems_add(problems, PROBLEM_WARNING, (struct place){ section->file, section->line, NULL },
				     "[%s]: no cgroup matches that here now; systemd-cgls shows those that there are",
				     excerpt_of(section->section).text);
	}
}
