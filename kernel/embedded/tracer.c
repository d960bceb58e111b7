/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/tracer.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>

#include "kernel/embedded/embedded.h"
#include "protocol/row.h"

enum { ROW_MAX = 512 + WIRE_TENANT_MAX + WIRE_DESCRIPTION_MAX + WIRE_PAYLOAD_MAX };

struct tracer_session {
	LIST_ENTRY(tracer_session) sessions;
	struct tracer *tracer;
	size_t n;
	char *pattern[];
};

static struct embedded *embedded_of(struct tracer *tracer)
{
	return container_of(tracer, struct embedded, tracer);
}

int tracer_init(struct tracer *tracer, size_t ring_bytes)
{
	int r = ring_new(ring_bytes, &tracer->ring);

	if (r < 0)
		return r;
	LIST_INIT(&tracer->sessions);
	/* Memory that is not touched costs nothing, and this way no record can find none. */
	tracer->parsed = calloc(EMBEDDED_PARSED_EVENTS, sizeof(*tracer->parsed));
	if (!tracer->parsed) {
		tracer->ring = ring_free(tracer->ring);
		return -ENOMEM;
	}
	return 0;
}

/* The first event above `id`. Whoever calls this again and again may free the one that it got. */
static struct trace_event *next_event(struct tracer *tracer, uint64_t id)
{
	return id == UINT64_MAX ? NULL : roster_from(&tracer->events, id + 1);
}

/* What is left are the events that nothing but the switch keeps. */
void tracer_deinit(struct tracer *tracer)
{
	struct trace_event *event;

	HASH_CLEAR(by_name, tracer->by_name);
	for (uint64_t id = 0; (event = next_event(tracer, id));) {
		id = event->id;
		free(event);
	}
	roster_deinit(&tracer->events);
	tracer->ring = ring_free(tracer->ring);
	free(tracer->parsed);
}

bool tracer_next(struct tracer *tracer, uint64_t after, struct tracer_event *ret)
{
	struct trace_event *event = next_event(tracer, after);

	if (!event)
		return false;
	*ret = (struct tracer_event){
		.id = event->id,
		.description = event->description,
		.name_length = event->name_length,
		.on = event->on,
		.switched = event->switched,
		.pages = event->pages,
		.records = event->records,
		.bad = event->bad,
	};
	return true;
}

/* The switch or the sessions have changed. */
static void update(struct tracer *tracer, struct trace_event *event)
{
	struct kernel *kernel = &embedded_of(tracer)->kernel;
	bool on = event->switched || event->wanted > 0;
	struct holding *holding;

	if (on == event->on)
		return;
	event->on = on;
	LIST_FOREACH(holding, &event->holdings, in_event) {
		page_set(&holding->of.page->page, holding->bit, on);
		if (kernel->changed)
			kernel->changed(kernel->changed_data, holding->of.page->number, holding->bit);
	}
}

size_t tracer_switch(struct tracer *tracer, const char *pattern, bool on)
{
	struct trace_event *event;
	size_t matched = 0;

	tracer_drain(tracer);
	for (uint64_t id = 0; (event = next_event(tracer, id));) {
		id = event->id;
		if (fnmatch(pattern, event->name, 0) != 0)
			continue;
		matched++;
		event->switched = on;
		update(tracer, event);
		trace_event_tidy(embedded_of(tracer), event);
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

void tracer_learns(struct tracer *tracer, struct trace_event *event)
{
	struct tracer_session *session;

	LIST_FOREACH(session, &tracer->sessions, sessions)
		event->wanted += session_matches(session, event->name);
	update(tracer, event);
}

/* A session begins or ends to want what it wants. */
static void want(struct tracer_session *session, bool begins)
{
	struct tracer *tracer = session->tracer;
	struct trace_event *event;

	for (uint64_t id = 0; (event = next_event(tracer, id)); id = event->id) {
		if (!session_matches(session, event->name))
			continue;
		if (begins)
			event->wanted++;
		else
			event->wanted--;
		update(tracer, event);
	}
}

static struct tracer_session *session_make(const char *const *patterns, size_t n)
{
	struct tracer_session *session = calloc(1, sizeof(*session) + n * sizeof(session->pattern[0]));

	if (!session)
		return NULL;
	for (; session->n < n; session->n++) {
		session->pattern[session->n] = strdup(patterns[session->n]);
		if (!session->pattern[session->n])
			break;
	}
	return session;
}

static void session_deinit(struct tracer_session *session)
{
	while (session->n > 0)
		free(session->pattern[--session->n]);
	free(session);
}

int tracer_session_new(struct tracer *tracer, const char *const *patterns, size_t n, struct tracer_session **ret)
{
	struct tracer_session *session = session_make(patterns, n);

	if (!session)
		return -ENOMEM;
	if (session->n < n) {
		session_deinit(session);
		return -ENOMEM;
	}
	session->tracer = tracer;
	LIST_INSERT_HEAD(&tracer->sessions, session, sessions);
	want(session, true);
	*ret = session;
	return 0;
}

struct tracer_session *tracer_session_free(struct tracer_session *session)
{
	if (session) {
		want(session, false);
		LIST_REMOVE(session, sessions);
		session_deinit(session);
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
	sources_drain(embedded_of(tracer));
}

struct ring *tracer_ring(struct tracer *tracer)
{
	return tracer->ring;
}

/*
 * Parsed anew where another event has its place: that costs a microsecond or two, and 30,000 events recorded at once do
 * not cost 250 MB.
 */
const struct description *tracer_parsed(struct tracer *tracer, const struct trace_event *event)
{
	struct parsed_event *parsed = &tracer->parsed[event->id % EMBEDDED_PARSED_EVENTS];
	char sentence[WIRE_SENTENCE_MAX];
	struct text why = text_make(sentence, sizeof(sentence));

	if (parsed->id == event->id)
		return &parsed->description;
	parsed->id = 0;
	if (description_parse(event->description, strlen(event->description), &parsed->description, &why) != 0)
		return NULL;
	parsed->id = event->id;
	return &parsed->description;
}

/* The main thread's name, as ps shows it. */
static void read_comm(pid_t pid, char *ret)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[32], comm[64];
	ssize_t n;

	string_copy(ret, EMBEDDED_COMM_MAX, "unknown");
	/* 0: in a pid namespace that we don't see. */
	if (pid == 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, comm, sizeof(comm) - 1);
	if (n <= 0)
		return;
	comm[comm[n - 1] == '\n' ? n - 1 : n] = '\0';
	string_copy(ret, EMBEDDED_COMM_MAX, comm);
}

static const char *comm_of(struct embedded *embedded, pid_t pid)
{
	unsigned known = MIN(embedded->writers, (unsigned)EMBEDDED_NAMED_WRITERS);
	struct writer_name *writer;

	for (unsigned i = 0; i < known; i++)
		if (embedded->writer[i].pid == pid)
			return embedded->writer[i].comm;
	writer = &embedded->writer[embedded->writers++ % EMBEDDED_NAMED_WRITERS];
	writer->pid = pid;
	read_comm(pid, writer->comm);
	return writer->comm;
}

void tracer_keep(struct embedded *embedded, const struct source *source, const struct trace_event *event,
		 const struct record *record)
{
	uint8_t buffer[ROW_MAX];
	struct packet row = packet_make(buffer, sizeof(buffer));
	void *room;

	row_put_u64(&row, "time", record->time);
	row_put_u64(&row, "pid", (uint64_t)record->writer.pid);
	row_put_u64(&row, "uid", record->writer.uid);
	row_put_string(&row, "comm", comm_of(embedded, record->writer.pid));
	row_put_string(&row, "tenant", source->page->tenant);
	row_put_string(&row, "event", event->description);
	row_put_bytes(&row, "payload", record->data + RECORD_INDEX_SIZE, record->size - RECORD_INDEX_SIZE);
	room = row.failed ? NULL : ring_push(embedded->tracer.ring, row.size);
	if (room)
		memcpy(room, row.data, row.size);
}
