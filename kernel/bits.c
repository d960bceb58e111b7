/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/bits.h"

#include "kernel/kernel.h"

enum { OWNERS_MIN = 8 }; /* most programs have fewer events */

/*
 * A client's test of an event compares a whole byte first (userev.h), so every byte gets one event before any gets a second. A bit's rank
 * in this order is (bit % 8) * bytes + bit / 8.
 */

static uint32_t bit_rank(const struct bits *bits, uint32_t bit)
{
	return bit % 8 * bits->bytes + bit / 8;
}

static void rank_take(struct bits *bits, uint32_t rank)
{
	bits->taken[rank / 64] |= UINT64_C(1) << rank % 64;
}

/* Bit 0 and bits that do not exist count as taken. Not in a loop over all bits: a tenant's first client waits for this. */
void bits_init(struct bits *bits, uint32_t n)
{
	*bits = (struct bits){ .bytes = (n + 7) / 8 };
	for (uint32_t rank = bits->bytes * 8; rank % 64 != 0; rank++)
		rank_take(bits, rank);
	for (size_t word = (bits->bytes + 7) / 8; word < ARRAY_SIZE(bits->taken); word++)
		bits->taken[word] = UINT64_MAX;
	for (uint32_t bit = n; bit < bits->bytes * 8; bit++)
		rank_take(bits, bit_rank(bits, bit));
	rank_take(bits, bit_rank(bits, 0));
}

int bits_take(struct bits *bits, uint32_t *ret)
{
	uint32_t rank;

	while (bits->first_free < ARRAY_SIZE(bits->taken) && bits->taken[bits->first_free] == UINT64_MAX)
		bits->first_free++;
	if (bits->first_free == ARRAY_SIZE(bits->taken))
		return KERNEL_E_PAGE_FULL;
	rank = (uint32_t)bits->first_free * 64 + (uint32_t)__builtin_ctzll(~bits->taken[bits->first_free]);
	rank_take(bits, rank);
	*ret = rank % bits->bytes * 8 + rank / bits->bytes;
	return 0;
}

bool bits_take_this(struct bits *bits, uint32_t bit)
{
	uint32_t rank = bit_rank(bits, bit);

	if (bits->taken[rank / 64] & UINT64_C(1) << rank % 64)
		return false;
	rank_take(bits, rank);
	return true;
}

void bits_give(struct bits *bits, uint32_t bit)
{
	uint32_t rank = bit_rank(bits, bit);

	bits->taken[rank / 64] &= ~(UINT64_C(1) << rank % 64);
	bits->first_free = MIN(bits->first_free, rank / 64);
	if (rank < bits->n_owners)
		bits->owners[rank] = NULL;
}

void bits_deinit(struct bits *bits)
{
	free(steal_pointer(bits->owners));
	bits->n_owners = 0;
}

bool bits_set_owner(struct bits *bits, uint32_t bit, void *owner)
{
	const uint32_t rank = bit_rank(bits, bit);
	size_t n = MAX(bits->n_owners, (size_t)OWNERS_MIN);
	void **owners;

	while (n <= rank)
		n *= 2;
	if (n > bits->n_owners) {
		owners = realloc(bits->owners, n * sizeof(*owners));
		if (!owners)
			return false;
		memset(owners + bits->n_owners, 0, (n - bits->n_owners) * sizeof(*owners));
		bits->owners = owners;
		bits->n_owners = n;
	}
	bits->owners[rank] = owner;
	return true;
}

void *bits_owner(const struct bits *bits, uint32_t bit)
{
	const uint32_t rank = bit < WIRE_PAGE_BITS && bits->bytes > 0 ? bit_rank(bits, bit) : UINT32_MAX;

	return rank < bits->n_owners ? bits->owners[rank] : NULL;
}
