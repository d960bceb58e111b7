/* SPDX-License-Identifier: GPL-2.0-or-later */

/* /proc/PID/cgroup, with names chosen by clients: the result is a path, and the tenant is a prefix of it. */

#include "daemon/identity/cgroup.h"
#include "tests/fuzz/fuzz.h"

static enum policy_tenant every_third(void *data, const char *path)
{
	unsigned *asked = data;

	require(*path == '/');
	return ++*asked % 3 == 0 ? POLICY_TENANT_YES : POLICY_TENANT_UNSET;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = as_text(data, size);
	char path[PATH_MAX], whole[PATH_MAX];

	for (unsigned v1 = 0; v1 < 2; v1++) {
		struct cgroups cgroups = { .controller = "" };
		unsigned asked = 0;

		if (v1)
			string_copy(cgroups.controller, sizeof(cgroups.controller), "name=systemd");
		if (cgroup_parse(&cgroups, text, path, sizeof(path)) < 0)
			continue;
		require(*path == '/' && memchr(path, 0, sizeof(path)) && !strchr(path, '\n'));
		string_copy(whole, sizeof(whole), path);
		cgroup_cut_to_tenant(&(struct cgroups){ 0 }, path, every_third, &asked);
		require(*path == '/' && strncmp(whole, path, strlen(path)) == 0);
	}
	return 0;
}
