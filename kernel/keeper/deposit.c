/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/deposit.h"

#include "kernel/disposal.h"
#include "kernel/user_events/allocate.h"

/*
 * Only the daemon knows what a number stands for; the keeper neither reads from a deposit nor writes to it. The daemon has a copy of
 * each, so closing ours is not the last close, which may take as long as clients like; the exception is the end.
 */

struct deposit {
	uint64_t number;
	int fd;
	bool wanted; /* by the connected daemon */
	UT_hash_handle by_number;
};

static void deposit_free(struct deposit_box *box, struct deposit *deposit)
{
	HASH_DELETE(by_number, box->deposits, deposit);
	/* The daemon has a copy, unless it has ended meanwhile. */
	disposal_close(deposit->fd);
	free(deposit);
}

bool deposit_carry_out(struct deposit_box *box, struct kernel_call *call)
{
	struct deposit *deposit, *next;

	if (call->op == KERNEL_DISOWN) {
		box->taken_over = true;
		HASH_ITER(by_number, box->deposits, deposit, next)
			if (!deposit->wanted)
				deposit_free(box, deposit);
	}
	if (call->op != KERNEL_DEPOSIT && call->op != KERNEL_WITHDRAW && call->op != KERNEL_DEPOSITED)
		return false;
	NUMBER_FIND(by_number, box->deposits, call->number, deposit);
	call->result = KERNEL_OK;
	if (!deposit && call->op == KERNEL_DEPOSIT) {
		deposit = keeper_allocate(sizeof(*deposit));
		deposit->number = call->number;
		deposit->fd = -1;
		NUMBER_ADD(by_number, box->deposits, number, deposit);
		table_check_added();
	}
	if (!deposit) {
		call->result = KERNEL_E_NO_SUCH;
	} else if (call->op == KERNEL_WITHDRAW) {
		deposit_free(box, deposit);
	} else {
		deposit->wanted = true;
		if (call->op == KERNEL_DEPOSITED) {
			call->result = kernel_give_copy(call, deposit->fd);
			return true;
		}
		fd_close(deposit->fd);
		deposit->fd = fd_steal(&call->fd);
	}
	return true;
}

void deposit_orphan(struct deposit_box *box)
{
	struct deposit *deposit, *next;

	box->taken_over = false;
	HASH_ITER(by_number, box->deposits, deposit, next)
		deposit->wanted = false;
}

size_t deposit_clear(struct deposit_box *box)
{
	const size_t n = HASH_CNT(by_number, box->deposits);
	struct deposit *deposit, *next;

	HASH_ITER(by_number, box->deposits, deposit, next)
		deposit_free(box, deposit);
	return n;
}
