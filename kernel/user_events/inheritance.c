/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/inheritance.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>

#include "kernel/user_events/stream.h"
#include "protocol/base/table.h"

/*
 * When the daemon goes all of its pages and streams stay, and their enablers with them. The next one fetches what it goes on
 * with and asks after what only lingers; what it disowns has no number any more, but a stream keeps its events (and its page
 * keeps their bits) until no copy of it is open anywhere, as ever.
 *
 * A keeper that succeeds another one is given the files back by the daemon. Which byte of the data file a stream's lock is
 * on comes along: it was the last keeper's to choose. The daemon is not believed: what it gives has to look like what it is.
 */

/* Each look costs the kernel a walk along all locks of the data file, and clients' calls wait meanwhile. */
enum {
	LOOK_AT_ONCE = 10,
	LOOK_INTERVAL = 1000,	  /* ms, between looks at the same stream, while there are no more than 200 */
	LOOK_INTERVAL_LEAST = 50, /* ms, between two rounds */
};

int inheritance_init(struct user_events *user_events)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

	user_events->disowned_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (user_events->disowned_timer < 0 ||
	    epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, user_events->disowned_timer, &event) < 0)
		return -errno;
	return 0;
}

void inheritance_orphan(struct user_events *user_events)
{
	struct event_stream *stream, *next_stream;
	struct event_page *page, *next_page;

	HASH_ITER(by_number, user_events->streams, stream, next_stream)
		stream->known = false;
	HASH_ITER(by_number, user_events->pages, page, next_page)
		page->known = false;
}

static int copy_to(struct kernel_call *call, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return -errno;
	call->fd = copy;
	return KERNEL_OK;
}

/* Where the page is the kernel's, nobody writes to it, and one is as good as the other. */
int on_page_fetch(struct user_events *user_events, struct kernel_call *call)
{
	struct event_page *page = user_events_find_page(user_events, call->page);

	if (!page || call->index > 1)
		return KERNEL_E_NO_SUCH;
	page->known = true;
	return copy_to(call, call->index == 1 && page->fd >= 0 ? page->fd : page->client_fd);
}

int on_stream_fetch(struct user_events *user_events, struct kernel_call *call)
{
	struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	if (!stream)
		return KERNEL_E_NO_SUCH;
	stream->known = true;
	stream->page->known = true;
	call->number = stream->lock;
	return stream->fd < 0 ? KERNEL_E_GONE : copy_to(call, stream->fd);
}

/* --- what nobody wants --- */

static void set_timer(struct user_events *user_events)
{
	const struct event_stream *stream;
	struct timespec every = { 0 };
	long rounds = 1, n = 0;

	/* As many rounds in a second as it takes for all. */
	TAILQ_FOREACH(stream, &user_events->disowned, in_disowned)
		if (++n > rounds * LOOK_AT_ONCE && ++rounds == LOOK_INTERVAL / LOOK_INTERVAL_LEAST)
			break;
	if (n > 0)
		every = (struct timespec){ .tv_sec = rounds == 1,
					   .tv_nsec = rounds == 1 ? 0 : LOOK_INTERVAL / rounds * 1000000 };
	timerfd_settime(user_events->disowned_timer, 0, &(struct itimerspec){ .it_interval = every, .it_value = every },
			NULL);
}

bool inheritance_is_due(struct user_events *user_events)
{
	uint64_t expired;

	return read(user_events->disowned_timer, &expired, sizeof(expired)) == sizeof(expired);
}

void inheritance_look(struct user_events *user_events)
{
	struct event_stream *stream, *last = TAILQ_LAST(&user_events->disowned, stream_queue);
	unsigned n = 0;

	while (last && n++ < LOOK_AT_ONCE) {
		stream = TAILQ_FIRST(&user_events->disowned);
		if (stream == last)
			last = NULL;
		if (stream_is_open(user_events, stream)) {
			TAILQ_REMOVE(&user_events->disowned, stream, in_disowned);
			TAILQ_INSERT_TAIL(&user_events->disowned, stream, in_disowned);
		} else {
			user_events_disowned_free(user_events, stream);
		}
	}
	set_timer(user_events);
}

static void disown_stream(struct user_events *user_events, struct event_stream *stream)
{
	HASH_DELETE(by_number, user_events->streams, stream);
	if (!user_events->kernel.facts.guarded)
		stream_leave_witness(user_events, stream);
	stream->fd = fd_close(stream->fd);
	stream->page->disowned_streams++;
	TAILQ_INSERT_TAIL(&user_events->disowned, stream, in_disowned);
}

int on_disown(struct user_events *user_events, struct kernel_call *call _unused_)
{
	struct event_stream *stream, *next_stream;
	struct event_page *page, *next_page;

	HASH_ITER(by_number, user_events->streams, stream, next_stream)
		if (!stream->known)
			disown_stream(user_events, stream);
	HASH_ITER(by_number, user_events->pages, page, next_page)
		if (!page->known)
			user_events_page_free(user_events, page);
	inheritance_look(user_events);
	if (user_events->abi->disowned)
		user_events->abi->disowned(user_events);
	return KERNEL_OK;
}

/* --- what another keeper has made; or this one, of which the daemon had lost sight --- */

/* Nobody else answers for what is read and written there. */
static bool is_in_memory(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) == 0 && status.f_type == TMPFS_MAGIC;
}

static bool is_page(int fd, int access_mode, struct stat *ret)
{
	return is_in_memory(fd) && fstat(fd, ret) == 0 && S_ISREG(ret->st_mode) && ret->st_size == WIRE_PAGE_BYTES &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == access_mode;
}

static bool is_same_file(const struct stat *one, const struct stat *other)
{
	return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* A daemon that has lost the connection, and comes back to the same keeper, gives what is there. */
static bool is_already_ours(const struct user_events *user_events, int ours, int given)
{
	struct stat one, other;

	return user_events->kernel.facts.shared_page ||
	       (fstat(ours, &one) == 0 && fstat(given, &other) == 0 && is_same_file(&one, &other) &&
		fcntl(ours, F_GETFL) == fcntl(given, F_GETFL));
}

/* Its second file. */
static int take_client_file(struct user_events *user_events, struct event_page *page, struct kernel_call *call)
{
	struct stat ours, clients;

	if (page->client_fd >= 0)
		return is_already_ours(user_events, page->client_fd, call->fd) ? KERNEL_OK : -EEXIST;
	if (!is_page(page->fd, O_RDWR, &ours) || !is_page(call->fd, O_RDONLY, &clients) ||
	    !is_same_file(&ours, &clients))
		return -EINVAL;
	page->client_fd = fd_steal(&call->fd);
	return KERNEL_OK;
}

/* The file last: one that has to be given back must not be taken for a page's end. */
static int adopt_page(struct user_events *user_events, struct kernel_call *call)
{
	const bool is_shared = user_events->kernel.facts.shared_page;
	struct event_page *page;
	struct stat status;
	int r = 0;

	if (!is_shared && !is_page(call->fd, O_RDWR, &status))
		return -EINVAL;
	page = user_events_page_make(user_events, call->page);
	if (!page)
		return -ENOMEM;
	if (is_shared)
		r = user_events->abi->page_new(user_events, page);
	r = r < 0 ? user_events_page_unmake(user_events, page, r) : user_events_page_add(user_events, page);
	if (r < 0 || is_shared)
		return r;
	page->fd = fd_steal(&call->fd);
	page_file_adopt(&user_events->files);
	return r;
}

int on_page_adopt(struct user_events *user_events, struct kernel_call *call)
{
	struct event_page *page = user_events_find_page(user_events, call->page);

	if (call->index > 1)
		return -EINVAL;
	if (call->index == 1 && !page)
		return adopt_page(user_events, call);
	if (call->index == 1 && !is_already_ours(user_events, page->fd, call->fd))
		return -EEXIST;
	if (page)
		page->known = true;
	if (call->index == 1)
		return KERNEL_OK;
	return page ? take_client_file(user_events, page, call) : KERNEL_E_NO_SUCH;
}

/* A data file, and its own lock is on it, or can be again: without one it would be taken for closed. */
static bool is_stream(struct user_events *user_events, int fd, uint64_t lock)
{
	struct stat one, other;

	return fstat(fd, &one) == 0 && fstat(user_events->data, &other) == 0 && is_same_file(&one, &other) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY && stream_keeps_lock(user_events, fd, lock);
}

int on_stream_adopt(struct user_events *user_events, struct kernel_call *call)
{
	struct event_page *page = user_events_find_page(user_events, call->page);
	struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	if (!page)
		return KERNEL_E_NO_SUCH;
	if (stream && (stream->page != page || stream->lock != call->number))
		return -EEXIST;
	if (call->number > INT64_MAX || (call->fd >= 0 && !is_stream(user_events, call->fd, call->number)))
		return -EINVAL;
	if (stream) {
		stream->known = true;
		return KERNEL_OK;
	}
	stream = user_events_stream_add(user_events, call->stream, page, call->number);
	if (!stream)
		return -ENOMEM;
	stream->fd = fd_steal(&call->fd);
	return KERNEL_OK;
}
