/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * session snapshot. The kernel exchanges the session's buffers for spare ones, in which the session goes on, and the records are read
 * from the others. A trigger does the same, and its snapshot waits until it is read here. A kernel without snapshots, and a tracer that needs
 * the spare buffers itself, leaves one way: the session stops while its own buffers are read.
 */

#include "client/userevctl/session/session.h"

#include <fcntl.h>
#include <unistd.h>

bool session_has_snapshot(struct tracefs_instance *instance, uint64_t *ret_lost)
{
	_cleanup_(fd_closep) int fd = tracefs_instance_file_open(instance, "snapshot", O_RDONLY | O_CLOEXEC);
	char head[8192]; /* the kernel formats no more than is read */
	size_t length = 0;
	ssize_t n = 1;

	*ret_lost = 0;
	while (fd >= 0 && n > 0 && length < sizeof(head) - 1) {
		n = read(fd, head + length, sizeof(head) - 1 - length);
		length += (size_t)MAX(n, (ssize_t)0);
	}
	head[length] = '\0';
	return text_read_snapshot(head, ret_lost);
}

enum { SYSTEMS_MAX = 256 };

/* Those that are on in the instance: their types in records. */
static void learn_events(struct session *session, struct follower *follower)
{
	/* Those of tracers, and of the trace_marker. */
	const char *systems[SYSTEMS_MAX + 2] = { "ftrace" };
	_cleanup_(freep) char *set_event = tracefs_instance_file_read(session->instance, "set_event", NULL);
	char *rest = set_event;
	size_t n = 1;

	for (char *name; (name = strsep(&rest, "\n"));) {
		const char *system = strsep(&name, ":"), *dot = name ? strrchr(name, '.') : NULL;
		const bool is_multi = dot && streq(system, "user_events_multi");
		_cleanup_(freep) char *base = is_multi ? must(strndup(name, (size_t)(dot - name))) : NULL;
		struct event event = { .shown = name, .name = base ? base : name, .system = system };

		if (!name)
			continue;
		if (strncmp(system, "user_events", strlen("user_events")) == 0)
			follower_learn_type(follower, follower_event_of(follower, &event));
		else if (n <= SYSTEMS_MAX && (n == 1 || !streq(systems[n - 1], system)))
			systems[n++] = system;
	}
	follower->kernel_events = kernel_events_load(systems);
}

/* 0; 1: a trigger has taken one; -EBUSY: the tracer has the spare buffers; or another negative errno. */
static int take_snapshot(struct session *session, uint64_t *ret_before, uint64_t *ret_behind)
{
	const bool taken = session_has_snapshot(session->instance, ret_before);
	struct buffer_stats stats;
	int r = 0;

	*ret_behind = 0;
	/* Otherwise the session would go on behind the old records. */
	if (taken && session->now)
		r = instance_write(session->instance, "snapshot", "2");
	if (r < 0 || (taken && !session->now))
		return r < 0 ? r : 1;
	session_sum_stats(session->instance, &stats);
	*ret_behind = stats.dropped;
	r = instance_write(session->instance, "snapshot", "1");
	session_has_snapshot(session->instance, ret_before);
	/* Some tracers' heads do not have the number. */
	*ret_before = MAX(*ret_before, stats.overrun);
	return r;
}

/* 0 or a negative errno; that of the output is in the view. */
static int print_records(struct session *session, struct record_view *view, const char *file)
{
	struct follower *follower = session->tracing->follower;
	int r = buffers_open(follower, file);

	if (r < 0)
		return r;
	learn_events(session, follower);
	view->output_error = follower_drain(follower, view);
	return 0;
}

static bool is_printed(const struct record_view *view, int r)
{
	return r == 0 && view->output_error == 0 && !follower_stopped;
}

static int print_snapshot(struct session *session, struct record_view *view)
{
	uint64_t before, behind;
	int r = take_snapshot(session, &before, &behind), taken = r;

	if (r < 0)
		return r;
	session->tracing->follower->is_snapshot = true;
	if (before > 0)
		record_view_missed(view, before);
	r = print_records(session, view, "snapshot_raw");
	if (taken)
		ctl_note(
			"userevctl: a trigger took this snapshot, or a command that did not read all of it. The next one "
			"has the records since.");
	/* If not everything was printed, the next command prints the remaining records. */
	if (is_printed(view, r)) {
		/* Those that came when the buffers were full of older ones. */
		if (behind > 0 && view->output->json)
			record_view_missed(view, behind);
		else if (behind > 0)
			ctl_note("userevctl: %s missed behind these: the buffers were full.",
				 plural(behind, "record is", "records are").text);
		instance_write(session->instance, "snapshot", "2");
	}
	return r;
}

/* After the output is closed: an enum exit_code. */
static int end_snapshot(struct session *session, const struct record_view *view, int r)
{
	if (r == -ENOMEM) {
		ctl_error("there is not enough memory for a snapshot, which takes as much as the session's buffers.");
		return EXIT_REFUSED;
	}
	if (r < 0)
		return tracefs_explain("take a snapshot", r);
	session->ctl->signal = follower_stopped;
	if (view->output_error < 0)
		return ctl_output_failed(view->output_error);
	ctl_note("userevctl: %s%s%s.", plural(view->records, "record", "records").text, session->output ? " in " : "",
		 session->output ? safe_string(session->output).text : "");
	return EXIT_DONE;
}

int session_snapshot(struct session *session)
{
	struct follower *follower = follower_new(session->tracing);
	struct output output = session->ctl->output;
	struct record_view view = { .output = &output };
	int r;

	if (session->tenants.n > 1) {
		ctl_error("snapshot: give one --tenant, which may be a pattern.");
		return EXIT_USAGE;
	}
	view.tenant = session->tenants.n > 0 ? session->tenants.text[0] : NULL;
	if (session->output) {
		FILE *file = fopen(session->output, "we");

		if (!file) {
			ctl_error("cannot write to %s: %s.", excerpt_of(session->output).text, strerror(errno));
			return EXIT_REFUSED;
		}
		output_open(&output, file);
	}
	follower->instance = session_instance(session->name);
	r = tracefs_file_exists(session->instance, "per_cpu/cpu0/snapshot_raw") ? print_snapshot(session, &view)
										: -EBUSY;
	if (r == -EBUSY) {
		_cleanup_(freep) char *on = tracefs_instance_file_read(session->instance, "tracing_on", NULL);

		r = instance_write(session->instance, "tracing_on", "0");
		if (r == 0)
			r = print_records(session, &view, "trace_pipe_raw");
		if (is_printed(&view, r))
			tracefs_instance_file_clear(session->instance, "trace");
		if (on && on[0] == '1')
			instance_write(session->instance, "tracing_on", "1");
	}
	if (view.output_error == 0 && !follower_stopped)
		view.output_error = output_flush(&output);
	if (session->output && fclose(output.file) != 0 && view.output_error == 0)
		view.output_error = -errno;
	/* It is not removed with the follower. */
	tracefs_instance_free(follower->instance);
	follower->instance = NULL;
	return end_snapshot(session, &view, r);
}
