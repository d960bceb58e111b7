/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection to the daemon: made when somebody needs it, dropped when an answer is late or makes no sense.
 *
 * A new connection is complete, page and streams included, before it takes the place of the old one: until then the old
 * page and streams go on. The fd of the first one keeps its number for ever; later ones are put in its place, so that
 * losses_report() needs no lock. A connection that was dropped is shut down and keeps the number busy.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "client/library.h"
#include "protocol/transport.h"

enum {
	/* WELCOME with the longest name of a tenant, and all the fds that it may bring. */
	WELCOME_MAX = sizeof(struct wire_header) + WIRE_FDS_MAX * sizeof(uint32_t) + sizeof(struct wire_welcome) +
		      WIRE_TENANT_MAX,
	/* Room for the longest description. */
	PACKET_MIN = sizeof(struct wire_header) + sizeof(struct wire_strings) + sizeof(struct wire_string) +
		     WIRE_DESCRIPTION_MAX + 1,
};

int library_patience_ms = 2000;

/* In the order of looking. */
static const char *const usual_sockets[] = { "/run/userevd/client/userevd.sock", "/run/userevd.sock" };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int deadline_left(int64_t deadline)
{
	return (int)MAX(deadline - now_ms(), 0);
}

/* Not with a timeout of the socket: a program with an interval timer would begin it anew for ever. */
static int wait_for(int fd, short events, int64_t deadline)
{
	struct pollfd poll_fd = { .fd = fd, .events = events };
	int r;

	do
		r = poll(&poll_fd, 1, deadline_left(deadline));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

void reply_deinit(struct reply *reply)
{
	fdset_deinit(&reply->fds);
}

/* Who has hung up may have said why before: only reading tells. */
static int send_request(int fd, const struct packet *packet, int64_t deadline)
{
	int r;

	if (packet->failed)
		return -EMSGSIZE;
	while ((r = transport_send(fd, packet->data, packet->size, NULL, 0, MSG_DONTWAIT)) == -EAGAIN) {
		r = wait_for(fd, POLLOUT, deadline);
		if (r < 0)
			return r;
	}
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static ssize_t receive_answer(int fd, void *buffer, size_t size, struct fdset *ret, int64_t deadline)
{
	bool reset = false;
	ssize_t received;

	for (;;) {
		received = transport_receive_fds(fd, buffer, size, ret, MSG_DONTWAIT);
		if (received == -ECONNRESET && !reset) {
			/* The daemon left without reading all. Its last words come behind this error. */
			reset = true;
			continue;
		}
		if (received != -EAGAIN)
			return received;
		received = wait_for(fd, POLLIN, deadline);
		if (received < 0)
			return received;
	}
}

/* The daemon refuses us as a whole. */
static int note_error(const struct message *message)
{
	struct string_item sentence;
	uint32_t refusal;

	if (decode_error(message->body, &refusal, &sentence) != 0)
		return -EPROTO;
	if (sentence.length > 0)
		refusal_set(sentence.text, sentence.length);
	else
		refusal_set(refusal_name(refusal), strlen(refusal_name(refusal)));
	return -EPROTO;
}

static int check_answer(const struct reply *reply, uint16_t kind, uint32_t serial)
{
	size_t expected_fds = (size_t)reply->message.streams + (kind == KIND_WELCOME);

	if (reply->message.kind == KIND_ERROR)
		return note_error(&reply->message);
	if (reply->message.kind != kind || reply->message.serial != serial || reply->message.flags != 0 ||
	    reply->fds.count != expected_fds)
		return -EPROTO;
	return 0;
}

/* A daemon that takes another one's place can't know whether the last answer has left: then it comes twice. */
static bool is_repeated(const struct message *message, uint32_t awaited)
{
	return message->kind != KIND_ERROR && (int32_t)(message->serial - awaited) < 0;
}

static int receive_reply(int fd, uint16_t kind, uint32_t serial, void *buffer, size_t size, int64_t deadline,
			 struct reply *ret)
{
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	ssize_t received;
	int r;

	do {
		reply_deinit(&reply);
		received = receive_answer(fd, buffer, size, &reply.fds, deadline);
		if (received <= 0)
			return received == 0 ? -ECONNRESET : (int)received;
		if (decode_message(buffer, (size_t)received, &reply.message) != 0)
			return -EPROTO;
	} while (is_repeated(&reply.message, serial));
	r = check_answer(&reply, kind, serial);
	if (r < 0)
		return r;
	*ret = reply;
	reply.fds.count = 0;
	return 0;
}

static int exchange(int fd, const struct packet *packet, uint16_t kind, uint32_t serial, void *buffer, size_t size,
		    struct reply *ret)
{
	int64_t deadline = now_ms() + library_patience_ms;
	int r = send_request(fd, packet, deadline);

	return r < 0 ? r : receive_reply(fd, kind, serial, buffer, size, deadline, ret);
}

int connection_send(struct userev *userev, const struct packet *packet)
{
	int r = send_request(userev->fd, packet, now_ms() + library_patience_ms);

	if (r < 0)
		connection_drop(userev);
	return r;
}

bool connection_send_at_once(struct userev *userev, const struct packet *packet)
{
	/* Whatever is wrong is found when somebody waits for the answer before. */
	return !packet->failed && transport_send(userev->fd, packet->data, packet->size, NULL, 0, MSG_DONTWAIT) == 0;
}

int connection_receive(struct userev *userev, uint16_t answer, uint32_t serial, void *buffer, size_t size,
		       struct reply *ret)
{
	int64_t deadline = now_ms() + library_patience_ms;
	int r = receive_reply(userev->fd, answer, serial, buffer, size, deadline, ret);

	if (r == 0)
		r = streams_take(userev, ret, 0, &userev->streams);
	if (r < 0)
		connection_drop(userev);
	return r;
}

int connection_request(struct userev *userev, const struct packet *packet, uint16_t answer, void *buffer, size_t size,
		       struct reply *ret)
{
	int r = connection_send(userev, packet);

	return r < 0 ? r : connection_receive(userev, answer, userev->serial, buffer, size, ret);
}

/* connect() waits for a daemon that is slow to accept; poll() cannot, on these sockets. */
static int connect_by(int fd, const struct sockaddr_un *address, socklen_t length, int64_t deadline)
{
	int left, r;

	do {
		struct timeval patience;

		left = deadline_left(deadline);
		patience = (struct timeval){ .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };
		if (left > 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
			return -errno;
		r = left > 0 ? connect(fd, (const struct sockaddr *)address, length) : -1;
	} while (r < 0 && left > 0 && errno == EINTR);
	if (r < 0)
		return left == 0 || errno == EAGAIN ? -ETIMEDOUT : -errno;
	return 0;
}

static int connect_to(const char *path, int64_t deadline, int *ret)
{
	const int largest_packet = WIRE_PACKET_MAX;
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t length;
	int r;

	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = connect_by(fd, &address, length, deadline);
	if (r < 0)
		return r;
	/* The kernel doubles it; where even that is not allowed, smaller batches may still do. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &largest_packet, sizeof(largest_packet));
	*ret = fd_steal(&fd);
	return 0;
}

/* What is wrong with a socket that is there says more than that another one is not. */
static int find_daemon(const struct userev *userev, int *ret)
{
	int64_t deadline = now_ms() + library_patience_ms;
	int r = -ENOENT;

	if (userev->socket[0])
		return connect_to(userev->socket, deadline, ret);
	for (size_t i = 0; i < ARRAY_SIZE(usual_sockets); i++) {
		int one = connect_to(usual_sockets[i], deadline, ret);

		if (one == 0)
			return 0;
		if (r == -ENOENT)
			r = one;
	}
	return r;
}

static int check_welcome(const struct reply *reply, struct wire_welcome *ret)
{
	struct wire_welcome welcome;
	struct string_item tenant;

	if (decode_welcome(reply->message.body, &welcome, &tenant) != 0)
		return -EPROTO;
	if (welcome.page_bytes != WIRE_PAGE_BYTES || welcome.page_bits == 0 || welcome.page_bits > WIRE_PAGE_BITS ||
	    welcome.packet_max < PACKET_MIN || welcome.batch_max == 0)
		return -EPROTO;
	welcome.packet_max = MIN(welcome.packet_max, WIRE_PACKET_MAX);
	welcome.batch_max = MIN(welcome.batch_max, WIRE_BATCH_MAX);
	*ret = welcome;
	return 0;
}

static int say_hello(int fd, uint32_t serial, struct reply *ret, struct wire_welcome *ret_limits)
{
	const struct wire_hello hello = { .understands = WIRE_FEATURE_PERSIST | WIRE_FEATURE_MULTI_FORMAT };
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	uint8_t buffer[WELCOME_MAX];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	int r;

	encode_begin(&packet, KIND_HELLO, serial, 0, NULL, 0);
	encode_hello(&packet, &hello);
	encode_end(&packet);
	r = exchange(fd, &packet, KIND_WELCOME, serial, buffer, sizeof(buffer), &reply);
	if (r == 0)
		r = check_welcome(&reply, ret_limits);
	if (r < 0)
		return r;
	*ret = reply;
	reply.fds.count = 0;
	return 0;
}

static int put_in_place(struct userev *userev, int *fd)
{
	if (userev->fd < 0)
		userev->fd = fd_above_stdio(fd_steal(fd));
	else if (dup3(*fd, userev->fd, O_CLOEXEC) < 0)
		return -errno;
	return 0;
}

/* From here on the former connection is history. Whatever it granted goes on until all has been claimed anew. */
static void begin_anew(struct userev *userev, struct streams *streams)
{
	struct stream *stream;
	struct claim *claim;

	while ((stream = LIST_FIRST(&userev->streams))) {
		LIST_REMOVE(stream, entry);
		LIST_INSERT_HEAD(&userev->outdated, stream, entry);
	}
	while ((stream = LIST_FIRST(streams))) {
		LIST_REMOVE(stream, entry);
		LIST_INSERT_HEAD(&userev->streams, stream, entry);
	}
	TAILQ_FOREACH(claim, &userev->claims, entry)
		claim->bit = 0;
	userev->waiting = TAILQ_FIRST(&userev->claims);
	userev->up = true;
	atomic_store(&userev->pid, getpid());
}

static int connect_anew(struct userev *userev)
{
	_cleanup_(streams_free) struct streams streams = LIST_HEAD_INITIALIZER(streams);
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) uint32_t *users = NULL;
	int r;

	r = find_daemon(userev, &fd);
	if (r == 0)
		r = say_hello(fd, ++userev->serial, &reply, &userev->limits);
	if (r == 0)
		r = streams_take(userev, &reply, 1, &streams);
	if (r < 0)
		return r;
	users = calloc(userev->limits.page_bits, sizeof(*users));
	if (!users)
		return -ENOMEM;
	r = page_map(reply.fds.fd[0], &userev->page);
	if (r == 0)
		r = put_in_place(userev, &fd);
	if (r < 0)
		return r;
	free(userev->users);
	userev->users = steal_pointer(users);
	begin_anew(userev, &streams);
	return 0;
}

static bool is_ours(const struct userev *userev)
{
	return userev->pid == getpid();
}

/* Nobody sends us anything that we have not asked for, but the last answer once more, and what ends the connection. */
static bool has_ended(const struct userev *userev)
{
	struct wire_header header;
	ssize_t size;

	for (;;) {
		size = recv(userev->fd, &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
		if (size != sizeof(header) || le16toh(header.kind) == KIND_ERROR)
			return size >= 0 || errno != EAGAIN;
		recv(userev->fd, NULL, 0, MSG_DONTWAIT);
	}
}

bool connection_is_up(const struct userev *userev)
{
	return userev->up && is_ours(userev);
}

int connection_open(struct userev *userev)
{
	/* Whoever forked without telling libc. */
	if (userev->fd >= 0 && !is_ours(userev))
		connection_abandon(userev);
	if (userev->up && has_ended(userev))
		connection_drop(userev);
	return userev->up ? 0 : connect_anew(userev);
}

void connection_drop(struct userev *userev)
{
	if (connection_is_up(userev))
		shutdown(userev->fd, SHUT_RDWR);
	userev->up = false;
}

void connection_abandon(struct userev *userev)
{
	userev->fd = fd_close(userev->fd);
	userev->up = false;
	userev->unreported.queue_full = 0;
	userev->unreported.too_big = 0;
}
