/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/client/library/fake_daemon.h"

struct fake_daemon *fake_daemon;

void fake_lock(void)
{
	pthread_mutex_lock(&fake_daemon->mutex);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&fake_daemon->mutex);
}

void fake_do(enum mischief mischief, uint16_t at)
{
	fake_set(mischief = mischief, fake_daemon->at = at);
}

void fake_refuse(const char *prefix, uint32_t refusal)
{
	fake_set(refuse = prefix, fake_daemon->refusal = refusal);
}

uint32_t fake_bit(const char *name, size_t length)
{
	for (uint32_t bit = fake_daemon->events; bit > 0; bit--)
		if (fake_daemon->name[bit] && strlen(fake_daemon->name[bit]) == length &&
		    memcmp(fake_daemon->name[bit], name, length) == 0)
			return bit;
	fake_daemon->name[++fake_daemon->events] = strndup(name, length);
	return fake_daemon->events;
}

void fake_switch(const char *name, bool on)
{
	uint32_t bit;

	fake_lock();
	bit = fake_bit(name, strlen(name));
	if (on)
		__atomic_fetch_or(&fake_daemon->page[bit / 8], 1 << bit % 8, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&fake_daemon->page[bit / 8], ~(1 << bit % 8), __ATOMIC_RELAXED);
	fake_unlock();
}

ssize_t fake_record(uint32_t *ret_index, void *payload, size_t size)
{
	struct iovec pieces[2] = { { ret_index, sizeof(*ret_index) }, { payload, size } };
	ssize_t got = -1;

	fake_lock();
	for (size_t i = 0; i < FAKE_CONNECTIONS && got <= 0; i++) {
		if (fake_daemon->connection[i].records >= 0)
			got = readv(fake_daemon->connection[i].records, pieces, 2);
		if (got > 0)
			ck_assert_uint_eq(*ret_index / FAKE_STREAM, fake_daemon->connection[i].stream);
	}
	fake_unlock();
	return got <= 0 ? -1 : got - (ssize_t)sizeof(*ret_index);
}

static int fake_pipe_end(void)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	close(ends[0]);
	return ends[1];
}

int fake_memfd(off_t size)
{
	int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	return fd;
}

int fake_page_file(void)
{
	int fd = fake_memfd(WIRE_PAGE_BYTES);

	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static void fake_add_stream(void)
{
	int type = fake_daemon->now == STREAM_IS_STREAM ? SOCK_STREAM : SOCK_SEQPACKET;
	struct fake_connection *connection = fake_daemon->connected;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	if (fake_daemon->now == STREAM_BLOCKS)
		fcntl(ends[1], F_SETFL, 0);
	if (fake_daemon->now == STREAM_IS_PIPE || fake_daemon->now == STREAM_IS_FILE) {
		close(ends[1]);
		ends[1] = fake_daemon->now == STREAM_IS_PIPE ? fake_pipe_end() : fake_memfd(0);
	}
	fd_close(connection->records);
	connection->records = ends[0];
	connection->stream = ++fake_daemon->streams;
	fake_daemon->stream[fake_daemon->n_streams++] = connection->stream;
	fake_daemon->fd[fake_daemon->n_fds++] = ends[1];
}

static void fake_close(struct fake_connection *connection)
{
	connection->fd = fd_close(connection->fd);
	if (!fake_daemon->keep_records)
		connection->records = fd_close(connection->records);
	fake_daemon->ended++;
}

void fake_error(int fd, uint32_t serial)
{
	uint8_t buffer[256];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, KIND_ERROR, serial, 0, NULL, 0);
	encode_error(&packet, REFUSAL_TOO_MANY_CONNECTIONS, "too many of you; close some");
	encode_end(&packet);
	transport_send(fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
}

/* Makes a valid answer invalid. */
static void fake_spoil(void)
{
	struct packet *packet = &fake_daemon->packet;
	struct wire_header header;

	if (fake_daemon->now == HEADER_ONLY)
		packet->size = sizeof(header);
	if (fake_daemon->now == TOO_LONG)
		packet->size += 4;
	memcpy(&header, packet->data, sizeof(header));
	header.size = htole32((uint32_t)packet->size);
	if (fake_daemon->now == CUT_SHORT)
		packet->size -= 1;
	if (fake_daemon->now == WRONG_SERIAL)
		header.serial = htole32(le32toh(header.serial) + 1);
	if (fake_daemon->now == WRONG_KIND)
		header.kind = htole16(KIND_ACCOUNT);
	if (fake_daemon->now == MORE_FOLLOWS)
		header.flags = WIRE_MORE;
	memcpy(packet->data, &header, sizeof(header));
	if (fake_daemon->now == GARBAGE)
		memset(packet->data, 0xa5, packet->size);
	if (fake_daemon->now == FD_MISSING && fake_daemon->n_fds > 0)
		close(fake_daemon->fd[--fake_daemon->n_fds]);
	if (fake_daemon->now == FD_EXTRA)
		fake_daemon->fd[fake_daemon->n_fds++] = fake_pipe_end();
}

static void fake_send(void)
{
	const struct packet *packet = &fake_daemon->packet;

	encode_end(&fake_daemon->packet);
	ck_assert(!packet->failed);
	fake_spoil();
	fake_daemon->packets++;
	for (unsigned times = fake_daemon->now == TWICE ? 2 : 1; times > 0; times--)
		transport_send(fake_daemon->connected->fd, packet->data, packet->size, fake_daemon->fd,
			       fake_daemon->n_fds, 0);
}

static int fake_page(void)
{
	char path[64];

	switch ((int)fake_daemon->now) {
	case PAGE_SHORT:
		return fake_memfd(WIRE_PAGE_BYTES - 1);
	case PAGE_IS_PIPE:
		return fake_pipe_end();
	case PAGE_IS_DIRECTORY:
		return open(fake_daemon->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case PAGE_UNREADABLE:
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fake_daemon->page_fd);
		return open(path, O_WRONLY | O_CLOEXEC);
	default:
		return fcntl(fake_daemon->page_fd, F_DUPFD_CLOEXEC, 0);
	}
}

static void fake_begin(uint16_t kind)
{
	encode_begin(&fake_daemon->packet, kind, fake_daemon->message.serial, 0, fake_daemon->stream,
		     fake_daemon->n_streams);
}

static void fake_welcome(void)
{
	struct wire_welcome welcome = fake_daemon->welcome;

	if (fake_daemon->now == PAGE_OF_OTHER_SIZE)
		welcome.page_bytes = 2 * WIRE_PAGE_BYTES;
	if (fake_daemon->now == PAGE_BITS_TOO_MANY)
		welcome.page_bits = WIRE_PAGE_BITS + 1;
	if (fake_daemon->now == PAGE_BITS_NONE)
		welcome.page_bits = 0;
	if (fake_daemon->now == PACKET_TOO_SMALL)
		welcome.packet_max = 535;
	if (fake_daemon->now == BATCH_NONE)
		welcome.batch_max = 0;
	fake_daemon->fd[fake_daemon->n_fds++] = fake_page();
	if (fake_daemon->early_stream || (fake_daemon->now >= STREAM_IS_PIPE && fake_daemon->now <= STREAM_BLOCKS))
		fake_add_stream();
	fake_begin(KIND_WELCOME);
	encode_welcome(&fake_daemon->packet, &welcome, "/fake");
	fake_daemon->hellos++;
}

static struct answer fake_decide(const struct string_item *item, char *name)
{
	const uint32_t stream = fake_daemon->connected->stream;
	size_t length = 0;
	uint32_t bit;

	while (length < item->length && !strchr(" :", item->text[length]))
		length++;
	fake_daemon->items++;
	fake_daemon->flags = item->flags;
	if (fake_daemon->refuse && strncmp(item->text, fake_daemon->refuse, strlen(fake_daemon->refuse)) == 0)
		return (struct answer){
			.refusal = fake_daemon->refusal,
			.text = fake_daemon->sentence,
			.length = strlen(fake_daemon->sentence),
		};
	bit = fake_bit(item->text, length);
	snprintf(name, 512, "%s%.*s", fake_daemon->prefix ? fake_daemon->prefix : "", (int)length, item->text);
	return (struct answer){
		.bit = fake_daemon->now == BIT_ZERO	 ? 0
		       : fake_daemon->now == BIT_OUTSIDE ? fake_daemon->welcome.page_bits
							 : bit,
		.stream = stream + (fake_daemon->now == STREAM_UNKNOWN),
		.index = stream * FAKE_STREAM + bit,
		.text = name,
		.length = fake_daemon->prefix ? strlen(name) : 0,
	};
}

static void fake_registered(void)
{
	struct pollfd more = { .fd = fake_daemon->connected->fd, .events = POLLIN };
	struct string_item item;
	struct strings strings;
	uint16_t count = 0;
	char name[512];
	size_t mark;

	ck_assert_int_eq(decode_strings(fake_daemon->message.body, &strings), 0);
	ck_assert_uint_le(strings.count, fake_daemon->welcome.batch_max);
	if (!fake_daemon->connected->stream || fake_daemon->fresh_stream)
		fake_add_stream();
	fake_begin(KIND_REGISTERED);
	mark = encode_list(&fake_daemon->packet, 0);
	while (strings_next(&strings, &item)) {
		struct answer one = fake_decide(&item, name);

		if (fake_daemon->now == ANSWER_MISSING && strings.count == 0)
			break;
		encode_answer(&fake_daemon->packet, &one);
		count++;
	}
	if (fake_daemon->now == ANSWER_EXTRA) {
		encode_answer(&fake_daemon->packet,
			      &(struct answer){ .bit = 1, .stream = fake_daemon->connected->stream });
		count++;
	}
	encode_count(&fake_daemon->packet, mark, count);
	fake_daemon->registers++;
	if (fake_daemon->ahead > 0) {
		fake_daemon->ahead--;
		fake_daemon->alone += poll(&more, 1, 2000) == 0;
	}
}

static void fake_released(void)
{
	struct cursor bits;
	uint16_t count;

	ck_assert_int_eq(decode_release(fake_daemon->message.body, &count, &bits), 0);
	fake_daemon->releases++;
	fake_daemon->released_bit = release_next(&bits);
	fake_begin(KIND_RELEASED);
	encode_fixed(&fake_daemon->packet, KIND_RELEASED, &(struct wire_released){ .released = count });
}

static void fake_note_lost(void)
{
	struct wire_lost lost;

	ck_assert_int_eq(decode_fixed(fake_daemon->message.body, KIND_LOST, &lost), 0);
	fake_daemon->lost.queue_full += lost.queue_full;
	fake_daemon->lost.too_big += lost.too_big;
}

static void fake_watch(void)
{
	struct wire_watch watch;

	ck_assert_int_eq(decode_fixed(fake_daemon->message.body, KIND_WATCH, &watch), 0);
	fake_daemon->connected->watches = watch.on;
	fake_begin(KIND_WATCHING);
}

void fake_tell_changes(void)
{
	uint8_t buffer[64];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, KIND_CHANGED, 0, 0, NULL, 0);
	encode_count(&packet, encode_changed(&packet, fake_daemon->welcome.payload_max), 0);
	encode_end(&packet);
	fake_lock();
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
		if (fake_daemon->connection[i].fd >= 0 && fake_daemon->connection[i].watches)
			transport_send(fake_daemon->connection[i].fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
	fake_unlock();
}

static void fake_handle(void)
{
	static const struct {
		uint16_t kind;
		void (*answer)(void);
	} handlers[] = {
		{ KIND_HELLO, fake_welcome }, { KIND_REGISTER, fake_registered }, { KIND_RELEASE, fake_released },
		{ KIND_WATCH, fake_watch },   { KIND_LOST, fake_note_lost },
	};
	const uint16_t kind = fake_daemon->message.kind;
	size_t i = 0;

	fake_daemon->packets++;
	fake_daemon->packet = packet_make(fake_daemon->buffer, WIRE_PACKET_MAX);
	fake_daemon->n_streams = 0;
	fake_daemon->n_fds = 0;
	fake_daemon->now = fake_daemon->at == kind ? fake_daemon->mischief : GOOD;
	while (handlers[i].kind != kind)
		ck_assert_uint_lt(++i, ARRAY_SIZE(handlers));
	/* Without an answer a REGISTER has no effect. */
	if (kind != KIND_REGISTER || (fake_daemon->now != SILENT && fake_daemon->now != HANG_UP))
		handlers[i].answer();
	if (fake_daemon->now == ERROR_PACKET)
		fake_error(fake_daemon->connected->fd, fake_daemon->message.serial);
	if (fake_daemon->now == ERROR_PACKET || fake_daemon->now == HANG_UP)
		fake_close(fake_daemon->connected);
	else if (fake_daemon->now != SILENT && kind != KIND_LOST)
		fake_send();
	for (size_t j = 0; j < fake_daemon->n_fds; j++)
		close(fake_daemon->fd[j]);
}

static void fake_read(struct fake_connection *connection)
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
	ck_assert_int_eq(decode_message(buffer, (size_t)size, &fake_daemon->message), 0);
	ck_assert_uint_le((size_t)size, fake_daemon->welcome.packet_max);
	fake_daemon->connected = connection;
	fake_handle();
}

static void fake_accept(void)
{
	int fd = accept4(fake_daemon->listener, NULL, NULL, SOCK_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	fake_daemon->accepted++;
	if (fake_daemon->mischief == HANG_UP_UNREAD) {
		struct pollfd hello = { .fd = fd, .events = POLLIN };

		poll(&hello, 1, -1);
		fake_error(fd, 0);
		close(fd);
		fake_daemon->ended++;
		return;
	}
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
		if (fake_daemon->connection[i].fd < 0 && fake_daemon->connection[i].records < 0) {
			fake_daemon->connection[i] = (struct fake_connection){ .fd = fd, .records = -1 };
			return;
		}
	ck_abort_msg("more connections than the fake daemon takes");
}

static void *fake_serve(void *data)
{
	for (;;) {
		struct pollfd fds[2 + FAKE_CONNECTIONS] = {
			{ .fd = fake_daemon->stop[0], .events = POLLIN },
			{ .fd = fake_daemon->listener, .events = POLLIN },
		};

		for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
			fds[2 + i] = (struct pollfd){ .fd = fake_daemon->hold ? -1 : fake_daemon->connection[i].fd,
						      .events = POLLIN };
		poll(fds, ARRAY_SIZE(fds), fake_daemon->hold ? 10 : -1);
		fake_lock();
		for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
			if (fds[2 + i].revents && !fake_daemon->hold)
				fake_read(&fake_daemon->connection[i]);
		if (fds[1].revents)
			fake_accept();
		pthread_cond_broadcast(&fake_daemon->changed);
		fake_unlock();
		if (fds[0].revents)
			return data;
	}
}

void fake_new(void)
{
	fake_daemon = calloc(1, sizeof(*fake_daemon));
	ck_assert_ptr_nonnull(fake_daemon);
	make_temporary_directory(fake_daemon->directory, sizeof(fake_daemon->directory));
	snprintf(fake_daemon->path, sizeof(fake_daemon->path), "%s/socket", fake_daemon->directory);
	pthread_mutex_init(&fake_daemon->mutex, NULL);
	pthread_cond_init(&fake_daemon->changed, NULL);
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
		fake_daemon->connection[i] = (struct fake_connection){ .fd = -1, .records = -1 };
	fake_daemon->sentence = "because";
	fake_daemon->welcome = (struct wire_welcome){
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

int fake_listen(const char *path, int backlog)
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

void fake_start(void)
{
	fake_daemon->page_fd = fake_page_file();
	fake_daemon->page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fake_daemon->page_fd, 0);
	ck_assert_ptr_ne(fake_daemon->page, MAP_FAILED);
	ck_assert_int_eq(pipe2(fake_daemon->stop, O_CLOEXEC), 0);
	fake_daemon->listener = fake_listen(fake_daemon->path, 16);
	ck_assert_int_eq(pthread_create(&fake_daemon->thread, NULL, fake_serve, NULL), 0);
	fake_daemon->running = true;
}

void fake_stop(void)
{
	if (!fake_daemon->running)
		return;
	ck_assert_int_eq(write(fake_daemon->stop[1], "", 1), 1);
	pthread_join(fake_daemon->thread, NULL);
	fake_daemon->running = false;
	close(fake_daemon->stop[0]);
	close(fake_daemon->stop[1]);
	close(fake_daemon->listener);
	close(fake_daemon->page_fd);
	munmap(fake_daemon->page, WIRE_PAGE_BYTES);
	unlink(fake_daemon->path);
	for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
		fake_daemon->connection[i].fd = fd_close(fake_daemon->connection[i].fd);
		fake_daemon->connection[i].records = fd_close(fake_daemon->connection[i].records);
	}
	for (size_t i = 0; i < FAKE_EVENTS; i++) {
		free(fake_daemon->name[i]);
		fake_daemon->name[i] = NULL;
	}
	fake_daemon->events = 0;
}

void fake_restart(void)
{
	fake_stop();
	fake_start();
}

void fake_free(void)
{
	fake_stop();
	rmdir(fake_daemon->directory);
	pthread_cond_destroy(&fake_daemon->changed);
	pthread_mutex_destroy(&fake_daemon->mutex);
	free(fake_daemon);
}
