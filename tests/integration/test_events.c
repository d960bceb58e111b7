/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events: registered, released, watched, counted and refused. Packets by hand. */

#include <stdio.h>

#include "tests/integration/actor.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

DAEMON_TEST(unknown_flags_refuse_that_event_alone)
{
	const struct {
		uint16_t flags;
		uint32_t refusal;
	} wanted[] = {
		{ REGISTER_PERSIST, refusal_to_persist(fixture) },
		{ REGISTER_MULTI_FORMAT, offers_multi_format(fixture) ? REFUSAL_NONE : REFUSAL_KERNEL_TOO_OLD },
		{ 4, REFUSAL_KERNEL_TOO_OLD },
		{ 0x8000, REFUSAL_KERNEL_TOO_OLD },
		{ 0, REFUSAL_NONE },
	};
	static struct batch batch;
	struct packet *to;
	size_t mark;
	_cleanup_(fd_closep) int socket = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	to = raw_packet(KIND_REGISTER);
	mark = encode_list(to, 0);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		encode_string(to, wanted[i].flags, "flagged", 7);
	encode_count(to, mark, ARRAY_SIZE(wanted));
	batch_ask(socket, &batch);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		ck_assert_uint_eq(batch.answer[i].refusal, wanted[i].refusal);
}

DAEMON_TEST(empty_batch_gets_an_empty_answer)
{
	static struct batch batch;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int control = raw_connect(fixture->control);

	batch_register(socket, NULL, 0, &batch, NULL);
	ck_assert_uint_eq(batch.reply.message.streams, 0);
	ck_assert_uint_eq(raw_release(socket, NULL, 0), 0);
	ck_assert_uint_eq(raw_rows(control, KIND_TRACE, TRACE_ON, (const char *const[]){ NULL }, NULL, NULL),
			  keeps_records_itself(fixture) ? REFUSAL_NO_SUCH_EVENT : REFUSAL_NOT_THE_TRACER);
}

DAEMON_TEST(batch_beyond_its_maximum_is_refused)
{
	const char *const *descriptions = numbered("batch_%u", 0, WIRE_BATCH_MAX + 1);
	static struct batch batch;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	batch_register(socket, descriptions, WIRE_BATCH_MAX, &batch, NULL);
	batch_expect(&batch, 0);
	for (size_t i = 0; i < WIRE_BATCH_MAX; i++)
		ck_assert_uint_eq(batch.answer[i].index, i);
	expect_status(fixture, "charges=%u", WIRE_BATCH_MAX);

	batch_put(descriptions, WIRE_BATCH_MAX + 1);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
}

DAEMON_TEST(event_registered_again_costs_nothing)
{
	static const char *const twice[] = { "again u32 a", "again  u32  a;" };
	static struct batch first, second;
	int none = -1;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	batch_register(socket, twice, 2, &first, &stream);
	batch_register(socket, twice, 2, &second, &none);
	ck_assert_int_ge(stream, 0);
	ck_assert_int_eq(none, -1);
	batch_expect(&first, 0);
	batch_expect(&second, 0);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(first.answer[i].bit, first.answer[0].bit);
		ck_assert_uint_eq(second.answer[i].bit, first.answer[0].bit);
		ck_assert_uint_eq(second.answer[i].stream, first.answer[0].stream);
		ck_assert_uint_eq(second.answer[i].index, first.answer[0].index);
	}
	expect_account(socket, "events=1 leases=1");
	expect_status(fixture, "charges=1");
}

DAEMON_TEST(event_released_twice_is_released_once)
{
	unsigned left = (unsigned)still_charged(fixture, 1, 1);
	uint32_t bit;
	_cleanup_(fd_closep) int stream = -1;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	take_batch(socket, (const char *const[]){ "released u32 a" }, 1, &bit, &stream);
	expect_status(fixture, "charges=1");
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	expect_status(fixture, "leases=0 charges=%u events=%u", left, left);
	expect_account(socket, "events=%u lingering=%u", left, left);
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 0);
	/* Twice in one packet counts once. */
	bit = expect_granted(socket, "released u32 a");
	ck_assert_uint_eq(raw_release(socket, (uint32_t[]){ bit, bit, 0, UINT32_MAX }, 4), 1);
}

DAEMON_TEST(event_released_by_one_client_stays_with_others)
{
	uint32_t ours, theirs;
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	_cleanup_(fd_closep) int another = fixture_client(fixture);

	ours = expect_granted(one, "both u32 a");
	theirs = expect_granted(another, "both u32 a");
	ck_assert_uint_eq(ours, theirs);
	expect_status(fixture, "charges=1");
	ck_assert_uint_eq(raw_release(one, &ours, 1), 1);
	expect_status(fixture, "charges=1");
	expect_account(another, "leases=1");
	ck_assert_uint_eq(raw_release(another, &theirs, 1), 1);
	/* No copy of their streams is open. */
	await_status(fixture, "charges=0");
}

/* The bits of the next packet, which is CHANGED; how many. */
static uint16_t receive_changed(int socket, uint16_t *ret_bits)
{
	struct wire_changed changed;
	struct raw_reply reply;
	struct cursor bits;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "no CHANGED came: %zd", reply.size);
	ck_assert_uint_eq(reply.message.kind, KIND_CHANGED);
	ck_assert_uint_eq(reply.message.serial, 0);
	ck_assert_int_eq(decode_changed(reply.message.body, &changed, &bits), 0);
	ck_assert_uint_eq(changed.payload_max, WIRE_PAYLOAD_MAX);
	for (uint16_t i = 0; i < changed.count; i++) {
		cursor_get(&bits, &ret_bits[i], sizeof(ret_bits[i]));
		ret_bits[i] = le16toh(ret_bits[i]);
	}
	return changed.count;
}

DAEMON_TEST(watching_client_hears_of_its_own_events)
{
	uint16_t bits[WIRE_BATCH_MAX];
	uint32_t bit;
	_cleanup_(fd_closep) int watcher = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);
	_cleanup_(fd_closep) int other = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	bit = expect_granted(watcher, "watched u32 a");
	expect_granted(other, "unwatched u32 a");
	raw_watch(watcher, true);

	/* CHANGED comes when the page has changed. It doesn't come for others' events, nor to a client that doesn't watch. */
	ck_assert_uint_eq(trace(fixture, "unwatched", true), 1);
	ck_assert_uint_eq(trace(fixture, "watched", true), 1);
	ck_assert_uint_eq(receive_changed(watcher, bits), 1);
	ck_assert_uint_eq(bits[0], bit);
	/* Switching an event on that is on changes nothing. */
	ck_assert_uint_eq(trace(fixture, "watched", true), 1);
	ck_assert_uint_eq(trace(fixture, "watched", false), 1);
	ck_assert_uint_eq(receive_changed(watcher, bits), 1);
	raw_query(watcher);

	raw_watch(watcher, false);
	ck_assert_uint_eq(trace(fixture, "watched", true), 1);
	raw_query(watcher);
	raw_watch(watcher, true);
	ck_assert_uint_eq(raw_release(watcher, &bit, 1), 1);
	ck_assert_uint_eq(trace(fixture, "watched", false), 1);
	raw_query(watcher);
	raw_query(other);
}

/* Registers `n` events in one packet and switches them on at once; how many of them the one CHANGED named. */
static uint16_t change_at_once(struct fixture *fixture, unsigned n, uint16_t *bits)
{
	uint16_t count;
	_cleanup_(fd_closep) int socket = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	take_batch(socket, numbered("many_%u", 0, n), n, NULL, NULL);
	raw_watch(socket, true);
	ck_assert_uint_eq(trace(fixture, "many_*", true), n);
	count = receive_changed(socket, bits);
	/* There is no second CHANGED. */
	raw_query(socket);
	ck_assert_uint_eq(trace(fixture, "many_*", false), n);
	return count;
}

DAEMON_TEST(changes_up_to_a_maximum_are_named)
{
	enum { NAMED_MAX = 64 };
	uint16_t bits[WIRE_BATCH_MAX];
	bool seen[WIRE_PAGE_BITS] = { false };

	ck_assert_uint_eq(change_at_once(fixture, NAMED_MAX, bits), NAMED_MAX);
	for (size_t i = 0; i < NAMED_MAX; i++) {
		ck_assert(!seen[bits[i]]);
		seen[bits[i]] = true;
	}
	await_status(fixture, "events=0");
	ck_assert_uint_eq(change_at_once(fixture, NAMED_MAX + 1, bits), 0);
}

static void report_lost(int socket, uint64_t queue_full, uint64_t too_big)
{
	encode_fixed(raw_packet(KIND_LOST), KIND_LOST,
		     &(struct wire_lost){ .queue_full = queue_full, .too_big = too_big });
	ck_assert_int_eq(raw_send(socket), 0);
}

DAEMON_TEST(lost_records_are_summed_up_to_a_bound)
{
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	_cleanup_(fd_closep) int another = fixture_client(fixture);

	report_lost(one, 3, 5);
	report_lost(one, 4, 0);
	expect_account(one, "lost=7");
	report_lost(another, 10, 1);
	expect_account(another, "lost=17");
	expect_tenant(fixture, "too_big=6");
	expect_status(fixture, "lost=17 too_big=6");

	/* One false report does not spoil the machine's sum for ever. */
	report_lost(one, UINT64_MAX, UINT64_C(1) << 33);
	expect_account(one, "lost=%llu", 17ULL + UINT32_MAX);
	expect_tenant(fixture, "too_big=%llu", 6ULL + UINT32_MAX);
	expect_status(fixture, "lost=%llu", 17ULL + UINT32_MAX);
}

DAEMON_TEST(account_has_numbers_of_tenant_and_connection, .options = { "--max-events=9" })
{
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	int another = fixture_client(fixture);

	expect_granted_many(one, "counted", 3);
	expect_granted_many(another, "counted", 1);
	expect_account(one, "events=3 events_max=9 lingering=0 leases=3 connections=2 lost=0 records=0 bad=0");
	expect_account(another, "events=3 leases=1");
	close(another);
	ck_assert(eventually(raw_query(one).connections == 1));
}

DAEMON_TEST(name_taken_in_the_tenant_is_refused_with_fields, .policy = ONE_FORMAT)
{
	uint32_t bit;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	bit = expect_granted(socket, "taken u32 secret");
	expect_refusal(socket, "taken u32 other", REFUSAL_NAME_TAKEN, "taken u32 secret");
	expect_refusal(socket, "taken", REFUSAL_NAME_TAKEN, "");
	expect_account(socket, "events=1");
	ck_assert_uint_eq(refusal_count(fixture, "name-taken"), 2);
	/* Once no client has the event, the name is free. */
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	await_status(fixture, "events=0");
	ck_assert(eventually(!fixture->keeper || !kernel_has("taken")));
	expect_granted(socket, "taken u32 other");
}

DAEMON_TEST(fields_of_another_tenants_name_are_not_shown, .options = { "--tenants=process" })
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	uint32_t refusal;
	_cleanup_(actor_end) struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	expect_status(fixture, "tenants=2");
	expect_granted(one.socket, "taken u32 secret");
	refusal = register_one(another.socket, "taken u32 other", sentence, sizeof(sentence));
	ck_assert_uint_eq(refusal, offers_multi_format(fixture) ? 0 : REFUSAL_NAME_TAKEN);
	ck_assert_msg(!strstr(sentence, "secret"), "%s", sentence);
	expect_account(another.socket, "events=%u", refusal ? 0 : 1);
	if (!refusal)
		return;
	/* With the same fields it is the same event, and nothing is secret. */
	expect_granted(another.socket, "taken u32 secret");
	expect_refusal(another.socket, "taken u32 other", REFUSAL_NAME_TAKEN, "secret");
	expect_status(fixture, "charges=1");
}

static void make_longest(char *description, unsigned number)
{
	snprintf(description, WIRE_DESCRIPTION_MAX + 1, "max_%03u_%0192d char[1024] ", number, 0);
	memset(description + strlen(description), 'f', WIRE_DESCRIPTION_MAX - strlen(description));
	description[WIRE_DESCRIPTION_MAX] = '\0';
}

DAEMON_TEST(batch_of_longest_descriptions_fits_three_packets)
{
	enum { EVENTS = WIRE_BATCH_MAX, PER_PACKET = 250 };
	static char texts[EVENTS][WIRE_DESCRIPTION_MAX + 1];
	const char *descriptions[EVENTS];
	bool seen[WIRE_PAGE_BITS] = { true }; /* no event has bit 0 */
	uint32_t stream = 0, next = 0;
	static struct batch batch;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	for (unsigned i = 0; i < EVENTS; i++) {
		make_longest(texts[i], i);
		descriptions[i] = texts[i];
	}
	for (size_t from = 0; from < EVENTS; from += PER_PACKET) {
		batch_register(socket, descriptions + from, MIN((size_t)PER_PACKET, EVENTS - from), &batch, NULL);
		batch_expect(&batch, 0);
		for (size_t i = 0; i < batch.count; i++) {
			ck_assert(!seen[batch.answer[i].bit]);
			next = batch.answer[i].stream == stream ? next + 1 : 0;
			stream = batch.answer[i].stream;
			ck_assert_uint_eq(batch.answer[i].index, next);
			seen[batch.answer[i].bit] = true;
		}
	}
	expect_account(socket, "events=%u", EVENTS);
}

DAEMON_TEST(description_one_byte_too_long_is_refused)
{
	char text[WIRE_DESCRIPTION_MAX + 2];
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	make_longest(text, 0);
	expect_granted(socket, text);
	memcpy(text + WIRE_DESCRIPTION_MAX, "f", 2);
	expect_refusal(socket, text, REFUSAL_BAD_DESCRIPTION, "511");
	expect_refusal(socket, "", REFUSAL_BAD_DESCRIPTION, "");
}
