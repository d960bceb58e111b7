/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * policy check: a section that matches no cgroup is most often misspelt, or for another cgroup driver. It is a warning, since a
 * cgroup that is made later may match it.
 */

#include "client/userevctl/policy/policy.h"

#include <fts.h>

#include "daemon/identity/cgroup.h"

void policy_check_cgroups(const struct policy *policy, struct problems *problems)
{
	size_t n = policy->sections.n;
	_cleanup_(freep) bool *matched = must(calloc(n + 1, sizeof(*matched)));
	struct cgroups cgroups;
	FTSENT *entry;
	FTS *tree;

	/* In a cgroup namespace, paths differ from those that the daemon sees. */
	if (cgroups_find(NULL, &cgroups) < 0 || !*cgroups.mount || !streq(cgroups.root, "/"))
		return;
	tree = fts_open((char *const[]){ cgroups.mount, NULL }, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	while (tree && (entry = fts_read(tree))) {
		const char *path = entry->fts_path + strlen(cgroups.mount);

		if (entry->fts_info != FTS_D)
			continue;
		path = *path ? path : "/";
		for (size_t i = 0; i < n; i++)
			matched[i] |= pattern_matches(&policy->sections.at[i]->pattern, path, path_depth(path));
		if (entry->fts_level == POLICY_LEVELS_MAX)
			fts_set(tree, entry, FTS_SKIP);
	}
	if (tree)
		fts_close(tree);
	for (size_t i = 0; i < n; i++) {
		const struct policy_origin *section = &policy->sections.at[i]->origin;

		if (!matched[i])
			problems_add(problems, PROBLEM_WARNING, (struct place){ section->file, section->line, NULL },
				     "[%s]: no cgroup matches that here now; systemd-cgls shows those that there are",
				     excerpt_of(section->section).text);
	}
}
