/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* NATIVE and NATIVE_FILE, on a connection of their own: no event is registered on it. */

#include "client/library/lock.h"
#include "client/library/sentence.h"
#include "client/library/session.h"
#include "protocol/refusal.h"

static int ask(struct connection *connection, uint16_t kind, uint16_t answer)
{
	const struct wire_hello hello = { 0 };
	struct packet packet = connection_begin(connection, kind);
	int r;

	if (kind == KIND_HELLO)
		encode_fixed(&packet, kind, &hello);
	r = connection_ask(connection, &packet, answer, 0);
	return MIN(r, 0);
}

/* Waits for the answer; the caller has its fds. */
static int take(struct connection *connection, uint16_t answer, struct fdset *fds)
{
	const int64_t deadline = clock_ms() + session_answer_timeout_ms;
	struct string_item sentence;
	struct message message = { 0 };
	uint32_t refusal;
	int r = -EAGAIN;

	while (r == -EAGAIN) {
		r = connection_wait(connection, deadline);
		if (r == -EAGAIN)
			return -ETIMEDOUT;
		if (r == 0)
			r = connection_receive(connection, &message, fds);
	}
	if (r < 0)
		return r;
	if (message.kind == KIND_ERROR && decode_error(message.body, &refusal, &sentence) == 0) {
		sentence_set_last(sentence.text, sentence.length);
		return refusal == REFUSAL_NOT_PERMITTED ? -EPERM : -EPROTO;
	}
	connection->n_pending = 0;
	return message.kind == answer && fds->count == 1 ? 0 : -EPROTO;
}

static int exchange(struct connection *connection, uint16_t kind, uint16_t answer, int *ret_fd)
{
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	int r = ask(connection, kind, answer);

	if (r == 0)
		r = take(connection, answer, &fds);
	if (r == 0 && ret_fd)
		*ret_fd = fdset_steal(&fds, 0);
	return r;
}

_public_ int userev_native_file(const char *socket)
{
	LOCK_LIBRARY;
	struct connection connection = { .fd = -1 };
	int fd = -1, r;

	sentence_set_last("", 0);
	r = session_prepare();
	if (r == 0)
		r = connection_init(&connection, socket);
	if (r == 0)
		r = connection_open(&connection, clock_ms() + session_answer_timeout_ms);
	if (r == 0)
		r = exchange(&connection, KIND_HELLO, KIND_WELCOME, NULL);
	if (r == 0)
		r = exchange(&connection, KIND_NATIVE, KIND_NATIVE_FILE, &fd);
	if (connection.fd >= 0)
		connection_close(&connection, CONNECTION_DOWN);
	return r < 0 ? r : fd;
}
