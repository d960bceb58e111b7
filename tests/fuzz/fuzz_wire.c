/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Packets, read as each kind by daemon and clients: an accepted packet, encoded again, has the same bytes. */

#include "tests/fuzz/fuzz.h"
#include "tests/unit/protocol/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t buffer[2 * WIRE_PACKET_MAX];
	_cleanup_(freep) void *bytes = exactly(data, size);

	for (const struct kind *kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		struct packet packet = packet_make(buffer, sizeof(buffer));

		if (encode_again(kind, bytes, size, &packet) == 0)
			/* Encoders shorten long sentences and paths. */
			require(!packet.failed && (packet.size < size || memcmp(buffer, data, size) == 0));
	}
	return 0;
}
