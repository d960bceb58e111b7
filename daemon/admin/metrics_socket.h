/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* MetricsSocket=: whoever connects there gets the metrics, and then the end. Nothing is asked. */

#include "daemon/connection/listener.h"

struct daemon;
struct metrics_reader;
LIST_HEAD(metrics_reader_list, metrics_reader);

struct metrics_socket {
	struct listener listener;
	char *path; /* the policy may be another one soon */
	struct metrics_reader_list readers;
	unsigned n_readers;
};

/* Listens where the policy says so. Where that is not possible a line of the log says why, and nobody else has to suffer. */
void metrics_socket_init(struct metrics_socket *, struct daemon *);
/* Safe on zeros. */
void metrics_socket_deinit(struct metrics_socket *);

/* Takes who waits, if there is room. */
void metrics_socket_resume(struct metrics_socket *);
