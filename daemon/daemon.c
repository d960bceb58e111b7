/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/daemon.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/admin/reload.h"
#include "daemon/admin/tail.h"
#include "daemon/backend.h"
#include "daemon/connection/inflight.h"
#include "daemon/connection/throttle.h"
#include "daemon/identity/peer.h"
#include "daemon/ledger/deposit.h"
#include "daemon/process/log.h"
#include "daemon/process/loop.h"
#include "daemon/process/memory.h"
#include "daemon/process/unprivileged.h"
#include "daemon/recovery/restore.h"
#include "daemon/recovery/succession.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/linger.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"

/* Thousands of connections are ordinary: as many fds as we may have. */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_warning("can't raise the limit on open files: %s", strerror(errno));
}

static size_t count_fds(const struct daemon *daemon)
{
	size_t n = daemon->connections + HASH_CNT(by_number, daemon->streams);

	if (!daemon->ledger)
		return n + HASH_CNT(by_identity, daemon->tenants);
	/* A page is two; and another keeper gets a copy of everything at once. */
	return 2 * (n + 2 * (size_t)HASH_CNT(by_identity, daemon->tenants)) + daemon->copies;
}

/* Asked each time: an admin may change it (prlimit). */
static rlim_t fd_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? RLIM_INFINITY : limit.rlim_cur;
}

static rlim_t own_fds(rlim_t limit)
{
	return MIN(OWN_FDS, limit / 4);
}

bool daemon_has_fds(const struct daemon *daemon)
{
	rlim_t limit = fd_limit();

	return count_fds(daemon) + own_fds(limit) < limit;
}

/*
 * A quarter of the fds, since each file is two where a keeper's successor gets a copy, and its connection as many. The keeper's
 * limit is no smaller than ours: it inherits it, or has twice as many from its unit, and each file is one fd there.
 */
uint32_t daemon_file_capacity(void)
{
	rlim_t limit = fd_limit();

	return (uint32_t)MIN((limit - own_fds(limit)) / 4, (rlim_t)UINT32_MAX);
}

bool daemon_may_keep(const struct daemon *daemon)
{
	return count_fds(daemon) < fd_limit() / 2;
}

/* `r`: what kernel_dispatch() said. */
static void check_kernel(struct daemon *daemon, int r)
{
	if (r < 0 && !succession_begin(daemon, r)) {
		log_error("the %s backend failed: %s", daemon->kernel->facts.name,
			  r == -ECONNREFUSED || r == -ESTALE ? daemon->kernel->facts.note : strerror(-r));
		daemon->failed = r;
		ev_break(daemon->loop, EVBREAK_ALL);
	}
}

static void on_kernel(struct ev_loop *loop _unused_, ev_io *w, int events)
{
	struct daemon *daemon = container_of(w, struct daemon, w_kernel);

	/* EV_ERROR: there is no room for it among what is waited for. */
	check_kernel(daemon, events & EV_ERROR ? -ENOSPC : kernel_dispatch(daemon->kernel));
}

static void on_stalled(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_stalled);

	check_kernel(daemon, kernel_dispatch(daemon->kernel));
}

static void watch_stalled(struct daemon *daemon)
{
	if (!daemon->kernel->stalled || ev_is_active(&daemon->w_stalled))
		return;
	ev_timer_set(&daemon->w_stalled, LATER_INTERVAL, 0.);
	ev_timer_start(daemon->loop, &daemon->w_stalled);
}

static void on_probe(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_probe);

	if (streams_probe(daemon))
		capacity_look(daemon);
	else
		ev_timer_stop(loop, w);
}

void daemon_watch_strangers(struct daemon *daemon)
{
	if (!ev_is_active(&daemon->w_probe))
		ev_timer_again(daemon->loop, &daemon->w_probe);
}

static void on_deadlines(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_deadlines);

	clients_expire(daemon);
	daemon_watch_deadlines(daemon);
}

void daemon_watch_deadlines(struct daemon *daemon)
{
	const struct client *oldest = TAILQ_FIRST(&daemon->impatient);

	/* The list is in order of time, so the timer is the oldest one's; without any, nothing wakes us. */
	ev_timer_stop(daemon->loop, &daemon->w_deadlines);
	if (!oldest)
		return;
	ev_timer_set(&daemon->w_deadlines, MAX(oldest->since + daemon->options.patience - daemon_now(), 0.001), 0.);
	ev_timer_start(daemon->loop, &daemon->w_deadlines);
}

void daemon_fd_freed(struct daemon *daemon)
{
	for (size_t i = 0; i < daemon->n_client_listeners; i++)
		listener_resume(&daemon->client_listeners[i]);
	listener_resume(&daemon->control_listener);
	metrics_socket_resume(&daemon->metrics);
}

/*
 * Handles what is asked, for a while. Who was not reached keeps its place, and we come back at once.
 */
static void take_requests(struct daemon *daemon)
{
	double end = daemon_now() + TURN_TIME;
	struct client *client;

	do {
		client = turns_next(&daemon->turns);
		if (client)
			client_take_request(client);
	} while (client && daemon_now() < end);
	/* Nothing would wake us: the fds of those who are left are not looked at meanwhile. */
	if (TAILQ_EMPTY(&daemon->turns))
		ev_idle_stop(daemon->loop, &daemon->w_busy);
	else
		ev_idle_start(daemon->loop, &daemon->w_busy);
}

static void on_busy(struct ev_loop *loop _unused_, ev_idle *w _unused_, int events _unused_)
{
}

/* The end of a turn of the loop: what was put off during it. */
static void on_turn(struct ev_loop *loop _unused_, ev_prepare *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_turn);

	take_requests(daemon);
	/* Who leaves may leave records, and may have kept an event on; and who is told of either may turn out to have left. */
	do {
		clients_sweep(daemon);
		tails_continue(daemon);
		clients_flush_changes(daemon);
	} while (!TAILQ_EMPTY(&daemon->leaving));
	deposit_tidy(daemon);
	watch_stalled(daemon);
	systemd_update_status(daemon);
}

static void on_hangup(struct ev_loop *loop _unused_, ev_signal *w, int events _unused_)
{
	reload_begin(container_of(w, struct daemon, w_hangup));
}

static void on_signal(struct ev_loop *loop, ev_signal *w, int events _unused_)
{
	log_debug("ending on %s", strsignal(w->signum));
	ev_break(loop, EVBREAK_ALL);
}

static void start_watchers(struct daemon *daemon)
{
	ev_io_init(&daemon->w_kernel, on_kernel, daemon->kernel->fd, EV_READ);
	ev_io_start(daemon->loop, &daemon->w_kernel);
	succession_init(daemon);
	linger_init(daemon);
	memory_init(daemon);
	settling_init(daemon);
	ev_timer_init(&daemon->w_probe, on_probe, 0., PROBE_INTERVAL);
	pages_init(daemon);
	ev_init(&daemon->w_deadlines, on_deadlines);
	ev_init(&daemon->w_stalled, on_stalled);
	ev_idle_init(&daemon->w_busy, on_busy);
	ev_prepare_init(&daemon->w_turn, on_turn);
	ev_prepare_start(daemon->loop, &daemon->w_turn);
	throttle_init(daemon);
	ev_signal_init(&daemon->w_hangup, on_hangup, SIGHUP);
	ev_signal_start(daemon->loop, &daemon->w_hangup);
	ev_signal_init(&daemon->w_terminate, on_signal, SIGTERM);
	ev_signal_start(daemon->loop, &daemon->w_terminate);
	ev_signal_init(&daemon->w_interrupt, on_signal, SIGINT);
	ev_signal_start(daemon->loop, &daemon->w_interrupt);
	systemd_init(daemon);
}

static void stop_watchers(struct daemon *daemon)
{
	systemd_deinit(daemon);
	ev_signal_stop(daemon->loop, &daemon->w_interrupt);
	ev_signal_stop(daemon->loop, &daemon->w_terminate);
	ev_signal_stop(daemon->loop, &daemon->w_hangup);
	throttle_deinit(daemon);
	ev_prepare_stop(daemon->loop, &daemon->w_turn);
	ev_idle_stop(daemon->loop, &daemon->w_busy);
	ev_timer_stop(daemon->loop, &daemon->w_deadlines);
	ev_timer_stop(daemon->loop, &daemon->w_later);
	ev_timer_stop(daemon->loop, &daemon->w_stalled);
	linger_deinit(daemon);
	memory_deinit(daemon);
	settling_deinit(daemon);
	ev_timer_stop(daemon->loop, &daemon->w_probe);
	pages_deinit(daemon);
	succession_deinit(daemon);
	ev_io_stop(daemon->loop, &daemon->w_kernel);
}

static int listen_or_say_why(struct listener *listener, struct daemon *daemon, const char *path, mode_t mode,
			     enum client_socket socket)
{
	int r = listener_init(listener, daemon, path, mode, socket);

	if (r == -EADDRINUSE)
		log_error("another daemon listens on %s; stop it, or give another --socket and --control-socket", path);
	else if (r == -EACCES || r == -EPERM)
		log_error(
			"no permission to listen on %s; run as root, or give a --socket and --control-socket elsewhere",
			path);
	else if (r < 0)
		log_error("can't listen on %s: %s", path, strerror(-r));
	return r;
}

static int take_over(struct listener *listener, struct daemon *daemon, int *fd, enum client_socket socket)
{
	int r = listener_take(listener, daemon, *fd, socket);

	if (r < 0)
		log_error("can't use a socket that was handed over: %s", strerror(-r));
	else
		fd_steal(fd);
	return r;
}

static int open_client_sockets(struct daemon *daemon)
{
	struct systemd_sockets *handed_over = &daemon->handed_over;
	int r = 0;

	for (size_t i = 0; i < handed_over->n_clients && r == 0; i++)
		r = take_over(&daemon->client_listeners[daemon->n_client_listeners++], daemon, &handed_over->clients[i],
			      SOCKET_CLIENTS);
	if (handed_over->n_clients > 0)
		return r;
	return listen_or_say_why(&daemon->client_listeners[daemon->n_client_listeners++], daemon,
				 daemon->options.socket, 0666, SOCKET_CLIENTS);
}

static int open_sockets(struct daemon *daemon)
{
	int r = open_client_sockets(daemon);

	if (r < 0)
		return r;
	if (daemon->handed_over.control >= 0)
		r = take_over(&daemon->control_listener, daemon, &daemon->handed_over.control, SOCKET_CONTROL);
	else
		r = listen_or_say_why(&daemon->control_listener, daemon, daemon->options.control_socket, 0600,
				      SOCKET_CONTROL);
	if (r < 0)
		return r;
	/* Where they are is what an admin is told. */
	daemon->options.socket = daemon->client_listeners[0].path;
	daemon->options.control_socket = daemon->control_listener.path;
	metrics_socket_init(&daemon->metrics, daemon);
	return 0;
}

static int check_proc(void)
{
	if (peer_can_be_looked_up())
		return 0;
	log_error("can't see who connects: /proc is not mounted, or is that of another pid namespace");
	return -ESRCH;
}

static int find_cgroups(struct daemon *daemon)
{
	int r = cgroups_find(NULL, &daemon->cgroups);

	if (r < 0)
		log_error("can't see who connects: /proc/self/mountinfo can't be read: %s", strerror(-r));
	return r;
}

int daemon_new(const struct options *options, struct daemon **ret)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int r;

	if (!daemon)
		return -ENOMEM;
	daemon->options = *options;
	daemon->janitor_pipe = -1;
	daemon->handed_over.control = -1;
	TAILQ_INIT(&daemon->turns);
	clients_init(daemon);
	TAILQ_INIT(&daemon->lingering);
	TAILQ_INIT(&daemon->looks);
	TAILQ_INIT(&daemon->settling);
	LIST_INIT(&daemon->unwatched);
	LIST_INIT(&daemon->persistent);
	raise_fd_limit();
	daemon->loop = loop_new();
	machine_init(&daemon->machine, 0);
	machine_init(&daemon->files, 0);
	/* First of all, so that no program that we start gets them. */
	r = systemd_take_sockets(&daemon->handed_over);
	if (r == 0)
		r = check_proc();
	if (r == 0)
		r = find_cgroups(daemon);
	if (r == 0)
		r = daemon->loop ? reload_init(daemon) : -ENOSPC;
	if (r == 0)
		r = reload_first(daemon);
	if (r == 0)
		r = backend_open(daemon);
	if (r == 0)
		r = reload_check_capacity(daemon);
	if (r == 0) {
		daemon->started = daemon_now();
		start_watchers(daemon);
		r = inflight_init(daemon);
	}
	if (r == 0) {
		r = restore(daemon);
	}
	if (r == 0)
		r = declared_begin(daemon);
	if (r == 0)
		r = open_sockets(daemon);
	if (r == 0)
		r = unprivileged_become(daemon);
	if (r == 0)
		reload_keep_first(daemon);
	if (r != 0) {
		daemon_free(daemon);
		return r;
	}
	*ret = daemon;
	return 0;
}

int daemon_run(struct daemon *daemon)
{
	ev_run(daemon->loop, 0);
	return daemon->failed;
}

int daemon_await(struct daemon *daemon, const bool *under_way)
{
	struct pollfd wanted = { .fd = daemon->kernel->fd, .events = POLLIN };
	int r = 0;

	while (*under_way && r == 0) {
		int patience = daemon->kernel->stalled		 ? (int)(1000 * LATER_INTERVAL)
			       : !TAILQ_EMPTY(&daemon->settling) ? (int)(1000 * SETTLE_INTERVAL)
								 : -1;

		if (poll(&wanted, 1, patience) < 0 && errno != EINTR)
			r = -errno;
		if (r == 0)
			r = kernel_dispatch(daemon->kernel);
		settling_look(daemon);
	}
	/* The calls are the caller's again. */
	if (r < 0)
		kernel_cancel(daemon->kernel);
	return r;
}

/* Whoever comes next finds everything as it is now: nobody is told anything more, and nothing is let go of. */
static void leave_all(struct daemon *daemon)
{
	for (struct client *client = TAILQ_FIRST(&daemon->clients); client; client = TAILQ_NEXT(client, all)) {
		client->kept = client->tenant;
		client_close(client);
	}
	/* First: what is cancelled here the keeper may have done. */
	deposit_end(daemon);
	kernel_cancel(daemon->kernel);
}

struct daemon *daemon_free(struct daemon *daemon)
{
	if (!daemon)
		return NULL;
	if (daemon->ledger)
		leave_all(daemon);
	/* Nobody new, then those who are there, what was asked for them, what they left behind, and what it was made of. */
	metrics_socket_deinit(&daemon->metrics);
	listener_deinit(&daemon->control_listener);
	for (size_t i = 0; i < daemon->n_client_listeners; i++)
		listener_deinit(&daemon->client_listeners[i]);
	systemd_close_sockets(&daemon->handed_over);
	while (!TAILQ_EMPTY(&daemon->clients))
		client_free(TAILQ_FIRST(&daemon->clients));
	if (daemon->kernel)
		kernel_cancel(daemon->kernel);
	settling_end(daemon);
	declared_deinit(daemon);
	while (daemon->streams)
		stream_free(daemon->streams);
	while (!LIST_EMPTY(&daemon->persistent)) {
		struct grant *grant = LIST_FIRST(&daemon->persistent);

		LIST_REMOVE(grant, persists);
		grant_unref(grant);
	}
	inflight_deinit(daemon);
	if (daemon->kernel)
		stop_watchers(daemon);
	assert(!daemon->levels);
	reload_deinit(daemon);
	rules_deinit(daemon);
	machine_deinit(&daemon->machine);
	machine_deinit(&daemon->files);
	kernel_free(daemon->kernel);
	if (daemon->keeper > 0)
		waitpid(daemon->keeper, NULL, 0);
	unprivileged_end(daemon);
	if (daemon->loop)
		ev_loop_destroy(daemon->loop);
	free(daemon);
	return NULL;
}

double daemon_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Whether the log is to have it: one of a kind, tenant and minute; and how many there were since that it has not. */
static bool is_news(struct refusal_told *told, double now, uint64_t *ret_more)
{
	*ret_more = told->more;
	if (told->since != 0. && now - told->since < REFUSALS_INTERVAL) {
		told->more++;
		return false;
	}
	*told = (struct refusal_told){ .since = now };
	return true;
}

void daemon_refused(struct daemon *daemon, struct tenant *tenant, const char *event, uint32_t refusal,
		    const char *sentence)
{
	/* The tenant may come and go as it likes: its level remembers what was logged. */
	struct refusal_told *told = tenant ? level_refusals(tenant->level) : NULL;
	/* The daemon found that out by itself. */
	enum log_source source = refusal == REFUSAL_SELF_REGISTERED ? LOG_OF_DAEMON : LOG_OF_CLIENTS;
	uint64_t more;

	if (tenant)
		tenant->refusals[refusal]++;
	if (!told)
		told = daemon->refusals_told;
	if (is_news(&told[refusal], daemon_now(), &more))
		log_refusal(source, tenant ? tenant->path : NULL, event, refusal_name(refusal), sentence, more);
	else
		log_debug("tenant %s: %s refused (%s): %s", tenant ? tenant->path : "unknown", event ? event : "",
			  refusal_name(refusal), sentence);
}
