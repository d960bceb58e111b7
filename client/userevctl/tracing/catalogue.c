/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The events of tracefs and those of the daemon, merged by name. Of a multi-format event there may be several of one name:
 * tracefs calls them NAME.0, NAME.1 and so on (in hexadecimal), and their fields tell which is which. Events that the daemon
 * does not list are foreign.
 */

#include "client/userevctl/tracing/catalogue.h"

#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/array.h"

static const char plain[] = "user_events", multi[] = "user_events_multi";

static struct event *catalogue_add(struct catalogue *catalogue, const char *name)
{
	struct event *event;

	catalogue->events = must(array_grow(catalogue->events, catalogue->n, sizeof(*event)));
	event = &catalogue->events[catalogue->n++];
	*event = (struct event){ 0 };
	event->name = event->shown = must(strdup(name));
	return event;
}

void catalogue_deinit(struct catalogue *catalogue)
{
	for (size_t i = 0; i < catalogue->n; i++) {
		struct event *event = &catalogue->events[i];

		if (event->shown != event->name)
			free(event->shown);
		free(event->name);
		free(event->fields);
		free((void *)event->row.at);
	}
	free(catalogue->events);
	*catalogue = (struct catalogue){ 0 };
}

void catalogue_add_row(struct catalogue *catalogue, struct cursor row)
{
	char name[WIRE_DESCRIPTION_MAX + 1], description[WIRE_DESCRIPTION_MAX + 1];
	const char *space;
	struct event *event;

	row_get_string(row, "event", name, sizeof(name));
	row_get_string(row, "description", description, sizeof(description));
	space = strchr(description, ' ');
	event = catalogue_add(catalogue, name);
	event->fields = must(strdup(space ? space + 1 : ""));
	event->row = row_copy(row);
	/* Only the embedded daemon knows that. */
	event->on = row_get_u64(row, "on");
	catalogue->n_rows++;
}

static int compare_events(const void *a, const void *b)
{
	return strcmp(((const struct event *)a)->shown, ((const struct event *)b)->shown);
}

/* Joins an event of tracefs with the daemon's row of this name, and of these fields (multi-format) or NULL. False: it has none. */
static bool join_row(struct catalogue *catalogue, const char *name, const char *fields, const char *shown,
		     unsigned used_by)
{
	size_t first = 0, end = catalogue->n_rows;
	bool joined = false;

	/* The first row whose name is not before `name`. */
	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (strcmp(catalogue->events[middle].name, name) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	for (size_t i = first; i < catalogue->n_rows && !(joined && fields); i++) {
		struct event *row = &catalogue->events[i];
		bool is_multi = row_get_u64(row->row, "multi_format");

		if (!streq(row->name, name))
			break;
		if (is_multi != !!fields || (is_multi && (row->system || !streq(row->fields, fields))))
			continue;
		row->system = is_multi ? multi : plain;
		row->used_by |= used_by;
		row->on |= used_by != 0;
		if (is_multi)
			row->shown = must(strdup(shown));
		joined = true;
	}
	return joined;
}

void catalogue_merge(struct catalogue *catalogue, char *status, read_format_fn *read_format)
{
	struct event_format format;
	const char *shown;
	unsigned used_by;

	if (catalogue->n_rows > 0)
		qsort(catalogue->events, catalogue->n_rows, sizeof(*catalogue->events), compare_events);
	while ((shown = text_next_status(&status, &used_by))) {
		const char *dot = strrchr(shown, '.');
		_cleanup_(freep) char *base = NULL;
		struct event *foreign;

		if (join_row(catalogue, shown, NULL, shown, used_by))
			continue;
		if (dot && read_format(multi, shown, &format) == 0)
			base = must(strndup(shown, (size_t)(dot - shown)));
		if (base && join_row(catalogue, base, format.fields, shown, used_by))
			continue;
		foreign = catalogue_add(catalogue, shown);
		foreign->foreign = true;
		catalogue->foreign++;
		foreign->system = base ? multi : plain;
		foreign->used_by = used_by;
		foreign->on = used_by != 0;
		if (!base)
			continue;
		foreign->name = steal_pointer(base);
		foreign->fields = must(strdup(format.fields));
	}
	if (catalogue->n > 0)
		qsort(catalogue->events, catalogue->n, sizeof(*catalogue->events), compare_events);
}

void catalogue_learn_fields(struct catalogue *catalogue, char *dynamic_events)
{
	static const char prefix[] = "u:";
	char *line;

	while ((line = strsep(&dynamic_events, "\n"))) {
		char *name = strsep(&line, " ") + strlen(prefix);
		struct event *event;

		if (strncmp(name - strlen(prefix), prefix, strlen(prefix)) != 0)
			continue;
		event = bsearch(&(struct event){ .shown = name }, catalogue->events, catalogue->n, sizeof(*event),
				compare_events);
		if (event && event->foreign && !event->fields)
			event->fields = must(strdup(line ? line : ""));
	}
}
