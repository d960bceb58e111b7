/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Records as lines: time, comm-pid, tenant, event, fields. On a terminal the columns are padded, and the fields, which
 * come last, may run over its edge: what was recorded is never cut.
 */

#include <inttypes.h>
#include <time.h>

#include "client/userevctl/ctl.h"
#include "protocol/event/record.h"

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
static const struct description *parse(struct record_view *view, const struct piece *event)
{
	char why[WIRE_SENTENCE_MAX];
	struct text reason = text_make(why, sizeof(why));

	if (view->canonical && strlen(view->canonical) == event->length &&
	    memcmp(view->canonical, event->at, event->length) == 0)
		return view->description;
	free(view->canonical);
	view->canonical = NULL;
	if (!view->description)
		view->description = malloc(sizeof(*view->description));
	if (!view->description || description_parse(event->at, event->length, view->description, &reason) != 0)
		return NULL;
	view->canonical = strndup(event->at, event->length);
	return view->description;
}

static const struct description *fitting_description(struct record_view *view, const struct taken_record *record)
{
	const struct description *description = parse(view, &record->description);

	if (!description || record_check(description, record->payload.at, record->payload.length) != RECORD_OK)
		return NULL;
	return description;
}

static void put_hex(struct text *text, const struct piece *payload)
{
	const uint8_t *byte = payload->at;

	for (size_t i = 0; i < payload->length; i++)
		text_printf(text, "%02x", byte[i]);
}

static struct piece event_name(const struct taken_record *record)
{
	const struct piece *description = &record->description;
	const char *space;

	if (record->name.length > 0)
		return record->name;
	space = memchr(description->at, ' ', description->length);
	return (struct piece){ description->at,
			       space ? (size_t)(space - (const char *)description->at) : description->length };
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

static void make_piece_safe(const struct piece *piece, char *ret, size_t size)
{
	struct text text = text_make(ret, size);

	if (piece->length > 0)
		text_safe(&text, piece->at, piece->length);
	else
		text_put(&text, "-", 1);
}

static void print_line(struct record_view *view, const struct taken_record *record)
{
	static char fields[FIELDS_MAX];
	const struct output *output = view->output;
	const struct description *description = fitting_description(view, record);
	const struct piece name = event_name(record);
	char buffer[SAFE_MAX];
	struct text text = text_make(fields, sizeof(fields));

	print_time(output, record->time);
	make_piece_safe(&record->comm, buffer, sizeof(buffer) - 32);
	snprintf(buffer + strlen(buffer), 32, "-%" PRIu64, record->pid);
	print_column(output, STYLE_PLAIN, buffer, TASK_WIDTH, false);
	make_piece_safe(&record->tenant, buffer, sizeof(buffer));
	print_column(output, STYLE_DIM, buffer, output->width >= WIDE ? TENANT_WIDTH_WIDE : TENANT_WIDTH, true);
	make_piece_safe(&name, buffer, sizeof(buffer));
	print_column(output, STYLE_NAME, buffer, NAME_WIDTH, false);
	if (description)
		record_to_text(description, record->payload.at, record->payload.length, &text);
	else
		put_hex(&text, &record->payload);
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

static void json_payload(struct record_view *view, struct json *json, const struct taken_record *record)
{
	static char fields[FIELDS_MAX];
	struct text text = text_make(fields, sizeof(fields));
	const struct description *description = fitting_description(view, record);

	if (description)
		record_to_json(description, record->payload.at, record->payload.length, &text);
	if (description && !text.cut) {
		json_key(json, "fields", 6);
		json_raw(json, fields);
	} else {
		json_key(json, "payload", 7);
		json_hex(json, record->payload.at, record->payload.length);
	}
}

static void json_number(struct json *json, const char *key, uint64_t number)
{
	json_key(json, key, strlen(key));
	json_u64(json, number);
}

static void json_piece(struct json *json, const char *key, struct piece piece)
{
	if (piece.length == 0)
		return;
	json_key(json, key, strlen(key));
	json_string(json, piece.at, piece.length);
}

static void print_json(struct record_view *view, const struct taken_record *record)
{
	struct json json = { .file = view->output->file };

	json_begin(&json, '{');
	json_time(&json, record->time);
	json_number(&json, "pid", record->pid);
	if (record->uid_known)
		json_number(&json, "uid", record->uid);
	json_piece(&json, "comm", record->comm);
	json_piece(&json, "tenant", record->tenant);
	json_piece(&json, "event", event_name(record));
	json_payload(view, &json, record);
	json_end(&json, '}');
	putc('\n', json.file);
}

void record_view_put(struct record_view *view, const struct taken_record *record)
{
	view->records++;
	if (view->output->json)
		print_json(view, record);
	else
		print_line(view, record);
}

void record_view_missed(struct record_view *view, uint64_t missed)
{
	view->missed += missed;
	if (view->output->json)
		fprintf(view->output->file, "{\"missed\":%" PRIu64 "}\n", missed);
	else
		ctl_note("userevctl: %s missed here: they came faster than they were read.",
			 plural(missed, "record was", "records were").text);
}

static struct piece row_piece(struct cursor row, const char *key, enum row_type type)
{
	struct row_field field;

	if (!row_find(row, key, &field) || field.type != type)
		return (struct piece){ 0 };
	return (struct piece){ field.value, field.length };
}

static void put_row(struct record_view *view, struct cursor row)
{
	struct row_field missed;
	struct taken_record record = {
		.time = row_get_u64(row, "time"),
		.pid = row_get_u64(row, "pid"),
		.uid = row_get_u64(row, "uid"),
		.uid_known = true,
		.comm = row_piece(row, "comm", ROW_STRING),
		.tenant = row_piece(row, "tenant", ROW_STRING),
		.description = row_piece(row, "event", ROW_STRING),
		.payload = row_piece(row, "payload", ROW_BYTES),
	};

	if (row_find(row, "missed", &missed))
		record_view_missed(view, missed.number);
	else if (record.description.at && record.payload.at)
		record_view_put(view, &record);
}

int record_view_rows(struct record_view *view, struct cursor body)
{
	struct cursor rows, row;
	uint16_t count;

	if (decode_rows(body, &count, &rows) != 0)
		return -EBADMSG;
	while (!record_view_done(view) && rows_next(&rows, &row))
		put_row(view, row);
	return count > 0 ? output_flush(view->output) : 0;
}
