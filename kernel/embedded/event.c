/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/embedded.h"

#include "protocol/base/array.h"

int trace_event_get(struct embedded *embedded, const struct description *description, struct trace_event **ret)
{
	const size_t length = strlen(description->canonical), name_length = description->name_length;
	struct tracer *tracer = &embedded->tracer;
	struct trace_event *event;

	HASH_FIND(by_name, tracer->events, description->canonical, description->name_length, *ret);
	if (*ret)
		return streq((*ret)->description, description->canonical) ? 0 : KERNEL_E_NAME_TAKEN;
	if (HASH_CNT(by_name, tracer->events) >= embedded->kernel.facts.capacity)
		return KERNEL_E_FULL;
	event = calloc(1, sizeof(*event) + length + 1 + name_length + 1);
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

bool holding_is_on(const struct holding *holding)
{
	return holding->of.event->on && !(holding->state & KERNEL_SILENT);
}

/* Programs may read who wants the records before the bit is on, and still after it is off. */
static void holding_set_bit(const struct holding *holding)
{
	const bool is_on = holding_is_on(holding), is_traced = holding->state & KERNEL_TRACES;
	const uint16_t state = (holding->state & KERNEL_TRACES) | (is_on ? 0 : KERNEL_SILENT);
	struct page *page = &holding->of.page->page;

	if (is_traced)
		page_trace(page, holding->bit, state);
	page_set(page, holding->bit, is_on || is_traced);
	if (!is_traced)
		page_trace(page, holding->bit, 0);
}

void holding_show(struct embedded *embedded, const struct holding *holding)
{
	const struct kernel *kernel = &embedded->kernel;

	holding_set_bit(holding);
	if (kernel->changed)
		kernel->changed(kernel->changed_data, holding->of.page->number, holding->bit);
}

void holding_set_state(struct embedded *embedded, struct holding *holding, uint16_t state)
{
	const uint16_t changed = holding->state ^ state;

	holding->state = state;
	if (changed & KERNEL_TRACES || (changed && holding->of.event->on))
		holding_show(embedded, holding);
}

int holding_get(struct embedded *embedded, struct embedded_page *page, struct trace_event *event, uint16_t state,
		struct holding **ret)
{
	const struct holding_key key = { .page = page, .event = event };
	struct holding *holding;
	int r;

	HASH_FIND(by_key, embedded->holdings, &key, sizeof(key), *ret);
	if (*ret) {
		holding_set_state(embedded, *ret, state);
		return 0;
	}
	holding = calloc(1, sizeof(*holding));
	if (!holding)
		return -ENOMEM;
	holding->of = key;
	holding->state = state;
	r = bits_take(&page->page.bits, &holding->bit);
	if (r == 0 && !bits_set_owner(&page->page.bits, holding->bit, holding)) {
		page_give_bit(&page->page, holding->bit);
		r = -ENOMEM;
	}
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
	holding_set_bit(holding);
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

static int compare_index(const void *index, const void *slot)
{
	const uint32_t one = *(const uint32_t *)index, other = ((const struct slot *)slot)->index;

	return (one > other) - (one < other);
}

struct slot *slot_find(const struct source *source, uint32_t index)
{
	return source->slots ? bsearch(&index, source->slots, source->n_slots, sizeof(*source->slots), compare_index)
			     : NULL;
}

/* A new holding is on no stream yet; and a stream has some hundred events at most (STREAM_EVENTS_MAX). */
int slot_get(struct source *source, struct holding *holding, uint32_t *ret_index)
{
	struct slot *slots;

	for (size_t i = 0; i < source->n_slots && holding->slots > 0; i++) {
		*ret_index = source->slots[i].index;
		if (source->slots[i].holding == holding)
			return 0;
	}
	/* Indexes are never used again, as a late record must not be taken for another event's: four billion is the end. */
	if (source->next_index == UINT32_MAX)
		return -EOVERFLOW;
	slots = array_grow(source->slots, source->n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	source->slots = slots;
	*ret_index = source->next_index++;
	slots[source->n_slots++] = (struct slot){ .holding = holding, .index = *ret_index };
	holding->slots++;
	return 0;
}

void slot_free(struct embedded *embedded, struct source *source, struct slot *slot)
{
	struct holding *holding = slot->holding;
	const struct slot *end = source->slots + source->n_slots--;

	memmove(slot, slot + 1, (size_t)(end - slot - 1) * sizeof(*slot));
	holding->slots--;
	holding_tidy(embedded, holding);
}
