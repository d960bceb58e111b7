/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Who is at the other end of a connection. */

#include <limits.h>
#include <sys/types.h>

#include "daemon/identity/cgroup.h"

struct peer {
	pid_t pid; /* of whoever connected; for people to read, never to decide by */
	uid_t uid; /* effective, when it connected */
	bool may_be_root; /* its user namespace has the uid 0 of ours: as root, in its children, or by a set-user-ID program; or nobody asked */
	char comm[16];
	char cgroup[PATH_MAX];
};

enum {
	PEER_E_GONE = 1,    /* it ended before we could look */
	PEER_E_HIDDEN = 2,  /* we are not allowed, or not able, to see it: a pid namespace, hidepid= */
	PEER_E_NOWHERE = 3, /* it is in no cgroup that we know: a v1 machine without systemd */
};

/*
 * 0, one of the above, or a negative errno (-EMFILE, -ENFILE, -ENOMEM: try again later). `ret` is untouched unless 0.
 * `ask_for_root`: whether it matters that it may be root, which costs a file of /proc.
 */
int peer_identify(int socket, const struct cgroups *, bool ask_for_root, struct peer *ret);
/*
 * Who may open the admins' socket needs no tenant, and is served although it can't be seen: it may have come to ask why
 * nobody else is. 0, or a negative errno.
 */
int peer_identify_admin(int socket, struct peer *ret);

/* Whether /proc is there, and has the pids that we know; in that of another pid namespace each would be somebody else's. */
bool peer_can_be_looked_up(void);

/* Whether the text of a uid_map has the uid 0 of the reader's user namespace, or may get it. */
bool peer_map_has_root(const char *uid_map);

/* The command's name, "unknown" where it can't be read. */
void peer_comm(pid_t pid, char *ret, size_t size);
