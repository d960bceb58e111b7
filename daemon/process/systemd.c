/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * systemd passes sockets as file descriptors from 3 on, with names (LISTEN_FDS, LISTEN_FDNAMES), and receives notifications on a
 * datagram socket (NOTIFY_SOCKET). Without these variables the functions do nothing.
 */

#include "daemon/process/systemd.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "daemon/process/clock.h"
#include "daemon/process/log.h"

static const char clients_name[] = "clients", control_name[] = "control";

void systemd_close_sockets(struct systemd_sockets *sockets)
{
	for (size_t i = 0; i < sockets->n_clients; i++)
		fd_close(sockets->clients[i]);
	sockets->n_clients = 0;
	sockets->control = fd_close(sockets->control);
}

/* NULL: it can be used; otherwise why not. */
static const char *socket_fault(int fd)
{
	if (sd_is_socket(fd, AF_UNIX, 0, -1) <= 0)
		return "it is no unix socket";
	if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, -1) <= 0)
		return "it is not SOCK_SEQPACKET (ListenSequentialPacket=)";
	if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) <= 0)
		return "it does not listen (Accept=no)";
	/* systemd clears that flag with each start. */
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? strerror(errno) : NULL;
}

/* Takes the fd, or closes it. */
static int socket_take(struct systemd_sockets *sockets, int given, const char *name)
{
	_cleanup_(fd_closep) int fd = given;
	bool clients = streq(name, clients_name);
	const char *fault;

	if (!clients && !streq(name, control_name)) {
		log_warning("closed the socket '%s' of systemd: only names '%s' and '%s' are known", name, clients_name,
			    control_name);
		return 0;
	}
	fault = socket_fault(fd);
	if (clients ? sockets->n_clients == ARRAY_SIZE(sockets->clients) : sockets->control >= 0)
		fault = "there are too many of that name";
	if (fault) {
		log_error("can't use the socket '%s' of systemd: %s", name, fault);
		return -EPROTOTYPE;
	}
	*(clients ? &sockets->clients[sockets->n_clients++] : &sockets->control) = fd_steal(&fd);
	return 0;
}

int systemd_take_sockets(struct systemd_sockets *ret)
{
	struct systemd_sockets sockets = { .control = -1 };
	char **names = NULL;
	int n, r = 0;

	n = sd_listen_fds_with_names(true, &names);
	if (n < 0)
		log_error("can't read the sockets of systemd: %s", strerror(-n));
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = socket_take(&sockets, SD_LISTEN_FDS_START + i, names[i]);
		else
			fd_close(SD_LISTEN_FDS_START + i);
		free(names[i]);
	}
	free(names);
	if (n < 0 || r < 0) {
		systemd_close_sockets(&sockets);
		return n < 0 ? n : r;
	}
	*ret = sockets;
	return 0;
}

static void on_watchdog(struct ev_loop *loop _unused_, ev_timer *w _unused_, int events _unused_)
{
	sd_notify(false, "WATCHDOG=1");
}

/* Each notification has the status, too. */
static void systemd_notify(struct systemd *systemd, const char *state)
{
	systemd->status(systemd->data, systemd->told, sizeof(systemd->told));
	sd_notifyf(false, "%sSTATUS=%s", state, systemd->told);
	ev_timer_stop(systemd->loop, &systemd->w_status);
	ev_timer_set(&systemd->w_status, STATUS_INTERVAL, 0.);
	ev_timer_start(systemd->loop, &systemd->w_status);
}

static void on_status(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	systemd_update_status(container_of(w, struct systemd, w_status));
}

void systemd_update_status(struct systemd *systemd)
{
	char status[sizeof(systemd->told)];

	/* Not before READY=1; and soon after a notification the timer calls this again. */
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

void systemd_say_stopping(void)
{
	sd_notify(false, "STOPPING=1");
}

void systemd_init(struct systemd *systemd, struct ev_loop *loop, systemd_status *status, void *data)
{
	uint64_t interval = 0;

	systemd->loop = loop;
	systemd->status = status;
	systemd->data = data;
	ev_init(&systemd->w_status, on_status);
	ev_init(&systemd->w_watchdog, on_watchdog);
	if (sd_watchdog_enabled(false, &interval) <= 0)
		return;
	/* From the loop, so that a loop that hangs is noticed. */
	systemd->w_watchdog.repeat = (double)interval / 2 / 1000000;
	ev_timer_again(loop, &systemd->w_watchdog);
}

void systemd_deinit(struct systemd *systemd)
{
	ev_timer_stop(systemd->loop, &systemd->w_status);
	ev_timer_stop(systemd->loop, &systemd->w_watchdog);
}
