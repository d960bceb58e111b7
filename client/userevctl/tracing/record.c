/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Records as lines: time, comm-pid, tenant, event, fields. On a terminal the columns are padded, and the fields, which come
 * last, may be longer than the line: records are never shortened.
 */

#include "client/userevctl/tracing/record.h"

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
	/* A payload of 4,064 bytes of text in which every byte is escaped, and the names of the fields; or as hex. */
	FIELDS_MAX = WIRE_PAYLOAD_MAX * 8 + 4 * WIRE_DESCRIPTION_MAX,
};

void record_view_deinit(struct record_view *view)
{
	free(view->description);
	free(view->canonical);
}

bool record_view_done(const struct record_view *view)
{
	return view->most > 0 && view->records >= view->most;
}

/* NULL: the description is not known to this build, or the payload does not fit it. Most records are of the same event. */
static const struct description *fitting_description(struct record_view *view, const struct taken_record *record)
{
	const struct piece *event = &record->description;
	char why[WIRE_SENTENCE_MAX];
	struct text reason = text_make(why, sizeof(why));

	if (!view->canonical || strlen(view->canonical) != event->length ||
	    memcmp(view->canonical, event->at, event->length) != 0) {
		free(view->canonical);
		view->canonical = NULL;
		if (!view->description)
			view->description = must(malloc(sizeof(*view->description)));
		if (description_parse(event->at, event->length, view->description, &reason) != 0)
			return NULL;
		view->canonical = must(strndup(event->at, event->length));
	}
	if (record_check(view->description, record->payload.at, record->payload.length) != RECORD_OK)
		return NULL;
	return view->description;
}

static void print_column(const struct output *output, enum style style, struct piece piece, size_t width,
			 bool may_shorten)
{
	char safe[SAFE_MAX], shortened[SAFE_MAX];
	struct text text = text_make(safe, sizeof(safe));
	size_t taken;

	if (piece.length == 0)
		piece = piece_of("-");
	text_safe(&text, piece.at, piece.length);
	if (!output->terminal) {
		output_styled(output, style, "%s", safe);
		putc('\t', output->file);
		return;
	}
	shorten(may_shorten && !output->full ? COLUMN_PATH : COLUMN_TEXT, safe, width, shortened, sizeof(shortened));
	taken = display_width(shortened);
	output_styled(output, style, "%s", shortened);
	fprintf(output->file, "%*s", (int)(width - MIN(width, taken)) + 2, "");
}

static void record_print_line(struct record_view *view, const struct taken_record *record)
{
	static char fields[FIELDS_MAX];
	const struct output *output = view->output;
	const struct description *description = fitting_description(view, record);
	const struct piece comm = record->comm.length > 0 ? record->comm : piece_of("-");
	time_t seconds = (time_t)(record->time / NS_PER_S);
	char task[128], date[32], clock[64];
	struct text text = text_make(fields, sizeof(fields));
	struct tm broken = { 0 };

	localtime_r(&seconds, &broken);
	strftime(date, sizeof(date), "%H:%M:%S", &broken);
	snprintf(clock, sizeof(clock), "%s.%06" PRIu64, date, record->time % NS_PER_S / 1000);
	snprintf(task, sizeof(task), "%.*s-%" PRIu64, (int)comm.length, (const char *)comm.at, record->pid);
	print_column(output, STYLE_DIM, piece_of(clock), strlen(clock), false);
	print_column(output, STYLE_PLAIN, piece_of(task), TASK_WIDTH, false);
	print_column(output, STYLE_DIM, record->tenant, output->width >= WIDE ? TENANT_WIDTH_WIDE : TENANT_WIDTH, true);
	print_column(output, STYLE_NAME, record->name, NAME_WIDTH, false);
	if (description)
		record_to_text(description, record->payload.at, record->payload.length, &text);
	for (size_t i = 0; !description && i < record->payload.length; i++)
		text_printf(&text, "%02x", ((const uint8_t *)record->payload.at)[i]);
	fprintf(output->file, "%s\n", fields);
}

static void record_print_json(struct record_view *view, const struct taken_record *record)
{
	static char fields[FIELDS_MAX];
	struct json json = { .file = view->output->file };
	const struct description *description = fitting_description(view, record);
	const struct {
		const char *key;
		struct piece piece;
	} texts[] = { { "comm", record->comm }, { "tenant", record->tenant }, { "event", record->name } };
	struct text text = text_make(fields, sizeof(fields));
	time_t seconds = (time_t)(record->time / NS_PER_S);
	struct tm broken = { 0 };
	char date[64];

	gmtime_r(&seconds, &broken);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &broken);
	text_printf(&text, "%s.%09" PRIu64 "Z", date, record->time % NS_PER_S);
	json_begin(&json, '{');
	json_put(&json, json_text("time", fields), json_u64("time_ns", record->time), json_u64("pid", record->pid));
	if (record->uid_known)
		json_put(&json, json_u64("uid", record->uid));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (texts[i].piece.length == 0)
			continue;
		json_put_key(&json, texts[i].key);
		json_string(&json, texts[i].piece.at, texts[i].piece.length);
	}
	text = text_make(fields, sizeof(fields));
	if (description)
		record_to_json(description, record->payload.at, record->payload.length, &text);
	if (description && !text.cut) {
		json_put_key(&json, "fields");
		json_raw(&json, "%s", fields);
	} else {
		json_put(&json, json_bytes("payload", record->payload.at, record->payload.length));
	}
	json_end_line(&json, '}');
}

void record_view_put(struct record_view *view, const struct taken_record *record)
{
	view->records++;
	if (view->output->json)
		record_print_json(view, record);
	else
		record_print_line(view, record);
}

void record_view_missed(struct record_view *view, uint64_t missed)
{
	view->missed += missed;
	if (view->output->json)
		fprintf(view->output->file, "{\"missed\":%" PRIu64 "}\n", missed);
	else
		ctl_note("userevctl: %s missed here: overwritten before userevctl could read.",
			 plural(missed, "record is", "records are").text);
}

static struct piece row_piece(struct cursor row, const char *key, enum row_type type)
{
	struct row_field field;

	if (!row_find(row, key, &field) || field.type != type)
		return (struct piece){ 0 };
	return (struct piece){ field.value, field.length };
}

int record_view_take(struct record_view *view, struct control *control)
{
	int r = control_next_packet(control);
	bool any = false;
	struct cursor row;

	for (; r == 0 && !record_view_done(view) && rows_next(&control->rows, &row); any = true) {
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

		if (row_find(row, "missed", &missed)) {
			record_view_missed(view, missed.number);
		} else if (record.description.at && record.payload.at) {
			const char *space = memchr(record.description.at, ' ', record.description.length);

			record.name = record.description;
			if (space)
				record.name.length = (size_t)(space - (const char *)record.name.at);
			record_view_put(view, &record);
		}
	}
	if (any && view->output_error == 0)
		view->output_error = output_flush(view->output);
	return r;
}
