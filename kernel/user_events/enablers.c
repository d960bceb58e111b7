/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/enablers.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/inheritance.h"
#include "kernel/user_events/placement.h"
#include "kernel/user_events/stream.h"
#include "protocol/base/cursor.h"

/*
 * If an enabler process dies (most likely by the kernel's OOM killer) its bits are frozen. It is replaced at once, and when its events
 * are registered again on the same bits the kernel brings these up to date. A spare process has no bits and is not replaced here: it
 * may have died because the machine has no file left for its libraries, and its successor would die, too.
 */

_Static_assert((int)AT_ONCE == (int)ENABLER_BATCH_MAX, "one request");

enum {
	/* For each enabler that is added the kernel walks all enablers of the process: at most 1,024, and fewer are faster. */
	ENABLERS_MAX = 512,
	/* Requests that one process has in its socket, so that it never waits for us; their answers fit into its socket as well. */
	REQUESTS_MAX = 16,
	/* Idle processes: the pages and events that a program asks for at once fit into two. */
	SPARES = 3,
	/* A client that has just been answered may ask for more; spare processes are started after that. */
	SPARES_DELAY_MS = 50,
};

static uint8_t request_buffer[ENABLER_PACKET_MAX];

static struct packet request_begin(const struct event_page *page, enum enabler_kind kind, size_t n)
{
	struct packet packet = packet_make(request_buffer, sizeof(request_buffer));
	const struct enabler_request request = { .kind = kind, .page = page->id, .count = (uint32_t)n };

	packet_put(&packet, &request, sizeof(request));
	return packet;
}

static void request_put(struct packet *packet, const struct holding *holding, bool with_text)
{
	const struct enabler_item item = {
		.bit = holding->bit,
		.flags = holding->flags,
		.text_length = with_text ? (uint16_t)strlen(holding->text) : 0,
	};

	packet_put(packet, &item, sizeof(item));
	packet_put_padded(packet, holding->text, item.text_length);
}

static void move_to_answered(struct user_events *user_events, struct enabler_process *process,
			     struct placement *placement)
{
	TAILQ_REMOVE(&process->asked, placement, entry);
	process->n_asked--;
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
}

/* The answer to the oldest placement. */
static int enabler_take_answer(struct user_events *user_events, struct enabler_process *process, int flags)
{
	struct placement *placement = TAILQ_FIRST(&process->asked);
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = enabler_receive(process, answers, placement->n, flags);

	if (r < 0)
		return r;
	for (size_t i = 0; i < placement->n; i++) {
		struct slot *slot = placement->slots[i];

		placement->results[i] = answers[i].result;
		slot->holding->enabled = answers[i].result == 0;
		/* An index on a file of our own means nothing. */
		if (placement->file >= 0)
			continue;
		slot->index = answers[i].index;
		if (answers[i].result == 0)
			stream_note_index(placement->stream, slot->index);
	}
	move_to_answered(user_events, process, placement);
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
 * After a failure the process's next answer could belong to this request, so the process is replaced. With -ETOOMANYREFS the request
 * was not sent.
 */
static int enabler_ask(struct user_events *user_events, struct enabler_process *process, const struct packet *request,
		       int fd, struct enabler_answer *answers, size_t n)
{
	int r = enabler_take_answers(user_events, process, 0);

	if (r == 0)
		r = enabler_send(process, request, fd);
	if (r == 0)
		r = enabler_receive(process, answers, n, 0);
	if (r < 0 && r != -ETOOMANYREFS)
		enabler_break(process);
	return r;
}

static int ask_about_page(struct user_events *user_events, struct enabler_process *process, enum enabler_kind kind,
			  const struct event_page *page, int fd)
{
	const struct packet request = request_begin(page, kind, 0);
	struct enabler_answer answer = { 0 };
	int r = enabler_ask(user_events, process, &request, fd, &answer, 1);

	return r < 0 ? r : answer.result;
}

static int page_map_new(struct user_events *user_events, struct event_page *page, struct enabler_process *process,
			struct page_map **ret)
{
	struct page_map *map;
	int r = ask_about_page(user_events, process, ENABLER_MAP, page, page->fd);

	if (r < 0)
		return r;
	map = keeper_allocate(sizeof(*map));
	map->page = page;
	map->process = process;
	LIST_INSERT_HEAD(&page->maps, map, in_page);
	LIST_INSERT_HEAD(&process->mapped, map, in_process);
	process->maps++;
	*ret = map;
	return 0;
}

static void page_map_free(struct page_map *map)
{
	LIST_REMOVE(map, in_page);
	LIST_REMOVE(map, in_process);
	free(map);
}

/* --- spare processes --- */

static unsigned count_spares(const struct user_events *user_events)
{
	const struct enabler_process *process;
	unsigned n = 0;

	LIST_FOREACH(process, &user_events->enablers, entry)
		n += process->maps == 0;
	return n;
}

void enablers_prepare(struct user_events *user_events)
{
	const struct itimerspec once = { .it_value.tv_nsec = SPARES_DELAY_MS * 1000000L };

	if (user_events->timer_runs || count_spares(user_events) >= SPARES)
		return;
	timerfd_settime(user_events->timer, 0, &once, NULL);
	user_events->timer_runs = true;
}

/* Starts one at a time, while no call is under way. If that fails, a process is started when it is needed. */
static void enablers_on_timer(struct user_events *user_events)
{
	struct enabler_process *process;
	uint64_t expired;

	/* Other timers, which would keep the epoll readable while we wait. Their work is done at their next expiration. */
	(void)inheritance_is_due(user_events);
	page_files_dispatch(&user_events->files);
	if (read(user_events->timer, &expired, sizeof(expired)) < 0)
		return;
	user_events->timer_runs = false;
	if (user_events->under_way == 0 && count_spares(user_events) < SPARES && enabler_new(user_events, &process) < 0)
		return;
	enablers_prepare(user_events);
}

int enablers_init(struct user_events *user_events)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	struct enabler_process *process;

	user_events->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (user_events->timer < 0 || epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, user_events->timer, &event) < 0)
		return -errno;
	while (count_spares(user_events) < SPARES)
		if (enabler_new(user_events, &process) < 0)
			break;
	return 0;
}

/* --- pages and events --- */

/* The process ends with its last map if there are enough spare ones. */
void enablers_tidy(struct user_events *user_events, struct page_map *map)
{
	struct enabler_process *process = map->process;

	if (map->enablers > 0)
		return;
	ask_about_page(user_events, process, ENABLER_UNMAP, map->page, -1);
	page_map_free(map);
	if (process->maps == 1 && count_spares(user_events) >= SPARES)
		enabler_free(process);
	else
		process->maps--;
}

static bool process_has_room(const struct enabler_process *process)
{
	return !process->broken && process->enablers < ENABLERS_MAX;
}

/* The oldest process with room: the youngest may still be starting. */
static struct enabler_process *find_process(const struct user_events *user_events)
{
	struct enabler_process *process, *found = NULL;

	LIST_FOREACH(process, &user_events->enablers, entry)
		if (process_has_room(process))
			found = process;
	return found;
}

int enablers_find_room(struct user_events *user_events, struct event_page *page, struct page_map **ret)
{
	struct enabler_process *process;
	struct page_map *map;
	int r;

	for (map = LIST_FIRST(&page->maps); map; map = LIST_NEXT(map, in_page)) {
		if (process_has_room(map->process)) {
			*ret = map;
			return 0;
		}
	}
	/* A process that dies before it answers is passed over. */
	while ((process = find_process(user_events))) {
		r = page_map_new(user_events, page, process, ret);
		if (!process->broken)
			return r;
	}
	r = enabler_new(user_events, &process);
	if (r < 0)
		return r;
	r = page_map_new(user_events, page, process, ret);
	if (r < 0)
		enabler_free(process);
	return r;
}

void enablers_add(struct page_map *map, struct holding *holding)
{
	holding->map = map;
	map->enablers++;
	map->process->enablers++;
	LIST_INSERT_HEAD(&map->process->holdings, holding, in_process);
}

void enablers_remove(struct user_events *user_events, struct holding *holding)
{
	struct page_map *map = holding->map;

	if (!map)
		return;
	LIST_REMOVE(holding, in_process);
	holding->map = NULL;
	holding->enabled = false;
	map->process->enablers--;
	map->enablers--;
	enablers_tidy(user_events, map);
}

/* If that fails the process is replaced, and its successor is asked. */
static void send_placement(struct placement *placement)
{
	struct enabler_process *process = placement->map->process;
	struct packet packet = request_begin(placement->map->page, ENABLER_REGISTER, placement->n);

	for (size_t i = 0; i < placement->n; i++)
		request_put(&packet, placement->slots[i]->holding, true);
	if (enabler_send(process, &packet, placement_file(placement)) < 0)
		enabler_break(process);
}

void enablers_register(struct user_events *user_events, struct placement *placement)
{
	struct enabler_process *process = placement->map->process, *spare;

	if (enabler_take_answers(user_events, process, REQUESTS_MAX - 1) < 0)
		enabler_break(process);
	TAILQ_INSERT_TAIL(&process->asked, placement, entry);
	process->n_asked++;
	send_placement(placement);
	/* Before the last process is full: a new one starts while that is filled. */
	if (process->enablers >= ENABLERS_MAX / 4 && count_spares(user_events) == 0)
		enabler_new(user_events, &spare);
}

void enablers_clear(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX];

	/* Neighbours are mostly in one process. */
	for (size_t i = 0, same; i < n; i += same) {
		struct page_map *map = holdings[i]->map;
		struct packet packet;

		for (same = 1; i + same < n && holdings[i + same]->map == map; same++)
			;
		if (!map)
			continue;
		packet = request_begin(map->page, ENABLER_REMOVE, same);
		for (size_t j = i; j < i + same; j++)
			request_put(&packet, holdings[j], false);
		/* A dead process has no enablers any more; enablers_dispatch() replaces it. */
		enabler_ask(user_events, map->process, &packet, user_events->data, answers, same);
	}
}

/* --- processes that died --- */

/* Registers the same events on the same bits. */
static int restore_enablers(struct user_events *user_events, struct enabler_process *process)
{
	const struct holding *holding;
	const struct page_map *map;
	int r;

	for (map = LIST_FIRST(&process->mapped); map; map = LIST_NEXT(map, in_process)) {
		r = ask_about_page(user_events, process, ENABLER_MAP, map->page, map->page->fd);
		if (r < 0)
			return r;
	}
	for (holding = LIST_FIRST(&process->holdings); holding; holding = LIST_NEXT(holding, in_process)) {
		_cleanup_(fd_closep) int data = -1;
		struct enabler_answer answer = { 0 };
		struct packet packet;

		if (!holding->enabled)
			continue;
		data = data_file_open(&user_events->mounts);
		if (data < 0)
			return data;
		packet = request_begin(holding->map->page, ENABLER_REGISTER, 1);
		request_put(&packet, holding, true);
		r = enabler_ask(user_events, process, &packet, data, &answer, 1);
		if (r < 0 || answer.result < 0)
			return r < 0 ? r : answer.result;
	}
	return 0;
}

static void refuse_asked(struct user_events *user_events, struct enabler_process *process, struct placement *placement,
			 int error)
{
	TAILQ_REMOVE(&process->asked, placement, entry);
	process->n_asked--;
	/* The events may be on the file nevertheless. */
	placement->stream->fresh += (uint32_t)placement->n;
	placement_refuse(user_events, placement, error);
}

/* Events that are on a stream already are found there. A placement that two processes have died with is not sent to a third. */
static void enabler_ask_again(struct user_events *user_events, struct enabler_process *process)
{
	struct placement *placement, *next;

	for (placement = TAILQ_FIRST(&process->asked); placement; placement = next) {
		next = TAILQ_NEXT(placement, entry);
		if (placement->again) {
			refuse_asked(user_events, process, placement, -EPIPE);
			continue;
		}
		placement->again = true;
		send_placement(placement);
	}
}

/* Starts a new process in its place. If that fails, enablers_dispatch() sees the end of the process again. */
static int enabler_replace(struct user_events *user_events, struct enabler_process *process)
{
	struct placement_queue asked = TAILQ_HEAD_INITIALIZER(asked);
	unsigned n_asked = process->n_asked;
	int r;

	/* The earlier events come first. */
	TAILQ_CONCAT(&asked, &process->asked, entry);
	process->n_asked = 0;
	enabler_reap(process);
	r = enabler_start(user_events, process);
	if (r == 0)
		r = restore_enablers(user_events, process);
	if (r < 0)
		enabler_break(process);
	TAILQ_CONCAT(&process->asked, &asked, entry);
	process->n_asked = n_asked;
	if (r == 0)
		enabler_ask_again(user_events, process);
	return r;
}

/* Takes its answers. If nothing was asked the process has died: it sends nothing else. */
static int enabler_serve(struct user_events *user_events, struct enabler_process *process)
{
	int r = process->n_asked > 0 ? 0 : -EPIPE;

	while (r == 0 && process->n_asked > 0)
		r = enabler_take_answer(user_events, process, MSG_DONTWAIT);
	if (r == 0 || r == -EAGAIN)
		return 0;
	if (process->maps > 0)
		return enabler_replace(user_events, process);
	enabler_free(process);
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
		if (ready[i].data.ptr)
			r = enabler_serve(user_events, ready[i].data.ptr);
		else
			enablers_on_timer(user_events);
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
	int r = enablers_poll(user_events, ENABLER_TIMEOUT * 1000);
	struct enabler_process *process;

	for (process = LIST_FIRST(&user_events->enablers); process; process = LIST_NEXT(process, entry)) {
		/* No process has answered in time. */
		if (r == 0 && process->n_asked > 0)
			enabler_break(process);
		/* The keeper can't go on; enablers_dispatch() returns the error. */
		while (r < 0 && !TAILQ_EMPTY(&process->asked))
			refuse_asked(user_events, process, TAILQ_FIRST(&process->asked), r);
	}
}

void enablers_free(struct user_events *user_events)
{
	struct enabler_process *process;

	while ((process = LIST_FIRST(&user_events->enablers))) {
		while (!LIST_EMPTY(&process->mapped))
			page_map_free(LIST_FIRST(&process->mapped));
		enabler_free(process);
	}
	user_events->timer = fd_close(user_events->timer);
}
