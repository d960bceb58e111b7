/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A tail has an instance of its own: the buffers, clocks and switches of other tracers stay as they are, and its events are
 * off again when the instance is removed.
 */

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "client/userevctl/tracing/tracefs.h"

enum { RECORD_HEADER = 8 };

volatile sig_atomic_t session_stopped;

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static struct sigaction before[ARRAY_SIZE(stopping)];

static void on_stop(int number)
{
	session_stopped = number;
}

static void session_print_record(struct session *session, struct record_view *view, const struct buffer_record *record,
				 uint64_t wall)
{
	const struct session_event *event;
	const struct writer *writer;
	const uint8_t *data = record->data;
	uint16_t type;
	int32_t pid;

	if (record->size < RECORD_HEADER)
		return;
	memcpy(&type, data, sizeof(type));
	memcpy(&pid, data + 4, sizeof(pid));
	event = session->by_type[type];
	if (!event)
		return;
	writer = writers_find(session, (uint64_t)pid);
	record_view_put(view, &(struct taken_record){
				      .time = record->time + wall,
				      .pid = (uint64_t)pid,
				      .uid = writer->uid,
				      .comm = writer->comm,
				      .tenant = writer->tenant ? writer->tenant : "",
				      .name = event->event.name,
				      .description = event->description,
				      .payload = data + RECORD_HEADER,
				      .size = record->size - RECORD_HEADER,
			      });
}

int session_drain(struct session *session, struct record_view *view)
{
	uint64_t horizon = ctl_now_ns(), wall;
	struct buffer_record record;
	struct timespec now;

	/* The wall clock may be set at any time: so read the offset from the trace clock again. */
	clock_gettime(CLOCK_REALTIME, &now);
	wall = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - ctl_now_ns();
	/* The two readings are not at the same moment: while no one sets the clock, times stay in order. */
	if (wall - session->wall + NS_PER_MS > 2 * NS_PER_MS)
		session->wall = wall;
	wall = session->wall;
	while (!record_view_done(view) && !session_stopped && buffers_next(session, horizon, &record)) {
		if (record.missed > 0)
			record_view_missed(view, record.missed);
		if (record.data)
			session_print_record(session, view, &record, wall);
	}
	/* After a signal a flush to a pipe that is full would block. */
	return session_stopped ? 0 : record_view_flush(view);
}

void session_ask_daemon(struct session *session)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	uint64_t now = ctl_now_ns();

	if (session->tracing->no_daemon || now - session->asked < look_pause(session))
		return;
	session->asked = now;
	if (tracing_read(session->tracing, NULL, &catalogue) == 0)
		writers_learn(session, &catalogue);
}

int session_begin(struct tracing *tracing, uint16_t flags)
{
	struct session *session;
	int r;

	if (flags & TAIL_PAST) {
		ctl_error(
			"--past: records that the kernel keeps cannot be read without taking them from other tracers. See "
			"'trace-cmd show' or /sys/kernel/tracing/trace, or start a tail before the records are written.");
		return EXIT_REFUSED;
	}
	/* Without a past there is nothing to show before the present. */
	if (flags & TAIL_NO_FOLLOW) {
		tracing->over = true;
		return EXIT_DONE;
	}
	session = tracing->session = must(calloc(1, sizeof(*session)));
	session->tracing = tracing;
	/* Without SA_RESTART, so that a write to a pipe ends, too. An ignored signal stays ignored. */
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		if (sigaction(stopping[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
			sigaction(stopping[i], &(struct sigaction){ .sa_handler = on_stop }, NULL);
	r = instance_make(&session->instance);
	if (r == 0)
		r = buffers_open(session);
	/* Readable when any CPU has a record; nothing is read from it. */
	if (r == 0)
		tracing->fd =
			tracefs_instance_file_open(session->instance, "trace_pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (r == 0 && tracing->fd < 0)
		r = -errno;
	if (r < 0)
		return tracefs_explain("make an instance in tracefs", r);
	r = look_now(session, NULL);
	if (r == EXIT_DONE && tracing->n_patterns == 0 && !session->events)
		tail_note_none_is_on();
	return r;
}

int session_end(struct session *session, struct record_view *view)
{
	int r;

	for (struct session_event *event = session->events; event; event = event->by_shown.next) {
		if (event->on)
			tracefs_turn(session->instance, &event->event, false);
		event->on = false;
	}
	r = tracing_settle(session->tracing);
	session_stopped = 0;
	session_drain(session, view);
	return r;
}

int session_read(struct tracing *tracing, struct record_view *view)
{
	struct session *session = tracing->session;
	int r = EXIT_DONE;

	if (!session_stopped && ctl_now_ns() >= tracing->due)
		r = look_now(session, view);
	if (r == EXIT_DONE && !session_stopped) {
		int error = session_drain(session, view);

		if (error < 0 && !session_stopped)
			r = ctl_output_failed(error);
		tracing->over = error < 0;
	}
	if (session_stopped) {
		tracing->over = true;
		tracing->signal = session_stopped;
	}
	return r;
}

struct session *session_free(struct session *session)
{
	struct session_event *event, *next;
	char name[64];
	int r;

	if (!session)
		return NULL;
	buffers_close(session);
	session->tracing->fd = fd_close(session->tracing->fd);
	if (session->instance) {
		string_copy(name, sizeof(name), tracefs_instance_get_name(session->instance));
		r = instance_remove(session->instance);
		if (r < 0)
			ctl_error(
				"cannot remove the instance %s of tracefs: %s. The next 'userevctl tail' tries again.",
				name, strerror(-r));
	}
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		sigaction(stopping[i], &before[i], NULL);
	writers_deinit(session);
	HASH_ITER(by_shown, session->events, event, next) {
		HASH_DELETE(by_shown, session->events, event);
		free(event->event.shown);
		free(event->event.name);
		free(event);
	}
	free(session->status);
	free(session->set_event);
	free(session);
	return NULL;
}
