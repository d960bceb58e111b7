/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* MetricsSocket=: sends the metrics to each connection, and closes it. */

#include "daemon/connection/listener.h"

LIST_HEAD(metrics_reader_list, metrics_reader);

struct metrics_socket {
	struct daemon *daemon;
	struct listener listener;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* a copy: a reload replaces the policy */
	struct metrics_reader_list readers;
	unsigned n_readers;
};

/* Listens at MetricsSocket=, if it is set. Logs an error; the daemon runs without the socket then. */
void metrics_socket_init(struct metrics_socket *, struct daemon *);
/* Safe on zeros. */
void metrics_socket_deinit(struct metrics_socket *);

/* Accepts waiting connections, if there is room. */
void metrics_socket_resume(struct metrics_socket *);
