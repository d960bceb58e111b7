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
 * If an enabler process dies (most likely by the kernel's OOM killer) its bits are frozen, so the keeper ends. The daemon gives all events
 * to the next keeper; when they are registered again on the same bits the kernel brings these up to date.
 */

_Static_assert((int)AT_ONCE == (int)ENABLER_BATCH_MAX, "one request");

enum {
	/* For each enabler that is added the kernel walks all enablers of the process: at most 1,024, and fewer are faster. */
	ENABLERS_MAX = 512,
	TIMEOUT = 60, /* seconds for one answer; then the keeper ends */
};

/* --- processes --- */

static void enabler_free(struct enabler_process *process)
{
	LIST_REMOVE(process, entry);
	fd_close(process->fd);
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	free(process);
}

int enablers_start(struct user_events *user_events)
{
	struct enabler_process *process = keeper_allocate(sizeof(*process));
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = process };
	int r = spawner_spawn(&user_events->spawner, TIMEOUT, &process->fd, &process->pid);

	if (r < 0) {
		free(process);
		return r;
	}
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	if (epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, process->fd, &event) < 0) {
		r = -errno;
		enabler_free(process);
	}
	return r;
}

/* The first process with room becomes the first of all: it gets the next events, too. */
int enablers_add(struct user_events *user_events, struct holding *holding)
{
	struct enabler_process *process;
	int r;

	LIST_FOREACH(process, &user_events->enablers, entry)
		if (process->enablers < ENABLERS_MAX)
			break;
	if (!process) {
		r = enablers_start(user_events);
		if (r < 0)
			return r;
		process = LIST_FIRST(&user_events->enablers);
	}
	LIST_REMOVE(process, entry);
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	holding->process = process;
	process->enablers++;
	return 0;
}

/* One idle process is enough. */
void enablers_remove(struct user_events *user_events, struct holding *holding)
{
	struct enabler_process *process = holding->process, *other;

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

static uint16_t item_flags(uint16_t state)
{
	return state & KERNEL_TRACES ? ENABLER_ON : state & KERNEL_SILENT ? ENABLER_OFF : 0;
}

/*
 * A request about holdings, for which the process gets a data file, and to register them their page; and its answers. 0; or -ETOOMANYREFS,
 * since too many fds are in flight: then it was not sent.
 */
static int enabler_ask(const struct enabler_process *process, enum enabler_kind kind, struct holding *const *holdings,
		       size_t n, int file, struct enabler_answer *answers)
{
	static uint8_t buffer[ENABLER_PACKET_MAX];
	const struct enabler_request request = { .kind = kind, .count = (uint32_t)n };
	const int fds[] = { file, holdings[0]->page->fd };
	struct packet packet = packet_make(buffer, sizeof(buffer));
	const bool has_text = kind == ENABLER_REGISTER || kind == ENABLER_RESUME;
	int r;

	packet_put(&packet, &request, sizeof(request));
	for (size_t i = 0; i < n; i++) {
		const struct enabler_item item = {
			.page = holdings[i]->page->id,
			.bit = holdings[i]->bit,
			.flags = holdings[i]->flags | item_flags(holdings[i]->state),
			.text_length = has_text ? holdings[i]->text_length : 0,
		};

		packet_put(&packet, &item, sizeof(item));
		packet_put_padded(&packet, holdings[i]->text, item.text_length);
	}
	r = transport_send(process->fd, packet.data, packet.size, fds, kind == ENABLER_REGISTER ? 2 : 1, 0);
	if (r == -ETOOMANYREFS)
		return r;
	if (r < 0 || answer_receive(process->fd, answers, n * sizeof(answers[0])) < 0)
		keeper_fail("a process with registrations does not answer");
	return 0;
}

void enablers_register(struct placement *placement, int file)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = enabler_ask(placement->holdings[0]->process, ENABLER_REGISTER, placement->holdings, placement->n, file,
			    answers);

	for (size_t i = 0; i < placement->n; i++) {
		placement->calls[i]->result = r < 0 ? r : answers[i].result;
		/* An index on a file of our own means nothing. */
		if (placement->calls[i]->result < 0 || file != placement->stream->fd)
			continue;
		stream_note_index(placement->stream, answers[i].index);
		placement->holdings[i]->first.index = answers[i].index;
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
		(void)enabler_ask(process, ENABLER_REMOVE, holdings + i, same, user_events->data, answers);
	}
}

void enablers_silence(struct user_events *user_events, struct silencing *silencing)
{
	static const enum enabler_kind kinds[] = {
		[BIT_FOLLOWS] = ENABLER_RESUME,
		[BIT_OFF] = ENABLER_KEEP_OFF,
		[BIT_ON] = ENABLER_KEEP_ON,
	};
	const bool registers = silencing->rule == BIT_FOLLOWS;
	_cleanup_(fd_closep) int ours = registers ? data_file_open(&user_events->mounts) : -1;
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	/* The file's own reference ends with the file: the enabler has one. */
	const int r = registers && ours < 0 ? ours
					    : enabler_ask(silencing->holdings[0]->process, kinds[silencing->rule],
							  silencing->holdings, silencing->n,
							  registers ? ours : user_events->data, answers);

	for (size_t i = 0; i < silencing->n; i++)
		silencing->calls[i]->result = r < 0 ? r : answers[i].result;
}

/* A process sends nothing but answers, so each that is ready has died. Timers have none. */
int enablers_dispatch(struct user_events *user_events)
{
	struct epoll_event ready[16];
	int n = epoll_wait(user_events->kernel.fd, ready, ARRAY_SIZE(ready), 0);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++)
		if (ready[i].data.ptr)
			keeper_fail("a process with registrations has died");
	return 0;
}
