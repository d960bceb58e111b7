/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A kernel that answers when the test wants. */

#include <fcntl.h>

#include "tests/unit/world.h"

struct script script;

static bool is_refused(const struct kernel_call *call)
{
	if (script.times == 0 || call->op != script.refuses)
		return false;
	if (script.well > 0) {
		script.well--;
		return false;
	}
	script.times--;
	return true;
}

static void carry_out(struct kernel_call *call)
{
	script.asked[call->op]++;
	if (script.cancelled)
		call->result = -ECANCELED;
	else if (is_refused(call))
		call->result = script.result;
	else
		script.real->submit(script.kernel, call, 1, NULL, NULL);
	if (call->op != KERNEL_PAGE_NEW)
		return;
	if (call->result == -EEXIST && script.gives_pages_twice) {
		call->fd = fcntl(script.page, F_DUPFD_CLOEXEC, 0);
		call->result = KERNEL_OK;
	}
	script.page = call->fd;
}

void carry_out_batch(struct batch *batch)
{
	for (size_t i = 0; i < batch->n && !batch->carried_out; i++)
		carry_out(&batch->calls[i]);
	batch->carried_out = true;
}

void answer_batch(struct batch *batch)
{
	TAILQ_REMOVE(&script.under_way, batch, entry);
	script.n_under_way--;
	carry_out_batch(batch);
	if (batch->done)
		batch->done(batch->data, batch->calls, batch->n);
	free(batch);
}

static struct batch *batch_new(struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	ck_assert_ptr_nonnull(batch);
	*batch = (struct batch){ .calls = calls, .n = n, .done = done, .data = data };
	if (!done) {
		ck_assert_uint_eq(n, 1);
		ck_assert_ptr_null(calls[0].text);
		batch->told = calls[0];
		batch->calls = &batch->told;
	}
	return batch;
}

static void scripted_submit(struct kernel *kernel _unused_, struct kernel_call *calls, size_t n, kernel_done *done,
			    void *data)
{
	long left = allocations_left;
	struct batch *batch;

	/* A batch without calls has its answer. */
	if (n == 0) {
		done(data, calls, n);
		return;
	}
	/* The daemon's memory may be short, the test's is not. */
	allocations_left = -1;
	batch = batch_new(calls, n, done, data);
	allocations_left = left;
	TAILQ_INSERT_TAIL(&script.under_way, batch, entry);
	script.n_under_way++;
	if (!script.holds)
		answer_batch(batch);
}

void answer_one(void)
{
	ck_assert(!TAILQ_EMPTY(&script.under_way));
	answer_batch(TAILQ_FIRST(&script.under_way));
}

void answer_all(void)
{
	while (!TAILQ_EMPTY(&script.under_way))
		answer_one();
}

static void scripted_cancel(struct kernel *kernel _unused_)
{
	script.cancelled = true;
	script.holds = false;
	answer_all();
}

static void scripted_free(struct kernel *kernel)
{
	ck_assert(TAILQ_EMPTY(&script.under_way));
	script.real->free(kernel);
}

static int scripted_dispatch(struct kernel *kernel)
{
	return script.real->dispatch(kernel);
}

static const struct kernel_ops scripted_ops = {
	.submit = scripted_submit,
	.cancel = scripted_cancel,
	.dispatch = scripted_dispatch,
	.free = scripted_free,
};

void hold(void)
{
	script.holds = true;
}

void hold_no_more(void)
{
	script.holds = false;
	answer_all();
}

void refuse(enum kernel_op op, int result, unsigned well, unsigned times)
{
	script.refuses = op;
	script.result = result;
	script.well = well;
	script.times = times;
}

void expect_under_way(size_t n)
{
	ck_assert_uint_eq(script.n_under_way, n);
}

void expect_asked(enum kernel_op op, unsigned n)
{
	ck_assert_uint_eq(script.asked[op], n);
}

struct embedded *embedded(void)
{
	return container_of(script.kernel, struct embedded, kernel);
}

void script_begin(struct kernel *kernel)
{
	memset(&script, 0, sizeof(script));
	TAILQ_INIT(&script.under_way);
	script.kernel = kernel;
	script.real = kernel->ops;
	kernel->ops = &scripted_ops;
}
