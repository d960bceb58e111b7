/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Bounded reading and writing of packets. After a failure a cursor stays failed, so one check at the end is enough. */

#include "protocol/base/base.h"

struct cursor {
	const uint8_t *at;
	size_t left;
	bool failed;
};

static inline struct cursor cursor_make(const void *data, size_t size)
{
	return (struct cursor){ .at = data, .left = size };
}

/* The next `size` bytes in place, or NULL. */
static inline const void *cursor_take(struct cursor *cursor, size_t size)
{
	const uint8_t *taken = cursor->at;

	if (cursor->failed || size > cursor->left) {
		cursor->failed = true;
		return NULL;
	}
	cursor->at += size;
	cursor->left -= size;
	return taken;
}

/* Copies the next bytes; zeros if there are too few. */
static inline void cursor_get(struct cursor *cursor, void *to, size_t size)
{
	const void *from = cursor_take(cursor, size);

	if (from)
		memcpy(to, from, size);
	else
		memset(to, 0, size);
}

/* Whether all was read, and nothing was missing. */
static inline bool cursor_done(const struct cursor *cursor)
{
	return !cursor->failed && cursor->left == 0;
}

struct packet {
	uint8_t *data;
	size_t size;
	size_t capacity;
	bool failed; /* something did not fit; nothing was written after that */
};

static inline struct packet packet_make(void *data, size_t capacity)
{
	return (struct packet){ .data = data, .capacity = capacity };
}

/* Room for `size` more bytes, or NULL. */
static inline void *packet_room(struct packet *packet, size_t size)
{
	uint8_t *room = packet->data + packet->size;

	if (packet->failed || size > packet->capacity - packet->size) {
		packet->failed = true;
		return NULL;
	}
	packet->size += size;
	return room;
}

static inline void packet_put(struct packet *packet, const void *from, size_t size)
{
	void *room = packet_room(packet, size);

	if (room && size > 0)
		memcpy(room, from, size);
}

static inline size_t padding(size_t length)
{
	return -length & 3;
}

/* Bytes, then zeros to a multiple of four. */
static inline void packet_put_padded(struct packet *packet, const void *from, size_t length)
{
	static const uint8_t zeros[4];

	packet_put(packet, from, length);
	packet_put(packet, zeros, padding(length));
}
