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

static void event_deinit(struct event *event)
{
	if (event->shown != event->name)
		free(event->shown);
	free(event->name);
	free(event->fields);
	free((void *)event->row.at);
}

void catalogue_deinit(struct catalogue *catalogue)
{
	for (size_t i = 0; i < catalogue->n; i++)
		event_deinit(&catalogue->events[i]);
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

void catalogue_add_status(struct catalogue *catalogue, char *text)
{
	unsigned used_by;
	const char *name;

	while ((name = text_next_status(&text, &used_by))) {
		struct event *event = catalogue_add(catalogue, name);

		event->foreign = true;
		event->system = plain;
		event->used_by = used_by;
	}
}

static int compare_events(const void *a, const void *b)
{
	return strcmp(((const struct event *)a)->shown, ((const struct event *)b)->shown);
}

static void catalogue_sort(struct event *events, size_t n)
{
	if (n > 0)
		qsort(events, n, sizeof(*events), compare_events);
}

/* The first event whose name is not before `name`. */
static size_t catalogue_find(const struct event *events, size_t n, const char *name)
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

/* Joins a row with its event of tracefs, which is then the daemon's, and not foreign. */
static void join_row(struct event *row, struct event *status, size_t n,
		     bool (*look)(void *data, const char *shown, char *ret_fields, size_t size), void *data)
{
	char wanted[WIRE_DESCRIPTION_MAX + 2], fields[FORMAT_FIELDS_MAX];
	bool is_multi = row_get_u64(row->row, "multi_format");
	size_t length = (size_t)snprintf(wanted, sizeof(wanted), is_multi ? "%s." : "%s", row->name);

	for (size_t i = catalogue_find(status, n, wanted); i < n && strncmp(status[i].shown, wanted, length) == 0;
	     i++) {
		if (!is_multi && status[i].shown[length] != '\0')
			return;
		if (is_multi && (!status[i].foreign || !look(data, status[i].shown, fields, sizeof(fields)) ||
				 !streq(fields, row->fields)))
			continue;
		row->system = is_multi ? multi : plain;
		row->used_by |= status[i].used_by;
		status[i].foreign = false;
		if (!is_multi)
			continue;
		row->shown = must(strdup(status[i].shown));
		return;
	}
}

/* Drops the joined events, and duplicates: two names with odd bytes in them may look the same. */
static void keep_foreign(struct catalogue *catalogue)
{
	size_t n = catalogue->n_rows;

	for (size_t i = catalogue->n_rows; i < catalogue->n; i++) {
		struct event *event = &catalogue->events[i];
		struct event *last = n > catalogue->n_rows ? &catalogue->events[n - 1] : NULL;

		if (event->foreign && last && streq(last->shown, event->shown)) {
			last->used_by |= event->used_by;
			event->foreign = false;
		}
		if (event->foreign)
			catalogue->events[n++] = *event;
		else
			event_deinit(event);
	}
	catalogue->n = n;
	catalogue->foreign = n - catalogue->n_rows;
}

void catalogue_merge(struct catalogue *catalogue,
		     bool (*look)(void *data, const char *shown, char *ret_fields, size_t size), void *data)
{
	struct event *status = catalogue->events + catalogue->n_rows;
	char fields[FORMAT_FIELDS_MAX];

	catalogue_sort(status, catalogue->n - catalogue->n_rows);
	for (size_t i = 0; i < catalogue->n_rows; i++)
		join_row(&catalogue->events[i], status, catalogue->n - catalogue->n_rows, look, data);
	keep_foreign(catalogue);
	for (size_t i = 0; i < catalogue->n; i++) {
		struct event *event = &catalogue->events[i];
		const char *dot = strrchr(event->shown, '.');

		event->on |= event->used_by != 0;
		/* A foreign event in user_events_multi also has the name without the ID. */
		if (!event->foreign || !dot || !look(data, event->shown, fields, sizeof(fields)))
			continue;
		event->system = multi;
		event->name = must(strndup(event->shown, (size_t)(dot - event->shown)));
	}
	catalogue_sort(catalogue->events, catalogue->n);
}
