/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/own_trace.h"

#include <sys/socket.h>

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/process/log.h"
#include "daemon/registry/event.h"
#include "daemon/registry/holder.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/silence.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/tenant.h"

/*
 * A new trace, or one that has ended, changes the tenant's grants: a walk along these alone, in parts, so that it costs other tenants
 * nothing. Programs are sent the socket before the first event is traced. A restart of the daemon ends traces: the next one finds a note in
 * the ledger that the keeper may have traced events, and tells it of every grant.
 */

/* --- the walk --- */

struct walk_batch {
	struct registry *registry;
	uint32_t tenant;
	struct kernel_call calls[TRACED_AT_ONCE];
};

static void walk_finish(struct tenant *tenant)
{
	struct own_traces *traces = &tenant->traces;

	if (traces->walking || traces->under_way > 0)
		return;
	for (size_t i = 0; i < WIRE_TRACES_MAX; i++) {
		struct own_trace *trace = traces->slot[i];
		void (*begun)(struct own_trace *) = trace ? trace->begun : NULL;

		if (!begun)
			continue;
		trace->begun = NULL;
		begun(trace);
	}
	if (traces->n == 0)
		ledger_strike(tenant->registry->ledger, &traces->entry);
}

static void walk_on_answer(void *data, struct kernel_call *calls, size_t n)
{
	struct walk_batch *batch = data;
	struct tenant *tenant = tenant_by_number(batch->registry, batch->tenant);

	/* A grant may have ended meanwhile (KERNEL_E_NO_SUCH), or this daemon ends (-ECANCELED). */
	for (size_t i = 0; i < n; i++)
		if (calls[i].result < 0 && calls[i].result != -ECANCELED)
			log_line(LOG_OF_CLIENTS, LOG_WARNING, "an event can't be traced by its tenant: %s",
				 strerror(-calls[i].result));
	free(batch);
	if (!tenant || tenant->traces.under_way == 0)
		return;
	tenant->traces.under_way--;
	walk_finish(tenant);
}

/* One part of it. */
static void walk_go_on(struct tenant *tenant)
{
	struct own_traces *traces = &tenant->traces;
	struct walk_batch *batch = malloc(sizeof(*batch));
	unsigned looked = 0;
	size_t n = 0;

	if (!batch)
		return;
	batch->registry = tenant->registry;
	batch->tenant = tenant->number;
	for (; traces->walk && looked < TRACED_AT_ONCE; looked++) {
		struct grant *grant = traces->walk;
		const uint16_t wanted = silencing_state(grant);

		traces->walk = LIST_NEXT(grant, in_tenant);
		if (grant->bit == 0 || grant->state == wanted)
			continue;
		batch->calls[n++] = silencing_call(grant, wanted);
	}
	if (!traces->walk) {
		traces->walking = false;
		TAILQ_REMOVE(&tenant->registry->walks, tenant, traces.in_walks);
	}
	if (n > 0) {
		traces->under_way++;
		kernel_submit(tenant->registry->kernel, batch->calls, n, walk_on_answer, batch);
	} else {
		free(batch);
		walk_finish(tenant);
	}
}

/* One part for each turn of the loop. */
static void walks_on_timer(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct registry *registry = container_of(w, struct registry, w_walks);
	struct tenant *tenant = TAILQ_FIRST(&registry->walks);

	if (tenant) {
		TAILQ_REMOVE(&registry->walks, tenant, traces.in_walks);
		TAILQ_INSERT_TAIL(&registry->walks, tenant, traces.in_walks);
		walk_go_on(tenant);
	}
	if (!TAILQ_EMPTY(&registry->walks))
		ev_timer_start(loop, w);
}

/* In the next turn of the loop. */
static void walk_begin(struct tenant *tenant)
{
	struct registry *registry = tenant->registry;
	struct own_traces *traces = &tenant->traces;
	static const uint64_t none;

	if (traces->entry == 0)
		ledger_enter(registry->ledger, &traces->entry, ENTRY_SILENCING, 2, tenant->number, &none, sizeof(none),
			     "");
	if (!traces->walking)
		TAILQ_INSERT_TAIL(&registry->walks, tenant, traces.in_walks);
	traces->walking = true;
	traces->walk = LIST_FIRST(&tenant->all_grants);
	ev_timer_start(registry->loop, &registry->w_walks);
}

/* --- traces --- */

static bool trace_has(const struct own_trace *trace, const char *name)
{
	for (size_t i = 0; i < trace->n; i++)
		if (glob_match(trace->pattern[i], name) == 1)
			return true;
	return trace->n == 0;
}

/* A program knows its events without the prefix that the policy gives them. */
uint16_t own_traces_of(const struct tenant *tenant, const char *name, size_t length)
{
	const char *prefix = rules_prefix(tenant);
	char full[WIRE_DESCRIPTION_MAX + 1];
	uint16_t traces = 0;

	if (tenant->traces.n == 0 || tenant->muted || tenant->blocked)
		return 0;
	for (unsigned i = 0; i < WIRE_TRACES_MAX; i++) {
		const struct own_trace *trace = tenant->traces.slot[i];

		if (!trace)
			continue;
		string_copy(full, MIN(length + 1, sizeof(full)), name);
		if (trace_has(trace, full) ||
		    (prefix && strncmp(full, prefix, strlen(prefix)) == 0 && trace_has(trace, full + strlen(prefix))))
			traces |= (uint16_t)(1u << (KERNEL_TRACES_SHIFT + i));
	}
	return traces;
}

/* A slot is used again as late as possible: programs may still have the socket of its last trace. */
static bool traces_find_slot(struct own_traces *traces, unsigned *ret)
{
	for (unsigned i = 1; i <= WIRE_TRACES_MAX; i++) {
		*ret = (traces->last + i) % WIRE_TRACES_MAX;
		if (!traces->slot[*ret])
			return true;
	}
	return false;
}

/* The kernel keeps no more records than its limit allows, however many programs write. The sender of each is what the kernel says. */
static int trace_make_sockets(uint32_t bytes, int ret[2])
{
	/* The kernel doubles what it is given. */
	const int half = (int)(bytes / 2), yes = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret) < 0)
		return -errno;
	if (setsockopt(ret[0], SOL_SOCKET, SO_SNDBUF, &half, sizeof(half)) < 0 ||
	    setsockopt(ret[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0 || shutdown(ret[1], SHUT_WR) < 0) {
		int r = -errno;

		fd_close(ret[0]);
		fd_close(ret[1]);
		return r;
	}
	return 0;
}

static int trace_refuse(const struct holder *holder, struct text *why)
{
	const struct tenant *tenant = holder->tenant;

	if (rules_trace_bytes(tenant) == 0)
		text_printf(why, "the policy does not let this tenant trace itself; ask the admin for OwnTracing=yes");
	else if (!silence_is_possible(tenant->registry))
		text_printf(why,
			    "this kernel has one page for all tenants, so none can trace itself: Linux 6.4 is needed");
	else if (holder->trace)
		text_printf(why, "this connection has a trace already; a second trace needs a connection of its own");
	else
		return 0;
	return !silence_is_possible(tenant->registry) ? REFUSAL_KERNEL_TOO_OLD : REFUSAL_NOT_PERMITTED;
}

int own_trace_begin(struct holder *holder, const char *const *patterns, size_t n, void (*begun)(struct own_trace *),
		    void *data, int *ret_reader, struct text *why)
{
	struct tenant *tenant = holder->tenant;
	struct own_trace *trace;
	int fds[2], r = trace_refuse(holder, why);
	struct holder *other;
	unsigned slot;

	if (r != 0)
		return r;
	if (!traces_find_slot(&tenant->traces, &slot)) {
		text_printf(why, "this tenant has %d traces of its own, and may have no more", WIRE_TRACES_MAX);
		return REFUSAL_QUOTA_EXCEEDED;
	}
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return -ENOMEM;
	r = trace_make_sockets(rules_trace_bytes(tenant) / WIRE_TRACES_MAX, fds);
	if (r < 0) {
		free(trace);
		text_printf(why, "no socket could be made: %s", strerror(-r));
		return REFUSAL_TROUBLE;
	}
	trace->holder = holder;
	trace->slot = slot;
	trace->fd = fds[0];
	trace->begun = begun;
	trace->data = data;
	trace->n = n;
	for (size_t i = 0; i < n; i++)
		string_copy(trace->pattern[i], sizeof(trace->pattern[i]), patterns[i]);
	holder->trace = tenant->traces.slot[slot] = trace;
	tenant->traces.last = slot;
	tenant->traces.n++;
	LIST_INSERT_HEAD(&tenant->registry->own_traces, trace, in_all);
	*ret_reader = fds[1];
	/* The next daemon closes the connection: then the reader asks that one. */
	holder->known.traces = true;
	holder_enter(holder);
	LIST_FOREACH(other, &tenant->holders, in_tenant)
		if (other->known.takes_traces)
			tenant->registry->traced(other, slot);
	walk_begin(tenant);
	return 0;
}

void own_trace_end(struct holder *holder)
{
	struct own_trace *trace = steal_pointer(holder->trace);
	struct tenant *tenant = holder->tenant;

	if (!trace)
		return;
	tenant->traces.slot[trace->slot] = NULL;
	tenant->traces.n--;
	LIST_REMOVE(trace, in_all);
	/* For all that have a copy. */
	shutdown(trace->fd, SHUT_RDWR);
	fd_close(trace->fd);
	if (trace->begun)
		trace->begun(trace);
	free(trace);
	walk_begin(tenant);
}

void own_traces_check(struct registry *registry)
{
	struct own_trace *trace, *next;

	for (trace = LIST_FIRST(&registry->own_traces); trace; trace = next) {
		next = LIST_NEXT(trace, in_all);
		rules_update(trace->holder->tenant);
		if (rules_trace_bytes(trace->holder->tenant) == 0)
			registry->disconnect(trace->holder, REFUSAL_NOT_PERMITTED,
					     "the policy does not let this tenant trace itself any more");
	}
}

void own_traces_tell(struct holder *holder)
{
	const struct own_traces *traces = &holder->tenant->traces;

	for (unsigned i = 0; i < WIRE_TRACES_MAX && holder->known.takes_traces; i++)
		if (traces->slot[i])
			holder->registry->traced(holder, i);
}

void own_traces_init(struct registry *registry)
{
	LIST_INIT(&registry->own_traces);
	TAILQ_INIT(&registry->walks);
	ev_timer_init(&registry->w_walks, walks_on_timer, 0., 0.);
}

void own_traces_deinit(struct registry *registry)
{
	ev_timer_stop(registry->loop, &registry->w_walks);
}
