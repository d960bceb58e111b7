/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/inheritance.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>

#include "kernel/user_events/stream.h"

/*
 * When the daemon goes, its pages, streams and enablers stay. The next daemon fetches those with which it goes on, asks whether the
 * lingering ones are still open, and disowns the others. These have no number any more, but as ever a stream keeps its events, and its
 * page their bits, until no copy of the stream is open.
 *
 * A keeper that succeeds a keeper gets the files from the daemon, and with each stream the byte of its lock, which the last keeper
 * has chosen. The keeper does not trust the daemon: files have to be what the daemon says they are.
 */

/* For each look the kernel walks all locks of the data file, and clients' calls wait meanwhile. */
enum { LOOK_AT_ONCE = 10, PAUSE_MS = 50, PAUSE_OF_FEW_MS = 1000 };

void inheritance_orphan(struct kernel *kernel)
{
	struct user_events *user_events = container_of(kernel, struct user_events, kernel);
	struct event_stream *stream, *next_stream;
	struct event_page *page, *next_page;

	HASH_ITER(by_number, user_events->streams, stream, next_stream)
		stream->known = false;
	HASH_ITER(by_number, user_events->pages, page, next_page)
		page->known = false;
}

/* Before Linux 6.4 the page is the kernel's, and there is no writable fd. */
int on_page_fetch(struct user_events *user_events _unused_, struct kernel_call *call, const struct target *target)
{
	struct event_page *page = target->page;

	if (call->index > 1)
		return KERNEL_E_NO_SUCH;
	page->known = true;
	return kernel_give_copy(call, call->index == 1 && page->fd >= 0 ? page->fd : page->client_fd);
}

int on_stream_fetch(struct user_events *user_events _unused_, struct kernel_call *call, const struct target *target)
{
	struct event_stream *stream = target->stream;

	stream->known = true;
	stream->page->known = true;
	call->number = stream->lock;
	return stream->fd < 0 ? KERNEL_E_GONE : kernel_give_copy(call, stream->fd);
}

/* --- disowned streams --- */

void inheritance_look(struct user_events *user_events)
{
	struct event_stream *stream, *last = TAILQ_LAST(&user_events->disowned, stream_queue);
	struct timespec every = { 0 };
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
	if (!TAILQ_EMPTY(&user_events->disowned))
		every.tv_nsec = (last ? PAUSE_MS : PAUSE_OF_FEW_MS - 1) * 1000000L;
	timerfd_settime(user_events->disowned_timer, 0, &(struct itimerspec){ .it_interval = every, .it_value = every },
			NULL);
}

int on_disown(struct user_events *user_events, struct kernel_call *call _unused_, const struct target *target _unused_)
{
	struct event_stream *stream, *next_stream;
	struct event_page *page, *next_page;

	HASH_ITER(by_number, user_events->streams, stream, next_stream) {
		if (stream->known)
			continue;
		HASH_DELETE(by_number, user_events->streams, stream);
		if (!user_events->kernel.facts.guarded)
			stream_leave_witness(user_events, stream);
		stream->fd = fd_close(stream->fd);
		TAILQ_INSERT_TAIL(&user_events->disowned, stream, in_disowned);
	}
	HASH_ITER(by_number, user_events->pages, page, next_page)
		if (!page->known)
			user_events_page_free(user_events, page);
	inheritance_look(user_events);
	if (user_events->abi->disowned)
		user_events->abi->disowned(user_events);
	return KERNEL_OK;
}

/* --- pages and streams of another keeper; or of this one, if the daemon lost only the connection --- */

/* On a tmpfs: on another file system a FUSE server, for example, could answer reads and writes. */
static bool is_page_file(int fd, int access_mode, struct stat *ret)
{
	struct statfs system;

	return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC && fstat(fd, ret) == 0 &&
	       S_ISREG(ret->st_mode) && page_file_has_size(ret) && (fcntl(fd, F_GETFL) & O_ACCMODE) == access_mode;
}

static bool is_one_file(const struct stat *one, const struct stat *other)
{
	return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* A daemon that lost the connection and comes back to the same keeper gives files that the keeper has. */
static bool is_already_ours(const struct user_events *user_events, int ours, int given)
{
	struct stat one, other;

	return user_events->kernel.facts.shared_page ||
	       (fstat(ours, &one) == 0 && fstat(given, &other) == 0 && is_one_file(&one, &other) &&
		fcntl(ours, F_GETFL) == fcntl(given, F_GETFL));
}

static int adopt_page(struct user_events *user_events, struct kernel_call *call)
{
	const bool is_shared = user_events->kernel.facts.shared_page;
	struct event_page *page;
	struct stat status;
	int r;

	if (!is_shared && !is_page_file(call->fd, O_RDWR, &status))
		return -EINVAL;
	/* It may be an older keeper's. */
	r = is_shared ? 0 : page_file_grow(call->fd);
	if (r < 0)
		return r;
	page = user_events_page_add(user_events, call->page);
	if (is_shared) {
		r = user_events->abi->page_new(user_events, page);
		if (r < 0)
			user_events_page_free(user_events, page);
		return r;
	}
	page->fd = fd_steal(&call->fd);
	user_events->files.held++;
	return KERNEL_OK;
}

/* Index 1 comes first, with the writable file; index 0 with the clients' file. */
int on_page_adopt(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	struct event_page *page = target->page;
	struct stat ours, clients;

	if (call->index > 1)
		return -EINVAL;
	if (!page)
		return call->index == 1 ? adopt_page(user_events, call) : KERNEL_E_NO_SUCH;
	if (call->index == 1 && !is_already_ours(user_events, page->fd, call->fd))
		return -EEXIST;
	page->known = true;
	if (call->index == 1)
		return KERNEL_OK;
	if (page->client_fd >= 0)
		return is_already_ours(user_events, page->client_fd, call->fd) ? KERNEL_OK : -EEXIST;
	if (!is_page_file(page->fd, O_RDWR, &ours) || !is_page_file(call->fd, O_RDONLY, &clients) ||
	    !is_one_file(&ours, &clients))
		return -EINVAL;
	page->client_fd = fd_steal(&call->fd);
	return KERNEL_OK;
}

int on_stream_adopt(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	struct event_page *page = target->page;
	struct event_stream *stream = target->stream;
	struct stat one, other;

	if (stream && (stream->page != page || stream->lock != call->number))
		return -EEXIST;
	if (call->number > INT64_MAX)
		return -EINVAL;
	/* A data file has its own lock, or can be locked again: without a lock it would count as closed. */
	if (call->fd >= 0 && (fstat(call->fd, &one) < 0 || fstat(user_events->data, &other) < 0 ||
			      !is_one_file(&one, &other) || (fcntl(call->fd, F_GETFL) & O_ACCMODE) != O_WRONLY ||
			      !stream_has_lock(user_events, call->fd, call->number)))
		return -EINVAL;
	if (stream)
		stream->known = true;
	else
		user_events_stream_add(user_events, call->stream, page, call->number, fd_steal(&call->fd));
	return KERNEL_OK;
}
