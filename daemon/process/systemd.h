/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Sockets from systemd, and notifications to it. Without systemd all of this does nothing. */

#include <ev.h>

#include "daemon/limits.h"
#include "protocol/base/base.h"

/* Listening sockets that systemd has bound, and removes. */
struct systemd_sockets {
	int clients[CLIENT_LISTENERS_MAX];
	size_t n_clients;
	int control; /* -1: none */
};

/*
 * Takes the sockets by their names into zeros, which the caller closes also after an error. 0, or a negative errno after a line in the log, if a socket is not of the right kind. Sockets
 * with other names are closed, with a warning.
 */
int systemd_take_sockets(struct systemd_sockets *ret);
/* Closes the sockets. Safe on zeros with `control` -1. */
void systemd_close_sockets(struct systemd_sockets *);

typedef void systemd_status(void *data, char *ret, size_t size);

struct systemd {
	struct ev_loop *loop;
	systemd_status *status; /* makes the line for systemctl status */
	void *data;
	ev_timer w_watchdog;
	ev_timer w_status; /* until the status may be sent again */
	char told[128];	   /* the status that was sent last */
};

void systemd_init(struct systemd *, struct ev_loop *, systemd_status *, void *data);

/* READY=1: at the start, and after a reload. */
void systemd_say_ready(struct systemd *);
/* A reload begins; systemd_say_ready() ends it. */
void systemd_say_reloading(struct systemd *);
/* To be called in each turn of the loop: sends the status if it has changed, once a second at most. */
void systemd_update_status(struct systemd *);
