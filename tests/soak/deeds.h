/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Shared by the processes of a run: random numbers, which are the same each time for the same seed, and counters. */

#include <stdatomic.h>
#include <stdint.h>

enum deed {
	PROGRAMS_STARTED,
	PROGRAMS_KILLED,
	FORKED,
	REGISTERED,
	REFUSED,
	RELEASED,
	RECORDS_WRITTEN,
	HOSTILE_CONNECTIONS,
	HOSTILE_PACKETS,
	RELOADED,
	RELOADS_REFUSED,
	TRACING_SWITCHED,
	TENANTS_SILENCED,
	DAEMONS_ENDED,
	KEEPERS_ENDED,
	DEEDS
};

/* In memory that all processes share. */
extern _Atomic uint64_t *deeds;

struct dice {
	uint64_t state;
};

/* SplitMix64: each seed begins a sequence of its own, also one that is greater by one. */
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
