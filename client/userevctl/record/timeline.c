/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Records as JSON in the Trace Event Format, which the viewers of Perfetto and of Chrome open. A process of the viewer is a tenant, and a
 * thread is a thread. Times are in microseconds since the first record: these viewers keep them as floats, which have no room for the
 * nanoseconds since 1970.
 */

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/record/recording.h"
#include "protocol/base/table.h"
#include "protocol/event/record.h"

/* A name that the viewer has to know: of a tenant, or of a thread in it. */
struct track {
	char *key;
	uint64_t number;
	UT_hash_handle by_key;
};

struct timeline {
	struct json json;
	struct track *tracks;
	uint64_t tenants;
	uint64_t first, last; /* times; 0: of no record */
};

enum { FIELDS_MAX = WIRE_PAYLOAD_MAX * 8 + 4 * WIRE_DESCRIPTION_MAX };

struct timeline *timeline_begin(FILE *file)
{
	struct timeline *timeline = must(calloc(1, sizeof(*timeline)));

	timeline->json.file = file;
	json_begin(&timeline->json, '{');
	json_put(&timeline->json, json_text("displayTimeUnit", "ns"));
	json_put_begin(&timeline->json, "traceEvents", '[');
	return timeline;
}

/* The track of that name: whether it is new. */
static bool find_track(struct timeline *timeline, const char *key, struct track **ret)
{
	const size_t length = strlen(key);

	HASH_FIND(by_key, timeline->tracks, key, length, *ret);
	if (*ret)
		return false;
	*ret = must(calloc(1, sizeof(**ret)));
	(*ret)->key = must(strdup(key));
	HASH_ADD_KEYPTR(by_key, timeline->tracks, (*ret)->key, length, *ret);
	must(table_added() ? *ret : NULL);
	return true;
}

/* On a line of its own. */
static void begin_object(struct timeline *timeline, const char *name, const char *phase, uint64_t tenant, uint64_t pid)
{
	fputs(timeline->json.comma ? ",\n" : "\n", timeline->json.file);
	timeline->json.comma = false;
	json_begin(&timeline->json, '{');
	json_put(&timeline->json, json_text("name", name), json_text("ph", phase), json_u64("pid", tenant),
		 json_u64("tid", pid));
}

static void put_metadata(struct timeline *timeline, const char *name, uint64_t tenant, uint64_t pid, const char *value)
{
	begin_object(timeline, name, "M", tenant, pid);
	json_put_begin(&timeline->json, "args", '{');
	json_put(&timeline->json, json_text("name", value));
	json_end(&timeline->json, '}');
	json_end(&timeline->json, '}');
}

/* Says who wrote the record, unless that was said before: the tenant's number. */
static uint64_t put_writer(struct timeline *timeline, const struct taken_record *record)
{
	const struct tenant_name *name = record->tenant_name ? record->tenant_name : tenant_name(record->tenant);
	const char *shown = *record->tenant ? tenant_shown_as(name, record->tenant) : "unknown tenant";
	struct track *tenant, *track;
	char thread[96];

	if (find_track(timeline, record->tenant, &tenant)) {
		tenant->number = ++timeline->tenants;
		put_metadata(timeline, "process_name", tenant->number, 0, shown);
	}
	snprintf(thread, sizeof(thread), "%" PRIu64 " %" PRIu64 " %s", tenant->number, record->pid, record->comm);
	if (!find_track(timeline, thread, &track))
		return tenant->number;
	snprintf(thread, sizeof(thread), "%s%s%" PRIu64, record->comm, *record->comm ? "-" : "", record->pid);
	put_metadata(timeline, "thread_name", tenant->number, record->pid, thread);
	return tenant->number;
}

static void put_time(struct timeline *timeline, uint64_t time)
{
	const bool is_before = time < timeline->first;
	const uint64_t ns = is_before ? timeline->first - time : time - timeline->first;

	timeline->last = time;
	json_put_key(&timeline->json, "ts");
	json_raw(&timeline->json, "%s%" PRIu64 ".%03" PRIu64, is_before ? "-" : "", ns / 1000, ns % 1000);
}

void timeline_put(struct timeline *timeline, const struct taken_record *record)
{
	static char fields[FIELDS_MAX];
	const struct description *description = record_fitting_description(record);
	struct text text = text_make(fields, sizeof(fields));
	uint64_t tenant;

	timeline->first = timeline->first > 0 ? timeline->first : record->time;
	tenant = put_writer(timeline, record);
	begin_object(timeline, record->name, "i", tenant, record->pid);
	json_put(&timeline->json, json_text("cat", "user_events"), json_text("s", "t"));
	put_time(timeline, record->time);
	if (description)
		record_to_json(description, record->payload, record->size, &text);
	if (description && !text.cut) {
		json_put_key(&timeline->json, "args");
		json_raw(&timeline->json, "%s", fields);
	} else {
		json_put_begin(&timeline->json, "args", '{');
		json_put(&timeline->json, (struct row_field){ ROW_BYTES, "payload", strlen("payload"), record->payload,
							      record->size, 0 });
		json_end(&timeline->json, '}');
	}
	json_end(&timeline->json, '}');
}

void timeline_missed(struct timeline *timeline, uint64_t lost)
{
	begin_object(timeline, "lost records", "i", 0, 0);
	json_put(&timeline->json, json_text("cat", "lost"), json_text("s", "g"));
	put_time(timeline, MAX(timeline->last, timeline->first));
	json_put_begin(&timeline->json, "args", '{');
	json_put(&timeline->json, json_u64("records", lost));
	json_end(&timeline->json, '}');
	json_end(&timeline->json, '}');
}

void timeline_end(struct timeline *timeline)
{
	const time_t seconds = (time_t)(timeline->first / NS_PER_S);
	struct track *track, *next;
	struct tm broken = { 0 };
	char date[64], start[96];

	gmtime_r(&seconds, &broken);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &broken);
	snprintf(start, sizeof(start), "%s.%09" PRIu64 "Z", date, timeline->first % NS_PER_S);
	putc('\n', timeline->json.file);
	json_end(&timeline->json, ']');
	json_put_begin(&timeline->json, "otherData", '{');
	json_put(&timeline->json, json_text("first_record", start));
	json_end(&timeline->json, '}');
	json_end(&timeline->json, '}');
	HASH_ITER(by_key, timeline->tracks, track, next) {
		HASH_DELETE(by_key, timeline->tracks, track);
		free(track->key);
		free(track);
	}
	free(timeline);
}
