/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What systemd hands to us, and what it wants to hear. Without it all of this does nothing. */

#include <ev.h>

#include "daemon/limits.h"
#include "protocol/base/base.h"

/* Listening sockets that somebody else has bound, and will remove. */
struct systemd_sockets {
	int clients[CLIENT_LISTENERS_MAX];
	size_t n_clients;
	int control; /* -1: none was handed over */
};

/*
 * Takes those that were handed over, by their names: 0, or a negative errno after a line in the log. What has another name is
 * closed, with a warning; what is no such socket as it says is refused.
 */
int systemd_take_sockets(struct systemd_sockets *ret);
/* Closes those that nobody took. Safe on zeros with `control` -1. */
void systemd_close_sockets(struct systemd_sockets *);

typedef void systemd_status(void *data, char *ret, size_t size);

struct systemd {
	struct ev_loop *loop;
	systemd_status *status; /* makes the line for systemctl status */
	void *data;
	ev_timer w_watchdog;
	ev_timer w_status; /* until the status may be said again */
	char told[128];	   /* the status that was said last */
};

void systemd_init(struct systemd *, struct ev_loop *, systemd_status *, void *data);
void systemd_deinit(struct systemd *);

/* From now on we serve, or serve again. */
void systemd_say_ready(struct systemd *);
/* The policy is about to be read again; systemd_say_ready() ends that. */
void systemd_say_reloading(struct systemd *);
void systemd_say_stopping(void);
/* To be called whenever something may have changed: says what there is, and not more often than anybody reads it. */
void systemd_update_status(struct systemd *);
