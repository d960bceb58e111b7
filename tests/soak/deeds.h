/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the processes of a run share: chance, which is the same each time for the same seed, and what they have done so far. */

#include <stdatomic.h>
#include <stdint.h>

struct deeds {
	_Atomic uint64_t programs;
	_Atomic uint64_t killed;
	_Atomic uint64_t forks;
	_Atomic uint64_t registered;
	_Atomic uint64_t refused;
	_Atomic uint64_t released;
	_Atomic uint64_t records;
	_Atomic uint64_t hostile_connections;
	_Atomic uint64_t hostile_packets;
	_Atomic uint64_t reloads;
	_Atomic uint64_t bad_reloads;
	_Atomic uint64_t switches;
	_Atomic uint64_t daemons; /* ended, and started again */
	_Atomic uint64_t keepers;
};

extern struct deeds *deeds;

struct dice {
	uint64_t state;
};

/* SplitMix64: each seed, also the next one, begins a row of its own. */
static inline uint64_t dice_throw(struct dice *dice)
{
	uint64_t x = dice->state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static inline unsigned any(struct dice *dice, unsigned below)
{
	return (unsigned)(dice_throw(dice) % below);
}
