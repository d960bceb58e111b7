/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A daemon that misbehaves on demand. A thread of the test serves the socket; the test reads and changes its state between
 * fake_lock() and fake_unlock().
 *
 * Names get bits in the order of their arrival. The index of an event is its stream's number times 100,000 plus its bit, so that
 * each record shows which stream it was meant for.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/userev.h"
#include "protocol/transport.h"
#include "protocol/wire.h"
#include "tests/suite.h"

enum mischief {
	GOOD,
	SILENT,
	TWICE, /* as from a daemon that has replaced the former one */
	/* An answer of any kind */
	HANG_UP,
	ERROR_PACKET,
	GARBAGE,
	HEADER_ONLY,
	CUT_SHORT,
	TOO_LONG,
	WRONG_SERIAL,
	WRONG_KIND,
	MORE_FOLLOWS,
	FD_EXTRA,
	/* An answer with files */
	FD_MISSING,
	STREAM_IS_PIPE,
	STREAM_IS_STREAM,
	STREAM_IS_FILE,
	STREAM_BLOCKS,
	/* WELCOME */
	HANG_UP_UNREAD, /* with an ERROR, before reading anything */
	PAGE_SHORT,
	PAGE_IS_PIPE,
	PAGE_IS_DIRECTORY,
	PAGE_UNREADABLE,
	PAGE_OF_OTHER_SIZE,
	PAGE_BITS_TOO_MANY,
	PAGE_BITS_NONE,
	PACKET_TOO_SMALL,
	BATCH_NONE,
	/* REGISTERED */
	ANSWER_MISSING,
	ANSWER_EXTRA,
	BIT_ZERO,
	BIT_OUTSIDE,
	STREAM_UNKNOWN,
};

enum { FAKE_CONNECTIONS = 16, FAKE_EVENTS = 32768, FAKE_STREAM = 100000 };

struct fake_connection {
	int fd;
	uint32_t stream; /* its number; 0: none yet */
	int records;	 /* the daemon's end of it */
	bool watches;
};

struct fake_daemon {
	char directory[64];
	char path[80];
	pthread_t thread;
	bool running;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int listener;
	int stop[2];
	uint8_t *page;
	int page_fd;
	struct fake_connection connection[FAKE_CONNECTIONS];

	/* its behaviour */
	enum mischief mischief;
	uint16_t at;	    /* at requests of this kind */
	bool early_stream;  /* comes with WELCOME */
	bool fresh_stream;  /* each REGISTERED has a new stream */
	bool keep_records;  /* the daemon's end stays open when the connection ends */
	const char *prefix; /* of each granted name */
	const char *refuse; /* names with this prefix */
	uint32_t refusal;   /* the reason */
	const char *sentence;
	unsigned ahead;	   /* this many REGISTER are answered only after another packet has arrived */
	_Atomic bool hold; /* accepts connections without reading */
	struct wire_welcome welcome;

	/* received packets; written by its thread */
	char *name[FAKE_EVENTS];
	_Atomic uint32_t events; /* the last bit in use */
	_Atomic uint32_t streams;
	_Atomic unsigned accepted, ended;
	_Atomic unsigned packets, hellos, registers, items, releases;
	_Atomic unsigned alone; /* REGISTER of `ahead` that no packet followed */
	_Atomic uint32_t released_bit;
	_Atomic uint16_t flags; /* of the last item */
	struct wire_lost lost;

	/* the packet that its thread handles, and the answer */
	struct fake_connection *connected;
	struct message message;
	enum mischief now;
	struct packet packet;
	uint8_t buffer[WIRE_PACKET_MAX + 4];
	uint32_t stream[WIRE_FDS_MAX];
	uint8_t n_streams;
	int fd[WIRE_FDS_MAX];
	size_t n_fds;
};

extern struct fake_daemon *fake_daemon;

/* fake_set(prefix = "bad") */
#define fake_set(...)                                                                                                  \
	do {                                                                                                           \
		fake_lock();                                                                                           \
		fake_daemon->__VA_ARGS__;                                                                              \
		fake_unlock();                                                                                         \
	} while (0)

/* Waits for a condition of the daemon, until the suite's time limit. */
#define fake_wait(condition)                                                                                           \
	do {                                                                                                           \
		fake_lock();                                                                                           \
		while (!(condition))                                                                                   \
			pthread_cond_wait(&fake_daemon->changed, &fake_daemon->mutex);                                 \
		fake_unlock();                                                                                         \
	} while (0)

void fake_lock(void);
void fake_unlock(void);
void fake_do(enum mischief mischief, uint16_t at);
/* Names with this prefix; NULL: none. */
void fake_refuse(const char *prefix, uint32_t refusal);
uint32_t fake_bit(const char *name, size_t length);
void fake_switch(const char *name, bool on);
/* The next record of any stream: its size without the index, or -1 if there is none. */
ssize_t fake_record(uint32_t *ret_index, void *payload, size_t size);
int fake_memfd(off_t size);
/* Sealed, as a daemon's. */
int fake_page_file(void);
void fake_error(int fd, uint32_t serial);
/* CHANGED to watching clients, without bits: scan all events. */
void fake_tell_changes(void);
/* Creates the directory; fake_start() starts the daemon. */
void fake_new(void);
int fake_listen(const char *path, int backlog);
void fake_start(void);
/* Ends the daemon, and forgets connections, streams and events. */
void fake_stop(void);
void fake_restart(void);
void fake_free(void);
