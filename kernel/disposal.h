/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Closes sockets to which clients may have sent fds, without waiting for the last close of these fds. */

enum { DISPOSAL_MAX = 1024 }; /* sockets that wait to be closed; for one more, the caller waits */

/*
 * Like fd_close(). If the kernel can't refuse fds (transport_refuse_fds()), shuts the socket down at once and has another thread close
 * it.
 */
int disposal_close(int fd);
