/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Closing a socket to which somebody may have sent fds, without waiting for what the last close of those does. */

enum { DISPOSAL_MAX = 1024 }; /* that wait to be closed; whoever brings one more waits for room */

/*
 * Like fd_close(). Where the kernel does not refuse fds to their sender (transport_refuse_fds()), the socket is shut down at
 * once and closed by another thread.
 */
int disposal_close(int fd);
