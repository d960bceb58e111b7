/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/process.h"

#include <stdio.h>

#include "daemon/identity/cgroup.h"

bool process_read(pid_t pid, struct process_status *ret)
{
	char text[4096];
	const char *ids, *uids;

	if (proc_read(pid, "status", text, sizeof(text)) < 0)
		return false;
	ids = strstr(text, "\nTgid:");
	uids = strstr(text, "\nUid:");
	return ids && uids && sscanf(text, "Name: %63[^\n]", ret->comm) == 1 &&
	       sscanf(ids, "\nTgid: %d", &ret->process) == 1 && (ids = strstr(ids, "\nPPid:")) &&
	       sscanf(ids, "\nPPid: %d", &ret->parent) == 1 && sscanf(uids, "\nUid: %*u %u", &ret->uid) == 1;
}
