/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Recordings: files of records. */

#include "client/userevctl/tracing/record.h"

/* The numbers that a recording has of itself. */
struct totals {
	uint64_t bytes; /* of its pages */
	uint64_t records, lost;
	bool ended; /* otherwise the recorder was killed, or is still recording */
};

/* recording.c: writes one. */
struct recording;
/*
 * 0 or a negative errno; -EBUSY: another recorder writes this file. `most`: bytes of records; 0: no limit. A compressed one is written
 * at most once a second, unless there is much to write.
 */
int recording_create(const char *path, uint64_t most, bool compressed, struct recording **ret);
/* False: it is full. A record that cannot be written counts as lost. */
bool recording_put(struct recording *, const struct taken_record *);
/* So many records were lost here. */
void recording_missed(struct recording *, uint64_t lost);
/* Writes what was put: 0, or the error of the first write that failed. */
int recording_flush(struct recording *);
struct totals recording_totals(const struct recording *);
/* Flushes and closes it: the error of recording_flush(), or of fsync(2). */
int recording_end(struct recording *, struct totals *ret);

/* reading.c: reads one. */
struct reading;
enum reading_fault {
	READING_EMPTY = 1,
	READING_OTHER_PROGRAM = 2, /* a trace.dat, but not of a recorder of ours */
	READING_NONE = 3,	   /* no trace.dat */
};
/* 0, a negative errno, or an enum reading_fault. */
int reading_open(const char *path, struct reading **ret);
/* 1; 0 at the end; or a negative errno. `missed` > 0: no record, but that many were lost here. Valid until the next call. */
int reading_next(struct reading *, struct taken_record *ret, uint64_t *missed);
struct totals reading_totals(const struct reading *);
/* Bytes that are missing at the end of the file; and pages that were skipped, because they are no pages of records. */
uint64_t reading_missing(const struct reading *);
uint64_t reading_damaged(const struct reading *);
struct reading *reading_free(struct reading *);

/* filter.c: NULL, or what the filter should have where `ret_at` points. */
const char *record_filter_check(const char *filter, const char **ret_at);
/* For a filter without mistakes. A comparison is false, and `ret_comparable`, if the record has no such field of the value's type. */
bool record_filter_matches(const char *filter, const struct taken_record *, bool *ret_comparable);

/* timeline.c: records in the Trace Event Format, in which tenants are processes and threads are threads. */
struct timeline;
struct timeline *timeline_begin(FILE *);
void timeline_put(struct timeline *, const struct taken_record *);
void timeline_missed(struct timeline *, uint64_t lost);
void timeline_end(struct timeline *);

/* ctf.c: the same in the Common Trace Format, in a directory, which is made. 0 or a negative errno. */
struct ctf;
int ctf_begin(const char *directory, struct ctf **ret);
void ctf_put(struct ctf *, const struct taken_record *);
void ctf_missed(struct ctf *, uint64_t lost);
int ctf_end(struct ctf *);
