/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Writes a recording. First come pages, then the options that count them: the records of a recorder that was killed can be read up to
 * its last flush. A page that is not full yet is written too, and again when there is more in it.
 *
 * A record that could not be written is lost, and the options have the number, so that written and lost records are all records. The
 * options are in a block of the file that exists from the beginning, so a full disk does not keep the number from being written.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <zstd.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/record/trace_dat.h"
#include "protocol/base/table.h"
#include "protocol/event/description.h"

enum {
	PAGES = DAT_CHUNK_PAGES, /* that wait to be written, together */
	FORMATS_MAX = DAT_HALF / 4 * 3,
	COMMS_MAX = DAT_HALF / 8,
	WRITERS_MAX = 65536,
};

struct known_event {
	uint16_t type;
	char *description; /* "name fields" */
	UT_hash_handle by_description;
};

/* A process, as the recording describes it. */
struct known_writer {
	uint64_t pid, uid;
	char *tenant, *comm;
	UT_hash_handle by_pid;
};

struct recording {
	int fd;
	int error; /* a negative errno: of the first write that failed. Nothing is written after it. */
	uint64_t most;
	struct totals totals; /* as they are in the file */

	uint8_t buffer[PAGES * DAT_PAGE];
	uint32_t records[PAGES]; /* in each page of the buffer */
	size_t n_full;		 /* full pages; `page` follows them */
	struct ring_page page;
	uint64_t bytes;	  /* of the pages before the buffer */
	uint64_t written; /* records in those pages */
	uint64_t taken;	  /* all records */
	bool changed;	  /* there is something in the buffer that is not written */
	uint32_t chunks;
	uint64_t chunk_written; /* time of the last chunk, in ns */
	uint64_t missed;

	struct known_event *events;
	struct known_writer *writers;
	/* Of the last record: most records are of the same event and process. */
	uint64_t event_version, writer_version;
	uint16_t last_type;
	unsigned n_types;
	unsigned half;
	struct dat_texts texts;
	bool formats_changed, comms_changed;
	uint64_t comms_written; /* time of the last list of comms, in ns */
	uint64_t last;		/* the time of the last record */
};

/* 0 or a negative errno; `ret_done`: so many bytes were written. */
static int write_at(int fd, const uint8_t *data, size_t size, uint64_t place, size_t *ret_done)
{
	for (*ret_done = 0; *ret_done < size;) {
		ssize_t n = pwrite(fd, data + *ret_done, size - *ret_done, (off_t)(place + *ret_done));

		if (n < 0 && errno != EINTR)
			return -errno;
		*ret_done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Into the half that is not in use, which is then the one in use. */
static int write_texts(struct recording *recording)
{
	_cleanup_(freep) uint8_t *memory = must(malloc(DAT_HALF));
	struct bytes half = { .at = memory, .size = DAT_HALF };
	uint8_t header_bytes[DAT_HEADER];
	struct bytes header = { .at = header_bytes, .size = sizeof(header_bytes) };
	const unsigned other = !recording->half;
	size_t done;
	int r;

	dat_put_half(&half, other, &recording->texts, &recording->totals);
	dat_put_header(&header, other, recording->texts.compressed);
	r = write_at(recording->fd, half.at, half.n, DAT_PAGE + (uint64_t)other * DAT_HALF, &done);
	if (r == 0)
		r = write_at(recording->fd, header.at, header.n, 0, &done);
	if (r == 0)
		recording->half = other;
	recording->formats_changed = recording->comms_changed = false;
	recording->comms_written = ctl_now_ns();
	return r;
}

/* The page that is not full stays in the buffer, as its first one. */
static int write_pages(struct recording *recording)
{
	const bool partial = recording->page.used > 0;
	size_t pages = recording->n_full + partial, done, complete;
	int r;

	if (pages == 0)
		return 0;
	r = write_at(recording->fd, recording->buffer, pages * DAT_PAGE, DAT_DATA + recording->bytes, &done);
	complete = MIN(done / DAT_PAGE, recording->n_full);
	for (size_t i = 0; i < complete; i++)
		recording->written += recording->records[i];
	recording->bytes += complete * DAT_PAGE;
	if (r == 0 || complete > 0) {
		recording->totals.bytes = recording->bytes + (r == 0 && partial ? DAT_PAGE : 0);
		recording->totals.records = recording->written + (r == 0 ? recording->records[recording->n_full] : 0);
	}
	if (recording->n_full > 0)
		memcpy(recording->buffer, recording->buffer + recording->n_full * DAT_PAGE, DAT_PAGE);
	recording->records[0] = recording->records[recording->n_full];
	recording->n_full = 0;
	recording->page.at = recording->buffer;
	return r;
}

/*
 * All pages of the buffer, compressed together, behind those before: nothing is written twice, since a page that is hardly filled takes no
 * room here. The number of chunks is at the beginning of all.
 */
static int write_chunk(struct recording *recording)
{
	static uint8_t chunk[DAT_CHUNK_HEADER + ZSTD_COMPRESSBOUND(PAGES * DAT_PAGE)];
	const size_t pages = recording->n_full + (recording->page.used > 0);
	const size_t size = ZSTD_compress(chunk + DAT_CHUNK_HEADER, sizeof(chunk) - DAT_CHUNK_HEADER, recording->buffer,
					  pages * DAT_PAGE, 1);
	const uint32_t header[] = { (uint32_t)size, (uint32_t)(pages * DAT_PAGE) }, chunks = recording->chunks + 1;
	size_t done;
	int r;

	memcpy(chunk, header, sizeof(header));
	r = ZSTD_isError(size)
		    ? -EIO
		    : write_at(recording->fd, chunk, DAT_CHUNK_HEADER + size, DAT_DATA + recording->bytes, &done);
	if (r == 0)
		r = write_at(recording->fd, (const uint8_t *)&chunks, sizeof(chunks), DAT_DATA, &done);
	for (size_t i = 0; r == 0 && i < pages; i++)
		recording->written += recording->records[i];
	if (r == 0) {
		recording->chunks = chunks;
		recording->bytes += DAT_CHUNK_HEADER + size;
		recording->totals.bytes = recording->bytes;
		recording->totals.records = recording->written;
	}
	recording->chunk_written = ctl_now_ns();
	recording->records[0] = 0;
	recording->n_full = 0;
	recording->page = (struct ring_page){ .at = recording->buffer, .size = DAT_PAGE };
	return r;
}

static void keep_error(struct recording *recording, int r)
{
	if (recording->error == 0)
		recording->error = r;
}

static int flush(struct recording *recording, bool ended)
{
	const struct totals before = recording->totals;
	struct totals *totals = &recording->totals;
	uint8_t memory[DAT_LEAD];
	struct bytes options = { .at = memory, .size = sizeof(memory) };
	uint64_t place;
	size_t done;

	if (recording->error == 0 && recording->changed)
		keep_error(recording, (recording->texts.compressed ? write_chunk : write_pages)(recording));
	recording->changed = false;
	totals->lost = recording->missed + recording->taken - totals->records;
	totals->ended = ended;
	/* Of processes that come and go, at most once in a second. */
	if (recording->error == 0 &&
	    (recording->formats_changed ||
	     (recording->comms_changed && (ended || ctl_now_ns() - recording->comms_written > NS_PER_S))))
		keep_error(recording, write_texts(recording));
	if (before.bytes == totals->bytes && before.records == totals->records && before.lost == totals->lost && !ended)
		return recording->error;
	place = DAT_PAGE + (uint64_t)recording->half * DAT_HALF;
	dat_put_options(&options, recording->half, &recording->texts, totals);
	keep_error(recording, write_at(recording->fd, options.at, options.n, place, &done));
	return recording->error;
}

int recording_flush(struct recording *recording)
{
	/* A few records at a time cannot be compressed well. */
	if (recording->texts.compressed && recording->n_full < PAGES / 4 &&
	    ctl_now_ns() - recording->chunk_written < NS_PER_S)
		return recording->error;
	return flush(recording, false);
}

/* Of an entry on the next page, if this one has no room: false if the recording is full. */
static bool recording_put_entry(struct recording *recording, uint64_t time, uint16_t type, int32_t pid,
				const void *payload, size_t size)
{
	recording->changed = true;
	if (ring_page_put(&recording->page, time, type, pid, payload, size))
		return true;
	if (recording->most > 0 && recording->bytes + (recording->n_full + 2) * DAT_PAGE > recording->most)
		return false;
	if (recording->n_full + 1 == PAGES)
		recording_flush(recording);
	/* After an error nothing in the buffer matters any more. */
	recording->n_full = recording->error < 0 ? 0 : recording->n_full + (recording->page.used > 0);
	recording->page =
		(struct ring_page){ .at = recording->buffer + recording->n_full * DAT_PAGE, .size = DAT_PAGE };
	recording->records[recording->n_full] = 0;
	recording->changed = true;
	return ring_page_put(&recording->page, time, type, pid, payload, size);
}

static bool recording_put_note(struct recording *recording, uint64_t time, uint16_t type, int32_t pid,
			       const struct note *note)
{
	uint8_t buffer[WIRE_PAYLOAD_MAX];
	size_t size = note_write(type, note, buffer, sizeof(buffer));

	return size > 0 && recording_put_entry(recording, time, type, pid, buffer, size);
}

/* For trace-cmd, if there is room. */
static void add_format(struct recording *recording, unsigned type, const char *name, const char *text_of_it)
{
	static char buffer[DAT_FORMAT_MAX];
	static struct description description;
	struct bytes *formats = &recording->texts.formats;
	struct text text = text_make(buffer, sizeof(buffer)), why = text_make((char[64]){ 0 }, 64);
	uint64_t size;

	/* Without fields if this build does not know one of the types. */
	if (description_parse(text_of_it, strlen(text_of_it), &description, &why) != 0)
		description.n_fields = 0;
	format_put(&text, type, name, &description);
	size = text.length;
	if (text.cut || size + sizeof(size) > formats->size - formats->n)
		return;
	bytes_put(formats, &size, sizeof(size));
	bytes_put(formats, buffer, size);
	recording->texts.n_formats++;
	recording->formats_changed = true;
}

/* The type of its entries; 0: the recording is full. Apart from recording_put(), which would need their memory for each record. */
static __attribute__((__noinline__)) uint16_t type_of_record(struct recording *recording,
							     const struct taken_record *record)
{
	const char *fields = strchr(record->description, ' ');
	char key[2 * WIRE_DESCRIPTION_MAX * 2 + 2];
	struct note note = { .string = { record->name, fields ? fields + 1 : "" } };
	struct known_event *event;
	size_t length;

	snprintf(key, sizeof(key), "%s %s", record->name, note.string[1]);
	length = strlen(key);
	HASH_FIND(by_description, recording->events, key, length, event);
	if (event)
		return event->type;
	note.number[0] = recording->n_types;
	if (recording->n_types == TYPES_MAX || !recording_put_note(recording, record->time, TYPE_EVENT, 0, &note))
		return 0;
	event = must(calloc(1, sizeof(*event)));
	event->type = (uint16_t)recording->n_types++;
	event->description = must(strdup(key));
	HASH_ADD_KEYPTR(by_description, recording->events, event->description, length, event);
	must(table_added() ? event : NULL);
	add_format(recording, event->type, record->name, record->description);
	return event->type;
}

static void forget_writers(struct recording *recording)
{
	struct known_writer *writer, *next;

	HASH_ITER(by_pid, recording->writers, writer, next) {
		HASH_DELETE(by_pid, recording->writers, writer);
		free(writer->tenant);
		free(writer->comm);
		free(writer);
	}
}

static void add_comm(struct recording *recording, const struct taken_record *record)
{
	char line[96];
	int length = snprintf(line, sizeof(line), "%" PRIu64 " %s\n", record->pid, record->comm);

	if (!*record->comm || strchr(record->comm, '\n') || (size_t)length >= sizeof(line) ||
	    (size_t)length > recording->texts.comms.size - recording->texts.comms.n)
		return;
	bytes_put(&recording->texts.comms, line, (size_t)length);
	recording->comms_changed = true;
}

/* Tells the process again if anything about it is new. False: the recording is full. */
static __attribute__((__noinline__)) bool tell_writer(struct recording *recording, const struct taken_record *record)
{
	const struct tenant_name *name;
	struct known_writer *writer;
	struct note note;
	bool told;

	NUMBER_FIND(by_pid, recording->writers, record->pid, writer);
	if (writer && writer->uid == record->uid && streq(writer->comm, record->comm) &&
	    streq(writer->tenant, record->tenant))
		return true;
	if (HASH_CNT(by_pid, recording->writers) > WRITERS_MAX) {
		forget_writers(recording);
		writer = NULL;
	}
	name = record->tenant_name ? record->tenant_name : tenant_name(record->tenant);
	note = (struct note){ { record->uid, name->claimed_by },
			      { record->comm, record->tenant, name->name, name->engine } };
	told = recording_put_note(recording, record->time, TYPE_WRITER, (int32_t)record->pid, &note);
	/* A path that fills a page is left out. */
	note.string[1] = note.string[2] = "";
	if (!told && strlen(record->tenant) > DAT_PAGE / 2)
		told = recording_put_note(recording, record->time, TYPE_WRITER, (int32_t)record->pid, &note);
	if (!told)
		return false;
	if (!writer) {
		writer = must(calloc(1, sizeof(*writer)));
		writer->pid = record->pid;
		NUMBER_ADD(by_pid, recording->writers, pid, writer);
		must(table_added() ? writer : NULL);
	}
	free(writer->comm);
	free(writer->tenant);
	writer->uid = record->uid;
	writer->comm = must(strdup(record->comm));
	writer->tenant = must(strdup(record->tenant));
	add_comm(recording, record);
	return true;
}

bool recording_put(struct recording *recording, const struct taken_record *record)
{
	uint16_t type = 0;

	if (recording->error == 0) {
		type = recording->last_type;
		if (record->event_version == 0 || record->event_version != recording->event_version)
			type = type_of_record(recording, record);
		if (type == 0)
			return false;
		recording->last_type = type;
		recording->event_version = record->event_version;
		if ((record->writer_version == 0 || record->writer_version != recording->writer_version) &&
		    !tell_writer(recording, record))
			return false;
		recording->writer_version = record->writer_version;
		if (!recording_put_entry(recording, record->time, type, (int32_t)record->pid, record->payload,
					 record->size))
			return false;
		recording->records[recording->n_full]++;
		recording->last = record->time;
	}
	recording->taken++;
	return true;
}

void recording_missed(struct recording *recording, uint64_t lost)
{
	const struct note note = { .number = { lost } };
	struct timespec now;

	recording->missed += lost;
	if (recording->last == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0)
		recording->last = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
	if (recording->error == 0)
		recording_put_note(recording, recording->last, TYPE_LOST, 0, &note);
}

struct totals recording_totals(const struct recording *recording)
{
	struct totals totals = recording->totals;

	totals.bytes = recording->error < 0 ? totals.bytes : recording->bytes + (recording->n_full + 1) * DAT_PAGE;
	return totals;
}

static void recording_free(struct recording *recording)
{
	struct known_event *event, *next;

	HASH_ITER(by_description, recording->events, event, next) {
		HASH_DELETE(by_description, recording->events, event);
		free(event->description);
		free(event);
	}
	forget_writers(recording);
	free(recording->texts.formats.at);
	free(recording->texts.comms.at);
	fd_close(recording->fd);
	free(recording);
}

int recording_create(const char *path, uint64_t most, bool compressed, struct recording **ret)
{
	struct recording *recording = must(calloc(1, sizeof(*recording)));
	struct stat status;
	size_t done;
	int r;

	recording->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	r = recording->fd < 0 ? -errno : 0;
	if (r == 0 && fstat(recording->fd, &status) == 0 && !S_ISREG(status.st_mode))
		r = -ESPIPE;
	if (r == 0 && flock(recording->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		r = -EBUSY;
	if (r == 0 && ftruncate(recording->fd, 0) < 0)
		r = -errno;
	recording->most = most;
	recording->half = 1;
	recording->texts.compressed = compressed;
	recording->page = (struct ring_page){ .at = recording->buffer, .size = DAT_PAGE };
	recording->n_types = TYPE_FIRST;
	recording->texts.formats = (struct bytes){ .at = must(malloc(FORMATS_MAX)), .size = FORMATS_MAX };
	recording->texts.comms = (struct bytes){ .at = must(malloc(COMMS_MAX)), .size = COMMS_MAX };
	add_format(recording, TYPE_EVENT, "userevctl_event", NOTE_EVENT);
	add_format(recording, TYPE_WRITER, "userevctl_writer", NOTE_WRITER);
	add_format(recording, TYPE_LOST, "userevctl_lost", NOTE_LOST);
	if (r == 0)
		r = write_texts(recording);
	if (r == 0 && compressed) {
		recording->bytes = sizeof(recording->chunks);
		r = write_at(recording->fd, (const uint8_t *)&recording->chunks, sizeof(recording->chunks), DAT_DATA,
			     &done);
	}
	if (r < 0) {
		recording_free(recording);
		return r;
	}
	*ret = recording;
	return 0;
}

int recording_end(struct recording *recording, struct totals *ret)
{
	int r = flush(recording, true);

	if (fsync(recording->fd) < 0 && r == 0)
		r = -errno;
	*ret = recording->totals;
	recording_free(recording);
	return r;
}
