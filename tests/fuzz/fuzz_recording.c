/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Recordings that others have changed. The first byte chooses: pages, or compressed pages, behind a good head; or another head, whose
 * header is the next bytes, and whose options are the rest.
 */

#include <sys/mman.h>

#include "client/userevctl/record/trace_dat.h"
#include "tests/fuzz/fuzz.h"

enum { COMPRESSED = 1, OTHER_HEAD = 2 };

static void put_at(int file, const void *data, size_t size, off_t place)
{
	require(pwrite(file, data, size, place) == (ssize_t)size);
}

static void put_good_head(int file, bool compressed, size_t size)
{
	uint8_t header[DAT_HEADER], options[DAT_LEAD];
	struct bytes first = { .at = header, .size = sizeof(header) },
		     second = { .at = options, .size = sizeof(options) };
	const struct totals totals = { .bytes = size, .ended = true };

	dat_put_header(&first, 0, compressed);
	dat_put_options(&second, 0, &(struct dat_texts){ .compressed = compressed }, &totals);
	put_at(file, header, first.n, 0);
	put_at(file, options, second.n, DAT_PAGE);
}

static void read_all(struct reading *reading)
{
	FILE *nothing = fopen("/dev/null", "we");
	struct timeline *timeline = timeline_begin(nothing);
	struct taken_record record;
	uint64_t missed;
	bool comparable;

	while (reading_next(reading, &record, &missed) > 0) {
		require(missed > 0 || record.size <= DAT_PAGE);
		if (missed > 0)
			timeline_missed(timeline, missed);
		else if (!record_filter_matches("n > 5 && s == 'x'", &record, &comparable))
			timeline_put(timeline, &record);
	}
	timeline_end(timeline);
	fclose(nothing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int file = memfd_create("recording", MFD_CLOEXEC);
	struct reading *reading;
	char path[64];

	if (size > DAT_HEADER && data[0] & OTHER_HEAD) {
		put_at(file, data + 1, DAT_HEADER, 0);
		put_at(file, data + 1 + DAT_HEADER, size - 1 - DAT_HEADER, DAT_PAGE);
	} else if (size > 0) {
		put_good_head(file, data[0] & COMPRESSED, size - 1);
		put_at(file, data + 1, size - 1, DAT_DATA);
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (reading_open(path, &reading) == 0) {
		read_all(reading);
		reading_free(reading);
	}
	close(file);
	return 0;
}
