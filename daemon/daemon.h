/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Owns everything; start and stop order in one place. */

#include <ev.h>

#include "daemon/admin/metrics_socket.h"
#include "daemon/admin/reload.h"
#include "daemon/connection/client.h"
#include "daemon/connection/listener.h"
#include "daemon/options.h"
#include "daemon/process/systemd.h"
#include "daemon/process/unprivileged.h"
#include "daemon/registry/registry.h"
#include "kernel/probe.h"

struct daemon {
	struct options options;
	struct ev_loop *loop;
	struct probe probe;
	pid_t keeper;	      /* the keeper that we have started; 0: none */
	double keeper_came;   /* in the place of another; clock_now() */
	char pages[PATH_MAX]; /* the directory of ours that they are in; "": none */
	struct user user;     /* at first root, later this one */
	struct janitor janitor;
	double started; /* clock_now() */

	struct registry registry;
	struct connections connections;

	struct systemd_sockets handed_over; /* until they are listeners */
	struct listener client_listeners[CLIENT_LISTENERS_MAX];
	size_t n_client_listeners;
	struct listener control_listener;
	struct metrics_socket metrics;
	struct systemd systemd;
	struct reload reload;
	uint64_t records_told; /* of the ring, sent to admins that tail */

	ev_io w_kernel;
	ev_timer w_succession; /* while there is no keeper */
	ev_timer w_stalled;    /* while too many fds are in flight for the keeper to get one */
	ev_signal w_signals[3];
};

/* 0; POLICY_E_WRONG, or a negative errno, after a line in the log; nothing is left behind then. */
int daemon_new(const struct options *, struct daemon **ret);
/* Until a signal ends it: 0, or a negative errno. */
int daemon_run(struct daemon *);
struct daemon *daemon_free(struct daemon *);

static inline struct daemon *daemon_of(const struct client *client)
{
	return container_of(client->connections, struct daemon, connections);
}
