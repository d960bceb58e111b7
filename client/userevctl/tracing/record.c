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

static char fields[FIELDS_MAX];

bool record_view_done(const struct record_view *view)
{
	return view->full || (view->most > 0 && view->records >= view->most);
}

int record_view_flush(const struct record_view *view)
{
	if (!view->sink)
		return output_flush(view->output);
	if (view->sink->flush)
		view->sink->flush(view->sink);
	return 0;
}

static const struct tenant_name *record_tenant_name(const struct taken_record *record)
{
	return record->tenant_name ? record->tenant_name : tenant_name(record->tenant);
}

const struct description *record_fitting_description(const struct taken_record *record)
{
	static struct description description; /* large */
	static char parsed[2 * WIRE_DESCRIPTION_MAX];
	char why[WIRE_SENTENCE_MAX];
	struct text reason = text_make(why, sizeof(why));

	/* Most records are of the same event. */
	if (!streq(parsed, record->description)) {
		*parsed = '\0';
		if (description_parse(record->description, strlen(record->description), &description, &reason) != 0)
			return NULL;
		string_copy(parsed, sizeof(parsed), record->description);
	}
	return record_is_valid(&description, record->payload, record->size) ? &description : NULL;
}

static void print_column(const struct output *output, enum style style, const char *string, size_t width,
			 bool may_shorten)
{
	char safe[SAFE_MAX], shortened[SAFE_MAX];
	struct text text = text_make(safe, sizeof(safe));
	size_t taken;

	text_safe(&text, *string ? string : "-", MAX(strlen(string), (size_t)1));
	if (!output->terminal) {
		output_styled(output, style, "%s\t", safe);
		return;
	}
	shorten(may_shorten && !output->full ? COLUMN_PATH : COLUMN_TEXT, safe, width, shortened, sizeof(shortened));
	taken = display_width(shortened);
	output_styled(output, style, "%s", shortened);
	fprintf(output->file, "%*s", (int)(width - MIN(width, taken)) + 2, "");
}

static void record_print_line(const struct output *output, const struct taken_record *record,
			      const struct description *description)
{
	const uint8_t *payload = record->payload;
	time_t seconds = (time_t)(record->time / NS_PER_S);
	char task[128], date[32], clock[64];
	struct text text = text_make(fields, sizeof(fields));
	struct tm broken = { 0 };

	localtime_r(&seconds, &broken);
	strftime(date, sizeof(date), "%H:%M:%S", &broken);
	snprintf(clock, sizeof(clock), "%s.%06" PRIu64, date, record->time % NS_PER_S / 1000);
	snprintf(task, sizeof(task), "%s-%" PRIu64, *record->comm ? record->comm : "-", record->pid);
	print_column(output, STYLE_DIM, clock, strlen(clock), false);
	print_column(output, STYLE_PLAIN, task, TASK_WIDTH, false);
	print_column(output, STYLE_DIM, tenant_shown_as(record_tenant_name(record), record->tenant),
		     output->width >= WIDE ? TENANT_WIDTH_WIDE : TENANT_WIDTH, true);
	print_column(output, STYLE_NAME, record->name, NAME_WIDTH, false);
	if (record->fields)
		text_printf(&text, "%s", record->fields);
	else if (description)
		record_to_text(description, payload, record->size, &text);
	for (size_t i = 0; !record->fields && !description && i < record->size; i++)
		text_printf(&text, "%02x", payload[i]);
	fprintf(output->file, "%s\n", fields);
}

static void record_print_json(const struct output *output, const struct taken_record *record,
			      const struct description *description)
{
	struct json json = { .file = output->file };
	struct text text = text_make(fields, sizeof(fields));
	time_t seconds = (time_t)(record->time / NS_PER_S);
	struct tm broken = { 0 };
	char date[64];

	gmtime_r(&seconds, &broken);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &broken);
	text_printf(&text, "%s.%09" PRIu64 "Z", date, record->time % NS_PER_S);
	json_begin(&json, '{');
	json_put(&json, json_text("time", fields), json_u64("time_ns", record->time), json_u64("pid", record->pid),
		 json_if(record->uid != UID_UNKNOWN, json_u64("uid", record->uid)),
		 json_if(*record->comm, json_text("comm", record->comm)),
		 json_if(*record->tenant, json_text("tenant", record->tenant)),
		 json_if(*record->tenant, json_text("tenant_name", record_tenant_name(record)->text)),
		 json_text("event", record->name));
	text = text_make(fields, sizeof(fields));
	if (description)
		record_to_json(description, record->payload, record->size, &text);
	if (record->fields || (description && !text.cut)) {
		json_put_key(&json, "fields");
		json_raw(&json, "%s", record->fields ? record->fields : fields);
	} else {
		json_put(&json, (struct row_field){ ROW_BYTES, "payload", strlen("payload"), record->payload,
						    record->size, 0 });
	}
	json_end(&json, '}');
}

void record_view_put(struct record_view *view, const struct taken_record *record)
{
	if (record->time < view->since)
		return;
	if (view->tenant && !tenant_matches(view->tenant, record_tenant_name(record), record->tenant))
		return;
	if (view->sink && !view->sink->put(view->sink, record)) {
		view->full = true;
		return;
	}
	view->records++;
	if (view->sink)
		return;
	(view->output->json ? record_print_json : record_print_line)(
		view->output, record, record->fields ? NULL : record_fitting_description(record));
}

void record_view_missed(struct record_view *view, uint64_t missed)
{
	view->missed += missed;
	if (view->sink)
		view->sink->missed(view->sink, missed);
	else if (view->output->json)
		json_print(view->output->file, json_u64("missed", missed));
	else
		ctl_note("userevctl: %s missed here: overwritten before userevctl could read.",
			 plural(missed, "record is", "records are").text);
}

int record_view_take(struct record_view *view, struct control *control)
{
	char comm[64], tenant[WIRE_TENANT_MAX + 1], name[WIRE_DESCRIPTION_MAX + 1], description[sizeof(name)];
	int r = control_next_packet(control);
	bool any = false;
	struct cursor row;

	for (; r == 0 && !record_view_done(view) && rows_next(&control->rows, &row); any = true) {
		struct row_field field;

		row_get_string(row, "comm", comm, sizeof(comm));
		row_get_string(row, "tenant", tenant, sizeof(tenant));
		row_get_string(row, "event", description, sizeof(description));
		string_copy(name, strcspn(description, " ") + 1, description);
		if (row_find(row, "missed", &field))
			record_view_missed(view, field.number);
		else if (*name && row_find(row, "payload", &field))
			record_view_put(view, &(struct taken_record){
						      .time = row_get_u64(row, "time"),
						      .pid = row_get_u64(row, "pid"),
						      .uid = row_get_u64(row, "uid"),
						      .comm = comm,
						      .tenant = tenant,
						      .name = name,
						      .description = description,
						      .payload = field.value,
						      .size = field.length,
					      });
	}
	if (any && view->output_error == 0)
		view->output_error = record_view_flush(view);
	return r;
}
