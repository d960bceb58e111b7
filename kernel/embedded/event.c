/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/embedded.h"

static void trace_event_free(struct tracer *tracer, struct trace_event *event)
{
	HASH_DELETE(by_name, tracer->by_name, event);
	roster_remove(&tracer->events, event->id);
	free(event);
}

static struct trace_event *trace_event_make(uint64_t id, const struct description *description)
{
	size_t length = strlen(description->canonical);
	struct trace_event *event = calloc(1, sizeof(*event) + length + 1 + description->name_length + 1);
	char *name;

	if (!event)
		return NULL;
	event->id = id;
	LIST_INIT(&event->holdings);
	memcpy(event->description, description->canonical, length);
	name = event->description + length + 1;
	memcpy(name, description->canonical, description->name_length);
	event->name = name;
	event->name_length = description->name_length;
	return event;
}

static int trace_event_new(struct tracer *tracer, const struct description *description, struct trace_event **ret)
{
	_cleanup_(freep) struct trace_event *event = trace_event_make(tracer->last_id + 1, description);
	int r;

	if (!event)
		return -ENOMEM;
	HASH_ADD_KEYPTR(by_name, tracer->by_name, event->name, event->name_length, event);
	if (!table_added())
		return -ENOMEM;
	r = roster_append(&tracer->events, event->id, event);
	if (r < 0) {
		HASH_DELETE(by_name, tracer->by_name, event);
		return r;
	}
	tracer->last_id = event->id;
	tracer_learns(tracer, event);
	*ret = steal_pointer(event);
	return 0;
}

int trace_event_get(struct embedded *embedded, const struct description *description, struct trace_event **ret)
{
	struct tracer *tracer = &embedded->tracer;
	struct trace_event *event;

	HASH_FIND(by_name, tracer->by_name, description->canonical, description->name_length, event);
	if (event) {
		if (!streq(event->description, description->canonical))
			return KERNEL_E_NAME_TAKEN;
		*ret = event;
		return 0;
	}
	if (roster_count(&tracer->events) >= embedded->kernel.facts.capacity)
		return KERNEL_E_FULL;
	return trace_event_new(tracer, description, ret);
}

void trace_event_tidy(struct embedded *embedded, struct trace_event *event)
{
	if (event->pages == 0 && !event->switched)
		trace_event_free(&embedded->tracer, event);
}

static int holding_new(struct embedded *embedded, const struct holding_key *key, struct holding **ret)
{
	_cleanup_(freep) struct holding *holding = calloc(1, sizeof(*holding));
	struct page *page = &key->page->page;
	int r;

	if (!holding)
		return -ENOMEM;
	holding->of = *key;
	r = page_take_bit(page, &holding->bit);
	if (r != 0)
		return r;
	HASH_ADD(by_key, embedded->holdings, of, sizeof(holding->of), holding);
	if (!table_added()) {
		page_give_bit(page, holding->bit);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&key->event->holdings, holding, in_event);
	key->event->pages++;
	page_set(page, holding->bit, key->event->on);
	*ret = steal_pointer(holding);
	return 0;
}

int holding_get(struct embedded *embedded, struct embedded_page *page, struct trace_event *event, struct holding **ret)
{
	const struct holding_key key = { .page = page, .event = event };
	struct holding *holding;

	HASH_FIND(by_key, embedded->holdings, &key, sizeof(key), holding);
	if (!holding)
		return holding_new(embedded, &key, ret);
	*ret = holding;
	return 0;
}

void holding_tidy(struct embedded *embedded, struct holding *holding)
{
	struct holding_key of = holding->of;

	if (holding->slots > 0)
		return;
	page_give_bit(&of.page->page, holding->bit);
	HASH_DELETE(by_key, embedded->holdings, holding);
	LIST_REMOVE(holding, in_event);
	free(holding);
	of.event->pages--;
	trace_event_tidy(embedded, of.event);
}

static int slot_new(struct embedded *embedded, const struct slot_key *key, struct slot **ret)
{
	_cleanup_(freep) struct slot *slot = NULL;
	struct source *source = key->source;
	int r;

	/* A late record must never be taken for another event's, so four billion is the end. */
	if (source->next_index == UINT32_MAX)
		return -EOVERFLOW;
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	slot->of = *key;
	slot->index = source->next_index;
	HASH_ADD(by_key, embedded->slots, of, sizeof(slot->of), slot);
	if (!table_added())
		return -ENOMEM;
	r = roster_append(&source->slots, slot->index, slot);
	if (r < 0) {
		HASH_DELETE(by_key, embedded->slots, slot);
		return r;
	}
	source->next_index++;
	key->holding->slots++;
	*ret = steal_pointer(slot);
	return 0;
}

int slot_get(struct embedded *embedded, struct source *source, struct holding *holding, struct slot **ret)
{
	const struct slot_key key = { .source = source, .holding = holding };
	struct slot *slot;

	HASH_FIND(by_key, embedded->slots, &key, sizeof(key), slot);
	if (!slot)
		return slot_new(embedded, &key, ret);
	*ret = slot;
	return 0;
}

void slot_free(struct embedded *embedded, struct slot *slot)
{
	struct slot_key of = slot->of;

	HASH_DELETE(by_key, embedded->slots, slot);
	roster_remove(&of.source->slots, slot->index);
	free(slot);
	of.holding->slots--;
	holding_tidy(embedded, of.holding);
}
