/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/transport.h"

#include <sys/un.h>

bool transport_fds_are_refused;

int transport_send(int socket, const void *packet, size_t size, const int *fds, size_t n, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
	struct iovec iov = { .iov_base = (void *)(uintptr_t)packet, .iov_len = size };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n > WIRE_FDS_MAX)
		return -EINVAL;
	if (n > 0) {
		struct cmsghdr *header = (struct cmsghdr *)(void *)control;

		memset(control, 0, CMSG_SPACE(sizeof(int) * n));
		*header = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int) * n),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n);
	}

	do
		sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* Fills in `ret`, which points to `iov` and `control`. */
static ssize_t receive_message(int socket, struct iovec *iov, void *control, size_t room, int flags, struct msghdr *ret)
{
	ssize_t size;

	do {
		*ret = (struct msghdr){
			.msg_iov = iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room
		};
		size = recvmsg(socket, ret, flags | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	return size < 0 ? -errno : size;
}

static void take_fds(struct msghdr *message, struct fdset *set, bool *overflow)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + at, sizeof(fd));
			if (fdset_take(set, fd) < 0) {
				fd_close(fd);
				*overflow = true;
			}
		}
	}
}

int transport_refuse_fds(int socket)
{
	if (setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int)) == 0)
		transport_fds_are_refused = true;
	else if (errno != ENOPROTOOPT)
		return -errno;
	return 0;
}

/* Whether fds were attached. Closes those for which there was room after all. */
static bool has_fds(struct msghdr *message)
{
	struct fdset fds = { 0 };
	bool overflow = false, any;

	take_fds(message, &fds, &overflow);
	any = overflow || fds.count > 0 || message->msg_flags & MSG_CTRUNC;
	fdset_deinit(&fds);
	return any;
}

int transport_look(int socket, size_t room)
{
	_Alignas(struct cmsghdr) char control[128];
	struct msghdr message;
	ssize_t size = receive_message(socket, &(struct iovec){ 0 }, control, MIN(room, sizeof(control)),
				       MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC, &message);

	if (size < 0)
		return (int)size;
	if (has_fds(&message))
		return -EPROTO;
	/* An empty packet comes with its sender, the end without. */
	return size > 0 || message.msg_controllen > 0;
}

static ssize_t receive_from(int socket, void *packet, size_t size, struct transport_from *ret, int flags)
{
	/* Room for the sender's credentials, and not for a single fd. */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = { .iov_base = packet, .iov_len = size };
	struct msghdr message;
	ssize_t received = receive_message(socket, &iov, control, sizeof(control), MSG_DONTWAIT | flags, &message);

	if (received < 0)
		return received;
	*ret = (struct transport_from){ 0 };
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
		struct ucred credentials;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS ||
		    header->cmsg_len != CMSG_LEN(sizeof(credentials)))
			continue;
		memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
		*ret = (struct transport_from){ .known = true, .pid = credentials.pid, .uid = credentials.uid };
	}
	/* The credentials leave no room for an fd: the kernel sets MSG_CTRUNC if there was one. */
	if ((!ret->known || message.msg_flags & MSG_CTRUNC) && has_fds(&message))
		return -EPROTO;
	return message.msg_flags & MSG_TRUNC ? -EMSGSIZE : received;
}

ssize_t transport_receive(int socket, void *packet, size_t size, struct transport_from *ret)
{
	int next = transport_fds_are_refused ? 1 : transport_look(socket, CMSG_SPACE(sizeof(struct ucred)));

	/* Without a second call: a packet could arrive in between. */
	if (next == 0)
		*ret = (struct transport_from){ 0 };
	return next <= 0 ? next : receive_from(socket, packet, size, ret, 0);
}

ssize_t transport_peek(int socket, void *packet, size_t size, struct transport_from *ret)
{
	return receive_from(socket, packet, size, ret, MSG_PEEK);
}

int transport_drop(int socket)
{
	return recv(socket, NULL, 0, MSG_DONTWAIT) < 0 && errno != EAGAIN ? -errno : 0;
}

ssize_t transport_receive_first_fds(int socket, void *packet, size_t size, struct fdset *ret, bool *ret_lost, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
	struct iovec iov = { .iov_base = packet, .iov_len = size };
	struct msghdr message;
	bool overflow = false, lost;
	ssize_t received = receive_message(socket, &iov, control, sizeof(control), flags, &message);

	if (received < 0)
		return received;

	*ret = (struct fdset){ 0 };
	take_fds(&message, ret, &overflow);
	/* The kernel stops at the first fd for which there is no room, or that a security module refuses, and does not tell which. */
	lost = message.msg_flags & MSG_CTRUNC;
	if (overflow || (lost && ret->count == WIRE_FDS_MAX) || message.msg_flags & MSG_TRUNC) {
		fdset_deinit(ret);
		return message.msg_flags & MSG_TRUNC ? -EMSGSIZE : -EPROTO;
	}
	*ret_lost = lost;
	return received;
}

ssize_t transport_receive_fds(int socket, void *packet, size_t size, struct fdset *ret, int flags)
{
	bool lost;
	ssize_t received = transport_receive_first_fds(socket, packet, size, ret, &lost, flags);

	if (received < 0 || !lost)
		return received;
	fdset_deinit(ret);
	return -EPROTO;
}

int transport_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_length)
{
	size_t length = strlen(path);

	if (length == 0 || length >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, path, length + 1);
	*ret_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
	return 0;
}
