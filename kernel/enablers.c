/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "kernel/enabler.h"
#include "kernel/stream.h"
#include "kernel/user_events.h"
#include "protocol/cursor.h"
#include "protocol/transport.h"

/*
 * The keeper's side of the enablers' processes. They are spawned, never forked: a fork would copy every enabler. When one
 * dies (the kernel's out-of-memory killer, most likely) its bits are frozen; it is replaced at once, and what is registered
 * again on the same bit is brought up to date by the kernel.
 */

enum {
	/* The kernel walks all enablers of a process for each that is added: at most 1,024, and less is faster. */
	ENABLERS_MAX = 512,
	/* Seconds for one answer; one that takes longer is as good as dead. */
	ANSWER_PATIENCE = 60,
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
	process->fd = fd_steal(&ours);
	return 0;
}

static void stop(struct enabler_process *process)
{
	/* The end of its socket ends it; if it hangs, this does. */
	process->fd = fd_close(process->fd);
	if (process->pid > 0) {
		kill(process->pid, SIGKILL);
		waitpid(process->pid, NULL, 0);
	}
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
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	*ret = process;
	return 0;
}

/* One request, lent an fd, with an answer for each of `n`. */
static int exchange(struct enabler_process *process, const struct packet *request, int fd,
		    struct enabler_answer *answers, size_t n)
{
	ssize_t size;
	int r;

	if (request->failed)
		return -E2BIG;
	r = transport_send(process->fd, request->data, request->size, &fd, fd >= 0, 0);
	if (r < 0)
		return r;
	do
		size = recv(process->fd, answers, n * sizeof(*answers), 0);
	while (size < 0 && errno == EINTR);
	if (size == (ssize_t)(n * sizeof(*answers)))
		return 0;
	return size < 0 ? -errno : -EPIPE;
}

/* Who does not answer once might answer late, to another question: it is replaced. */
static int ask(struct enabler_process *process, const struct packet *request, int fd, struct enabler_answer *answers,
	       size_t n)
{
	int r = exchange(process, request, fd, answers, n);

	if (r < 0)
		kill(process->pid, SIGKILL);
	return r;
}

static int ask_about_page(struct enabler_process *process, enum enabler_kind kind, const struct event_page *page,
			  int fd)
{
	const struct enabler_request request = { .kind = kind, .page = page->number };
	struct packet packet = { .data = (uint8_t *)(uintptr_t)&request, .size = sizeof(request) };
	struct enabler_answer answer;
	int r = ask(process, &packet, fd, &answer, 1);

	return r < 0 ? r : answer.result;
}

static int map_new(struct event_page *page, struct enabler_process *process, struct page_map **ret)
{
	struct page_map *map = calloc(1, sizeof(*map));
	int r;

	if (!map)
		return -ENOMEM;
	r = ask_about_page(process, ENABLER_MAP, page, page->fd);
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
	stop(process);
	free(process);
}

static bool is_idle(const struct enabler_process *process)
{
	return process->maps == 0;
}

static bool has_spare(const struct user_events *user_events)
{
	const struct enabler_process *process;

	LIST_FOREACH(process, &user_events->enablers, entry)
		if (is_idle(process))
			return true;
	return false;
}

void enablers_prepare(struct user_events *user_events)
{
	struct enabler_process *process;

	/* If there can't be one now, it is started when it is needed. */
	if (!has_spare(user_events))
		enabler_new(user_events, &process);
}

/* Without enablers there is no need for the map, and without maps none for the process, but for one in reserve. */
void enablers_tidy(struct user_events *user_events, struct page_map *map)
{
	struct enabler_process *process = map->process;

	if (map->enablers > 0)
		return;
	LIST_REMOVE(map, in_page);
	LIST_REMOVE(map, in_process);
	ask_about_page(process, ENABLER_UNMAP, map->page, -1);
	free(map);
	if (process->maps == 1 && has_spare(user_events)) {
		enabler_free(process);
		return;
	}
	process->maps--;
}

static bool has_room(const struct enabler_process *process)
{
	return process->enablers < ENABLERS_MAX;
}

uint32_t enablers_room(const struct page_map *map)
{
	return ENABLERS_MAX - map->process->enablers;
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
	LIST_FOREACH(process, &user_events->enablers, entry)
		if (has_room(process))
			return map_new(page, process, ret);
	r = enabler_new(user_events, &process);
	if (r < 0)
		return r;
	r = map_new(page, process, ret);
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

static int ask_about_holdings(struct page_map *map, enum enabler_kind kind, int fd, struct holding *const *holdings,
			      size_t n, struct enabler_answer *answers)
{
	static uint8_t buffer[ENABLER_PACKET_MAX];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	const struct enabler_request request = {
		.kind = kind,
		.page = map->page->number,
		.count = (uint32_t)n,
	};

	packet_put(&packet, &request, sizeof(request));
	for (size_t i = 0; i < n; i++)
		put_item(&packet, holdings[i], kind == ENABLER_REGISTER);
	return ask(map->process, &packet, fd, answers, n);
}

void enablers_register(struct user_events *user_events _unused_, struct page_map *map, int stream,
		       struct slot *const *slots, size_t n, int *results)
{
	struct enabler_answer answers[ENABLER_BATCH_MAX] = { 0 };
	struct holding *holdings[ENABLER_BATCH_MAX] = { 0 };
	int r;

	for (size_t i = 0; i < n; i++)
		holdings[i] = slots[i]->holding;
	r = ask_about_holdings(map, ENABLER_REGISTER, stream, holdings, n, answers);
	for (size_t i = 0; i < n; i++) {
		results[i] = r < 0 ? r : answers[i].result;
		slots[i]->index = answers[i].index;
	}
}

void enablers_remove(struct user_events *user_events, struct holding *holding, bool clear)
{
	struct page_map *map = holding->map;
	struct enabler_answer answer;

	if (!map)
		return;
	/* One that has died holds nothing any more; whether it has is found by enablers_dispatch(). */
	if (clear)
		ask_about_holdings(map, ENABLER_REMOVE, user_events->data, &holding, 1, &answer);
	LIST_REMOVE(holding, in_process);
	holding->map = NULL;
	map->process->enablers--;
	map->enablers--;
	enablers_tidy(user_events, map);
}

/* The same bits for the same events, in a new process. */
static int restore(struct user_events *user_events, struct enabler_process *process)
{
	struct enabler_answer answer;
	struct holding *holding;
	struct page_map *map;
	int r;

	stop(process);
	r = start(user_events, process);
	if (r < 0)
		return r;
	for (map = LIST_FIRST(&process->mapped); map; map = LIST_NEXT(map, in_process)) {
		r = ask_about_page(process, ENABLER_MAP, map->page, map->page->fd);
		if (r < 0)
			return r;
	}
	LIST_FOREACH(holding, &process->holdings, in_process) {
		_cleanup_(fd_closep) int data = data_file_open(&user_events->mounts);

		if (data < 0)
			return data;
		r = ask_about_holdings(holding->map, ENABLER_REGISTER, data, &holding, 1, &answer);
		if (r < 0 || answer.result < 0)
			return r < 0 ? r : answer.result;
	}
	return 0;
}

int enablers_dispatch(struct user_events *user_events)
{
	struct epoll_event ready[16];
	int n, r;

	/* Nobody speaks unasked: whoever is ready has died. */
	while ((n = epoll_wait(user_events->kernel.fd, ready, ARRAY_SIZE(ready), 0)) > 0) {
		for (int i = 0; i < n; i++) {
			r = restore(user_events, ready[i].data.ptr);
			if (r < 0)
				return r;
		}
	}
	return n < 0 && errno != EINTR ? -errno : 0;
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
}
