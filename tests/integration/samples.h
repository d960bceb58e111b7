/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* One good packet of each kind, as bytes, from which tests make bad ones. */

#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

enum { SAMPLES = 15, SAMPLE_MAX = 128, FDS_AT_ONCE_MAX = 253 /* the kernel's SCM_MAX_FD */ };

struct sample {
	const char *name;
	uint16_t kind;
	bool control;
	void (*fill)(struct packet *);
};

extern const struct sample samples[SAMPLES];

const struct sample *sample_of(uint16_t kind);
/* At most SAMPLE_MAX bytes; how many. */
size_t build(const struct sample *, uint8_t *ret);
/* The size in the packet's header. */
void set_size(uint8_t *packet, size_t size);
void send_bytes(int socket, const void *bytes, size_t size);
/* A connection on which the sample would be answered. */
int open_for(const struct fixture *, const struct sample *);

/*
 * More fds than our own transport would send. False where the kernel did not let them through (Linux 6.16): the daemon has
 * asked for that.
 */
bool send_with_fds(int socket, const void *bytes, size_t size, int fd, size_t n);
