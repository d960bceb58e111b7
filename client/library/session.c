/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Requests and answers. A call sends everything that is to be sent, and receives until its deadline; later answers are taken by
 * later calls. So a slow daemon, or one that is just starting, delays a caller only for its timeout, and no answer is lost: the
 * connection ends only with the daemon, with an invalid packet, or after a long silence.
 *
 *	DOWN, INHERITED ──HELLO──▶ GREETING ──WELCOME──▶ UP		and back to DOWN from each (connection.c)
 *
 * Requests are sent before earlier ones are answered; the daemon answers in their order. RELEASE waits until no REGISTER is
 * pending: its answer might grant the bit that is being released.
 *
 * After a failure, attempts without blocking pause for a growing time, since each test of an event may lead here. Calls that may
 * block always make an attempt.
 */

#include <poll.h>

#include "client/library/clock.h"
#include "client/library/event.h"
#include "client/library/register.h"
#include "client/library/release.h"
#include "client/library/session.h"
#include "client/library/watch.h"
#include "client/library/write.h"
#include "protocol/transport.h"

enum {
	PAUSE_MIN_MS = 100,
	PACKETS_AT_ONCE = 32, /* in one call, so that other threads get the lock; the fd stays readable */
	QUEUE_FULL_MS = 2,    /* a daemon accepts hundreds of connections in that time */
};

/* All exchanges with the daemon. */
static const struct exchange {
	uint16_t answer;
	uint8_t pages;	       /* fds of the answer, in front of its streams */
	uint8_t pending_max;   /* requests of this kind */
	bool after_registered; /* only sent when no REGISTER is pending */
	bool (*is_wanted)(const struct userev *);
	int (*ask)(struct userev *, uint8_t *buffer);
	int (*take)(struct userev *, struct reply *, uint16_t count);
} exchanges[] = {
	{ KIND_WELCOME, 1, 1, false, NULL, NULL, connection_welcome }, /* HELLO is sent by connection_begin() */
	{ KIND_RELEASED, 0, 1, true, release_is_wanted, release_ask, release_take },
	{ KIND_REGISTERED, 0, 2, false, register_is_wanted, register_ask, register_take },
	{ KIND_WATCHING, 0, 1, false, watch_is_wanted, watch_ask, NULL },
};

int session_answer_timeout_ms = 2000;
int session_silence_timeout_ms = 30000;

static uint8_t buffer[WIRE_PACKET_MAX]; /* guarded by the lock */

void reply_deinit(struct reply *reply)
{
	fdset_deinit(&reply->fds);
}

int session_ask(struct userev *userev, const struct packet *packet, uint16_t answer, uint16_t count)
{
	int r;

	if (packet->failed)
		return -EMSGSIZE;
	r = transport_send(userev->fd, packet->data, packet->size, NULL, 0, MSG_DONTWAIT);
	if (r == -EAGAIN)
		return 0;
	/* If the daemon has closed the connection, its reason may still be readable. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return r;
	userev->serial++;
	if (userev->n_pending == 0)
		userev->waiting_since = clock_ms();
	userev->pending[userev->n_pending++] = (struct request){ userev->serial, answer, count };
	return 1;
}

static bool session_may_ask(const struct userev *userev, const struct exchange *exchange)
{
	unsigned same = 0, registers = 0;

	for (unsigned i = 0; i < userev->n_pending; i++) {
		same += userev->pending[i].answer == exchange->answer;
		registers += userev->pending[i].answer == KIND_REGISTERED;
	}
	return userev->n_pending < SESSION_REQUESTS_MAX && same < exchange->pending_max &&
	       !(exchange->after_registered && registers > 0);
}

/* 0 or a negative errno. `early`: before WELCOME. */
static int session_send(struct userev *userev, bool early)
{
	if (userev->state != CONNECTION_UP && !early)
		return 0;
	for (size_t i = 1; i < ARRAY_SIZE(exchanges); i++) {
		const struct exchange *exchange = &exchanges[i];

		while (exchange->is_wanted(userev) && session_may_ask(userev, exchange)) {
			int r = exchange->ask(userev, buffer);

			if (r < 0)
				return r;
			if (r == 0)
				break;
		}
	}
	return 0;
}

static bool session_is_settled(const struct userev *userev)
{
	for (size_t i = 1; i < ARRAY_SIZE(exchanges); i++)
		if (exchanges[i].is_wanted(userev))
			return false;
	return userev->n_pending == 0;
}

/* The daemon refuses the connection. */
static int session_take_error(struct userev *userev, const struct message *message)
{
	struct string_item sentence;
	uint32_t refusal;

	if (decode_error(message->body, &refusal, &sentence) != 0)
		return -EPROTO;
	if (sentence.length == 0) {
		sentence.text = refusal_name(refusal);
		sentence.length = strlen(sentence.text);
	}
	event_set_refusal(sentence.text, sentence.length);
	sentence.length = MIN(sentence.length, sizeof(userev->sentence) - 1);
	memcpy(userev->sentence, sentence.text, sentence.length);
	userev->sentence[sentence.length] = '\0';
	return -EPROTO;
}

static int session_take_answer(struct userev *userev, struct reply *reply)
{
	const struct request asked = userev->pending[0];
	const struct exchange *exchange = exchanges;
	int r = 0;

	if (userev->n_pending == 0 || reply->message.kind != asked.answer || reply->message.serial != asked.serial ||
	    reply->message.flags != 0)
		return -EPROTO;
	while (exchange->answer != asked.answer)
		exchange++;
	if (reply->fds.count != (size_t)reply->message.streams + exchange->pages)
		return -EPROTO;
	userev->n_pending--;
	userev->n_answers++;
	userev->waiting_since = clock_ms();
	memmove(userev->pending, userev->pending + 1, userev->n_pending * sizeof(asked));
	/* connection_welcome() takes the streams itself: they are of a new connection. */
	if (exchange->pages == 0)
		r = streams_take(userev, reply, 0, &userev->streams);
	return r < 0 || !exchange->take ? r : exchange->take(userev, reply, asked.count);
}

static int64_t session_silence_end(const struct userev *userev)
{
	return userev->n_pending > 0 ? userev->waiting_since + session_silence_timeout_ms : INT64_MAX;
}

/* Receives and handles one packet. 0 or a negative errno; -EAGAIN: there is none. */
static int session_receive(struct userev *userev)
{
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	ssize_t received = transport_receive_fds(userev->fd, buffer, sizeof(buffer), &reply.fds, MSG_DONTWAIT);
	uint32_t awaited = userev->n_pending > 0 ? userev->pending[0].serial : userev->serial + 1;

	/* The daemon closed the connection without reading everything. Its last packets follow this error. */
	if (received == -ECONNRESET)
		received = transport_receive_fds(userev->fd, buffer, sizeof(buffer), &reply.fds, MSG_DONTWAIT);
	if (received == 0)
		return -ECONNRESET;
	if (received == -EAGAIN && clock_ms() >= session_silence_end(userev))
		return -ETIMEDOUT;
	if (received < 0)
		return (int)received;
	if (decode_message(buffer, (size_t)received, &reply.message) != 0)
		return -EPROTO;
	if (reply.message.kind == KIND_ERROR)
		return session_take_error(userev, &reply.message);
	if (reply.message.kind == KIND_CHANGED && reply.message.serial == 0)
		return watch_take_changed(userev, &reply.message);
	/* A daemon that replaces another one cannot know whether the last answer was sent, and repeats it. */
	if ((int32_t)(reply.message.serial - awaited) < 0)
		return 0;
	return session_take_answer(userev, &reply);
}

/* poll() and not a timeout of the socket, which would start again whenever an interval timer interrupts it. */
static int session_wait(const struct userev *userev, int64_t deadline)
{
	/* POLLOUT: the queue is full, and no answer is pending that would be a sign of room in it. */
	struct pollfd poll_fd = { .fd = userev->fd,
				  .events = (short)(userev->n_pending == 0 ? POLLIN | POLLOUT : POLLIN) };
	const int64_t until = MIN(deadline, session_silence_end(userev));
	int left, r;

	do {
		left = clock_left_ms(until);
		r = left > 0 ? poll(&poll_fd, 1, left) : 0;
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 && until == deadline ? -EAGAIN : 0;
}

static void session_fail(struct userev *userev, int error)
{
	static const char in_container[] =
		"(in a container, mount the host's directory: -v /run/userevd/client:/run/userevd/client:ro)";
	const unsigned doublings = MIN(userev->failures, 8U);

	if (userev->debug >= DEBUG_ALL)
		debug_print(userev, "no connection to %s: %s %s", userev->tried, strerror(-error),
			    error == -ENOENT && !userev->socket[0] ? in_container : userev->sentence);
	userev->failures++;
	userev->error = error;
	userev->not_before = clock_ms() + MIN(PAUSE_MIN_MS << doublings, (int)SESSION_PAUSE_MAX_MS);
	connection_drop(userev);
}

/* Takes packets that arrived before this call. If the connection has ended with nothing pending, that is not a failure. */
static void session_take_backlog(struct userev *userev)
{
	unsigned taken = 0;
	bool owed;
	int r;

	connection_verify(userev);
	if (userev->fd < 0)
		return;
	do {
		owed = userev->n_pending > 0;
		r = session_receive(userev);
	} while (r == 0 && ++taken < PACKETS_AT_ONCE);
	if (r == 0 || r == -EAGAIN)
		return;
	if (owed)
		session_fail(userev, r);
	else
		connection_drop(userev);
}

/* Sends and receives on a connection that is GREETING or UP. */
static int session_run(struct userev *userev, int64_t deadline)
{
	/* A caller that does not block sends everything before WELCOME, unless the last attempt was refused. */
	const bool early = userev->failures == 0 && clock_left_ms(deadline) == 0;
	unsigned steps = 0;
	int r;

	do {
		r = session_send(userev, early);
		if (r == 0 && session_is_settled(userev))
			break;
		if (r == 0)
			r = session_receive(userev);
		if (r == -EAGAIN)
			r = session_wait(userev, deadline);
		else if (r == 0 && ++steps % PACKETS_AT_ONCE == 0 &&
			 clock_left_ms(MIN(deadline, session_silence_end(userev))) == 0)
			r = clock_left_ms(session_silence_end(userev)) == 0 ? -ETIMEDOUT : -EAGAIN;
	} while (r == 0);
	if (r == 0) {
		userev->failures = 0;
		userev->not_before = 0;
		userev->error = 0;
		userev->sentence[0] = '\0';
		streams_close_unused(&userev->outdated);
		write_report_losses(userev);
	} else if (r != -EAGAIN) {
		session_fail(userev, r);
	}
	return r;
}

static int session_connect(struct userev *userev, int64_t deadline)
{
	int r;

	if (userev->state == CONNECTION_UP || userev->state == CONNECTION_GREETING)
		return 0;
	if (clock_left_ms(deadline) == 0 && clock_ms() < userev->not_before)
		return userev->error;
	userev->sentence[0] = '\0';
	if (userev->state == CONNECTION_INHERITED)
		batches_suspend(userev);
	userev->state = CONNECTION_DOWN;
	r = connection_begin(userev, deadline);
	if (r == -EAGAIN) {
		/* The daemon's queue is full: not a failure, since the next attempt may succeed. */
		userev->error = -EAGAIN;
		userev->not_before = clock_ms() + QUEUE_FULL_MS;
	} else if (r < 0) {
		session_fail(userev, r);
	}
	return r;
}

void session_greet(struct userev *userev)
{
	session_connect(userev, 0);
}

int session_advance(struct userev *userev, int64_t deadline)
{
	int r;

	session_take_backlog(userev);
	r = session_connect(userev, deadline);
	return r < 0 ? r : session_run(userev, deadline);
}

int session_advance_patiently(struct userev *userev)
{
	unsigned answers;
	int r;

	do {
		answers = userev->n_answers;
		r = session_advance(userev, clock_ms() + MAX(session_answer_timeout_ms, userev->wait_ms));
	} while (r == -EAGAIN && userev->n_answers != answers);
	return r;
}

void session_settle(struct userev *userev, int64_t deadline)
{
	session_take_backlog(userev);
	if (userev->state == CONNECTION_UP)
		session_run(userev, deadline);
}
