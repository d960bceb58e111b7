/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/registration.h"

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/stream.h"
#include "protocol/event/description.h"

int registration_answer(int error)
{
	switch (error) {
	case -EADDRINUSE:
		return KERNEL_E_NAME_TAKEN;
	case -EMFILE: /* user_events_max */
	case -ENODEV: /* all numbers of event types are taken */
		return KERNEL_E_FULL;
	case -EINVAL:
	case -E2BIG:
		return KERNEL_E_BAD_DESCRIPTION;
	case -EPERM: /* persistent, without CAP_PERFMON */
		return KERNEL_E_UNSUPPORTED;
	default:
		return error;
	}
}

/* An event of the page is found by its name; one of many formats by its whole description. */
struct key {
	struct event_page *page;
	const char *text;
	size_t text_length;
	size_t length; /* of the key */
	uint32_t hash;
};

static struct holding **table_of(struct event_page *page, uint16_t flags)
{
	return flags & KERNEL_MULTI_FORMAT ? &page->multi_holdings : &page->holdings;
}

static struct holding *holding_find(const struct key *key, uint16_t flags)
{
	struct holding *holding;

	HASH_FIND_BYHASHVALUE(by_key, *table_of(key->page, flags), key->text, key->length, key->hash, holding);
	return holding;
}

void holding_name(const struct holding *holding, char ret[WIRE_DESCRIPTION_MAX + 1])
{
	string_copy(ret, WIRE_DESCRIPTION_MAX + 1, holding->text);
	ret[strcspn(ret, " ")] = '\0';
}

static struct holding *holding_make(const struct key *key, const struct kernel_call *call)
{
	struct holding *holding = keeper_allocate(sizeof(*holding) + key->text_length + 1);

	holding->page = key->page;
	holding->text_length = (uint16_t)key->text_length;
	holding->flags = call->flags;
	if (call->op == KERNEL_ADOPT)
		holding->bit = call->bit;
	memcpy(holding->text, call->text, key->text_length);
	HASH_ADD_KEYPTR_BYHASHVALUE(by_key, *table_of(key->page, call->flags), holding->text, key->length, key->hash,
				    holding);
	table_check_added();
	return holding;
}

static void holding_free(struct holding *holding)
{
	HASH_DELETE(by_key, *table_of(holding->page, holding->flags), holding);
	free(holding);
}

static struct slot *slot_make(struct event_stream *stream, struct holding *holding, uint32_t index)
{
	struct slot *slot = holding->slots == 0 ? &holding->first : keeper_allocate(sizeof(*slot));

	slot->holding = holding;
	slot->index = index;
	NUMBER_ADD(by_holding, stream->slots, holding, slot);
	table_check_added();
	holding->slots++;
	return slot;
}

static void registration_free_slot(struct event_stream *stream, struct slot *slot)
{
	HASH_DELETE(by_holding, stream->slots, slot);
	slot->holding->slots--;
	if (slot != &slot->holding->first)
		free(slot);
}

void registrations_free(struct user_events *user_events, struct event_stream *stream)
{
	while (stream->slots) {
		struct holding *unused[AT_ONCE];
		size_t n = 0;

		while (stream->slots && n < AT_ONCE) {
			struct holding *holding = stream->slots->holding;

			registration_free_slot(stream, stream->slots);
			if (holding->slots == 0)
				unused[n++] = holding;
		}
		user_events->abi->remove(user_events, unused, n);
		for (size_t i = 0; i < n; i++)
			holding_free(unused[i]);
	}
}

static int answer_with(struct kernel_call *call, const struct event_stream *stream, const struct slot *slot)
{
	call->bit = slot->holding->bit;
	call->index = slot->index;
	call->number = call->op == KERNEL_REGISTER && stream->self_registered;
	call->result = KERNEL_OK;
	return KERNEL_OK;
}

/* The stream has got the index from another keeper. */
static void note_adopted_index(struct event_stream *stream, uint32_t index)
{
	stream->next_index = MAX(stream->next_index, index + 1);
	stream->settled = MAX(stream->settled, stream->next_index);
}

void registration_placed(struct event_stream *stream, struct holding *holding, struct kernel_call *call)
{
	holding->placed = true;
	if (call->op == KERNEL_ADOPT)
		note_adopted_index(stream, holding->first.index);
	answer_with(call, stream, &holding->first);
}

void registration_failed(struct user_events *user_events, struct event_stream *stream, struct holding *holding)
{
	registration_free_slot(stream, &holding->first);
	if (user_events->abi->give_place)
		user_events->abi->give_place(user_events, holding);
	holding_free(holding);
}

/* The page does not have the event yet. */
static int register_new(struct user_events *user_events, struct job *job, struct event_stream *stream,
			struct kernel_call *call, const struct key *key)
{
	struct holding *holding = holding_make(key, call);
	const uint32_t index = call->op == KERNEL_ADOPT ? call->index : 0;
	int r = 0;

	if (user_events->abi->take_place)
		r = user_events->abi->take_place(user_events, stream->page, holding);
	if (r != 0) {
		holding_free(holding);
		return r;
	}
	slot_make(stream, holding, index);
	placement_add(user_events, job, stream, holding, call);
	return KERNEL_OK;
}

/* The page has the event, and perhaps the stream, too. */
static int register_again(struct user_events *user_events, struct event_stream *stream, struct holding *holding,
			  struct kernel_call *call)
{
	const bool adopt = call->op == KERNEL_ADOPT;
	uint32_t index = call->index;
	struct slot *slot;
	int r;

	NUMBER_FIND(by_holding, stream->slots, holding, slot);
	if (adopt && (holding->bit != call->bit || (slot && slot->index != call->index)))
		return -EEXIST;
	if (!slot && adopt) {
		note_adopted_index(stream, index);
	} else if (!slot) {
		r = user_events->abi->join(user_events, stream, holding, &index);
		if (r != 0)
			return r;
		stream_note_index(stream, index);
		stream_check_indexes(stream);
	}
	return answer_with(call, stream, slot ? slot : slot_make(stream, holding, index));
}

int on_register(struct user_events *user_events, struct job *job, struct event_stream *stream, struct kernel_call *call)
{
	static struct description description; /* large */
	struct key key = { .page = stream->page, .text = call->text, .text_length = strlen(call->text) };
	struct holding *holding;

	if (call->op == KERNEL_REGISTER && stream->fd < 0)
		return -EBADF;
	if (call->op == KERNEL_ADOPT &&
	    (call->bit == 0 || call->bit >= user_events->kernel.facts.page_bits || call->index >= INT32_MAX))
		return -EINVAL;
	if (call->flags & ~user_events->kernel.facts.flags)
		return KERNEL_E_UNSUPPORTED;
	/* The daemon sends canonical text, and is not trusted. */
	if (description_parse_canonical(key.text, key.text_length, &description) != 0)
		return KERNEL_E_BAD_DESCRIPTION;
	/* Before Linux 6.4 all pages are the kernel's, and all holdings are in one table. */
	if (user_events->kernel.facts.shared_page)
		key.page = &user_events->shared;
	key.length = call->flags & KERNEL_MULTI_FORMAT ? description.length : description.name_length;
	key.hash = table_hash(key.text, key.length);
	holding = holding_find(&key, call->flags);
	/* Another stream has just asked for it, or the batch contains it twice. */
	if (holding && !holding->placed) {
		placements_send(user_events, job);
		placements_finish(user_events);
		holding = holding_find(&key, call->flags);
	}
	if (!holding)
		return register_new(user_events, job, stream, call, &key);
	return streq(holding->text, call->text) ? register_again(user_events, stream, holding, call)
						: KERNEL_E_NAME_TAKEN;
}
