/* SPDX-License-Identifier: GPL-2.0-or-later */

/* tail: shows records. */

#include <poll.h>

#include "client/userevctl/tracing/own.h"
#include "client/userevctl/tracing/tracing.h"

struct tail {
	struct record_view view;
	bool past;
	bool no_follow;
	bool wait;
	bool foreign;
	bool own;
	const char *filter, *since;
	uint64_t timeout;  /* s; 0: none */
	uint64_t deadline; /* ns on the monotonic clock; UINT64_MAX: none */
};

/* Until there is something to read; false: the time is up, or the output has no reader any more. */
static bool wait_for_records(const struct tail *tail, const struct tracing *tracing)
{
	struct pollfd wanted[] = {
		{ .fd = tracing->fd, .events = POLLIN },
		{ .fd = fileno(tail->view.output->file) }, /* POLLERR: a pipe without a reader */
	};
	uint64_t now = ctl_now_ns(), until = MIN(tail->deadline, tracing->due > 0 ? tracing->due : UINT64_MAX);
	uint64_t ms = (until - MIN(until, now)) / NS_PER_MS + 1;

	if (tracing->busy)
		ms = 0;
	if (poll(wanted, ARRAY_SIZE(wanted), until == UINT64_MAX ? -1 : (int)MIN(ms, (uint64_t)INT32_MAX)) < 0)
		return errno == EINTR;
	return !(wanted[1].revents & (POLLERR | POLLNVAL)) && ctl_now_ns() < tail->deadline;
}

/* The option for which a tenant's own trace is not enough; NULL: none. */
static const char *tail_needs_machine(const struct tail *tail)
{
	return tail->since	   ? "--since"
	       : tail->past	   ? "--past"
	       : tail->no_follow   ? "--no-follow"
	       : tail->view.tenant ? "--tenant"
	       : tail->filter	   ? "--filter"
	       : tail->foreign	   ? "--foreign"
				   : NULL;
}

static int tail_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct tail tail = { .view.output = &ctl->output };
	int r, flags;

	options_read(ctl, &tail, 0, INT32_MAX);
	if (!record_view_set_since(&tail.view, "tail", tail.since))
		return EXIT_USAGE;
	tail.past |= tail.since != NULL;
	tail.deadline = tail.timeout > 0 ? ctl_now_ns() + tail.timeout * NS_PER_S : UINT64_MAX;
	flags = (tail.past ? TAIL_PAST : 0) | (tail.no_follow ? TAIL_NO_FOLLOW : 0);
	if (own_tail_is_wanted(ctl, tail.own))
		r = own_tail_open(ctl, "tail", tail_needs_machine(&tail), &tracing);
	else
		r = tracing_open(ctl, TRACING_ACT, &tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = tail.foreign || tracing->no_daemon ? FOREIGN_ALL : FOREIGN_NEVER;
	tracing->filter = tail.filter;
	tracing->only_while.tenant = tail.view.tenant;
	/* Records of the past may be of events that no program holds any more. */
	if (!tail.past && !tail.wait && !tracing->own)
		r = names_check(tracing, true);
	if (r == EXIT_DONE)
		r = tail_begin(tracing, (uint16_t)flags);
	while (r == EXIT_DONE && !tracing->over && !record_view_done(&tail.view) && wait_for_records(&tail, tracing))
		r = tail_read(tracing, &tail.view);
	if (r == EXIT_DONE && tail.no_follow && tail.view.records == 0)
		return names_check(tracing, true);
	return r;
}

COMMAND(tail, "[EVENT...]", "show records as they come",
	OPTIONS(FLAG_ROW("past", struct tail, past, "first show records that the daemon still keeps"),
		TEXT_ROW("since", "TIME", struct tail, since, "of these only the ones since then: 5m ago, or 12:34"),
		FLAG_ROW("no-follow", struct tail, no_follow, "end where the present begins"),
		NUMBER_ROW("count", "N", struct tail, view.most, 1, UINT64_MAX, "end after N records"),
		NUMBER_ROW("timeout", "SECONDS", struct tail, timeout, 1, UINT32_MAX, "end after this time"),
		TEXT_ROW("tenant", "TENANT", struct tail, view.tenant,
			 "only records of tenants with this name or path"),
		TEXT_ROW("filter", "FILTER", struct tail, filter,
			 "only records for which this is true, as 'us > 1000 && status >= 500'"),
		FLAG_ROW("wait", struct tail, wait, "for events that no program holds yet"),
		FLAG_ROW("foreign", struct tail, foreign, "also events made without the daemon"),
		FLAG_ROW("own", struct tail, own,
			 "only this container's own events; the default where no others can be seen")),
	"Shows records as they come: time, program and pid, tenant, event, fields. The\n"
	"named events (patterns too) are on while this runs, those that are registered\n"
	"later included. Without a name, all events that are on anyway are shown.\n"
	"In a pipe one tab stands between two columns.");
