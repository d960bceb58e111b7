/* SPDX-License-Identifier: GPL-2.0-or-later */

/* enable, disable, tail: who traces, and what is recorded. */

#include <poll.h>
#include <time.h>

#include "client/ctl.h"

static int switch_events(struct ctl *ctl, bool on)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	uint64_t events;
	int r;

	ctl_no_options(ctl);
	ctl_expect_arguments(ctl, 1, INT32_MAX);
	/* Nothing is switched unless every name is known. */
	r = names_check(ctl, ctl->argv, ctl->argc, false);
	if (r == EXIT_DONE)
		r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask_strings(control, KIND_TRACE, on ? TRACE_ON : 0, (const char *const *)ctl->argv,
				(size_t)ctl->argc);
	if (r == 0)
		r = control_next_row(control, &row);
	if (r <= 0)
		return control_explain(ctl->control_socket, r < 0 ? r : -EBADMSG, control);
	events = row_get_u64(row, "events");
	if (ctl->json)
		fprintf(ctl->output.file, "{\"events\":%llu,\"on\":%s}\n", (unsigned long long)events,
			on ? "true" : "false");
	else
		fprintf(ctl->output.file, "%s %s.\n", plural(events, "event is", "events are").text, on ? "on" : "off");
	return ctl_finish(ctl);
}

static int enable_run(struct ctl *ctl)
{
	return switch_events(ctl, true);
}

static int disable_run(struct ctl *ctl)
{
	return switch_events(ctl, false);
}

enum { OPTION_PAST = 1, OPTION_NO_FOLLOW, OPTION_COUNT, OPTION_TIMEOUT, OPTION_WAIT, OPTION_FULL };

struct tail {
	struct ctl *ctl;
	struct control *control;
	struct record_view view;
	bool past;
	bool no_follow;
	bool wait;
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
		}
	}
	ctl->output.full = full;
}

enum { TAIL_PACKET, TAIL_OVER };

/* Until there is a packet, the time is up, or nobody reads what we print any more: TAIL_PACKET, TAIL_OVER, or an errno. */
static int wait_for_packet(const struct tail *tail)
{
	struct pollfd wanted[] = {
		{ .fd = tail->control->fd, .events = POLLIN },
		{ .fd = fileno(tail->ctl->output.file) }, /* POLLERR: a pipe without a reader */
	};
	uint64_t now = now_ms();
	uint64_t left = tail->deadline > now ? tail->deadline - now : 0;
	int timeout = tail->deadline == 0 ? -1 : (int)MIN(left, (uint64_t)INT32_MAX);
	int n = poll(wanted, ARRAY_SIZE(wanted), timeout);

	if (n < 0)
		return -errno;
	if (n == 0 || wanted[1].revents & (POLLERR | POLLNVAL))
		return TAIL_OVER;
	return TAIL_PACKET;
}

static int follow(struct tail *tail)
{
	struct message message;
	int r;

	do {
		r = wait_for_packet(tail);
		if (r != TAIL_PACKET)
			return r < 0 ? r : 0;
		r = control_receive(tail->control, CONTROL_PATIENCE_MS, &message);
		if (r == 0 && message.kind != KIND_ROWS)
			r = -EBADMSG;
		if (r == 0)
			r = record_view_rows(&tail->view, message.body);
		if (r < 0)
			return r;
	} while (message.flags & WIRE_MORE && !record_view_done(&tail->view));
	return 0;
}

static int tail_connected(struct ctl *ctl, struct tail *tail)
{
	int flags = (tail->past ? TAIL_PAST : 0) | (tail->no_follow ? TAIL_NO_FOLLOW : 0);
	int r;

	r = control_ask_strings(tail->control, KIND_TAIL, (uint16_t)flags, (const char *const *)ctl->argv,
				(size_t)ctl->argc);
	if (r == 0)
		r = follow(tail);
	if (r == 0)
		return ctl_finish(ctl);
	if (ferror(ctl->output.file))
		return ctl_output_failed(r);
	return control_explain(ctl->control_socket, r, tail->control);
}

static int tail_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct tail tail = { .ctl = ctl, .view = { .output = &ctl->output } };
	int r = EXIT_DONE;

	read_tail_options(ctl, &tail);
	/* What was recorded may be of events that nobody holds any more. */
	if (!tail.past && !tail.wait && ctl->argc > 0)
		r = names_check(ctl, ctl->argv, ctl->argc, true);
	if (r == EXIT_DONE)
		r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	tail.control = control;
	if (ctl->argc == 0 && !tail.no_follow && !names_any_on(ctl))
		ctl_note("No event is on: name those that you want to see, or switch some on with 'userevctl enable'.");
	r = tail_connected(ctl, &tail);
	record_view_deinit(&tail.view);
	if (r == EXIT_DONE && tail.no_follow && tail.view.records == 0 && ctl->argc > 0)
		r = names_check(ctl, ctl->argv, ctl->argc, true);
	return r;
}

static const struct ctl_option tail_options[] = {
	{ "past", NULL, "first what is still kept of the past", OPTION_PAST },
	{ "no-follow", NULL, "end where the present begins", OPTION_NO_FOLLOW },
	{ "count", "N", "end after N records", OPTION_COUNT },
	{ "timeout", "SECONDS", "end after so long", OPTION_TIMEOUT },
	{ "wait", NULL, "for events that no program holds yet", OPTION_WAIT },
	{ "full", NULL, "do not shorten tenants on a terminal", OPTION_FULL },
	{ 0 },
};

const struct command command_enable = {
	.name = "enable",
	.arguments = "EVENT...",
	.summary = "switch events on, until 'disable'",
	.help = "Switches events on: programs write their records from now on. EVENT is a name\n"
		"or a pattern with *, ? and [...]. Nothing is switched if one of them matches no\n"
		"event.",
	.run = enable_run,
};

const struct command command_disable = {
	.name = "disable",
	.arguments = "EVENT...",
	.summary = "switch events off again",
	.help = "Switches events off again. One that a 'userevctl tail' wants stays on until\n"
		"that ends.",
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
