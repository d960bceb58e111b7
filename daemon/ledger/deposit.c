/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/ledger/deposit.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "daemon/connection/client.h"
#include "daemon/daemon.h"
#include "daemon/ledger/ledger.h"
#include "daemon/process/log.h"
#include "kernel/disposal.h"

/*
 * What is told to the keeper has left this process when that returns, unless very much is under way; whoever dies just then
 * loses connections, whose clients come back by themselves.
 */

int deposit_begin(struct daemon *daemon)
{
	int r = daemon->kernel->facts.deposits ? ledger_new(&daemon->ledger) : 0;

	if (r < 0)
		log_error("can't make a ledger: %s", strerror(-r));
	return r;
}

/* An fd that lives until the keeper has answered. */
struct copy {
	struct daemon *daemon;
	struct kernel_call call;
	int fd; /* to be closed then; -1: the call's own, which is closed by whoever sends it */
};

static void on_answered(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct copy *copy = data;

	copy->daemon->copies--;
	disposal_close(copy->fd);
	free(copy);
}

static bool submit(struct daemon *daemon, struct kernel_call call, int fd)
{
	struct copy *copy = malloc(sizeof(*copy));

	if (!copy)
		return false;
	*copy = (struct copy){ .daemon = daemon, .call = call, .fd = fd };
	daemon->copies++;
	kernel_submit(daemon->kernel, &copy->call, 1, on_answered, copy);
	return true;
}

/* Without an fd for it, or memory, a restart costs this one. */
static void deposit(struct daemon *daemon, uint64_t number, int fd)
{
	_cleanup_(fd_closep) int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0 && submit(daemon, (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = number, .fd = copy }, -1))
		fd_steal(&copy);
}

static struct kernel_call withdrawal_of(uint64_t number)
{
	return (struct kernel_call){ .op = KERNEL_WITHDRAW, .number = number, .fd = -1 };
}

void deposit_end(struct daemon *daemon)
{
	daemon->ledger = ledger_free(daemon->ledger);
}

/* None is better than one in which something is missing. */
static void give_up(struct daemon *daemon)
{
	log_error("can't keep the ledger (%s): a restart will cost clients their connections",
		  strerror(-daemon->ledger->failed));
	kernel_tell(daemon->kernel, withdrawal_of(DEPOSIT_LEDGER));
	for (struct client *client = TAILQ_FIRST(&daemon->clients); client; client = TAILQ_NEXT(client, all))
		if (client->tenant)
			kernel_tell(daemon->kernel, withdrawal_of(client->number));
	deposit_end(daemon);
}

void deposit_tidy(struct daemon *daemon)
{
	/* Nothing else might wake us for the rest of it. */
	if (ledger_tidy(daemon->ledger))
		ev_idle_start(daemon->loop, &daemon->w_busy);
	if (daemon->ledger && daemon->ledger->failed < 0)
		give_up(daemon);
}

/* A keeper that is still to come is told of all that there is then. */
static bool is_deposited(const struct client *client)
{
	return client->daemon->ledger && client->tenant && !client->daemon->keeper_has_gone;
}

void deposit_connection(struct client *client)
{
	if (is_deposited(client))
		deposit(client->daemon, client->number, client->fd);
}

void deposit_close(struct client *client)
{
	if (client->kept) {
		close(client->fd);
		return;
	}
	/* Now, whoever has copies. */
	if (client->daemon->ledger && client->tenant)
		shutdown(client->fd, SHUT_RDWR);
	/* Ours is to be the last copy, since whoever closes that may be kept waiting (kernel/disposal.c). */
	if (!is_deposited(client) || !submit(client->daemon, withdrawal_of(client->number), client->fd))
		disposal_close(client->fd);
}

void deposit_all(struct daemon *daemon)
{
	struct client *client;

	if (daemon->ledger)
		deposit(daemon, DEPOSIT_LEDGER, daemon->ledger->fd);
	TAILQ_FOREACH(client, &daemon->clients, all)
		if (client->tenant)
			deposit_connection(client);
}
