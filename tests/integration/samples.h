/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A valid packet of each kind, as bytes, from which tests make invalid ones. */

#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

enum { SAMPLES = 18, SAMPLE_MAX = 128, FDS_AT_ONCE_MAX = 253 /* the kernel's SCM_MAX_FD */ };

struct sample {
	const char *name;
	uint16_t kind;
	bool control;
	void (*fill)(struct packet *); /* or a list of strings: */
	const char *strings[2];
	uint16_t flags;
};

extern const struct sample samples[SAMPLES];

const struct sample *sample_of(uint16_t kind);
/* Returns the number of bytes, at most SAMPLE_MAX. */
size_t build(const struct sample *, uint8_t *ret);
/* Sets the size in the packet's header. */
void set_size(uint8_t *packet, size_t size);
void send_bytes(int socket, const void *bytes, size_t size);
/* Opens a connection on which the sample is answered. */
int open_for(const struct fixture *, const struct sample *);

/* Sends more fds than our own transport would: the number of bytes, or a negative errno. */
ssize_t send_many_fds(int socket, const void *bytes, size_t size, int fd, size_t n, int flags);
/* The same. False if the kernel refuses fds to this socket (Linux 6.16, SO_PASSRIGHTS). */
bool send_with_fds(int socket, const void *bytes, size_t size, int fd, size_t n);
