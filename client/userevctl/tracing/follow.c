/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A tail has an instance of its own: the buffers, clocks and switches of other tracers stay as they are, and its events are
 * off again when the instance is removed.
 */

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "client/userevctl/tracing/tracefs.h"

volatile sig_atomic_t follower_stopped;

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static struct sigaction before[ARRAY_SIZE(stopping)];

static void on_stop(int number)
{
	follower_stopped = number;
}

static void follower_print_record(struct follower *follower, struct record_view *view,
				  const struct buffer_record *record, uint64_t now, uint64_t wall)
{
	const char *name, *fields = NULL;
	const struct follower_event *event;
	const struct writer *writer;
	const struct ring_entry *entry = record->entry;

	event = follower->by_type[entry->type];
	if (event)
		name = event->event.name;
	else if (!follower->kernel_events ||
		 !kernel_events_read(follower->kernel_events, entry->payload - RING_COMMON, entry->size + RING_COMMON,
				     view->output->json, &name, &fields))
		return;
	writer = writers_find(follower, (uint64_t)entry->pid, now);
	record_view_put(view, &(struct taken_record){
				      .time = record->time + wall,
				      .pid = (uint64_t)entry->pid,
				      .uid = writer->uid,
				      .comm = writer->comm,
				      .tenant = writer->tenant ? writer->tenant : "",
				      .name = name,
				      .description = event ? event->description : "",
				      .fields = fields,
				      .payload = entry->payload,
				      .size = entry->size,
				      .event_version = event ? event->version : 0,
				      .writer_version = writer->version,
			      });
}

int follower_drain(struct follower *follower, struct record_view *view)
{
	uint64_t horizon = ctl_now_ns(), wall;
	struct buffer_record record;
	struct timespec now;

	/* The wall clock may be set at any time: so read the offset from the trace clock again. */
	clock_gettime(CLOCK_REALTIME, &now);
	wall = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - ctl_now_ns();
	/* The two readings are not at the same moment: while no one sets the clock, times stay in order. */
	if (wall - follower->wall + NS_PER_MS > 2 * NS_PER_MS)
		follower->wall = wall;
	wall = follower->wall;
	while (!record_view_done(view) && !follower_stopped && !ferror_unlocked(view->output->file) &&
	       buffers_next(follower, horizon, &record)) {
		if (record.missed > 0)
			record_view_missed(view, record.missed);
		if (record.entry)
			follower_print_record(follower, view, &record, horizon, wall);
	}
	/* After a signal a flush to a pipe that is full would block. */
	return follower_stopped ? 0 : record_view_flush(view);
}

struct follower *follower_new(struct tracing *tracing)
{
	struct follower *follower = tracing->follower = must(calloc(1, sizeof(*follower)));

	follower->tracing = tracing;
	/* Without SA_RESTART, so that a write to a pipe ends, too. An ignored signal stays ignored. */
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		if (sigaction(stopping[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
			sigaction(stopping[i], &(struct sigaction){ .sa_handler = on_stop }, NULL);
	return follower;
}

int follower_begin(struct tracing *tracing, uint16_t flags)
{
	struct follower *follower;
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
	follower = follower_new(tracing);
	r = instance_make(&follower->instance);
	if (r == 0)
		r = buffers_open(follower, "trace_pipe_raw");
	/* Readable when any CPU has a record; nothing is read from it. */
	if (r == 0)
		tracing->fd =
			tracefs_instance_file_open(follower->instance, "trace_pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (r == 0 && tracing->fd < 0)
		r = -errno;
	if (r < 0)
		return tracefs_explain("make an instance in tracefs", r);
	return look_now(follower, NULL);
}

int follower_read(struct tracing *tracing, struct record_view *view)
{
	struct follower *follower = tracing->follower;
	int r = EXIT_DONE;

	if (!follower_stopped && ctl_now_ns() >= tracing->due)
		r = look_now(follower, view);
	if (r == EXIT_DONE && !follower_stopped) {
		int error = follower_drain(follower, view);

		if (error < 0 && !follower_stopped)
			r = ctl_output_failed(error);
		tracing->over = error < 0;
	}
	if (follower_stopped) {
		tracing->over = true;
		tracing->ctl->signal = follower_stopped;
	}
	return r;
}

struct follower *follower_free(struct follower *follower)
{
	struct follower_event *event, *next;
	char name[64];
	int r;

	if (!follower)
		return NULL;
	buffers_close(follower);
	follower->tracing->fd = fd_close(follower->tracing->fd);
	if (follower->instance) {
		string_copy(name, sizeof(name), tracefs_instance_get_name(follower->instance));
		r = instance_remove(follower->instance);
		if (r < 0)
			ctl_error(
				"cannot remove the instance %s of tracefs: %s. The next 'userevctl tail' tries again.",
				name, strerror(-r));
	}
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		sigaction(stopping[i], &before[i], NULL);
	writers_deinit(follower);
	kernel_events_free(follower->kernel_events);
	HASH_ITER(by_shown, follower->events, event, next) {
		HASH_DELETE(by_shown, follower->events, event);
		free(event->event.shown);
		free(event->event.name);
		free(event);
	}
	free(follower->status);
	free(follower->set_event);
	free(follower);
	return NULL;
}
