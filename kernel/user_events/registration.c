/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/registration.h"

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/stream.h"
#include "protocol/base/text.h"
#include "protocol/event/description.h"

enum { KEY_BYTES = WIRE_DESCRIPTION_MAX + 3 };

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

/* Before Linux 6.4 all pages are the kernel's, and all holdings are in one table. */
static struct event_page *table_of(struct user_events *user_events, struct event_page *page)
{
	return user_events->kernel.facts.shared_page ? &user_events->shared : page;
}

static struct holding *holding_make(struct event_page *page, const struct kernel_call *call, const char *key)
{
	const size_t length = strlen(key);
	struct holding *holding = keeper_allocate(sizeof(*holding) + length + 1);

	holding->page = page;
	holding->flags = call->flags;
	if (call->op == KERNEL_ADOPT)
		holding->bit = call->bit;
	memcpy(holding->key, key, length + 1);
	holding->text = holding->key + 1;
	HASH_ADD_KEYPTR(by_key, page->holdings, holding->key, length, holding);
	table_check_added();
	return holding;
}

static void holding_free(struct holding *holding)
{
	HASH_DELETE(by_key, holding->page->holdings, holding);
	free(holding);
}

static struct slot *slot_make(struct event_stream *stream, struct holding *holding, uint32_t index)
{
	struct slot *slot = keeper_allocate(sizeof(*slot));

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

void registration_placed(struct event_stream *stream, struct slot *slot, struct kernel_call *call)
{
	slot->holding->placed = true;
	if (call->op == KERNEL_ADOPT)
		note_adopted_index(stream, slot->index);
	answer_with(call, stream, slot);
}

void registration_failed(struct user_events *user_events, struct event_stream *stream, struct slot *slot)
{
	struct holding *holding = slot->holding;

	registration_free_slot(stream, slot);
	if (user_events->abi->give_place)
		user_events->abi->give_place(user_events, holding);
	holding_free(holding);
}

/* The page does not have the event yet. */
static int register_new(struct user_events *user_events, struct job *job, struct event_stream *stream,
			struct kernel_call *call, const char *key)
{
	struct holding *holding = holding_make(table_of(user_events, stream->page), call, key);
	const uint32_t index = call->op == KERNEL_ADOPT ? call->index : 0;
	int r = 0;

	if (user_events->abi->take_place)
		r = user_events->abi->take_place(user_events, stream->page, holding);
	if (r != 0)
		holding_free(holding);
	else
		placement_add(user_events, job, stream, slot_make(stream, holding, index), call);
	return r;
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
	char key[KEY_BYTES], sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	struct holding *holding;

	if (call->op == KERNEL_REGISTER && stream->fd < 0)
		return -EBADF;
	if (call->op == KERNEL_ADOPT &&
	    (call->bit == 0 || call->bit >= user_events->kernel.facts.page_bits || call->index >= INT32_MAX))
		return -EINVAL;
	if (call->flags & ~user_events->kernel.facts.flags)
		return KERNEL_E_UNSUPPORTED;
	/* The daemon sends canonical text, and is not trusted. */
	if (description_parse(call->text, strlen(call->text), &description, &why) != 0 ||
	    !streq(description.canonical, call->text))
		return KERNEL_E_BAD_DESCRIPTION;
	/* Multi-format events have names of their own. */
	key[0] = call->flags & KERNEL_MULTI_FORMAT ? 'm' : 's';
	string_copy(key + 1, sizeof(key) - 1, call->text);
	HASH_FIND(by_key, table_of(user_events, stream->page)->holdings, key, strlen(key), holding);
	/* Another stream has just asked for it, or the batch contains it twice. */
	if (holding && !holding->placed) {
		placements_send(user_events, job);
		placements_finish(user_events);
		HASH_FIND(by_key, table_of(user_events, stream->page)->holdings, key, strlen(key), holding);
	}
	return holding ? register_again(user_events, stream, holding, call)
		       : register_new(user_events, job, stream, call, key);
}
