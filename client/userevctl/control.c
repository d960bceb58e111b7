/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/control.h"

#include <poll.h>
#include <sys/un.h>

#include "client/userevctl/ctl.h"
#include "protocol/transport.h"

int control_open(const char *path, struct control **ret)
{
	/* The queue of a daemon that hangs fills up, and then connect() would block without a timeout. */
	const struct timeval timeout = { .tv_sec = CONTROL_TIMEOUT_MS / 1000 };
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	struct control *control;
	socklen_t length;
	int r;

	*ret = NULL;
	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, length) < 0)
		return -errno;
	control = must(calloc(1, sizeof(*control)));
	control->fd = fd_steal(&fd);
	control->timeout = CONTROL_TIMEOUT_MS;
	*ret = control;
	return 0;
}

struct control *control_free(struct control *control)
{
	if (control) {
		fdset_deinit(&control->fds);
		fd_close(control->fd);
	}
	free(control);
	return NULL;
}

struct packet control_begin(struct control *control, uint16_t kind)
{
	struct packet packet = packet_make(control->buffer, sizeof(control->buffer));

	encode_begin(&packet, kind, ++control->serial, 0, NULL, 0);
	return packet;
}

int control_send(struct control *control, struct packet *packet)
{
	encode_end(packet);
	if (packet->failed)
		return -E2BIG;
	control->rows = (struct cursor){ 0 };
	control->more = true;
	return transport_send(control->fd, packet->data, packet->size, NULL, 0, 0);
}

int control_ask(struct control *control, uint16_t kind)
{
	struct packet packet = control_begin(control, kind);

	return control_send(control, &packet);
}

int control_request(const char *path, uint16_t kind, uint16_t flags, const char *const *strings, size_t n,
		    struct control **ret)
{
	int r = control_open(path, ret);
	struct packet packet;
	size_t mark;

	if (!*ret)
		return r < 0 ? r : -ENOTCONN;
	if (!strings)
		return control_ask(*ret, kind);
	if (n > WIRE_BATCH_MAX)
		return -E2BIG;
	packet = control_begin(*ret, kind);
	mark = encode_list(&packet, flags);
	for (size_t i = 0; i < n; i++)
		encode_string(&packet, 0, strings[i], strlen(strings[i]));
	encode_count(&packet, mark, (uint16_t)n);
	return control_send(*ret, &packet);
}

struct control_refusal control_refusal;

int control_receive(struct control *control, struct message *ret)
{
	struct text sentence = text_make(control_refusal.sentence, sizeof(control_refusal.sentence));
	struct pollfd readable = { .fd = control->fd, .events = POLLIN };
	struct string_item item;
	struct message message;
	ssize_t size;
	int n;

	fdset_deinit(&control->fds);
	n = poll(&readable, 1, control->timeout);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	size = transport_receive_fds(control->fd, control->buffer, sizeof(control->buffer), &control->fds, 0);
	if (size <= 0)
		return size < 0 ? (int)size : -ECONNRESET;
	if (decode_message(control->buffer, (size_t)size, &message) != 0)
		return -EBADMSG;
	if (message.kind != KIND_REFUSED && message.kind != KIND_ERROR) {
		*ret = message;
		return 0;
	}
	if (decode_error(message.body, &control_refusal.number, &item) != 0)
		return -EBADMSG;
	text_safe(&sentence, item.text, item.length);
	return -EREMOTEIO;
}

int control_next_packet(struct control *control)
{
	struct message message = { 0 };
	uint16_t count;
	int r = control_receive(control, &message);

	if (r < 0)
		return r;
	control->more = message.kind == KIND_ROWS && message.flags & WIRE_MORE;
	if (message.kind == KIND_SYNCED)
		return 0;
	return message.kind == KIND_ROWS && decode_rows(message.body, &count, &control->rows) == 0 ? 0 : -EBADMSG;
}

int control_next_row(struct control *control, struct cursor *ret)
{
	while (!rows_next(&control->rows, ret)) {
		int r;

		if (!control->more)
			return 0;
		r = control_next_packet(control);
		if (r < 0)
			return r;
	}
	return 1;
}

struct cursor row_copy(struct cursor row)
{
	uint8_t *copy = must(malloc(row.left + 1));

	if (row.left > 0)
		memcpy(copy, row.at, row.left);
	return cursor_make(copy, row.left);
}

struct cursor row_rows(struct cursor row, const char *key)
{
	struct row_field field;

	if (row_find(row, key, &field) && field.type == ROW_ROWS)
		return cursor_make(field.value, field.length);
	return (struct cursor){ 0 };
}

int control_ask_status(const char *path, int timeout, struct cursor *ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r = control_request(path, KIND_STATUS, 0, NULL, 0, &control);

	if (control)
		control->timeout = timeout;
	if (r == 0)
		r = control_next_row(control, &row);
	if (r > 0)
		*ret = row_copy(row);
	return r > 0 ? 0 : r < 0 ? r : -EBADMSG;
}

bool control_nobody(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ECONNREFUSED;
}

/* Of errors, the last one of all others. The path stands between `before` and `after`. */
static const struct control_error {
	int error;
	int exit_code;
	const char *before, *after;
} control_errors[] = {
	{ -ENOENT, EXIT_NO_DAEMON, "there is no daemon: no socket at ",
	  ". Start one with 'systemctl start userevd' or 'userevd --foreground', or give --control-socket=PATH. In a "
	  "container, run this on the host" },
	{ -ECONNREFUSED, EXIT_NO_DAEMON, "there is no daemon: the socket ",
	  " exists, but nobody listens. Restart it with 'systemctl restart userevd' or 'userevd --foreground'" },
	{ -EACCES, EXIT_NOT_PERMITTED, "this user may not use the control socket ",
	  ". It is for root and for the group of the socket: use sudo, or join the group" },
	{ -EPROTOTYPE, EXIT_NO_DAEMON,
	  "not userevd's control socket: ", ". Give the right one with --control-socket=PATH" },
	{ -ENAMETOOLONG, EXIT_USAGE, "the path of the control socket must have from 1 to 107 bytes: '",
	  "'. Give --control-socket=PATH" },
	{ -ETIMEDOUT, EXIT_REFUSED, "the daemon does not answer at ",
	  ". See 'journalctl -u userevd' and 'systemctl status userevd'" },
	{ -ECONNRESET, EXIT_NO_DAEMON, "the daemon closed the connection to ",
	  ". The reason is in 'journalctl -u userevd'" },
	{ -EBADMSG, EXIT_REFUSED, "the answer is not in userevd's protocol: ",
	  ". It is perhaps not userevd, or not of this version (" VERSION ")" },
	{ -E2BIG, EXIT_USAGE, "too many names for one request to ", ". Use patterns: 'NAME*'" },
	{ 0, EXIT_REFUSED, "trouble with ", ": " },
};

int control_explain(const char *path, int error)
{
	const struct control_error *row = control_errors;
	const char *clients;

	if (error == -EREMOTEIO) {
		ctl_error("the daemon refused the request (%s): %s.", refusal_name(control_refusal.number),
			  control_refusal.sentence);
		return control_refusal.number == REFUSAL_NOT_PERMITTED ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
	}
	/* By a send, where a receive would have had another error. */
	error = error == -EPIPE ? -ECONNRESET : error == -EAGAIN ? -ETIMEDOUT : error;
	error = error == -ENOTDIR ? -ENOENT : error == -EPERM ? -EACCES : error;
	while (row->error != 0 && row->error != error)
		row++;
	ctl_error("%s%s%s%s.", row->before, path, row->after, row->error == 0 ? strerror(-error) : "");
	clients = error == -ENOENT ? clients_socket_path(NULL) : NULL;
	if (clients && clients_socket_listens(clients))
		ctl_note("Programs find a daemon at %s. This is normal in a container; on a host, 'systemctl start "
			 "userevd-control.socket'.",
			 clients);
	return row->exit_code;
}
