/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * userevd-keeper: root's part. Opens the files that only root may open, gives up privileges that it does not need, and serves the
 * daemon. Under systemd these are two processes: one that prepares and ends, and one without any privilege, which outlives its daemons.
 */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "kernel/keeper/guard.h"
#include "kernel/keeper/handover.h"
#include "kernel/keeper/listen.h"
#include "kernel/keeper/mounts.h"
#include "kernel/keeper/native.h"
#include "kernel/keeper/options.h"
#include "kernel/keeper/serve.h"
#include "kernel/native.h"
#include "kernel/privileges.h"
#include "kernel/probe.h"
#include "kernel/program.h"

/* Finds the kernel's ABI by probing; a backend that was named has to match. */
static int detect_backend(const struct keeper_options *options, struct preparation *preparation, struct text *why)
{
	struct probe probe = { .kind = BACKEND_EMBEDDED };

	probe_tracefs(preparation->mounts.tracefs, &probe);
	preparation->backend = probe.kind;
	if (!probe.has_user_events || probe.kind == BACKEND_EMBEDDED)
		text_printf(why, "this kernel has no user_events; Linux 6.4 or later with CONFIG_USER_EVENTS=y has");
	else if (!streq(options->backend, "auto") && !streq(options->backend, backend_name(probe.kind)))
		text_printf(why, "this machine has no %s: this kernel has user_events (%s)", options->backend,
			    backend_name(probe.kind));
	return why->length > 0 ? -EOPNOTSUPP : 0;
}

#define GUARD_DIRECTORY "/sys/fs/bpf/userevd" /* see userevd-guard(8) */

static int open_native(int files[NATIVE_FILES], char *why, size_t size)
{
	for (enum native_file i = 0; i < NATIVE_FILES; i++) {
		files[i] = native_pin_open(GUARD_DIRECTORY, i);
		if (files[i] < 0) {
			snprintf(why, size, "can't open what userevd-guard has made in " GUARD_DIRECTORY ": %s",
				 strerror(-files[i]));
			return files[i];
		}
	}
	return 0;
}

/* Without programs in the kernel that admit native events there are none. */
static void admit_native(const struct keeper_options *options, const char *guard, uint64_t inode,
			 struct preparation *preparation)
{
	struct mounts *mounts = &preparation->mounts;
	char *why = preparation->no_native;
	const size_t size = sizeof(preparation->no_native);

	if (!preparation->guarded)
		snprintf(why, size, "there is no guard");
	else if (keeper_guard_admit(guard, mounts->tracefs_id, options->prepare, inode, why, size) == 0 &&
		 open_native(mounts->native_files, why, size) == 0)
		return;
	mounts->native = fd_close(mounts->native);
}

/* Everything for which root's privileges are needed. 0 or a negative errno with a sentence. */
static int keeper_prepare(const struct keeper_options *options, struct preparation *ret, struct text *why)
{
	const char *tracefs;
	char guard[PATH_MAX];
	struct probe probe;
	struct text no_native = text_make(ret->no_native, sizeof(ret->no_native));
	uint64_t inode = 0;
	int r;

	*ret = PREPARATION_NONE;
	/* Before the mount namespace changes: in a chroot, /proc/self/exe leads nowhere from another namespace. */
	if (program_beside("userevd-guard", guard, sizeof(guard)) < 0)
		*guard = '\0';
	probe_machine(NULL, &probe);
	tracefs = probe.tracefs_mounted ? probe.tracefs : NULL;
	if (!streq(options->native, "no"))
		ret->mounts.native = keeper_native_mount(tracefs, streq(options->native, "insist"), options->prepare,
							 &inode, &no_native);
	/* Units make it. */
	if (streq(options->pages, KEEPER_PAGES))
		mkdir(KEEPER_DIRECTORY, 0755);
	if (streq(options->guard, "off"))
		snprintf(ret->no_guard, sizeof(ret->no_guard), "switched off");
	else
		mounts_prepare();
	r = mounts_open_tracefs(tracefs, &ret->mounts, why);
	if (r == 0)
		r = detect_backend(options, ret, why);
	if (r == 0 && !streq(options->guard, "off"))
		ret->guarded = keeper_guard_load(guard, ret->mounts.tracefs_id, options->prepare, ret->no_guard,
						 sizeof(ret->no_guard)) == 0;
	if (r == 0 && ret->mounts.native >= 0)
		admit_native(options, guard, inode, ret);
	if (r == 0 && streq(options->guard, "require") && !ret->guarded) {
		text_printf(why, "there is no guard, and it is required: %s", ret->no_guard);
		r = -EOPNOTSUPP;
	}
	if (r == 0)
		r = mounts_open_pages(options->pages,
				      ret->backend != BACKEND_STATUS_PAGE ? options->pages
				      : tracefs				  ? tracefs
									  : KEEPER_TRACEFS,
				      &ret->mounts, why);
	if (r < 0)
		preparation_deinit(ret);
	return r;
}

/* Takes over the prepared mounts, and gives up every other privilege. 0 or a negative errno with a sentence. */
static int keeper_start(const struct keeper_options *options, struct preparation *preparation, struct kernel **ret,
			struct text *why)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	int r;

	/* Every page is locked in memory. */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	program_raise_fd_limit();
	/*
	 * Without CAP_SYS_RESOURCE the kernel limits the fds in flight of all processes of uid 0 together, containers included, so
	 * answers of a keeper that lacks it may be delayed.
	 */
	r = privileges_keep((privileges_held() & CAPABILITY(CAP_SYS_RESOURCE)) |
			    (options->limits.persist ? CAPABILITY(CAP_PERFMON) : 0));
	if (r == 0) {
		struct kernel_limits limits = options->limits;

		limits.no_native = preparation->no_native;
		r = user_events_new(preparation->backend, &preparation->mounts, &limits, ret);
		preparation->mounts = PREPARATION_NONE.mounts;
	}
	if (r == -EACCES)
		text_printf(why, "user_events_data can't be opened for writing, or user_events_status not be read, by "
				 "root without privileges; mount tracefs with uid=0, and give root these permissions");
	else if (r < 0)
		text_printf(why, "can't use user_events: %s", strerror(-r));
	if (r != 0)
		return r;
	(*ret)->facts.guarded = preparation->guarded;
	if (!preparation->guarded && preparation->backend == BACKEND_ENABLE_ADDRESS)
		snprintf((*ret)->facts.note, sizeof((*ret)->facts.note), "%s", preparation->no_guard);
	return 0;
}

/*
 * Hands over a failure as well, and the unit counts as started: the keeper sends the sentence to its daemon, which does without,
 * whereas systemd would start a failed unit again and again.
 */
static int run_preparation(const struct keeper_options *options)
{
	_cleanup_(preparation_deinit) struct preparation preparation = PREPARATION_NONE;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	int r;

	/* The first is for mounts, the others are for the guard, which gives up the first. */
	r = privileges_keep(CAPABILITY(CAP_SYS_ADMIN) | CAPABILITY(CAP_SETPCAP) | CAPABILITY(CAP_BPF) |
			    CAPABILITY(CAP_PERFMON));
	if (r == 0 && keeper_prepare(options, &preparation, &why) < 0)
		string_copy(preparation.failure, sizeof(preparation.failure), why.buffer);
	if (r == 0)
		r = handover_put(&preparation);
	if (r < 0)
		fprintf(stderr, "userevd-keeper: can't hand over what was prepared: %s\n", strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* What this machine can't do is in the log, and no failure of the unit. */
static int mount_native(const struct keeper_options *options)
{
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct probe probe;
	uint64_t inode;

	if (streq(options->native, "no"))
		return EXIT_SUCCESS;
	probe_machine(NULL, &probe);
	fd_close(keeper_native_mount(probe.tracefs_mounted ? probe.tracefs : NULL, streq(options->native, "insist"),
				     false, &inode, &why));
	if (why.length > 0)
		fprintf(stderr, "userevd-keeper: no native events: %s\n", why.buffer);
	return EXIT_SUCCESS;
}

/* As userevd's child. */
static int serve_parent(const struct keeper_options *options, int socket)
{
	_cleanup_(preparation_deinit) struct preparation preparation = PREPARATION_NONE;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct kernel *kernel = NULL;
	int r;

	/* It ends with its daemon, not before: signals of a terminal or a supervisor are for the daemon. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	r = keeper_prepare(options, &preparation, &why);
	if (r == 0)
		r = keeper_start(options, &preparation, &kernel, &why);
	if (r == 0) {
		/* No keeper before this one can have left anything. */
		kernel_tell(kernel, (struct kernel_call){ .op = KERNEL_DISOWN, .fd = -1 });
		r = keeper_serve(socket, kernel, NULL);
		/* -EPROTO was answered when it happened. */
		if (r < 0 && r != -EPROTO)
			text_printf(&why, "the keeper can't go on: %s", strerror(-r));
	}
	if (why.length > 0)
		keeper_refuse(socket, why.buffer);
	kernel_free(kernel);
	keeper_guard_leave_cgroup();
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Sends the reason to one daemon, which then tries another keeper. */
static int refuse_next(int listener, uid_t owner, unsigned hold, const char *sentence)
{
	struct pollfd ask = { .fd = listener, .events = POLLIN };
	int socket, r = 0;

	while (r == 0 && poll(&ask, 1, (int)MIN(hold, INT32_MAX / 1000U) * 1000) > 0)
		r = keeper_accept(listener, owner, &socket);
	if (r > 0) {
		keeper_refuse(socket, sentence);
		fd_close(socket);
	}
	return r;
}

/* Serves all daemons that connect. If nothing was handed over it needs the privileges itself. */
static int serve_all(const struct keeper_options *options, struct preparation *preparation)
{
	const bool is_prepared = preparation->mounts.tracefs >= 0 || *preparation->failure;
	const int listener = preparation->listener;
	const uid_t owner = keeper_find_owner(listener);
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct kernel *kernel = NULL;
	int r = 0;

	if (*preparation->failure)
		text_printf(&why, "%s", preparation->failure);
	else if (!is_prepared)
		r = keeper_prepare(options, preparation, &why);
	if (r == 0 && why.length == 0)
		keeper_start(options, preparation, &kernel, &why);
	r = kernel ? keeper_serve_all(listener, owner, options->hold, kernel)
		   : refuse_next(listener, owner, options->hold, why.buffer);
	/* After a failure the daemon gives the pages, which it has as well, to the next keeper: they must not end with this one. */
	if (r < 0)
		fprintf(stderr, "userevd-keeper: can't go on: %s\n", strerror(-r));
	else
		kernel_free(kernel);
	keeper_guard_leave_cgroup();
	/* A refusal that was delivered is no failure of the unit. */
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	_cleanup_(preparation_deinit) struct preparation preparation = PREPARATION_NONE;
	struct keeper_options options;
	int type, r;
	socklen_t size = sizeof(type);

	r = keeper_parse_options(argc, argv, &options);
	if (r >= 0)
		return r;
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (options.mount_native)
		return mount_native(&options);
	if (options.prepare)
		return run_preparation(&options);
	r = handover_take(&preparation);
	if (r == 0)
		return serve_all(&options, &preparation);
	if (r == -ENOENT && options.socket) {
		r = keeper_listen(options.socket, options.owner, &preparation.listener);
		if (r == 0)
			return serve_all(&options, &preparation);
		fprintf(stderr, "userevd-keeper: can't listen on %s: %s\n", options.socket,
			r == -EADDRINUSE ? "another keeper does" : strerror(-r));
		return EXIT_FAILURE;
	}
	/* If a user starts it, fd 3 may be anything. */
	if (r == -ENOENT &&
	    (getsockopt(KEEPER_SOCKET, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)) {
		fprintf(stderr, "userevd-keeper is started by userevd or by systemd; see userevd(8)\n");
		return 2;
	}
	if (r == -ENOENT && fcntl(KEEPER_SOCKET, F_SETFD, FD_CLOEXEC) == 0)
		return serve_parent(&options, KEEPER_SOCKET);
	fprintf(stderr, "userevd-keeper: can't take what it was handed: %s\n", strerror(-r));
	return EXIT_FAILURE;
}
