/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Packets of all kinds, half of them spoilt, some with fds, at any moment; the answers are read or not. */

#include "tests/integration/actor.h"
#include "tests/soak/programs.h"

enum { PACKETS = 32, NAMES = 64, PAUSE_US = 4000, SPOILT_BYTES = 8 };

static uint8_t buffer[WIRE_PACKET_MAX];

static void put_names(struct packet *packet, struct dice *dice)
{
	unsigned n = any(dice, WIRE_BATCH_MAX);
	size_t mark = encode_list(packet, 0);

	for (unsigned i = 0; i < n; i++) {
		char name[64];

		snprintf(name, sizeof(name), "hostile_%u u32 a", any(dice, NAMES));
		encode_string(packet, 0, name, strlen(name));
	}
	encode_count(packet, mark, (uint16_t)n);
}

static void put_bits(struct packet *packet, struct dice *dice)
{
	unsigned n = any(dice, NAMES);
	size_t mark = encode_list(packet, 0);

	for (unsigned i = 0; i < n; i++)
		encode_release_bit(packet, any(dice, WIRE_PAGE_BYTES * 8));
	encode_count(packet, mark, (uint16_t)n);
}

static struct packet make_packet(struct dice *dice)
{
	static const uint16_t kinds[] = { KIND_REGISTER, KIND_REGISTER, KIND_RELEASE, KIND_WATCH,   KIND_QUERY,
					  KIND_LOST,	 KIND_HELLO,	KIND_TRACE,   KIND_CHANGED, KIND_TRACE_OWN };
	struct packet packet = packet_make(buffer, sizeof(buffer));
	uint16_t kind = kinds[any(dice, ARRAY_SIZE(kinds))];

	encode_begin(&packet, kind, any(dice, 8), 0, NULL, 0);
	if (kind == KIND_REGISTER || kind == KIND_TRACE_OWN)
		put_names(&packet, dice);
	else if (kind == KIND_RELEASE)
		put_bits(&packet, dice);
	else if (kind == KIND_WATCH)
		encode_fixed(&packet, KIND_WATCH, &(struct wire_watch){ .on = (uint8_t)any(dice, 2) });
	encode_end(&packet);
	return packet;
}

/* Half of them stay whole: a client that is disconnected at once gets nowhere. */
static size_t spoil(struct packet *packet, struct dice *dice)
{
	switch (any(dice, 6)) {
	case 0:
		for (unsigned n = any(dice, SPOILT_BYTES); n > 0; n--)
			buffer[any(dice, (unsigned)packet->size)] = (uint8_t)any(dice, 256);
		return packet->size;
	case 1:
		return any(dice, (unsigned)packet->size);
	case 2:
		return MIN(packet->size + any(dice, 64), sizeof(buffer));
	default:
		return packet->size;
	}
}

static bool send_one(int socket, struct dice *dice)
{
	struct packet packet = make_packet(dice);
	size_t size = spoil(&packet, dice), n = any(dice, 8) == 0 ? any(dice, WIRE_FDS_MAX) : 0;
	int fds[WIRE_FDS_MAX];

	for (size_t i = 0; i < n; i++)
		fds[i] = i % 2 ? socket : STDERR_FILENO;
	deeds[HOSTILE_PACKETS]++;
	return transport_send(socket, packet.data, size, fds, n, MSG_DONTWAIT) == 0;
}

/* False: disconnected. */
static bool read_one(int socket)
{
	struct fdset fds = { 0 };
	ssize_t size = transport_receive_fds(socket, buffer, sizeof(buffer), &fds, MSG_DONTWAIT);

	fdset_deinit(&fds);
	return size > 0 || size == -EAGAIN;
}

static void talk(int socket, struct dice *dice)
{
	bool reads = any(dice, 4) > 0;

	for (unsigned i = 0; i < PACKETS && send_one(socket, dice); i++) {
		usleep(any(dice, PAUSE_US));
		if (reads && !read_one(socket))
			return;
	}
}

void live_hostilely(struct dice dice, const char *path)
{
	for (;;) {
		int page = -1, socket = actor_hello(path, &page);

		deeds[HOSTILE_CONNECTIONS]++;
		if (socket >= 0)
			talk(socket, &dice);
		else
			usleep(PAUSE_US);
		fd_close(page);
		fd_close(socket);
	}
}
