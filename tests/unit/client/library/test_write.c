/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Testing events and writing records. */

#include "tests/unit/client/library/library_test.h"

WITHOUT_DAEMON(events_without_daemon_are_registered_and_off)
{
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	expect_off(&event);
	userev_release(userev, &event);
	expect_off(&event);
	register_event(&event, "event u32 number");
	register_event(&other, "other u32 number");
	expect_off(&event);
	expect_off(&other);
	userev_release(userev, &event);
	expect_off(&event);
	register_event(&event, "event u32 number");
	close_library();
	expect_off(&event);
	ck_assert_uint_eq(event.place.whole, 0);
	ck_assert_uint_eq(other.place.whole, 0);
}

WITH_EVENT_ON(record_is_index_and_pieces_in_order)
{
	struct iovec pieces[31];
	char letters[] = "abcdefghijklmnopqrstuvwxyz01234", got[64];
	uint32_t index;

	for (int i = 0; i < 31; i++)
		pieces[i] = (struct iovec){ &letters[i], 1 };
	ck_assert_int_eq(userev_writev(&event, pieces, 31), 31);
	ck_assert_int_eq(fake_record(&index, got, sizeof(got)), 31);
	ck_assert_uint_eq(index, 1 * FAKE_STREAM + 1);
	ck_assert_mem_eq(got, letters, 31);
	ck_assert_int_eq(userev_writev(&event, pieces, 32), -EINVAL);
	ck_assert_int_eq(userev_writev(&event, pieces, -1), -EINVAL);
	ck_assert_int_eq(fake_record(&index, got, sizeof(got)), -1);
	ck_assert_int_eq(userev_writev(&event, NULL, 0), 0);
	ck_assert_int_eq(fake_record(&index, got, sizeof(got)), 0);
}

/* Pieces fill a buffer, and what does not fit follows it, in any order of large and small pieces. */
WITH_EVENT_ON(small_and_large_pieces_are_one_record)
{
	enum { ROOM = USEREV_BUFFER_ - 4 };
	static const size_t sizes[][5] = {
		{ ROOM - 1 },
		{ ROOM },
		{ ROOM + 1 },
		{ ROOM, 1 },
		{ 0, ROOM, 0 },
		{ 1, ROOM, 1 },
		{ 300, 10, 300, 10, 300 },
		{ 10, 300, 242, 1 },
		{ 100, 300, 0, 152, 1 },
		{ 0, 0, 0, 0, 1 },
	};
	char payload[2048], got[2048];
	uint32_t index;

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (char)(i * 7 >> 3);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct iovec pieces[5];
		size_t size = 0;

		for (int j = 0; j < 5; j++) {
			pieces[j] = (struct iovec){ payload + size, sizes[i][j] };
			size += sizes[i][j];
		}
		for (int whole = 0; whole <= 1; whole++) {
			ck_assert_int_eq(whole ? userev_write(&event, payload, size) : userev_writev(&event, pieces, 5),
					 size);
			ck_assert_int_eq(fake_record(&index, got, sizeof(got)), size);
			ck_assert_uint_eq(index, 1 * FAKE_STREAM + 1);
			ck_assert_mem_eq(got, payload, size);
		}
	}
}

WITH_DAEMON(payload_above_maximum_is_refused_and_counted)
{
	static char payload[WIRE_PAYLOAD_MAX + 1];
	struct iovec huge[2] = { { payload, SIZE_MAX }, { payload, 2 } };
	struct iovec halves[2] = { { payload, WIRE_PAYLOAD_MAX / 2 }, { payload, WIRE_PAYLOAD_MAX / 2 + 1 } };
	uint32_t index;

	register_event(&event, "event char[8] text");
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX + 1), 0);
	fake_switch("event", true);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX), WIRE_PAYLOAD_MAX);
	ck_assert_int_eq(fake_record(&index, payload, sizeof(payload)), WIRE_PAYLOAD_MAX);
	ck_assert_uint_eq(userev_lost(userev).too_big, 0);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX + 1), -E2BIG);
	ck_assert_int_eq(userev_writev(&event, huge, 2), -E2BIG);
	ck_assert_int_eq(userev_writev(&event, halves, 2), -E2BIG);
	ck_assert_int_eq(fake_record(&index, payload, sizeof(payload)), -1);
	ck_assert_uint_eq(userev_lost(userev).too_big, 3);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 0);
	close_library();
	expect_reported(1, 0, 3);
}

static int fill(void)
{
	char payload[1000] = "";

	for (int written = 0;; written++) {
		ssize_t r = userev_write(&event, payload, sizeof(payload));

		if (r == -EAGAIN)
			return written;
		ck_assert_int_eq(r, sizeof(payload));
	}
}

WITH_EVENT_ON(full_queue_loss_is_reported)
{
	ck_assert_int_gt(fill(), 10);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 1);
	/* The first loss is reported at once. */
	fake_wait(fake_daemon->lost.queue_full == 1);
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(userev_write(&event, "data", 4), -EAGAIN);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 51);
	/* Later losses are reported by the next call that talks to the daemon, each once. */
	userev_release(userev, &event);
	fake_wait(fake_daemon->lost.queue_full == 51);
	close_library();
	expect_reported(1, 51, 0);
}

WITH_EVENT_ON(losses_are_reported_at_intervals_by_writes)
{
	unsigned packets;
	char payload[1000];
	uint32_t index;

	fill();
	fake_wait(fake_daemon->lost.queue_full == 1);
	/* As if the last report were long ago. */
	atomic_store(&userev->look_at, clock_coarse_ms());
	userev_write(&event, "data", 4);
	fake_wait(fake_daemon->lost.queue_full == 2);
	while (fake_record(&index, payload, sizeof(payload)) >= 0)
		;
	packets = fake_daemon->packets;
	userev_write(&event, payload, 0);
	ck_assert_uint_eq(fake_daemon->packets, packets);
	/* As if losses had not been reported for a while. */
	for (int i = 0; i < 5; i++)
		loss_add(userev, &userev->losses.queue_full);
	atomic_store(&userev->look_at, clock_coarse_ms());
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	fake_wait(fake_daemon->lost.queue_full == 7);
}

WITH_EVENT_ON(flood_of_losses_is_no_flood_of_packets)
{
	static char payload[5000];

	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(userev_write(&event, payload, sizeof(payload)), -E2BIG);
	close_library();
	expect_reported(1, 0, 2000);
	/* A packet in 100 ms: this would take a hundred seconds. */
	ck_assert_uint_lt(fake_daemon->packets, 1000);
}

WITH_DAEMON(unsent_losses_go_to_the_next_daemon)
{
	expect_connected();
	ck_assert_int_eq(shutdown(userev->connection.fd, SHUT_WR), 0);
	userev->losses.queue_full = 7;
	userev->losses.too_big = 3;
	loss_report(userev);
	ck_assert(files_are_marked(&userev->files));
	session_drop(userev);
	expect_connected();
	fake_wait(fake_daemon->lost.queue_full == 7);
	ck_assert_uint_eq(fake_daemon->lost.too_big, 3);
}

WITH_DAEMON_ONLY(errno_is_not_changed)
{
	errno = 1234;
	userev = open_library();
	userev_register(userev, &event, "event char[8] text", 0);
	fake_switch("event", true);
	errno = 1234;
	fill();
	ck_assert_int_eq(errno, 1234);
	fake_stop();
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	userev_register(userev, &other, "other", 0);
	userev_release(userev, &event);
	close_library();
	ck_assert_int_eq(errno, 1234);
}
