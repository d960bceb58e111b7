/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/daemon.h"

#include <assert.h>
#include <fcntl.h>
#include <float.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/admin/reload.h"
#include "daemon/backend.h"
#include "daemon/connection/deposit.h"
#include "daemon/dispatch.h"
#include "daemon/identity/peer.h"
#include "daemon/native/native.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/process/loop.h"
#include "daemon/process/timer.h"
#include "daemon/process/unprivileged.h"
#include "daemon/recovery/restore.h"
#include "daemon/recovery/succession.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/linger.h"
#include "daemon/registry/own_trace.h"
#include "daemon/registry/resting.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "kernel/program.h"

/* `r`: the result of kernel_dispatch(). */
static void daemon_check_kernel(struct daemon *daemon, int r)
{
	if (r < 0 && !succession_begin(daemon, r)) {
		log_error("the %s backend failed: %s", backend_name(daemon->registry.kernel->facts.backend),
			  r == -ECONNREFUSED || r == -ESTALE ? daemon->registry.kernel->facts.note : strerror(-r));
		daemon->connections.failed = r;
		ev_break(daemon->loop, EVBREAK_ALL);
	}
}

static void on_kernel(struct ev_loop *loop _unused_, ev_io *w, int events)
{
	struct daemon *daemon = container_of(w, struct daemon, w_kernel);

	/* EV_ERROR: epoll has no room for its fd (max_user_watches). */
	daemon_check_kernel(daemon, events & EV_ERROR ? -ENOSPC : kernel_dispatch(daemon->registry.kernel));
}

static void on_stalled(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_stalled);

	ev_timer_stop(loop, w);
	daemon_check_kernel(daemon, kernel_dispatch(daemon->registry.kernel));
}

static void on_fd_freed(struct connections *connections)
{
	struct daemon *daemon = container_of(connections, struct daemon, connections);

	for (size_t i = 0; i < daemon->n_client_listeners; i++)
		listener_resume(&daemon->client_listeners[i]);
	listener_resume(&daemon->control_listener);
	metrics_socket_resume(&daemon->metrics);
}

/* A turn of the loop: its watchers, and then work that these have put off. */
static void daemon_take_turn(struct ev_loop *loop)
{
	struct daemon *daemon = ev_userdata(loop);

	clients_take_events();
	ev_invoke_pending(loop);
	clients_take_requests(&daemon->connections);
	/* First: a client that leaves may leave records, and may turn events off. */
	clients_sweep(&daemon->connections);
	streams_end(&daemon->registry);
	tails_continue(daemon);
	clients_flush_notes(&daemon->connections);
	deposit_check(&daemon->connections);
	clients_stay_awake(&daemon->connections);
	if (daemon->registry.kernel->stalled)
		timer_repeat(daemon->loop, &daemon->w_stalled, on_stalled, LATER_INTERVAL);
	systemd_update_status(&daemon->systemd);
}

static void daemon_on_signal(struct ev_loop *loop, ev_signal *w, int events _unused_)
{
	if (w->signum == SIGHUP) {
		reload_begin(w->data);
		return;
	}
	log_debug("ending on %s", strsignal(w->signum));
	ev_break(loop, EVBREAK_ALL);
}

static void make_status(void *data, char *ret, size_t size)
{
	const struct daemon *daemon = data;
	const struct machine *machine = &daemon->registry.machine;
	unsigned tenants = HASH_CNT(by_number, daemon->registry.tenants);

	snprintf(ret, size, "%u tenant%s, %u of %u events%s", tenants, tenants == 1 ? "" : "s",
		 machine->common + machine->filled, machine->capacity,
		 *daemon->reload.note ? "; the policy files have errors, an older policy is in force" : "");
}

static void start_watchers(struct daemon *daemon)
{
	static const int signals[] = { SIGHUP, SIGTERM, SIGINT };

	daemon->started = clock_now();
	ev_io_init(&daemon->w_kernel, on_kernel, daemon->registry.kernel->fd, EV_READ);
	ev_io_start(daemon->loop, &daemon->w_kernel);
	linger_init(&daemon->registry);
	ev_set_userdata(daemon->loop, daemon);
	ev_set_invoke_pending_cb(daemon->loop, daemon_take_turn);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		ev_signal_init(&daemon->w_signals[i], daemon_on_signal, signals[i]);
		daemon->w_signals[i].data = daemon;
		ev_signal_start(daemon->loop, &daemon->w_signals[i]);
	}
	reload_init(daemon);
	systemd_init(&daemon->systemd, daemon->loop, make_status, daemon);
}

static void daemon_disconnect(struct holder *holder, uint32_t refusal, const char *sentence)
{
	client_disconnect_counted(client_of(holder), 0, refusal, sentence);
}

/* Listens on a socket that systemd has passed (-1: none), or at this path. */
static int daemon_listen(struct listener *listener, struct daemon *daemon, int *passed, const char *path, mode_t mode,
			 enum client_socket socket)
{
	bool is_passed = *passed >= 0;
	int r = is_passed ? listener_take(listener, &daemon->connections, *passed, socket)
			  : listener_init(listener, &daemon->connections, path, mode, socket);

	if (r == 0)
		*passed = -1;
	else if (is_passed)
		log_error("can't use a socket that was handed over: %s", strerror(-r));
	else if (r == -EADDRINUSE)
		log_error("another daemon listens on %s; stop it, or give another --socket and --control-socket", path);
	else if (r == -EACCES || r == -EPERM)
		log_error(
			"no permission to listen on %s; run as root, or give a --socket and --control-socket elsewhere",
			path);
	else
		log_error("can't listen on %s: %s", path, strerror(-r));
	return r;
}

static int open_sockets(struct daemon *daemon)
{
	struct systemd_sockets *passed = &daemon->handed_over;
	int none = -1, r = 0;

	for (size_t i = 0; i < MAX(passed->n_clients, (size_t)1) && r == 0; i++)
		r = daemon_listen(&daemon->client_listeners[daemon->n_client_listeners++], daemon,
				  passed->n_clients > 0 ? &passed->clients[i] : &none, daemon->options.socket, 0666,
				  SOCKET_CLIENTS);
	if (r == 0)
		r = daemon_listen(&daemon->control_listener, daemon, &passed->control, daemon->options.control_socket,
				  0600, SOCKET_CONTROL);
	if (r < 0)
		return r;
	/* For STATUS: the real paths. */
	daemon->options.socket = daemon->client_listeners[0].path;
	daemon->options.control_socket = daemon->control_listener.path;
	metrics_socket_init(&daemon->metrics, daemon);
	return 0;
}

/* Clients are identified by /proc and the tree of cgroups. */
static int check_identification(struct daemon *daemon)
{
	int r;

	if (!peer_can_be_looked_up()) {
		log_error("can't identify clients: /proc is not mounted, or belongs to another pid namespace");
		return -ESRCH;
	}
	r = cgroups_find(NULL, &daemon->registry.cgroups);
	if (r < 0)
		log_error("can't identify clients: /proc/self/mountinfo can't be read: %s", strerror(-r));
	daemon->registry.cgroups.directory = open(daemon->registry.cgroups.mount, O_PATH | O_CLOEXEC);
	return r;
}

static void init_registry(struct registry *registry, struct ev_loop *loop, const struct options *options)
{
	registry->loop = registry->memory.loop = loop;
	registry->disconnect = daemon_disconnect;
	registry->changed = client_note_change;
	registry->traced = client_note_trace;
	registry->options = options;
	TAILQ_INIT(&registry->lingering);
	TAILQ_INIT(&registry->ending);
	TAILQ_INIT(&registry->looks);
	TAILQ_INIT(&registry->settling);
	TAILQ_INIT(&registry->resting);
	own_traces_init(registry);
}

static void init_connections(struct connections *connections, struct ev_loop *loop, struct registry *registry)
{
	static const struct connection_calls calls = {
		.dispatch = dispatch,
		.go_on = listing_continue,
		.leave = listing_free,
		.fd_freed = on_fd_freed,
	};

	connections->registry = registry;
	connections->loop = loop;
	connections->call = &calls;
	clients_init(connections);
}

/* Called in the janitor, once this process has ended. */
static void remove_files(void *data)
{
	struct daemon *daemon = data;

	listener_remove_files(&daemon->metrics.listener);
	listener_remove_files(&daemon->control_listener);
	for (size_t i = 0; i < daemon->n_client_listeners; i++)
		listener_remove_files(&daemon->client_listeners[i]);
	if (*daemon->pages)
		rmdir(daemon->pages);
}

int daemon_new(const struct options *options, struct daemon **ret)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int r;

	if (!daemon)
		return -ENOMEM;
	daemon->options = *options;
	daemon->janitor.socket = -1;
	/* Thousands of connections are ordinary. */
	program_raise_fd_limit();
	daemon->loop = loop_new();
	init_registry(&daemon->registry, daemon->loop, &daemon->options);
	init_connections(&daemon->connections, daemon->loop, &daemon->registry);
	/* First of all, so that no program that we start gets them. */
	r = systemd_take_sockets(&daemon->handed_over);
	if (r == 0)
		r = unprivileged_find(options->user, &daemon->user);
	if (r == 0)
		r = check_identification(daemon);
	if (r == 0)
		r = reload_first(daemon);
	if (r == 0)
		r = backend_open(daemon);
	if (r == 0)
		r = reload_check_capacity(daemon);
	if (r == 0)
		start_watchers(daemon);
	if (r == 0)
		r = restore(daemon);
	if (r == 0)
		r = declared_begin(&daemon->registry);
	if (r == 0)
		r = native_begin(&daemon->registry);
	if (r == 0)
		r = open_sockets(daemon);
	if (r == 0)
		r = unprivileged_become(&daemon->user, &daemon->janitor, remove_files, daemon);
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
	daemon_take_turn(daemon->loop);
	ev_run(daemon->loop, 0);
	return daemon->connections.failed;
}

/* The next daemon finds everything as it is now: nothing more is sent, and nothing is released. */
static void daemon_leave_to_next(struct daemon *daemon)
{
	deposit_rest(&daemon->connections);
	for (struct client *client = TAILQ_FIRST(&daemon->connections.clients); client;
	     client = TAILQ_NEXT(client, all))
		client_close(client);
	/* First: the keeper may have carried out calls that are cancelled here. */
	deposit_end(&daemon->connections);
	kernel_cancel(daemon->registry.kernel);
}

struct daemon *daemon_free(struct daemon *daemon)
{
	if (!daemon)
		return NULL;
	if (daemon->registry.ledger)
		daemon_leave_to_next(daemon);
	/* Listeners first, then clients, their calls, the streams that they leave behind, and last the modules themselves. */
	metrics_socket_deinit(&daemon->metrics);
	listener_deinit(&daemon->control_listener);
	for (size_t i = 0; i < daemon->n_client_listeners; i++)
		listener_deinit(&daemon->client_listeners[i]);
	systemd_close_sockets(&daemon->handed_over);
	while (!TAILQ_EMPTY(&daemon->connections.clients))
		client_free(TAILQ_FIRST(&daemon->connections.clients));
	if (daemon->registry.kernel)
		kernel_cancel(daemon->registry.kernel);
	native_deinit(&daemon->registry);
	silencing_end(&daemon->registry);
	own_traces_deinit(&daemon->registry);
	settling_resume(&daemon->registry, DBL_MAX);
	declared_deinit(&daemon->registry);
	while (daemon->registry.streams)
		stream_free(daemon->registry.streams);
	grants_end(&daemon->registry);
	resting_clear(&daemon->registry);
	assert(!daemon->registry.levels);
	silence_deinit(&daemon->registry);
	reload_deinit(daemon);
	rules_deinit(&daemon->registry);
	machine_deinit(&daemon->registry.machine);
	machine_deinit(&daemon->registry.files);
	cgroups_forget(&daemon->registry.cgroups);
	kernel_free(daemon->registry.kernel);
	if (daemon->keeper > 0)
		waitpid(daemon->keeper, NULL, 0);
	if (!janitor_end(&daemon->janitor) && *daemon->pages)
		rmdir(daemon->pages);
	/* Timers and fds end with the loop; the handler of a signal would look for it. */
	for (size_t i = 0; i < ARRAY_SIZE(daemon->w_signals); i++)
		ev_signal_stop(daemon->loop, &daemon->w_signals[i]);
	ev_loop_destroy(daemon->loop);
	free(daemon);
	return NULL;
}
