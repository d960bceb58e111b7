/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Registering, refusals, names and releases. */

#include "tests/unit/client/library/library_test.h"

TEST(thousand_longest_events_take_ten_packets)
{
	static struct userev_event event[1000];
	struct fake *fake = start();
	struct userev_registration *registrations = many(event, 1000, WIRE_DESCRIPTION_MAX);
	struct userev *userev;

	fake_set(fake, all_new = true);
	/* A daemon that accepts larger packets than the library sends. */
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

TEST(ten_thousand_events_can_be_registered)
{
	static struct userev_event event[10000];
	struct fake *fake = fake_new();
	struct userev_registration *registrations = many(event, 10000, 20);
	struct userev *userev = open_to(fake);

	fake_set(fake, all_new = true);
	for (size_t i = 0; i < 5000; i++)
		register_event(userev, &event[i], registrations[i].description);
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

/* AddressSanitizer has an allocator of its own. */
#ifdef __SANITIZE_ADDRESS__
static const size_t BYTES_EACH = SIZE_MAX / 1000;
#else
static const size_t BYTES_EACH = sizeof("event999") + 64 + 110;
#endif

TEST(event_by_hand_costs_description_and_110_bytes)
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
	/* Except for the bitmap of released bits. */
	ck_assert_uint_le(memory_mapped - all, 2 * WIRE_PAGE_BYTES);
	free_many(registrations, 1000);
	userev_close(userev);
	fake_free(fake);
}

TEST(limits_of_welcome_are_respected)
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

TEST(smallest_packet_has_longest_description)
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

WITH_DAEMON(registering_nothing_returns_0)
{
	ck_assert_int_eq(userev_register_all(userev, NULL, 0), 0);
	ck_assert_uint_eq(fake->registers, 0);
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
}

TEST(each_refusal_is_an_errno)
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
	/* A refusal without a sentence. */
	fake_set(fake, sentence = "");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EDQUOT);
	ck_assert_str_eq(userev_refusal(), "quota-exceeded");
	userev_close(userev);
	fake_free(fake);
}

WITH_DAEMON(refused_event_leaves_nothing)
{
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
}

WITH_DAEMON(library_refuses_without_asking_daemon)
{
	static struct userev_event event;
	char description[WIRE_DESCRIPTION_MAX + 2];

	memset(description, 'e', sizeof(description));
	description[WIRE_DESCRIPTION_MAX + 1] = '\0';
	ck_assert_int_eq(userev_register(userev, &event, description, 0), -EINVAL);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "511"));
	ck_assert_int_eq(userev_register(userev, &event, "event", 1 << 2), -EINVAL);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "flags"));
	ck_assert_uint_eq(fake->items, 0);
	description[WIRE_DESCRIPTION_MAX] = '\0';
	register_event(userev, &event, description);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EBUSY);
	ck_assert_uint_eq(fake->items, 1);
}

WITH_DAEMON(flags_reach_the_daemon)
{
	static struct userev_event event;

	ck_assert_int_eq(userev_register(userev, &event, "event", USEREV_PERSIST | USEREV_MULTI_FORMAT), 0);
	ck_assert_uint_eq(fake->flags, REGISTER_PERSIST | REGISTER_MULTI_FORMAT);
}

static void *expect_no_refusal(void *data)
{
	ck_assert_str_eq(userev_refusal(), "");
	return data;
}

WITH_DAEMON(refusal_is_per_thread_until_next_call)
{
	static struct userev_event event;
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
}

TEST(long_refusal_is_truncated)
{
	char buffer[300];

	memset(buffer, 'x', sizeof(buffer));
	sentence_set_last(buffer, sizeof(buffer));
	ck_assert_uint_eq(strlen(userev_refusal()), WIRE_SENTENCE_MAX);
}

TEST(event_name_is_the_daemons)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event plain = { 0 }, bare = { 0 }, flagged = { 0 }, prefixed = { 0 };

	register_event(userev, &plain, "plain u32 number");
	register_event(userev, &bare, "bare");
	register_event(userev, &flagged, "flagged:some u32 number");
	fake_set(fake, prefix = "container7_");
	register_event(userev, &prefixed, "prefixed u32 number");
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

static void restart_with_prefix(struct fake *fake, struct userev *userev, const char *prefix)
{
	fake_stop(fake);
	fake_set(fake, prefix = prefix);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
}

/* A name that was returned stays valid until the event is released. */
WITH_DAEMON(name_stays_valid_across_daemons)
{
	static struct userev_event event;
	const char *plain, *first;

	register_event(userev, &event, "event:flag u32 number");
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
}

TEST(last_of_equal_events_releases_the_bit)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event one = { 0 }, two = { 0 }, other = { 0 };

	register_event(userev, &other, "other");
	register_event(userev, &one, "event u32 number");
	register_event(userev, &two, "event  u32  number");
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
	register_event(userev, &two, "event u32 number");
	ck_assert(userev_enabled(&two));
	/* After a scan that found all bits different. */
	register_event(userev, &one, "event u32 number");
	userev_release(userev, &one);
	userev_close(userev);
	ck_assert_uint_eq(fake->releases, 1);
	fake_free(fake);
}

TEST(release_on_wrong_connection_does_nothing)
{
	struct fake *fake = start();
	struct userev *ours = open_to(fake), *theirs = open_to(fake);
	struct userev_event event = { 0 };

	register_event(ours, &event, "event");
	userev_release(theirs, &event);
	ck_assert_str_eq(userev_event_name(&event), "event");
	userev_close(theirs);
	expect_alive(fake, &event, "event");
	userev_close(ours);
	expect_off(&event);
	fake_free(fake);
}

TEST(released_event_may_be_freed)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event *event[5];
	char name[5][8];

	for (int i = 0; i < 5; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		event[i] = calloc(1, sizeof(*event[i]));
		register_event(userev, event[i], name[i]);
	}
	/* Released in the middle, at the end, at the front. */
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
