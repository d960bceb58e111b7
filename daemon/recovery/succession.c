/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A keeper that ends takes the enablers with it: the bits of all pages stay as they are, until somebody registers for them
 * again. Everything else goes on, since this process has a copy of each page and each data file. So it connects to the next
 * keeper, gives it all of that, and goes on asking for what the last one has not answered. Nobody's request is read differently
 * meanwhile; it takes longer.
 */

#include "daemon/recovery/succession.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "daemon/backend.h"
#include "daemon/connection/deposit.h"
#include "daemon/daemon.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/registry/event.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

/* All that is said to the new one. The texts are copies: events may go before it has answered. */
struct bequest {
	struct daemon *daemon;
	double begun;
	size_t n;
	size_t room;
	struct kernel_call *calls;
	char *text;
	size_t text_used;
};

static struct bequest *bequest_free(struct bequest *bequest)
{
	if (!bequest)
		return NULL;
	free(bequest->calls);
	free(bequest->text);
	free(bequest);
	return NULL;
}

/* How many calls there may be, and how much text. */
static void measure(const struct daemon *daemon, size_t *ret_calls, size_t *ret_text)
{
	size_t calls = 2 * (size_t)HASH_CNT(by_number, daemon->registry.tenants_by_number), text = 0;

	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next) {
		calls += 1 + HASH_CNT(by_grant, stream->references);
		for (const struct reference *at = stream->references; at; at = at->by_grant.next)
			text += strlen(at->grant->event->description) + 1;
	}
	*ret_calls = calls;
	*ret_text = text;
}

static struct bequest *bequest_new(struct daemon *daemon)
{
	struct bequest *bequest = calloc(1, sizeof(*bequest));
	size_t text;

	if (!bequest)
		return NULL;
	bequest->daemon = daemon;
	bequest->begun = clock_now();
	measure(daemon, &bequest->room, &text);
	bequest->calls = calloc(MAX(bequest->room, 1), sizeof(*bequest->calls));
	bequest->text = malloc(MAX(text, 1));
	return bequest->calls && bequest->text ? bequest : bequest_free(bequest);
}

static void add(struct bequest *bequest, struct kernel_call call)
{
	bequest->calls[bequest->n++] = call;
}

static int copy_of(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* What it has no fd for can't be given: then nothing that belongs to it finds a place there, and that is said. */
static void add_page(struct bequest *bequest, const struct tenant *tenant)
{
	_cleanup_(fd_closep) int clients = copy_of(tenant->page_fd), writable = copy_of(tenant->page_writable);

	if (clients < 0 || writable < 0)
		return;
	add(bequest, (struct kernel_call){
			     .op = KERNEL_PAGE_ADOPT,
			     .page = tenant->number,
			     .index = 1,
			     .fd = fd_steal(&writable),
		     });
	add(bequest, (struct kernel_call){
			     .op = KERNEL_PAGE_ADOPT,
			     .page = tenant->number,
			     .fd = fd_steal(&clients),
		     });
}

static void add_reference(struct bequest *bequest, const struct reference *reference)
{
	const struct grant *grant = reference->grant;
	const char *description = grant->event->description;
	char *text = bequest->text + bequest->text_used;
	size_t size = strlen(description) + 1;

	memcpy(text, description, size);
	bequest->text_used += size;
	add(bequest, (struct kernel_call){
			     .op = KERNEL_ADOPT,
			     .stream = reference->stream->number,
			     .page = grant->tenant->number,
			     .text = text,
			     .flags = grant->event->flags,
			     .bit = grant->bit,
			     .index = reference->index,
			     .fd = -1,
		     });
}

static void add_stream(struct bequest *bequest, const struct stream *stream)
{
	int copy = copy_of(stream->fd);

	/* Else it is about to be made, and that is asked for again. Without a file it only lingers. */
	if (!stream->made || (stream->fd >= 0 && copy < 0))
		return;
	add(bequest, (struct kernel_call){
			     .op = KERNEL_STREAM_ADOPT,
			     .stream = stream->number,
			     .page = stream->tenant->number,
			     .number = stream->place,
			     .fd = copy,
		     });
	for (const struct reference *at = stream->references; at; at = at->by_grant.next)
		add_reference(bequest, at);
}

static void on_adopted(void *data, struct kernel_call *calls, size_t n)
{
	struct bequest *bequest = data;
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
			   (clock_now() - bequest->begun) * 1000);
	else if (error != -ECANCELED)
		log_error("a new keeper has taken over, but for %zu of %zu pages, files and events (%s)", failed, n,
			  error < 0 ? strerror(-error) : "it says that there is no such thing");
	bequest_free(bequest);
}

/* It may have found none where the last one had one. (Where it is the other way round, the next proof shows.) */
static void note_guard(struct daemon *daemon)
{
	if (!daemon->registry.guarded || daemon->registry.kernel->facts.guarded)
		return;
	daemon->registry.guarded = false;
	log_warning("the new keeper has no guard (%s): data files are %s", daemon->registry.kernel->facts.note,
		    streq(daemon->registry.guard, "require") ? "not given out any more"
							     : "no longer shared; see userevd(8)");
	streams_watch(&daemon->registry);
}

/* Behind this comes, by itself, what the last one has not answered. */
static void give_all(void *data)
{
	struct daemon *daemon = data;
	struct bequest *bequest = bequest_new(daemon);

	note_guard(daemon);
	daemon->connections.keeper_has_gone = false;
	if (!bequest) {
		log_error("out of memory: the new keeper can't be told what there is");
		return;
	}
	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		add_page(bequest, tenant);
	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next)
		add_stream(bequest, stream);
	kernel_submit(daemon->registry.kernel, bequest->calls, bequest->n, on_adopted, bequest);
	deposit_all(&daemon->connections);
}

/* Without waiting: where many wait already, it is tried again. */
static void look_for_keeper(struct daemon *daemon)
{
	int socket, r = backend_connect_keeper(daemon, &socket);

	if (r < 0) {
		log_debug("can't connect to the keeper: %s", strerror(-r));
		return;
	}
	ev_timer_stop(daemon->loop, &daemon->w_succession);
	daemon->keeper_came = clock_now();
	remote_succeed(daemon->registry.kernel, socket, give_all, daemon);
	ev_io_set(&daemon->w_kernel, daemon->registry.kernel->fd, EV_READ);
	ev_io_start(daemon->loop, &daemon->w_kernel);
}

static void on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	look_for_keeper(container_of(w, struct daemon, w_succession));
}

void succession_init(struct daemon *daemon)
{
	ev_timer_init(&daemon->w_succession, on_timer, 0., KEEPER_INTERVAL);
}

void succession_deinit(struct daemon *daemon)
{
	ev_timer_stop(daemon->loop, &daemon->w_succession);
}

bool succession_begin(struct daemon *daemon, int error)
{
	const bool again = daemon->connections.keeper_has_gone;
	const bool soon = daemon->keeper_came > 0 && clock_now() - daemon->keeper_came < KEEPER_PAUSE;

	/* One with which this can't go on. */
	if (!daemon->registry.kernel->facts.deposits || error == -ESTALE || error == -EPROTO)
		return false;
	if (error == -ECONNREFUSED)
		log_error("the keeper can't serve: %s", daemon->registry.kernel->facts.note);
	else
		log_warning("the keeper has gone (%s): waiting for the next one", strerror(-error));
	daemon->connections.keeper_has_gone = true;
	ev_io_stop(daemon->loop, &daemon->w_kernel);
	daemon->w_succession.repeat = soon ? KEEPER_PAUSE : KEEPER_INTERVAL;
	/* At once; after one that refuses, or goes as soon as it has come, a little later: it may be we who can't talk to it. */
	if (error != -ECONNREFUSED && !again && !soon)
		look_for_keeper(daemon);
	if (!ev_is_active(&daemon->w_kernel))
		ev_timer_again(daemon->loop, &daemon->w_succession);
	return true;
}
