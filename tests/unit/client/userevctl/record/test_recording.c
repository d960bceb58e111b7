/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/stat.h>

#include "client/userevctl/record/trace_dat.h"
#include "protocol/event/description.h"
#include "tests/suite.h"

#define GOLDEN "tests/unit/client/userevctl/record/"

static char directory[64], path[128];
static bool compressed;

static void begin(void)
{
	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/trace.dat", directory);
}

static const struct tenant_name shop = { .name = "shop", .engine = "podman", .text = "shop (podman)" },
				unit = { .name = "cron.service", .text = "cron.service" }, nobody;

/* A record of number `i`, at that time, of one of three processes. */
static struct taken_record record_of(uint64_t time, const uint32_t *i)
{
	static const struct {
		const char *comm, *tenant;
		const struct tenant_name *name;
	} writers[] = {
		{ "shop", "/machine.slice/libpod-0.scope", &shop },
		{ "cron", "/system.slice/cron.service", &unit },
		{ "", "", &nobody },
	};
	const size_t which = *i % ARRAY_SIZE(writers);

	return (struct taken_record){
		.time = time,
		.pid = 100 + which,
		.uid = which == 2 ? UID_UNKNOWN : which,
		.comm = writers[which].comm,
		.tenant = writers[which].tenant,
		.tenant_name = writers[which].name,
		.name = *i % 2 == 0 ? "even" : "odd",
		.description = *i % 2 == 0 ? "event u32 n" : "event s32 n",
		.payload = i,
		.size = sizeof(*i),
	};
}

static struct recording *recording_of(uint32_t n, uint64_t ns)
{
	struct recording *recording;

	ck_assert_int_eq(recording_create(path, 0, compressed, &recording), 0);
	for (uint32_t i = 0; i < n; i++) {
		const struct taken_record record = record_of(UINT64_C(1700000000000000000) + i * ns, &i);

		ck_assert(recording_put(recording, &record));
	}
	return recording;
}

static void end(struct recording *recording, uint64_t records, uint64_t lost)
{
	struct totals totals;

	ck_assert_int_eq(recording_end(recording, &totals), 0);
	ck_assert_uint_eq(totals.records, records);
	ck_assert_uint_eq(totals.lost, lost);
	ck_assert(totals.ended);
}

/* The numbers are those of recording_of(), without gaps. The number of records, and of missed ones. */
static uint32_t read_all(uint64_t ns, uint64_t *ret_missed)
{
	struct taken_record record;
	struct reading *reading;
	uint64_t missed;
	uint32_t i = 0;

	*ret_missed = 0;
	ck_assert_int_eq(reading_open(path, &reading), 0);
	while (reading_next(reading, &record, &missed) > 0) {
		const struct taken_record wanted = record_of(UINT64_C(1700000000000000000) + i * ns, &i);

		*ret_missed += missed;
		if (missed > 0)
			continue;
		ck_assert_uint_eq(record.time, wanted.time);
		ck_assert_uint_eq(record.pid, wanted.pid);
		ck_assert_uint_eq(record.uid, wanted.uid);
		ck_assert_str_eq(record.comm, wanted.comm);
		ck_assert_str_eq(record.tenant, wanted.tenant);
		ck_assert_str_eq(record.tenant_name->text, wanted.tenant_name->text);
		ck_assert_str_eq(record.name, wanted.name);
		ck_assert_str_eq(record.description, wanted.description);
		ck_assert_uint_eq(record.size, wanted.size);
		ck_assert_mem_eq(record.payload, &i, sizeof(i));
		i++;
	}
	reading_free(reading);
	return i;
}

TEST(records_come_back_as_they_were)
{
	/* Up to times that are further apart than an entry's 27 bits, and than the 59 bits of two words. */
	static const uint64_t apart[] = { 0, 1, 999, (1 << 27) - 1, 1 << 27, UINT64_C(1) << 40, UINT64_C(1) << 48 };
	uint64_t missed;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(apart); i++) {
		const uint64_t ns = apart[i / 2];

		compressed = i & 1;
		begin();
		end(recording_of(5000, ns), 5000, 0);
		ck_assert_uint_eq(read_all(ns, &missed), 5000);
		remove_directory(directory);
	}
}

/* The heap that is in use after a thousand records is that after two hundred times as many. */
TEST(memory_does_not_grow_with_records)
{
	enum { FEW = 1000, MANY = 200 * FEW };
	struct taken_record record;
	struct recording *recording;
	struct reading *reading;
	uint64_t missed;
	size_t used = 0;
	int n = 0;

	begin();
	ck_assert_int_eq(recording_create(path, 0, compressed, &recording), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		record = record_of(1 + i, &i);
		ck_assert(recording_put(recording, &record));
		used = i == FEW ? mallinfo2().uordblks : used;
	}
	ck_assert_uint_le(mallinfo2().uordblks, used);
	end(recording, MANY, 0);
	ck_assert_int_eq(reading_open(path, &reading), 0);
	while (reading_next(reading, &record, &missed) > 0)
		used = n++ == FEW ? mallinfo2().uordblks : used;
	ck_assert_int_eq(n, MANY);
	ck_assert_uint_le(mallinfo2().uordblks, used);
	reading_free(reading);
	remove_directory(directory);
}

TEST(event_and_writer_are_known_by_their_versions)
{
	static const uint32_t numbers[] = { 0, 0, 2, 2, 1, 1, 4, 0 };
	struct taken_record record;
	struct recording *recording;
	struct reading *reading;
	uint64_t missed;

	begin();
	ck_assert_int_eq(recording_create(path, 0, compressed, &recording), 0);
	for (uint64_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		record = record_of(1 + i, &numbers[i]);
		record.event_version = 1 + numbers[i] % 2;
		record.writer_version = 1 + numbers[i] % 3;
		ck_assert(recording_put(recording, &record));
	}
	end(recording, ARRAY_SIZE(numbers), 0);
	ck_assert_int_eq(reading_open(path, &reading), 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const struct taken_record wanted = record_of(1 + i, &numbers[i]);

		ck_assert_int_gt(reading_next(reading, &record, &missed), 0);
		ck_assert_str_eq(record.name, wanted.name);
		ck_assert_str_eq(record.comm, wanted.comm);
		ck_assert_uint_eq(record.pid, wanted.pid);
	}
	reading_free(reading);
	remove_directory(directory);
}

TEST(payload_of_each_size_comes_back)
{
	static uint8_t payload[WIRE_PAYLOAD_MAX];
	struct taken_record record = record_of(1, &(const uint32_t){ 0 });
	struct recording *recording;
	struct reading *reading;
	struct totals totals;
	uint64_t missed;
	size_t size = 0;

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	begin();
	ck_assert_int_eq(recording_create(path, 0, compressed, &recording), 0);
	record.payload = payload;
	for (; size <= sizeof(payload); size++) {
		record.size = size;
		record.time++;
		ck_assert(recording_put(recording, &record));
	}
	ck_assert_int_eq(recording_end(recording, &totals), 0);
	ck_assert_int_eq(reading_open(path, &reading), 0);
	for (size = 0; reading_next(reading, &record, &missed) > 0; size++) {
		/* The kernel's records are rounded up, too. */
		ck_assert_uint_eq(record.size, (size + 3) / 4 * 4);
		ck_assert_mem_eq(record.payload, payload, size);
	}
	ck_assert_uint_eq(size, sizeof(payload) + 1);
	reading_free(reading);
	remove_directory(directory);
}

TEST(clock_that_was_set_back_keeps_the_order)
{
	struct recording *recording;
	struct taken_record record;
	struct reading *reading;
	struct totals totals;
	uint64_t missed;

	begin();
	ck_assert_int_eq(recording_create(path, 0, compressed, &recording), 0);
	for (uint32_t i = 0; i < 10; i++) {
		record = record_of(1000 - i, &i);
		ck_assert(recording_put(recording, &record));
	}
	ck_assert_int_eq(recording_end(recording, &totals), 0);
	ck_assert_int_eq(reading_open(path, &reading), 0);
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_int_eq(reading_next(reading, &record, &missed), 1);
		ck_assert_uint_eq(record.time, 1000 - i);
	}
	reading_free(reading);
	remove_directory(directory);
}

TEST(compressed_recording_is_smaller)
{
	struct totals plain, small;
	uint64_t missed;

	begin();
	ck_assert_int_eq(recording_end(recording_of(50000, 1), &plain), 0);
	compressed = true;
	ck_assert_int_eq(recording_end(recording_of(50000, 1), &small), 0);
	ck_assert_uint_lt(small.bytes * 2, plain.bytes);
	ck_assert_uint_eq(read_all(1, &missed), 50000);
	remove_directory(directory);
}

TEST(lost_records_are_where_they_were_lost)
{
	struct recording *recording;
	uint64_t missed;

	begin();
	recording = recording_of(100, 1);
	recording_missed(recording, 17);
	recording_missed(recording, UINT64_C(1) << 40);
	end(recording, 100, 17 + (UINT64_C(1) << 40));
	ck_assert_uint_eq(read_all(1, &missed), 100);
	ck_assert_uint_eq(missed, 17 + (UINT64_C(1) << 40));
	remove_directory(directory);
}

static void kill_recorder(void)
{
	struct recording *recording;
	struct reading *reading;
	struct totals totals;
	uint64_t missed;

	begin();
	recording = recording_of(5000, 10);
	ck_assert_int_eq(recording_flush(recording), 0);
	/* As it is on the disk if the recorder is killed now. */
	ck_assert_uint_eq(read_all(10, &missed), 5000);
	ck_assert_int_eq(reading_open(path, &reading), 0);
	totals = reading_totals(reading);
	ck_assert_uint_eq(totals.records, 5000);
	ck_assert(!totals.ended);
	reading_free(reading);
	end(recording, 5000, 0);
	remove_directory(directory);
}

TEST(recording_of_a_killed_recorder_is_readable)
{
	kill_recorder();
	compressed = true;
	kill_recorder();
}

TEST(recording_is_full_at_its_size)
{
	struct recording *recording;
	struct totals totals;
	uint64_t missed;
	uint32_t i = 0;

	begin();
	ck_assert_int_eq(recording_create(path, 10 * DAT_PAGE, false, &recording), 0);
	for (;; i++) {
		const struct taken_record record = record_of(UINT64_C(1700000000000000000) + i, &i);

		if (!recording_put(recording, &record))
			break;
	}
	ck_assert_int_eq(recording_end(recording, &totals), 0);
	ck_assert_uint_eq(totals.records, i);
	ck_assert_uint_eq(totals.lost, 0);
	ck_assert_uint_eq(totals.bytes, 10 * DAT_PAGE);
	ck_assert_uint_eq(read_all(1, &missed), i);
	remove_directory(directory);
}

TEST(file_has_one_recorder)
{
	struct recording *recording = NULL, *other;
	uint64_t missed;

	begin();
	recording = recording_of(10, 1);
	ck_assert_int_eq(recording_flush(recording), 0);
	ck_assert_int_eq(recording_create(path, 0, compressed, &other), -EBUSY);
	ck_assert_uint_eq(read_all(1, &missed), 10);
	end(recording, 10, 0);
	remove_directory(directory);
}

/* Of a file that may be damaged: its records, or a fault; and the bytes that are missing at its end. The time that it takes is the test's. */
static int read_shortened(uint64_t *ret_missing)
{
	struct taken_record record;
	struct reading *reading;
	uint64_t missed;
	int r = reading_open(path, &reading), records = 0;

	if (r != 0)
		return -r;
	while (reading_next(reading, &record, &missed) > 0) {
		record_fitting_description(&record);
		records++;
	}
	*ret_missing = reading_missing(reading);
	reading_free(reading);
	return records;
}

static int read_damaged(void)
{
	uint64_t missing;

	return read_shortened(&missing);
}

static void truncate_file(void)
{
	struct stat status;
	int before = 4000;

	begin();
	end(recording_of(4000, 1), 4000, 0);
	ck_assert_int_eq(stat(path, &status), 0);
	for (off_t size = status.st_size; size >= DAT_DATA; size -= 512) {
		uint64_t missing;
		int records;

		ck_assert_int_eq(truncate(path, size), 0);
		records = read_shortened(&missing);
		ck_assert_int_le(records, before);
		ck_assert_uint_eq(missing, (uint64_t)(status.st_size - size));
		before = records;
	}
	ck_assert_int_eq(before, 0);
	for (off_t size = DAT_LEAD + DAT_PAGE; size > 0; size -= 16) {
		ck_assert_int_eq(truncate(path, size), 0);
		ck_assert_int_le(read_damaged(), 0);
	}
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_int_eq(read_damaged(), -READING_EMPTY);
	remove_directory(directory);
}

TEST(truncated_file_has_its_first_records)
{
	truncate_file();
	compressed = true;
	truncate_file();
}

static void change_bytes(void)
{
	uint8_t page[DAT_PAGE] = { 0 }, changed[DAT_PAGE];
	int fd;

	begin();
	end(recording_of(400, 1), 400, 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(pread(fd, page, sizeof(page), DAT_DATA), 800);
	for (size_t i = 0; i < 800; i++) {
		memcpy(changed, page, sizeof(page));
		changed[i] ^= (uint8_t)(1 << (i * 3 % 8));
		ck_assert_int_eq(pwrite(fd, changed, sizeof(changed), DAT_DATA), sizeof(changed));
		ck_assert_int_le(read_damaged(), 2000);
	}
	fd_close(fd);
	remove_directory(directory);
}

TEST(changed_bytes_do_no_harm)
{
	change_bytes();
	compressed = true;
	change_bytes();
}

/* The second chunk cannot be decompressed: its records are missing, and no others are shown in their place. */
TEST(damaged_chunk_is_left_out)
{
	struct taken_record record;
	struct reading *reading;
	uint32_t size, last = 0;
	uint64_t missed;
	off_t second;
	int fd, n = 0;

	compressed = true;
	begin();
	end(recording_of(50000, 1), 50000, 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	/* Before the chunks is their number, and before each its size, compressed and not. */
	ck_assert_int_eq(pread(fd, &size, sizeof(size), DAT_DATA + 4), sizeof(size));
	second = DAT_DATA + 4 + 8 + (off_t)size;
	ck_assert_int_eq(pwrite(fd, "none", 4, second + 8), 4);
	fd_close(fd);
	ck_assert_int_eq(reading_open(path, &reading), 0);
	for (uint32_t i; reading_next(reading, &record, &missed) > 0; last = i, n++) {
		memcpy(&i, record.payload, sizeof(i));
		ck_assert(n == 0 || i > last);
	}
	ck_assert_uint_eq(last, 49999);
	ck_assert_int_lt(n, 50000);
	ck_assert_uint_eq(reading_damaged(reading), 1);
	reading_free(reading);
	remove_directory(directory);
}

TEST(other_files_are_no_recordings)
{
	static const struct {
		const char *bytes;
		size_t size;
		int fault;
	} cases[] = {
		{ "", 0, READING_EMPTY },
		{ "\x17\x08\x44tracing", 10, READING_OTHER_PROGRAM },
		{ "\x17\x08\x44tracing6\0\0\x08", 14, READING_OTHER_PROGRAM },
		{ "{\"traceEvents\":[]}", 18, READING_NONE },
	};
	struct reading *reading;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		FILE *file = fopen(path, "w");

		fwrite(cases[i].bytes, 1, cases[i].size, file);
		fclose(file);
		ck_assert_int_eq(reading_open(path, &reading), cases[i].fault);
	}
	ck_assert_int_eq(reading_open(directory, &reading), -EISDIR);
	ck_assert_int_eq(reading_open("/dev/null", &reading), READING_NONE);
	ck_assert_int_eq(reading_open("/nowhere", &reading), -ENOENT);
	remove_directory(directory);
}

/* The text of a file in the folder of this test. */
static char *golden(const char *name)
{
	static char text[65536];
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), GOLDEN "%s", name);
	file = fopen(full, "r");
	ck_assert_msg(file != NULL, "%s: %s", full, strerror(errno));
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

TEST(format_is_that_of_tracefs)
{
	static const char types[] = "event u8 a; s16 b; u64 c; char[6] d; unsigned char e; struct blob f 3; "
				    "__rel_loc char[] g; __data_loc char[] h; __rel_loc u16[] i";
	static struct description description;
	char buffer[DAT_FORMAT_MAX], why[64];
	struct text text = text_make(buffer, sizeof(buffer)), reason = text_make(why, sizeof(why));

	ck_assert_int_eq(description_parse(types, strlen(types), &description, &reason), 0);
	format_put(&text, 1003, "provider.one", &description);
	ck_assert_str_eq(buffer, golden("format.txt"));
}

TEST(timeline_is_in_the_trace_event_format)
{
	_cleanup_(freep) char *text = NULL;
	struct taken_record record;
	struct timeline *timeline;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	timeline = timeline_begin(file);
	timeline_missed(timeline, 3);
	for (uint32_t i = 0; i < 8; i++) {
		record = record_of(UINT64_C(1700000000123456789) + i * 1500, &i);
		timeline_put(timeline, &record);
	}
	timeline_missed(timeline, 12);
	record = record_of(UINT64_C(1700000000123456000), &(const uint32_t){ 8 });
	timeline_put(timeline, &record);
	record.description = "event unknown_type n";
	timeline_put(timeline, &record);
	timeline_end(timeline);
	fclose(file);
	ck_assert_str_eq(text, golden("timeline.json"));
}
