/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/deposit.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "daemon/connection/connections.h"
#include "daemon/ledger/ledger.h"
#include "daemon/process/clock.h"
#include "kernel/disposal.h"

/*
 * A connection is deposited DEFER_INTERVAL after WELCOME, with all others of that time: the shortest programs have ended by then, and
 * cost the keeper nothing. If the daemon is killed before, the connection is lost, and the client connects again. At a clean end it is
 * deposited at once.
 *
 * Until then a request is taken out of the socket when it is read, since no other daemon will look for it there. So a client is not
 * deposited before its request is answered.
 */

/* An fd that lives until the keeper has answered. */
struct copy {
	struct connections *connections;
	struct kernel_call call;
	int fd; /* closed then; -1: it is the call's own, which is closed after it is sent */
};

static void deposit_on_answered(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct copy *copy = data;

	copy->connections->registry->copies--;
	disposal_close(copy->fd);
	free(copy);
}

static bool deposit_submit(struct connections *connections, struct kernel_call call, int fd)
{
	struct copy *copy = malloc(sizeof(*copy));

	if (!copy)
		return false;
	*copy = (struct copy){ .connections = connections, .call = call, .fd = fd };
	connections->registry->copies++;
	kernel_submit(connections->registry->kernel, &copy->call, 1, deposit_on_answered, copy);
	return true;
}

/* Without an fd for the copy, or memory, this connection does not survive a restart. */
static void deposit_fd(struct connections *connections, uint64_t number, int fd)
{
	_cleanup_(fd_closep) int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0 &&
	    deposit_submit(connections, (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = number, .fd = copy }, -1))
		fd_steal(&copy);
}

static struct kernel_call withdrawal_of(uint64_t number)
{
	return (struct kernel_call){ .op = KERNEL_WITHDRAW, .number = number, .fd = -1 };
}

void deposit_end(struct connections *connections)
{
	connections->registry->ledger = ledger_free(connections->registry->ledger);
}

void deposit_check(struct connections *connections)
{
	struct registry *registry = connections->registry;
	struct client *client;

	if (!registry->ledger || registry->ledger->failed == 0)
		return;
	/* Discard the whole ledger: an incomplete one would restore the wrong state. */
	log_error("can't keep the ledger (%s): a restart will cost clients their connections",
		  strerror(-registry->ledger->failed));
	kernel_tell(registry->kernel, withdrawal_of(DEPOSIT_LEDGER));
	TAILQ_FOREACH(client, &connections->clients, all)
		if (client->deposited) {
			kernel_tell(registry->kernel, withdrawal_of(client->holder.number));
			client->deposited = false;
		}
	deposit_end(connections);
}

bool deposit_connection(struct client *client)
{
	if (client->deposited || !client->holder.registry->ledger || !client->holder.known.greeted)
		return true;
	if (client->task || client->waiting)
		return false;
	client->deposited = true;
	/* The next keeper is given everything by deposit_all(). */
	if (!client->connections->keeper_has_gone)
		deposit_fd(client->connections, client->holder.number, client->fd);
	return true;
}

void deposit_rest(struct connections *connections)
{
	struct pollfd answer = { .fd = connections->registry->kernel->fd, .events = POLLIN };
	double end = clock_now() + DEPOSIT_TIMEOUT;
	struct client *client;

	TAILQ_FOREACH(client, &connections->clients, all)
		deposit_connection(client);
	while (connections->registry->copies > 0 && clock_now() < end &&
	       poll(&answer, 1, (int)(DEPOSIT_TIMEOUT * 1000)) > 0 &&
	       kernel_dispatch(connections->registry->kernel) == 0)
		;
}

void deposit_close(struct client *client)
{
	/* It is left to the next daemon. */
	if (client->deposited && !client->holder.registry->ledger) {
		close(client->fd);
		return;
	}
	/* At once, although the keeper has a copy. */
	if (client->deposited)
		shutdown(client->fd, SHUT_RDWR);
	/* Ours is to be the last copy: closing that may take long, and kernel/disposal.c does it in a thread. */
	if (!client->deposited || client->connections->keeper_has_gone ||
	    !deposit_submit(client->connections, withdrawal_of(client->holder.number), client->fd))
		disposal_close(client->fd);
}

void deposit_all(struct connections *connections)
{
	struct client *client;

	if (connections->registry->ledger)
		deposit_fd(connections, DEPOSIT_LEDGER, connections->registry->ledger->fd);
	TAILQ_FOREACH(client, &connections->clients, all)
		if (client->deposited)
			deposit_fd(connections, client->holder.number, client->fd);
}
