/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Streams: the data files that the daemon has sent, to which records are written. */

#include "client/library/queue.h"
#include <stdatomic.h>

#include "client/library/file.h"
#include "client/library/page.h"
#include "client/userev.h"
#include "protocol/protocol.h"

struct fdset;
struct message;

/*
 * Streams are never freed, because other threads may still use a stream that an event has left. Events refer to a stream by its
 * slot. The stream of events without a grant has no file.
 */
struct stream {
	struct files *files;
	uint32_t number; /* the daemon's */
	uint32_t n_events;
	_Atomic int fd; /* the number never changes, since a thread may be about to write to it; -1 when it is lost */
	uint16_t slot;
	bool may_have_writers; /* a thread may still be writing there for an event that has left */
	_Atomic bool ended;    /* nothing reads the file any more */
	int64_t quarantined_at;
	struct file_id id;
	QUEUE_ENTRY(stream) entry;
};

QUEUE(streams, stream);

/* The page and the streams of a userev. */
struct files {
	uint8_t *page; /* never moves; NULL before the first WELCOME */
	/* A bit for each event that a trace of the tenant's own has: behind the page, or zeros. */
	_Atomic(const uint8_t *) traced;
	/* Bit 0 of this byte: writers look at the connection. It is the page's, or always 1: files_mark(). */
	_Atomic(const uint8_t *) mark;
	_Atomic uint32_t payload_max;
	_Atomic uint32_t buffer_max; /* of a record that write() may write; 0 in a sealed program */
	_Atomic bool rescan;	     /* a stream was found to have ended: the state of its events has changed */
	struct streams streams;	     /* of this connection */
	struct streams outdated;     /* of former connections, open until all events are granted again */
	struct streams quarantine;   /* closed, and not reused yet; the oldest first */
	unsigned n_quarantined;
	struct streams traces; /* the sockets of traces of the tenant's own, and by number: */
	_Atomic(struct stream *) trace[WIRE_TRACES_MAX];
	_Atomic uint32_t trace_lost[WIRE_TRACES_MAX]; /* records since the last that was written */
	_Atomic unsigned trace_looks;		      /* for the socket of a trace that has not come yet */
};

/* There is a page, perhaps with bytes for traces behind it. */
void files_note_page(struct files *, bool has_traces);
/* From now on writers look at the connection, or only when the page is abandoned. */
void files_mark(struct files *, bool always);
static inline bool files_are_marked(const struct files *files)
{
	return page_is_abandoned(atomic_load_explicit(&files->mark, memory_order_relaxed));
}

/* The highest bit of an event's `stream` has another use: place.h. Slot 0 means "not registered". */
enum { STREAM_SLOTS = 0x8000 };

extern _Atomic(struct stream *) stream_slots[STREAM_SLOTS];

/* The stream of an event's place, or NULL if it is not registered. Lock-free. */
static inline struct stream *stream_at(union userev_place place)
{
	return atomic_load_explicit(&stream_slots[place.part.stream % STREAM_SLOTS], memory_order_acquire);
}

/* Takes over the fd, which may be -1. NULL if there is no memory or no slot. */
struct stream *stream_open(struct files *, uint32_t number, int fd);
/* For a stream that no thread can be using. */
void stream_close(struct stream *);
/* Moves the message's fds from `position` on into new streams. 0 or a negative errno. */
int streams_take(struct files *, const struct message *, struct fdset *, size_t position, struct streams *to);
/* Events are about to leave these streams while other threads may be writing. */
void streams_expect_writers(struct streams *);
/* Closes the streams without events: the daemon sends their files again when they are needed. */
void streams_close_unused(struct streams *);
/* Closes all, as stream_close(). */
void streams_close(struct streams *);
/* Marks streams as ended whose fd the program has closed. Returns whether there was none. */
bool streams_verify(struct streams *);
