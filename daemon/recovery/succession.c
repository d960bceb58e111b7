/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The enablers end with their keeper: the bits of all pages stay as they are until a process registers for them again. Everything
 * else goes on, since the daemon has a copy of each page and each data file. So the daemon connects to the next keeper, passes all of
 * that to it, and repeats the calls that the last keeper has not answered. Requests meanwhile take longer.
 */

#include "daemon/recovery/succession.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "daemon/backend.h"
#include "daemon/connection/deposit.h"
#include "daemon/daemon.h"
#include "daemon/native/native.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/process/timer.h"
#include "daemon/registry/event.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/base/array.h"

/* The calls that pass everything to the new keeper. Their texts are copies, since events may end before the answer. */
static struct {
	double begun;
	size_t n;
	struct kernel_call *calls;
} bequest;

/* With copies of its fd, or -1, and its text, or NULL. */
static void bequest_add(struct kernel_call call, int fd, const char *text)
{
	struct kernel_call *calls = array_grow(bequest.calls, bequest.n, sizeof(*calls));

	call.fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	call.text = text ? strdup(text) : NULL;
	/* With a part of all this, programs would be left without their events. Clients of the next daemon register them again. */
	if (!calls || (fd >= 0 && call.fd < 0) || (text && !call.text)) {
		log_error("can't give all pages, files and events to the new keeper: %s", strerror(errno));
		exit(EXIT_FAILURE);
	}
	bequest.calls = calls;
	calls[bequest.n++] = call;
}

static void bequest_add_stream(const struct stream *stream)
{
	const struct kernel_call call = {
		.op = KERNEL_STREAM_ADOPT,
		.stream = stream->number,
		.page = stream->tenant->number,
		.number = stream->place,
	};
	const struct reference *reference;

	/* A stream that is being made is asked for again. A stream without a file only lingers. */
	if (!stream->made || stream->ends)
		return;
	bequest_add(call, stream->fd, NULL);
	ID_TABLE_FOREACH(reference, &stream->references) {
		const struct event *event = reference->grant->event;
		const struct kernel_call adopt = {
			.op = KERNEL_ADOPT,
			.stream = stream->number,
			.page = stream->tenant->number,
			.flags = event->flags | reference->grant->state,
			.bit = reference->grant->bit,
			.index = reference->index,
		};

		bequest_add(adopt, -1, event->description);
	}
}

static void on_adopted(void *data _unused_, struct kernel_call *calls, size_t n)
{
	size_t failed = 0;
	int error = 0;

	for (size_t i = 0; i < n; i++) {
		if (calls[i].result == KERNEL_OK)
			continue;
		failed++;
		error = calls[i].result;
	}
	if (failed == 0)
		log_notice("a new keeper has taken over, with %zu pages, files and events, in %.0f ms", n,
			   (clock_now() - bequest.begun) * 1000);
	else if (error != -ECANCELED)
		log_error("a new keeper has taken over, without %zu of %zu pages, files and events (%s)", failed, n,
			  error < 0 ? strerror(-error) : "it has no such thing");
	for (size_t i = 0; i < n; i++)
		free((void *)calls[i].text);
	free(calls);
}

/* The remote kernel repeats unanswered calls behind these. */
static void bequeath(void *data)
{
	struct daemon *daemon = data;
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;

	/* The new keeper may have no guard although the last one had. (In the other case the next test of a data file shows it.) */
	if (daemon->registry.guarded && !facts->guarded) {
		daemon->registry.guarded = false;
		log_warning("the new keeper has no guard (%s): data files are %s", facts->note,
			    streq(daemon->options.guard, "require") ? "no longer sent"
								    : "no longer shared; see userevd(8)");
		streams_watch(&daemon->registry);
	}
	daemon->connections.keeper_has_gone = false;
	bequest.begun = clock_now();
	bequest.calls = NULL;
	bequest.n = 0;
	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_number.next) {
		struct kernel_call page = { .op = KERNEL_PAGE_ADOPT, .page = tenant->number, .index = 1 };

		if (tenant->page_writable < 0 || tenant->page_fd < 0)
			continue;
		bequest_add(page, tenant->page_writable, NULL);
		page.index = 0;
		bequest_add(page, tenant->page_fd, NULL);
	}
	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next)
		bequest_add_stream(stream);
	kernel_submit(daemon->registry.kernel, bequest.calls, bequest.n, on_adopted, NULL);
	deposit_all(&daemon->connections);
	native_adopt_keeper(&daemon->registry);
}

/* Does not block: if the keeper's backlog is full, the timer tries again. */
static void succession_connect(struct daemon *daemon)
{
	int socket, r = backend_connect_keeper(daemon, &socket);

	if (r < 0) {
		log_debug("can't connect to the keeper: %s", strerror(-r));
		return;
	}
	ev_timer_stop(daemon->loop, &daemon->w_succession);
	daemon->keeper_came = clock_now();
	remote_succeed(daemon->registry.kernel, socket, bequeath, daemon);
	ev_io_set(&daemon->w_kernel, daemon->registry.kernel->fd, EV_READ);
	ev_io_start(daemon->loop, &daemon->w_kernel);
}

static void on_succession_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	succession_connect(container_of(w, struct daemon, w_succession));
}

bool succession_begin(struct daemon *daemon, int error)
{
	const bool again = daemon->connections.keeper_has_gone;
	const bool soon = daemon->keeper_came > 0 && clock_now() - daemon->keeper_came < KEEPER_PAUSE;

	/* Errors after which no other keeper helps. */
	if (!daemon->registry.kernel->facts.deposits || error == -ESTALE || error == -EPROTO)
		return false;
	if (error == -ECONNREFUSED)
		log_error("the keeper can't serve: %s", daemon->registry.kernel->facts.note);
	else
		log_warning("the keeper has gone (%s): waiting for a new keeper", strerror(-error));
	daemon->connections.keeper_has_gone = true;
	ev_io_stop(daemon->loop, &daemon->w_kernel);
	/* At once; but later after a keeper that refuses, or ends soon: the daemon may be the reason. */
	if (error != -ECONNREFUSED && !again && !soon)
		succession_connect(daemon);
	if (!ev_is_active(&daemon->w_kernel))
		timer_repeat(daemon->loop, &daemon->w_succession, on_succession_timer,
			     soon ? KEEPER_PAUSE : KEEPER_INTERVAL);
	return true;
}
