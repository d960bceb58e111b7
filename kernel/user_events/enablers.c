/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "kernel/user_events/enabler.h"
#include "kernel/user_events/inheritance.h"
#include "kernel/user_events/placement.h"
#include "kernel/user_events/stream.h"
#include "kernel/user_events/user_events.h"
#include "protocol/base/cursor.h"
#include "protocol/transport.h"

/*
 * The keeper's side of the enablers' processes. They are spawned, never forked: a fork would copy every enabler. When one
 * dies (the kernel's out-of-memory killer, most likely) its bits are frozen; it is replaced at once, and what is registered
 * again on the same bit is brought up to date by the kernel. One in reserve has no bits and is no loss: it may have found no
 * file left on the machine that its libraries need, and then its successor would not either.
 */

_Static_assert((int)AT_ONCE == (int)ENABLER_BATCH_MAX, "one request");

enum {
	/* The kernel walks all enablers of a process for each that is added: at most 1,024, and less is faster. */
	ENABLERS_MAX = 512,
	/* Seconds for one answer; one that takes longer is as good as dead. */
	ANSWER_PATIENCE = 60,
	/* Requests that one process has before it, so that it never waits for us; their answers fit into its socket. */
	REQUESTS_MAX = 16,
	/* Processes that wait for work: what a program asks for at once fits into two. */
	SPARES = 3,
	/* Who has just been answered may ask for more: others are started when that is over. */
	SPARES_DELAY_MS = 50,
};

static int spawn(int socket, pid_t *ret)
{
	char *const argv[] = { (char[]){ "userevd-keeper" }, (char[]){ "--enabler" }, NULL };
	char *const environment[] = { NULL };
	posix_spawn_file_actions_t actions;
	int r;

	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_adddup2(&actions, socket, ENABLER_SOCKET);
	if (r == 0)
		r = posix_spawn(ret, "/proc/self/exe", &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int start(struct user_events *user_events, struct enabler_process *process)
{
	const struct timeval patience = { .tv_sec = ANSWER_PATIENCE };
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = process };
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	if (setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, ours, &event) < 0)
		return -errno;
	r = spawn(theirs, &process->pid);
	if (r < 0)
		return r;
	fd_close(process->fd);
	process->fd = fd_steal(&ours);
	process->broken = false;
	return 0;
}

/* Its end is heard by enablers_dispatch(), which replaces it. */
static void break_off(struct enabler_process *process)
{
	process->broken = true;
	if (process->pid > 0)
		kill(process->pid, SIGKILL);
}

static void reap(struct enabler_process *process)
{
	break_off(process);
	if (process->pid > 0)
		waitpid(process->pid, NULL, 0);
	process->pid = 0;
}

static int enabler_new(struct user_events *user_events, struct enabler_process **ret)
{
	struct enabler_process *process = calloc(1, sizeof(*process));
	int r;

	if (!process)
		return -ENOMEM;
	process->fd = -1;
	r = start(user_events, process);
	if (r < 0) {
		free(process);
		return r;
	}
	LIST_INIT(&process->mapped);
	LIST_INIT(&process->holdings);
	TAILQ_INIT(&process->asked);
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	*ret = process;
	return 0;
}

/* A request, lent an fd. */
static int send_request(struct enabler_process *process, const struct packet *request, int fd)
{
	if (request->failed)
		return -E2BIG;
	return process->broken ? -EPIPE : transport_send(process->fd, request->data, request->size, &fd, fd >= 0, 0);
}

/* The answers to the oldest request, one for each of `n`. */
static int hear(struct enabler_process *process, struct enabler_answer *answers, size_t n, int flags)
{
	ssize_t size;

	do
		size = recv(process->fd, answers, n * sizeof(*answers), flags);
	while (size < 0 && errno == EINTR);
	if (size == (ssize_t)(n * sizeof(*answers)))
		return 0;
	return size < 0 ? -errno : -EPIPE;
}

static void put_to_answered(struct user_events *user_events, struct enabler_process *process,
			    struct placement *placement)
{
	TAILQ_REMOVE(&process->asked, placement, entry);
	process->n_asked--;
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
}

static void note_answer(struct placement *placement, size_t i, const struct enabler_answer *answer)
{
	struct slot *slot = placement->slots[i];

	placement->results[i] = answer->result;
	/* On a file of our own an index is nothing. */
	if (placement->file < 0) {
		slot->index = answer->index;
		if (answer->result == 0)
			stream_note_index(placement->stream, answer->index);
	}
	slot->holding->enabled = answer->result == 0;
}

static int take_answer(struct user_events *user_events, struct enabler_process *process, int flags)
{
	struct placement *placement = TAILQ_FIRST(&process->asked);
	struct enabler_answer answers[ENABLER_BATCH_MAX];
	int r = hear(process, answers, placement->n, flags);

	if (r < 0)
		return r;
	for (size_t i = 0; i < placement->n; i++)
		note_answer(placement, i, &answers[i]);
	put_to_answered(user_events, process, placement);
	return 0;
}

/* So many requests are left without an answer. */
static int take_answers(struct user_events *user_events, struct enabler_process *process, unsigned left)
{
	int r = 0;

	while (r == 0 && process->n_asked > left)
		r = take_answer(user_events, process, 0);
	return r;
}

/*
 * After a failure the process's next answer could belong to this request, so it is replaced. Where too many fds of this user are
 * in flight, it was not asked anything.
 */
static int ask(struct user_events *user_events, struct enabler_process *process, const struct packet *request, int fd,
	       struct enabler_answer *answers, size_t n)
{
	int r = take_answers(user_events, process, 0);

	if (r == 0)
		r = send_request(process, request, fd);
	if (r == 0)
		r = hear(process, answers, n, 0);
	if (r < 0 && r != -ETOOMANYREFS)
		break_off(process);
	return r;
}

static int ask_about_page(struct user_events *user_events, struct enabler_process *process, enum enabler_kind kind,
			  const struct event_page *page, int fd)
{
	const struct enabler_request request = { .kind = kind, .page = page->id };
	struct packet packet = { .data = (uint8_t *)(uintptr_t)&request, .size = sizeof(request) };
	struct enabler_answer answer = { 0 };
	int r = ask(user_events, process, &packet, fd, &answer, 1);

	return r < 0 ? r : answer.result;
}

static int map_new(struct user_events *user_events, struct event_page *page, struct enabler_process *process,
		   struct page_map **ret)
{
	struct page_map *map = calloc(1, sizeof(*map));
	int r;

	if (!map)
		return -ENOMEM;
	r = ask_about_page(user_events, process, ENABLER_MAP, page, page->fd);
	if (r < 0) {
		free(map);
		return r;
	}
	map->page = page;
	map->process = process;
	LIST_INSERT_HEAD(&page->maps, map, in_page);
	LIST_INSERT_HEAD(&process->mapped, map, in_process);
	process->maps++;
	*ret = map;
	return 0;
}

static void enabler_free(struct enabler_process *process)
{
	LIST_REMOVE(process, entry);
	/* The end of its socket ends it; if it hangs, this does. */
	process->fd = fd_close(process->fd);
	reap(process);
	free(process);
}

static bool is_idle(const struct enabler_process *process)
{
	return process->maps == 0;
}

static unsigned count_spares(const struct user_events *user_events)
{
	const struct enabler_process *process;
	unsigned n = 0;

	LIST_FOREACH(process, &user_events->enablers, entry)
		n += is_idle(process);
	return n;
}

static bool wants_spares(const struct user_events *user_events)
{
	return count_spares(user_events) < SPARES;
}

static void set_timer(struct user_events *user_events)
{
	const struct itimerspec once = { .it_value.tv_nsec = SPARES_DELAY_MS * 1000000L };

	timerfd_settime(user_events->timer, 0, &once, NULL);
	user_events->timer_runs = true;
}

void enablers_prepare(struct user_events *user_events)
{
	if (!user_events->timer_runs && wants_spares(user_events))
		set_timer(user_events);
}

/* One at a time, and when nobody waits. If there can't be one now, it is started when it is needed. */
static void on_timer(struct user_events *user_events)
{
	struct enabler_process *process;
	uint64_t expired;

	/* Not ours to look at, but nobody else hears of it while we wait; it comes again. */
	(void)inheritance_is_due(user_events);
	page_files_dispatch(&user_events->files);
	if (read(user_events->timer, &expired, sizeof(expired)) < 0)
		return;
	user_events->timer_runs = false;
	if (user_events->under_way == 0 && wants_spares(user_events) && enabler_new(user_events, &process) < 0)
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
	while (wants_spares(user_events))
		if (enabler_new(user_events, &process) < 0)
			break;
	return 0;
}

/* Without enablers there is no need for the map, and without maps none for the process, but for some in reserve. */
void enablers_tidy(struct user_events *user_events, struct page_map *map)
{
	struct enabler_process *process = map->process;

	if (map->enablers > 0)
		return;
	LIST_REMOVE(map, in_page);
	LIST_REMOVE(map, in_process);
	ask_about_page(user_events, process, ENABLER_UNMAP, map->page, -1);
	free(map);
	if (process->maps == 1 && count_spares(user_events) >= SPARES) {
		enabler_free(process);
		return;
	}
	process->maps--;
}

/* Before the last one is full: a new one gets ready while that is filled. */
static void prepare_in_time(struct user_events *user_events, const struct enabler_process *process)
{
	struct enabler_process *spare;

	if (process->enablers >= ENABLERS_MAX / 4 && count_spares(user_events) == 0)
		enabler_new(user_events, &spare);
}

static bool has_room(const struct enabler_process *process)
{
	return !process->broken && process->enablers < ENABLERS_MAX;
}

/* The oldest: the youngest may still be starting. */
static struct enabler_process *find_process(const struct user_events *user_events)
{
	struct enabler_process *process, *found = NULL;

	LIST_FOREACH(process, &user_events->enablers, entry)
		if (has_room(process))
			found = process;
	return found;
}

int enablers_find_room(struct user_events *user_events, struct event_page *page, struct page_map **ret)
{
	struct enabler_process *process;
	struct page_map *map;
	int r;

	for (map = LIST_FIRST(&page->maps); map; map = LIST_NEXT(map, in_page)) {
		if (has_room(map->process)) {
			*ret = map;
			return 0;
		}
	}
	/* One that does not live to answer is passed over. */
	while ((process = find_process(user_events))) {
		r = map_new(user_events, page, process, ret);
		if (!process->broken)
			return r;
	}
	r = enabler_new(user_events, &process);
	if (r < 0)
		return r;
	r = map_new(user_events, page, process, ret);
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

static void put_item(struct packet *packet, const struct holding *holding, bool with_text)
{
	const struct enabler_item item = {
		.bit = holding->bit,
		.flags = holding->flags,
		.text_length = with_text ? (uint16_t)strlen(holding->text) : 0,
	};

	packet_put(packet, &item, sizeof(item));
	packet_put_padded(packet, holding->text, item.text_length);
}

static uint8_t buffer[ENABLER_PACKET_MAX];

static struct packet begin(const struct page_map *map, enum enabler_kind kind, size_t n)
{
	struct packet packet = packet_make(buffer, sizeof(buffer));
	const struct enabler_request request = {
		.kind = kind,
		.page = map->page->id,
		.count = (uint32_t)n,
	};

	packet_put(&packet, &request, sizeof(request));
	return packet;
}

/* Where that fails the process is replaced, and its successor is asked. */
static void send_placement(struct placement *placement)
{
	struct enabler_process *process = placement->map->process;
	struct packet packet = begin(placement->map, ENABLER_REGISTER, placement->n);

	for (size_t i = 0; i < placement->n; i++)
		put_item(&packet, placement->slots[i]->holding, true);
	if (send_request(process, &packet, placement_file(placement)) < 0)
		break_off(process);
}

void enablers_register(struct user_events *user_events, struct placement *placement)
{
	struct enabler_process *process = placement->map->process;

	if (take_answers(user_events, process, REQUESTS_MAX - 1) < 0)
		break_off(process);
	TAILQ_INSERT_TAIL(&process->asked, placement, entry);
	process->n_asked++;
	send_placement(placement);
	prepare_in_time(user_events, process);
}

static int register_one(struct user_events *user_events, const struct holding *holding, int stream,
			struct enabler_answer *ret)
{
	struct packet packet = begin(holding->map, ENABLER_REGISTER, 1);

	put_item(&packet, holding, true);
	return ask(user_events, holding->map->process, &packet, stream, ret, 1);
}

void enablers_clear(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX];

	/* Those that follow each other are mostly of one process. */
	for (size_t i = 0, same; i < n; i += same) {
		struct page_map *map = holdings[i]->map;
		struct packet packet;

		for (same = 1; i + same < n && holdings[i + same]->map == map; same++)
			;
		if (!map)
			continue;
		packet = begin(map, ENABLER_REMOVE, same);
		for (size_t j = i; j < i + same; j++)
			put_item(&packet, holdings[j], false);
		/* One that has died holds nothing any more; whether it has is found by enablers_dispatch(). */
		ask(user_events, map->process, &packet, user_events->data, answers, same);
	}
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

/* The same bits for the same events. */
static int restore_holding(struct user_events *user_events, const struct holding *holding)
{
	_cleanup_(fd_closep) int data = data_file_open(&user_events->mounts);
	struct enabler_answer answer = { 0 };
	int r = data < 0 ? data : register_one(user_events, holding, data, &answer);

	return r < 0 ? r : MIN(answer.result, 0);
}

static int restore_all(struct user_events *user_events, struct enabler_process *process)
{
	const struct holding *holding;
	const struct page_map *map;
	int r = 0;

	for (map = LIST_FIRST(&process->mapped); map && r == 0; map = LIST_NEXT(map, in_process))
		r = ask_about_page(user_events, process, ENABLER_MAP, map->page, map->page->fd);
	for (holding = LIST_FIRST(&process->holdings); holding && r == 0; holding = LIST_NEXT(holding, in_process))
		if (holding->enabled)
			r = restore_holding(user_events, holding);
	return r;
}

static void refuse(struct user_events *user_events, struct enabler_process *process, struct placement *placement,
		   int error)
{
	for (size_t i = 0; i < placement->n; i++)
		placement->results[i] = error;
	/* They may stand on the file all the same. */
	placement->stream->fresh += (uint32_t)placement->n;
	put_to_answered(user_events, process, placement);
}

/* What is on a stream already is found there. What has cost two processes their lives is not asked of a third. */
static void ask_again(struct user_events *user_events, struct enabler_process *process)
{
	struct placement *placement, *next;

	for (placement = TAILQ_FIRST(&process->asked); placement; placement = next) {
		next = TAILQ_NEXT(placement, entry);
		if (placement->again) {
			refuse(user_events, process, placement, -EPIPE);
			continue;
		}
		placement->again = true;
		send_placement(placement);
	}
}

/* In its place: a new process. Where that can't be, its end is heard again the next time. */
static int replace(struct user_events *user_events, struct enabler_process *process)
{
	struct placement_queue asked = TAILQ_HEAD_INITIALIZER(asked);
	unsigned n_asked = process->n_asked;
	int r;

	/* They come behind what there was before. */
	TAILQ_CONCAT(&asked, &process->asked, entry);
	process->n_asked = 0;
	reap(process);
	r = start(user_events, process);
	if (r == 0)
		r = restore_all(user_events, process);
	if (r < 0)
		break_off(process);
	TAILQ_CONCAT(&process->asked, &asked, entry);
	process->n_asked = n_asked;
	if (r == 0)
		ask_again(user_events, process);
	return r;
}

/* What it has answered; or it has died, for nobody speaks unasked. After the next answer there is another in reserve. */
static int serve(struct user_events *user_events, struct enabler_process *process)
{
	int r = process->n_asked > 0 ? 0 : -EPIPE;

	while (r == 0 && process->n_asked > 0)
		r = take_answer(user_events, process, MSG_DONTWAIT);
	if (r == 0 || r == -EAGAIN)
		return 0;
	if (!is_idle(process))
		return replace(user_events, process);
	enabler_free(process);
	return 0;
}

/* How many there were that had something to say; or a negative errno. */
static int look(struct user_events *user_events, int patience)
{
	struct epoll_event ready[16];
	int n, r = 0;

	do
		n = epoll_wait(user_events->kernel.fd, ready, ARRAY_SIZE(ready), patience);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n && r == 0; i++) {
		if (ready[i].data.ptr)
			r = serve(user_events, ready[i].data.ptr);
		else
			on_timer(user_events);
	}
	return r < 0 ? r : n;
}

int enablers_dispatch(struct user_events *user_events)
{
	int r;

	while ((r = look(user_events, 0)) > 0)
		;
	return r;
}

static void break_off_asked(struct user_events *user_events)
{
	struct enabler_process *process;

	LIST_FOREACH(process, &user_events->enablers, entry)
		if (process->n_asked > 0)
			break_off(process);
}

static void refuse_all(struct user_events *user_events, int error)
{
	struct enabler_process *process;

	LIST_FOREACH(process, &user_events->enablers, entry)
		while (!TAILQ_EMPTY(&process->asked))
			refuse(user_events, process, TAILQ_FIRST(&process->asked), error);
}

void enablers_wait(struct user_events *user_events)
{
	int r = look(user_events, ANSWER_PATIENCE * 1000);

	if (r == 0)
		break_off_asked(user_events);
	/* There is no going on; enablers_dispatch() will say so. */
	if (r < 0)
		refuse_all(user_events, r);
}

void enablers_free(struct user_events *user_events)
{
	struct enabler_process *process;

	while ((process = LIST_FIRST(&user_events->enablers))) {
		while (!LIST_EMPTY(&process->mapped)) {
			struct page_map *map = LIST_FIRST(&process->mapped);

			LIST_REMOVE(map, in_page);
			LIST_REMOVE(map, in_process);
			free(map);
		}
		enabler_free(process);
	}
	user_events->timer = fd_close(user_events->timer);
}
