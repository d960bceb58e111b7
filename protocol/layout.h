/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Layouts of wire structs: the width of each member in bytes, as a digit. Reading and writing convert from and to little-endian. */

#include "protocol/base/cursor.h"
#include "protocol/protocol.h"

#define LAYOUT_HEADER  "421144"
#define LAYOUT_WELCOME "8444444224"
#define LAYOUT_ANSWER  "22444"
#define LAYOUT_CHANGED "422"
/* STRINGS, a string, REGISTERED, RELEASE, RELEASED, ERROR, ROWS */
#define LAYOUT_PAIR   "22"
#define LAYOUT_NUMBER "4"

enum { LAYOUT_BYTES_MAX = sizeof(struct wire_account) };

/* Bodies of one struct. A member of 32 bits may have a largest value. */
static const struct fixed_body {
	const char *layout;
	size_t size;
	size_t checked;
	uint32_t most;
} fixed_bodies[] = {
	[KIND_HELLO] = { "88", sizeof(struct wire_hello), .most = UINT32_MAX },
	[KIND_RELEASED] = { LAYOUT_PAIR, sizeof(struct wire_released), .most = UINT32_MAX },
	[KIND_ACCOUNT] = { "444444888", sizeof(struct wire_account), offsetof(struct wire_account, zero), 0 },
	[KIND_WATCH] = { LAYOUT_NUMBER, sizeof(struct wire_watch), offsetof(struct wire_watch, on), 1 },
	[KIND_TRACED] = { LAYOUT_NUMBER, sizeof(struct wire_traced), offsetof(struct wire_traced, trace),
			  WIRE_TRACES_MAX - 1 },
	[KIND_LOST] = { "88", sizeof(struct wire_lost), .most = UINT32_MAX },
};

static inline void layout_swap(void *data, const char *layout)
{
	uint8_t *at = data;

	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return;
	for (; *layout; layout++) {
		const size_t width = (size_t)(*layout - '0');

		for (size_t i = 0; i < width / 2; i++) {
			const uint8_t byte = at[i];

			at[i] = at[width - 1 - i];
			at[width - 1 - i] = byte;
		}
		at += width;
	}
}

/* Zeros if the packet is too short. */
static inline void layout_get(struct cursor *cursor, const char *layout, void *ret, size_t size)
{
	cursor_get(cursor, ret, size);
	layout_swap(ret, layout);
}

static inline void layout_put(struct packet *packet, const char *layout, const void *data, size_t size)
{
	uint8_t wire[LAYOUT_BYTES_MAX];

	memcpy(wire, data, size);
	layout_swap(wire, layout);
	packet_put(packet, wire, size);
}
