/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <grp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/text.h"
#include "protocol/transport.h"

int ctl_connect(const char *path)
{
	/* A daemon that hangs has a queue that is full sooner or later: connect() would wait for ever. */
	const struct timeval patience = { .tv_sec = CONTROL_PATIENCE_MS / 1000 };
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t length;
	int r;

	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, length) < 0)
		return -errno;
	return fd_steal(&fd);
}

int control_open(const char *path, struct control **ret)
{
	_cleanup_(fd_closep) int fd = ctl_connect(path);
	struct control *control;

	if (fd < 0)
		return fd;
	control = calloc(1, sizeof(*control));
	if (!control)
		return -ENOMEM;
	control->path = path;
	control->fd = fd_steal(&fd);
	*ret = control;
	return 0;
}

struct control *control_free(struct control *control)
{
	if (control)
		fd_close(control->fd);
	free(control);
	return NULL;
}

static int send_request(struct control *control, struct packet *packet)
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
	struct packet packet = packet_make(control->buffer, sizeof(control->buffer));

	encode_begin(&packet, kind, ++control->serial, 0, NULL, 0);
	return send_request(control, &packet);
}

int control_ask_strings(struct control *control, uint16_t kind, uint16_t flags, const char *const *strings, size_t n)
{
	struct packet packet = packet_make(control->buffer, sizeof(control->buffer));
	size_t mark;

	if (n > WIRE_BATCH_MAX)
		return -E2BIG;
	encode_begin(&packet, kind, ++control->serial, 0, NULL, 0);
	mark = encode_strings(&packet, flags);
	for (size_t i = 0; i < n; i++)
		encode_string(&packet, 0, strings[i], strlen(strings[i]));
	encode_count(&packet, mark, (uint16_t)n);
	return send_request(control, &packet);
}

static int wait_readable(int fd, int timeout)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	int n = poll(&wanted, 1, timeout);

	if (n < 0)
		return -errno;
	return n == 0 ? -ETIMEDOUT : 0;
}

static int take_refusal(struct control *control, struct cursor body)
{
	struct text sentence = text_make(control->sentence, sizeof(control->sentence));
	struct string_item item;

	if (decode_error(body, &control->refusal, &item) != 0)
		return -EBADMSG;
	text_safe(&sentence, item.text, item.length);
	return -EREMOTEIO;
}

int control_receive(struct control *control, int timeout, struct message *ret)
{
	struct fdset fds;
	struct message message;
	ssize_t size;
	int r;

	r = wait_readable(control->fd, timeout);
	if (r < 0)
		return r;
	size = transport_receive_fds(control->fd, control->buffer, sizeof(control->buffer), &fds, 0);
	if (size <= 0)
		return size < 0 ? (int)size : -ECONNRESET;
	fdset_deinit(&fds);
	if (decode_message(control->buffer, (size_t)size, &message) != 0)
		return -EBADMSG;
	if (message.kind == KIND_REFUSED || message.kind == KIND_ERROR)
		return take_refusal(control, message.body);
	*ret = message;
	return 0;
}

int control_next_row(struct control *control, struct cursor *ret)
{
	struct message message;
	uint16_t count;
	int r;

	while (!rows_next(&control->rows, ret)) {
		if (!control->more)
			return 0;
		r = control_receive(control, CONTROL_PATIENCE_MS, &message);
		if (r < 0)
			return r;
		if (message.kind != KIND_ROWS || decode_rows(message.body, &count, &control->rows) != 0)
			return -EBADMSG;
		control->more = message.flags & WIRE_MORE;
	}
	return 1;
}

int control_ask_row(struct control *control, uint16_t kind, struct cursor *ret)
{
	int r = control_ask(control, kind);

	return r < 0 ? r : control_next_row(control, ret);
}

bool control_nobody(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ECONNREFUSED;
}

/* Who may connect: the group that owns the socket, where that is not root's. */
static void explain_permission(const char *path)
{
	struct stat status;
	const struct group *group = stat(path, &status) == 0 && status.st_gid != 0 ? getgrgid(status.st_gid) : NULL;

	if (group)
		ctl_error("user %u may not use the control socket %s. It is for root and the group '%s': use sudo, or "
			  "join the group.",
			  geteuid(), path, group->gr_name);
	else
		ctl_error("user %u may not use the control socket %s. It is for admins: use sudo, or see which group "
			  "may with 'ls -l'.",
			  geteuid(), path);
}

static int explain_refusal(const struct control *control)
{
	ctl_error("the daemon refused it (%s): %s.", refusal_name(control->refusal), control->sentence);
	return control->refusal == REFUSAL_NOT_PERMITTED ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
}

/* In a container there should be a socket for programs, and none for admins. */
static void explain_absence(const char *path)
{
	const char *found = greet_found();

	if (found)
		ctl_error(
			"there is no control socket at %s, though programs find a daemon at %s. In a container that is how "
			"it should be: run this on the host. There, 'systemctl start userevd-control.socket', or give "
			"--control-socket=PATH.",
			path, found);
	else
		ctl_error(
			"there is no daemon: no socket at %s. Start one with 'systemctl start userevd' or "
			"'userevd --foreground', or give --control-socket=PATH. In a container, run this on the host.",
			path);
}

int control_explain(const char *path, int error, const struct control *control)
{
	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
		explain_absence(path);
		return EXIT_NO_DAEMON;
	case -ECONNREFUSED:
		ctl_error("there is no daemon: the socket %s is there, but nobody listens. Start it again with "
			  "'systemctl restart userevd' or 'userevd --foreground'.",
			  path);
		return EXIT_NO_DAEMON;
	case -EACCES:
	case -EPERM:
		explain_permission(path);
		return EXIT_NOT_PERMITTED;
	case -EPROTOTYPE:
		ctl_error("%s is not userevd's control socket. Give the right one with --control-socket=PATH.", path);
		return EXIT_NO_DAEMON;
	case -ENAMETOOLONG:
		ctl_error("the path of the control socket must have from 1 to 107 bytes. Give --control-socket=PATH.");
		return EXIT_USAGE;
	case -EREMOTEIO:
		return control ? explain_refusal(control) : EXIT_REFUSED;
	case -ETIMEDOUT:
	case -EAGAIN:
		ctl_error("the daemon at %s does not answer. Look what it does: 'journalctl -u userevd', "
			  "'systemctl status userevd'.",
			  path);
		return EXIT_REFUSED;
	case -ECONNRESET:
	case -EPIPE:
		ctl_error("the daemon at %s ended the connection. Look why: 'journalctl -u userevd'.", path);
		return EXIT_NO_DAEMON;
	case -EBADMSG:
		ctl_error("what answers at %s does not speak this protocol. Is it userevd, and of this version (%s)?",
			  path, VERSION);
		return EXIT_REFUSED;
	case -E2BIG:
		ctl_error("too many names at once. Give at most %d, or use patterns: 'NAME*'.", WIRE_BATCH_MAX);
		return EXIT_USAGE;
	default:
		ctl_error("trouble with %s: %s.", path, strerror(-error));
		return EXIT_REFUSED;
	}
}

int ctl_open_control(struct ctl *ctl, struct control **ret)
{
	int r = control_open(ctl->control_socket, ret);

	return r < 0 ? control_explain(ctl->control_socket, r, NULL) : EXIT_DONE;
}
