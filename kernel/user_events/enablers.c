/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/enablers.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/enabler.h"
#include "kernel/user_events/inheritance.h"
#include "kernel/user_events/placement.h"
#include "kernel/user_events/stream.h"
#include "protocol/base/cursor.h"
#include "protocol/transport.h"

/*
 * If an enabler process dies (most likely by the kernel's OOM killer) its bits are frozen. It is replaced at once, and when its events
 * are registered again on the same bits the kernel brings these up to date. An idle process has no bits, and is replaced when it is needed.
 */

_Static_assert((int)AT_ONCE == (int)ENABLER_BATCH_MAX, "one request");

enum {
	/* For each enabler that is added the kernel walks all enablers of the process: at most 1,024, and fewer are faster. */
	ENABLERS_MAX = 512,
	/* Requests that one process has in its socket, so that it never waits for us; their answers fit into its socket as well. */
	REQUESTS_MAX = 16,
	TIMEOUT = 60, /* seconds for one answer; then the process is replaced */
};

/* --- processes --- */

/* Kills it. enablers_dispatch() sees its end, and replaces it. */
static void enabler_break(struct enabler_process *process)
{
	process->broken = true;
	if (process->pid > 0)
		kill(process->pid, SIGKILL);
}

static void enabler_reap(struct enabler_process *process)
{
	enabler_break(process);
	if (process->pid > 0)
		waitpid(process->pid, NULL, 0);
	process->pid = 0;
}

static int enabler_start(struct user_events *user_events, struct enabler_process *process)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = process };
	int fd, r = spawner_spawn(&user_events->spawner, TIMEOUT, &fd, &process->pid);

	if (r < 0)
		return r;
	fd_close(process->fd);
	process->fd = fd;
	process->broken = false;
	if (epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	r = -errno;
	process->fd = fd_close(fd);
	enabler_reap(process);
	return r;
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
	TAILQ_INIT(&process->asked);
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	*ret = process;
	return 0;
}

static void enabler_free(struct user_events *user_events, struct enabler_process *process)
{
	LIST_REMOVE(process, entry);
	if (user_events->filling == process)
		user_events->filling = NULL;
	process->fd = fd_close(process->fd);
	enabler_reap(process);
	free(process);
}

static unsigned count_idle(const struct user_events *user_events)
{
	const struct enabler_process *process;
	unsigned n = 0;

	LIST_FOREACH(process, &user_events->enablers, entry)
		n += process->enablers == 0;
	return n;
}

void enablers_init(struct user_events *user_events)
{
	struct enabler_process *process;

	/* If that fails, a process is started when it is needed. */
	(void)enabler_new(user_events, &process);
}

static bool enabler_has_room(const struct enabler_process *process)
{
	return process && !process->broken && process->enablers < ENABLERS_MAX;
}

/* Takes the process of the last event, or the oldest with room. */
int enablers_add(struct user_events *user_events, struct holding *holding)
{
	struct enabler_process *process, *found = user_events->filling;
	int r = 0;

	if (!enabler_has_room(found)) {
		found = NULL;
		LIST_FOREACH(process, &user_events->enablers, entry)
			if (enabler_has_room(process))
				found = process;
	}
	if (!found)
		r = enabler_new(user_events, &found);
	if (r < 0)
		return r;
	user_events->filling = found;
	holding->process = found;
	found->enablers++;
	LIST_INSERT_HEAD(&found->holdings, holding, in_process);
	return 0;
}

/* One idle process is enough. */
void enablers_remove(struct user_events *user_events, struct holding *holding)
{
	struct enabler_process *process = holding->process;

	LIST_REMOVE(holding, in_process);
	holding->process = NULL;
	holding->enabled = false;
	process->enablers--;
	if (process->enablers == 0 && (process->broken || count_idle(user_events) > 1))
		enabler_free(user_events, process);
}

void enablers_free(struct user_events *user_events)
{
	while (!LIST_EMPTY(&user_events->enablers))
		enabler_free(user_events, LIST_FIRST(&user_events->enablers));
	spawner_end(&user_events->spawner);
}

/* --- requests --- */

/* Sends a request about holdings of one page, lending the process a data file. */
static int enabler_send(const struct enabler_process *process, enum enabler_kind kind, struct holding *const *holdings,
			size_t n, int file)
{
	static uint8_t buffer[ENABLER_PACKET_MAX];
	const struct event_page *page = holdings[0]->page;
	const struct enabler_request request = { .kind = kind, .page = page->id, .count = (uint32_t)n };
	const int fds[] = { file, page->fd };
	struct packet packet = packet_make(buffer, sizeof(buffer));

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
	if (packet.failed)
		return -E2BIG;
	if (process->broken)
		return -EPIPE;
	return transport_send(process->fd, packet.data, packet.size, fds, kind == ENABLER_REGISTER ? 2 : 1, 0);
}

static void remove_asked(struct enabler_process *process, struct placement *placement)
{
	TAILQ_REMOVE(&process->asked, placement, entry);
	process->n_asked--;
}

/* The answer to the oldest placement. */
static int enabler_take_answer(struct user_events *user_events, struct enabler_process *process, int flags)
{
	struct placement *placement = TAILQ_FIRST(&process->asked);
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = answer_receive(process->fd, answers, placement->n * sizeof(answers[0]), flags);

	if (r < 0)
		return r;
	for (size_t i = 0; i < placement->n; i++) {
		struct holding *holding = placement->holdings[i];

		placement->calls[i]->result = answers[i].result;
		holding->enabled = answers[i].result == 0;
		/* An index on a file of our own means nothing. */
		if (placement->file >= 0)
			continue;
		holding->first.index = answers[i].index;
		if (answers[i].result == 0)
			stream_note_index(placement->stream, answers[i].index);
	}
	remove_asked(process, placement);
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
	return 0;
}

/* Until `left` placements have no answer. */
static int enabler_take_answers(struct user_events *user_events, struct enabler_process *process, unsigned left)
{
	int r = 0;

	while (r == 0 && process->n_asked > left)
		r = enabler_take_answer(user_events, process, 0);
	return r;
}

/*
 * Waits for the answers. After a failure the process's next answer could belong to this request, so the process is replaced, except after
 * -ETOOMANYREFS: then the request was not sent.
 */
static int enabler_ask(struct user_events *user_events, struct enabler_process *process, enum enabler_kind kind,
		       struct holding *const *holdings, size_t n, int file)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = enabler_take_answers(user_events, process, 0);

	if (r == 0)
		r = enabler_send(process, kind, holdings, n, file);
	if (r == 0)
		r = answer_receive(process->fd, answers, n * sizeof(answers[0]), 0);
	if (r < 0 && r != -ETOOMANYREFS)
		enabler_break(process);
	for (size_t i = 0; i < n && r == 0; i++)
		r = answers[i].result;
	return r;
}

static void refuse_asked(struct user_events *user_events, struct enabler_process *process, struct placement *placement,
			 int error)
{
	remove_asked(process, placement);
	/* The events may be on the file nevertheless. */
	placement->stream->fresh += (uint32_t)placement->n;
	placement_refuse(user_events, placement, error);
}

/* If the process can't take it, its successor gets it. */
static void send_placement(struct user_events *user_events, struct placement *placement)
{
	struct enabler_process *process = placement->process;
	int r = enabler_send(process, ENABLER_REGISTER, placement->holdings, placement->n, placement_file(placement));

	if (r < 0 && (r == -ETOOMANYREFS || process->fd < 0))
		refuse_asked(user_events, process, placement, r);
	else if (r < 0)
		enabler_break(process);
}

void enablers_register(struct user_events *user_events, struct placement *placement)
{
	struct enabler_process *process = placement->process;

	if (enabler_take_answers(user_events, process, REQUESTS_MAX - 1) < 0)
		enabler_break(process);
	TAILQ_INSERT_TAIL(&process->asked, placement, entry);
	process->n_asked++;
	send_placement(user_events, placement);
}

void enablers_clear(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	/* Neighbours are mostly in one process. */
	for (size_t i = 0, same; i < n; i += same) {
		struct enabler_process *process = holdings[i]->process;

		for (same = 1; i + same < n && holdings[i + same]->process == process; same++)
			;
		/* A dead process has no enablers any more; enablers_dispatch() replaces it. */
		(void)enabler_ask(user_events, process, ENABLER_REMOVE, holdings + i, same, user_events->data);
	}
}

/* --- processes that died --- */

/* Registers the same events on the same bits, through a file of our own that is closed afterwards. */
static int restore_batch(struct user_events *user_events, struct enabler_process *process,
			 struct holding *const *holdings, size_t n)
{
	_cleanup_(fd_closep) int data = data_file_open(&user_events->mounts);

	return data < 0 ? data : enabler_ask(user_events, process, ENABLER_REGISTER, holdings, n, data);
}

static int restore_enablers(struct user_events *user_events, struct enabler_process *process)
{
	struct holding *batch[ENABLER_BATCH_MAX], *holding;
	size_t n = 0;
	int r = 0;

	LIST_FOREACH(holding, &process->holdings, in_process) {
		if (!holding->enabled)
			continue;
		if (n == ENABLER_BATCH_MAX || (n > 0 && batch[0]->page != holding->page)) {
			r = restore_batch(user_events, process, batch, n);
			n = 0;
		}
		if (r < 0)
			return r;
		batch[n++] = holding;
	}
	return n > 0 ? restore_batch(user_events, process, batch, n) : 0;
}

/* Sends again what the dead process has not answered. A placement that two processes have died with is not sent to a third. */
static void enabler_ask_again(struct user_events *user_events, struct enabler_process *process, int error)
{
	struct placement *placement, *next;

	for (placement = TAILQ_FIRST(&process->asked); placement; placement = next) {
		next = TAILQ_NEXT(placement, entry);
		if (placement->again || error < 0) {
			refuse_asked(user_events, process, placement, error < 0 ? error : -EPIPE);
			continue;
		}
		placement->again = true;
		send_placement(user_events, placement);
	}
}

/* Starts a new process in its place. A negative errno if bits stay frozen. */
static int enabler_replace(struct user_events *user_events, struct enabler_process *process)
{
	struct placement_queue asked = TAILQ_HEAD_INITIALIZER(asked);
	const struct holding *holding;
	unsigned n_asked = process->n_asked;
	int r;

	/* The earlier events come first. */
	TAILQ_CONCAT(&asked, &process->asked, entry);
	process->n_asked = 0;
	enabler_reap(process);
	r = enabler_start(user_events, process);
	if (r == 0)
		r = restore_enablers(user_events, process);
	if (r < 0) {
		enabler_break(process);
		process->fd = fd_close(process->fd);
	}
	TAILQ_CONCAT(&process->asked, &asked, entry);
	process->n_asked = n_asked;
	enabler_ask_again(user_events, process, r);
	LIST_FOREACH(holding, &process->holdings, in_process)
		if (holding->enabled)
			return r;
	return 0;
}

/* Takes its answers. If nothing was asked the process has died: it sends nothing else. */
static int enabler_serve(struct user_events *user_events, struct enabler_process *process)
{
	int r = process->n_asked > 0 ? 0 : -EPIPE;

	while (r == 0 && process->n_asked > 0)
		r = enabler_take_answer(user_events, process, MSG_DONTWAIT);
	if (r == 0 || r == -EAGAIN)
		return 0;
	if (process->enablers > 0)
		return enabler_replace(user_events, process);
	enabler_free(user_events, process);
	return 0;
}

/* How many processes and timers were ready, or a negative errno. */
static int enablers_poll(struct user_events *user_events, int timeout)
{
	struct epoll_event ready[16];
	int n, r = 0;

	do
		n = epoll_wait(user_events->kernel.fd, ready, ARRAY_SIZE(ready), timeout);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n && r == 0; i++) {
		if (ready[i].data.ptr) {
			r = enabler_serve(user_events, ready[i].data.ptr);
			continue;
		}
		/* A timer, which would keep the epoll readable while we wait. Its work is done when it expires again. */
		(void)inheritance_is_due(user_events);
		page_files_dispatch(&user_events->files);
	}
	return r < 0 ? r : n;
}

int enablers_dispatch(struct user_events *user_events)
{
	int r;

	while ((r = enablers_poll(user_events, 0)) > 0)
		;
	return r;
}

void enablers_wait(struct user_events *user_events)
{
	int r = enablers_poll(user_events, TIMEOUT * 1000);
	struct enabler_process *process;

	LIST_FOREACH(process, &user_events->enablers, entry) {
		/* No process has answered in time. */
		if (r == 0 && process->n_asked > 0)
			enabler_break(process);
		/* The keeper can't go on; enablers_dispatch() returns the error. */
		while (r < 0 && !TAILQ_EMPTY(&process->asked))
			refuse_asked(user_events, process, TAILQ_FIRST(&process->asked), r);
	}
}
