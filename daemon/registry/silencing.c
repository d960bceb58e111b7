/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/silencing.h"
#include "daemon/registry/own_trace.h"

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/process/log.h"
#include "daemon/registry/event.h"
#include "daemon/registry/holder.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/tenant.h"
#include "protocol/base/array.h"

/*
 * After any change of the rules a walk along all events compares what the kernel was told of each grant with what the rules say, and sends
 * the differences. A change during a walk begins a new walk. A grant that the kernel is being asked for is compared when the kernel has
 * answered. So each grant is right in the end, whatever happens meanwhile, and the kernel carries out calls in their order.
 *
 * The keeper goes on with silent grants when the daemon ends. If that happens during a walk, the next daemon finds a note of it in the
 * ledger, and tells the keeper of every grant.
 */

const char tenant_blocked_sentence[] =
	"the admin has blocked this tenant (userevctl block): it gets no events until it is unblocked";

uint16_t silencing_state(const struct grant *grant)
{
	const struct event *event = grant->event;
	const bool is_silent = silence_is_wanted(grant->tenant, event->description, event->name_length);

	return (is_silent ? KERNEL_SILENT : 0) | own_traces_of(grant->tenant, event->description, event->name_length);
}

struct kernel_call silencing_call(struct grant *grant, uint16_t state)
{
	grant->state = state;
	return (struct kernel_call){
		.op = KERNEL_SILENCE,
		.page = grant->tenant->number,
		.bit = grant->bit,
		.flags = state,
		.fd = -1,
	};
}

/* --- the walk --- */

struct silencing_batch {
	struct silence *silence;
	struct kernel_call *calls;
};

static void silencing_on_timer(struct ev_loop *loop, ev_timer *w, int events);

static void silencing_continue_in(struct silence *silence, double seconds)
{
	ev_timer_stop(silence->registry->loop, &silence->w_walk);
	ev_timer_init(&silence->w_walk, silencing_on_timer, seconds, 0.);
	ev_timer_start(silence->registry->loop, &silence->w_walk);
}

static void silencing_finish(struct silence *silence)
{
	struct silence_waiter *waiter;

	if (silence->walking || silence->under_way > 0 || !LIST_EMPTY(&silence->registry->expelling))
		return;
	if (silence->failed && silence->tries++ < SILENCE_TRIES) {
		silence->failed = false;
		silence->forced = silence->walking = true;
		silence->walked = 0;
		silencing_continue_in(silence, LATER_INTERVAL);
		return;
	}
	if (silence->failed)
		log_error("the kernel refuses to keep events off in the pages of some tenants, or to end that");
	silence->failed = silence->forced = silence->busy = false;
	silence->tries = 0;
	ledger_strike(silence->registry->ledger, &silence->entry);
	while ((waiter = TAILQ_FIRST(&silence->waiting))) {
		TAILQ_REMOVE(&silence->waiting, waiter, entry);
		waiter->done(waiter);
	}
}

static void silencing_on_answer(void *data, struct kernel_call *calls, size_t n)
{
	struct silencing_batch *batch = data;
	struct silence *silence = batch->silence;

	/* A grant may have ended meanwhile (KERNEL_E_NO_SUCH), or this daemon ends (-ECANCELED). */
	for (size_t i = 0; i < n; i++)
		silence->failed |= calls[i].result < 0 && calls[i].result != -ECANCELED;
	silence->under_way--;
	free(batch->calls);
	free(batch);
	silencing_finish(silence);
}

/* Adds the grants of the event of which the kernel has to be told. False: no memory. */
static bool batch_add(struct silencing_batch *batch, size_t *n, const struct event *event, unsigned *looked)
{
	struct grant *grant;

	LIST_FOREACH(grant, &event->grants, in_event) {
		const uint16_t wanted = silencing_state(grant);
		struct kernel_call *calls;

		++*looked;
		if (grant->bit == 0 || (grant->state == wanted && !batch->silence->forced))
			continue;
		calls = array_grow(batch->calls, *n, sizeof(*calls));
		if (!calls)
			return false;
		batch->calls = calls;
		calls[(*n)++] = silencing_call(grant, wanted);
	}
	return true;
}

/* One part of it. False: there is no memory for it now. */
static bool silencing_walk(struct silence *silence)
{
	struct silencing_batch *batch = calloc(1, sizeof(*batch));
	const struct event *event;
	unsigned looked = 0;
	bool has_memory = true;
	size_t n = 0;

	if (!batch) {
		silencing_continue_in(silence, LATER_INTERVAL);
		return false;
	}
	batch->silence = silence;
	while (has_memory && looked < SILENCE_AT_ONCE && silence->walking) {
		event = event_after(silence->registry, silence->walked);
		silence->walking = event;
		if (!event)
			break;
		looked++;
		has_memory = batch_add(batch, &n, event, &looked);
		if (has_memory)
			silence->walked = event->number;
	}
	if (silence->walking)
		silencing_continue_in(silence, has_memory ? 0. : LATER_INTERVAL);
	if (n > 0) {
		silence->under_way++;
		kernel_submit(silence->registry->kernel, batch->calls, n, silencing_on_answer, batch);
		return has_memory;
	}
	free(batch->calls);
	free(batch);
	silencing_finish(silence);
	return has_memory;
}

/* --- blocked tenants --- */

/* So many clients at a time, since a tenant may have thousands. Whether some are left. */
static bool expel_some(struct registry *registry)
{
	struct tenant *tenant;
	struct holder *holder;

	for (unsigned n = 0; n < EXPELLED_AT_ONCE && (tenant = LIST_FIRST(&registry->expelling));) {
		holder = tenant->next_expelled;
		if (!holder || !tenant->blocked) {
			tenant->next_expelled = NULL;
			tenant->expelling = false;
			LIST_REMOVE(tenant, in_expelling);
			continue;
		}
		tenant->next_expelled = LIST_NEXT(holder, in_tenant);
		registry->disconnect(holder, REFUSAL_NOT_PERMITTED, tenant_blocked_sentence);
		n++;
	}
	return !LIST_EMPTY(&registry->expelling);
}

void silencing_forget_holder(struct holder *holder)
{
	struct tenant *tenant = holder->tenant;

	if (tenant->next_expelled == holder)
		tenant->next_expelled = LIST_NEXT(holder, in_tenant);
}

static void silencing_on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct silence *silence = container_of(w, struct silence, w_walk);

	if (expel_some(silence->registry))
		silencing_continue_in(silence, 0.);
	if (silence->walking)
		silencing_walk(silence);
	else
		silencing_finish(silence);
}

/* --- its beginning and its end --- */

void silencing_begin(struct registry *registry)
{
	static const uint64_t none;
	struct silence *silence = registry->silence;

	if (!silence)
		return;
	silence->busy = silence->walking = true;
	silence->walked = 0;
	if (silence->entry == 0)
		ledger_enter(registry->ledger, &silence->entry, ENTRY_SILENCING, 1, 0, &none, sizeof(none), "");
	for (struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next) {
		if (!tenant->blocked || LIST_EMPTY(&tenant->holders) || tenant->expelling)
			continue;
		tenant->expelling = true;
		tenant->next_expelled = LIST_FIRST(&tenant->holders);
		LIST_INSERT_HEAD(&registry->expelling, tenant, in_expelling);
		refusal_note(registry, tenant, NULL, REFUSAL_NOT_PERMITTED, tenant_blocked_sentence);
	}
	if (expel_some(registry))
		silencing_continue_in(silence, 0.);
	silencing_walk(silence);
}

int silencing_restore(struct registry *registry, bool forced)
{
	struct silence *silence = forced ? silence_get(registry) : registry->silence;

	if (!silence)
		return forced ? -ENOMEM : 0;
	silence->forced = forced;
	/* The loop does not run yet: once, since no timer would try again. */
	silence->tries = SILENCE_TRIES;
	silencing_begin(registry);
	while (expel_some(registry))
		;
	while (silence->walking)
		if (!silencing_walk(silence))
			return -ENOMEM;
	silencing_finish(silence);
	return settling_await(registry, &silence->busy);
}

void silencing_wait(struct registry *registry, struct silence_waiter *waiter)
{
	struct silence *silence = registry->silence;

	if (silence && silence->busy)
		TAILQ_INSERT_TAIL(&silence->waiting, waiter, entry);
	else
		waiter->done(waiter);
}

void silencing_end(struct registry *registry)
{
	struct silence *silence = registry->silence;
	struct silence_waiter *waiter;

	if (!silence)
		return;
	ev_timer_stop(registry->loop, &silence->w_walk);
	silence->walking = false;
	while ((waiter = TAILQ_FIRST(&silence->waiting))) {
		TAILQ_REMOVE(&silence->waiting, waiter, entry);
		waiter->done(waiter);
	}
}

/* --- registrations --- */

uint16_t silencing_ask(struct grant *grant)
{
	grant->state = silencing_state(grant);
	return grant->state;
}

void silencing_settle(struct grant *grant)
{
	const uint16_t wanted = silencing_state(grant);

	if (grant->state != wanted)
		kernel_tell(grant->tenant->registry->kernel, silencing_call(grant, wanted));
}
