/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/lists.h"

#include <stdio.h>

#include "daemon/registry/lease.h"

enum { FIRST_DEAD = 1000 };

struct list list_of(unsigned first, unsigned n)
{
	struct list list = { .n = n };

	for (unsigned i = 0; i < n; i++)
		list.event[i] = first + i;
	return list;
}

void describe(char text[TEXT_MAX], unsigned event)
{
	snprintf(text, TEXT_MAX, "event_%u u32 x", event);
}

void say_list(struct end *end, const struct list *list)
{
	static char text[WIRE_BATCH_MAX][TEXT_MAX];
	static const char *batch[WIRE_BATCH_MAX];

	for (unsigned i = 0; i < list->n; i++) {
		describe(text[i], list->event[i]);
		batch[i] = text[i];
	}
	say_register(end, list->flags, batch, list->n);
}

void expect_right(const struct answer *answer, unsigned event)
{
	char text[TEXT_MAX];

	describe(text, event);
	ck_assert_uint_eq(answer->refusal, REFUSAL_NONE);
	if (!find_slot(answer->stream, answer->index, answer->bit, text))
		ck_abort_msg("%s is not at index %u of stream %u", text, answer->index, answer->stream);
}

static struct granted expect_list_with(struct end *end, const struct list *list, unsigned refused, uint32_t refusal)
{
	struct granted granted = { 0 };

	expect_answers(end, granted.answer, list->n);
	ck_assert_uint_eq(end->heard.message.serial, end->serial);
	for (unsigned i = 0; i < list->n; i++)
		if (i == refused)
			ck_assert_str_eq(refusal_name(granted.answer[i].refusal), refusal_name(refusal));
		else
			expect_right(&granted.answer[i], list->event[i]);
	check_books(end->world->daemon);
	return granted;
}

struct granted expect_list(struct end *end, const struct list *list)
{
	return expect_list_with(end, list, UINT32_MAX, REFUSAL_NONE);
}

void expect_list_but(struct end *end, const struct list *list, unsigned refused, uint32_t refusal)
{
	expect_list_with(end, list, refused, refusal);
	ck_assert_uint_eq(end->client->holder.leases.n, list->n - 1);
}

struct granted get_list(struct end *end, const struct list *list)
{
	say_list(end, list);
	return expect_list(end, list);
}

void expect_list_refused(struct end *end, const struct list *list, uint32_t refusal)
{
	expect_each(end, refusal, list->n);
	ck_assert_uint_eq(end->heard.message.streams, 0);
	ck_assert_uint_eq(end->client->holder.leases.n, 0);
	check_books(end->world->daemon);
}

void expect_same_answers(const struct granted *one, const struct granted *other, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		expect_same_answer(&one->answer[i], &other->answer[i]);
}

void say_release_list(struct end *end, const struct granted *granted, unsigned n)
{
	struct packet packet = begin(end, KIND_RELEASE);
	size_t mark = encode_list(&packet, 0);

	for (unsigned i = 0; i < n; i++)
		encode_release_bit(&packet, granted->answer[i].bit);
	encode_count(&packet, mark, (uint16_t)n);
	say(end, &packet);
}

void release_list(struct end *end, const struct granted *granted, unsigned n)
{
	struct wire_released released;

	say_release_list(end, granted, n);
	ck_assert_int_eq(decode_fixed(expect(end, KIND_RELEASED)->body, KIND_RELEASED, &released), 0);
	ck_assert_uint_eq(released.released, n);
	ck_assert_uint_eq(released.not_held, 0);
	check_books(end->world->daemon);
}

void leave_dead(struct end *end, unsigned n)
{
	const struct list list = list_of(FIRST_DEAD, n);
	const struct granted granted = get_list(end, &list);

	release_list(end, &granted, n);
}
