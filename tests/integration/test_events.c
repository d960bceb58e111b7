/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events: registered, released, watched, counted and refused. Packets by hand. */

#include <stdio.h>

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

DAEMON_TEST(unknown_flags_refuse_that_event_alone)
{
	static const uint16_t flags[] = { REGISTER_PERSIST, REGISTER_MULTI_FORMAT, 4, 0x8000 };
	struct batch batch;
	struct packet *to;
	size_t mark;
	_cleanup_(fd_closep) int socket = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	to = raw_packet(KIND_REGISTER);
	mark = encode_strings(to, 0);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		encode_string(to, flags[i], "flagged", 7);
	encode_string(to, 0, "flagged", 7);
	encode_count(to, mark, ARRAY_SIZE(flags) + 1);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &batch.reply);
	batch_read(&batch);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		uint32_t expected = REFUSAL_KERNEL_TOO_OLD;

		if (flags[i] == REGISTER_PERSIST)
			expected = refusal_to_persist(fixture);
		else if (flags[i] == REGISTER_MULTI_FORMAT && offers_multi_format(fixture))
			expected = REFUSAL_NONE;
		ck_assert_uint_eq(batch.answer[i].refusal, expected);
	}
	ck_assert_uint_eq(batch.answer[ARRAY_SIZE(flags)].refusal, 0);
	raw_reply_deinit(&batch.reply);
}

DAEMON_TEST(empty_batch_gets_an_empty_answer)
{
	struct batch batch;
	int socket = fixture_client(fixture);

	batch_register(socket, NULL, 0, &batch, NULL);
	ck_assert_uint_eq(batch.count, 0);
	ck_assert_uint_eq(batch.reply.message.streams, 0);
	ck_assert_uint_eq(raw_release(socket, NULL, 0), 0);
	close(socket);
	socket = raw_connect(fixture->control);
	ck_assert_uint_eq(raw_rows(socket, KIND_TRACE, TRACE_ON, (const char *const[]){ NULL }, NULL, NULL),
			  keeps_records_itself(fixture) ? REFUSAL_NO_SUCH_EVENT : REFUSAL_NOT_THE_TRACER);
	close(socket);
}

DAEMON_TEST(batch_beyond_its_maximum_is_refused)
{
	const char *const *descriptions = numbered("batch_%u", 0, WIRE_BATCH_MAX + 1);
	struct batch batch;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	batch_register(socket, descriptions, WIRE_BATCH_MAX, &batch, NULL);
	for (size_t i = 0; i < WIRE_BATCH_MAX; i++) {
		ck_assert_uint_eq(batch.answer[i].refusal, 0);
		ck_assert_uint_eq(batch.answer[i].index, i);
	}
	ck_assert_uint_eq(status_number(fixture, "charges"), WIRE_BATCH_MAX);

	batch_put(descriptions, WIRE_BATCH_MAX + 1);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
}

DAEMON_TEST(event_registered_again_costs_nothing)
{
	static const char *const twice[] = { "again u32 a", "again  u32  a;" };
	struct batch first, second;
	int none = -1;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	batch_register(socket, twice, 2, &first, &stream);
	batch_register(socket, twice, 2, &second, &none);
	ck_assert_int_ge(stream, 0);
	ck_assert_int_eq(none, -1);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(first.answer[i].refusal, 0);
		ck_assert_uint_eq(second.answer[i].refusal, 0);
		ck_assert_uint_eq(first.answer[i].bit, first.answer[0].bit);
		ck_assert_uint_eq(second.answer[i].bit, first.answer[0].bit);
		ck_assert_uint_eq(second.answer[i].stream, first.answer[0].stream);
		ck_assert_uint_eq(second.answer[i].index, first.answer[0].index);
	}
	ck_assert_uint_eq(raw_query(socket).events, 1);
	ck_assert_uint_eq(raw_query(socket).leases, 1);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
}

DAEMON_TEST(event_released_twice_is_released_once)
{
	struct answer answer;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	ck_assert_uint_eq(raw_register(socket, "released u32 a", &answer, &stream), 0);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
	ck_assert_uint_eq(status_number(fixture, "leases"), 0);
	ck_assert_uint_eq(status_number(fixture, "charges"), still_charged(fixture, 1, 1));
	ck_assert_uint_eq(status_number(fixture, "events"), still_charged(fixture, 1, 1));
	ck_assert_uint_eq(raw_query(socket).events, still_charged(fixture, 1, 1));
	ck_assert_uint_eq(raw_query(socket).lingering, still_charged(fixture, 1, 1));
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 0);
	/* Twice in one packet counts once. */
	ck_assert_uint_eq(raw_register(socket, "released u32 a", &answer, NULL), 0);
	ck_assert_uint_eq(raw_release(socket, (uint32_t[]){ answer.bit, answer.bit, 0, UINT32_MAX }, 4), 1);
}

DAEMON_TEST(event_released_by_one_client_stays_with_others)
{
	struct answer ours, theirs;
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	_cleanup_(fd_closep) int another = fixture_client(fixture);

	ck_assert_uint_eq(raw_register(one, "both u32 a", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(another, "both u32 a", &theirs, NULL), 0);
	ck_assert_uint_eq(ours.bit, theirs.bit);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	ck_assert_uint_eq(raw_release(one, &ours.bit, 1), 1);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	ck_assert_uint_eq(raw_query(another).leases, 1);
	ck_assert_uint_eq(raw_release(another, &theirs.bit, 1), 1);
	/* Nobody has a copy of their streams. */
	ck_assert(eventually(status_number(fixture, "charges") == 0));
}

static void send_watch(int socket, bool on)
{
	encode_watch(raw_packet(KIND_WATCH), &(struct wire_watch){ .on = on });
	ck_assert_int_eq(raw_send(socket), 0);
	expect_kind(socket, KIND_WATCHING);
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
	struct answer ours, others;
	uint16_t bits[WIRE_BATCH_MAX];
	_cleanup_(fd_closep) int watcher = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);
	_cleanup_(fd_closep) int other = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	ck_assert_uint_eq(raw_register(watcher, "watched u32 a", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(other, "unwatched u32 a", &others, NULL), 0);
	send_watch(watcher, true);

	/* It is said when the page says it. Nobody is told of what is another's, or does not watch. */
	ck_assert_uint_eq(trace(fixture, "unwatched", true), 1);
	ck_assert_uint_eq(trace(fixture, "watched", true), 1);
	ck_assert_uint_eq(receive_changed(watcher, bits), 1);
	ck_assert_uint_eq(bits[0], ours.bit);
	/* What is on already is not switched. */
	ck_assert_uint_eq(trace(fixture, "watched", true), 1);
	ck_assert_uint_eq(trace(fixture, "watched", false), 1);
	ck_assert_uint_eq(receive_changed(watcher, bits), 1);
	raw_query(watcher);

	send_watch(watcher, false);
	ck_assert_uint_eq(trace(fixture, "watched", true), 1);
	raw_query(watcher);
	send_watch(watcher, true);
	ck_assert_uint_eq(raw_release(watcher, &ours.bit, 1), 1);
	ck_assert_uint_eq(trace(fixture, "watched", false), 1);
	raw_query(watcher);
	raw_query(other);
}

/* Registers `n` events in one packet and switches them on at once; how many of them the one CHANGED named. */
static uint16_t change_at_once(struct fixture *fixture, unsigned n, uint16_t *bits)
{
	struct batch batch;
	uint16_t count;
	_cleanup_(fd_closep) int socket = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	batch_register(socket, numbered("many_%u", 0, n), n, &batch, NULL);
	send_watch(socket, true);
	ck_assert_uint_eq(trace(fixture, "many_*", true), n);
	count = receive_changed(socket, bits);
	/* Nothing is left over for a second one. */
	raw_query(socket);
	ck_assert_uint_eq(trace(fixture, "many_*", false), n);
	return count;
}

DAEMON_TEST(changes_up_to_a_maximum_are_named)
{
	enum { NAMED_MAX = 64 };
	uint16_t bits[WIRE_BATCH_MAX];
	uint64_t seen[WIRE_PAGE_BITS / 64] = { 0 };

	ck_assert_uint_eq(change_at_once(fixture, NAMED_MAX, bits), NAMED_MAX);
	for (size_t i = 0; i < NAMED_MAX; i++) {
		ck_assert_uint_eq(seen[bits[i] / 64] >> bits[i] % 64 & 1, 0);
		seen[bits[i] / 64] |= UINT64_C(1) << bits[i] % 64;
	}
	ck_assert(eventually(status_number(fixture, "events") == 0));
	ck_assert_uint_eq(change_at_once(fixture, NAMED_MAX + 1, bits), 0);
}

static void report_lost(int socket, uint64_t queue_full, uint64_t too_big)
{
	encode_lost(raw_packet(KIND_LOST), &(struct wire_lost){ .queue_full = queue_full, .too_big = too_big });
	ck_assert_int_eq(raw_send(socket), 0);
}

DAEMON_TEST(lost_records_are_summed_up_to_a_bound)
{
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	_cleanup_(fd_closep) int another = fixture_client(fixture);

	report_lost(one, 3, 5);
	report_lost(one, 4, 0);
	ck_assert_uint_eq(raw_query(one).lost, 7);
	report_lost(another, 10, 1);
	ck_assert_uint_eq(raw_query(another).lost, 17);
	ck_assert_uint_eq(tenant_number(fixture, "too_big"), 6);
	ck_assert_uint_eq(status_number(fixture, "lost"), 17);
	ck_assert_uint_eq(status_number(fixture, "too_big"), 6);

	/* One liar does not spoil the machine's sum for ever. */
	report_lost(one, UINT64_MAX, UINT64_C(1) << 33);
	ck_assert_uint_eq(raw_query(one).lost, 17 + (uint64_t)UINT32_MAX);
	ck_assert_uint_eq(tenant_number(fixture, "too_big"), 6 + (uint64_t)UINT32_MAX);
	ck_assert_uint_eq(status_number(fixture, "lost"), 17 + (uint64_t)UINT32_MAX);
}

DAEMON_TEST(account_has_numbers_of_tenant_and_connection, .options = { "--max-events=9" })
{
	static const char *const three[] = { "counted_a", "counted_b", "counted_c" };
	struct wire_account account;
	struct batch batch;
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	int another = fixture_client(fixture);

	batch_register(one, three, 3, &batch, NULL);
	batch_register(another, three, 1, &batch, NULL);
	account = raw_query(one);
	ck_assert_uint_eq(account.events, 3);
	ck_assert_uint_eq(account.events_max, 9);
	ck_assert_uint_eq(account.lingering, 0);
	ck_assert_uint_eq(account.leases, 3);
	ck_assert_uint_eq(account.connections, 2);
	ck_assert_uint_eq(account.lost, 0);
	ck_assert_uint_eq(account.records, 0);
	ck_assert_uint_eq(account.bad, 0);
	account = raw_query(another);
	ck_assert_uint_eq(account.events, 3);
	ck_assert_uint_eq(account.leases, 1);
	close(another);
	ck_assert(eventually(raw_query(one).connections == 1));
}

DAEMON_TEST(name_taken_in_the_tenant_is_refused_with_fields, .policy = ONE_FORMAT)
{
	struct answer answer;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	ck_assert_uint_eq(raw_register(socket, "taken u32 secret", &answer, NULL), 0);
	expect_refusal(socket, "taken u32 other", REFUSAL_NAME_TAKEN, "taken u32 secret");
	expect_refusal(socket, "taken", REFUSAL_NAME_TAKEN, "");
	ck_assert_uint_eq(raw_query(socket).events, 1);
	ck_assert_uint_eq(refusal_count(fixture, "name-taken"), 2);
	/* It is free when no client has it any more. */
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
	ck_assert(eventually(status_number(fixture, "events") == 0));
	ck_assert(eventually(!fixture->keeper || !kernel_has("taken")));
	expect_granted(socket, "taken u32 other");
}

DAEMON_TEST(fields_of_another_tenants_name_are_not_shown, .options = { "--tenants=process" })
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	uint32_t refusal;
	_cleanup_(actor_end) struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	ck_assert_uint_eq(status_number(fixture, "tenants"), 2);
	expect_granted(one.socket, "taken u32 secret");
	refusal = register_one(another.socket, "taken u32 other", sentence, sizeof(sentence));
	ck_assert_uint_eq(refusal, offers_multi_format(fixture) ? 0 : REFUSAL_NAME_TAKEN);
	ck_assert_msg(!strstr(sentence, "secret"), "%s", sentence);
	ck_assert_uint_eq(raw_query(another.socket).events, refusal ? 0 : 1);
	if (!refusal)
		return;
	/* With the same fields it is the same event, and then there is nothing to hide. */
	expect_granted(another.socket, "taken u32 secret");
	expect_refusal(another.socket, "taken u32 other", REFUSAL_NAME_TAKEN, "secret");
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
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
	bool seen[WIRE_PAGE_BITS] = { false };
	uint32_t stream = 0, next = 0;
	struct batch batch;
	int socket;

	for (unsigned i = 0; i < EVENTS; i++) {
		make_longest(texts[i], i);
		descriptions[i] = texts[i];
	}
	socket = fixture_client(fixture);
	for (size_t from = 0; from < EVENTS; from += PER_PACKET) {
		batch_register(socket, descriptions + from, MIN((size_t)PER_PACKET, EVENTS - from), &batch, NULL);
		for (size_t i = 0; i < batch.count; i++) {
			ck_assert_msg(batch.answer[i].refusal == 0, "%.*s", (int)batch.answer[i].length,
				      batch.answer[i].text);
			ck_assert(!seen[batch.answer[i].bit]);
			next = batch.answer[i].stream == stream ? next + 1 : 0;
			stream = batch.answer[i].stream;
			ck_assert_uint_eq(batch.answer[i].index, next);
			seen[batch.answer[i].bit] = true;
		}
	}
	ck_assert_uint_eq(raw_query(socket).events, EVENTS);
	ck_assert(!seen[0]);
	close(socket);
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
