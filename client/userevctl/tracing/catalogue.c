/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The events of tracefs and those of the daemon, merged by name. Of a multi-format event there may be several of one name:
 * tracefs calls them NAME.0, NAME.1 and so on (in hexadecimal), and their fields tell which is which. Events that the daemon
 * does not list are foreign.
 */

#include "client/userevctl/tracing/tracefs.h"

static struct catalogue_event *catalogue_add(struct catalogue *catalogue)
{
	if (catalogue->n == catalogue->capacity) {
		size_t capacity = MAX(catalogue->capacity * 2, (size_t)64);
		struct catalogue_event *events = reallocarray(catalogue->events, capacity, sizeof(*events));

		if (!events)
			return NULL;
		catalogue->events = events;
		catalogue->capacity = capacity;
	}
	catalogue->events[catalogue->n] = (struct catalogue_event){ 0 };
	return &catalogue->events[catalogue->n];
}

static void catalogue_event_deinit(struct catalogue_event *event)
{
	if (event->shown != event->name)
		free(event->shown);
	free(event->name);
	free(event->fields);
	free(event->row);
}

void catalogue_deinit(struct catalogue *catalogue)
{
	for (size_t i = 0; i < catalogue->n; i++)
		catalogue_event_deinit(&catalogue->events[i]);
	free(catalogue->events);
	*catalogue = (struct catalogue){ 0 };
}

int catalogue_add_row(struct catalogue *catalogue, struct cursor row)
{
	char name[WIRE_DESCRIPTION_MAX + 1], description[WIRE_DESCRIPTION_MAX + 1];
	struct catalogue_event *event = catalogue_add(catalogue);

	if (!event)
		return -ENOMEM;
	row_get_string(row, "event", name, sizeof(name));
	row_get_string(row, "description", description, sizeof(description));
	event->name = event->shown = strdup(name);
	event->fields = strdup(tracing_fields(description));
	event->multi = row_get_u64(row, "multi_format");
	event->row_size = row.left;
	event->row = malloc(row.left + 1);
	if (!event->name || !event->fields || !event->row) {
		catalogue_event_deinit(event);
		return -ENOMEM;
	}
	if (row.left > 0)
		memcpy(event->row, row.at, row.left);
	catalogue->n++;
	catalogue->n_rows++;
	return 0;
}

int catalogue_add_status(struct catalogue *catalogue, const char *text, size_t size)
{
	struct cursor rest = cursor_make(text, size);
	struct status_line line;

	while (text_next_status(&rest, &line)) {
		struct catalogue_event *event = catalogue_add(catalogue);

		if (event)
			event->name = event->shown = strndup(line.name, line.length);
		if (!event || !event->name)
			return -ENOMEM;
		event->foreign = true;
		event->in_tracefs = true;
		event->used_by = line.used_by;
		catalogue->n++;
	}
	return 0;
}

static int compare_events(const void *a, const void *b)
{
	const struct catalogue_event *event_a = a, *event_b = b;

	return strcmp(event_a->shown, event_b->shown);
}

static void catalogue_sort(struct catalogue_event *events, size_t n)
{
	if (n > 0)
		qsort(events, n, sizeof(*events), compare_events);
}

/* The first event whose name is not before `name`. */
static size_t catalogue_find(const struct catalogue_event *events, size_t n, const char *name)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(events[middle].shown, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The event of tracefs is the daemon's, and not foreign. */
static int join_event(struct catalogue_event *row, struct catalogue_event *status)
{
	row->in_tracefs = true;
	row->used_by |= status->used_by;
	status->foreign = false;
	if (streq(row->shown, status->shown))
		return 0;
	row->shown = strdup(status->shown);
	if (row->shown)
		return 0;
	row->shown = row->name;
	return -ENOMEM;
}

/* The event NAME.ID with the fields of the row. */
static int join_multi(struct catalogue_event *row, struct catalogue_event *events, size_t n, catalogue_look *look,
		      void *data)
{
	char prefix[WIRE_DESCRIPTION_MAX + 2], fields[FORMAT_FIELDS_MAX];
	size_t length = (size_t)snprintf(prefix, sizeof(prefix), "%s.", row->name);

	for (size_t i = catalogue_find(events, n, prefix); i < n && strncmp(events[i].shown, prefix, length) == 0; i++)
		if (events[i].foreign && look(data, events[i].shown, fields, sizeof(fields)) &&
		    streq(fields, row->fields))
			return join_event(row, &events[i]);
	return 0;
}

static int join_rows(struct catalogue *catalogue, catalogue_look *look, void *data)
{
	struct catalogue_event *status = catalogue->events + catalogue->n_rows;
	size_t n = catalogue->n - catalogue->n_rows;
	int r = 0;

	for (size_t i = 0; r == 0 && i < catalogue->n_rows; i++) {
		struct catalogue_event *row = &catalogue->events[i];

		if (row->multi)
			r = join_multi(row, status, n, look, data);
		for (size_t at = catalogue_find(status, n, row->name);
		     !row->multi && at < n && streq(status[at].shown, row->name); at++)
			join_event(row, &status[at]);
	}
	return r;
}

/* Drops the joined events, and duplicates: two names with odd bytes in them may look the same. */
static void keep_foreign(struct catalogue *catalogue)
{
	size_t n = catalogue->n_rows;

	for (size_t i = catalogue->n_rows; i < catalogue->n; i++) {
		struct catalogue_event *event = &catalogue->events[i];
		struct catalogue_event *last = n > catalogue->n_rows ? &catalogue->events[n - 1] : NULL;

		if (event->foreign && last && streq(last->shown, event->shown)) {
			last->used_by |= event->used_by;
			event->foreign = false;
		}
		if (event->foreign)
			catalogue->events[n++] = *event;
		else
			catalogue_event_deinit(event);
	}
	catalogue->n = n;
	catalogue->foreign = n - catalogue->n_rows;
}

/* A foreign event in user_events_multi also has the name without the ID. */
static int name_foreign(struct catalogue_event *event, catalogue_look *look, void *data)
{
	const char *dot = strrchr(event->shown, '.');
	char fields[FORMAT_FIELDS_MAX], *name;

	if (!dot || !look(data, event->shown, fields, sizeof(fields)))
		return 0;
	event->multi = true;
	name = strndup(event->shown, (size_t)(dot - event->shown));
	if (!name)
		return -ENOMEM;
	event->name = name;
	return 0;
}

int catalogue_merge(struct catalogue *catalogue, catalogue_look *look, void *data)
{
	int r;

	catalogue_sort(catalogue->events + catalogue->n_rows, catalogue->n - catalogue->n_rows);
	r = join_rows(catalogue, look, data);
	keep_foreign(catalogue);
	for (size_t i = catalogue->n_rows; r == 0 && i < catalogue->n; i++)
		r = name_foreign(&catalogue->events[i], look, data);
	catalogue_sort(catalogue->events, catalogue->n);
	return r;
}

void catalogue_view(const struct catalogue_event *event, struct event_view *ret)
{
	*ret = (struct event_view){
		.name = event->name,
		.shown = event->shown,
		.fields = event->fields,
		.row = cursor_make(event->row, event->row_size),
		.foreign = event->foreign,
		.state_known = true,
		.on = event->used_by != 0,
		.used_by = event->used_by,
	};
	if (event->in_tracefs)
		ret->system = event->multi ? "user_events_multi" : "user_events";
}

bool catalogue_is_file_name(const char *name)
{
	return name[0] && !strchr(name, '/') && !streq(name, ".") && !streq(name, "..");
}
