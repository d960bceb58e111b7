/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/enablers.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/enabler.h"
#include "kernel/user_events/stream.h"
#include "protocol/base/cursor.h"
#include "protocol/transport.h"

/*
 * The keeper waits for each answer: the kernel registers one event after the other anyway, and the daemon goes on working meanwhile.
 *
 * If an enabler process dies (most likely by the kernel's OOM killer) its bits are frozen. It is replaced at once, and when its events
 * are registered again on the same bits the kernel brings these up to date. An idle process has no bits, and is replaced when it is needed.
 */

_Static_assert((int)AT_ONCE == (int)ENABLER_BATCH_MAX, "one request");

enum {
	/* For each enabler that is added the kernel walks all enablers of the process: at most 1,024, and fewer are faster. */
	ENABLERS_MAX = 512,
	TIMEOUT = 60, /* seconds for one answer; then the process is replaced */
};

/* --- processes --- */

static void enabler_reap(struct enabler_process *process)
{
	if (process->pid > 0) {
		kill(process->pid, SIGKILL);
		waitpid(process->pid, NULL, 0);
	}
	process->pid = 0;
}

/* A process that has died keeps its socket until there is a new one, so that enablers_dispatch() notices it. */
static int enabler_start(struct user_events *user_events, struct enabler_process *process)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = process };
	_cleanup_(fd_closep) int fd = -1;
	int r;

	enabler_reap(process);
	r = spawner_spawn(&user_events->spawner, TIMEOUT, &fd, &process->pid);
	if (r < 0)
		return r;
	if (epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		r = -errno;
		enabler_reap(process);
		return r;
	}
	fd_close(process->fd);
	process->fd = fd_steal(&fd);
	return 0;
}

static int enabler_new(struct user_events *user_events, struct enabler_process **ret)
{
	struct enabler_process *process = keeper_allocate(sizeof(*process));
	int r;

	process->fd = -1;
	r = enabler_start(user_events, process);
	if (r < 0) {
		free(process);
		return r;
	}
	LIST_INIT(&process->holdings);
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	*ret = process;
	return 0;
}

static void enabler_free(struct enabler_process *process)
{
	LIST_REMOVE(process, entry);
	fd_close(process->fd);
	enabler_reap(process);
	free(process);
}

void enablers_init(struct user_events *user_events)
{
	struct enabler_process *process;

	/* If that fails, a process is started when it is needed. */
	(void)enabler_new(user_events, &process);
}

/* The first process with room becomes the first of all: it gets the next events, too. */
int enablers_add(struct user_events *user_events, struct holding *holding)
{
	struct enabler_process *process;
	int r = 0;

	LIST_FOREACH(process, &user_events->enablers, entry)
		if (process->enablers < ENABLERS_MAX)
			break;
	if (!process)
		r = enabler_new(user_events, &process);
	if (r < 0)
		return r;
	LIST_REMOVE(process, entry);
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	holding->process = process;
	process->enablers++;
	LIST_INSERT_HEAD(&process->holdings, holding, in_process);
	return 0;
}

/* One idle process is enough. */
void enablers_remove(struct user_events *user_events, struct holding *holding)
{
	struct enabler_process *process = holding->process, *other;

	LIST_REMOVE(holding, in_process);
	if (--process->enablers > 0)
		return;
	LIST_FOREACH(other, &user_events->enablers, entry)
		if (other != process && other->enablers == 0)
			break;
	if (other)
		enabler_free(process);
}

void enablers_free(struct user_events *user_events)
{
	while (!LIST_EMPTY(&user_events->enablers))
		enabler_free(LIST_FIRST(&user_events->enablers));
	spawner_end(&user_events->spawner);
}

/* --- requests --- */

/* A request about holdings of one page, for which the process gets a data file; and its answers. */
static int enabler_exchange(const struct enabler_process *process, enum enabler_kind kind,
			    struct holding *const *holdings, size_t n, int file, struct enabler_answer *answers)
{
	static uint8_t buffer[ENABLER_PACKET_MAX];
	const struct event_page *page = holdings[0]->page;
	const struct enabler_request request = { .kind = kind, .page = page->id, .count = (uint32_t)n };
	const int fds[] = { file, page->fd };
	struct packet packet = packet_make(buffer, sizeof(buffer));
	int r;

	packet_put(&packet, &request, sizeof(request));
	for (size_t i = 0; i < n; i++) {
		const struct enabler_item item = {
			.bit = holdings[i]->bit,
			.flags = holdings[i]->flags,
			.text_length = kind == ENABLER_REGISTER ? holdings[i]->text_length : 0,
		};

		packet_put(&packet, &item, sizeof(item));
		packet_put_padded(&packet, holdings[i]->text, item.text_length);
	}
	r = transport_send(process->fd, packet.data, packet.size, fds, kind == ENABLER_REGISTER ? 2 : 1, 0);
	return r < 0 ? r : answer_receive(process->fd, answers, n * sizeof(answers[0]));
}

/* Registers the same events on the same bits, through a file of our own that is closed afterwards. */
static int restore_batch(struct user_events *user_events, struct enabler_process *process,
			 struct holding *const *holdings, size_t n)
{
	_cleanup_(fd_closep) int data = n > 0 ? data_file_open(&user_events->mounts) : -1;
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = n == 0 ? 0 : data < 0 ? data : enabler_exchange(process, ENABLER_REGISTER, holdings, n, data, answers);

	for (size_t i = 0; i < n && r == 0; i++)
		r = answers[i].result;
	return r;
}

/* Starts a new process in its place. After a failure enablers_dispatch() tries again, and the keeper ends if that fails, too. */
static int enabler_replace(struct user_events *user_events, struct enabler_process *process)
{
	struct holding *batch[ENABLER_BATCH_MAX], *holding;
	int r = enabler_start(user_events, process);
	size_t n = 0;

	LIST_FOREACH(holding, &process->holdings, in_process) {
		if (!holding->placed)
			continue;
		if (n == ENABLER_BATCH_MAX || (n > 0 && batch[0]->page != holding->page)) {
			r = r < 0 ? r : restore_batch(user_events, process, batch, n);
			n = 0;
		}
		batch[n++] = holding;
	}
	r = r < 0 ? r : restore_batch(user_events, process, batch, n);
	if (r < 0)
		enabler_reap(process);
	return r;
}

/*
 * If the process has died, or does not answer, its successor gets the request; no third process does. After -ETOOMANYREFS the request
 * was not sent.
 */
static int enabler_ask(struct user_events *user_events, struct enabler_process *process, enum enabler_kind kind,
		       struct holding *const *holdings, size_t n, int file, struct enabler_answer *answers)
{
	int r = enabler_exchange(process, kind, holdings, n, file, answers);

	if (r == 0 || r == -ETOOMANYREFS)
		return r;
	r = enabler_replace(user_events, process);
	if (r < 0)
		return r;
	r = enabler_exchange(process, kind, holdings, n, file, answers);
	/* Its next answer could belong to this request. */
	if (r < 0 && r != -ETOOMANYREFS)
		enabler_reap(process);
	return r;
}

void enablers_register(struct user_events *user_events, struct placement *placement, int file)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = enabler_ask(user_events, placement->holdings[0]->process, ENABLER_REGISTER, placement->holdings,
			    placement->n, file, answers);

	for (size_t i = 0; i < placement->n; i++) {
		placement->calls[i]->result = r < 0 ? r : answers[i].result;
		/* An index on a file of our own means nothing. */
		if (file != placement->stream->fd)
			continue;
		/* After a failure the events may be on the file nevertheless. */
		if (r < 0)
			placement->stream->next_index++;
		else if (answers[i].result == 0)
			stream_note_index(placement->stream, answers[i].index);
		placement->holdings[i]->first.index = r < 0 ? 0 : answers[i].index;
	}
}

void enablers_clear(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX];

	/* Neighbours are mostly in one process. */
	for (size_t i = 0, same; i < n; i += same) {
		struct enabler_process *process = holdings[i]->process;

		for (same = 1; i + same < n && holdings[i + same]->process == process; same++)
			;
		(void)enabler_ask(user_events, process, ENABLER_REMOVE, holdings + i, same, user_events->data, answers);
	}
}

/* A process sends nothing but answers, so each that is ready has died. */
int enablers_dispatch(struct user_events *user_events)
{
	struct epoll_event ready[16];
	int n = epoll_wait(user_events->kernel.fd, ready, ARRAY_SIZE(ready), 0), r = 0;

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n && r == 0; i++) {
		struct enabler_process *process = ready[i].data.ptr;

		/* Timers have none. */
		if (process && process->enablers > 0)
			r = enabler_replace(user_events, process);
		else if (process)
			enabler_free(process);
	}
	return r;
}
