/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Registering, refusals, names and releases. */

#include "tests/unit/client/library/library_test.h"

/* The fake daemon asserts that no packet is longer than WELCOME allows, and no batch larger. */
TEST(batches_respect_limits_of_welcome)
{
	static const struct {
		uint32_t packet_max;
		uint32_t batch_max;
		size_t events;
		size_t length; /* of their descriptions */
		unsigned registers;
	} rows[] = {
		/* A daemon that accepts larger packets than the library sends. */
		{ UINT32_MAX, UINT32_MAX, 1000, WIRE_DESCRIPTION_MAX, 4 },
		{ UINT32_MAX, 7, 100, 200, 15 },
		{ 700, 10, 100, 200, 34 },
		{ 536, UINT32_MAX, 3, WIRE_DESCRIPTION_MAX, 3 },
		{ UINT32_MAX, UINT32_MAX, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		library_test_begin(true, false);
		fake_set(welcome.packet_max = rows[i].packet_max);
		fake_set(welcome.batch_max = rows[i].batch_max);
		userev = open_library();
		ck_assert_int_eq(userev_register_all(userev, many(rows[i].events, rows[i].length), rows[i].events), 0);
		ck_assert_uint_eq(fake_daemon->items, rows[i].events);
		ck_assert_uint_eq(fake_daemon->registers, rows[i].registers);
		if (rows[i].events > 0) {
			expect_alive(&events[0], "event0");
			expect_alive(&events[2], "event2");
			expect_alive(&events[rows[i].events - 1], fake_daemon->name[fake_daemon->events]);
		}
		library_test_end();
	}
}

/* As where the system's default is less than a packet. */
WITH_DAEMON(packet_beyond_the_send_buffer_is_sent)
{
	expect_connected();
	ck_assert_int_eq(setsockopt(userev->connection.fd, SOL_SOCKET, SO_SNDBUF, &(int){ 4096 }, sizeof(int)), 0);
	ck_assert_int_eq(userev_register_all(userev, many(200, 200), 200), 0);
	ck_assert_uint_eq(fake_daemon->items, 200);
	expect_alive(&events[0], "event0");
}

/* AddressSanitizer has an allocator of its own. */
#ifdef __SANITIZE_ADDRESS__
static const size_t BYTES_EACH = SIZE_MAX / 1000;
#else
static const size_t BYTES_EACH = sizeof("event999") + 64 + 110;
#endif

WITH_DAEMON(event_by_hand_costs_description_and_110_bytes)
{
	struct userev_registration *registrations = many(1000, 64);
	const size_t before = memory_mapped;
	size_t all;

	ck_assert_int_eq(userev_register_all(userev, registrations, 1000), 0);
	all = memory_mapped;
	ck_assert_uint_le(all - before, 1000 * BYTES_EACH);
	for (int i = 0; i < 1000; i++)
		userev_release(userev, &events[i]);
	ck_assert_int_eq(userev_register_all(userev, registrations, 1000), 0);
	/* Except for the bitmap of released bits. */
	ck_assert_uint_le(memory_mapped - all, 2 * WIRE_PAGE_BYTES);
}

WITH_DAEMON(each_registration_has_its_own_result)
{
	static struct userev_event good, bad, also_good;
	struct userev_registration all[] = {
		{ .event = &good, .description = "good u32 number", .result = 99 },
		{ .event = &bad, .description = "bad long number", .result = 99 },
		{ .event = &good, .description = "good_again", .result = 99 },
		{ .event = &also_good, .description = "also_good", .result = 99, .why = "not asked" },
	};

	fake_refuse("bad", REFUSAL_BAD_DESCRIPTION);
	fake_set(sentence = "field 1: 'long' has no fixed size; use s64 or u64");
	ck_assert_int_eq(userev_register_all(userev, all, ARRAY_SIZE(all)), 2);
	ck_assert_int_eq(all[0].result, 0);
	ck_assert_int_eq(all[1].result, -EINVAL);
	ck_assert_int_eq(all[2].result, -EBUSY);
	ck_assert_int_eq(all[3].result, 0);
	ck_assert_ptr_null(all[0].why);
	ck_assert_str_eq(all[1].why, fake_daemon->sentence);
	ck_assert_ptr_nonnull(strstr(all[2].why, "release it first"));
	ck_assert_ptr_null(all[3].why);
	ck_assert_str_eq(userev_refusal(), fake_daemon->sentence);
	expect_alive(&good, "good");
	expect_alive(&also_good, "also_good");
	expect_off(&bad);
}

/* Also of a later version of the daemon, and without a sentence. A refused event may be freed. */
WITH_DAEMON(refusal_is_errno_and_sentence_and_leaves_nothing)
{
	struct userev_event *refused = calloc(1, sizeof(*refused));

	fake_refuse("event", REFUSAL_NOT_PERMITTED);
	ck_assert_int_eq(userev_register(userev, refused, "event", 0), -EACCES);
	ck_assert_str_eq(userev_refusal(), "because");
	fake_refuse("event", 54321);
	ck_assert_int_eq(userev_register(userev, refused, "event", 0), -EIO);
	fake_refuse("event", REFUSAL_QUOTA_EXCEEDED);
	fake_set(sentence = "");
	ck_assert_int_eq(userev_register(userev, refused, "event", 0), -EDQUOT);
	ck_assert_str_eq(userev_refusal(), "quota-exceeded");
	ck_assert_uint_eq(refused->place.whole, 0);
	userev_release(userev, refused);
	ck_assert_uint_eq(fake_daemon->releases, 0);
	free(refused);
	fake_set(items = 0);
	fake_restart();
	expect_connected();
	ck_assert_uint_eq(fake_daemon->items, 0);
}

WITH_DAEMON(library_refuses_without_asking_daemon)
{
	char description[WIRE_DESCRIPTION_MAX + 2];

	memset(description, 'e', sizeof(description));
	description[WIRE_DESCRIPTION_MAX + 1] = '\0';
	ck_assert_int_eq(userev_register(userev, &event, description, 0), -EINVAL);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "511"));
	ck_assert_int_eq(userev_register(userev, &event, "event", 1 << 2), -EINVAL);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "flags"));
	ck_assert_uint_eq(fake_daemon->items, 0);
	description[WIRE_DESCRIPTION_MAX] = '\0';
	ck_assert_int_eq(userev_register(userev, &event, description, USEREV_PERSIST | USEREV_MULTI_FORMAT), 0);
	ck_assert_uint_eq(fake_daemon->flags, REGISTER_PERSIST | REGISTER_MULTI_FORMAT);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EBUSY);
	ck_assert_uint_eq(fake_daemon->items, 1);
}

static void *expect_no_refusal(void *data)
{
	ck_assert_str_eq(userev_refusal(), "");
	return data;
}

WITH_DAEMON(refusal_is_per_thread_until_next_call)
{
	pthread_t thread;

	ck_assert_str_eq(userev_refusal(), "");
	fake_refuse("event", REFUSAL_NOT_PERMITTED);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EACCES);
	pthread_create(&thread, NULL, expect_no_refusal, NULL);
	pthread_join(thread, NULL);
	ck_assert_str_eq(userev_refusal(), "because");
	expect_connected();
	ck_assert_str_eq(userev_refusal(), "");
}

TEST(long_refusal_is_truncated)
{
	char buffer[300];

	memset(buffer, 'x', sizeof(buffer));
	sentence_set_last(buffer, sizeof(buffer));
	ck_assert_uint_eq(strlen(userev_refusal()), WIRE_SENTENCE_MAX);
}

static void restart_with_prefix(const char *prefix)
{
	fake_set(prefix = prefix);
	fake_restart();
	expect_connected();
}

/* A name that was returned stays valid until the event is released. */
WITH_DAEMON(name_is_the_daemons_and_stays_valid)
{
	const char *plain, *first;

	register_event(&other, "bare");
	ck_assert_str_eq(userev_event_name(&other), "bare");
	register_event(&event, "event:flag u32 number");
	plain = userev_event_name(&event);
	userev_release(userev, &other);
	ck_assert_ptr_null(userev_event_name(&other));
	restart_with_prefix("first_");
	first = userev_event_name(&event);
	ck_assert_str_eq(first, "first_event");
	restart_with_prefix("second_");
	ck_assert_str_eq(userev_event_name(&event), "second_event");
	restart_with_prefix(NULL);
	ck_assert_str_eq(userev_event_name(&event), "event");
	ck_assert_str_eq(first, "first_event");
	ck_assert_str_eq(plain, "event");
	close_library();
	ck_assert_ptr_null(userev_event_name(&event));
}

WITH_DAEMON(last_of_equal_events_releases_the_bit)
{
	static struct userev_event one, two;

	register_event(&other, "other");
	register_event(&one, "event u32 number");
	register_event(&two, "event  u32  number");
	fake_switch("event", true);
	ck_assert(userev_enabled(&one) && userev_enabled(&two));
	userev_release(userev, &one);
	ck_assert_uint_eq(fake_daemon->releases, 0);
	ck_assert(!userev_enabled(&one) && userev_enabled(&two));
	userev_release(userev, &one);
	ck_assert_uint_eq(fake_daemon->releases, 0);
	userev_release(userev, &two);
	ck_assert_uint_eq(fake_daemon->releases, 1);
	ck_assert_uint_eq(fake_daemon->released_bit, 2);
	ck_assert(!userev_enabled(&two));
	register_event(&two, "event u32 number");
	ck_assert(userev_enabled(&two));
	/* After a scan that found all bits different. */
	register_event(&one, "event u32 number");
	userev_release(userev, &one);
	close_library();
	ck_assert_uint_eq(fake_daemon->releases, 1);
}

WITH_EVENT_ON(release_on_wrong_connection_does_nothing)
{
	struct userev *wrong = open_library();

	userev_release(wrong, &event);
	ck_assert_str_eq(userev_event_name(&event), "event");
	userev_close(wrong);
	expect_alive(&event, "event");
	close_library();
	expect_off(&event);
}

WITH_DAEMON(released_event_may_be_freed)
{
	static const char *const names[] = { "zero", "one", "two", "three", "four" };
	struct userev_event *freed[5];

	for (int i = 0; i < 5; i++) {
		freed[i] = calloc(1, sizeof(*freed[i]));
		register_event(freed[i], names[i]);
	}
	/* Released in the middle, at the end, at the front. */
	for (int i = 2; i < 7; i += 2) {
		userev_release(userev, freed[i % 5]);
		free(freed[i % 5]);
	}
	fake_restart();
	expect_connected();
	expect_alive(freed[0], names[0]);
	expect_alive(freed[3], names[3]);
	close_library();
	free(freed[0]);
	free(freed[3]);
}
