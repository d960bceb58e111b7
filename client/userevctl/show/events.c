/* SPDX-License-Identifier: GPL-2.0-or-later */

/* events: the events, their tracers and their holders. `status` ends with the same table. */

#include <inttypes.h>
#include <time.h>

#include "client/userevctl/show/show.h"
#include "client/userevctl/show/tenant_name.h"
#include "client/userevctl/tracing/users.h"
#include "protocol/base/text.h"

enum { SHOWN_MAX = 3 }; /* holders and tenants, without --full */

/* The programs, or their tenants, which the daemon lists one after the other: "…, … and 7 more". */
static void put_holders(struct table *table, const struct tracing *tracing, const struct event *event, bool tenants)
{
	static char buffer[16 * WIRE_TENANT_MAX];
	struct text list = text_make(buffer, sizeof(buffer));
	uint64_t total = row_get_u64(event->row, tenants ? "tenants" : "holders_total"), shown = 0;
	struct cursor holders = row_rows(event->row, "holders"), holder;
	struct row_field before = { 0 }, tenant = { 0 };

	char path[WIRE_TENANT_MAX + 1];
	const char *name;

	for (; (tracing->ctl->output.full || shown < SHOWN_MAX) && row_next_item(&holders, &holder) > 0;
	     before = tenant) {
		if (!row_find(holder, "tenant", &tenant) ||
		    (tenants && before.value && before.length == tenant.length &&
		     memcmp(before.value, tenant.value, tenant.length) == 0))
			continue;
		text_printf(&list, "%s", shown++ > 0 ? ", " : "");
		if (tenants) {
			string_copy(path, MIN(sizeof(path), tenant.length + 1), (const char *)tenant.value);
			name = tenant_shown(path);
			text_safe(&list, name, strlen(name));
		} else {
			text_printf(&list, "%s-%" PRIu64, row_string(holder, "comm").text, row_get_u64(holder, "pid"));
		}
	}
	if (total > shown)
		text_printf(&list, "%s%" PRIu64 " more", shown > 0 ? " and " : "", total - shown);
	table_put(table, shown > 0 ? STYLE_PLAIN : STYLE_DIM, buffer);
}

/* The admin that has switched it on through userevctl. Empty if it has been switched off in tracefs since then. */
static struct cursor enabled_by(const struct tracing *tracing, const struct event *event)
{
	struct cursor admins = row_rows(event->row, "enabled_by"), admin = { 0 };

	if (event->on || tracing->blind)
		row_next_item(&admins, &admin);
	return admin;
}

enum { EVENT, STATE, USED_BY, RECORDS, BAD, HELD_BY, TENANTS, FIELDS, ENABLED_BY, COLUMNS };
static const struct column columns[COLUMNS] = {
	{ "EVENT", COLUMN_PATH, 0 },	 { "STATE", COLUMN_TEXT, 0 },  { "USED BY", COLUMN_LIST, 0 },
	{ "RECORDS", COLUMN_NUMBER, 0 }, { "BAD", COLUMN_NUMBER, 0 },  { "HELD BY", COLUMN_LONG, 0 },
	{ "TENANTS", COLUMN_LIST, 0 },	 { "FIELDS", COLUMN_LONG, 0 }, { "ENABLED BY", COLUMN_TEXT, 0 },
};

/* "on", or "on in 1 of 500" tenants. */
static struct phrase event_state(const struct tracing *tracing, const struct event *event)
{
	const uint64_t tenants = row_get_u64(event->row, "tenants"), silent = row_get_u64(event->row, "silent");
	struct phrase state;

	if (event->on && !tracing->blind && silent > 0)
		snprintf(state.text, sizeof(state.text), "on in %" PRIu64 " of %" PRIu64,
			 tenants - MIN(silent, tenants), tenants);
	else
		snprintf(state.text, sizeof(state.text), "%s", tracing->blind ? "-" : event->on ? "on" : "off");
	return state;
}

static void put_event(struct table *table, const struct tracing *tracing, const struct event *event)
{
	enum style style = event->on ? STYLE_GOOD : STYLE_DIM;
	uint64_t bad = row_get_u64(event->row, "bad");
	struct cursor admin = enabled_by(tracing, event);
	time_t seconds = (time_t)(row_get_u64(admin, "time") / NS_PER_S);
	struct tm broken = { 0 };
	char buffer[1024], date[32];
	struct text list = text_make(buffer, sizeof(buffer));

	users_put(event, &list);
	table_put(table, event->on ? STYLE_GOOD : STYLE_NAME, event->shown);
	table_put(table, style, event_state(tracing, event).text);
	table_put(table, style, buffer);
	table_put_number(table, STYLE_PLAIN, row_get_u64(event->row, "records"));
	table_put_number(table, bad > 0 ? STYLE_BAD : STYLE_PLAIN, bad);
	if (event->foreign)
		table_put(table, STYLE_WARNING, "foreign");
	else if (row_get_u64(event->row, "persistent") && row_get_u64(event->row, "holders_total") == 0)
		table_put(table, STYLE_DIM, "persistent");
	else
		put_holders(table, tracing, event, false);
	put_holders(table, tracing, event, true);
	table_put(table, STYLE_PLAIN, event->fields ? event->fields : "");
	localtime_r(&seconds, &broken);
	strftime(date, sizeof(date), "%F %T", &broken);
	snprintf(buffer, sizeof(buffer), "%.40s-%" PRIu64 ", user %" PRIu64 ", %s", row_string(admin, "comm").text,
		 row_get_u64(admin, "pid"), row_get_u64(admin, "uid"), date);
	table_put(table, STYLE_PLAIN, admin.left > 0 ? buffer : "");
}

/* All fields of the daemon's row, with "enabled_by" as an object, and behind them those of tracefs. */
static void event_json(struct json *json, const struct tracing *tracing, const struct event *event)
{
	_cleanup_(users_deinit) struct users users = { 0 };
	struct cursor row = event->row, admin = enabled_by(tracing, event);
	char text[4 * WIRE_DESCRIPTION_MAX];
	struct row_field field;

	json_begin(json, '{');
	while (row_next(&row, &field) > 0)
		if (field.key_length != strlen("enabled_by") || memcmp(field.key, "enabled_by", field.key_length) != 0)
			json_put(json, field);
	if (admin.left > 0) {
		json_put_key(json, "enabled_by");
		json_row(json, admin);
	}
	if (event->foreign) {
		const char *fields = event->fields ? event->fields : "";

		snprintf(text, sizeof(text), "%s%s%s", event->shown, fields[0] ? " " : "", fields);
		json_put(json, json_text("event", event->shown), json_text("description", event->fields ? text : NULL),
			 json_bool("foreign", true));
	}
	if (tracing->kernel && !tracing->blind) {
		json_put(json, json_bool("on", event->on));
		json_put_begin(json, "used_by", '[');
		for (size_t i = 0; i < USERS; i++)
			if (event->used_by & 1U << i)
				json_string(json, user_names[i], strlen(user_names[i]));
		json_end(json, ']');
		users_find(event, &users);
		json_put_begin(json, "users", '[');
		for (size_t i = 0; i < users.n; i++)
			json_string(json, users.name[i], strlen(users.name[i]));
		json_end(json, ']');
	}
	if (event->system) {
		snprintf(text, sizeof(text), "%s:%s", event->system, event->shown);
		json_put(json, json_text("tracefs", text));
	}
	json_end(json, '}');
}

size_t events_print(const struct tracing *tracing, bool in_status)
{
	_cleanup_(table_deinit) struct table table = table_make(columns, COLUMNS);
	const struct event *event = NULL;
	size_t count = 0;

	/* The daemon counts the records that it takes; the kernel tells tracers apart. */
	if (in_status || tracing->kernel)
		table.hidden = 1 << RECORDS | 1 << BAD;
	if (!tracing->kernel)
		table.hidden |= in_status ? 1 << USED_BY : 1 << USED_BY | 1 << TENANTS;
	if (in_status)
		table.hidden |= 1 << FIELDS;
	if (in_status || !tracing->ctl->output.full)
		table.hidden |= 1 << ENABLED_BY;
	for (; (event = tracing_next(tracing, event)); count++)
		put_event(&table, tracing, event);
	if (count > 0)
		table_print(&table, &tracing->ctl->output);
	return count;
}

size_t events_print_json(const struct tracing *tracing, struct json *json)
{
	const struct event *event = NULL;
	size_t count = 0;

	json_begin(json, '[');
	for (; (event = tracing_next(tracing, event)); count++)
		event_json(json, tracing, event);
	json_end(json, ']');
	return count;
}

struct selection {
	const char *tenant, *sort;
	bool on;
};

static const char *const orders[] = { "name", "programs", "tenants", "records", NULL };

/* The most first; equal ones by name, as they are. */
static int compare_numbers(const void *a, const void *b, void *key)
{
	const struct event *one = a, *other = b;
	const uint64_t first = row_get_u64(one->row, key), second = row_get_u64(other->row, key);

	return first != second ? (first > second ? -1 : 1) : strcmp(one->shown, other->shown);
}

static int events_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct selection selection = { .sort = orders[0] };
	struct catalogue *all;
	size_t count;
	int r;

	options_read(ctl, &selection, 0, INT32_MAX);
	r = tracing_open(ctl, TRACING_LOOK, &tracing);
	if (r != EXIT_DONE)
		return r;
	if (selection.on && tracing->blind)
		return EXIT_NOT_PERMITTED;
	tracing->foreign = FOREIGN_ALL;
	all = &tracing->events;
	tracing_learn_fields(tracing);
	tracing->tenant = selection.tenant;
	tracing->only_on = selection.on;
	if (streq(selection.sort, "programs"))
		selection.sort = "holders_total";
	if (all->n > 0 && !streq(selection.sort, "name"))
		qsort_r(all->events, all->n, sizeof(*all->events), compare_numbers, (void *)selection.sort);
	if (ctl->output.json)
		count = events_print_json(tracing, &(struct json){ .file = ctl->output.file });
	else
		count = events_print(tracing, false);
	if (count == 0 && ctl->argc > 0)
		return names_check(tracing, false);
	if (count == 0 && !ctl->output.json)
		ctl_note(selection.on || selection.tenant ? "No event matches." : "No program holds any event.");
	return EXIT_DONE;
}

COMMAND(events, "[GLOB...]", "events, their state and their holders",
	OPTIONS(FLAG_ROW("on", struct selection, on, "only events that are on"),
		TEXT_ROW("tenant", "TENANT", struct selection, tenant, "only events of tenants with this name or path"),
		VALUE_ROW("sort", "KEY", OPTION_WORD, struct selection, sort, .words = orders,
			  .help = "name (the default), or those with most programs, tenants or\n"
				  "records (that the daemon recorded) first")),
	"Lists the events whose names match one of the GLOBs, or all of them. Columns:\n"
	"name, state, records taken, bad records, holders, fields; with the kernel's\n"
	"backends: name, state, the tracers that use it (ftrace, session NAME, instance\n"
	"NAME, perf, other), holders, tenants, fields. 'persistent' in the place of\n"
	"holders marks an event that has outlived its programs. In a pipe one tab stands\n"
	"between two columns, and there are no titles. Events that were made without the\n"
	"daemon are marked as foreign.");
