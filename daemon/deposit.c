/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/deposit.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/ledger.h"
#include "daemon/log.h"
#include "protocol/disposal.h"

/*
 * What is told to the keeper has left this process when that returns, unless very much is under way; whoever dies just then
 * loses connections, whose clients come back by themselves.
 */

int deposit_begin(struct daemon *daemon)
{
	int r = daemon->kernel->facts.deposits ? ledger_new(&daemon->ledger) : 0;

	if (r < 0)
		log_warning("can't make a ledger (%s): a restart will cost clients their connections", strerror(-r));
	return r;
}

/* A copy, which is the kernel's. Without an fd for it, a restart costs this one. */
static void deposit(struct daemon *daemon, uint64_t number, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		kernel_tell(daemon->kernel, (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = number, .fd = copy });
}

static void withdraw(struct daemon *daemon, uint64_t number)
{
	kernel_tell(daemon->kernel, (struct kernel_call){ .op = KERNEL_WITHDRAW, .number = number, .fd = -1 });
}

void deposit_ledger(struct daemon *daemon)
{
	if (daemon->ledger)
		deposit(daemon, DEPOSIT_LEDGER, daemon->ledger->fd);
}

void deposit_end(struct daemon *daemon)
{
	daemon->ledger = ledger_free(daemon->ledger);
}

void deposit_tidy(struct daemon *daemon)
{
	struct ledger *ledger = daemon->ledger;

	if (!ledger)
		return;
	if (ledger_is_long(ledger))
		ledger_rewrite(ledger);
	if (ledger->failed == 0)
		return;
	/* None is better than one in which something is missing. */
	log_error("can't keep the ledger (%s): a restart will cost clients their connections",
		  strerror(-ledger->failed));
	withdraw(daemon, DEPOSIT_LEDGER);
	deposit_end(daemon);
}

void deposit_connection(struct client *client)
{
	if (client->daemon->ledger)
		deposit(client->daemon, client->number, client->fd);
}

/* Ours is to be the last copy, since whoever closes that may be kept waiting (protocol/disposal.c): the keeper must not be. */
struct withdrawal {
	struct kernel_call call;
	int fd;
};

static void on_withdrawn(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct withdrawal *withdrawal = data;

	disposal_close(withdrawal->fd);
	free(withdrawal);
}

static bool withdraw_connection(struct client *client)
{
	struct withdrawal *withdrawal = malloc(sizeof(*withdrawal));

	if (!withdrawal)
		return false;
	*withdrawal = (struct withdrawal){
		.call = { .op = KERNEL_WITHDRAW, .number = client->number, .fd = -1 },
		.fd = client->fd,
	};
	kernel_submit(client->daemon->kernel, &withdrawal->call, 1, on_withdrawn, withdrawal);
	return true;
}

void deposit_close(struct client *client)
{
	if (client->kept) {
		close(client->fd);
		return;
	}
	if (client->daemon->ledger && client->tenant) {
		/* Now, whoever has copies. */
		shutdown(client->fd, SHUT_RDWR);
		if (withdraw_connection(client))
			return;
	}
	disposal_close(client->fd);
}

void deposit_all(struct daemon *daemon)
{
	struct client *client;

	deposit_ledger(daemon);
	TAILQ_FOREACH(client, &daemon->clients, all)
		if (client->tenant)
			deposit_connection(client);
}
