/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Testing events and writing records. */

#include "tests/unit/client/library/library_test.h"

TEST(unregistered_event_is_off)
{
	struct userev *userev = userev_open(NO_DAEMON, 0);
	struct userev_event event = { 0 };

	expect_off(&event);
	userev_release(userev, &event);
	expect_off(&event);
	userev_close(userev);
	userev_close(NULL);
}

TEST(events_without_daemon_are_registered_and_off)
{
	struct userev *userev = userev_open(NO_DAEMON, 0);
	struct userev_event event = { 0 }, other = { 0 };

	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	register_event(userev, &event, "event u32 number");
	register_event(userev, &other, "other u32 number");
	expect_off(&event);
	expect_off(&other);
	userev_release(userev, &event);
	expect_off(&event);
	register_event(userev, &event, "event u32 number");
	userev_close(userev);
	expect_off(&event);
	ck_assert_uint_eq(event.place.whole, 0);
	ck_assert_uint_eq(other.place.whole, 0);
}

TEST(unused_socket_is_connection_refused)
{
	struct fake *fake = fake_new();
	struct userev *userev;

	close(fake_listen(fake->path, 1));
	userev = open_to(fake);
	ck_assert_int_eq(userev_connected(userev), -ECONNREFUSED);
	userev_close(userev);
	unlink(fake->path);
	fake_free(fake);
}

/* Connects until the queue is full. */
static unsigned fill_queue(const char *path, int *fds, unsigned n)
{
	struct sockaddr_un address;
	socklen_t length;
	unsigned i = 0;

	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	do {
		ck_assert_uint_lt(i, n);
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	} while (connect(fds[i++], (struct sockaddr *)&address, length) == 0);
	ck_assert_int_eq(errno, EAGAIN);
	return i;
}

TEST(full_backlog_is_retried_and_no_failure)
{
	struct fake *fake = fake_new();
	int listener = fake_listen(fake->path, 1), fds[16];
	unsigned n = fill_queue(fake->path, fds, ARRAY_SIZE(fds));
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event");
	userev->not_before = 0;
	userev->failures = 0;
	for (unsigned i = 0; i < 10; i++) {
		userev->look_at = clock_coarse_ms();
		userev->not_before = 0;
		ck_assert(!userev_enabled(&event));
		ck_assert_int_eq(userev->error, -EAGAIN);
		ck_assert_uint_eq(userev->failures, 0);
		ck_assert_int_le(userev->not_before - clock_ms(), 10);
	}
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	close(listener);
	unlink(fake->path);
	userev_close(userev);
	fake_free(fake);
}

WITH_DAEMON(event_is_on_while_its_own_bit_is_set)
{
	static struct userev_event event[20];
	char name[20][16];

	for (int i = 0; i < 20; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		register_event(userev, &event[i], name[i]);
	}
	for (int i = 0; i < 20; i++) {
		fake_switch(fake, name[i], true);
		for (int j = 0; j < 20; j++)
			ck_assert_int_eq(userev_enabled(&event[j]), i == j);
		fake_switch(fake, name[i], false);
	}
}

WITH_DAEMON(record_is_index_and_pieces_in_order)
{
	static struct userev_event event;
	struct iovec pieces[31];
	char letters[] = "abcdefghijklmnopqrstuvwxyz01234", got[64];
	uint32_t index;

	for (int i = 0; i < 31; i++)
		pieces[i] = (struct iovec){ &letters[i], 1 };
	register_event(userev, &event, "event char[31] letters");
	fake_switch(fake, "event", true);
	ck_assert_int_eq(userev_writev(&event, pieces, 31), 31);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), 31);
	ck_assert_uint_eq(index, 1 * FAKE_STREAM + 1);
	ck_assert_mem_eq(got, letters, 31);
	ck_assert_int_eq(userev_writev(&event, pieces, 32), -EINVAL);
	ck_assert_int_eq(userev_writev(&event, pieces, -1), -EINVAL);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), -1);
	ck_assert_int_eq(userev_writev(&event, NULL, 0), 0);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), 0);
}

WITH_DAEMON(event_that_is_off_writes_nothing)
{
	static struct userev_event event;
	uint32_t index;
	char got[8];

	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), -1);
}

TEST(payload_above_maximum_is_refused_and_counted)
{
	static char payload[WIRE_PAYLOAD_MAX + 1];
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	struct iovec huge[2] = { { payload, SIZE_MAX }, { payload, 2 } };
	struct iovec halves[2] = { { payload, WIRE_PAYLOAD_MAX / 2 }, { payload, WIRE_PAYLOAD_MAX / 2 + 1 } };
	uint32_t index;

	register_event(userev, &event, "event char[8] text");
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX + 1), 0);
	fake_switch(fake, "event", true);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX), WIRE_PAYLOAD_MAX);
	ck_assert_int_eq(fake_record(fake, &index, payload, sizeof(payload)), WIRE_PAYLOAD_MAX);
	ck_assert_uint_eq(userev_lost(userev).too_big, 0);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX + 1), -E2BIG);
	ck_assert_int_eq(userev_writev(&event, huge, 2), -E2BIG);
	ck_assert_int_eq(userev_writev(&event, halves, 2), -E2BIG);
	ck_assert_int_eq(fake_record(fake, &index, payload, sizeof(payload)), -1);
	ck_assert_uint_eq(userev_lost(userev).too_big, 3);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 0);
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.too_big, 3);
	fake_free(fake);
}

TEST(welcome_sets_payload_max)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;

	fake_set(fake, welcome.payload_max = 10);
	userev = open_to(fake);
	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	ck_assert_int_eq(userev_write(&event, "0123456789", 10), 10);
	ck_assert_int_eq(userev_write(&event, "0123456789", 11), -E2BIG);
	userev_close(userev);
	fake_free(fake);
}

static int fill(const struct userev_event *event)
{
	char payload[1000] = "";

	for (int written = 0;; written++) {
		ssize_t r = userev_write(event, payload, sizeof(payload));

		if (r == -EAGAIN)
			return written;
		ck_assert_int_eq(r, sizeof(payload));
	}
}

TEST(full_queue_loss_is_reported)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	ck_assert_int_gt(fill(&event), 10);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 1);
	/* The first loss is reported at once. */
	fake_wait(fake, fake->lost.queue_full == 1);
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(userev_write(&event, "data", 4), -EAGAIN);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 51);
	/* Later losses are reported by the next call that talks to the daemon, each once. */
	userev_release(userev, &event);
	fake_wait(fake, fake->lost.queue_full == 51);
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.queue_full, 51);
	ck_assert_uint_eq(fake->lost.too_big, 0);
	fake_free(fake);
}

WITH_DAEMON(losses_are_reported_at_intervals_by_writes)
{
	static struct userev_event event;
	unsigned packets;
	char payload[1000];
	uint32_t index;

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	fill(&event);
	fake_wait(fake, fake->lost.queue_full == 1);
	/* As if the last report were long ago. */
	atomic_store(&userev->reported_at, UINT32_MAX / 2);
	userev_write(&event, "data", 4);
	fake_wait(fake, fake->lost.queue_full == 2);
	while (fake_record(fake, &index, payload, sizeof(payload)) >= 0)
		;
	packets = fake->packets;
	userev_write(&event, payload, 0);
	ck_assert_uint_eq(fake->packets, packets);
	/* As if losses had not been reported for a while. */
	atomic_fetch_add(&userev->unreported.queue_full, 5);
	atomic_store(&userev->reported_at, UINT32_MAX / 2);
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	fake_wait(fake, fake->lost.queue_full == 7);
}

TEST(flood_of_losses_is_no_flood_of_packets)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	static char payload[5000];

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(userev_write(&event, payload, sizeof(payload)), -E2BIG);
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.too_big, 2000);
	/* A packet in 100 ms: this would take a hundred seconds. */
	ck_assert_uint_lt(fake->packets, 1000);
	fake_free(fake);
}

TEST(unsent_losses_go_to_the_next_daemon)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);

	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(shutdown(userev->connection.fd, SHUT_WR), 0);
	atomic_fetch_add(&userev->unreported.queue_full, 7);
	atomic_fetch_add(&userev->unreported.too_big, 3);
	loss_report(userev);
	ck_assert_uint_eq(atomic_load(&userev->unreported.queue_full), 7);
	session_drop(userev);
	ck_assert_int_eq(userev_connected(userev), 0);
	fake_wait(fake, fake->lost.queue_full == 7);
	ck_assert_uint_eq(fake->lost.too_big, 3);
	userev_close(userev);
	fake_free(fake);
}

WITH_DAEMON(unreported_losses_go_to_next_daemon)
{
	static struct userev_event event;

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	fake_stop(fake);
	ck_assert_int_eq(userev_write(&event, (char[5000]){ 0 }, 5000), -E2BIG);
	ck_assert_int_eq(fake->lost.too_big, 0);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	fake_wait(fake, fake->lost.too_big == 1);
}

WITH_DAEMON(write_to_ended_daemon_is_no_error)
{
	static struct userev_event event;

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	fake_stop(fake);
	ck_assert(userev_enabled(&event));
	/* ECONNRESET first, for what the daemon left unread, then EPIPE. */
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 0);
	userev_release(userev, &event);
	expect_off(&event);
}

TEST(errno_is_not_changed)
{
	struct fake *fake = start();
	struct userev *userev;
	struct userev_event event = { 0 }, other = { 0 };

	errno = 1234;
	userev = open_to(fake);
	userev_register(userev, &event, "event char[8] text", 0);
	fake_switch(fake, "event", true);
	errno = 1234;
	fill(&event);
	ck_assert_int_eq(errno, 1234);
	fake_stop(fake);
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	userev_register(userev, &other, "other", 0);
	userev_release(userev, &event);
	userev_close(userev);
	ck_assert_int_eq(errno, 1234);
	fake_free(fake);
}
