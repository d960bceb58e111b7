/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/systemd.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/process/timer.h"
#include "kernel/service.h"

static const char clients_name[] = "clients", control_name[] = "control";

void systemd_close_sockets(struct systemd_sockets *sockets)
{
	for (size_t i = 0; i < sockets->n_clients; i++)
		fd_close(sockets->clients[i]);
	sockets->n_clients = 0;
	sockets->control = fd_close(sockets->control);
}

static bool socket_is_usable(int fd)
{
	static const int wanted[][2] = { { SO_DOMAIN, AF_UNIX }, { SO_TYPE, SOCK_SEQPACKET }, { SO_ACCEPTCONN, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		int value = -1;
		socklen_t size = sizeof(value);

		if (getsockopt(fd, SOL_SOCKET, wanted[i][0], &value, &size) < 0 || value != wanted[i][1])
			return false;
	}
	/* systemd clears that flag with each start. */
	return fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* Takes the fd, or closes it. */
static int socket_take(void *data, int given, const char *name)
{
	_cleanup_(fd_closep) int fd = given;
	struct systemd_sockets *sockets = data;
	const bool clients = streq(name, clients_name);

	if (!clients && !streq(name, control_name)) {
		log_warning("closed the socket '%s' of systemd: only names '%s' and '%s' are known", name, clients_name,
			    control_name);
		return 0;
	}
	if (!socket_is_usable(fd) ||
	    (clients ? sockets->n_clients == ARRAY_SIZE(sockets->clients) : sockets->control >= 0)) {
		log_error("can't use the socket '%s' of systemd: one too many, or no unix socket that listens "
			  "(ListenSequentialPacket=, Accept=no)",
			  name);
		return -EPROTOTYPE;
	}
	*(clients ? &sockets->clients[sockets->n_clients++] : &sockets->control) = fd_steal(&fd);
	return 0;
}

int systemd_take_sockets(struct systemd_sockets *ret)
{
	int r;

	ret->control = -1;
	r = service_take_fds(socket_take, ret);
	if (r < 0 && r != -EPROTOTYPE)
		log_error("can't read the sockets of systemd: %s", strerror(-r));
	return MIN(r, 0);
}

static void on_watchdog(struct ev_loop *loop _unused_, ev_timer *w _unused_, int events _unused_)
{
	service_notify("WATCHDOG=1", NULL, 0);
}

/* The loop wakes, and its turn calls systemd_update_status(). */
static void on_status(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	ev_timer_stop(loop, w);
}

/* Each notification has the status, too. */
static void systemd_notify(struct systemd *systemd, const char *state)
{
	char text[sizeof(systemd->told) + 96];

	systemd->status(systemd->data, systemd->told, sizeof(systemd->told));
	snprintf(text, sizeof(text), "%sSTATUS=%s", state, systemd->told);
	service_notify(text, NULL, 0);
	timer_repeat(systemd->loop, &systemd->w_status, on_status, STATUS_INTERVAL);
}

void systemd_update_status(struct systemd *systemd)
{
	char status[sizeof(systemd->told)];

	/* Not before READY=1, nor soon after a notification. */
	if (!*systemd->told || ev_is_active(&systemd->w_status))
		return;
	systemd->status(systemd->data, status, sizeof(status));
	if (!streq(status, systemd->told))
		systemd_notify(systemd, "");
}

void systemd_say_ready(struct systemd *systemd)
{
	if (getenv("NOTIFY_SOCKET"))
		systemd_notify(systemd, "READY=1\n");
}

void systemd_say_reloading(struct systemd *systemd)
{
	char state[64];

	if (!*systemd->told)
		return;
	/* The time tells systemd which of its signals this answers. */
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu\n",
		 (unsigned long long)(clock_now() * 1000000));
	systemd_notify(systemd, state);
}

void systemd_init(struct systemd *systemd, struct ev_loop *loop, systemd_status *status, void *data)
{
	uint64_t interval = 0;

	systemd->loop = loop;
	systemd->status = status;
	systemd->data = data;
	/* From the loop, so that a loop that hangs is noticed. */
	if (service_has_watchdog(&interval))
		timer_repeat(loop, &systemd->w_watchdog, on_watchdog, (double)interval / 2 / 1000000);
}
