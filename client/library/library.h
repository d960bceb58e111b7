/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A userev: its connection, its events, its page and streams. Modules include only modules below them:
 *
 *	open  event  module  write			public functions
 *	session						a table of exchanges; connects, sends, receives
 *	hello  register  release  watch  trace  loss	requests and their answers (requests.h)
 *	library.h
 *	connection  batch  place  stream  sentence	the parts, which do not know the userev
 *	lock  memory  file  page  debug
 */

#include "client/library/batch.h"
#include "client/library/connection.h"
#include "client/library/stream.h"
#include "client/userev.h"

/* Marks a function of the public API; the library is compiled with -fvisibility=hidden. */
#define _public_ __attribute__((visibility("default")))

struct losses {
	_Alignas(8) _Atomic uint64_t queue_full;
	_Alignas(8) _Atomic uint64_t too_big;
};

struct userev {
	QUEUE_ENTRY(userev) entry;
	int wait_ms; /* the minimum timeout of calls: $USEREV_WAIT */
	_Atomic bool sealed;

	struct connection connection;
	struct files files;
	struct events events;
	struct sentences sentences; /* of the last userev_register_all() */

	uint8_t *released;   /* a bitmap of bits to release, or NULL */
	uint32_t n_released; /* in that bitmap */
	bool bits_differ;    /* no two events have the same bit: known until the next grant */

	unsigned failures;		      /* in a row: the pause grows with them */
	int error;			      /* of the last attempt to connect, a negative errno */
	int64_t not_before;		      /* the time of the next attempt */
	char sentence[WIRE_SENTENCE_MAX + 1]; /* the daemon's refusal of the connection, or "" */
	_Atomic uint32_t look_at;	      /* the time of the next session_look() */

	bool watching;	  /* userev_watch() was called */
	bool watch_asked; /* on this connection */

	struct losses losses;
	struct losses reported; /* to a daemon */
};

static inline struct userev *userev_of(const struct stream *stream)
{
	return container_of(stream->files, struct userev, files);
}

/* Sets the largest payload, in the words that writers read. */
static inline void userev_limit(struct userev *userev, uint32_t payload_max)
{
	userev->files.payload_max = payload_max;
	userev->files.buffer_max =
		userev->sealed ? 0 : MIN(payload_max, (uint32_t)USEREV_BUFFER_) + (uint32_t)sizeof(uint32_t);
}

/* Needs no system call, but may be some milliseconds behind. */
static inline uint32_t clock_coarse_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint32_t)now.tv_sec * 1000 + (uint32_t)(now.tv_nsec / 1000000);
}
