/* SPDX-License-Identifier: GPL-2.0-or-later */

/* HELLO and QUERY without the library, which would hide what is wrong. */

#include <poll.h>
#include <sys/un.h>

#include "client/userevctl/doctor/doctor.h"
#include "protocol/base/text.h"
#include "protocol/transport.h"

enum { PATIENCE_MS = 5000 };

static bool somebody_listens(const char *path)
{
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	socklen_t length;

	return fd >= 0 && transport_address(path, &address, &length) == 0 &&
	       (connect(fd, (const struct sockaddr *)&address, length) == 0 || errno == EAGAIN);
}

static const char *const usual[] = { "/run/userevd/client/userevd.sock", "/run/userevd.sock" };

static const char *chosen_socket(const struct ctl *ctl)
{
	const char *path = ctl && ctl->socket ? ctl->socket : getenv("USEREV_SOCKET");

	return path && path[0] ? path : NULL;
}

static const char *find_listener(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (somebody_listens(usual[i]))
			return usual[i];
	return NULL;
}

/* As the library does: the first one that takes us, else the first one that is there, else the one that containers have. */
const char *greet_socket(const struct ctl *ctl)
{
	const char *path = chosen_socket(ctl);

	if (!path)
		path = find_listener();
	if (path)
		return path;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (access(usual[i], F_OK) == 0)
			return usual[i];
	return usual[0];
}

const char *greet_found(void)
{
	const char *path = chosen_socket(NULL);

	if (path)
		return somebody_listens(path) ? path : NULL;
	return find_listener();
}

const char *greet_advice(const struct ctl *ctl)
{
	if (chosen_socket(ctl))
		return "Start it, or give another path: --socket or USEREV_SOCKET.";
	if (access("/run/userevd/client", F_OK) == 0)
		return "Start it: 'systemctl start userevd', or 'userevd --foreground'; in a container, on its host.";
	return "Start one: 'systemctl start userevd', or 'userevd --foreground'. In a container, mount the directory of the "
	       "host's: '-v /run/userevd/client:/run/userevd/client:ro', see userevd-containers(7).";
}

/* One request with its answer, whose message points into `buffer`. */
static int ask(int fd, struct packet *packet, struct message *ret, struct fdset *ret_fds, struct greeting *greeting)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	struct text sentence = text_make(greeting->sentence, sizeof(greeting->sentence));
	struct string_item item;
	ssize_t size;
	int r;

	encode_end(packet);
	r = transport_send(fd, packet->data, packet->size, NULL, 0, 0);
	/* The daemon may have refused us already, and cut the connection: then its reason waits to be read. */
	if (r < 0 && r != -EPIPE)
		return r;
	r = poll(&wanted, 1, PATIENCE_MS);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	size = transport_receive_fds(fd, packet->data, packet->capacity, ret_fds, 0);
	if (size <= 0)
		return size < 0 ? (int)size : -ECONNRESET;
	if (decode_message(packet->data, (size_t)size, ret) != 0)
		return -EBADMSG;
	if (ret->kind != KIND_ERROR)
		return 0;
	if (decode_error(ret->body, &greeting->refusal, &item) != 0)
		return -EBADMSG;
	text_safe(&sentence, item.text, item.length);
	return -EREMOTEIO;
}

static int hello(int fd, struct packet *packet, struct greeting *greeting)
{
	const struct wire_hello hello = { 0 };
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct message message = { 0 };
	struct string_item tenant;
	int r;

	encode_begin(packet, KIND_HELLO, 1, 0, NULL, 0);
	encode_hello(packet, &hello);
	r = ask(fd, packet, &message, &fds, greeting);
	if (r < 0)
		return r;
	if (message.kind != KIND_WELCOME || decode_welcome(message.body, &greeting->welcome, &tenant) != 0)
		return -EBADMSG;
	snprintf(greeting->tenant, sizeof(greeting->tenant), "%.*s", (int)tenant.length, tenant.text);
	greeting->page = fdset_steal(&fds, 0);
	return 0;
}

static int query(int fd, struct packet *packet, struct greeting *greeting)
{
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct message message = { 0 };
	int r;

	encode_begin(packet, KIND_QUERY, 2, 0, NULL, 0);
	r = ask(fd, packet, &message, &fds, greeting);
	if (r < 0)
		return r;
	if (message.kind != KIND_ACCOUNT || decode_account(message.body, &greeting->account) != 0)
		return -EBADMSG;
	return 0;
}

int greet(int fd, struct greeting *ret)
{
	static uint8_t buffer[WIRE_PACKET_MAX];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	int r;

	*ret = (struct greeting){ .page = -1 };
	r = hello(fd, &packet, ret);
	if (r == 0)
		r = query(fd, &packet, ret);
	return r;
}

void greeting_deinit(struct greeting *greeting)
{
	greeting->page = fd_close(greeting->page);
}
