/* SPDX-License-Identifier: GPL-2.0-or-later */

/* TRACE and TAIL, with the embedded backend: switch events, and read their records. With the others TRACE tells who has switched them. */

#include <fnmatch.h>
#include <time.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/daemon.h"
#include "daemon/registry/event.h"
#include "kernel/embedded/tracer.h"
#include "protocol/row.h"

struct patterns {
	uint16_t flags;
	size_t n;
	const char *at[WIRE_BATCH_MAX]; /* valid until the next request */
};

/* Of TRACE and TAIL, whose items have no flags. 0 or REFUSAL_BAD_PACKET. */
static int decode_patterns(struct cursor body, uint16_t known_flags, struct patterns *ret)
{
	static char copies[WIRE_PACKET_MAX];
	char *to = copies;
	struct string_item item;
	struct strings strings;

	if (decode_strings(body, &strings) != 0 || strings.flags & ~known_flags)
		return REFUSAL_BAD_PACKET;
	*ret = (struct patterns){ .flags = strings.flags };
	while (strings_next(&strings, &item)) {
		if (item.flags != 0)
			return REFUSAL_BAD_PACKET;
		ret->at[ret->n++] = to;
		to = mempcpy(to, item.text, item.length);
		*to++ = '\0';
	}
	return 0;
}

/* Remembers the admin with each event that programs hold: their number, or -ENOMEM. */
static int trace_note(struct client *client, const struct patterns *patterns)
{
	struct registry *registry = client->holder.registry;
	struct entry_enabled admin = { .pid = client->holder.known.pid, .uid = client->holder.known.uid };
	struct timespec now;
	int n = 0, r = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	admin.time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	string_copy(admin.comm, sizeof(admin.comm), client_comm(client));
	for (struct event *event = event_after(registry, 0); event; event = event_after(registry, event->number)) {
		char name[DESCRIPTION_NAME_MAX + 1];
		size_t i = 0;

		string_copy(name, MIN(sizeof(name), event->name_length + 1U), event->description);
		while (i < patterns->n && fnmatch(patterns->at[i], name, 0) != 0)
			i++;
		if (i == patterns->n)
			continue;
		r = event_set_enabled_by(registry, event, patterns->flags & TRACE_ON ? &admin : NULL);
		if (r < 0)
			return r;
		n++;
	}
	return n;
}

/* TRACE: one row, how many events the patterns matched. With DONE the admin has switched them in tracefs. */
int handle_trace(struct client *client, const struct message *message)
{
	struct packet *packet;
	struct patterns patterns;
	uint64_t matched = 0;
	size_t list, row;
	bool done;
	int noted;

	if (decode_patterns(message->body, TRACE_ON | TRACE_DONE, &patterns) != 0)
		return REFUSAL_BAD_PACKET;
	done = patterns.flags & TRACE_DONE;
	if (!done && !control_has_tracer(client, message->serial))
		return 0;
	for (size_t i = 0; i < patterns.n && !done; i++)
		matched += tracer_switch(client->holder.registry->kernel->tracer, patterns.at[i],
					 patterns.flags & TRACE_ON);
	noted = trace_note(client, &patterns);
	if (noted < 0)
		return noted;
	matched = done ? (uint64_t)noted : matched;
	if (matched == 0) {
		control_refuse(client, message->serial, REFUSAL_NO_SUCH_EVENT, "no event matches");
		return 0;
	}
	packet = client_answer(client, KIND_ROWS, message->serial, 0);
	list = encode_list(packet, 0);
	row = encode_row_begin(packet);
	row_put_u64(packet, "events", matched);
	encode_row_end(packet, row);
	encode_count(packet, list, 1);
	client_send(client, NULL, 0);
	return 0;
}

/* TAIL: records as they come. */

struct tail_listing {
	struct listing listing;
	struct tracer_session *session; /* NULL: everything that is on */
	struct ring_reader reader;
	uint64_t end; /* with TAIL_NO_FOLLOW, the position at which the listing ends */
	bool follow;
};

static bool tail_wants(const struct tail_listing *tail, const void *row, size_t size)
{
	struct row_field event;
	const uint8_t *end;

	if (!tail->session)
		return true;
	if (!row_find(cursor_make(row, size), "event", &event))
		return false;
	/* A description begins with the name. */
	end = memchr(event.value, ' ', event.length);
	return tracer_session_wants(tail->session, (const char *)event.value,
				    end ? (size_t)(end - event.value) : event.length);
}

static int tail_next(struct listing *listing, struct packet *packet)
{
	struct tail_listing *tail = container_of(listing, struct tail_listing, listing);
	const struct ring *ring = &listing->client->holder.registry->kernel->tracer->ring;
	const void *row;
	size_t size;

	/* Records that newer ones have pushed out of the ring are counted in a row of their own. */
	if (tail->reader.position < ring->oldest) {
		row_put_u64(packet, "missed", ring->oldest - tail->reader.position);
		tail->reader.position = ring->oldest;
		return LISTING_ROW;
	}
	while (tail->follow || tail->reader.position < tail->end) {
		row = ring_read(ring, &tail->reader, &size);
		if (!row)
			return tail->follow ? LISTING_IDLE : LISTING_END;
		if (tail_wants(tail, row, size)) {
			packet_put(packet, row, size);
			return LISTING_ROW;
		}
	}
	return LISTING_END;
}

static void tail_deinit(struct listing *listing)
{
	struct tail_listing *tail = container_of(listing, struct tail_listing, listing);

	tracer_session_free(tail->session);
}

static const struct listing_kind tail_kind = {
	.size = sizeof(struct tail_listing),
	.next = tail_next,
	.deinit = tail_deinit,
	.at_once = true,
};

int handle_tail(struct client *client, const struct message *message)
{
	struct tracer *tracer = client->holder.registry->kernel->tracer;
	struct tail_listing *tail;
	struct patterns patterns;

	if (decode_patterns(message->body, TAIL_PAST | TAIL_NO_FOLLOW, &patterns) != 0)
		return REFUSAL_BAD_PACKET;
	tail = control_has_tracer(client, message->serial) ? listing_new(client, message->serial, &tail_kind) : NULL;
	if (!tail)
		return 0;
	if (patterns.n > 0 && tracer_session_new(tracer, patterns.at, patterns.n, &tail->session) < 0)
		return -ENOMEM;
	tail->end = tracer->ring.next;
	tail->reader.position = patterns.flags & TAIL_PAST ? tracer->ring.oldest : tail->end;
	tail->follow = !(patterns.flags & TAIL_NO_FOLLOW);
	listing_continue(client);
	return 0;
}

int handle_sync(struct client *client, const struct message *message)
{
	struct daemon *daemon = daemon_of(client);

	if (daemon->registry.kernel->tracer)
		tracer_drain(daemon->registry.kernel->tracer);
	client->syncing = true;
	client->sync_serial = message->serial;
	listing_continue(client);
	return 0;
}

void tails_continue(struct daemon *daemon)
{
	const struct tracer *tracer = daemon->registry.kernel->tracer;

	if (!tracer || tracer->ring.next == daemon->records_told)
		return;
	daemon->records_told = tracer->ring.next;
	listings_continue(daemon, &tail_kind);
}
