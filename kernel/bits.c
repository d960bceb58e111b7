/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/bits.h"

#include "kernel/kernel.h"

/*
 * A client's test of an event compares a whole byte first (userev.h), so bits are given in an order that fills every byte
 * with one event before any gets a second: rank = (bit % 8) * bytes + bit / 8.
 */

static uint32_t rank_of(const struct bits *bits, uint32_t bit)
{
	return bit % 8 * bits->bytes + bit / 8;
}

/* What is not there counts as taken, and so does bit 0. */
void bits_init(struct bits *bits, uint32_t n)
{
	bits->bytes = (n + 7) / 8;
	memset(bits->taken, 0xff, sizeof(bits->taken));
	for (uint32_t bit = 1; bit < n; bit++) {
		uint32_t rank = rank_of(bits, bit);

		bits->taken[rank / 64] &= ~(UINT64_C(1) << rank % 64);
	}
	bits->first_free = 0;
}

int bits_take(struct bits *bits, uint32_t *ret)
{
	uint32_t rank;

	while (bits->first_free < ARRAY_SIZE(bits->taken) && bits->taken[bits->first_free] == UINT64_MAX)
		bits->first_free++;
	if (bits->first_free == ARRAY_SIZE(bits->taken))
		return KERNEL_E_PAGE_FULL;
	rank = (uint32_t)bits->first_free * 64 + (uint32_t)__builtin_ctzll(~bits->taken[bits->first_free]);
	bits->taken[rank / 64] |= UINT64_C(1) << rank % 64;
	*ret = rank % bits->bytes * 8 + rank / bits->bytes;
	return 0;
}

void bits_give(struct bits *bits, uint32_t bit)
{
	uint32_t rank = rank_of(bits, bit);

	bits->taken[rank / 64] &= ~(UINT64_C(1) << rank % 64);
	bits->first_free = MIN(bits->first_free, rank / 64);
}
