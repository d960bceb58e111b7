/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A client that speaks in packets, so that it can also speak nonsense. */

#include "protocol/fdset.h"
#include "protocol/row.h"
#include "protocol/wire.h"
#include "tests/integration/machine.h"

struct raw_reply {
	ssize_t size; /* 0: the daemon hung up; negative: an errno (-EAGAIN: nothing came within two minutes) */
	struct message message;
	struct fdset fds;
	uint8_t packet[WIRE_PACKET_MAX];
};

/* A packet in the making, in a buffer that all tests share. */
struct packet *raw_packet(uint16_t kind);
/* One with a list of n strings: the list, and each string, has these flags. */
void raw_strings(uint16_t kind, uint16_t flags, const char *const *strings, size_t n, uint16_t string_flags);
/* Finishes the packet, for a test that sends it itself. */
const struct packet *raw_finish(void);
/* Finishes it and sends it: 0 or a negative errno. */
int raw_send(int socket);

/* Finishes it, sends it, and receives the answer, which is of that kind. Deinit it with raw_reply_deinit(). */
void raw_ask(int socket, uint16_t kind, struct raw_reply *ret);

/* A packet without a body; HELLO without features. */
void raw_request(int socket, uint16_t kind);
void raw_say_hello(int socket);

int raw_connect(const char *path);
/* A listening socket with these flags. */
int raw_listen(const char *path, int flags);
/* Of a socket with these flags; a negative errno: not connected. */
int raw_try_to_connect(const char *path, int flags);
/* Waits for the next packet. Deinit it with raw_reply_deinit(). */
void raw_receive(int socket, struct raw_reply *ret);
void raw_reply_deinit(struct raw_reply *);
/* The answer to the last packet: the next daemon may repeat the answer to an earlier one. */
void raw_receive_answer(int socket, struct raw_reply *ret);

/* Connects and says HELLO, asking for features; the page's fd is closed unless wanted. */
int raw_hello(const char *path, uint64_t understands, struct wire_welcome *ret_welcome, int *ret_page);

/*
 * Registers one event: 0, or the refusal. `ret_stream_fd` gets the stream where the answer brought one, and stays -1 else;
 * NULL to close it.
 */
uint32_t raw_register(int socket, const char *description, struct answer *ret, int *ret_stream_fd);
uint32_t raw_register_with(int socket, uint16_t flags, const char *description, struct answer *ret, int *ret_stream_fd);
/* RELEASE into the shared packet, for raw_send(). */
void raw_put_release(const uint32_t *bits, unsigned n);
/* How many of the n bits were released. */
unsigned raw_release(int socket, const uint32_t *bits, unsigned n);
struct wire_account raw_query(int socket);
/* Numbers of the account: expect_account(socket, "events=3 leases=%u", n). */
void expect_account(int socket, const char *format, ...) _printf_(2, 3);
/* Which numbers of "key=N key=N" differ from those that number() has; "" if none does. */
void numbers_compare(const char *wanted, uint64_t (*number)(const void *from, const char *key), const void *from,
		     char *ret, size_t size);

/* WATCH, and its answer. */
void raw_watch(int socket, bool on);

/* The next packet is of that kind; and has so many fds. */
void expect_kind(int socket, uint16_t kind);
void expect_kind_with_fds(int socket, uint16_t kind, size_t fds);
/* Both ends are shut down; answers may be unread. */
bool is_disconnected(int socket);
/* The connection has ended; the packets before the end don't matter. Closes the socket. */
void expect_hang_up(int socket);
/* Another client is still served: it registers and releases an event. */
void expect_served(int socket);
/* A name for the current case, which their messages begin with. */
void raw_name_case(const char *format, ...) _printf_(1, 2);
/* The next packet is ERROR with this refusal, and then the connection ends. */
void expect_cut(int socket, uint32_t refusal);
/* The refusal's sentence has these words. */
void expect_cut_with(int socket, uint32_t refusal, const char *words);

/* Sends one control request of strings and calls `on_row`, if any, for each row of the answer: 0, or the refusal. */
uint32_t raw_rows(int control, uint16_t kind, uint16_t flags, const char *const *strings,
		  void (*on_row)(void *data, struct cursor row), void *data);
