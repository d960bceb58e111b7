/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The whole attack surface on one screen: each request, its socket, its time, and its handler. */

#include "daemon/dispatch.h"

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/process/clock.h"
#include "daemon/requests/requests.h"

enum { BEFORE_HELLO = 1, AFTER_HELLO = 2, ANY_TIME = BEFORE_HELLO | AFTER_HELLO };
enum { STRINGS = sizeof(struct wire_strings) };

/*
 * The body of a request has `size` bytes, or where it has a list at least so many. No request takes fds: the transport refuses
 * them. A handler answers by itself. It returns 0; a positive enum refusal where the packet breaks the protocol; or a negative errno
 * where there is no memory: then the connection ends.
 */
struct request {
	uint16_t kind;
	const char *name;
	size_t size;
	bool has_list;
	enum client_socket socket;
	int when;
	int (*handle)(struct client *, const struct message *);
	const struct listing_kind *listing; /* instead of a handler */
};

static const struct request requests[] = {
	{ KIND_HELLO, "HELLO", sizeof(struct wire_hello), false, SOCKET_CLIENTS, BEFORE_HELLO, handle_hello, NULL },
	{ KIND_REGISTER, "REGISTER", STRINGS, true, SOCKET_CLIENTS, AFTER_HELLO, handle_register, NULL },
	{ KIND_RELEASE, "RELEASE", STRINGS, true, SOCKET_CLIENTS, AFTER_HELLO, handle_release, NULL },
	{ KIND_QUERY, "QUERY", 0, false, SOCKET_CLIENTS, AFTER_HELLO, handle_query, NULL },
	{ KIND_WATCH, "WATCH", sizeof(struct wire_watch), false, SOCKET_CLIENTS, AFTER_HELLO, handle_watch, NULL },
	{ KIND_LOST, "LOST", sizeof(struct wire_lost), false, SOCKET_CLIENTS, AFTER_HELLO, handle_lost, NULL },
	{ KIND_TRACE_OWN, "TRACE_OWN", STRINGS, true, SOCKET_CLIENTS, AFTER_HELLO, handle_trace_own, NULL },
	{ KIND_NATIVE, "NATIVE", 0, false, SOCKET_CLIENTS, AFTER_HELLO, handle_native, NULL },
	{ KIND_STATUS, "STATUS", 0, false, SOCKET_CONTROL, ANY_TIME, NULL, &status_listing },
	{ KIND_EVENTS, "EVENTS", 0, false, SOCKET_CONTROL, ANY_TIME, handle_events, NULL },
	{ KIND_TENANTS, "TENANTS", 0, false, SOCKET_CONTROL, ANY_TIME, NULL, &tenants_listing },
	{ KIND_TRACE, "TRACE", STRINGS, true, SOCKET_CONTROL, ANY_TIME, handle_trace, NULL },
	{ KIND_TAIL, "TAIL", STRINGS, true, SOCKET_CONTROL, ANY_TIME, handle_tail, NULL },
	{ KIND_SYNC, "SYNC", 0, false, SOCKET_CONTROL, ANY_TIME, handle_sync, NULL },
	{ KIND_RELOAD, "RELOAD", 0, false, SOCKET_CONTROL, ANY_TIME, handle_reload, NULL },
	{ KIND_EXPLAIN, "EXPLAIN", STRINGS, true, SOCKET_CONTROL, ANY_TIME, handle_explain, NULL },
	{ KIND_DELETE, "DELETE", STRINGS, true, SOCKET_CONTROL, ANY_TIME, handle_delete, NULL },
	{ KIND_SILENCE, "SILENCE", STRINGS, true, SOCKET_CONTROL, ANY_TIME, handle_silence, NULL },
	{ KIND_SILENCES, "SILENCES", 0, false, SOCKET_CONTROL, ANY_TIME, NULL, &silences_listing },
	{ KIND_METRICS, "METRICS", 0, false, SOCKET_CONTROL, ANY_TIME, NULL, &metrics_listing },
};

_Static_assert(ARRAY_SIZE(requests) <= DURATION_KINDS, "a histogram for each");

/*
 * Another process of the same user may send: a fork. Another user may not: the connection was passed on. But a set-user-ID
 * program connects as its effective user and sends as its real one, which its first packet shows.
 */
static bool may_speak(struct client *client, const struct transport_from *from)
{
	if (!from->known)
		return false;
	if (!client->holder.known.greeted && from->pid == client->holder.known.pid)
		client->holder.known.real_uid = from->uid;
	return from->uid == client->holder.known.uid || from->uid == client->holder.known.real_uid;
}

void dispatch(struct client *client, const void *packet, size_t size, const struct transport_from *from)
{
	const struct request *request = requests, *end = requests + ARRAY_SIZE(requests);
	struct message message;
	int r;

	if (!may_speak(client, from)) {
		client_disconnect(client, 0, REFUSAL_WRONG_USER, "this connection is user %u's; open one of your own",
				  client->holder.known.uid);
		return;
	}
	r = decode_message(packet, size, &message);
	if (r != 0 || message.flags != 0 || message.streams != 0) {
		client_disconnect(client, 0, REFUSAL_BAD_PACKET,
				  "not a packet of this protocol; see userevd-protocol(7)");
		return;
	}
	while (request < end && (request->kind != message.kind || request->socket != client->socket))
		request++;
	if (request == end) {
		client_disconnect(client, message.serial, REFUSAL_UNKNOWN_KIND, "no request of kind %u on this socket",
				  message.kind);
		return;
	}
	if (!(request->when & (client->holder.known.greeted ? AFTER_HELLO : BEFORE_HELLO))) {
		client_disconnect(client, message.serial, REFUSAL_HELLO_FIRST,
				  client->holder.known.greeted ? "%s a second time" : "%s before HELLO", request->name);
		return;
	}
	client->request = (unsigned)(request - requests);
	client->asked = clock_now();
	client->connections->durations[client->request].request = request->name;
	if (message.body.left < request->size || (message.body.left > request->size && !request->has_list))
		r = REFUSAL_BAD_PACKET;
	else
		r = request->listing ? listing_handle(client, &message, request->listing)
				     : request->handle(client, &message);
	if (r > 0)
		client_disconnect(client, message.serial, (uint32_t)r, "malformed %s", request->name);
	if (r < 0)
		client_disconnect(client, message.serial, REFUSAL_TROUBLE,
				  "the daemon is out of memory; try again later");
}
