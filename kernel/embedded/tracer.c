/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/tracer.h"

#include <fnmatch.h>
#include <stdio.h>

#include "kernel/embedded/embedded.h"
#include "protocol/row.h"

enum { TRACER_ROW_MAX = 512 + WIRE_TENANT_MAX + WIRE_DESCRIPTION_MAX + WIRE_PAYLOAD_MAX };

struct tracer_session {
	LIST_ENTRY(tracer_session) sessions;
	struct tracer *tracer;
	size_t n;
	const char *pattern[]; /* their texts are behind them */
};

static struct embedded *tracer_embedded(struct tracer *tracer)
{
	return container_of(tracer, struct embedded, tracer);
}

int tracer_init(struct tracer *tracer, size_t ring_bytes)
{
	tracer->ring.bytes = ring_bytes & ~(size_t)7;
	LIST_INIT(&tracer->sessions);
	/* All at once, so that no record lacks memory for it. Memory that is not touched costs nothing. */
	tracer->parsed = calloc(EMBEDDED_PARSED_EVENTS, sizeof(*tracer->parsed));
	return tracer->parsed ? 0 : -ENOMEM;
}

/* In a loop over all events each may be freed. */
struct trace_event *tracer_next(struct tracer *tracer, uint64_t after)
{
	struct trace_event *event = tracer->events;

	if (tracer->cursor && tracer->cursor->id <= after)
		event = tracer->cursor;
	while (event && event->id <= after)
		event = event->by_name.next;
	if (event)
		tracer->cursor = event;
	return event;
}

uint64_t tracer_records(const struct tracer *tracer, const char *name, size_t length)
{
	const struct trace_event *event;

	HASH_FIND(by_name, tracer->events, name, length, event);
	return event ? event->records : 0;
}

/* Only events that the admin has switched on are left. */
void tracer_deinit(struct tracer *tracer)
{
	struct trace_event *event, *next;

	HASH_ITER(by_name, tracer->events, event, next) {
		HASH_DELETE(by_name, tracer->events, event);
		free(event);
	}
	free(tracer->ring.data);
	free(tracer->parsed);
}

/* Sets the event's bits as switch and sessions want. */
static void tracer_update(struct tracer *tracer, struct trace_event *event)
{
	bool on = event->switched || event->wanted > 0;
	struct holding *holding;

	if (on == event->on)
		return;
	event->on = on;
	LIST_FOREACH(holding, &event->holdings, in_event)
		if (!(holding->state & KERNEL_SILENT))
			holding_show(tracer_embedded(tracer), holding);
}

size_t tracer_switch(struct tracer *tracer, const char *pattern, bool on)
{
	struct trace_event *event;
	size_t matched = 0;

	tracer_drain(tracer);
	for (uint64_t id = 0; (event = tracer_next(tracer, id));) {
		id = event->id;
		if (fnmatch(pattern, event->name, 0) != 0)
			continue;
		matched++;
		event->switched = on;
		tracer_update(tracer, event);
		trace_event_tidy(tracer_embedded(tracer), event);
	}
	return matched;
}

static bool session_matches(const struct tracer_session *session, const char *name)
{
	for (size_t i = 0; i < session->n; i++)
		if (fnmatch(session->pattern[i], name, 0) == 0)
			return true;
	return false;
}

void tracer_add(struct tracer *tracer, struct trace_event *event)
{
	struct tracer_session *session;

	LIST_FOREACH(session, &tracer->sessions, sessions)
		event->wanted += session_matches(session, event->name);
	tracer_update(tracer, event);
}

static void session_want(struct tracer_session *session, bool begins)
{
	struct tracer *tracer = session->tracer;
	struct trace_event *event;

	for (uint64_t id = 0; (event = tracer_next(tracer, id)); id = event->id) {
		if (!session_matches(session, event->name))
			continue;
		event->wanted += begins ? 1U : -1U;
		tracer_update(tracer, event);
	}
}

int tracer_session_new(struct tracer *tracer, const char *const *patterns, size_t n, struct tracer_session **ret)
{
	struct tracer_session *session;
	size_t bytes = 0;
	char *text;

	for (size_t i = 0; i < n; i++)
		bytes += strlen(patterns[i]) + 1;
	session = calloc(1, sizeof(*session) + n * sizeof(session->pattern[0]) + bytes);
	if (!session)
		return -ENOMEM;
	session->tracer = tracer;
	session->n = n;
	text = (char *)(session->pattern + n);
	for (size_t i = 0; i < n; i++) {
		session->pattern[i] = text;
		text = stpcpy(text, patterns[i]) + 1;
	}
	LIST_INSERT_HEAD(&tracer->sessions, session, sessions);
	session_want(session, true);
	*ret = session;
	return 0;
}

struct tracer_session *tracer_session_free(struct tracer_session *session)
{
	if (session) {
		session_want(session, false);
		LIST_REMOVE(session, sessions);
		free(session);
	}
	return NULL;
}

bool tracer_session_wants(const struct tracer_session *session, const char *name, size_t length)
{
	char terminated[DESCRIPTION_NAME_MAX + 1];

	if (length > DESCRIPTION_NAME_MAX)
		return false;
	memcpy(terminated, name, length);
	terminated[length] = '\0';
	return session_matches(session, terminated);
}

void tracer_drain(struct tracer *tracer)
{
	struct embedded *embedded = tracer_embedded(tracer);
	struct source *source, *next;

	HASH_ITER(by_number, embedded->sources, source, next)
		source_drain(embedded, source);
}

struct kernel_page_stats tracer_page_stats(struct tracer *tracer, uint32_t number)
{
	struct embedded_page *page;

	NUMBER_FIND(by_number, tracer_embedded(tracer)->pages, number, page);
	return page ? page->stats : (struct kernel_page_stats){ 0 };
}

/*
 * A small cache: parsing again takes a microsecond or two, whereas 30,000 parsed events would take 250 MB.
 */
const struct description *tracer_parsed(struct tracer *tracer, const struct trace_event *event)
{
	struct parsed_event *parsed = &tracer->parsed[event->id % EMBEDDED_PARSED_EVENTS];

	if (parsed->id == event->id)
		return &parsed->description;
	parsed->id = 0;
	if (description_parse_canonical(event->description, strlen(event->description), &parsed->description) != 0)
		return NULL;
	parsed->id = event->id;
	return &parsed->description;
}

/* The name of the main thread, as ps shows it. */
static const char *writer_comm(struct writer_name *writer, pid_t pid)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[32];
	ssize_t n;

	if (*writer->comm && writer->pid == pid)
		return writer->comm;
	writer->pid = pid;
	string_copy(writer->comm, sizeof(writer->comm), "unknown");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	/* 0: in a pid namespace that is not visible here. */
	fd = pid == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, writer->comm, sizeof(writer->comm) - 1);
	if (n > 0)
		writer->comm[n] = '\0';
	writer->comm[strcspn(writer->comm, "\n")] = '\0';
	return writer->comm;
}

void tracer_keep(struct embedded *embedded, const struct source *source, const struct trace_event *event,
		 const struct record *record)
{
	uint8_t buffer[TRACER_ROW_MAX];
	struct packet row = packet_make(buffer, sizeof(buffer));
	void *room;

	row_put_u64(&row, "time", record->time);
	row_put_u64(&row, "pid", (uint64_t)record->writer.pid);
	row_put_u64(&row, "uid", record->writer.uid);
	row_put_string(&row, "comm", writer_comm(&embedded->writer, record->writer.pid));
	row_put_string(&row, "tenant", source->page->tenant);
	row_put_string(&row, "event", event->description);
	row_put_bytes(&row, "payload", record->data + RECORD_INDEX_SIZE, record->size - RECORD_INDEX_SIZE);
	room = row.failed ? NULL : ring_push(&embedded->tracer.ring, row.size);
	if (room)
		memcpy(room, row.data, row.size);
}
