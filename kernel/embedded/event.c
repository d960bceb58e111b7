/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/embedded.h"

static int trace_event_new(struct tracer *tracer, const struct description *description, struct trace_event **ret)
{
	const size_t length = strlen(description->canonical), name_length = description->name_length;
	struct trace_event *event = calloc(1, sizeof(*event) + length + 1 + name_length + 1);

	if (!event)
		return -ENOMEM;
	memcpy(event->description, description->canonical, length);
	memcpy(event->description + length + 1, description->canonical, name_length);
	event->id = tracer->last_id + 1;
	event->name = event->description + length + 1;
	event->name_length = name_length;
	LIST_INIT(&event->holdings);
	HASH_ADD_KEYPTR(by_name, tracer->events, event->name, name_length, event);
	if (!table_added()) {
		free(event);
		return -ENOMEM;
	}
	tracer->last_id = event->id;
	tracer_add(tracer, event);
	*ret = event;
	return 0;
}

int trace_event_get(struct embedded *embedded, const struct description *description, struct trace_event **ret)
{
	struct tracer *tracer = &embedded->tracer;

	HASH_FIND(by_name, tracer->events, description->canonical, description->name_length, *ret);
	if (*ret)
		return streq((*ret)->description, description->canonical) ? 0 : KERNEL_E_NAME_TAKEN;
	if (HASH_CNT(by_name, tracer->events) >= embedded->kernel.facts.capacity)
		return KERNEL_E_FULL;
	return trace_event_new(tracer, description, ret);
}

void trace_event_tidy(struct embedded *embedded, struct trace_event *event)
{
	struct tracer *tracer = &embedded->tracer;

	if (event->pages > 0 || event->switched)
		return;
	if (tracer->cursor == event)
		tracer->cursor = event->by_name.prev;
	HASH_DELETE(by_name, tracer->events, event);
	free(event);
}

int holding_get(struct embedded *embedded, struct embedded_page *page, struct trace_event *event, struct holding **ret)
{
	const struct holding_key key = { .page = page, .event = event };
	struct holding *holding;
	int r;

	HASH_FIND(by_key, embedded->holdings, &key, sizeof(key), *ret);
	if (*ret)
		return 0;
	holding = calloc(1, sizeof(*holding));
	if (!holding)
		return -ENOMEM;
	holding->of = key;
	r = bits_take(&page->page.bits, &holding->bit);
	if (r == 0) {
		HASH_ADD(by_key, embedded->holdings, of, sizeof(holding->of), holding);
		if (!table_added()) {
			page_give_bit(&page->page, holding->bit);
			r = -ENOMEM;
		}
	}
	if (r != 0) {
		free(holding);
		return r;
	}
	LIST_INSERT_HEAD(&event->holdings, holding, in_event);
	event->pages++;
	page_set(&page->page, holding->bit, event->on);
	*ret = holding;
	return 0;
}

void holding_tidy(struct embedded *embedded, struct holding *holding)
{
	struct trace_event *event = holding->of.event;

	if (holding->slots > 0)
		return;
	page_give_bit(&holding->of.page->page, holding->bit);
	HASH_DELETE(by_key, embedded->holdings, holding);
	LIST_REMOVE(holding, in_event);
	free(holding);
	event->pages--;
	trace_event_tidy(embedded, event);
}

struct slot *slot_find(const struct source *source, uint32_t index)
{
	struct slot *slot;

	NUMBER_FIND(by_index, source->by_index, index, slot);
	return slot;
}

int slot_get(struct source *source, struct holding *holding, struct slot **ret)
{
	struct slot *slot;

	NUMBER_FIND(by_holding, source->by_holding, holding, *ret);
	if (*ret)
		return 0;
	/* Indexes are never used again, as a late record must not be taken for another event's: four billion is the end. */
	if (source->next_index == UINT32_MAX)
		return -EOVERFLOW;
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	slot->source = source;
	slot->holding = holding;
	slot->index = source->next_index;
	NUMBER_ADD(by_index, source->by_index, index, slot);
	if (!table_added()) {
		free(slot);
		return -ENOMEM;
	}
	NUMBER_ADD(by_holding, source->by_holding, holding, slot);
	if (!table_added()) {
		HASH_DELETE(by_index, source->by_index, slot);
		free(slot);
		return -ENOMEM;
	}
	source->next_index++;
	holding->slots++;
	*ret = slot;
	return 0;
}

void slot_free(struct embedded *embedded, struct slot *slot)
{
	struct holding *holding = slot->holding;

	HASH_DELETE(by_index, slot->source->by_index, slot);
	HASH_DELETE(by_holding, slot->source->by_holding, slot);
	free(slot);
	holding->slots--;
	holding_tidy(embedded, holding);
}
