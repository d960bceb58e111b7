/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/registration.h"

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/silence.h"
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

static struct holding *holding_make(struct event_page *page, const struct kernel_call *call, size_t text_length,
				    size_t key_length, uint32_t hash)
{
	struct holding *holding = keeper_allocate(sizeof(*holding) + text_length + 1);

	holding->page = page;
	holding->text_length = (uint16_t)text_length;
	holding->flags = call->flags & (uint16_t)~KERNEL_STATES;
	holding->state = call->flags & KERNEL_STATES;
	if (call->op == KERNEL_ADOPT)
		holding->bit = call->bit;
	memcpy(holding->text, call->text, text_length);
	HASH_ADD_KEYPTR_BYHASHVALUE(by_key, page->holdings, holding->text, key_length, hash, holding);
	table_check_added();
	return holding;
}

static void holding_free(struct holding *holding)
{
	HASH_DELETE(by_key, holding->page->holdings, holding);
	free(holding);
}

void holding_name(const struct holding *holding, char ret[WIRE_DESCRIPTION_MAX + 1])
{
	string_copy(ret, WIRE_DESCRIPTION_MAX + 1, holding->text);
	ret[strcspn(ret, " ")] = '\0';
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
	return KERNEL_OK;
}

/* --- new events --- */

/*
 * The kernel takes longer to register an event than everything else takes. Registrations that follow each other on one stream are sent
 * together, so hundreds of events of a program are a handful of messages to an enabler process. Any other call comes after them.
 */

void registrations_send(struct user_events *user_events)
{
	struct placement *placement = &user_events->placement;
	_cleanup_(fd_closep) int ours = -1;

	if (placement->n == 0)
		return;
	/* Adopted events are registered on a file of our own: only their enablers stay. */
	if (placement->calls[0]->op == KERNEL_ADOPT)
		ours = data_file_open(&user_events->mounts);
	if (ours < 0 && placement->calls[0]->op == KERNEL_ADOPT)
		for (size_t i = 0; i < placement->n; i++)
			placement->calls[i]->result = ours;
	else
		user_events->abi->place(user_events, placement, ours >= 0 ? ours : placement->stream->fd);
	for (size_t i = 0; i < placement->n; i++) {
		struct holding *holding = placement->holdings[i];

		if (placement->calls[i]->result == KERNEL_OK) {
			holding->placed = true;
			answer_with(placement->calls[i], placement->stream, &holding->first);
			continue;
		}
		registration_free_slot(placement->stream, &holding->first);
		if (user_events->abi->give_place)
			user_events->abi->give_place(user_events, holding);
		holding_free(holding);
	}
	placement->n = 0;
}

/*
 * The page does not have the event yet. The kernel takes longer to register an event than everything else takes. Registrations that
 * follow each other on one stream are sent together, so hundreds of events of a program are a handful of messages to an enabler process.
 * Any other call comes after them.
 */
static int register_new(struct user_events *user_events, struct event_stream *stream, struct holding *holding,
			struct kernel_call *call)
{
	struct placement *placement = &user_events->placement;

	int r = user_events->abi->take_place ? user_events->abi->take_place(user_events, stream->page, holding) : 0;

	if (r != 0) {
		holding_free(holding);
		return r;
	}
	slot_make(stream, holding, call->op == KERNEL_ADOPT ? call->index : 0);
	/* Adopted events are not registered together with new ones. */
	if (placement->n == AT_ONCE ||
	    (placement->n > 0 && (placement->stream != stream || placement->holdings[0]->process != holding->process ||
				  placement->calls[0]->op != call->op)))
		registrations_send(user_events);
	placement->stream = stream;
	placement->holdings[placement->n] = holding;
	placement->calls[placement->n++] = call;
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
	if (!slot && !adopt) {
		r = user_events->abi->join(stream->fd, holding->text, holding->flags, &holding->bit, &index);
		if (r != 0)
			return r;
		stream_note_index(stream, index);
	}
	/* The daemon has decided otherwise since it was registered first. */
	r = silence_set(user_events, holding, call->flags & KERNEL_STATES);
	if (r < 0)
		return r;
	return answer_with(call, stream, slot ? slot : slot_make(stream, holding, index));
}

int on_register(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	static struct description description; /* large */
	struct event_stream *stream = target->stream;
	const size_t length = strlen(call->text);
	struct event_page *page = stream->page;
	struct holding *holding;
	size_t key_length;
	uint32_t hash;

	if (call->op == KERNEL_REGISTER && stream->fd < 0)
		return -EBADF;
	if (call->op == KERNEL_ADOPT &&
	    (call->bit == 0 || call->bit >= user_events->kernel.facts.page_bits || call->index >= INT32_MAX))
		return -EINVAL;
	if (call->flags & ~(user_events->kernel.facts.flags | (user_events->abi->silence ? KERNEL_STATES : 0)))
		return KERNEL_E_UNSUPPORTED;
	/* The daemon sends canonical text, and is not trusted. */
	if (description_parse_canonical(call->text, length, &description) != 0)
		return KERNEL_E_BAD_DESCRIPTION;
	/* The stream has got the index from another keeper. */
	if (call->op == KERNEL_ADOPT)
		stream->next_index = MAX(stream->next_index, call->index + 1);
	/* Before Linux 6.4 all pages are the kernel's, and all holdings are in one table. */
	if (user_events->kernel.facts.shared_page)
		page = &user_events->shared;
	/* An event is found by its name; one of many formats by its whole description, with the zero behind it, which no name has. */
	key_length = call->flags & REGISTER_MULTI_FORMAT ? length + 1 : description.name_length;
	hash = table_hash(call->text, key_length);
	HASH_FIND_BYHASHVALUE(by_key, page->holdings, call->text, key_length, hash, holding);
	/* Another call of the batch asks for it, and may fail. */
	if (holding && !holding->placed) {
		registrations_send(user_events);
		HASH_FIND_BYHASHVALUE(by_key, page->holdings, call->text, key_length, hash, holding);
	}
	if (!holding)
		return register_new(user_events, stream, holding_make(page, call, length, key_length, hash), call);
	return streq(holding->text, call->text) ? register_again(user_events, stream, holding, call)
						: KERNEL_E_NAME_TAKEN;
}
