/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A tail has an instance of its own: other tracers' buffers, clocks and switches are not touched, and what it switches
 * on is off again when the instance has gone.
 */

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include "client/userevctl/tracing/tail.h"

enum { RECORD_HEADER = 8 };

/* The wall's time less the trace clock's, now: it follows whoever sets the wall's. */
static uint64_t wall_offset(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec - monotonic_ns();
}

static struct piece piece_of(const char *text)
{
	return (struct piece){ text, strlen(text) };
}

static void show(struct tail_session *session, struct record_view *view, const struct trace_record *record,
		 uint64_t wall)
{
	const struct tail_event *event;
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
	writer = writers_find(session->writers, (uint64_t)pid);
	record_view_put(view, &(struct taken_record){
				      .time = record->time + wall,
				      .pid = (uint64_t)pid,
				      .uid = writer->uid,
				      .uid_known = writer->uid_known,
				      .comm = piece_of(writer->comm),
				      .tenant = piece_of(writer->tenant),
				      .name = piece_of(event->name),
				      .description = piece_of(event->description),
				      .payload = { data + RECORD_HEADER, record->size - RECORD_HEADER },
			      });
}

int tail_drain(struct tail_session *session, struct record_view *view)
{
	uint64_t horizon = monotonic_ns(), wall = wall_offset();
	struct trace_record record;

	while (!record_view_done(view) && !tail_stopped && trace_buffers_next(session->buffers, horizon, &record)) {
		if (record.missed > 0)
			record_view_missed(view, record.missed);
		if (record.data)
			show(session, view, &record, wall);
	}
	session->tracefs->tracing.busy = trace_buffers_waiting(session->buffers);
	/* Whoever waits for a reader now, does so for ever. */
	return tail_stopped ? 0 : output_flush(view->output);
}

static void set_timer(const struct tail_session *session)
{
	uint64_t pause = tail_next_look(session);
	struct itimerspec time = {
		.it_value = { .tv_sec = (time_t)(pause / UINT64_C(1000000000)),
			      .tv_nsec = (long)(pause % UINT64_C(1000000000)) },
	};

	timerfd_settime(session->timer, 0, &time, NULL);
}

static int look_and_set_timer(struct tail_session *session, struct record_view *view)
{
	int r = tail_look(session, view);

	set_timer(session);
	return r;
}

/* For a pid that is new to us. */
static void ask_daemon(void *data)
{
	struct tail_session *session = data;
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	uint64_t now = monotonic_ns();
	int daemon;

	if (session->tracefs->tracing.no_daemon || now - session->asked < tail_next_look(session))
		return;
	session->asked = now;
	tracefs_catalogue(session->tracefs, NULL, 0, session->writers, &catalogue, &daemon);
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_files(struct tail_session *session)
{
	struct tracing *tracing = &session->tracefs->tracing;
	int r;

	session->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	tracing->fd = epoll_create1(EPOLL_CLOEXEC);
	if (session->stop < 0 || session->timer < 0 || tracing->fd < 0)
		return -errno;
	r = watch(tracing->fd, session->stop);
	return r < 0 ? r : watch(tracing->fd, session->timer);
}

static int start(struct tail_session *session)
{
	int r;

	r = tail_instance_make(session);
	if (r == 0)
		r = trace_buffers_open(session->instance, &session->buffers);
	if (r == 0)
		r = trace_buffers_watch(session->buffers, session->tracefs->tracing.fd);
	if (r < 0)
		return tracefs_explain("make an instance in tracefs", r);
	r = look_and_set_timer(session, NULL);
	if (r == EXIT_DONE && session->wish.n == 0 && !session->events)
		tracing_tell_none_is_on();
	return r;
}

static int refuse_past(void)
{
	ctl_error("--past: what the kernel still keeps cannot be read here without taking it from other tracers. See "
		  "'trace-cmd show' or /sys/kernel/tracing/trace, or begin a tail before the records are written.");
	return EXIT_REFUSED;
}

int tail_session_begin(struct tracefs_tracing *tracefs, const struct tail_wish *wish)
{
	struct tail_session *session;
	int r;

	if (wish->past)
		return refuse_past();
	/* The present begins at once. */
	if (wish->no_follow) {
		tracefs->tracing.over = true;
		return EXIT_DONE;
	}
	session = calloc(1, sizeof(*session));
	if (!session)
		return tracefs_explain("begin", -ENOMEM);
	tracefs->session = session;
	session->tracefs = tracefs;
	session->wish = *wish;
	session->timer = session->stop = -1;
	r = open_files(session);
	if (r == 0)
		r = writers_new(ask_daemon, session, &session->writers);
	if (r < 0)
		return tracefs_explain("begin", r);
	tail_signals_catch(session->stop);
	return start(session);
}

int tail_session_read(struct tracefs_tracing *tracefs, struct record_view *view)
{
	struct tail_session *session = tracefs->session;
	uint64_t expirations;
	int r = EXIT_DONE;

	if (!tail_stopped && read(session->timer, &expirations, sizeof(expirations)) > 0)
		r = look_and_set_timer(session, view);
	if (r == EXIT_DONE && !tail_stopped) {
		int error = tail_drain(session, view);

		if (error < 0 && !tail_stopped)
			r = ctl_output_failed(error);
		tracefs->tracing.over = error < 0;
	}
	if (tail_stopped) {
		tracefs->tracing.over = true;
		tracefs->tracing.signal = tail_stopped;
	}
	return r;
}

struct tail_session *tail_session_free(struct tail_session *session)
{
	struct tail_event *event, *next;

	if (!session)
		return NULL;
	trace_buffers_free(session->buffers);
	tail_instance_remove(session);
	tail_signals_release();
	session->tracefs->tracing.fd = fd_close(session->tracefs->tracing.fd);
	fd_close(session->timer);
	fd_close(session->stop);
	writers_free(session->writers);
	HASH_ITER(by_key, session->events, event, next) {
		HASH_DELETE(by_key, session->events, event);
		free(event);
	}
	free(session->status);
	free(session->set_event);
	free(session);
	return NULL;
}
