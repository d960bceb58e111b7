/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A tail has an instance of its own: the buffers, clocks and switches of other tracers stay as they are, and its events are
 * off again when the instance is removed.
 */

#include "client/userevctl/tracing/session.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

enum { RECORD_HEADER = 8 };

volatile sig_atomic_t session_stopped;

static int stop_fd = -1;
static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static struct sigaction before[ARRAY_SIZE(stopping)];

static void on_stop(int number)
{
	int saved = errno;
	uint64_t one = 1;

	session_stopped = number;
	if (write(stop_fd, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

/* An instance in use cannot be removed, so a pid that belongs to another namespace does no harm. */
static int remove_leftover(const char *name, void *data _unused_)
{
	uint64_t pid = text_instance_pid(name);
	struct tracefs_instance *instance;

	if (pid == 0 || (pid != (uint64_t)getpid() && (kill((pid_t)pid, 0) == 0 || errno != ESRCH)))
		return 0;
	instance = tracefs_instance_alloc(NULL, name);
	if (instance)
		tracefs_instance_destroy(instance);
	tracefs_instance_free(instance);
	return 0;
}

static int session_make_instance(struct session *session)
{
	/* A new instance inherits options of the top instance. Which of these files exist depends on the kernel. */
	static const struct {
		const char *file, *value;
	} settings[] = {
		{ "buffer_percent", "0" },	   { "options/overwrite", "1" },
		{ "options/record-cmd", "1" },	   { "options/stacktrace", "0" },
		{ "options/userstacktrace", "0" }, { "options/pause-on-trace", "0" },
		{ "options/event-fork", "0" },	   { "tracing_on", "1" },
	};
	char name[32];

	tracefs_instances_walk(remove_leftover, NULL);
	snprintf(name, sizeof(name), "userevctl-%d", (int)getpid());
	errno = 0;
	session->instance = tracefs_instance_create(name);
	if (!session->instance)
		return errno ? -errno : -EIO;
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (tracefs_file_exists(session->instance, settings[i].file))
			tracefs_instance_file_write(session->instance, settings[i].file, settings[i].value);
	errno = 0;
	if (tracefs_instance_file_write(session->instance, "trace_clock", "mono") < 0)
		return errno ? -errno : -EIO;
	return 0;
}

static struct piece piece_of(const char *text)
{
	return (struct piece){ text, strlen(text) };
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

int session_drain(struct session *session, struct record_view *view)
{
	uint64_t horizon = ctl_now_ns(), wall;
	struct buffer_record record;
	struct timespec now;

	/* The wall clock may be set at any time: the offset from the trace clock is read anew. */
	clock_gettime(CLOCK_REALTIME, &now);
	wall = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - ctl_now_ns();
	while (!record_view_done(view) && !session_stopped && buffers_next(session->buffers, horizon, &record)) {
		if (record.missed > 0)
			record_view_missed(view, record.missed);
		if (record.data)
			session_print_record(session, view, &record, wall);
	}
	session->tracefs->tracing.busy = buffers_waiting(session->buffers);
	/* After a signal a flush to a pipe that is full would block. */
	return session_stopped ? 0 : output_flush(view->output);
}

static int look_and_set_timer(struct session *session, struct record_view *view)
{
	int r = look_now(session, view);
	uint64_t pause = look_pause(session);
	const struct itimerspec time = {
		.it_value = { .tv_sec = (time_t)(pause / NS_PER_S), .tv_nsec = (long)(pause % NS_PER_S) },
	};

	timerfd_settime(session->timer, 0, &time, NULL);
	return r;
}

/* For a new pid. */
static void ask_daemon(void *data)
{
	struct session *session = data;
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	uint64_t now = ctl_now_ns();
	int daemon;

	if (session->tracefs->tracing.no_daemon || now - session->asked < look_pause(session))
		return;
	session->asked = now;
	tracefs_catalogue(session->tracefs, NULL, 0, session->writers, &catalogue, &daemon);
}

static int open_files(struct session *session)
{
	struct tracing *tracing = &session->tracefs->tracing;
	struct epoll_event event = { .events = EPOLLIN };

	session->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	tracing->fd = epoll_create1(EPOLL_CLOEXEC);
	if (session->stop < 0 || session->timer < 0 || tracing->fd < 0 ||
	    epoll_ctl(tracing->fd, EPOLL_CTL_ADD, session->stop, &event) < 0 ||
	    epoll_ctl(tracing->fd, EPOLL_CTL_ADD, session->timer, &event) < 0)
		return -errno;
	return writers_new(ask_daemon, session, &session->writers);
}

int session_begin(struct tracing *tracing, const struct tail_request *request)
{
	const struct sigaction action = { .sa_handler = on_stop };
	struct session *session;
	int r;

	if (request->past) {
		ctl_error(
			"--past: records that the kernel keeps cannot be read without taking them from other tracers. See "
			"'trace-cmd show' or /sys/kernel/tracing/trace, or start a tail before the records are written.");
		return EXIT_REFUSED;
	}
	/* Without a past there is nothing to show before the present. */
	if (request->no_follow) {
		tracing->over = true;
		return EXIT_DONE;
	}
	session = calloc(1, sizeof(*session));
	if (!session)
		return tracefs_explain("begin", -ENOMEM);
	tracefs_of(tracing)->session = session;
	session->tracefs = tracefs_of(tracing);
	session->request = *request;
	session->timer = session->stop = -1;
	r = open_files(session);
	if (r < 0)
		return tracefs_explain("begin", r);
	/* Without SA_RESTART, so that a write to a pipe ends, too. An ignored signal stays ignored. */
	stop_fd = session->stop;
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		if (sigaction(stopping[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
			sigaction(stopping[i], &action, NULL);
	r = session_make_instance(session);
	if (r == 0)
		r = buffers_open(session->instance, &session->buffers);
	if (r == 0)
		r = buffers_watch(session->buffers, tracing->fd);
	if (r < 0)
		return tracefs_explain("make an instance in tracefs", r);
	r = look_and_set_timer(session, NULL);
	if (r == EXIT_DONE && request->n == 0 && !session->events)
		tracing_note_none_is_on();
	return r;
}

int session_read(struct tracing *tracing, struct record_view *view)
{
	struct session *session = tracefs_of(tracing)->session;
	uint64_t expirations;
	int r = EXIT_DONE;

	if (!session_stopped && read(session->timer, &expirations, sizeof(expirations)) > 0)
		r = look_and_set_timer(session, view);
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

	if (!session)
		return NULL;
	buffers_free(session->buffers);
	errno = 0;
	if (session->instance && tracefs_instance_destroy(session->instance) < 0)
		ctl_error("cannot remove the instance %s of tracefs: %s. The next 'userevctl tail' tries again.",
			  tracefs_instance_get_name(session->instance), strerror(errno));
	tracefs_instance_free(session->instance);
	for (size_t i = 0; i < ARRAY_SIZE(stopping) && stop_fd >= 0; i++)
		sigaction(stopping[i], &before[i], NULL);
	stop_fd = -1;
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
