/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Requests and answers. A call sends everything that is to be sent, and receives until its deadline; later answers are taken by
 * later calls. So a slow daemon, or one that is just starting, delays a caller only for its timeout, and no answer is lost: the
 * connection ends only with the daemon, with an invalid packet, or after a long silence.
 *
 *	DOWN, INHERITED ──HELLO──▶ GREETING ──WELCOME──▶ UP		and back to DOWN from each
 *
 * Requests are sent before earlier ones are answered; the daemon answers in their order. RELEASE waits until no REGISTER is
 * pending: its answer might grant the bit that is being released.
 *
 * After a failure, attempts without blocking pause for a growing time, since each test of an event may lead here. Calls that may
 * block always make an attempt.
 *
 * Without a thread, the library gets to run when the program tests an event without a grant, when writing a record fails, and when
 * a record is written while the page is abandoned or a loss is not reported: session_look().
 */

#include "client/library/session.h"
#include "client/library/debug.h"
#include "client/library/lock.h"
#include "client/library/memory.h"
#include "client/library/page.h"
#include "client/library/place.h"
#include "client/library/requests.h"
#include "protocol/refusal.h"

enum {
	PAUSE_MIN_MS = 100,
	PACKETS_AT_ONCE = 32, /* in one call, so that other threads get the lock; the fd stays readable */
	LOOK_SOON_MS = 1,     /* answers are pending */
	LOOK_LATER_MS = 100,  /* nothing to do: the failed write had another reason */
};

/* All exchanges with the daemon. */
static const struct exchange {
	uint16_t answer;
	uint8_t pages;	       /* fds of the answer, in front of its streams */
	uint8_t pending_max;   /* requests of this kind */
	bool after_registered; /* only sent when no REGISTER is pending */
	int (*ask)(struct userev *);
	int (*take)(struct userev *, const struct message *, struct fdset *, uint16_t count);
} exchanges[] = {
	{ KIND_WELCOME, 1, 1, false, hello_ask, hello_take }, /* HELLO is sent by session_connect() */
	{ KIND_RELEASED, 0, 1, true, release_ask, release_take },
	{ KIND_REGISTERED, 0, 2, false, register_ask, register_take },
	{ KIND_WATCHING, 0, 1, false, watch_ask, NULL },
};

int session_answer_timeout_ms = 2000;

static QUEUE(all, userev) all = QUEUE_INITIALIZER(all);

static void session_close(struct userev *userev, enum connection_state state)
{
	connection_close(&userev->connection, state);
	userev->watch_asked = false;
	memory_free(userev->released);
	userev->released = NULL;
	userev->n_released = 0;
	batches_suspend(&userev->events);
}

void session_drop(struct userev *userev)
{
	if (userev->connection.fd >= 0)
		session_close(userev, CONNECTION_DOWN);
}

/* A copy of the connection's fd in the child would keep the daemon from noticing the parent's end. */
static void session_become_child(void)
{
	struct userev *userev;

	QUEUE_FOREACH(userev, &all) {
		userev->look_at = clock_coarse_ms();
		userev->failures = 0;
		userev->not_before = 0;
		userev->reported.queue_full = userev->losses.queue_full;
		userev->reported.too_big = userev->losses.too_big;
		/* The parent reports its losses; this process marks the files again with one of its own. */
		if (userev->files.page)
			files_mark(&userev->files, userev->connection.limits.backend == BACKEND_STATUS_PAGE);
		session_close(userev, CONNECTION_INHERITED);
	}
}

int session_prepare(void)
{
	return lock_watch_forks(session_become_child);
}

int session_add(struct userev *userev)
{
	int r = session_prepare();

	if (r == 0)
		QUEUE_PREPEND(&all, userev);
	return r;
}

void session_remove(struct userev *userev)
{
	QUEUE_REMOVE(&all, userev);
}

static bool session_may_ask(const struct connection *connection, const struct exchange *exchange)
{
	unsigned same = 0, registers = 0;

	for (unsigned i = 0; i < connection->n_pending; i++) {
		same += connection->pending[i].answer == exchange->answer;
		registers += connection->pending[i].answer == KIND_REGISTERED;
	}
	return connection->n_pending < CONNECTION_REQUESTS_MAX && same < exchange->pending_max &&
	       !(exchange->after_registered && registers > 0);
}

/* Sends requests; before WELCOME only if `early`. 0: everything is answered; 1: something is pending; or a negative errno. */
static int session_send(struct userev *userev, bool early)
{
	const bool may_send = early || userev->connection.state == CONNECTION_UP;
	bool is_full = false;

	for (size_t i = 1; may_send && i < ARRAY_SIZE(exchanges); i++) {
		int r = 1;

		while (r > 0 && session_may_ask(&userev->connection, &exchanges[i]))
			r = exchanges[i].ask(userev);
		if (r < 0 && r != -EAGAIN)
			return r;
		is_full |= r == -EAGAIN;
	}
	return is_full || userev->connection.n_pending > 0;
}

static int session_take_answer(struct userev *userev, const struct message *message, struct fdset *fds)
{
	struct connection *connection = &userev->connection;
	const struct request asked = connection->pending[0];
	const struct exchange *exchange = exchanges;
	int r = 0;

	if (connection->n_pending == 0 || message->kind != asked.answer || message->serial != asked.serial ||
	    message->flags != 0)
		return -EPROTO;
	while (exchange->answer != asked.answer)
		exchange++;
	if (fds->count != (size_t)message->streams + exchange->pages)
		return -EPROTO;
	connection->n_pending--;
	connection->n_answers++;
	connection->waiting_since = clock_ms();
	memmove(connection->pending, connection->pending + 1, connection->n_pending * sizeof(asked));
	/* hello_take() takes the streams itself: they are of a new connection. */
	if (exchange->pages == 0)
		r = streams_take(&userev->files, message, fds, 0, &userev->files.streams);
	return r < 0 || !exchange->take ? r : exchange->take(userev, message, fds, asked.count);
}

/* Receives and handles one packet. 0 or a negative errno; -EAGAIN: there is none. */
static int session_receive(struct userev *userev)
{
	const struct connection *connection = &userev->connection;
	const uint32_t awaited = connection->n_pending > 0 ? connection->pending[0].serial : connection->serial + 1;
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct string_item sentence;
	struct message message;
	uint32_t refusal;
	int r = connection_receive(&userev->connection, &message, &fds);

	if (r < 0)
		return r;
	/* The daemon refuses the connection. */
	if (message.kind == KIND_ERROR && decode_error(message.body, &refusal, &sentence) == 0) {
		if (sentence.length == 0) {
			sentence.text = refusal_name(refusal);
			sentence.length = strlen(sentence.text);
		}
		sentence_set_last(sentence.text, sentence.length);
		string_copy(userev->sentence, MIN(sentence.length + 1, sizeof(userev->sentence)), sentence.text);
	}
	if (message.kind == KIND_ERROR)
		return -EPROTO;
	if (message.kind == KIND_CHANGED && message.serial == 0)
		return watch_take_changed(userev, &message);
	if (message.kind == KIND_TRACED && message.serial == 0)
		return traces_take(userev, &message, &fds);
	/* A daemon that has replaced the former one cannot know whether the last answer was sent, and repeats it. */
	if ((int32_t)(message.serial - awaited) < 0)
		return 0;
	return session_take_answer(userev, &message, &fds);
}

static void session_fail(struct userev *userev, int error)
{
	static const char in_container[] =
		"(in a container, mount the host's directory: -v /run/userevd/client:/run/userevd/client:ro)";
	const unsigned doublings = MIN(userev->failures, 8U);

	debug_print("no connection to %s: %s %s", userev->connection.tried, strerror(-error),
		    error == -ENOENT && !userev->connection.socket[0] ? in_container : userev->sentence);
	userev->failures++;
	userev->error = error;
	userev->not_before = clock_ms() + MIN(PAUSE_MIN_MS << doublings, (int)SESSION_PAUSE_MAX_MS);
	session_drop(userev);
}

/*
 * Takes packets that arrived before this call. If the connection has ended with nothing pending, that is not a failure. Drops the
 * connection if the program has closed or reused its fd, or a stream's.
 */
static void session_take_backlog(struct userev *userev)
{
	unsigned taken = 0;
	bool owed;
	int r;

	if (userev->connection.fd >= 0 && !file_is(userev->connection.fd, &userev->connection.id)) {
		debug_print("the program has closed the connection's fd");
		session_drop(userev);
	}
	if (!streams_verify(&userev->files.streams)) {
		session_drop(userev);
		userev->connection.state = CONNECTION_DOWN;
	}
	streams_verify(&userev->files.outdated);
	streams_verify(&userev->files.traces);
	if (userev->connection.fd < 0)
		return;
	do {
		owed = userev->connection.n_pending > 0;
		r = session_receive(userev);
	} while (r == 0 && ++taken < PACKETS_AT_ONCE);
	if (r == 0 || r == -EAGAIN)
		return;
	if (owed)
		session_fail(userev, r);
	else
		session_drop(userev);
}

/* Sends and receives on a connection that is GREETING or UP. */
static int session_exchange(struct userev *userev, int64_t deadline)
{
	/* A caller that does not block sends everything before WELCOME, unless the last attempt was refused. */
	const bool early = userev->failures == 0 && connection_left_ms(deadline) == 0;
	unsigned steps = 0;
	int r;

	do {
		r = session_send(userev, early);
		if (r == 0)
			break;
		/* First without waiting: on one processor the daemon has usually answered within the request's sendmsg(2). */
		if (r > 0)
			r = session_receive(userev);
		if (r == -EAGAIN)
			r = connection_wait(&userev->connection, deadline);
		else if (r == 0 && ++steps % PACKETS_AT_ONCE == 0)
			r = connection_check_time(&userev->connection, deadline);
	} while (r == 0);
	if (r == 0) {
		userev->failures = 0;
		userev->not_before = 0;
		userev->error = 0;
		userev->sentence[0] = '\0';
		streams_close_unused(&userev->files.outdated);
		loss_report(userev);
	} else if (r != -EAGAIN) {
		session_fail(userev, r);
	}
	return r;
}

int session_connect(struct userev *userev, int64_t deadline)
{
	int r;

	if (userev->connection.state == CONNECTION_UP || userev->connection.state == CONNECTION_GREETING)
		return 0;
	if (connection_left_ms(deadline) == 0 && clock_ms() < userev->not_before)
		return userev->error;
	userev->sentence[0] = '\0';
	if (userev->connection.state == CONNECTION_INHERITED)
		batches_suspend(&userev->events);
	userev->connection.state = CONNECTION_DOWN;
	r = connection_open(&userev->connection, deadline);
	if (r == -EAGAIN) {
		/* The daemon's queue is full: not a failure, since the next attempt may succeed. */
		userev->error = -EAGAIN;
		userev->not_before = clock_ms() + CONNECTION_QUEUE_FULL_MS;
		return r;
	}
	if (r == 0) {
		batches_ask_anew(&userev->events);
		r = MIN(hello_ask(userev), 0);
	}
	if (r < 0)
		session_fail(userev, r);
	return r;
}

int session_advance(struct userev *userev, int64_t deadline)
{
	int r;

	session_take_backlog(userev);
	r = session_connect(userev, deadline);
	return r < 0 ? r : session_exchange(userev, deadline);
}

static int answer_timeout(const struct userev *userev)
{
	return MAX(session_answer_timeout_ms, userev->wait_ms);
}

bool session_is_silent(const struct userev *userev)
{
	const struct connection *connection = &userev->connection;

	return connection->n_pending > 0 && clock_ms() - connection->waiting_since >= answer_timeout(userev);
}

int session_advance_patiently(struct userev *userev)
{
	unsigned answers;
	int r;

	do {
		answers = userev->connection.n_answers;
		r = session_advance(userev, clock_ms() + answer_timeout(userev));
	} while (r == -EAGAIN && userev->connection.n_answers != answers);
	return r;
}

void session_settle(struct userev *userev, int64_t deadline)
{
	session_take_backlog(userev);
	if (userev->connection.state == CONNECTION_UP)
		session_exchange(userev, deadline);
}

/* After a fork the child's events need only page and streams, if these are still good. */
static bool session_is_dispensable(struct userev *userev)
{
	const struct stream *stream;

	if (userev->connection.state != CONNECTION_INHERITED || userev->events.unanswered || userev->watching ||
	    userev->files.trace_looks > 0 || userev->losses.queue_full != userev->reported.queue_full ||
	    userev->losses.too_big != userev->reported.too_big ||
	    (userev->files.page && page_is_abandoned(userev->files.page)))
		return false;
	streams_verify(&userev->files.streams);
	QUEUE_FOREACH(stream, &userev->files.streams)
		if (stream->ended)
			return false;
	batches_place(&userev->events, place_resume);
	return true;
}

void session_look(struct userev *userev)
{
	const uint32_t now = clock_coarse_ms();
	const uint32_t left = atomic_load_explicit(&userev->look_at, memory_order_relaxed) - now;
	uint32_t pause = LOOK_LATER_MS;
	struct lock lock;
	int r = 0;

	/* `left` wraps around: a larger value is in the past. */
	if (userev->sealed || (left > 0 && left <= SESSION_PAUSE_MAX_MS) || !lock_try(&lock))
		return;
	if (!session_is_dispensable(userev))
		r = session_advance(userev, 0);
	if (r == -EAGAIN && userev->connection.n_pending > 0)
		pause = LOOK_SOON_MS;
	else if (r != 0)
		pause = MAX((uint32_t)connection_left_ms(userev->not_before), (uint32_t)LOOK_SOON_MS);
	atomic_store_explicit(&userev->look_at, now + pause, memory_order_relaxed);
	lock_leave(&lock);
}
