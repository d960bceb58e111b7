/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is under way. A call asks for all that is to be asked, and takes answers until its deadline; what is answered later is
 * taken by the next call. So a daemon that takes its time, or is only just being started, costs nobody more than he is ready
 * to wait, and whatever has come is never thrown away: only nonsense, an end or a long silence ends a connection.
 *
 * The daemon is asked for the next batch before it has answered the last, and answers in the order of the requests. A release
 * is not sent while a registration is under way: it might be of the very bit that the answer will give us.
 *
 * A daemon that cannot be reached, or refuses us, is left alone for a while, which grows: a test of an event comes here, too.
 * Who has called the library to register something is worth an attempt.
 */

#include <poll.h>

#include "client/library/library.h"
#include "protocol/transport.h"

enum {
	PAUSE_MIN_MS = 100,
	/* A daemon that never stops talking does not keep other threads from the mutex; the fd says that there is more. */
	PACKETS_AT_ONCE = 32,
	QUEUE_FULL_MS = 2, /* a daemon accepts hundreds in that time */
};

int library_patience_ms = 2000;
int library_silence_ms = 30000;

static uint8_t buffer[WIRE_PACKET_MAX]; /* of whoever has the mutex */

void request_note(struct userev *userev, uint16_t answer, uint16_t count)
{
	if (userev->n_asked == 0)
		userev->heard_at = now_ms();
	userev->asked[userev->n_asked++] = (struct request){ userev->serial, answer, count };
}

int request_send(const struct userev *userev, const struct packet *packet)
{
	int r;

	if (packet->failed)
		return -EMSGSIZE;
	r = transport_send(connection_fd(userev), packet->data, packet->size, NULL, 0, MSG_DONTWAIT);
	if (r == -EAGAIN)
		return 0;
	/* Who has hung up may have said why before: only reading tells. */
	return r == 0 || r == -EPIPE || r == -ECONNRESET ? 1 : r;
}

static struct request request_done(struct userev *userev)
{
	struct request done = userev->asked[0];

	userev->n_asked--;
	userev->answers++;
	userev->heard_at = now_ms();
	memmove(userev->asked, userev->asked + 1, userev->n_asked * sizeof(done));
	return done;
}

/* The daemon refuses us as a whole. */
static int note_error(struct userev *userev, const struct message *message)
{
	struct string_item sentence;
	uint32_t refusal;

	if (decode_error(message->body, &refusal, &sentence) != 0)
		return -EPROTO;
	if (sentence.length == 0) {
		sentence.text = refusal_name(refusal);
		sentence.length = strlen(sentence.text);
	}
	refusal_set(sentence.text, sentence.length);
	sentence.length = MIN(sentence.length, sizeof(userev->sentence) - 1);
	memcpy(userev->sentence, sentence.text, sentence.length);
	userev->sentence[sentence.length] = '\0';
	return -EPROTO;
}

/* A daemon that takes another one's place can't know whether the last answer has left: then it comes twice. */
static bool is_repeated(const struct userev *userev, const struct message *message)
{
	uint32_t awaited = userev->n_asked > 0 ? userev->asked[0].serial : userev->serial + 1;

	return (int32_t)(message->serial - awaited) < 0;
}

static int check_answer(const struct userev *userev, const struct reply *reply)
{
	const struct request *asked = &userev->asked[0];
	size_t expected_fds = (size_t)reply->message.streams + (reply->message.kind == KIND_WELCOME);

	if (userev->n_asked == 0 || reply->message.kind != asked->kind || reply->message.serial != asked->serial ||
	    reply->message.flags != 0 || reply->fds.count != expected_fds)
		return -EPROTO;
	return 0;
}

static ssize_t receive_packet(int fd, struct fdset *ret)
{
	ssize_t received = transport_receive_fds(fd, buffer, sizeof(buffer), ret, MSG_DONTWAIT);

	/* The daemon left without reading all. Its last words come behind this error. */
	if (received == -ECONNRESET)
		received = transport_receive_fds(fd, buffer, sizeof(buffer), ret, MSG_DONTWAIT);
	return received == 0 ? -ECONNRESET : received;
}

/* 1: the answer to the first request; 0: something else, which was dealt with; or a negative errno. */
static int receive(struct userev *userev, struct reply *ret)
{
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	ssize_t received = receive_packet(connection_fd(userev), &reply.fds);
	int r;

	if (received < 0)
		return (int)received;
	if (decode_message(buffer, (size_t)received, &reply.message) != 0)
		return -EPROTO;
	if (reply.message.kind == KIND_ERROR)
		return note_error(userev, &reply.message);
	if (reply.message.kind == KIND_CHANGED && reply.message.serial == 0)
		return changes_note(userev, &reply.message);
	if (is_repeated(userev, &reply.message))
		return 0;
	r = check_answer(userev, &reply);
	if (r < 0)
		return r;
	*ret = reply;
	reply.fds.count = 0;
	return 1;
}

static int check_released(const struct message *message)
{
	struct wire_released released;

	return decode_released(message->body, &released) == 0 ? 0 : -EPROTO;
}

static int handle_answer(struct userev *userev, struct reply *reply)
{
	struct request asked = request_done(userev);
	int r;

	if (asked.kind == KIND_WELCOME)
		return connection_welcome(userev, reply);
	r = streams_take(userev, reply, 0, &userev->streams);
	if (r < 0)
		return r;
	if (asked.kind == KIND_REGISTERED)
		return answers_take(userev, &reply->message, asked.count);
	if (asked.kind == KIND_RELEASED)
		return check_released(&reply->message);
	return 0;
}

static int64_t silence_ends_at(const struct userev *userev)
{
	return userev->n_asked > 0 ? userev->heard_at + library_silence_ms : INT64_MAX;
}

/* What has come, one packet of it. 0 or a negative errno. */
static int take_one(struct userev *userev)
{
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	int r = receive(userev, &reply);

	if (r == -EAGAIN && now_ms() >= silence_ends_at(userev))
		return -ETIMEDOUT;
	return r == 1 ? handle_answer(userev, &reply) : r;
}

static unsigned registers_under_way(const struct userev *userev)
{
	unsigned n = 0;

	for (unsigned i = 0; i < userev->n_asked; i++)
		n += userev->asked[i].kind == KIND_REGISTERED;
	return n;
}

/* `early`: events are asked for before we are welcomed. */
static int ask_what_there_is(struct userev *userev, bool early)
{
	int r = 0;

	if (!userev->up && !early)
		return 0;
	if (userev->n_left > 0 && registers_under_way(userev) == 0 && userev->n_asked < REQUESTS_MAX)
		r = bits_give_back(userev, buffer);
	while (r >= 0 && userev->unasked && registers_under_way(userev) < REGISTERS_MAX &&
	       userev->n_asked < REQUESTS_MAX) {
		r = batches_ask(userev, buffer);
		if (r == 0)
			break;
	}
	if (r >= 0 && userev->up && userev->watching && !userev->watch_asked && userev->n_asked < REQUESTS_MAX)
		r = changes_ask(userev, buffer);
	return MIN(r, 0);
}

static bool has_more_to_ask(const struct userev *userev)
{
	return userev->unasked || userev->n_left > 0 || (userev->watching && userev->up && !userev->watch_asked);
}

/*
 * 0 when all is asked and answered, 1 when there is more, -EAGAIN when it is the daemon's turn. Anything else is the end of the
 * connection.
 */
static int step(struct userev *userev, bool early)
{
	int r = ask_what_there_is(userev, early);

	if (r < 0)
		return r;
	if (userev->n_asked == 0 && !has_more_to_ask(userev))
		return 0;
	r = take_one(userev);
	return r < 0 ? r : 1;
}

/* Not with a timeout of the socket: a program with an interval timer would begin it anew for ever. */
static int wait_for_daemon(const struct userev *userev, int64_t deadline)
{
	/* Where there is no room for a request, and nothing under way whose answer would make some. */
	const short room = userev->n_asked == 0 ? POLLOUT : 0;
	struct pollfd poll_fd = { .fd = connection_fd(userev), .events = (short)(POLLIN | room) };
	const int64_t until = MIN(deadline, silence_ends_at(userev));
	int left, r;

	do {
		left = deadline_left(until);
		r = left > 0 ? poll(&poll_fd, 1, left) : 0;
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 && until == deadline ? -EAGAIN : 0;
}

static const char in_a_container[] =
	"(in a container, mount the host's directory: -v /run/userevd/client:/run/userevd/client:ro)";

static void connection_fail(struct userev *userev, int error)
{
	const unsigned doublings = MIN(userev->failures, 8U);

	if (userev->explains >= EXPLAINS_ALL)
		explain(userev, "no connection to %s: %s %s", userev->tried, strerror(-error),
			error == -ENOENT && !userev->socket[0] ? in_a_container : userev->sentence);
	userev->failures++;
	userev->error = error;
	userev->not_before = now_ms() + MIN(PAUSE_MIN_MS << doublings, (int)PAUSE_MAX_MS);
	connection_drop(userev);
}

/* All that was said before this call is of the past: an end that we find here is no failure of what is asked now. */
static void take_what_has_come(struct userev *userev)
{
	unsigned taken = 0;
	bool owed;
	int r;

	connection_verify(userev);
	if (!userev->up && userev->candidate < 0)
		return;
	do {
		owed = userev->n_asked > 0;
		r = take_one(userev);
	} while (r == 0 && ++taken < PACKETS_AT_ONCE);
	if (r == 0 || r == -EAGAIN)
		return;
	if (owed)
		connection_fail(userev, r);
	else
		connection_drop(userev);
}

static void all_is_well(struct userev *userev)
{
	userev->failures = 0;
	userev->not_before = 0;
	userev->error = 0;
	userev->sentence[0] = '\0';
	streams_tidy(&userev->outdated);
	losses_report(userev);
}

static int go_on(struct userev *userev, int64_t deadline)
{
	/* Who does not wait cannot come back for it either, so all goes out at once. Never on what has just been refused. */
	const bool early = userev->failures == 0 && deadline_left(deadline) == 0;
	unsigned steps = 0;
	int r;

	while ((r = step(userev, early)) != 0) {
		if (++steps % PACKETS_AT_ONCE == 0 && r > 0 &&
		    deadline_left(MIN(deadline, silence_ends_at(userev))) == 0)
			r = deadline_left(silence_ends_at(userev)) == 0 ? -ETIMEDOUT : -EAGAIN;
		else if (r == -EAGAIN)
			r = wait_for_daemon(userev, deadline);
		if (r < 0)
			break;
	}
	if (r == 0)
		all_is_well(userev);
	else if (r != -EAGAIN)
		connection_fail(userev, r);
	return r;
}

/* It listens, but so many are connecting that its queue is full: no failure, since the next attempt may well succeed. */
static int connection_comes_soon(struct userev *userev)
{
	userev->error = -EAGAIN;
	userev->not_before = now_ms() + QUEUE_FULL_MS;
	return -EAGAIN;
}

static int connect_if_need_be(struct userev *userev, int64_t deadline)
{
	int r;

	if (userev->up || userev->candidate >= 0)
		return 0;
	if (deadline_left(deadline) == 0 && now_ms() < userev->not_before)
		return userev->error;
	userev->sentence[0] = '\0';
	/* What went on without a connection of its own waits for one. */
	if (userev->borrowed)
		batches_suspend(userev);
	userev->borrowed = false;
	r = connection_begin(userev, deadline);
	if (r == -EAGAIN)
		return connection_comes_soon(userev);
	if (r < 0)
		connection_fail(userev, r);
	return r;
}

void connection_greet(struct userev *userev)
{
	connect_if_need_be(userev, 0);
}

int connection_advance(struct userev *userev, int64_t deadline)
{
	int r;

	take_what_has_come(userev);
	r = connect_if_need_be(userev, deadline);
	return r < 0 ? r : go_on(userev, deadline);
}

int connection_advance_patiently(struct userev *userev)
{
	unsigned answers;
	int r;

	do {
		answers = userev->answers;
		r = connection_advance(userev, now_ms() + MAX(library_patience_ms, userev->wait_ms));
	} while (r == -EAGAIN && userev->answers != answers);
	return r;
}

void connection_settle(struct userev *userev, int64_t deadline)
{
	take_what_has_come(userev);
	if (userev->up)
		go_on(userev, deadline);
}
