/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Records of events that are no user_events: the kernel's own, probes, tracers. libtraceevent knows their formats, in which fields are
 * aligned, and have types of the kernel's.
 */

#include "client/userevctl/tracing/tracefs.h"

struct kernel_events {
	struct tep_handle *tep;
	struct trace_seq line;
	char *text;
};

enum { RECORD_TEXT_MAX = 65536 };

struct kernel_events *kernel_events_load(const char *const *systems)
{
	struct tep_handle *tep = tracefs_local_events_system(tracefs_tracing_dir(), systems);
	struct kernel_events *events;

	if (!tep)
		return NULL;
	events = must(calloc(1, sizeof(*events)));
	events->tep = tep;
	events->text = must(malloc(RECORD_TEXT_MAX));
	trace_seq_init(&events->line);
	return events;
}

struct kernel_events *kernel_events_free(struct kernel_events *events)
{
	if (!events)
		return NULL;
	trace_seq_destroy(&events->line);
	tep_free(events->tep);
	free(events->text);
	free(events);
	return NULL;
}

static void put_json_field(struct kernel_events *events, struct text *text, struct tep_format_field *field,
			   struct tep_record *record)
{
	int length = 0;
	const uint8_t *data = tep_get_field_raw(NULL, field->event, field->name, record, &length, 0);
	size_t size = (size_t)MAX(length, 0);

	/* "char buf[]" of the trace_marker has the rest of the record. */
	if (data && field->size == 0 && field->flags & TEP_FIELD_IS_ARRAY && !(field->flags & TEP_FIELD_IS_DYNAMIC))
		size = (size_t)((const uint8_t *)record->data + record->size - data);
	text_json_string(text, field->name, strlen(field->name));
	text_printf(text, ":");
	if (!data || data < (const uint8_t *)record->data ||
	    data + size > (const uint8_t *)record->data + record->size) {
		text_printf(text, "null");
	} else if (field->flags & TEP_FIELD_IS_STRING) {
		text_json_string(text, (const char *)data, strnlen((const char *)data, size));
	} else if (field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC) || size > 8) {
		text_printf(text, "\"");
		for (size_t i = 0; i < size; i++)
			text_printf(text, "%02x", data[i]);
		text_printf(text, "\"");
	} else {
		const unsigned unused = 64 - 8 * (unsigned)MIN(MAX(field->size, 1), 8);
		const uint64_t number = tep_read_number(events->tep, data, length);

		if (field->flags & TEP_FIELD_IS_SIGNED)
			text_printf(text, "%lld", (long long)((int64_t)(number << unused) >> unused));
		else
			text_printf(text, "%llu", (unsigned long long)number);
	}
}

bool kernel_events_read(struct kernel_events *events, const void *data, size_t size, bool json, const char **ret_name,
			const char **ret_fields)
{
	struct tep_record record = { .data = (void *)data, .size = (int)size, .record_size = (int)size };
	struct tep_event *event = tep_find_event_by_record(events->tep, &record);
	struct text text = text_make(events->text, RECORD_TEXT_MAX);

	if (!event)
		return false;
	if (json) {
		text_printf(&text, "{");
		for (struct tep_format_field *field = event->format.fields; field; field = field->next) {
			if (field != event->format.fields)
				text_printf(&text, ",");
			put_json_field(events, &text, field, &record);
		}
		text_printf(&text, "}");
	} else {
		trace_seq_reset(&events->line);
		tep_print_event(events->tep, &events->line, &record, "%s", TEP_PRINT_INFO);
		while (events->line.len > 0 && events->line.buffer[events->line.len - 1] == '\n')
			events->line.len--;
		/* Some tracers write tabs. */
		for (char *at = events->line.buffer; at < events->line.buffer + events->line.len; at++)
			*at = *at == '\t' ? ' ' : *at;
		text_safe(&text, events->line.buffer, events->line.len);
	}
	*ret_name = event->name;
	*ret_fields = text.buffer;
	return !text.cut;
}
