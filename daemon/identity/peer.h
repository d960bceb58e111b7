/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The process at the other end of a connection. */

#include <sys/types.h>

#include "daemon/identity/cgroup.h"

struct peer {
	pid_t pid; /* for logs only, since it may be reused */
	uid_t uid; /* effective, at connect() */
	bool may_be_root; /* its user namespace contains uid 0 of the host, so it or its children may become root; or that was not asked for */
	struct cgroup *cgroup; /* NULL: an admin's */
	char comm[16];	       /* "": not read yet */
	bool has_asked;	       /* its first request was there when its connection was accepted */
};

enum {
	PEER_E_GONE = 1,    /* it exited before the daemon could look */
	PEER_E_HIDDEN = 2,  /* the daemon cannot see it: a pid namespace, or hidepid= */
	PEER_E_NOWHERE = 3, /* it is in no known cgroup: a v1 machine without systemd */
};

/*
 * 0, one of the above, or a negative errno (-EMFILE, -ENFILE, -ENOMEM: try again later). `ret` is untouched unless 0.
 * `ask_for_root`: fill `may_be_root`, which costs a file of /proc.
 */
int peer_identify(int socket, struct cgroups *, bool ask_for_root, struct peer *ret);
/* An admin needs no tenant, and is served even if /proc hides it: it may want to find out why. 0 or a negative errno. */
int peer_identify_admin(int socket, struct peer *ret);

/* Whether /proc is mounted, and is that of the daemon's pid namespace: in another namespace the same pid is a different process. */
bool peer_can_be_looked_up(void);

/* Whether the text of a uid_map maps uid 0 of the reader's user namespace, or may do so later. */
bool peer_map_has_root(const char *uid_map);

/*
 * The name of the command at the other end of the socket; "unknown": it can't be read, or the process has exited. A negative errno: out
 * of memory, or of fds.
 */
int peer_comm(int socket, pid_t pid, char *ret, size_t size);
