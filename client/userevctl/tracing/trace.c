/* SPDX-License-Identifier: GPL-2.0-or-later */

/* enable, disable, tail: who traces, and what is recorded. */

#include <poll.h>
#include <time.h>

#include "client/userevctl/quiet.h"

enum { OPTION_PAST = 1, OPTION_NO_FOLLOW, OPTION_COUNT, OPTION_TIMEOUT, OPTION_WAIT, OPTION_FULL, OPTION_FOREIGN };

static int print_switched(struct ctl *ctl, uint64_t events, bool on)
{
	if (ctl->json)
		fprintf(ctl->output.file, "{\"events\":%llu,\"on\":%s}\n", (unsigned long long)events,
			on ? "true" : "false");
	else
		fprintf(ctl->output.file, "%s %s.\n", plural(events, "event is", "events are").text, on ? "on" : "off");
	return ctl_finish(ctl);
}

struct switching {
	bool on;
	bool wait;
	enum foreign_use foreign;
	uint64_t timeout_ms;
};

static void read_switch_options(struct ctl *ctl, struct switching *switching)
{
	const char *value;
	int option;

	while ((option = ctl_next_option(ctl, &value)) != 0) {
		switch (option) {
		case OPTION_WAIT:
			switching->wait = true;
			break;
		case OPTION_TIMEOUT:
			switching->timeout_ms = ctl_number("--timeout", value, 1, UINT32_MAX) * 1000;
			break;
		case OPTION_FOREIGN:
			switching->foreign = FOREIGN_BY_NAME;
			break;
		}
	}
	ctl_expect_arguments(ctl, 1, INT32_MAX);
}

static int switch_events(struct ctl *ctl, bool on)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct switching switching = { .on = on, .foreign = FOREIGN_NEVER };
	uint64_t events = 0;
	int r;

	read_switch_options(ctl, &switching);
	r = tracing_open(ctl, TRACING_ACT, &tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = switching.foreign;
	/* Nothing is switched unless every name is known. */
	r = names_check(tracing, ctl->argv, ctl->argc, false);
	if (r == EXIT_DONE)
		r = tracing->ops->turn(tracing, ctl->argv, ctl->argc, on, &events);
	if (r == EXIT_DONE && switching.wait)
		r = quiet_wait(tracing, &(struct quiet_wish){ ctl->argv, ctl->argc, switching.timeout_ms });
	return r == EXIT_DONE ? print_switched(ctl, events, on) : r;
}

static int enable_run(struct ctl *ctl)
{
	return switch_events(ctl, true);
}

static int disable_run(struct ctl *ctl)
{
	return switch_events(ctl, false);
}

struct tail {
	struct ctl *ctl;
	struct tracing *tracing;
	struct record_view view;
	bool past;
	bool no_follow;
	bool wait;
	bool foreign;
	uint64_t deadline; /* ms on the monotonic clock; 0: none */
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void read_tail_options(struct ctl *ctl, struct tail *tail)
{
	const char *value;
	bool full = false;
	int option;

	while ((option = ctl_next_option(ctl, &value)) != 0) {
		switch (option) {
		case OPTION_PAST:
			tail->past = true;
			break;
		case OPTION_NO_FOLLOW:
			tail->no_follow = true;
			break;
		case OPTION_COUNT:
			tail->view.most = ctl_number("--count", value, 1, UINT64_MAX);
			break;
		case OPTION_TIMEOUT:
			tail->deadline = now_ms() + ctl_number("--timeout", value, 1, UINT32_MAX) * 1000;
			break;
		case OPTION_WAIT:
			tail->wait = true;
			break;
		case OPTION_FULL:
			full = true;
			break;
		case OPTION_FOREIGN:
			tail->foreign = true;
			break;
		}
	}
	ctl->output.full = full;
}

/* Until there is something to read; false: the time is up, or nobody reads what we print any more. */
static bool wait_for_records(const struct tail *tail)
{
	struct pollfd wanted[] = {
		{ .fd = tail->tracing->fd, .events = POLLIN },
		{ .fd = fileno(tail->ctl->output.file) }, /* POLLERR: a pipe without a reader */
	};
	uint64_t now = now_ms();
	uint64_t left = tail->deadline > now ? tail->deadline - now : 0;
	int timeout = tail->deadline == 0 ? -1 : (int)MIN(left, (uint64_t)INT32_MAX);
	int n = poll(wanted, ARRAY_SIZE(wanted), tail->tracing->busy ? 0 : timeout);

	if (n < 0)
		return errno == EINTR;
	if (wanted[1].revents & (POLLERR | POLLNVAL) || (tail->deadline > 0 && left == 0))
		return false;
	return n > 0 || tail->tracing->busy;
}

static int follow(struct tail *tail)
{
	struct tracing *tracing = tail->tracing;
	int r = EXIT_DONE;

	while (r == EXIT_DONE && !tracing->over && !record_view_done(&tail->view) && wait_for_records(tail))
		r = tracing->ops->tail_read(tracing, &tail->view);
	return r;
}

static int check_names(struct tail *tail)
{
	return names_check(tail->tracing, tail->ctl->argv, tail->ctl->argc, true);
}

static int tail_open(struct tail *tail)
{
	int r = tracing_open(tail->ctl, TRACING_ACT, &tail->tracing);

	if (r != EXIT_DONE)
		return r;
	tail->tracing->foreign = tail->foreign || tail->tracing->no_daemon ? FOREIGN_ALL : FOREIGN_NEVER;
	/* What was recorded may be of events that nobody holds any more. */
	if (!tail->past && !tail->wait && tail->ctl->argc > 0)
		r = check_names(tail);
	return r;
}

static int tail_and_follow(struct tail *tail)
{
	const struct tail_wish wish = { tail->ctl->argv, tail->ctl->argc, tail->past, tail->no_follow };
	int r;

	r = tail_open(tail);
	if (r == EXIT_DONE)
		r = tail->tracing->ops->tail_begin(tail->tracing, &wish);
	if (r == EXIT_DONE)
		r = follow(tail);
	if (r == EXIT_DONE && tail->no_follow && tail->view.records == 0 && tail->ctl->argc > 0)
		r = check_names(tail);
	return r;
}

void ctl_end_by(struct ctl *ctl, int signal_number)
{
	struct pollfd writable = { .fd = fileno(ctl->output.file), .events = POLLOUT };
	sigset_t alone;

	if (poll(&writable, 1, 0) > 0 && writable.revents == POLLOUT)
		output_flush(&ctl->output);
	signal(signal_number, SIG_DFL);
	sigemptyset(&alone);
	sigaddset(&alone, signal_number);
	sigprocmask(SIG_UNBLOCK, &alone, NULL);
	raise(signal_number);
}

static int tail_run(struct ctl *ctl)
{
	struct tail tail = { .ctl = ctl, .view = { .output = &ctl->output } };
	int r, signal_number;

	read_tail_options(ctl, &tail);
	r = tail_and_follow(&tail);
	record_view_deinit(&tail.view);
	signal_number = tail.tracing ? tail.tracing->signal : 0;
	tracing_free(tail.tracing);
	if (signal_number > 0)
		ctl_end_by(ctl, signal_number);
	return r == EXIT_DONE ? ctl_finish(ctl) : r;
}

static const struct ctl_option tail_options[] = {
	{ "past", NULL, "first what is still kept of the past", OPTION_PAST },
	{ "no-follow", NULL, "end where the present begins", OPTION_NO_FOLLOW },
	{ "count", "N", "end after N records", OPTION_COUNT },
	{ "timeout", "SECONDS", "end after so long", OPTION_TIMEOUT },
	{ "wait", NULL, "for events that no program holds yet", OPTION_WAIT },
	{ "foreign", NULL, "events that were made without the daemon, too", OPTION_FOREIGN },
	{ "full", NULL, "do not shorten tenants on a terminal", OPTION_FULL },
	{ 0 },
};

static const struct ctl_option disable_options[] = {
	{ "wait", NULL, "until no record of them comes any more", OPTION_WAIT },
	{ "timeout", "SECONDS", "how long to wait for other tracers", OPTION_TIMEOUT },
	{ "foreign", NULL, "also events made without the daemon, by full name", OPTION_FOREIGN },
	{ 0 },
};

static const struct ctl_option enable_options[] = {
	{ "foreign", NULL, "also events made without the daemon, by full name", OPTION_FOREIGN },
	{ 0 },
};

const struct command command_enable = {
	.name = "enable",
	.arguments = "EVENT...",
	.summary = "switch events on, until 'disable'",
	.help = "Switches events on: programs write their records from now on. EVENT is a name\n"
		"or a pattern with *, ? and [...]. Nothing is switched if one of them matches no\n"
		"event.",
	.options = enable_options,
	.run = enable_run,
};

const struct command command_disable = {
	.name = "disable",
	.arguments = "EVENT...",
	.summary = "switch events off again",
	.help = "Switches events off again. One that a 'userevctl tail' or another tracer wants\n"
		"stays on until that ends: --wait waits for it, and for records that are being\n"
		"written just now. When it returns 0, no record of the events comes any more.",
	.options = disable_options,
	.run = disable_run,
};

const struct command command_tail = {
	.name = "tail",
	.arguments = "[EVENT...]",
	.summary = "show records as they come",
	.help = "Shows records as they come: time, program and pid, tenant, event, fields. The\n"
		"named events (patterns too) are on for as long as this runs, those that are\n"
		"registered later included; without a name, all that are on anyway are shown.\n"
		"In a pipe one tab stands between two columns.",
	.options = tail_options,
	.run = tail_run,
};
