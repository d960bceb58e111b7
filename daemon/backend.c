/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/backend.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/daemon.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "daemon/process/unprivileged.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/pages.h"
#include "kernel/keeper/serve.h"
#include "kernel/page_file.h"
#include "kernel/program.h"
#include "protocol/transport.h"

/*
 * With "auto" the daemon logs that a backend is not available, and uses the embedded one instead. A backend that was set by
 * name is used, or the daemon does not start.
 */

/* Zeros and "" are the keeper's defaults. The policy decides which tenants may register persistent events. */
static int spawn_keeper(struct daemon *daemon, const char *path, const posix_spawn_file_actions_t *actions)
{
	const struct options *options = &daemon->options;
	static const char *const natives[] = { "no", "yes", "insist" };
	char backend[64], guard[64], capacity[64], page_bits[64], pages[PATH_MAX + 16], native[64];
	char *const argv[] = { (char[]){ "userevd-keeper" },  backend, guard, capacity, page_bits, pages, native,
			       (char[]){ "--allow-persist" }, NULL };
	char *const environment[] = { NULL };

	snprintf(backend, sizeof(backend), "--backend=%s", options->backend);
	snprintf(guard, sizeof(guard), "--guard=%s", options->guard);
	snprintf(capacity, sizeof(capacity), "--capacity=%u", options->capacity);
	snprintf(page_bits, sizeof(page_bits), "--page-bits=%u", options->page_bits);
	snprintf(pages, sizeof(pages), "--pages=%s", daemon->pages);
	snprintf(native, sizeof(native), "--native=%s", natives[policy_native(daemon->registry.policy)]);
	return -posix_spawn(&daemon->keeper, path, actions, NULL, argv, environment);
}

static const char own_pages[] = "pages", keepers_pages[] = "keeper-pages";

/* Removes the files of daemons that have ended, also those that only root may remove. */
static void pages_sweep(int directory, const char *path)
{
	int r = page_files_sweep(directory);

	if (r < 0)
		log_warning("can't look through %s for files of another daemon: %s", path, strerror(-r));
}

/* The same in the directory of a daemon with another backend. */
static void sweep_others(const struct daemon *daemon, const char *kind, uid_t owner)
{
	char path[PATH_MAX];
	_cleanup_(fd_closep) int fd =
		page_directory_find(daemon->options.control_socket, kind, owner, path, sizeof(path));

	if (fd < 0)
		return;
	pages_sweep(fd, path);
	rmdir(path);
}

/* The directory in which pages outlive us. Without one they end with the processes that have them. */
static void find_pages(struct daemon *daemon, const char *kind, uid_t owner)
{
	_cleanup_(fd_closep) int fd =
		page_directory_find(daemon->options.control_socket, kind, owner, daemon->pages, sizeof(daemon->pages));

	if (fd >= 0) {
		pages_sweep(fd, daemon->pages);
		return;
	}
	*daemon->pages = '\0';
	log_warning(
		"no directory for status pages, which has to be on a tmpfs (%s): if this daemon is killed, programs whose events "
		"are off do not notice the next daemon",
		strerror(-fd));
}

/* 0 with our end of its socket. The keeper ends when that is closed, and is our child to wait for. */
static int start_keeper(struct daemon *daemon, int *ret)
{
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	posix_spawn_file_actions_t actions;
	char path[PATH_MAX];
	int pair[2], r;

	r = program_beside("userevd-keeper", path, sizeof(path));
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	find_pages(daemon, keepers_pages, geteuid());
	sweep_others(daemon, own_pages, daemon->user.uid);
	posix_spawn_file_actions_init(&actions);
	r = -posix_spawn_file_actions_adddup2(&actions, theirs, KEEPER_SOCKET);
	/* A process that waits for the end of our output must not wait for the keeper. The keeper reports to the daemon. */
	for (int fd = STDIN_FILENO; r == 0 && fd <= STDERR_FILENO && !daemon->options.foreground; fd++)
		r = -posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = spawn_keeper(daemon, path, &actions);
	posix_spawn_file_actions_destroy(&actions);
	if (r == 0)
		*ret = fd_steal(&ours);
	return r;
}

/*
 * Whether to use a keeper that is started by others. A daemon that root starts by hand starts one of its own: the other
 * keeper may have a daemon already, and serves no second one.
 */
static bool has_keeper(const struct options *options)
{
	if (streq(options->backend, "embedded"))
		return false;
	return options->keeper_socket_required || (geteuid() != 0 && access(options->keeper_socket, W_OK) == 0);
}

int backend_connect_keeper(const struct daemon *daemon, int *ret)
{
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t length;
	int r;

	r = transport_address(daemon->options.keeper_socket, &address, &length);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, length) < 0)
		return -errno;
	*ret = fd_steal(&fd);
	return 0;
}

/* A keeper that the daemon has started has its options; systemd's may have others. */
static int check_keeper(struct daemon *daemon, char why[WIRE_SENTENCE_MAX + 1])
{
	const struct options *options = &daemon->options;
	struct kernel_facts *facts = &daemon->registry.kernel->facts;
	struct text sentence = text_make(why, WIRE_SENTENCE_MAX + 1);

	if (!streq(options->backend, "auto") && !streq(options->backend, backend_name(facts->backend)))
		text_printf(&sentence, "the keeper has user_events (%s)", backend_name(facts->backend));
	else if (streq(options->guard, "require") && facts->backend == BACKEND_ENABLE_ADDRESS && !facts->guarded)
		text_printf(&sentence, "there is no guard, and it is required: %s", facts->note);
	if (*why) {
		daemon->registry.kernel = kernel_free(daemon->registry.kernel);
		return -EOPNOTSUPP;
	}
	if (options->capacity)
		facts->capacity = MIN(facts->capacity, options->capacity);
	if (options->page_bits)
		facts->page_bits = MIN(facts->page_bits, options->page_bits);
	snprintf(daemon->probe.sentence, sizeof(daemon->probe.sentence), "this kernel has user_events (%s)",
		 backend_name(facts->backend));
	return 0;
}

/* `why`: the keeper's reason, or "". */
static int try_keeper(struct daemon *daemon, bool is_another, char why[WIRE_SENTENCE_MAX + 1])
{
	_cleanup_(fd_closep) int socket = -1;
	int r;

	*why = '\0';
	r = is_another ? backend_connect_keeper(daemon, &socket) : start_keeper(daemon, &socket);
	if (r == 0)
		r = remote_new(socket, &daemon->registry.kernel, why);
	if (r < 0)
		return r;
	fd_steal(&socket);
	return is_another ? check_keeper(daemon, why) : 0;
}

/*
 * Another keeper has the last daemon's deposit, and its clients wait: so a passing failure is tried again. Where no systemd listens for
 * the keeper, it may start a little later than the daemon.
 */
static bool another_attempt(const struct options *options, int error, unsigned tries)
{
	const bool may_start = options->keeper_socket_required && (error == -ENOENT || error == -ECONNREFUSED);

	if (may_start && tries == 1)
		log_notice("waiting for the keeper at %s: %s", options->keeper_socket, strerror(-error));
	return error != -ETIMEDOUT && tries < (may_start ? KEEPER_START_TRIES : KEEPER_TRIES) &&
	       usleep((useconds_t)(KEEPER_INTERVAL * 1e6)) == 0;
}

/* -ENOTCONN: there is no keeper where the options say that there is one. */
static int open_keeper(struct daemon *daemon, char why[WIRE_SENTENCE_MAX + 1])
{
	const bool is_another = has_keeper(&daemon->options);
	unsigned tries = 0;
	int r;

	do
		r = try_keeper(daemon, is_another, why);
	while (r < 0 && !*why && is_another && another_attempt(&daemon->options, r, ++tries));
	/* A reason from the keeper is final, and so is a timeout. */
	if (r == 0 || *why)
		return r;
	if (is_another)
		snprintf(why, WIRE_SENTENCE_MAX + 1, "can't talk to the keeper at %s: %s",
			 daemon->options.keeper_socket, strerror(-r));
	else if (r == -ENOENT)
		string_copy(why, WIRE_SENTENCE_MAX + 1, "userevd-keeper is not installed");
	else
		snprintf(why, WIRE_SENTENCE_MAX + 1, "userevd-keeper did not start: %s", strerror(-r));
	return daemon->options.keeper_socket_required ? -ENOTCONN : r;
}

static int open_embedded(struct daemon *daemon)
{
	struct kernel_limits limits = {
		.page_bits = daemon->options.page_bits,
		.capacity = daemon->options.capacity,
		.ring_bytes = daemon->options.ring_bytes,
	};
	int r;

	limits.pages_owner = daemon->user.uid;
	find_pages(daemon, own_pages, limits.pages_owner);
	if (geteuid() == 0)
		sweep_others(daemon, keepers_pages, 0);
	limits.pages = *daemon->pages ? daemon->pages : NULL;
	r = embedded_new(&limits, &daemon->registry.kernel);
	if (r == 0 && *daemon->registry.kernel->facts.note)
		log_warning("%s; if this daemon is killed, programs whose events are off do not notice the next daemon",
			    daemon->registry.kernel->facts.note);
	if (r < 0)
		log_error("can't start the embedded backend: %s", strerror(-r));
	return r;
}

/* A keeper that others start probes the kernel itself, with more privileges. */
static int backend_open_kernel(struct daemon *daemon)
{
	const char *wanted = daemon->options.backend;
	enum wire_backend backend = BACKEND_ENABLE_ADDRESS;
	char why[WIRE_SENTENCE_MAX + 1];
	int r = 0;

	probe_machine(NULL, &daemon->probe);
	if (!has_keeper(&daemon->options))
		r = probe_choose(wanted, geteuid() == 0, &daemon->probe, &backend);
	if (r == 0 && backend != BACKEND_EMBEDDED) {
		r = open_keeper(daemon, why);
		if (r == 0)
			return 0;
		string_copy(daemon->probe.sentence, sizeof(daemon->probe.sentence), why);
		/* A daemon without its keeper's events would detach the programs that have them. */
		if (streq(wanted, "auto") && !streq(daemon->options.guard, "require") && r != -ENOTCONN)
			return open_embedded(daemon);
	}
	if (r < 0)
		log_error("no %s backend here: %s", streq(wanted, "auto") ? backend_name((uint16_t)backend) : wanted,
			  daemon->probe.sentence);
	return r < 0 ? r : open_embedded(daemon);
}

int backend_open(struct daemon *daemon)
{
	const struct policy_value *guard = policy_daemon(daemon->registry.policy, POLICY_GUARD);
	int r;

	/* At the start alone: clients keep the files that they were sent. */
	if (!daemon->options.guard)
		daemon->options.guard = policy_key_word(POLICY_GUARD, guard);
	r = backend_open_kernel(daemon);
	if (r < 0)
		return r;
	daemon->registry.guarded = daemon->registry.kernel->facts.guarded;
	if (daemon->registry.kernel->facts.backend == BACKEND_ENABLE_ADDRESS && !daemon->registry.guarded)
		log_notice("no guard (%s): each client gets a data file of its own, and could register by itself on it",
			   daemon->registry.kernel->facts.note);
	daemon->registry.kernel->changed = pages_bit_changed;
	daemon->registry.kernel->changed_data = &daemon->registry;
	capacity_init(&daemon->registry);
	return 0;
}
