/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/base/table.h"

#include <endian.h>
#include <sys/random.h>

static uint64_t rotate(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

static inline void mix(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	mix(v);
	v[0] ^= word;
}

uint32_t table_hash(const void *data, size_t length)
{
	static uint64_t key[2];
	const uint8_t *at = data;
	uint64_t last = (uint64_t)length << 56, word, v[4];
	size_t left = length;

	/* A kernel that has no randomness yet has no hostile clients either. */
	while (key[0] == 0)
		if (getrandom(key, sizeof(key), GRND_NONBLOCK) != sizeof(key))
			key[0] = ((uintptr_t)&key ^ (uint64_t)getpid() << 32) | 1;
	v[0] = key[0] ^ UINT64_C(0x736f6d6570736575);
	v[1] = key[1] ^ UINT64_C(0x646f72616e646f6d);
	v[2] = key[0] ^ UINT64_C(0x6c7967656e657261);
	v[3] = key[1] ^ UINT64_C(0x7465646279746573);

	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		absorb(v, le64toh(word));
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)at[i] << (8 * i);
	absorb(v, last);

	v[2] ^= 0xff;
	mix(v);
	mix(v);
	mix(v);
	word = v[0] ^ v[1] ^ v[2] ^ v[3];
	return (uint32_t)(word ^ word >> 32);
}
