/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/stream.h"

#include "daemon/daemon.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/log.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/event.h"
#include "daemon/registry/linger.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"
#include "kernel/uapi.h"

struct stream *stream_by_number(const struct daemon *daemon, uint32_t number)
{
	struct stream *stream;

	NUMBER_FIND(by_number, daemon->streams, number, stream);
	return stream;
}

/* One that is not in use; 0 never is. */
static uint32_t next_number(struct daemon *daemon)
{
	do
		daemon->last_stream++;
	while (daemon->last_stream == 0 || stream_by_number(daemon, daemon->last_stream));
	return daemon->last_stream;
}

static void share_with_others(struct stream *stream)
{
	stream->shared = true;
	LIST_INSERT_HEAD(&stream->tenant->sharing, stream, sharing);
}

static void share_no_more(struct stream *stream)
{
	if (stream->shared)
		LIST_REMOVE(stream, sharing);
	stream->shared = false;
}

static struct stream *stream_make(struct tenant *tenant, uid_t uid, uint32_t number)
{
	struct daemon *daemon = tenant->daemon;
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->daemon = daemon;
	stream->tenant = tenant;
	stream->uid = uid;
	stream->number = number;
	stream->fd = -1;
	stream->users = 1;
	quota_event_init(&stream->account, &daemon->files);
	daemon->files.capacity = daemon_file_capacity();
	NUMBER_ADD(by_number, daemon->streams, number, stream);
	if (!table_added()) {
		free(stream);
		return NULL;
	}
	return stream;
}

/* It is the tenant's from now on. */
static void stream_begin(struct stream *stream)
{
	stream->tenant->streams++;
	enter_stream(stream);
}

static int charge_file(struct stream *stream, struct text *why)
{
	struct tenant *tenant = stream->tenant;
	int r;

	/* What an admin declares is not refused. */
	if (streq(tenant->path, TENANT_OF_POLICY)) {
		admission_charge_file_again(tenant, &stream->account, &stream->charge);
		return 0;
	}
	r = admission_charge_file(tenant, &stream->account, &stream->charge, why);
	if (r != 0 && streams_yield(tenant->level))
		text_printf(why, "; those kept for programs of the past are let go now: try again");
	return r;
}

int stream_new(struct tenant *tenant, uid_t uid, struct kernel_call *ret_call, struct stream **ret, struct text *why)
{
	struct stream *stream = stream_make(tenant, uid, next_number(tenant->daemon));
	int r = stream ? charge_file(stream, why) : -ENOMEM;

	if (r != 0) {
		if (stream)
			HASH_DELETE(by_number, tenant->daemon->streams, stream);
		free(stream);
		return r;
	}
	stream_begin(stream);
	admission_warn(tenant, RESOURCE_FILES);
	/* Others may build on it at once: what they ask comes after this, and finds it made. */
	if (rules_share_streams(stream->tenant))
		share_with_others(stream);
	*ret_call = (struct kernel_call){
		.op = KERNEL_STREAM_NEW,
		.page = stream->tenant->number,
		.stream = stream->number,
		.fd = -1,
	};
	*ret = stream;
	return 0;
}

struct stream *stream_restore(struct tenant *tenant, uid_t uid, uint32_t number, bool stranger)
{
	struct daemon *daemon = tenant->daemon;
	struct stream *stream =
		number == 0 || stream_by_number(daemon, number) ? NULL : stream_make(tenant, uid, number);

	if (!stream)
		return NULL;
	admission_charge_file_again(tenant, &stream->account, &stream->charge);
	stream_begin(stream);
	daemon->last_stream = MAX(daemon->last_stream, number);
	stream->made = true;
	if (stranger) {
		stream->stranger = true;
		enter_stream(stream);
	}
	return stream;
}

/* The guard's EPERM comes before the kernel looks at what is asked, and finds nothing there. */
static bool is_guarded(const struct stream *stream)
{
	return ioctl(stream->fd, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM;
}

/* Proved by trying, each time: whoever loaded the guard may be mistaken, and somebody may have taken it away. */
static void prove(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;
	bool before = daemon->guarded;

	if (!daemon->kernel->facts.guarded)
		return;
	daemon->guarded = is_guarded(stream);
	if (before && !daemon->guarded) {
		log_warning("the guard is gone: data files are %s", streq(daemon->options.guard, "require")
									    ? "not given out any more"
									    : "no longer shared; see userevd(8)");
		daemon_watch_strangers(daemon);
	} else if (!before && daemon->guarded) {
		log_notice("the guard is back");
	}
}

static bool must_stay(struct stream *stream, unsigned own)
{
	struct daemon *daemon = stream->daemon;

	/* It has left, and nobody else was to get it. */
	if (stream->fd < 0)
		return true;
	prove(stream);
	if (daemon->guarded)
		return false;
	if (streq(daemon->options.guard, "require") && daemon->kernel->facts.backend != BACKEND_EMBEDDED) {
		share_no_more(stream);
		return true;
	}
	if (streams_are_suspect(stream->tenant)) {
		share_no_more(stream);
		return true;
	}
	/* The admin may have said that they trust each other. */
	if (rules_share_streams(stream->tenant))
		return false;
	share_no_more(stream);
	/* Whoever gets it alone, as the first, can harm himself only. */
	return stream->users > own || stream->second_hand;
}

static bool is_unguarded(const struct daemon *daemon)
{
	return daemon->kernel->facts.backend != BACKEND_EMBEDDED && !daemon->guarded;
}

static bool wants_probing(const struct stream *stream)
{
	const struct daemon *daemon = stream->daemon;

	return is_unguarded(daemon) && stream->made && (stream->users > 0 || stream->kept) && !stream->stranger;
}

void stream_resume(struct stream *stream, int fd)
{
	stream->fd = fd;
	if (!stream->stranger && rules_share_streams(stream->tenant))
		share_with_others(stream);
	if (wants_probing(stream))
		daemon_watch_strangers(stream->daemon);
}

static int fail(struct stream *stream, int r)
{
	share_no_more(stream);
	stream->failed = r;
	return r;
}

int stream_came(struct stream *stream, struct kernel_call *call)
{
	if (call->result != KERNEL_OK)
		return fail(stream, call->result < 0 ? call->result : -EIO);
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
	if (must_stay(stream, 1))
		return fail(stream, STREAM_E_UNGUARDED);
	if (wants_probing(stream))
		daemon_watch_strangers(stream->daemon);
	return 0;
}

/* The kernel copies a file's whole list for each event that is added to it. */
static bool is_long(const struct stream *stream)
{
	return !stream->daemon->kernel->tracer && HASH_CNT(by_grant, stream->references) >= STREAM_EVENTS_MAX;
}

/* One that is kept has nothing live, and is there for those who come back. */
static bool is_dying(const struct stream *stream)
{
	unsigned dead = HASH_CNT(by_grant, stream->references) - stream->live;

	return !stream->kept && dead > MAX(stream->live, STREAM_DEAD_MIN);
}

static bool takes_events(const struct stream *stream)
{
	return !is_dying(stream) && !is_long(stream);
}

bool stream_may_serve(const struct stream *stream, const struct client *client)
{
	return stream->shared && stream->made && stream->uid == client->uid && stream->tenant == client->tenant &&
	       !is_dying(stream);
}

/* Whether one more client may have it; proved now, for it is too late when something has been registered on it for him. */
static bool serves_others(struct stream *stream)
{
	if (stream->made)
		prove(stream);
	return rules_share_streams(stream->tenant);
}

struct stream *stream_for(const struct client *client)
{
	const struct share *share;
	struct stream *stream;

	LIST_FOREACH(share, &client->shares, in_client)
		if (takes_events(share->stream))
			return share->stream;
	LIST_FOREACH(stream, &client->tenant->sharing, sharing)
		if (stream->uid == client->uid && takes_events(stream) && serves_others(stream))
			return stream;
	return NULL;
}

static void keep_no_more(struct stream *stream)
{
	struct level *level = stream->tenant->level;

	if (!stream->kept)
		return;
	stream->kept = false;
	ev_timer_stop(stream->daemon->loop, &stream->w_idle);
	TAILQ_REMOVE(&level->kept, stream, idle);
	level->n_kept--;
}

struct stream *stream_use(struct stream *stream)
{
	stream->second_hand |= stream->kept;
	keep_no_more(stream);
	stream->users++;
	return stream;
}

/* Our copy of the file is closed, so its indexes can't be looked at any more; what remains is the kernel's list of events. */
static void watch_no_more(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;

	if (!is_unguarded(stream->daemon))
		return;
	stream->unwatched = true;
	tenant->strangers += stream->stranger;
	if (tenant->unwatched++ == 0) {
		tenant->foreign_before = stream->daemon->others.most;
		LIST_INSERT_HEAD(&stream->daemon->unwatched, tenant, in_unwatched);
	}
	daemon_watch_strangers(stream->daemon);
}

static void forget_unwatched(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;

	if (!stream->unwatched)
		return;
	tenant->strangers -= stream->stranger;
	if (--tenant->unwatched == 0)
		LIST_REMOVE(tenant, in_unwatched);
}

void streams_note_foreign(struct daemon *daemon)
{
	struct tenant *tenant;

	LIST_FOREACH(tenant, &daemon->unwatched, in_unwatched)
		tenant->foreign_before = MIN(tenant->foreign_before, daemon->others.most);
}

bool streams_are_suspect(const struct tenant *tenant)
{
	const struct daemon *daemon = tenant->daemon;

	return is_unguarded(daemon) &&
	       (tenant->strangers > 0 || (tenant->unwatched > 0 && daemon->others.least > tenant->foreign_before));
}

void stream_free(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;
	struct tenant *tenant = stream->tenant;
	struct reference *reference, *next;

	linger_end(stream);
	forget_unwatched(stream);
	keep_no_more(stream);
	share_no_more(stream);
	stream->fd = fd_close(stream->fd);
	kernel_tell(daemon->kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream->number });
	HASH_ITER(by_grant, stream->references, reference, next)
		reference_free(reference);
	strike_stream(stream);
	HASH_DELETE(by_number, daemon->streams, stream);
	quota_charge_deinit(&stream->charge);
	quota_event_deinit(&stream->account);
	free(stream);
	tenant->streams--;
	tenant_release(tenant);
}

/* Our copy must not be what keeps it open; nor the kernel's, which goes with the first look. */
static void leave(struct stream *stream)
{
	keep_no_more(stream);
	share_no_more(stream);
	stream->fd = fd_close(stream->fd);
	stream->closed = true;
	watch_no_more(stream);
	if (!stream->references)
		stream_free(stream);
	else
		linger_begin(stream);
}

static void on_kept(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	leave(container_of(w, struct stream, w_idle));
}

/* Whether each event of the one is also on the other, perhaps as that of the next tenant of the same path. */
static bool has_all(const struct stream *stream, const struct stream *kept)
{
	for (const struct reference *at = kept->references; at; at = at->by_grant.next) {
		struct grant *grant;
		struct reference *found = NULL;

		NUMBER_FIND(by_event, stream->tenant->grants, at->grant->event, grant);
		if (grant)
			NUMBER_FIND(by_grant, stream->references, grant, found);
		if (!found)
			return false;
	}
	return true;
}

void stream_replaces(const struct stream *stream)
{
	struct stream *kept, *next;

	for (kept = TAILQ_FIRST(&stream->tenant->level->kept); kept; kept = next) {
		next = TAILQ_NEXT(kept, idle);
		if (kept != stream && has_all(stream, kept))
			leave(kept);
	}
}

bool streams_yield(struct level *level)
{
	bool any = !TAILQ_EMPTY(&level->kept);

	/* The last one may be all that holds it. */
	level_ref(level);
	while (!TAILQ_EMPTY(&level->kept))
		leave(TAILQ_FIRST(&level->kept));
	level_unref(level);
	return any;
}

/* What is merely kept elsewhere may go sooner. */
static bool is_in_use_elsewhere(const struct reference *reference)
{
	const struct reference *other;

	LIST_FOREACH(other, &reference->grant->registered, in_grant)
		if (other != reference && other->stream->users > 0)
			return true;
	return false;
}

/* Whether it has something that nobody else of the tenant uses. */
static bool is_needed(const struct stream *stream)
{
	for (const struct reference *at = stream->references; at; at = at->by_grant.next)
		if (!is_in_use_elsewhere(at))
			return true;
	return false;
}

static bool may_be_kept(const struct stream *stream)
{
	return rules_keep_for(stream->tenant) > 0 && stream->made && !stream->failed && !stream->stranger &&
	       !stream->closed && is_needed(stream) && daemon_may_keep(stream->daemon);
}

static void keep(struct stream *stream)
{
	struct level *level = stream->tenant->level;

	stream->kept = true;
	ev_timer_init(&stream->w_idle, on_kept, rules_keep_for(stream->tenant), 0.);
	ev_timer_start(stream->daemon->loop, &stream->w_idle);
	TAILQ_INSERT_TAIL(&level->kept, stream, idle);
	level->n_kept++;
	stream_replaces(stream);
	if (level->n_kept > KEPT_MAX)
		leave(TAILQ_FIRST(&level->kept));
}

void stream_unuse(struct stream *stream)
{
	if (stream->users == 1)
		stream_probe(stream);
	if (--stream->users > 0)
		return;
	if (may_be_kept(stream))
		keep(stream);
	else
		leave(stream);
}

void stream_is_strange(struct stream *stream)
{
	struct client *client;

	if (stream->stranger)
		return;
	stream->stranger = true;
	stream->tenant->strangers += stream->unwatched;
	enter_stream(stream);
	share_no_more(stream);
	/* Once, whether nobody has it any more or many: it was one of them. */
	daemon_refused(stream->daemon, stream->tenant, NULL, REFUSAL_SELF_REGISTERED,
		       "a program has registered events by itself on the data file that it was given");
	LIST_FOREACH(client, &stream->tenant->clients, in_tenant)
		if (share_find(client, stream))
			client_cut_counted(client, 0, REFUSAL_SELF_REGISTERED,
					   "the data file is for records alone; events are registered with the daemon");
	if (stream->kept)
		leave(stream);
}

static void on_probed(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct stream *stream = stream_by_number(data, call->stream);

	if (stream && call->result == KERNEL_E_SELF_REGISTERED)
		stream_is_strange(stream);
	free(call);
}

void stream_probe(struct stream *stream)
{
	struct kernel_call *call = wants_probing(stream) ? malloc(sizeof(*call)) : NULL;

	if (!call)
		return; /* it is not the last time */
	*call = (struct kernel_call){ .op = KERNEL_CLEAN, .stream = stream->number };
	kernel_submit(stream->daemon->kernel, call, 1, on_probed, stream->daemon);
}

bool streams_probe(struct daemon *daemon)
{
	struct stream *stream, *next;
	bool any = false;

	for (stream = daemon->streams; stream; stream = next) {
		next = stream->by_number.next;
		any |= wants_probing(stream);
		stream_probe(stream);
	}
	return any || !LIST_EMPTY(&daemon->unwatched);
}

struct share *share_find(const struct client *client, const struct stream *stream)
{
	struct share *share;

	LIST_FOREACH(share, &client->shares, in_client)
		if (share->stream == stream)
			return share;
	return NULL;
}

struct share *share_get(struct client *client, struct stream *stream)
{
	struct share *share = share_find(client, stream);

	if (share)
		return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->client = client;
	share->stream = stream_use(stream);
	LIST_INSERT_HEAD(&client->shares, share, in_client);
	return share;
}

bool share_must_stay(const struct share *share, unsigned own)
{
	/* The proof comes first: the client may have been welcomed when there was a guard. */
	return must_stay(share->stream, own) || rules_distrust(share->client);
}

void share_free(struct share *share)
{
	struct stream *stream = share->stream;

	if (share->entered)
		strike_share(share);
	LIST_REMOVE(share, in_client);
	free(share);
	stream_unuse(stream);
}

void shares_enter(const struct client *client)
{
	struct share *share;

	LIST_FOREACH(share, &client->shares, in_client) {
		if (!share->sent || share->entered)
			continue;
		share->entered = true;
		enter_share(share);
	}
}

unsigned shares_count(const struct client *client)
{
	const struct share *share;
	unsigned n = 0;

	LIST_FOREACH(share, &client->shares, in_client)
		n++;
	return n;
}

void shares_tidy(struct client *client)
{
	struct share *share, *next;

	for (share = LIST_FIRST(&client->shares); share; share = next) {
		next = LIST_NEXT(share, in_client);
		if (share->leases == 0)
			share_free(share);
	}
}
