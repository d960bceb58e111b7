/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The whole attack surface on one screen: each request, its socket, its time, and its handler. */

#include "daemon/dispatch.h"

#include "daemon/admin/control.h"
#include "daemon/admin/explain.h"
#include "daemon/admin/metrics.h"
#include "daemon/admin/reload.h"
#include "daemon/admin/tail.h"
#include "daemon/connection/client.h"
#include "daemon/connection/connections.h"
#include "daemon/requests/hello.h"
#include "daemon/requests/query.h"
#include "daemon/requests/register.h"
#include "daemon/requests/release.h"
#include "daemon/requests/watch.h"

enum { BEFORE_HELLO = 1, AFTER_HELLO = 2, ANY_TIME = BEFORE_HELLO | AFTER_HELLO };

/*
 * A handler answers by itself. It returns 0, or a positive enum refusal where the packet breaks the protocol: then the
 * connection ends.
 */
struct request {
	uint16_t kind;
	const char *name;
	enum client_socket socket;
	int when;
	int (*handle)(struct client *, const struct message *);
};

static const struct request requests[] = {
	{ KIND_HELLO, "HELLO", SOCKET_CLIENTS, BEFORE_HELLO, handle_hello },
	{ KIND_REGISTER, "REGISTER", SOCKET_CLIENTS, AFTER_HELLO, handle_register },
	{ KIND_RELEASE, "RELEASE", SOCKET_CLIENTS, AFTER_HELLO, handle_release },
	{ KIND_QUERY, "QUERY", SOCKET_CLIENTS, AFTER_HELLO, handle_query },
	{ KIND_WATCH, "WATCH", SOCKET_CLIENTS, AFTER_HELLO, handle_watch },
	{ KIND_LOST, "LOST", SOCKET_CLIENTS, AFTER_HELLO, handle_lost },
	{ KIND_STATUS, "STATUS", SOCKET_CONTROL, ANY_TIME, handle_status },
	{ KIND_EVENTS, "EVENTS", SOCKET_CONTROL, ANY_TIME, handle_events },
	{ KIND_TENANTS, "TENANTS", SOCKET_CONTROL, ANY_TIME, handle_tenants },
	{ KIND_TRACE, "TRACE", SOCKET_CONTROL, ANY_TIME, handle_trace },
	{ KIND_TAIL, "TAIL", SOCKET_CONTROL, ANY_TIME, handle_tail },
	{ KIND_SYNC, "SYNC", SOCKET_CONTROL, ANY_TIME, handle_sync },
	{ KIND_RELOAD, "RELOAD", SOCKET_CONTROL, ANY_TIME, handle_reload },
	{ KIND_EXPLAIN, "EXPLAIN", SOCKET_CONTROL, ANY_TIME, handle_explain },
	{ KIND_METRICS, "METRICS", SOCKET_CONTROL, ANY_TIME, handle_metrics },
};

static const struct request *request_find(uint16_t kind, enum client_socket socket)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		if (requests[i].kind == kind && requests[i].socket == socket)
			return &requests[i];
	return NULL;
}

/*
 * Another process of the same user may send: a fork. Another user may not: the connection was passed on. But a set-user-ID
 * program connects as its effective user and sends as its real one, which its first packet shows.
 */
static bool may_speak(struct client *client, const struct transport_from *from)
{
	if (!from->known)
		return false;
	if (!client->holder.greeted && from->pid == client->holder.pid)
		client->holder.real_uid = from->uid;
	return from->uid == client->holder.uid || from->uid == client->holder.real_uid;
}

/* The one before this daemon may have welcomed it, and not have lived to take the HELLO out of the socket. */
static bool is_in_order(const struct client *client, const struct request *request)
{
	return request->when & (client->holder.greeted ? AFTER_HELLO : BEFORE_HELLO) ||
	       (client->repeats && request->kind == KIND_HELLO);
}

void dispatch(struct client *client, const void *packet, size_t size, const struct transport_from *from)
{
	const struct request *request;
	struct message message;
	int r;

	if (!may_speak(client, from)) {
		client_disconnect(client, 0, REFUSAL_WRONG_USER, "this connection is user %u's; open one of your own",
				  client->holder.uid);
		return;
	}
	r = decode_message(packet, size, &message);
	if (r != 0 || message.flags != 0 || message.streams != 0) {
		client_disconnect(client, 0, REFUSAL_BAD_PACKET,
				  "not a packet of this protocol; see userevd-protocol(7)");
		return;
	}
	request = request_find(message.kind, client->socket);
	if (!request) {
		client_disconnect(client, message.serial, REFUSAL_UNKNOWN_KIND, "no request of kind %u on this socket",
				  message.kind);
		return;
	}
	if (!is_in_order(client, request)) {
		client_disconnect(client, message.serial, REFUSAL_HELLO_FIRST,
				  client->holder.greeted ? "%s a second time" : "%s before HELLO", request->name);
		return;
	}
	r = request->handle(client, &message);
	if (r > 0)
		client_disconnect(client, message.serial, (uint32_t)r, "malformed %s", request->name);
}
