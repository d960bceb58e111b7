/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Records as lines: time, comm-pid, tenant, event, fields. On a terminal the columns are padded, and the fields, which come
 * last, may run over its edge: what was recorded is never cut.
 */

#include <inttypes.h>
#include <time.h>

#include "client/ctl.h"
#include "protocol/record.h"

enum {
	SAFE_MAX = 4 * WIRE_TENANT_MAX + 1,
	TASK_WIDTH = 20,
	TENANT_WIDTH = 20,
	TENANT_WIDTH_WIDE = 36,
	WIDE = 140,
	NAME_WIDTH = 18,
	/* A payload of 4,064 bytes of text in which every byte is escaped, and the fields' names; or as hex. */
	FIELDS_MAX = WIRE_PAYLOAD_MAX * 8 + 4 * WIRE_DESCRIPTION_MAX,
};

#define NS_PER_S UINT64_C(1000000000)

void record_view_deinit(struct record_view *view)
{
	free(view->description);
	free(view->canonical);
	view->description = NULL;
	view->canonical = NULL;
}

bool record_view_done(const struct record_view *view)
{
	return view->most > 0 && view->records >= view->most;
}

/* One record after the other is of the same event, most often. NULL: not a description that this build knows. */
static const struct description *parse(struct record_view *view, const struct row_field *event)
{
	char why[WIRE_SENTENCE_MAX];
	struct text reason = text_make(why, sizeof(why));

	if (view->canonical && strlen(view->canonical) == event->length &&
	    memcmp(view->canonical, event->value, event->length) == 0)
		return view->description;
	free(view->canonical);
	view->canonical = NULL;
	if (!view->description)
		view->description = malloc(sizeof(*view->description));
	if (!view->description ||
	    description_parse((const char *)event->value, event->length, view->description, &reason) != 0)
		return NULL;
	view->canonical = strndup((const char *)event->value, event->length);
	return view->description;
}

static const struct description *fitting_description(struct record_view *view, const struct row_field *event,
						     const struct row_field *payload)
{
	const struct description *description = parse(view, event);

	if (!description || record_check(description, payload->value, payload->length) != RECORD_OK)
		return NULL;
	return description;
}

static void put_hex(struct text *text, const struct row_field *payload)
{
	for (size_t i = 0; i < payload->length; i++)
		text_printf(text, "%02x", payload->value[i]);
}

static void print_column(const struct output *output, enum style style, const char *text, size_t width, bool shorten)
{
	char shortened[SAFE_MAX];
	size_t taken;

	if (!output->terminal) {
		output_styled(output, style, "%s", text);
		putc('\t', output->file);
		return;
	}
	if (shorten && !output->full) {
		shorten_middle(text, width, shortened, sizeof(shortened));
		text = shortened;
	}
	taken = display_width(text);
	output_styled(output, style, "%s", text);
	fprintf(output->file, "%*s", (int)(width - MIN(width, taken)) + 2, "");
}

static void print_time(const struct output *output, uint64_t time)
{
	time_t seconds = (time_t)(time / NS_PER_S);
	char clock[32], text[64];
	struct tm broken;

	if (!localtime_r(&seconds, &broken))
		broken = (struct tm){ 0 };
	strftime(clock, sizeof(clock), "%H:%M:%S", &broken);
	snprintf(text, sizeof(text), "%s.%06" PRIu64, clock, time % NS_PER_S / 1000);
	print_column(output, STYLE_DIM, text, strlen(text), false);
}

static void safe_field(struct cursor row, const char *key, char *ret, size_t size)
{
	struct text text = text_make(ret, size);
	struct row_field field;

	if (row_find(row, key, &field) && field.type == ROW_STRING && field.length > 0)
		text_safe(&text, (const char *)field.value, field.length);
	else
		text_put(&text, "-", 1);
}

static void print_line(struct record_view *view, struct cursor row, const struct row_field *event,
		       const struct row_field *payload)
{
	static char fields[FIELDS_MAX];
	const struct output *output = view->output;
	const struct description *description = fitting_description(view, event, payload);
	const char *space = memchr(event->value, ' ', event->length);
	size_t name_length = space ? (size_t)(space - (const char *)event->value) : event->length;
	char buffer[SAFE_MAX];
	struct text text;

	print_time(output, row_get_u64(row, "time"));
	safe_field(row, "comm", buffer, sizeof(buffer) - 32);
	snprintf(buffer + strlen(buffer), 32, "-%" PRIu64, row_get_u64(row, "pid"));
	print_column(output, STYLE_PLAIN, buffer, TASK_WIDTH, false);
	safe_field(row, "tenant", buffer, sizeof(buffer));
	print_column(output, STYLE_DIM, buffer, output->width >= WIDE ? TENANT_WIDTH_WIDE : TENANT_WIDTH, true);
	text = text_make(buffer, sizeof(buffer));
	text_safe(&text, (const char *)event->value, name_length);
	print_column(output, STYLE_NAME, buffer, NAME_WIDTH, false);

	text = text_make(fields, sizeof(fields));
	if (description)
		record_to_text(description, payload->value, payload->length, &text);
	else
		put_hex(&text, payload);
	fprintf(output->file, "%s\n", fields);
}

static void json_time(struct json *json, uint64_t time)
{
	time_t seconds = (time_t)(time / NS_PER_S);
	char date[32], text[64];
	struct tm broken;

	if (!gmtime_r(&seconds, &broken))
		broken = (struct tm){ 0 };
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &broken);
	snprintf(text, sizeof(text), "%s.%09" PRIu64 "Z", date, time % NS_PER_S);
	json_key(json, "time", 4);
	json_string(json, text, strlen(text));
	json_key(json, "time_ns", 7);
	json_u64(json, time);
}

static void json_payload(struct record_view *view, struct json *json, const struct row_field *event,
			 const struct row_field *payload)
{
	static char fields[FIELDS_MAX];
	struct text text = text_make(fields, sizeof(fields));
	const struct description *description = fitting_description(view, event, payload);

	if (description)
		record_to_json(description, payload->value, payload->length, &text);
	if (description && !text.cut) {
		json_key(json, "fields", 6);
		json_raw(json, fields);
	} else {
		json_key(json, "payload", 7);
		json_hex(json, payload->value, payload->length);
	}
}

static void print_json(struct record_view *view, struct cursor row, const struct row_field *event,
		       const struct row_field *payload)
{
	static const char *const strings[] = { "comm", "tenant" };
	static const char *const numbers[] = { "pid", "uid" };
	struct json json = { .file = view->output->file };
	const char *space = memchr(event->value, ' ', event->length);
	struct row_field field;

	json_begin(&json, '{');
	json_time(&json, row_get_u64(row, "time"));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		json_key(&json, numbers[i], strlen(numbers[i]));
		json_u64(&json, row_get_u64(row, numbers[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		if (!row_find(row, strings[i], &field))
			continue;
		json_key(&json, strings[i], strlen(strings[i]));
		json_string(&json, (const char *)field.value, field.length);
	}
	json_key(&json, "event", 5);
	json_string(&json, (const char *)event->value,
		    space ? (size_t)(space - (const char *)event->value) : event->length);
	json_payload(view, &json, event, payload);
	json_end(&json, '}');
	putc('\n', json.file);
}

static void print_missed(struct record_view *view, uint64_t missed)
{
	view->missed += missed;
	if (view->output->json)
		fprintf(view->output->file, "{\"missed\":%" PRIu64 "}\n", missed);
	else
		ctl_note("userevctl: %s missed here: they came faster than they were read.",
			 plural(missed, "record was", "records were").text);
}

static void print_row(struct record_view *view, struct cursor row)
{
	struct row_field missed, event, payload;

	if (row_find(row, "missed", &missed)) {
		print_missed(view, missed.number);
		return;
	}
	if (!row_find(row, "event", &event) || event.type != ROW_STRING || !row_find(row, "payload", &payload) ||
	    payload.type != ROW_BYTES)
		return;
	view->records++;
	if (view->output->json)
		print_json(view, row, &event, &payload);
	else
		print_line(view, row, &event, &payload);
}

int record_view_rows(struct record_view *view, struct cursor body)
{
	struct cursor rows, row;
	uint16_t count;

	if (decode_rows(body, &count, &rows) != 0)
		return -EBADMSG;
	while (!record_view_done(view) && rows_next(&rows, &row))
		print_row(view, row);
	return count > 0 ? output_flush(view->output) : 0;
}
