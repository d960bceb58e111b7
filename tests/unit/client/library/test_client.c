/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "client/library/library.h"
#include "tests/unit/fake_daemon.h"

#define NO_DAEMON "/tmp/userev-client-where-nobody-is/socket"

static void expect_off(const struct userev_event *event)
{
	ck_assert(!userev_enabled(event));
	ck_assert_int_eq(userev_write(event, "data", 4), 0);
	ck_assert_ptr_null(userev_event_name(event));
}

/* Registering, testing, writing */

TEST(an_event_that_was_never_registered_is_off)
{
	struct userev *userev = userev_open(NO_DAEMON, 0);
	struct userev_event event = { 0 };

	expect_off(&event);
	userev_release(userev, &event);
	expect_off(&event);
	userev_close(userev);
	userev_close(NULL);
}
END_TEST

TEST(without_a_daemon_events_are_registered_and_off)
{
	struct userev *userev = userev_open(NO_DAEMON, 0);
	struct userev_event event = { 0 }, other = { 0 };

	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	ck_assert_int_eq(userev_register(userev, &other, "other u32 number", 0), 0);
	expect_off(&event);
	expect_off(&other);
	userev_release(userev, &event);
	expect_off(&event);
	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	userev_close(userev);
	expect_off(&event);
	ck_assert_uint_eq(event.place.whole, 0);
	ck_assert_uint_eq(other.place.whole, 0);
}
END_TEST

TEST(a_socket_where_nobody_listens_is_a_refused_connection)
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
END_TEST

/* Until it has no room. */
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

TEST(full_queue_is_tried_again_soon_and_no_failure)
{
	struct fake *fake = fake_new();
	int listener = fake_listen(fake->path, 1), fds[16];
	unsigned n = fill_queue(fake->path, fds, ARRAY_SIZE(fds));
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	userev->not_before = 0;
	userev->failures = 0;
	for (unsigned i = 0; i < 10; i++) {
		userev->look_at = about_now_ms();
		userev->not_before = 0;
		ck_assert(!userev_enabled(&event));
		ck_assert_int_eq(userev->error, -EAGAIN);
		ck_assert_uint_eq(userev->failures, 0);
		ck_assert_int_le(userev->not_before - now_ms(), 10);
	}
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	close(listener);
	unlink(fake->path);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(an_event_is_on_while_its_bit_is_set_whatever_its_neighbours_are)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event[20] = { 0 };
	char name[20][16];

	for (int i = 0; i < 20; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		ck_assert_int_eq(userev_register(userev, &event[i], name[i], 0), 0);
	}
	for (int i = 0; i < 20; i++) {
		fake_switch(fake, name[i], true);
		for (int j = 0; j < 20; j++)
			ck_assert_int_eq(userev_enabled(&event[j]), i == j);
		fake_switch(fake, name[i], false);
	}
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_record_is_the_index_and_the_pieces_in_their_order)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	struct iovec pieces[31];
	char letters[] = "abcdefghijklmnopqrstuvwxyz01234", got[64];
	uint32_t index;

	for (int i = 0; i < 31; i++)
		pieces[i] = (struct iovec){ &letters[i], 1 };
	ck_assert_int_eq(userev_register(userev, &event, "event char[31] letters", 0), 0);
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
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(an_event_that_is_off_writes_nothing)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	uint32_t index;
	char got[8];

	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), -1);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_payload_above_what_tracers_hold_is_refused_and_counted)
{
	static char payload[WIRE_PAYLOAD_MAX + 1];
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	struct iovec huge[2] = { { payload, SIZE_MAX }, { payload, 2 } };
	struct iovec halves[2] = { { payload, WIRE_PAYLOAD_MAX / 2 }, { payload, WIRE_PAYLOAD_MAX / 2 + 1 } };
	uint32_t index;

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
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
END_TEST

TEST(the_daemon_says_how_large_a_payload_may_be)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;

	fake_set(fake, welcome.payload_max = 10);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
	fake_switch(fake, "event", true);
	ck_assert_int_eq(userev_write(&event, "0123456789", 10), 10);
	ck_assert_int_eq(userev_write(&event, "0123456789", 11), -E2BIG);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

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

TEST(a_full_queue_loses_the_record_and_the_daemon_is_told)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
	fake_switch(fake, "event", true);
	ck_assert_int_gt(fill(&event), 10);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 1);
	/* The first loss is reported at once. */
	fake_wait(fake, fake->lost.queue_full == 1);
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(userev_write(&event, "data", 4), -EAGAIN);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 51);
	/* What was held back goes with the next call that talks to the daemon anyway, and nothing is reported twice. */
	userev_release(userev, &event);
	fake_wait(fake, fake->lost.queue_full == 51);
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.queue_full, 51);
	ck_assert_uint_eq(fake->lost.too_big, 0);
	fake_free(fake);
}
END_TEST

TEST(losses_that_could_not_be_told_are_told_the_next_daemon)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);

	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(shutdown(userev->fd, SHUT_WR), 0);
	atomic_fetch_add(&userev->unreported.queue_full, 7);
	atomic_fetch_add(&userev->unreported.too_big, 3);
	losses_report(userev);
	ck_assert_uint_eq(atomic_load(&userev->unreported.queue_full), 7);
	connection_drop(userev);
	ck_assert_int_eq(userev_connected(userev), 0);
	fake_wait(fake, fake->lost.queue_full == 7);
	ck_assert_uint_eq(fake->lost.too_big, 3);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(losses_are_told_at_most_now_and_then_and_by_a_later_write)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	unsigned packets;
	char payload[1000];
	uint32_t index;

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
	fake_switch(fake, "event", true);
	fill(&event);
	fake_wait(fake, fake->lost.queue_full == 1);
	/* Whatever the clock does: this one was reported right now. */
	atomic_store(&userev->reported_at, UINT32_MAX / 2);
	userev_write(&event, "data", 4);
	fake_wait(fake, fake->lost.queue_full == 2);
	while (fake_record(fake, &index, payload, sizeof(payload)) >= 0)
		;
	packets = fake->packets;
	userev_write(&event, payload, 0);
	ck_assert_uint_eq(fake->packets, packets);
	/* Lost a while ago, and not reported then. */
	atomic_fetch_add(&userev->unreported.queue_full, 5);
	atomic_store(&userev->reported_at, UINT32_MAX / 2);
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	fake_wait(fake, fake->lost.queue_full == 7);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_flood_of_losses_is_not_a_flood_of_packets)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	static char payload[5000];

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
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
END_TEST

TEST(losses_that_the_daemon_could_not_be_told_are_told_the_next_one)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
	fake_switch(fake, "event", true);
	fake_stop(fake);
	ck_assert_int_eq(userev_write(&event, (char[5000]){ 0 }, 5000), -E2BIG);
	ck_assert_int_eq(fake->lost.too_big, 0);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	fake_wait(fake, fake->lost.too_big == 1);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_daemon_that_has_gone_is_no_error_and_no_signal)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
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
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(errno_is_not_touched)
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
END_TEST

/* Many */

static struct userev_registration *many(struct userev_event *event, size_t n, size_t length)
{
	struct userev_registration *registrations = calloc(n, sizeof(*registrations));

	for (size_t i = 0; i < n; i++) {
		char *description = malloc(length + 1);
		char name[32];
		int name_length = snprintf(name, sizeof(name), "event%zu ", i);

		ck_assert_ptr_nonnull(description);
		memset(description, 'x', length);
		memcpy(description, name, (size_t)name_length);
		description[length] = '\0';
		registrations[i] = (struct userev_registration){ .event = &event[i], .description = description };
	}
	return registrations;
}

static void free_many(struct userev_registration *registrations, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)registrations[i].description);
	free(registrations);
}

TEST(a_thousand_of_the_longest_events_take_ten_packets_in_all)
{
	static struct userev_event event[1000];
	struct fake *fake = start();
	struct userev_registration *registrations = many(event, 1000, WIRE_DESCRIPTION_MAX);
	struct userev *userev;

	fake_set(fake, all_new = true);
	/* A daemon that takes more than we can send. */
	fake_set(fake, welcome.packet_max = UINT32_MAX);
	fake_set(fake, welcome.batch_max = UINT32_MAX);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register_all(userev, registrations, 1000), 0);
	ck_assert_uint_eq(fake->items, 1000);
	ck_assert_uint_le(fake->packets, 10);
	fake_set(fake, all_new = false);
	expect_alive(fake, &event[0], "event0");
	expect_alive(fake, &event[999], "event999");
	free_many(registrations, 1000);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(ten_thousand_events_are_no_trouble)
{
	static struct userev_event event[10000];
	struct fake *fake = fake_new();
	struct userev_registration *registrations = many(event, 10000, 20);
	struct userev *userev = open_to(fake);

	fake_set(fake, all_new = true);
	for (size_t i = 0; i < 5000; i++)
		ck_assert_int_eq(userev_register(userev, &event[i], registrations[i].description, 0), 0);
	ck_assert_int_eq(userev_register_all(userev, registrations + 5000, 5000), 0);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_uint_eq(fake->items, 10000);
	ck_assert_uint_eq(fake->registers, (10000 + WIRE_BATCH_MAX - 1) / WIRE_BATCH_MAX);
	fake_stop(fake);
	for (size_t i = 0; i < 10000; i++)
		userev_release(userev, &event[i]);
	free_many(registrations, 10000);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* A sanitizer has memory of its own. */
#ifdef __SANITIZE_ADDRESS__
static const size_t BYTES_EACH = SIZE_MAX / 1000;
#else
static const size_t BYTES_EACH = sizeof("event999") + 64 + 110;
#endif

TEST(an_event_that_is_registered_by_hand_costs_its_description_and_little_more_and_that_comes_back)
{
	static struct userev_event event[1000];
	struct fake *fake = start();
	struct userev_registration *registrations = many(event, 1000, 64);
	struct userev *userev = open_to(fake);
	const size_t before = memory_mapped;
	size_t all;

	ck_assert_int_eq(userev_register_all(userev, registrations, 1000), 0);
	all = memory_mapped;
	ck_assert_uint_le(all - before, 1000 * BYTES_EACH);
	for (int i = 0; i < 1000; i++)
		userev_release(userev, &event[i]);
	ck_assert_int_eq(userev_register_all(userev, registrations, 1000), 0);
	/* But for the notes of what was released. */
	ck_assert_uint_le(memory_mapped - all, 2 * WIRE_PAGE_BYTES);
	free_many(registrations, 1000);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(the_daemons_limits_are_kept)
{
	static struct userev_event event[100];
	struct userev_registration *registrations = many(event, 100, 200);
	struct fake *fake = start();
	struct userev *userev;

	/* The fake daemon asserts that no packet is longer, and no batch larger. */
	fake_set(fake, welcome.packet_max = 700);
	fake_set(fake, welcome.batch_max = 10);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register_all(userev, registrations, 100), 0);
	ck_assert_uint_eq(fake->registers, 34);
	userev_close(userev);

	fake_set(fake, welcome.packet_max = UINT32_MAX);
	fake_set(fake, welcome.batch_max = 7);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register_all(userev, registrations, 100), 0);
	ck_assert_uint_eq(fake->registers, 34 + 15);
	userev_close(userev);
	free_many(registrations, 100);
	fake_free(fake);
}
END_TEST

TEST(the_smallest_packet_still_takes_the_longest_description)
{
	static struct userev_event event[3];
	struct userev_registration *registrations = many(event, 3, WIRE_DESCRIPTION_MAX);
	struct fake *fake = start();
	struct userev *userev;

	fake_set(fake, welcome.packet_max = 536);
	fake_set(fake, welcome.batch_max = UINT32_MAX);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register_all(userev, registrations, 3), 0);
	ck_assert_uint_eq(fake->registers, 3);
	expect_alive(fake, &event[2], "event2");
	userev_close(userev);
	free_many(registrations, 3);
	fake_free(fake);
}
END_TEST

TEST(registering_nothing_is_fine)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);

	ck_assert_int_eq(userev_register_all(userev, NULL, 0), 0);
	ck_assert_uint_eq(fake->registers, 0);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* Refusals */

TEST(each_event_of_a_batch_has_its_own_result)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event good = { 0 }, bad = { 0 }, also_good = { 0 };
	struct userev_registration all[] = {
		{ .event = &good, .description = "good u32 number", .result = 99 },
		{ .event = &bad, .description = "bad long number", .result = 99 },
		{ .event = &good, .description = "good_again", .result = 99 },
		{ .event = &also_good, .description = "also_good", .result = 99, .why = "not asked" },
	};

	fake_set(fake, refuse = "bad");
	fake_set(fake, refusal = REFUSAL_BAD_DESCRIPTION);
	fake_set(fake, sentence = "field 1: 'long' has no fixed size; use s64 or u64");
	ck_assert_int_eq(userev_register_all(userev, all, ARRAY_SIZE(all)), 2);
	ck_assert_int_eq(all[0].result, 0);
	ck_assert_int_eq(all[1].result, -EINVAL);
	ck_assert_int_eq(all[2].result, -EBUSY);
	ck_assert_int_eq(all[3].result, 0);
	ck_assert_ptr_null(all[0].why);
	ck_assert_str_eq(all[1].why, fake->sentence);
	ck_assert_ptr_nonnull(strstr(all[2].why, "release it first"));
	ck_assert_ptr_null(all[3].why);
	ck_assert_str_eq(userev_refusal(), fake->sentence);
	expect_alive(fake, &good, "good");
	expect_alive(fake, &also_good, "also_good");
	expect_off(&bad);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(every_refusal_is_an_errno_and_an_unknown_one_is_trouble)
{
	static const struct {
		uint32_t refusal;
		int error;
	} refusals[] = {
		{ REFUSAL_BAD_DESCRIPTION, -EINVAL },
		{ REFUSAL_NAME_TAKEN, -EEXIST },
		{ REFUSAL_QUOTA_EXCEEDED, -EDQUOT },
		{ REFUSAL_PAGE_FULL, -ENOSPC },
		{ REFUSAL_MACHINE_FULL, -ENOSPC },
		{ REFUSAL_NOT_PERMITTED, -EACCES },
		{ REFUSAL_KERNEL_TOO_OLD, -EOPNOTSUPP },
		{ REFUSAL_TROUBLE, -EIO },
		{ 54321, -EIO },
	};
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	fake_set(fake, refuse = "event");
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		fake_set(fake, refusal = refusals[i].refusal);
		ck_assert_int_eq(userev_register(userev, &event, "event", 0), refusals[i].error);
		ck_assert_str_eq(userev_refusal(), "because");
	}
	/* A daemon that says no more than no. */
	fake_set(fake, sentence = "");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EDQUOT);
	ck_assert_str_eq(userev_refusal(), "quota-exceeded");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(nothing_is_kept_of_a_refused_event)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event *event = calloc(1, sizeof(*event));

	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	ck_assert_int_eq(userev_register(userev, event, "event", 0), -EACCES);
	ck_assert_uint_eq(event->place.whole, 0);
	userev_release(userev, event);
	ck_assert_uint_eq(fake->releases, 0);
	free(event);
	fake_stop(fake);
	fake_set(fake, items = 0);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_uint_eq(fake->items, 0);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(what_the_library_can_see_itself_it_refuses_itself)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	char description[WIRE_DESCRIPTION_MAX + 2];

	memset(description, 'e', sizeof(description));
	description[WIRE_DESCRIPTION_MAX + 1] = '\0';
	ck_assert_int_eq(userev_register(userev, &event, description, 0), -EINVAL);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "511"));
	ck_assert_int_eq(userev_register(userev, &event, "event", 1 << 2), -EINVAL);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "flags"));
	ck_assert_uint_eq(fake->items, 0);
	description[WIRE_DESCRIPTION_MAX] = '\0';
	ck_assert_int_eq(userev_register(userev, &event, description, 0), 0);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EBUSY);
	ck_assert_uint_eq(fake->items, 1);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(flags_reach_the_daemon)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(userev, &event, "event", USEREV_PERSIST | USEREV_MULTI_FORMAT), 0);
	ck_assert_uint_eq(fake->flags, REGISTER_PERSIST | REGISTER_MULTI_FORMAT);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

static void *expect_no_refusal(void *data)
{
	ck_assert_str_eq(userev_refusal(), "");
	return data;
}

TEST(a_refusal_is_the_threads_own_and_ends_with_its_next_call)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pthread_t thread;

	ck_assert_str_eq(userev_refusal(), "");
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EACCES);
	pthread_create(&thread, NULL, expect_no_refusal, NULL);
	pthread_join(thread, NULL);
	ck_assert_str_eq(userev_refusal(), "because");
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_refusal(), "");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_sentence_of_any_length_is_cut_where_the_buffer_ends)
{
	char buffer[300];

	memset(buffer, 'x', sizeof(buffer));
	refusal_set(buffer, sizeof(buffer));
	ck_assert_uint_eq(strlen(userev_refusal()), WIRE_SENTENCE_MAX);
}
END_TEST

/* Names, sharing, releasing */

TEST(an_event_has_the_name_that_the_daemon_gave_it)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event plain = { 0 }, bare = { 0 }, flagged = { 0 }, prefixed = { 0 };

	ck_assert_int_eq(userev_register(userev, &plain, "plain u32 number", 0), 0);
	ck_assert_int_eq(userev_register(userev, &bare, "bare", 0), 0);
	ck_assert_int_eq(userev_register(userev, &flagged, "flagged:some u32 number", 0), 0);
	fake_set(fake, prefix = "container7_");
	ck_assert_int_eq(userev_register(userev, &prefixed, "prefixed u32 number", 0), 0);
	ck_assert_str_eq(userev_event_name(&plain), "plain");
	ck_assert_str_eq(userev_event_name(&bare), "bare");
	ck_assert_str_eq(userev_event_name(&flagged), "flagged");
	ck_assert_str_eq(userev_event_name(&prefixed), "container7_prefixed");
	userev_release(userev, &plain);
	ck_assert_ptr_null(userev_event_name(&plain));
	userev_close(userev);
	ck_assert_ptr_null(userev_event_name(&prefixed));
	fake_free(fake);
}
END_TEST

static void restart_with_prefix(struct fake *fake, struct userev *userev, const char *prefix)
{
	fake_stop(fake);
	fake_set(fake, prefix = prefix);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
}

/* Whoever has asked for a name reads it as long as he has the event. */
TEST(a_name_stays_what_it_is_until_the_event_is_released_though_another_daemon_gives_it_another)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	const char *plain, *first;

	ck_assert_int_eq(userev_register(userev, &event, "event:flag u32 number", 0), 0);
	plain = userev_event_name(&event);
	restart_with_prefix(fake, userev, "first_");
	first = userev_event_name(&event);
	ck_assert_str_eq(first, "first_event");
	restart_with_prefix(fake, userev, "second_");
	ck_assert_str_eq(userev_event_name(&event), "second_event");
	restart_with_prefix(fake, userev, NULL);
	ck_assert_str_eq(userev_event_name(&event), "event");
	ck_assert_str_eq(first, "first_event");
	ck_assert_str_eq(plain, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(an_event_at_several_places_is_given_back_by_the_last)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event one = { 0 }, two = { 0 }, other = { 0 };

	ck_assert_int_eq(userev_register(userev, &other, "other", 0), 0);
	ck_assert_int_eq(userev_register(userev, &one, "event u32 number", 0), 0);
	ck_assert_int_eq(userev_register(userev, &two, "event  u32  number", 0), 0);
	fake_switch(fake, "event", true);
	ck_assert(userev_enabled(&one) && userev_enabled(&two));
	userev_release(userev, &one);
	ck_assert_uint_eq(fake->releases, 0);
	ck_assert(!userev_enabled(&one) && userev_enabled(&two));
	userev_release(userev, &one);
	ck_assert_uint_eq(fake->releases, 0);
	userev_release(userev, &two);
	ck_assert_uint_eq(fake->releases, 1);
	ck_assert_uint_eq(fake->released_bit, 2);
	ck_assert(!userev_enabled(&two));
	ck_assert_int_eq(userev_register(userev, &two, "event u32 number", 0), 0);
	ck_assert(userev_enabled(&two));
	/* They were all different once. */
	ck_assert_int_eq(userev_register(userev, &one, "event u32 number", 0), 0);
	userev_release(userev, &one);
	userev_close(userev);
	ck_assert_uint_eq(fake->releases, 1);
	fake_free(fake);
}
END_TEST

TEST(nobody_releases_the_event_of_another_connection)
{
	struct fake *fake = start();
	struct userev *ours = open_to(fake), *theirs = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(ours, &event, "event", 0), 0);
	userev_release(theirs, &event);
	ck_assert_str_eq(userev_event_name(&event), "event");
	userev_close(theirs);
	expect_alive(fake, &event, "event");
	userev_close(ours);
	expect_off(&event);
	fake_free(fake);
}
END_TEST

TEST(a_released_event_may_be_freed_while_others_go_on)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event *event[5];
	char name[5][8];

	for (int i = 0; i < 5; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		event[i] = calloc(1, sizeof(*event[i]));
		ck_assert_int_eq(userev_register(userev, event[i], name[i], 0), 0);
	}
	/* In the middle, at the end, at the front. */
	for (int i = 2; i < 7; i += 2) {
		userev_release(userev, event[i % 5]);
		free(event[i % 5]);
	}
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, event[0], name[0]);
	expect_alive(fake, event[3], name[3]);
	userev_close(userev);
	free(event[0]);
	free(event[3]);
	fake_free(fake);
}
END_TEST

/* Daemons that come, go and misbehave */

TEST(waiting_events_come_alive_when_the_daemon_is_there)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event early = { 0 }, late = { 0 }, released = { 0 };
	char description[] = "early u32 number";

	ck_assert_int_eq(userev_register(userev, &released, "released", 0), 0);
	userev_release(userev, &released);
	ck_assert_int_eq(userev_register(userev, &early, description, 0), 0);
	memset(description, 'x', sizeof(description) - 1);
	fake_start(fake);
	expect_off(&early);
	ck_assert_int_eq(userev_register(userev, &late, "late u32 number", 0), 0);
	expect_alive(fake, &early, "early");
	expect_alive(fake, &late, "late");
	ck_assert_uint_eq(fake->registers, 1);
	ck_assert_uint_eq(fake->items, 2);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_restarted_daemon_gets_all_claims_and_may_number_them_anew)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event one = { 0 }, two = { 0 }, three = { 0 };

	ck_assert_int_eq(userev_register(userev, &one, "one", 0), 0);
	ck_assert_int_eq(userev_register(userev, &two, "two", 0), 0);
	expect_alive(fake, &one, "one");
	expect_alive(fake, &two, "two");
	fake_stop(fake);
	fake_start(fake);
	for (int i = 0; i < 20; i++)
		fake_switch(fake, (const char *[]){ "x", "y", "two" }[i % 3], false);
	ck_assert_int_eq(userev_register(userev, &three, "three", 0), 0);
	expect_alive(fake, &one, "one");
	expect_alive(fake, &two, "two");
	expect_alive(fake, &three, "three");
	/* And what was shared is so still, on new bits. */
	userev_release(userev, &two);
	ck_assert_uint_eq(fake->released_bit, 3);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_claim_that_a_new_daemon_refuses_is_off_and_waits_for_the_next)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, second = { 0 }, other = { 0 }, given_up = { 0 };

	ck_assert_int_eq(userev_register(userev, &second, "event2", 0), 0);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	fake_switch(fake, "event", true);
	fake_stop(fake);
	fake_start(fake);
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_refusal(), "because");
	expect_off(&event);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EBUSY);
	/* It does not burden every later request. */
	fake_set(fake, items = 0);
	ck_assert_int_eq(userev_register(userev, &other, "other", 0), 0);
	ck_assert_uint_eq(fake->items, 1);
	/* Nor does it remember a bit that is another's now. */
	ck_assert_int_eq(userev_register(userev, &given_up, "event again", 0), -EDQUOT);
	userev_release(userev, &second);
	ck_assert_uint_eq(fake->releases, 0);
	fake_set(fake, refuse = NULL);
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(an_event_that_is_granted_at_last_is_not_refused_any_more)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	fake_stop(fake);
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_why(&event), "because");
	fake_set(fake, refuse = NULL);
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_ptr_null(userev_why(&event));
	expect_alive(fake, &event, "event");
	/* Nor is that the reason later. */
	fake_stop(fake);
	fake_do(fake, SILENT, KIND_REGISTER);
	fake_start(fake);
	library_patience_ms = 50;
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	ck_assert_str_eq(userev_why(&event), "the daemon has not answered yet");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_stream_may_come_early_or_late_or_be_followed_by_another)
{
	struct fake *fake = start();
	struct userev_event event[4] = { 0 };
	struct userev *userev;
	uint32_t index;
	char got[8];

	fake_set(fake, early_stream = true);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register(userev, &event[0], "zero", 0), 0);
	expect_alive(fake, &event[0], "zero");
	fake_set(fake, keep_records = true);
	ck_assert_int_eq(userev_register(userev, &event[1], "one", 0), 0);
	fake_set(fake, fresh_stream = true);
	ck_assert_int_eq(userev_register(userev, &event[2], "two", 0), 0);
	ck_assert_int_eq(userev_register(userev, &event[3], "three", 0), 0);
	/* The fake daemon looks at the latest only: the others have gone, which is no error. */
	fake_switch(fake, "zero", true);
	fake_switch(fake, "two", true);
	ck_assert_int_eq(userev_write(&event[0], "data", 4), 0);
	ck_assert_int_eq(userev_write(&event[2], "data", 4), 0);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), -1);
	expect_alive(fake, &event[3], "three");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

struct trouble {
	enum mischief mischief;
	int error; /* of userev_connected() */
};

static void expect_trouble_at_hello(const struct trouble *trouble)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;
	int fds;

	fake_do(fake, trouble->mischief, KIND_HELLO);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	ck_assert_uint_eq(fake->registers, 0);
	expect_off(&event);
	ck_assert_int_eq(userev_connected(userev), trouble->error);
	fake_wait(fake, fake->accepted == fake->ended);
	fds = count_open_fds();
	ck_assert_int_eq(userev_connected(userev), trouble->error);
	fake_wait(fake, fake->accepted == fake->ended);
	ck_assert_int_eq(count_open_fds(), fds);
	fake_do(fake, GOOD, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

static const struct trouble hello_troubles[] = {
	{ HANG_UP, -ECONNRESET },     { HANG_UP_UNREAD, -EPROTO },     { ERROR_PACKET, -EPROTO },
	{ GARBAGE, -EPROTO },	      { HEADER_ONLY, -EPROTO },	       { CUT_SHORT, -EPROTO },
	{ TOO_LONG, -EPROTO },	      { WRONG_SERIAL, -EPROTO },       { WRONG_KIND, -EPROTO },
	{ MORE_FOLLOWS, -EPROTO },    { FD_MISSING, -EPROTO },	       { FD_EXTRA, -EPROTO },
	{ PAGE_SHORT, -EPROTO },      { PAGE_IS_PIPE, -EPROTO },       { PAGE_IS_DIRECTORY, -EPROTO },
	{ PAGE_UNREADABLE, -EPROTO }, { PAGE_OF_OTHER_SIZE, -EPROTO }, { PAGE_BITS_TOO_MANY, -EPROTO },
	{ PAGE_BITS_NONE, -EPROTO },  { PACKET_TOO_SMALL, -EPROTO },   { BATCH_NONE, -EPROTO },
	{ STREAM_IS_PIPE, -EPROTO },  { STREAM_IS_STREAM, -EPROTO },   { STREAM_IS_FILE, -EPROTO },
	{ STREAM_BLOCKS, -EPROTO },
};

TEST(a_strange_welcome_is_no_connection_and_leaves_nothing_behind)
{
	for (size_t i = 0; i < ARRAY_SIZE(hello_troubles); i++)
		expect_trouble_at_hello(&hello_troubles[i]);
}
END_TEST

/* Whether a page is taken from that peer: 0 or a negative errno. */
static int try_page(int fd, int socket)
{
	uint8_t *page = NULL;
	int r = page_map(fd, socket, &page);

	page_unmap(page);
	return r;
}

static int own_page(uid_t owner, mode_t mode)
{
	int fd = fake_memfd(WIRE_PAGE_BYTES);

	ck_assert_int_eq(fchmod(fd, mode), 0);
	if (owner != geteuid())
		ck_assert_int_eq(fchown(fd, owner, (gid_t)-1), 0);
	return fd;
}

enum { STRANGER = 4711 };

/* Of a daemon that is no root. Exits with 0, or the line that is wrong. */
static void try_pages_of(uid_t peer, const int *fds, const int *wanted, size_t n)
{
	int ends[2];

	if (geteuid() == 0 && setresuid(peer, peer, peer) < 0)
		_exit(100);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		_exit(101);
	for (size_t i = 0; i < n; i++)
		if (try_page(fds[i], ends[0]) != wanted[i])
			_exit((int)i + 1);
	_exit(0);
}

TEST(page_that_peer_may_shorten_is_refused)
{
	const bool root = geteuid() == 0;
	const uid_t peer = root ? 65534 : geteuid();
	const int fds[] = {
		fake_page_file(),
		own_page(peer, 0777),
		own_page(peer, 0660),
		own_page(peer, 0602),
		own_page(peer, 0644),
		own_page(peer, 0600),
		own_page(root ? 0 : peer, 0600),
		own_page(root ? STRANGER : peer, root ? 0644 : 0666),
	};
	const int wanted[] = { 0, -EPROTO, -EPROTO, -EPROTO, 0, 0, 0, -EPROTO };
	int status, ends[2];
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0)
		try_pages_of(peer, fds, wanted, ARRAY_SIZE(fds));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "page %d", WEXITSTATUS(status));
	/* Root is believed whatever it sends: it could do anything. */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	if (root)
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			ck_assert_int_eq(try_page(fds[i], ends[0]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

/* Through which nobody can write, or shorten it, whosever it is. */
TEST(page_on_read_only_mount_is_taken)
{
	char directory[64], path[96];
	int fd, wanted = 0, status;
	pid_t child;

	if (geteuid() != 0)
		return;
	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/page", directory);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("tmpfs", directory, "tmpfs", 0, NULL) < 0)
			_exit(77);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (ftruncate(fd, WIRE_PAGE_BYTES) < 0 || fchmod(fd, 0666) < 0 || fchown(fd, STRANGER, STRANGER) < 0)
			_exit(100);
		close(fd);
		if (mount(NULL, directory, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
			_exit(101);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		try_pages_of(65534, &fd, &wanted, 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	rmdir(directory);
	/* 77: no mounts may be made here. */
	ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77), "%d",
		      WEXITSTATUS(status));
}
END_TEST

static const struct trouble register_troubles[] = {
	{ HANG_UP, -ECONNRESET },    { ERROR_PACKET, -EPROTO },	  { GARBAGE, -EPROTO },
	{ HEADER_ONLY, -EPROTO },    { CUT_SHORT, -EPROTO },	  { TOO_LONG, -EPROTO },
	{ WRONG_SERIAL, -EPROTO },   { WRONG_KIND, -EPROTO },	  { MORE_FOLLOWS, -EPROTO },
	{ FD_MISSING, -EPROTO },     { FD_EXTRA, -EPROTO },	  { ANSWER_MISSING, -EPROTO },
	{ ANSWER_EXTRA, -EPROTO },   { BIT_ZERO, -EPROTO },	  { BIT_OUTSIDE, -EPROTO },
	{ STREAM_UNKNOWN, -EPROTO }, { STREAM_IS_PIPE, -EPROTO }, { STREAM_IS_STREAM, -EPROTO },
	{ STREAM_IS_FILE, -EPROTO }, { STREAM_BLOCKS, -EPROTO },
};

static void expect_trouble_at_register(const struct trouble *trouble)
{
	struct fake *fake = start();
	struct userev_event before = { 0 }, event = { 0 };
	struct userev *userev = open_to(fake);

	ck_assert_int_eq(userev_register(userev, &before, "before u32 number", 0), 0);
	fake_set(fake, keep_records = true);
	fake_set(fake, fresh_stream = true);
	fake_do(fake, trouble->mischief, KIND_REGISTER);
	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	fake_switch(fake, "event", true);
	expect_off(&event);
	fake_wait(fake, fake->ended == 1);
	ck_assert_int_eq(userev_connected(userev), trouble->error);
	fake_wait(fake, fake->ended == 2);
	fake_do(fake, GOOD, 0);
	fake_set(fake, keep_records = false);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &before, "before");
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

TEST(a_strange_answer_ends_the_connection_and_the_events_wait)
{
	for (size_t i = 0; i < ARRAY_SIZE(register_troubles); i++)
		expect_trouble_at_register(&register_troubles[i]);
}
END_TEST

TEST(the_next_batch_is_asked_for_before_the_last_is_answered)
{
	static struct userev_event event[100];
	struct userev_registration *registrations = many(event, 100, 40);
	struct fake *fake = start();
	struct userev *userev;

	fake_set(fake, welcome.batch_max = 30);
	fake_set(fake, ahead = 3);
	fake_set(fake, refuse = "event3");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	userev = open_to(fake);
	/* event3 and event30 to event39: in the first batch and the second. */
	ck_assert_int_eq(userev_register_all(userev, registrations, 100), 11);
	ck_assert_uint_eq(fake->alone, 0);
	ck_assert_uint_eq(fake->registers, 4);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(registrations[i].result, i == 3 || i / 10 == 3 ? -EDQUOT : 0);
	expect_alive(fake, &event[2], "event2");
	expect_alive(fake, &event[29], "event29");
	expect_alive(fake, &event[99], "event99");
	expect_off(&event[30]);
	userev_close(userev);
	free_many(registrations, 100);
	fake_free(fake);
}
END_TEST

/* Whatever was asked ahead is asked anew; nobody mistakes its answer for another. */
TEST(a_strange_answer_with_another_batch_behind_it_costs_nothing_but_time)
{
	static const enum mischief all[] = { HANG_UP, ERROR_PACKET, GARBAGE, WRONG_SERIAL, ANSWER_MISSING };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct userev_event event[100] = { 0 };
		struct userev_registration *registrations = many(event, 100, 40);
		struct fake *fake = start();
		struct userev *userev;

		fake_set(fake, welcome.batch_max = 30);
		fake_do(fake, all[i], KIND_REGISTER);
		userev = open_to(fake);
		ck_assert_int_eq(userev_register_all(userev, registrations, 100), 0);
		expect_off(&event[99]);
		fake_wait(fake, fake->ended == 1);
		fake_do(fake, GOOD, 0);
		ck_assert_int_eq(userev_connected(userev), 0);
		expect_alive(fake, &event[0], "event0");
		expect_alive(fake, &event[99], "event99");
		userev_close(userev);
		free_many(registrations, 100);
		fake_free(fake);
	}
}
END_TEST

/* Its successor can't know whether it has left. */
TEST(an_answer_that_comes_twice_is_heard_once)
{
	static const uint16_t kinds[] = { KIND_HELLO, KIND_REGISTER, KIND_RELEASE };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct userev_event event[3] = { 0 };
		struct fake *fake = start();
		struct userev *userev;
		int fds;

		fake_do(fake, TWICE, kinds[i]);
		userev = open_to(fake);
		fds = count_open_fds();
		ck_assert_int_eq(userev_register(userev, &event[0], "event0 u32 x", 0), 0);
		ck_assert_int_eq(userev_register(userev, &event[1], "event1 u32 x", 0), 0);
		userev_release(userev, &event[1]);
		ck_assert_int_eq(userev_connected(userev), 0);
		ck_assert_int_eq(userev_register(userev, &event[2], "event2 u32 x", 0), 0);
		expect_alive(fake, &event[0], "event0");
		expect_alive(fake, &event[2], "event2");
		ck_assert_uint_eq(fake->accepted, 1);
		ck_assert_int_le(count_open_fds(), fds + 2); /* the fake daemon's and our end of the stream */
		userev_close(userev);
		fake_free(fake);
	}
}
END_TEST

TEST(a_hang_up_between_two_batches_costs_nothing_but_time)
{
	static struct userev_event event[100];
	struct userev_registration *registrations = many(event, 100, 40);
	struct fake *fake = start();
	struct userev *userev;

	fake_set(fake, welcome.batch_max = 40);
	fake_set(fake, refuse = "event99");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register_all(userev, registrations, 90), 0);
	/* Ten more, and the daemon goes: they are registered and wait. */
	fake_do(fake, HANG_UP, KIND_REGISTER);
	ck_assert_int_eq(userev_register_all(userev, registrations + 90, 10), 0);
	fake_do(fake, GOOD, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_refusal(), "because");
	expect_alive(fake, &event[0], "event0");
	expect_alive(fake, &event[98], "event98");
	expect_off(&event[99]);
	userev_close(userev);
	free_many(registrations, 100);
	fake_free(fake);
}
END_TEST

TEST(a_strange_answer_to_a_release_leaves_the_other_events_alone)
{
	static const enum mischief all[] = { HANG_UP,  ERROR_PACKET, GARBAGE,	 HEADER_ONLY, CUT_SHORT,
					     TOO_LONG, WRONG_SERIAL, WRONG_KIND, FD_EXTRA };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct fake *fake = start();
		struct userev *userev = open_to(fake);
		struct userev_event event = { 0 }, other = { 0 };

		ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
		ck_assert_int_eq(userev_register(userev, &other, "other", 0), 0);
		fake_set(fake, keep_records = true);
		fake_do(fake, all[i], KIND_RELEASE);
		userev_release(userev, &event);
		expect_off(&event);
		/* No connection, but page and stream are ours. */
		expect_alive(fake, &other, "other");
		fake_wait(fake, fake->ended == 1);
		fake_set(fake, keep_records = false);
		ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
		expect_alive(fake, &event, "event");
		expect_alive(fake, &other, "other");
		userev_close(userev);
		fake_free(fake);
	}
}
END_TEST

TEST(what_the_daemon_says_when_it_hangs_up_is_told)
{
	struct fake *fake = start();
	struct userev *userev;

	fake_do(fake, HANG_UP_UNREAD, KIND_HELLO);
	userev = open_to(fake);
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	ck_assert_int_eq(userev_connected(userev), -EPROTO);
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(what_the_daemon_said_before_our_request_is_told_and_costs_it_nothing)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	fake_lock(fake);
	fake_error(fake->connection[0].fd, 0);
	shutdown(fake->connection[0].fd, SHUT_RDWR);
	fake_unlock(fake);
	ck_assert_int_eq(userev_register(userev, &event, "event u32 number", 0), 0);
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_daemon_that_is_silent_for_long_is_given_up_wherever_it_falls_silent)
{
	struct fake *fake = start();
	struct userev_event event = { 0 }, other = { 0 };
	struct userev *userev;

	library_silence_ms = 60;
	library_patience_ms = 20000;
	fake_do(fake, SILENT, KIND_HELLO);
	userev = open_to(fake);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	fake_wait(fake, fake->ended == 2);

	fake_do(fake, SILENT, KIND_REGISTER);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	expect_off(&event);
	ck_assert_str_eq(userev_why(&event), "the daemon does not answer");

	fake_do(fake, GOOD, 0);
	library_silence_ms = 20000;
	ck_assert_int_eq(userev_register(userev, &other, "other u32 number", 0), 0);
	fake_do(fake, SILENT, KIND_RELEASE);
	library_silence_ms = 60;
	userev_release(userev, &event);
	expect_off(&event);
	fake_wait(fake, fake->accepted == fake->ended);

	fake_do(fake, GOOD, 0);
	library_silence_ms = 20000;
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &other, "other");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

static void on_alarm(int signal _unused_)
{
}

TEST(signals_do_not_prolong_the_wait)
{
	const struct itimerval often = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };
	struct sigaction action = { .sa_handler = on_alarm };
	struct fake *fake = start();
	struct userev *userev;

	sigaction(SIGALRM, &action, NULL);
	library_patience_ms = 100;
	fake_do(fake, SILENT, KIND_HELLO);
	setitimer(ITIMER_REAL, &often, NULL);
	userev = open_to(fake);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_daemon_that_does_not_accept_is_given_up)
{
	const struct itimerval often = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };
	struct sigaction action = { .sa_handler = on_alarm };
	struct fake *fake = fake_new();
	int listener = fake_listen(fake->path, 0);
	struct userev *userev;

	library_patience_ms = 60;
	/* The first connection is all that the backlog takes. */
	userev = open_to(fake);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	userev_close(userev);
	close(listener);
	unlink(fake->path);
	fake_free(fake);
}
END_TEST

TEST(a_connection_that_was_given_up_has_ended_for_the_daemon_and_so_has_its_stream)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	struct userev_event other = { 0 };
	int old_stream;

	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	fake_set(fake, keep_records = true);
	library_silence_ms = 60;
	fake_do(fake, SILENT, KIND_REGISTER);
	ck_assert_int_eq(userev_register(userev, &other, "other", 0), 0);
	library_silence_ms = 20000;
	fake_wait(fake, fake->ended == 1);
	old_stream = fake->connection[0].records;
	ck_assert_int_lt(recv(old_stream, &(char){ 0 }, 1, 0), 0);
	/* In force until there is something better: then it is closed, and not only when the event is released. */
	expect_alive(fake, &event, "event");
	fake_do(fake, GOOD, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(recv(old_stream, &(char){ 0 }, 1, 0), 0);
	expect_alive(fake, &event, "event");
	fake_set(fake, keep_records = false);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* The daemon is in this process, so it is the client alone that must run out: for its socket, or for what it is sent. */
TEST(no_fd_left_means_no_connection_for_now)
{
	struct fake *fake = start();
	struct userev *userev = userev_open(NO_DAEMON, 0);
	struct userev_event event = { 0 };
	struct rlimit limit, tight;

	getrlimit(RLIMIT_NOFILE, &limit);
	tight = (struct rlimit){ .rlim_cur = (rlim_t)lowest_free_fd(), .rlim_max = limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &tight);
	ck_assert_int_eq(userev_connected(userev), -EMFILE);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	expect_off(&event);
	setrlimit(RLIMIT_NOFILE, &limit);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* Which socket */

TEST(the_environment_names_the_socket_and_the_caller_overrules_it)
{
	struct fake *fake = start();
	struct userev *userev;

	setenv("USEREV_SOCKET", fake->path, 1);
	userev = userev_open(NULL, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	userev_close(userev);
	userev = userev_open(NO_DAEMON, 0);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(flags_and_endless_paths_are_refused)
{
	char path[200];

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	ck_assert_ptr_null(userev_open(NULL, 1));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(userev_open(path, 0));
	ck_assert_int_eq(errno, ENAMETOOLONG);
	path[107] = '\0';
	userev_close(userev_open(path, 0));
	path[107] = 'x';
	path[108] = '\0';
	ck_assert_ptr_null(userev_open(path, 0));
}
END_TEST

/* Processes and threads */

static int wait_for_child(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int be_the_child(struct userev *userev, struct userev_event *event, struct userev_event *own)
{
	if (!userev_enabled(event) || userev_write(event, "child", 5) != 5)
		return 1;
	if (userev_register(userev, own, "own", 0) != 0 || !userev_event_name(own))
		return 2;
	/* Through a stream of its own from now on. */
	if (!userev_enabled(event) || userev_write(event, "again", 5) != 5)
		return 3;
	userev_release(userev, event);
	userev_close(userev);
	return userev_enabled(own) ? 4 : 0;
}

static void expect_record(struct fake *fake, uint32_t stream, const char *text)
{
	char got[16] = "";
	uint32_t index;

	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), (ssize_t)strlen(text));
	ck_assert_str_eq(got, text);
	ck_assert_uint_eq(index / FAKE_STREAM, stream);
}

static void expect_that_a_child_goes_on(pid_t (*make_child)(void))
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, own = { 0 };
	pid_t child;

	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	fake_switch(fake, "event", true);
	fake_set(fake, keep_records = true);
	child = make_child();
	if (child == 0)
		_exit(be_the_child(userev, &event, &own));
	ck_assert_int_eq(wait_for_child(child), 0);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->hellos, 2);
	expect_record(fake, 1, "child");
	expect_record(fake, 2, "again");
	ck_assert_int_eq(userev_write(&event, "parent", 6), 6);
	expect_record(fake, 1, "parent");
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_uint_eq(fake->hellos, 2);
	ck_assert_uint_eq(fake->releases, 1);
	fake_set(fake, keep_records = false);
	userev_close(userev);
	fake_free(fake);
}

static pid_t raw_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

TEST(a_forked_child_goes_on_and_makes_a_connection_of_its_own)
{
	expect_that_a_child_goes_on(fork);
}
END_TEST

TEST(so_does_one_that_libc_was_not_told_of)
{
	expect_that_a_child_goes_on(raw_fork);
}
END_TEST

TEST(a_child_does_not_hide_its_parents_end)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	int hold[2];
	pid_t child;

	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		char byte;

		close(hold[1]);
		_exit(read(hold[0], &byte, 1) == 0 && !userev_enabled(&event) ? 0 : 1);
	}
	close(hold[0]);
	/* As if the parent had died, which does not shut anything down. */
	close(userev->fd);
	fake_wait(fake, fake->ended == 1);
	close(hold[1]);
	ck_assert_int_eq(wait_for_child(child), 0);
	userev->fd = -1;
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_childs_losses_are_its_own)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pid_t child;

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
	fake_switch(fake, "event", true);
	atomic_fetch_add(&userev->unreported.queue_full, 7);
	child = fork();
	if (child == 0) {
		userev_write(&event, (char[5000]){ 0 }, 5000);
		userev_connected(userev);
		userev_close(userev);
		_exit(0);
	}
	ck_assert_int_eq(wait_for_child(child), 0);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.too_big, 1);
	ck_assert_uint_eq(fake->lost.queue_full, 0);
	userev_close(userev);
	fake_wait(fake, fake->ended == 2);
	ck_assert_uint_eq(fake->lost.queue_full, 7);
	fake_free(fake);
}
END_TEST

TEST(a_child_that_libc_was_not_told_of_reports_nothing_in_its_parents_name)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pid_t child;

	ck_assert_int_eq(userev_register(userev, &event, "event char[8] text", 0), 0);
	fake_switch(fake, "event", true);
	child = raw_fork();
	if (child == 0)
		_exit(userev_write(&event, (char[5000]){ 0 }, 5000) == -E2BIG ? 0 : 1);
	ck_assert_int_eq(wait_for_child(child), 0);
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.too_big, 0);
	fake_free(fake);
}
END_TEST

struct asker {
	struct userev *userev;
	struct userev_event event;
};

static void *ask_a_silent_daemon(void *data)
{
	struct asker *asker = data;

	userev_register(asker->userev, &asker->event, "event", 0);
	return NULL;
}

TEST(a_fork_while_a_thread_waits_leaves_the_child_free)
{
	struct fake *fake = start();
	struct asker asker = { .userev = open_to(fake) };
	struct userev_event own = { 0 };
	pthread_t thread;
	pid_t child;

	library_patience_ms = 100;
	fake_do(fake, SILENT, KIND_REGISTER);
	pthread_create(&thread, NULL, ask_a_silent_daemon, &asker);
	fake_wait(fake, fake->packets > 2);
	child = fork();
	if (child == 0)
		_exit(userev_register(asker.userev, &own, "own", 0) == 0 && own.place.whole != 0 ? 0 : 1);
	/* So the thread had finished: it did not wait any longer. */
	ck_assert_int_eq(asker.userev->n_asked, 1);
	ck_assert_int_eq(wait_for_child(child), 0);
	pthread_join(thread, NULL);
	userev_close(asker.userev);
	fake_free(fake);
}
END_TEST

struct hammer {
	struct userev *userev;
	struct userev_event *event;
	atomic_bool stop;
	atomic_int records;
};

static void *hammer(void *data)
{
	struct hammer *hammer = data;

	while (!hammer->stop)
		for (int i = 0; i < 8; i++)
			if (userev_enabled(&hammer->event[i]) && userev_write(&hammer->event[i], "data", 4) == 4)
				hammer->records++;
	return NULL;
}

static void *register_and_release(void *data)
{
	struct hammer *hammer = data;
	struct userev_event own = { 0 };

	while (!hammer->stop) {
		userev_register(hammer->userev, &own, "own", 0);
		userev_release(hammer->userev, &own);
	}
	return NULL;
}

/* fake_record() asserts that no index goes to a stream that it does not belong to. */
static void drain(struct fake *fake, int least)
{
	uint32_t index;
	char got[8];

	for (int n = 0; n < least; usleep(100))
		while (fake_record(fake, &index, got, sizeof(got)) >= 0)
			n++;
}

TEST(threads_write_while_daemons_come_and_go)
{
	struct fake *fake = start();
	struct userev_event event[8] = { 0 };
	struct hammer state = { .event = event };
	pthread_t thread[4];
	char name[8][8];

	state.userev = open_to(fake);
	for (int i = 0; i < 8; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		ck_assert_int_eq(userev_register(state.userev, &event[i], name[i], 0), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 3 ? hammer : register_and_release, &state);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 8; i++)
			fake_switch(fake, name[(i + round) % 8], true);
		userev_connected(state.userev);
		drain(fake, 20);
		fake_stop(fake);
		fake_start(fake);
	}
	state.stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_gt(state.records, 0);
	userev_close(state.userev);
	fake_free(fake);
}
END_TEST

/* As userev_emit() does, when it has seen that the event is on. */
static void *write_whatever_it_is(void *data)
{
	struct hammer *hammer = data;

	while (!hammer->stop) {
		struct iovec pieces[2] = { { 0 }, { (char[]){ "data" }, 4 } };

		userev_write_pieces(hammer->event, pieces, 2);
	}
	return NULL;
}

/* Of both connections, fake_record() asserts the same. */
TEST(nobody_ever_pairs_an_index_with_the_stream_of_another)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake), *second = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };
	struct hammer state = { .event = &event };
	union userev_place place[2];
	pthread_t thread[2];
	uint32_t index;
	char got[8];

	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	ck_assert_int_eq(userev_register(second, &other, "other", 0), 0);
	fake_switch(fake, "event", true);
	fake_switch(fake, "other", true);
	place[0] = event.place;
	place[1] = other.place;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, write_whatever_it_is, &state);
	for (int records = 0; records < 10000;) {
		for (int i = 0; i < 100; i++)
			event_is_granted(&event, place[i % 2]);
		records += fake_record(fake, &index, got, sizeof(got)) >= 0;
	}
	state.stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	userev_close(userev);
	userev_close(second);
	fake_free(fake);
}
END_TEST

static void *wait_to_be_cancelled(void *data)
{
	ask_a_silent_daemon(data);
	for (;;)
		pause();
	return NULL;
}

TEST(a_cancelled_thread_leaves_the_library_first)
{
	struct fake *fake = start();
	struct asker asker = { .userev = open_to(fake) };
	pthread_t thread;
	void *result;

	library_patience_ms = 100;
	fake_do(fake, SILENT, KIND_REGISTER);
	pthread_create(&thread, NULL, wait_to_be_cancelled, &asker);
	fake_wait(fake, fake->packets > 2);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	fake_do(fake, GOOD, 0);
	library_patience_ms = 20000;
	asker.userev->heard_at -= library_silence_ms;
	ck_assert_int_eq(userev_connected(asker.userev), 0);
	expect_alive(fake, &asker.event, "event");
	userev_close(asker.userev);
	fake_free(fake);
}
END_TEST

TEST(every_fd_is_close_on_exec_and_none_is_a_standard_one)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;
	int saved[3];

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
		close(fd);
	}
	fake_set(fake, early_stream = true);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), 0);
	ck_assert_int_gt(userev->fd, 2);
	ck_assert_int_gt(stream_at(event.place)->fd, 2);
	ck_assert_int_eq(fcntl(userev->fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(stream_at(event.place)->fd, F_GETFD), FD_CLOEXEC);
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_gt(stream_at(event.place)->fd, 2);
	ck_assert_int_eq(fcntl(userev->fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(stream_at(event.place)->fd, F_GETFD), FD_CLOEXEC);
	/* And what stands where the old one was. */
	ck_assert_int_eq(fcntl(TAILQ_FIRST(&userev->resting)->fd, F_GETFD), FD_CLOEXEC);
	userev_close(userev);
	fake_free(fake);
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
}
END_TEST

TEST(the_version_is_three_numbers)
{
	int major, minor, patch;

	ck_assert_int_eq(sscanf(userev_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}
END_TEST

SUITE("client", an_event_that_was_never_registered_is_off, an_answer_that_comes_twice_is_heard_once,
      without_a_daemon_events_are_registered_and_off, a_socket_where_nobody_listens_is_a_refused_connection,
      full_queue_is_tried_again_soon_and_no_failure, an_event_is_on_while_its_bit_is_set_whatever_its_neighbours_are,
      a_record_is_the_index_and_the_pieces_in_their_order, an_event_that_is_off_writes_nothing,
      a_payload_above_what_tracers_hold_is_refused_and_counted, the_daemon_says_how_large_a_payload_may_be,
      a_full_queue_loses_the_record_and_the_daemon_is_told, losses_that_could_not_be_told_are_told_the_next_daemon,
      losses_are_told_at_most_now_and_then_and_by_a_later_write,
      losses_that_the_daemon_could_not_be_told_are_told_the_next_one, a_daemon_that_has_gone_is_no_error_and_no_signal,
      errno_is_not_touched, a_thousand_of_the_longest_events_take_ten_packets_in_all,
      ten_thousand_events_are_no_trouble,
      an_event_that_is_registered_by_hand_costs_its_description_and_little_more_and_that_comes_back,
      the_daemons_limits_are_kept, the_smallest_packet_still_takes_the_longest_description, registering_nothing_is_fine,
      each_event_of_a_batch_has_its_own_result, every_refusal_is_an_errno_and_an_unknown_one_is_trouble,
      nothing_is_kept_of_a_refused_event, what_the_library_can_see_itself_it_refuses_itself, flags_reach_the_daemon,
      a_refusal_is_the_threads_own_and_ends_with_its_next_call, a_sentence_of_any_length_is_cut_where_the_buffer_ends,
      an_event_has_the_name_that_the_daemon_gave_it,
      a_name_stays_what_it_is_until_the_event_is_released_though_another_daemon_gives_it_another,
      an_event_that_is_granted_at_last_is_not_refused_any_more, an_event_at_several_places_is_given_back_by_the_last,
      nobody_releases_the_event_of_another_connection, a_released_event_may_be_freed_while_others_go_on,
      waiting_events_come_alive_when_the_daemon_is_there, a_restarted_daemon_gets_all_claims_and_may_number_them_anew,
      a_claim_that_a_new_daemon_refuses_is_off_and_waits_for_the_next,
      a_stream_may_come_early_or_late_or_be_followed_by_another,
      a_strange_welcome_is_no_connection_and_leaves_nothing_behind, page_that_peer_may_shorten_is_refused,
      page_on_read_only_mount_is_taken, a_strange_answer_ends_the_connection_and_the_events_wait,
      the_next_batch_is_asked_for_before_the_last_is_answered,
      a_strange_answer_with_another_batch_behind_it_costs_nothing_but_time,
      a_hang_up_between_two_batches_costs_nothing_but_time, a_strange_answer_to_a_release_leaves_the_other_events_alone,
      what_the_daemon_says_when_it_hangs_up_is_told,
      a_daemon_that_is_silent_for_long_is_given_up_wherever_it_falls_silent, signals_do_not_prolong_the_wait,
      a_daemon_that_does_not_accept_is_given_up,
      a_connection_that_was_given_up_has_ended_for_the_daemon_and_so_has_its_stream,
      no_fd_left_means_no_connection_for_now, the_environment_names_the_socket_and_the_caller_overrules_it,
      flags_and_endless_paths_are_refused, a_forked_child_goes_on_and_makes_a_connection_of_its_own,
      so_does_one_that_libc_was_not_told_of, a_child_does_not_hide_its_parents_end, a_childs_losses_are_its_own,
      a_child_that_libc_was_not_told_of_reports_nothing_in_its_parents_name,
      a_flood_of_losses_is_not_a_flood_of_packets, what_the_daemon_said_before_our_request_is_told_and_costs_it_nothing,
      a_fork_while_a_thread_waits_leaves_the_child_free, threads_write_while_daemons_come_and_go,
      nobody_ever_pairs_an_index_with_the_stream_of_another, a_cancelled_thread_leaves_the_library_first,
      every_fd_is_close_on_exec_and_none_is_a_standard_one, the_version_is_three_numbers)
