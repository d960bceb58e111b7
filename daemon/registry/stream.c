/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/stream.h"

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/process/fds.h"
#include "daemon/process/log.h"
#include "daemon/process/timer.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/fd_budget.h"
#include "daemon/registry/kept.h"
#include "daemon/registry/linger.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/share.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"
#include "kernel/uapi.h"

static void stream_enter(struct stream *stream)
{
	const struct entry_stream entry = {
		.tenant = stream->tenant->number,
		.uid = stream->uid,
		.self_registered = stream->self_registered,
	};

	ledger_enter(stream->registry->ledger, &stream->entry, ENTRY_STREAM, stream->number, 0, &entry, sizeof(entry),
		     "");
}

struct stream *stream_by_number(const struct registry *registry, uint32_t number)
{
	struct stream *stream;

	NUMBER_FIND(by_number, registry->streams, number, stream);
	return stream;
}

static void stream_share(struct stream *stream)
{
	stream->shared = true;
	LIST_INSERT_HEAD(&stream->tenant->sharing, stream, sharing);
}

static void stream_unshare(struct stream *stream)
{
	if (stream->shared)
		LIST_REMOVE(stream, sharing);
	stream->shared = false;
}

/* Makes it and charges its file: again, if it was there before a restart. 0, a refusal, or -ENOMEM. */
static int stream_make(struct tenant *tenant, uid_t uid, uint32_t number, bool again, struct stream **ret,
		       struct text *why)
{
	struct registry *registry = tenant->registry;
	struct stream *stream = calloc(1, sizeof(*stream));
	int r;

	if (!stream)
		return -ENOMEM;
	stream->registry = registry;
	stream->tenant = tenant;
	stream->uid = uid;
	stream->number = number;
	stream->fd = -1;
	stream->users = 1;
	stream->made = again;
	stream->account.machine = &registry->files;
	registry->files.capacity = fds_for_files();
	NUMBER_ADD(by_number, registry->streams, number, stream);
	if (!table_added()) {
		free(stream);
		return -ENOMEM;
	}
	/* Files for declared events are not refused. */
	if (again || streq(tenant->path, TENANT_OF_POLICY))
		why = NULL;
	r = admission_charge(tenant, RESOURCE_FILES, &stream->account, &stream->charge, why);
	if (r != 0) {
		HASH_DELETE(by_number, registry->streams, stream);
		free(stream);
		return r;
	}
	tenant->streams++;
	registry->n_streams++;
	stream_enter(stream);
	*ret = stream;
	return 0;
}

int stream_new(struct tenant *tenant, uid_t uid, struct kernel_call *ret_call, struct stream **ret, struct text *why)
{
	struct registry *registry = tenant->registry;
	int r;

	do
		registry->last_stream++;
	while (registry->last_stream == 0 || stream_by_number(registry, registry->last_stream));
	r = stream_make(tenant, uid, registry->last_stream, false, ret, why);
	if (r > 0 && kept_yield(tenant->level))
		text_printf(why, "; files kept after their programs ended are released now: try again");
	if (r != 0)
		return r;
	admission_warn(tenant, RESOURCE_FILES);
	/* Others may use it at once: the kernel handles their calls after this one. */
	if (rules_share_streams(tenant))
		stream_share(*ret);
	*ret_call = (struct kernel_call){
		.op = KERNEL_STREAM_NEW,
		.page = tenant->number,
		.stream = (*ret)->number,
		.fd = -1,
	};
	return 0;
}

struct stream *stream_restore(struct tenant *tenant, uid_t uid, uint32_t number, bool self_registered)
{
	struct registry *registry = tenant->registry;
	struct stream *stream;

	if (number == 0 || stream_by_number(registry, number) ||
	    stream_make(tenant, uid, number, true, &stream, NULL) != 0)
		return NULL;
	registry->last_stream = MAX(registry->last_stream, number);
	if (self_registered) {
		stream->self_registered = true;
		stream_enter(stream);
	}
	return stream;
}

/* Proved by an attempt to register before each file is sent: the guard may have been removed meanwhile. */
static void stream_prove(struct stream *stream)
{
	struct registry *registry = stream->registry;
	bool before = registry->guarded;

	if (!registry->kernel->facts.guarded)
		return;
	/* The guard's EPERM comes before the kernel reads the argument (EFAULT). */
	registry->guarded = ioctl(stream->fd, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM;
	if (before && !registry->guarded) {
		log_warning("the guard is gone: data files are %s", streq(registry->options->guard, "require")
									    ? "not given out any more"
									    : "no longer shared; see userevd(8)");
		streams_watch(registry);
	} else if (!before && registry->guarded) {
		log_notice("the guard is back");
	}
}

bool stream_must_stay(struct stream *stream, unsigned own)
{
	struct registry *registry = stream->registry;

	/* It has been sent, and is for one client alone. */
	if (stream->fd < 0)
		return true;
	stream_prove(stream);
	/* One that was found without a guard stays with its client, which may have registered on it before the guard came back. */
	if (registry->guarded)
		return !stream->shared && (stream->users > own || stream->sent);
	if ((streq(registry->options->guard, "require") && registry->kernel->facts.backend != BACKEND_EMBEDDED) ||
	    streams_are_suspect(stream->tenant)) {
		stream_unshare(stream);
		return true;
	}
	/* Stream=shared: the admin trusts them. */
	if (rules_share_streams(stream->tenant))
		return false;
	stream_unshare(stream);
	/* A client that alone gets the file can harm only itself. */
	return stream->users > own || stream->sent;
}

static bool wants_probing(const struct stream *stream)
{
	const struct registry *registry = stream->registry;

	return rules_are_unguarded(registry) && stream->made && (stream->users > 0 || stream->kept) &&
	       !stream->self_registered;
}

void stream_resume(struct stream *stream, int fd)
{
	stream->fd = fd;
	if (!stream->self_registered && rules_share_streams(stream->tenant))
		stream_share(stream);
	if (wants_probing(stream))
		streams_watch(stream->registry);
}

static int stream_fail(struct stream *stream, int r)
{
	stream_unshare(stream);
	stream->failed = r;
	return r;
}

int stream_came(struct stream *stream, struct kernel_call *call)
{
	if (call->result != KERNEL_OK)
		return stream_fail(stream, call->result < 0 ? call->result : -EIO);
	stream->made = true;
	stream->fd = fd_steal(&call->fd);
	stream->place = call->number;
	return 0;
}

int stream_made(struct stream *stream, struct kernel_call *call)
{
	int r = stream_came(stream, call);

	if (r < 0)
		return r;
	if (stream_must_stay(stream, 1))
		return stream_fail(stream, STREAM_E_UNGUARDED);
	if (wants_probing(stream))
		streams_watch(stream->registry);
	return 0;
}

/* A kept stream has no live events, and is there for clients that come back. */
static bool stream_is_dying(const struct stream *stream)
{
	unsigned dead = stream->references.n - stream->live;

	return !stream->kept && dead > MAX(stream->live, STREAM_DEAD_MIN);
}

/* The kernel copies a file's whole list for each event that is added to it. */
static bool takes_events(const struct stream *stream)
{
	bool is_short = stream->registry->kernel->tracer || stream->references.n < STREAM_EVENTS_MAX;

	return is_short && !stream_is_dying(stream);
}

bool stream_may_serve(const struct stream *stream, const struct holder *holder)
{
	return stream->shared && stream->made && stream->uid == holder->known.uid && stream->tenant == holder->tenant &&
	       !stream_is_dying(stream);
}

struct stream *stream_for(const struct holder *holder)
{
	const struct share *share;
	struct stream *stream, *next;

	LIST_FOREACH(share, &holder->shares, in_client)
		if (takes_events(share->stream))
			return share->stream;
	for (stream = LIST_FIRST(&holder->tenant->sharing); stream; stream = next) {
		next = LIST_NEXT(stream, sharing);
		if (stream->uid != holder->known.uid || !takes_events(stream))
			continue;
		/* Now, before an event is registered on it for another client. */
		if (stream->made)
			stream_prove(stream);
		if (rules_share_streams(stream->tenant))
			return stream;
		/* Nor later, when there is a guard again: its client may have registered on it meanwhile. */
		stream_unshare(stream);
	}
	return NULL;
}

struct stream *stream_use(struct stream *stream)
{
	kept_end(stream);
	stream->users++;
	return stream;
}

bool streams_are_suspect(const struct tenant *tenant)
{
	const struct registry *registry = tenant->registry;

	return rules_are_unguarded(registry) &&
	       (tenant->self_registered > 0 ||
		(tenant->unwatched > 0 && registry->others.least > tenant->foreign_before));
}

/* Nothing is registered on it from now on, and the kernel forgets it. */
static void stream_begin_end(struct stream *stream)
{
	struct registry *registry = stream->registry;
	struct tenant *tenant = stream->tenant;

	linger_end(stream);
	if (stream->unwatched) {
		stream->unwatched = false;
		tenant->self_registered -= stream->self_registered;
		if (--tenant->unwatched == 0)
			LIST_REMOVE(tenant, in_unwatched);
	}
	kept_end(stream);
	stream_unshare(stream);
	stream->fd = fd_close(stream->fd);
	kernel_tell(registry->kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream->number });
	stream->ends = true;
	TAILQ_INSERT_TAIL(&registry->ending, stream, idle);
}

/* Releases so many events; the last of them ends the stream. */
static void stream_release(struct stream *stream, unsigned most)
{
	struct registry *registry = stream->registry;
	struct tenant *tenant = stream->tenant;
	struct reference *reference;
	uint32_t at = 0;

	for (; most > 0 && (reference = id_table_next(&stream->references, &at)); most--)
		reference_free(reference);
	if (stream->references.n > 0)
		return;
	TAILQ_REMOVE(&registry->ending, stream, idle);
	ledger_strike(registry->ledger, &stream->entry);
	HASH_DELETE(by_number, registry->streams, stream);
	quota_charge_deinit(&stream->charge);
	quota_event_deinit(&stream->account);
	free(stream);
	tenant->streams--;
	registry->n_streams--;
	tenant_release(tenant);
}

/* The kernel's answers may end many streams in one turn of the loop. */
void stream_free(struct stream *stream)
{
	if (!stream->ends)
		stream_begin_end(stream);
	stream_release(stream, RELEASES_MAX / 4);
}

void streams_end(struct registry *registry)
{
	if (!TAILQ_EMPTY(&registry->ending))
		stream_release(TAILQ_FIRST(&registry->ending), RELEASES_MAX);
}

/* Our copy must not keep the file open. The keeper closes its own copy at the first poll. */
void stream_leave(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;

	kept_end(stream);
	stream_unshare(stream);
	stream->fd = fd_close(stream->fd);
	stream->closed = true;
	/* Without our copy its indexes can't be checked any more: only the kernel's list of events shows a change. */
	if (rules_are_unguarded(stream->registry)) {
		stream->unwatched = true;
		tenant->self_registered += stream->self_registered;
		if (tenant->unwatched++ == 0) {
			tenant->foreign_before = stream->registry->others.most;
			LIST_INSERT_HEAD(&stream->registry->unwatched, tenant, in_unwatched);
		}
		streams_watch(stream->registry);
	}
	if (stream->references.n == 0)
		stream_free(stream);
	else
		linger_begin(stream);
}

void stream_unuse(struct stream *stream)
{
	if (stream->users == 1)
		stream_probe(stream);
	if (--stream->users > 0)
		return;
	if (rules_keep_for(stream->tenant) > 0 && stream->made && !stream->failed && !stream->self_registered &&
	    !stream->closed && kept_is_needed(stream) && fd_budget_may_keep(stream->registry))
		kept_begin(stream);
	else
		stream_leave(stream);
}

void stream_note_self_registered(struct stream *stream)
{
	struct holder *holder;

	if (stream->self_registered)
		return;
	stream->self_registered = true;
	stream->tenant->self_registered += stream->unwatched;
	stream_enter(stream);
	stream_unshare(stream);
	/* Counted once, however many clients have the stream: one of them did it. */
	refusal_note(stream->registry, stream->tenant, NULL, REFUSAL_SELF_REGISTERED,
		     "a program has registered events by itself on the data file that it was given");
	LIST_FOREACH(holder, &stream->tenant->holders, in_tenant)
		if (share_find(holder, stream))
			stream->registry->disconnect(
				holder, REFUSAL_SELF_REGISTERED,
				"the data file is for records alone; events are registered with the daemon");
	if (stream->kept)
		stream_leave(stream);
}

static void stream_on_probed(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct stream *stream = stream_by_number(data, call->stream);

	if (stream && call->result == KERNEL_E_SELF_REGISTERED)
		stream_note_self_registered(stream);
	free(call);
}

void stream_probe(struct stream *stream)
{
	struct kernel_call *call = wants_probing(stream) ? malloc(sizeof(*call)) : NULL;

	if (!call)
		return; /* the stream is probed again later */
	*call = (struct kernel_call){ .op = KERNEL_CLEAN, .stream = stream->number };
	kernel_submit(stream->registry->kernel, call, 1, stream_on_probed, stream->registry);
}

bool streams_probe(struct registry *registry)
{
	struct stream *stream, *next;
	bool any = false;

	for (stream = registry->streams; stream; stream = next) {
		next = stream->by_number.next;
		any |= wants_probing(stream);
		stream_probe(stream);
	}
	return any || !LIST_EMPTY(&registry->unwatched);
}

static void streams_on_timer(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct registry *registry = container_of(w, struct registry, w_probe);

	if (streams_probe(registry))
		capacity_look(registry);
	else
		ev_timer_stop(loop, w);
}

void streams_watch(struct registry *registry)
{
	timer_repeat(registry->loop, &registry->w_probe, streams_on_timer, PROBE_INTERVAL);
}
