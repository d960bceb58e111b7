/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Reads a recording, page by page. The file may have been cut short, or changed by others: each number in it is checked, a page that
 * is damaged is skipped and counted. The formats that trace-cmd reads are not needed: all that is known about records is between them.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zstd.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/record/trace_dat.h"
#include "protocol/base/table.h"

struct told_writer {
	uint64_t pid, uid;
	char *comm, *tenant;
	struct tenant_name name;
	UT_hash_handle by_pid;
};

struct told_event {
	char *name;	   /* NULL: no entry has described this event */
	char *description; /* behind it, in the same memory */
};

struct reading {
	int fd;
	struct totals totals;
	uint64_t size; /* of the pages that are in the file */
	uint64_t place;
	uint64_t damaged;
	bool compressed;
	uint8_t chunk[DAT_CHUNK_PAGES * DAT_PAGE]; /* pages of a compressed chunk: */
	size_t chunk_at, chunk_size;
	uint8_t buffer[DAT_PAGE];
	struct ring_page page;
	struct told_event events[TYPES_MAX];
	struct told_writer *writers;
};

/* 0, a negative errno, or an enum reading_fault. */
static int read_head(struct reading *reading, uint64_t size)
{
	uint8_t header[DAT_HEADER] = { 0 }, options[DAT_LEAD] = { 0 };
	unsigned half;
	ssize_t n = pread(reading->fd, header, sizeof(header), 0);

	if (n < 0)
		return -errno;
	if (n == 0)
		return READING_EMPTY;
	if (memcmp(header, "\x17\x08\x44tracing", 10) != 0)
		return READING_NONE;
	if (!dat_read_header(header, &half, &reading->compressed))
		return READING_OTHER_PROGRAM;
	n = pread(reading->fd, options, sizeof(options), DAT_PAGE + (off_t)half * DAT_HALF);
	if (n < 0)
		return -errno;
	if (!dat_read_options(options, (size_t)n, &reading->totals))
		return n < (ssize_t)sizeof(options) ? READING_EMPTY : READING_OTHER_PROGRAM;
	reading->size = MIN(reading->totals.bytes, size - MIN(size, (uint64_t)DAT_DATA));
	/* In front of the chunks is their number. */
	reading->place = reading->compressed ? MIN(reading->size, (uint64_t)sizeof(uint32_t)) : 0;
	return 0;
}

int reading_open(const char *path, struct reading **ret)
{
	struct reading *reading = must(calloc(1, sizeof(*reading)));
	struct stat status = { 0 };
	int r = 0;

	reading->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (reading->fd < 0 || fstat(reading->fd, &status) < 0)
		r = -errno;
	else if (!S_ISREG(status.st_mode))
		r = S_ISDIR(status.st_mode) ? -EISDIR : READING_NONE;
	if (r == 0)
		r = read_head(reading, (uint64_t)status.st_size);
	reading->page = (struct ring_page){ .at = reading->buffer, .size = DAT_PAGE };
	if (r == 0)
		*ret = reading;
	else
		reading_free(reading);
	return r;
}

/* Of the file, at the place: 1; 0: it is too short; or a negative errno. */
static int take_bytes(struct reading *reading, void *to, size_t size)
{
	ssize_t n = 0;

	if (reading->size - reading->place < size)
		return 0;
	n = pread(reading->fd, to, size, (off_t)(DAT_DATA + reading->place));
	if (n < 0)
		return -errno;
	if ((size_t)n < size)
		return 0;
	reading->place += size;
	return 1;
}

/* The same of the next chunk's pages. A chunk whose size is wrong ends the file, since the next one is not found. */
static int read_chunk(struct reading *reading)
{
	static uint8_t bytes[ZSTD_COMPRESSBOUND(DAT_CHUNK_PAGES * DAT_PAGE)];
	uint32_t header[2];
	int r = take_bytes(reading, header, sizeof(header));
	size_t size;

	if (r <= 0)
		return r;
	if (header[0] > sizeof(bytes) || header[1] > sizeof(reading->chunk)) {
		reading->damaged++;
		reading->place = reading->size;
		return 0;
	}
	r = take_bytes(reading, bytes, header[0]);
	if (r <= 0)
		return r;
	size = ZSTD_decompress(reading->chunk, sizeof(reading->chunk), bytes, header[0]);
	if (ZSTD_isError(size) || size != header[1] || size % DAT_PAGE != 0) {
		reading->damaged++;
		size = 0;
	}
	reading->chunk_at = 0;
	reading->chunk_size = size;
	return 1;
}

/* 1; 0 at the end; or a negative errno. A page that is not whole is no page. */
static int read_page(struct reading *reading)
{
	int r = 1;

	while (r > 0) {
		if (!reading->compressed) {
			r = take_bytes(reading, reading->buffer, DAT_PAGE);
		} else if (reading->chunk_at < reading->chunk_size) {
			memcpy(reading->buffer, reading->chunk + reading->chunk_at, DAT_PAGE);
			reading->chunk_at += DAT_PAGE;
		} else {
			r = read_chunk(reading);
			continue;
		}
		if (r > 0 && ring_page_open(&reading->page, RING_HEADER))
			return 1;
		reading->damaged += r > 0;
	}
	return r;
}

static bool learn_event(struct reading *reading, const struct ring_entry *entry)
{
	struct told_event *event;
	struct note note;
	size_t length;

	if (!note_read(TYPE_EVENT, entry->payload, entry->size, &note) || note.number[0] < TYPE_FIRST ||
	    note.number[0] >= TYPES_MAX)
		return false;
	event = &reading->events[note.number[0]];
	free(event->name);
	length = strlen(note.string[0]) + 1;
	event->name = must(malloc(length + strlen("event ") + strlen(note.string[1]) + 1));
	memcpy(event->name, note.string[0], length);
	/* The parser needs a name, and the event's own may be invalid in a description. */
	event->description = event->name + length;
	stpcpy(stpcpy(event->description, *note.string[1] ? "event " : "event"), note.string[1]);
	return true;
}

static bool learn_writer(struct reading *reading, const struct ring_entry *entry)
{
	const uint64_t pid = (uint64_t)entry->pid;
	struct told_writer *writer;
	struct note note;

	if (!note_read(TYPE_WRITER, entry->payload, entry->size, &note))
		return false;
	HASH_FIND(by_pid, reading->writers, &pid, sizeof(pid), writer);
	if (!writer) {
		writer = must(calloc(1, sizeof(*writer)));
		writer->pid = pid;
		HASH_ADD(by_pid, reading->writers, pid, sizeof(pid), writer);
		must(table_added() ? writer : NULL);
	}
	free(writer->comm);
	free(writer->tenant);
	writer->uid = note.number[0];
	writer->comm = must(strdup(note.string[0]));
	writer->tenant = must(strdup(note.string[1]));
	writer->name = (struct tenant_name){ .claimed_by = (uid_t)note.number[1] };
	string_copy(writer->name.name, sizeof(writer->name.name), note.string[2]);
	string_copy(writer->name.engine, sizeof(writer->name.engine), note.string[3]);
	tenant_name_make_text(&writer->name);
	return true;
}

static bool make_record(struct reading *reading, const struct ring_entry *entry, struct taken_record *ret)
{
	static const struct tenant_name unknown;
	const struct told_event *event = &reading->events[entry->type];
	const uint64_t pid = (uint64_t)entry->pid;
	const struct told_writer *writer;

	if (!event->name)
		return false;
	HASH_FIND(by_pid, reading->writers, &pid, sizeof(pid), writer);
	*ret = (struct taken_record){
		.time = reading->page.time,
		.pid = pid,
		.uid = writer ? writer->uid : UID_UNKNOWN,
		.comm = writer ? writer->comm : "",
		.tenant = writer ? writer->tenant : "",
		.tenant_name = writer ? &writer->name : &unknown,
		.name = event->name,
		.description = event->description,
		.payload = entry->payload,
		.size = entry->size,
	};
	return true;
}

int reading_next(struct reading *reading, struct taken_record *ret, uint64_t *missed)
{
	struct ring_entry entry;
	struct note note;

	*missed = 0;
	for (;;) {
		int r = ring_page_next(&reading->page, &entry);
		bool good = r > 0;

		if (r == 0) {
			r = read_page(reading);
			if (r <= 0)
				return r;
			continue;
		}
		if (good && entry.type == TYPE_EVENT) {
			good = learn_event(reading, &entry);
		} else if (good && entry.type == TYPE_WRITER) {
			good = learn_writer(reading, &entry);
		} else if (good && entry.type == TYPE_LOST) {
			good = note_read(TYPE_LOST, entry.payload, entry.size, &note);
			*missed = good ? note.number[0] : 0;
			if (*missed > 0)
				return 1;
		} else if (good) {
			good = make_record(reading, &entry, ret);
			if (good)
				return 1;
		}
		/* The rest of the file may be damaged, too. */
		reading->damaged += !good;
		reading->page.end = good ? reading->page.end : 0;
	}
}

struct totals reading_totals(const struct reading *reading)
{
	return reading->totals;
}

uint64_t reading_missing(const struct reading *reading)
{
	return reading->totals.bytes - reading->size;
}

uint64_t reading_damaged(const struct reading *reading)
{
	return reading->damaged;
}

struct reading *reading_free(struct reading *reading)
{
	struct told_writer *writer, *next;

	if (!reading)
		return NULL;
	HASH_ITER(by_pid, reading->writers, writer, next) {
		HASH_DELETE(by_pid, reading->writers, writer);
		free(writer->comm);
		free(writer->tenant);
		free(writer);
	}
	for (size_t i = 0; i < TYPES_MAX; i++)
		free(reading->events[i].name);
	fd_close(reading->fd);
	free(reading);
	return NULL;
}
