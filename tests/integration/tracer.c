/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/tracer.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "protocol/event/record.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

/* An event that was switched on, once. */
struct traced {
	char path[192];	  /* below the instance, and below tracefs */
	char event[128];  /* as the daemon calls it */
	const char *name; /* as tracefs does, in the path: of one of many formats NAME.NUMBER */
	int id;
	struct seen seen;
	SLIST_ENTRY(traced) entry;
};

static void remove_instance(const char *directory)
{
	for (int i = 0; i < 2000 && rmdir(directory) < 0 && errno == EBUSY; i++)
		usleep(10000);
}

static void open_pipes(struct tracer *tracer)
{
	char path[160];

	tracer->n_pipes = (int)sysconf(_SC_NPROCESSORS_CONF);
	tracer->pipes = calloc((size_t)tracer->n_pipes, sizeof(int));
	for (int i = 0; i < tracer->n_pipes; i++) {
		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/trace_pipe_raw", tracer->directory, i);
		tracer->pipes[i] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		ck_assert_msg(tracer->pipes[i] >= 0, "%s: %s", path, strerror(errno));
	}
}

static void tracer_start(struct tracer *tracer)
{
	static unsigned number;

	if (*tracer->directory)
		return;
	snprintf(tracer->directory, sizeof(tracer->directory), TRACEFS "/instances/userevd-test-%d-%u", (int)getpid(),
		 ++number);
	janitor_start(&tracer->janitor, remove_instance, tracer->directory);
	ck_assert_msg(mkdir(tracer->directory, 0700) == 0, "%s: %s", tracer->directory, strerror(errno));
	open_pipes(tracer);
}

void tracer_stop(struct tracer *tracer)
{
	struct traced *event;

	if (!*tracer->directory)
		return;
	for (int i = 0; i < tracer->n_pipes; i++)
		close(tracer->pipes[i]);
	janitor_end(&tracer->janitor);
	ck_assert_msg(access(tracer->directory, F_OK) < 0, "%s can't be removed", tracer->directory);
	free(tracer->pipes);
	while ((event = SLIST_FIRST(&tracer->events))) {
		SLIST_REMOVE_HEAD(&tracer->events, entry);
		free(event);
	}
	*tracer = (struct tracer){ 0 };
}

/* Records, as the kernel's ring buffer has them: https://docs.kernel.org/trace/ring-buffer-design.html, but for its pages. */

enum { PAGE_HEADER = 16, PAGE_BYTES = 4096, COMMON_BYTES = 8 };
enum { TYPE_PADDING = 29, TYPE_TIME_EXTEND = 30, TYPE_TIME_STAMP = 31 };

static uint32_t u32_at(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static void take_record(struct tracer *tracer, const uint8_t *data, size_t length)
{
	struct traced *event;

	/* An id may have been another's before: the newest first. */
	SLIST_FOREACH(event, &tracer->events, entry)
	{
		if (event->id != (int)(u32_at(data) & 0xffff))
			continue;
		event->seen.records++;
		event->seen.pid = (pid_t)u32_at(data + 4);
		event->seen.length = MIN(length - COMMON_BYTES, sizeof(event->seen.payload));
		memcpy(event->seen.payload, data + COMMON_BYTES, event->seen.length);
		if (event->seen.length >= sizeof(uint32_t))
			event->seen.sum += u32_at(event->seen.payload);
		return;
	}
}

static void take_page(struct tracer *tracer, const uint8_t *page)
{
	const uint8_t *at = page + PAGE_HEADER, *end = at + (u32_at(page + 8) & 0xfffff);

	while (at < end) {
		uint32_t header = u32_at(at), type = header & 31, length = type * 4;
		const uint8_t *data = at + 4;

		if (type == TYPE_TIME_EXTEND || type == TYPE_TIME_STAMP) {
			at += 8;
			continue;
		}
		if (type == TYPE_PADDING && header >> 5 == 0)
			return;
		if (type == TYPE_PADDING) {
			at = data + u32_at(data);
			continue;
		}
		if (type == 0) {
			length = u32_at(data) - 4;
			data += 4;
		}
		take_record(tracer, data, length);
		at = data + length;
	}
}

static void drain(struct tracer *tracer)
{
	uint8_t page[PAGE_BYTES];

	for (int i = 0; i < tracer->n_pipes; i++)
		while (read(tracer->pipes[i], page, sizeof(page)) == sizeof(page))
			take_page(tracer, page);
}

/* Which events there are: those that the daemon lists, and those that are on still. */

static struct traced *find(struct tracer *tracer, const char *path)
{
	struct traced *event;

	SLIST_FOREACH(event, &tracer->events, entry)
	if (streq(event->path, path))
		return event;
	return NULL;
}

static void add(struct tracer *tracer, const char *path, const char *name, const char *description)
{
	struct traced *event = find(tracer, path);

	if (!event) {
		event = calloc(1, sizeof(*event));
		ck_assert_ptr_nonnull(event);
		snprintf(event->path, sizeof(event->path), "%s", path);
		snprintf(event->event, sizeof(event->event), "%s", name);
		event->name = strrchr(event->path, '/') + 1;
		SLIST_INSERT_HEAD(&tracer->events, event, entry);
	}
	snprintf(event->seen.description, sizeof(event->seen.description), "%s", description);
}

/* Those of many formats are NAME.NUMBER; which of them has which fields does not matter here. */
static void add_formats(struct tracer *tracer, const char *name, const char *description)
{
	DIR *directory = opendir(TRACEFS "/events/user_events_multi");
	const struct dirent *entry;
	char path[512];

	while (directory && (entry = readdir(directory))) {
		size_t length = strlen(name);

		if (strncmp(entry->d_name, name, length) != 0 || entry->d_name[length] != '.')
			continue;
		snprintf(path, sizeof(path), "events/user_events_multi/%s", entry->d_name);
		add(tracer, path, name, description);
	}
	if (directory)
		closedir(directory);
}

struct listing {
	struct tracer *tracer;
	const char *pattern;
};

static void add_listed(void *data, struct cursor row)
{
	struct listing *listing = data;
	char name[128], description[WIRE_DESCRIPTION_MAX + 1], path[192];

	row_get_string(row, "event", name, sizeof(name));
	row_get_string(row, "description", description, sizeof(description));
	if (fnmatch(listing->pattern, name, 0) != 0)
		return;
	if (row_get_u64(row, "multi_format")) {
		add_formats(listing->tracer, name, description);
		return;
	}
	snprintf(path, sizeof(path), "events/user_events/%s", name);
	add(listing->tracer, path, name, description);
}

static void find_events(struct fixture *fixture, const char *pattern)
{
	struct listing listing = { .tracer = &fixture->tracer, .pattern = pattern };
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, KIND_EVENTS, 0, NULL, add_listed, &listing), 0);
	close(control);
}

static int read_id(const struct tracer *tracer, const struct traced *event)
{
	char path[512];
	FILE *file;
	int id = -1;

	snprintf(path, sizeof(path), "%s/%s/id", tracer->directory, event->path);
	file = fopen(path, "re");
	if (file && fscanf(file, "%d", &id) != 1)
		id = -1;
	if (file)
		fclose(file);
	return id;
}

/* False where there is no such event any more. */
static bool switch_event(const struct tracer *tracer, struct traced *event, bool on)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/enable", tracer->directory, event->path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ck_assert_msg(write(fd, on ? "1" : "0", 1) == 1, "%s: %s", path, strerror(errno));
	close(fd);
	if (on)
		event->id = read_id(tracer, event);
	return true;
}

bool tracer_switch(struct tracer *tracer, const char *event, bool on)
{
	char path[192];

	tracer_start(tracer);
	drain(tracer);
	snprintf(path, sizeof(path), "events/user_events/%s", event);
	if (!find(tracer, path))
		add(tracer, path, event, "");
	return switch_event(tracer, find(tracer, path), on);
}

static uint64_t trace_in_kernel(struct fixture *fixture, const char *pattern, bool on)
{
	struct tracer *tracer = &fixture->tracer;
	struct traced *event;
	uint64_t count = 0;

	tracer_start(tracer);
	/* The records up to now have the ids that events had up to now. */
	drain(tracer);
	find_events(fixture, pattern);
	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	SLIST_FOREACH(event, &tracer->events, entry)
	if (fnmatch(pattern, event->event, 0) == 0)
		count += switch_event(tracer, event, on);
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	return count;
}

/* "NAME", or "NAME." for all of its formats. */
static bool is_called(const char *name, const char *event)
{
	size_t length = strlen(event);

	return streq(name, event) || (event[length - 1] == '.' && strncmp(name, event, length) == 0);
}

void tracer_see(struct tracer *tracer, const char *event, struct seen *ret)
{
	const struct traced *traced;
	uint64_t sum = 0;
	unsigned records = 0;

	*ret = (struct seen){ 0 };
	drain(tracer);
	SLIST_FOREACH(traced, &tracer->events, entry)
	{
		if (!is_called(traced->name, event))
			continue;
		records += traced->seen.records;
		sum += traced->seen.sum;
		*ret = traced->seen;
	}
	ret->records = records;
	ret->sum = sum;
}

/* The daemon's own tracer. */

static void read_matches(void *data, struct cursor row)
{
	*(uint64_t *)data = row_get_u64(row, "events");
}

static uint64_t trace_in_daemon(const struct fixture *fixture, const char *pattern, bool on)
{
	const char *const patterns[] = { pattern, NULL };
	int control = raw_connect(fixture->control);
	uint64_t count = 0;

	raw_rows(control, KIND_TRACE, on ? TRACE_ON : 0, patterns, read_matches, &count);
	close(control);
	return count;
}

struct wanted {
	const char *event;
	struct seen *seen;
};

static void see_row(void *data, struct cursor row)
{
	struct wanted *wanted = data;
	struct seen *seen = wanted->seen;
	char description[WIRE_DESCRIPTION_MAX + 1];
	size_t length = strlen(wanted->event);
	struct row_field payload;

	row_get_string(row, "event", description, sizeof(description));
	if (strncmp(description, wanted->event, length) != 0 || !strchr(" ", description[length]) ||
	    !row_find(row, "payload", &payload))
		return;
	string_copy(seen->description, sizeof(seen->description), description);
	seen->records++;
	seen->pid = (pid_t)row_get_u64(row, "pid");
	seen->uid = row_get_u64(row, "uid");
	seen->time = row_get_u64(row, "time");
	row_get_string(row, "comm", seen->comm, sizeof(seen->comm));
	seen->length = MIN(payload.length, sizeof(seen->payload));
	memcpy(seen->payload, payload.value, seen->length);
	if (seen->length >= sizeof(uint32_t))
		seen->sum += u32_at(seen->payload);
}

static void see_in_daemon(const struct fixture *fixture, const char *event, struct seen *ret)
{
	struct wanted wanted = { .event = event, .seen = ret };
	const char *const all[] = { NULL };
	int control;

	sync_records(fixture);
	control = raw_connect(fixture->control);
	ck_assert_uint_eq(raw_rows(control, KIND_TAIL, TAIL_PAST | TAIL_NO_FOLLOW, all, see_row, &wanted), 0);
	close(control);
}

void expect_record_text(const struct seen *seen, const char *text)
{
	static struct description description;
	char sentence[256], record[2048] = "";
	struct text why = text_make(sentence, sizeof(sentence)), to = text_make(record, sizeof(record));

	ck_assert_uint_gt(seen->records, 0);
	ck_assert_int_eq(description_parse(seen->description, strlen(seen->description), &description, &why), 0);
	ck_assert(record_is_valid(&description, seen->payload, seen->length));
	record_to_text(&description, seen->payload, seen->length, &to);
	ck_assert_str_eq(record, text);
}

uint64_t trace(struct fixture *fixture, const char *pattern, bool on)
{
	return keeps_records_itself(fixture) ? trace_in_daemon(fixture, pattern, on)
					     : trace_in_kernel(fixture, pattern, on);
}

void see(struct fixture *fixture, const char *event, struct seen *ret)
{
	if (!keeps_records_itself(fixture)) {
		tracer_see(&fixture->tracer, event, ret);
		return;
	}
	*ret = (struct seen){ 0 };
	see_in_daemon(fixture, event, ret);
}
