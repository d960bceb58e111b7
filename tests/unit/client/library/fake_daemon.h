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

struct fake {
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
	bool all_new;	    /* all names differ */
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

static struct fake *fake;

static inline void fake_lock(void)
{
	pthread_mutex_lock(&fake->mutex);
}

static inline void fake_unlock(void)
{
	pthread_mutex_unlock(&fake->mutex);
}

/* fake_set(prefix = "bad") */
#define fake_set(...)                                                                                                  \
	do {                                                                                                           \
		fake_lock();                                                                                           \
		fake->__VA_ARGS__;                                                                                     \
		fake_unlock();                                                                                         \
	} while (0)

/* Waits for a condition of the daemon, until the suite's time limit. */
#define fake_wait(condition)                                                                                           \
	do {                                                                                                           \
		fake_lock();                                                                                           \
		while (!(condition))                                                                                   \
			pthread_cond_wait(&fake->changed, &fake->mutex);                                               \
		fake_unlock();                                                                                         \
	} while (0)

static inline void fake_do(enum mischief mischief, uint16_t at)
{
	fake_set(mischief = mischief, fake->at = at);
}

/* Names with this prefix; NULL: none. */
static inline void fake_refuse(const char *prefix, uint32_t refusal)
{
	fake_set(refuse = prefix, fake->refusal = refusal);
}

static inline uint32_t fake_bit(const char *name, size_t length)
{
	for (uint32_t bit = fake->events; bit > 0 && !fake->all_new; bit--)
		if (fake->name[bit] && strlen(fake->name[bit]) == length && memcmp(fake->name[bit], name, length) == 0)
			return bit;
	fake->name[++fake->events] = strndup(name, length);
	return fake->events;
}

static inline void fake_switch(const char *name, bool on)
{
	uint32_t bit;

	fake_lock();
	bit = fake_bit(name, strlen(name));
	if (on)
		__atomic_fetch_or(&fake->page[bit / 8], 1 << bit % 8, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&fake->page[bit / 8], ~(1 << bit % 8), __ATOMIC_RELAXED);
	fake_unlock();
}

/* The next record of any stream: its size without the index, or -1 if there is none. */
static inline ssize_t fake_record(uint32_t *ret_index, void *payload, size_t size)
{
	struct iovec pieces[2] = { { ret_index, sizeof(*ret_index) }, { payload, size } };
	ssize_t got = -1;

	fake_lock();
	for (size_t i = 0; i < FAKE_CONNECTIONS && got <= 0; i++) {
		if (fake->connection[i].records >= 0)
			got = readv(fake->connection[i].records, pieces, 2);
		if (got > 0)
			ck_assert_uint_eq(*ret_index / FAKE_STREAM, fake->connection[i].stream);
	}
	fake_unlock();
	return got <= 0 ? -1 : got - (ssize_t)sizeof(*ret_index);
}

static inline int fake_pipe_end(void)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	close(ends[0]);
	return ends[1];
}

static inline int fake_memfd(off_t size)
{
	int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	return fd;
}

/* Sealed, as a daemon's. */
static inline int fake_page_file(void)
{
	int fd = fake_memfd(WIRE_PAGE_BYTES);

	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static inline void fake_add_stream(void)
{
	int type = fake->now == STREAM_IS_STREAM ? SOCK_STREAM : SOCK_SEQPACKET;
	struct fake_connection *connection = fake->connected;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	if (fake->now == STREAM_BLOCKS)
		fcntl(ends[1], F_SETFL, 0);
	if (fake->now == STREAM_IS_PIPE || fake->now == STREAM_IS_FILE) {
		close(ends[1]);
		ends[1] = fake->now == STREAM_IS_PIPE ? fake_pipe_end() : fake_memfd(0);
	}
	fd_close(connection->records);
	connection->records = ends[0];
	connection->stream = ++fake->streams;
	fake->stream[fake->n_streams++] = connection->stream;
	fake->fd[fake->n_fds++] = ends[1];
}

static inline void fake_close(struct fake_connection *connection)
{
	connection->fd = fd_close(connection->fd);
	if (!fake->keep_records)
		connection->records = fd_close(connection->records);
	fake->ended++;
}

static inline void fake_error(int fd, uint32_t serial)
{
	uint8_t buffer[256];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, KIND_ERROR, serial, 0, NULL, 0);
	encode_error(&packet, REFUSAL_TOO_MANY_CONNECTIONS, "too many of you; close some");
	encode_end(&packet);
	transport_send(fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
}

/* Makes a valid answer invalid. */
static inline void fake_spoil(void)
{
	struct packet *packet = &fake->packet;
	struct wire_header header;

	if (fake->now == HEADER_ONLY)
		packet->size = sizeof(header);
	if (fake->now == TOO_LONG)
		packet->size += 4;
	memcpy(&header, packet->data, sizeof(header));
	header.size = htole32((uint32_t)packet->size);
	if (fake->now == CUT_SHORT)
		packet->size -= 1;
	if (fake->now == WRONG_SERIAL)
		header.serial = htole32(le32toh(header.serial) + 1);
	if (fake->now == WRONG_KIND)
		header.kind = htole16(KIND_ACCOUNT);
	if (fake->now == MORE_FOLLOWS)
		header.flags = WIRE_MORE;
	memcpy(packet->data, &header, sizeof(header));
	if (fake->now == GARBAGE)
		memset(packet->data, 0xa5, packet->size);
	if (fake->now == FD_MISSING && fake->n_fds > 0)
		close(fake->fd[--fake->n_fds]);
	if (fake->now == FD_EXTRA)
		fake->fd[fake->n_fds++] = fake_pipe_end();
}

static inline void fake_send(void)
{
	const struct packet *packet = &fake->packet;

	encode_end(&fake->packet);
	ck_assert(!packet->failed);
	fake_spoil();
	fake->packets++;
	for (unsigned times = fake->now == TWICE ? 2 : 1; times > 0; times--)
		transport_send(fake->connected->fd, packet->data, packet->size, fake->fd, fake->n_fds, 0);
}

static inline int fake_page(void)
{
	char path[64];

	switch ((int)fake->now) {
	case PAGE_SHORT:
		return fake_memfd(WIRE_PAGE_BYTES - 1);
	case PAGE_IS_PIPE:
		return fake_pipe_end();
	case PAGE_IS_DIRECTORY:
		return open(fake->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case PAGE_UNREADABLE:
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fake->page_fd);
		return open(path, O_WRONLY | O_CLOEXEC);
	default:
		return fcntl(fake->page_fd, F_DUPFD_CLOEXEC, 0);
	}
}

static inline void fake_begin(uint16_t kind)
{
	encode_begin(&fake->packet, kind, fake->message.serial, 0, fake->stream, fake->n_streams);
}

static inline void fake_welcome(void)
{
	struct wire_welcome welcome = fake->welcome;

	if (fake->now == PAGE_OF_OTHER_SIZE)
		welcome.page_bytes = 2 * WIRE_PAGE_BYTES;
	if (fake->now == PAGE_BITS_TOO_MANY)
		welcome.page_bits = WIRE_PAGE_BITS + 1;
	if (fake->now == PAGE_BITS_NONE)
		welcome.page_bits = 0;
	if (fake->now == PACKET_TOO_SMALL)
		welcome.packet_max = 535;
	if (fake->now == BATCH_NONE)
		welcome.batch_max = 0;
	fake->fd[fake->n_fds++] = fake_page();
	if (fake->early_stream || (fake->now >= STREAM_IS_PIPE && fake->now <= STREAM_BLOCKS))
		fake_add_stream();
	fake_begin(KIND_WELCOME);
	encode_welcome(&fake->packet, &welcome, "/fake");
	fake->hellos++;
}

static inline struct answer fake_decide(const struct string_item *item, char *name)
{
	const uint32_t stream = fake->connected->stream;
	size_t length = 0;
	uint32_t bit;

	while (length < item->length && !strchr(" :", item->text[length]))
		length++;
	fake->items++;
	fake->flags = item->flags;
	if (fake->refuse && strncmp(item->text, fake->refuse, strlen(fake->refuse)) == 0)
		return (struct answer){
			.refusal = fake->refusal,
			.text = fake->sentence,
			.length = strlen(fake->sentence),
		};
	bit = fake_bit(item->text, length);
	snprintf(name, 512, "%s%.*s", fake->prefix ? fake->prefix : "", (int)length, item->text);
	return (struct answer){
		.bit = fake->now == BIT_ZERO	  ? 0
		       : fake->now == BIT_OUTSIDE ? fake->welcome.page_bits
						  : bit,
		.stream = stream + (fake->now == STREAM_UNKNOWN),
		.index = stream * FAKE_STREAM + bit,
		.text = name,
		.length = fake->prefix ? strlen(name) : 0,
	};
}

static inline void fake_registered(void)
{
	struct pollfd more = { .fd = fake->connected->fd, .events = POLLIN };
	struct string_item item;
	struct strings strings;
	uint16_t count = 0;
	char name[512];
	size_t mark;

	ck_assert_int_eq(decode_strings(fake->message.body, &strings), 0);
	ck_assert_uint_le(strings.count, fake->welcome.batch_max);
	if (!fake->connected->stream || fake->fresh_stream)
		fake_add_stream();
	fake_begin(KIND_REGISTERED);
	mark = encode_answers(&fake->packet);
	while (strings_next(&strings, &item)) {
		struct answer one = fake_decide(&item, name);

		if (fake->now == ANSWER_MISSING && strings.count == 0)
			break;
		encode_answer(&fake->packet, &one);
		count++;
	}
	if (fake->now == ANSWER_EXTRA) {
		encode_answer(&fake->packet, &(struct answer){ .bit = 1, .stream = fake->connected->stream });
		count++;
	}
	encode_count(&fake->packet, mark, count);
	fake->registers++;
	if (fake->ahead > 0) {
		fake->ahead--;
		fake->alone += poll(&more, 1, 2000) == 0;
	}
}

static inline void fake_released(void)
{
	struct cursor bits;
	uint16_t count;

	ck_assert_int_eq(decode_release(fake->message.body, &count, &bits), 0);
	fake->releases++;
	fake->released_bit = release_next(&bits);
	fake_begin(KIND_RELEASED);
	encode_released(&fake->packet, &(struct wire_released){ .released = count });
}

static inline void fake_note_lost(void)
{
	struct wire_lost lost;

	ck_assert_int_eq(decode_lost(fake->message.body, &lost), 0);
	fake->lost.queue_full += lost.queue_full;
	fake->lost.too_big += lost.too_big;
}

static inline void fake_watch(void)
{
	struct wire_watch watch;

	ck_assert_int_eq(decode_watch(fake->message.body, &watch), 0);
	fake->connected->watches = watch.on;
	fake_begin(KIND_WATCHING);
}

/* CHANGED to watching clients, without bits: scan all events. */
static inline void fake_tell_changes(void)
{
	uint8_t buffer[64];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, KIND_CHANGED, 0, 0, NULL, 0);
	encode_count(&packet, encode_changed(&packet, fake->welcome.payload_max), 0);
	encode_end(&packet);
	fake_lock();
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
		if (fake->connection[i].fd >= 0 && fake->connection[i].watches)
			transport_send(fake->connection[i].fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
	fake_unlock();
}

static inline void fake_handle(void)
{
	static const struct {
		uint16_t kind;
		void (*answer)(void);
	} handlers[] = {
		{ KIND_HELLO, fake_welcome }, { KIND_REGISTER, fake_registered }, { KIND_RELEASE, fake_released },
		{ KIND_WATCH, fake_watch },   { KIND_LOST, fake_note_lost },
	};
	const uint16_t kind = fake->message.kind;
	size_t i = 0;

	fake->packets++;
	fake->packet = packet_make(fake->buffer, WIRE_PACKET_MAX);
	fake->n_streams = 0;
	fake->n_fds = 0;
	fake->now = fake->at == kind ? fake->mischief : GOOD;
	while (handlers[i].kind != kind)
		ck_assert_uint_lt(++i, ARRAY_SIZE(handlers));
	/* Without an answer a REGISTER has no effect. */
	if (kind != KIND_REGISTER || (fake->now != SILENT && fake->now != HANG_UP))
		handlers[i].answer();
	if (fake->now == ERROR_PACKET)
		fake_error(fake->connected->fd, fake->message.serial);
	if (fake->now == ERROR_PACKET || fake->now == HANG_UP)
		fake_close(fake->connected);
	else if (fake->now != SILENT && kind != KIND_LOST)
		fake_send();
	for (size_t j = 0; j < fake->n_fds; j++)
		close(fake->fd[j]);
}

static inline void fake_read(struct fake_connection *connection)
{
	static uint8_t buffer[WIRE_PACKET_MAX];
	struct transport_from from;
	ssize_t size = transport_receive(connection->fd, buffer, sizeof(buffer), &from);

	if (size == -EAGAIN)
		return;
	if (size <= 0) {
		fake_close(connection);
		return;
	}
	ck_assert_int_eq(decode_message(buffer, (size_t)size, &fake->message), 0);
	ck_assert_uint_le((size_t)size, fake->welcome.packet_max);
	fake->connected = connection;
	fake_handle();
}

static inline void fake_accept(void)
{
	int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	fake->accepted++;
	if (fake->mischief == HANG_UP_UNREAD) {
		struct pollfd hello = { .fd = fd, .events = POLLIN };

		poll(&hello, 1, -1);
		fake_error(fd, 0);
		close(fd);
		fake->ended++;
		return;
	}
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
		if (fake->connection[i].fd < 0 && fake->connection[i].records < 0) {
			fake->connection[i] = (struct fake_connection){ .fd = fd, .records = -1 };
			return;
		}
	ck_abort_msg("more connections than the fake daemon takes");
}

static inline void *fake_serve(void *data)
{
	for (;;) {
		struct pollfd fds[2 + FAKE_CONNECTIONS] = {
			{ .fd = fake->stop[0], .events = POLLIN },
			{ .fd = fake->listener, .events = POLLIN },
		};

		for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
			fds[2 + i] =
				(struct pollfd){ .fd = fake->hold ? -1 : fake->connection[i].fd, .events = POLLIN };
		poll(fds, ARRAY_SIZE(fds), fake->hold ? 10 : -1);
		fake_lock();
		for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
			if (fds[2 + i].revents && !fake->hold)
				fake_read(&fake->connection[i]);
		if (fds[1].revents)
			fake_accept();
		pthread_cond_broadcast(&fake->changed);
		fake_unlock();
		if (fds[0].revents)
			return data;
	}
}

/* Creates the directory; fake_start() starts the daemon. */
static inline void fake_new(void)
{
	fake = calloc(1, sizeof(*fake));
	ck_assert_ptr_nonnull(fake);
	make_temporary_directory(fake->directory, sizeof(fake->directory));
	snprintf(fake->path, sizeof(fake->path), "%s/socket", fake->directory);
	pthread_mutex_init(&fake->mutex, NULL);
	pthread_cond_init(&fake->changed, NULL);
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
		fake->connection[i] = (struct fake_connection){ .fd = -1, .records = -1 };
	fake->sentence = "because";
	fake->welcome = (struct wire_welcome){
		.page_bytes = WIRE_PAGE_BYTES,
		.page_bits = WIRE_PAGE_BITS,
		.payload_max = WIRE_PAYLOAD_MAX,
		.packet_max = WIRE_PACKET_MAX,
		.batch_max = WIRE_BATCH_MAX,
		.events_max = 1024,
		.backend = BACKEND_EMBEDDED,
		.features = WIRE_FEATURE_WATCH,
	};
}

static inline int fake_listen(const char *path, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

static inline void fake_start(void)
{
	fake->page_fd = fake_page_file();
	fake->page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fake->page_fd, 0);
	ck_assert_ptr_ne(fake->page, MAP_FAILED);
	ck_assert_int_eq(pipe2(fake->stop, O_CLOEXEC), 0);
	fake->listener = fake_listen(fake->path, 16);
	ck_assert_int_eq(pthread_create(&fake->thread, NULL, fake_serve, NULL), 0);
	fake->running = true;
}

/* Ends the daemon, and forgets connections, streams and events. */
static inline void fake_stop(void)
{
	if (!fake->running)
		return;
	ck_assert_int_eq(write(fake->stop[1], "", 1), 1);
	pthread_join(fake->thread, NULL);
	fake->running = false;
	close(fake->stop[0]);
	close(fake->stop[1]);
	close(fake->listener);
	close(fake->page_fd);
	munmap(fake->page, WIRE_PAGE_BYTES);
	unlink(fake->path);
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
		fake->connection[i].fd = fd_close(fake->connection[i].fd);
		fake->connection[i].records = fd_close(fake->connection[i].records);
	}
	for (size_t i = 0; i < FAKE_EVENTS; i++) {
		free(fake->name[i]);
		fake->name[i] = NULL;
	}
	fake->events = 0;
}

static inline void fake_restart(void)
{
	fake_stop();
	fake_start();
}

static inline void fake_free(void)
{
	fake_stop();
	rmdir(fake->directory);
	pthread_cond_destroy(&fake->changed);
	pthread_mutex_destroy(&fake->mutex);
	free(fake);
}
