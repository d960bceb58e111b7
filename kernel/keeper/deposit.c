/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/deposit.h"

#include <fcntl.h>

#include "kernel/disposal.h"
#include "protocol/base/table.h"

/*
 * What a number stands for is the daemon's business; nothing is read from what is deposited, nor written to it. The daemon
 * has a copy of all of it, so to close ours is never to close the last one, which may take as long as others like: but for
 * the end.
 */

struct deposit {
	uint64_t number;
	int fd;
	bool wanted; /* by the daemon that there is now */
	UT_hash_handle by_number;
};

bool deposit_is_op(enum kernel_op op)
{
	return op == KERNEL_DEPOSIT || op == KERNEL_WITHDRAW || op == KERNEL_DEPOSITED;
}

static struct deposit *find(const struct deposit_box *box, uint64_t number)
{
	struct deposit *deposit;

	NUMBER_FIND(by_number, box->deposits, number, deposit);
	return deposit;
}

static struct deposit *add(struct deposit_box *box, uint64_t number)
{
	struct deposit *deposit = calloc(1, sizeof(*deposit));

	if (!deposit)
		return NULL;
	deposit->number = number;
	deposit->fd = -1;
	NUMBER_ADD(by_number, box->deposits, number, deposit);
	if (table_added())
		return deposit;
	free(deposit);
	return NULL;
}

static int on_deposit(struct deposit_box *box, struct kernel_call *call)
{
	struct deposit *deposit = find(box, call->number);

	if (!deposit)
		deposit = add(box, call->number);
	if (!deposit)
		return -ENOMEM;
	fd_close(deposit->fd);
	deposit->fd = fd_steal(&call->fd);
	deposit->wanted = true;
	return KERNEL_OK;
}

static int on_withdraw(struct deposit_box *box, const struct kernel_call *call)
{
	struct deposit *deposit = find(box, call->number);

	if (!deposit)
		return KERNEL_E_NO_SUCH;
	HASH_DELETE(by_number, box->deposits, deposit);
	/* The daemon has a copy, unless it has ended since it said that. */
	disposal_close(deposit->fd);
	free(deposit);
	return KERNEL_OK;
}

static int on_deposited(const struct deposit_box *box, struct kernel_call *call)
{
	struct deposit *deposit = find(box, call->number);
	int copy;

	if (!deposit)
		return KERNEL_E_NO_SUCH;
	deposit->wanted = true;
	copy = fcntl(deposit->fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	call->fd = copy;
	return KERNEL_OK;
}

void deposit_carry_out(struct deposit_box *box, struct kernel_call *call)
{
	if (call->op == KERNEL_DEPOSIT) {
		call->result = on_deposit(box, call);
		call->fd = fd_close(call->fd);
	} else {
		call->result = call->op == KERNEL_WITHDRAW ? on_withdraw(box, call) : on_deposited(box, call);
	}
}

void deposit_disown(struct deposit_box *box)
{
	struct deposit *deposit = box->deposits, *next;

	box->taken_over = true;
	for (; deposit; deposit = next) {
		next = deposit->by_number.next;
		if (deposit->wanted)
			continue;
		HASH_DELETE(by_number, box->deposits, deposit);
		disposal_close(deposit->fd);
		free(deposit);
	}
}

void deposit_orphan(struct deposit_box *box)
{
	box->taken_over = false;
	for (struct deposit *deposit = box->deposits; deposit; deposit = deposit->by_number.next)
		deposit->wanted = false;
}

size_t deposit_clear(struct deposit_box *box)
{
	struct deposit *deposit = box->deposits, *next;
	size_t n = HASH_CNT(by_number, box->deposits);

	HASH_CLEAR(by_number, box->deposits);
	for (; deposit; deposit = next) {
		next = deposit->by_number.next;
		disposal_close(deposit->fd);
		free(deposit);
	}
	return n;
}
