/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Records as a trace in the Common Trace Format, version 1.8, which babeltrace2 and Trace Compass read: a directory with packets of events
 * in `stream`, and their description, which is complete only at the end, in `metadata`. Nothing is aligned. Names of fields begin with an
 * underscore, which readers leave out, because a field may have the name of a keyword.
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/record/trace_dat.h"
#include "protocol/base/table.h"
#include "protocol/event/event_header.h"
#include "protocol/event/record.h"

enum {
	CTF_PACKET = 262144,
	/* Longer than the longest record with the names of its process and tenant, and its text. */
	CTF_EVENT_MAX = 65536,
	CTF_TEXT_MAX = 32768, /* of a record that describes itself; the rest is left out */
	CTF_HEADER = 2 * sizeof(uint32_t) + 5 * sizeof(uint64_t),
	CTF_MAGIC = (int)0xc1fc1fc1,
};

struct ctf_event {
	uint32_t id;
	char *key;
	UT_hash_handle by_key;
};

struct ctf {
	FILE *stream, *metadata;
	struct ctf_event *events;
	uint64_t first, last; /* times in this packet; 0: it is empty */
	uint64_t lost;
	uint8_t buffer[CTF_PACKET];
	struct bytes packet;
};

static const char preamble[] =
	"/* CTF 1.8 */\n\n"
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
	"typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	"typealias integer { size = 8; align = 8; signed = true; } := int8_t;\n"
	"typealias integer { size = 16; align = 8; signed = true; } := int16_t;\n"
	"typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"
	"typealias integer { size = 64; align = 8; signed = true; } := int64_t;\n\n"
	"trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = %s;\n"
	"\tpacket.header := struct { uint32_t magic; uint32_t stream_id; };\n};\n\n"
	"env { tracer_name = \"userevctl\"; };\n\n"
	"clock {\n\tname = realtime;\n\tfreq = 1000000000;\n\toffset = 0;\n\tabsolute = true;\n};\n\n"
	"typealias integer { size = 64; align = 8; signed = false; map = clock.realtime.value; } := time_t;\n\n"
	"stream {\n\tid = 0;\n"
	"\tpacket.context := struct {\n\t\ttime_t timestamp_begin;\n\t\ttime_t timestamp_end;\n"
	"\t\tuint64_t content_size;\n\t\tuint64_t packet_size;\n\t\tuint64_t events_discarded;\n\t};\n"
	"\tevent.header := struct { uint32_t id; time_t timestamp; };\n"
	"\tevent.context := struct { int32_t tid; string procname; string tenant; string tenant_name; };\n};\n";

static FILE *ctf_create(const char *directory, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return fopen(path, "we");
}

int ctf_begin(const char *directory, struct ctf **ret)
{
	struct ctf *ctf;
	int r = 0;

	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return -errno;
	ctf = must(calloc(1, sizeof(*ctf)));
	ctf->packet = (struct bytes){ .at = ctf->buffer, .n = CTF_HEADER, .size = CTF_PACKET };
	ctf->stream = ctf_create(directory, "stream");
	ctf->metadata = ctf->stream ? ctf_create(directory, "metadata") : NULL;
	if (ctf->metadata) {
		fprintf(ctf->metadata, preamble, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "be" : "le");
		*ret = ctf;
		return 0;
	}
	r = -errno;
	if (ctf->stream)
		fclose(ctf->stream);
	free(ctf);
	return r;
}

static void ctf_put_number(struct bytes *bytes, uint64_t number, size_t size)
{
	const size_t skipped = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(number) - size : 0;

	bytes_put(bytes, (uint8_t *)&number + skipped, size);
}

static void ctf_put_string(struct bytes *bytes, const void *string, size_t size)
{
	bytes_put(bytes, string, strnlen(string, size));
	bytes_put(bytes, "", 1);
}

static void end_packet(struct ctf *ctf)
{
	struct bytes head = { .at = ctf->buffer, .size = CTF_HEADER };
	const uint64_t bits = ctf->packet.n * 8;

	ctf_put_number(&head, (uint32_t)CTF_MAGIC, sizeof(uint32_t));
	ctf_put_number(&head, 0, sizeof(uint32_t)); /* the stream */
	ctf_put_number(&head, ctf->first, sizeof(uint64_t));
	ctf_put_number(&head, ctf->last, sizeof(uint64_t));
	ctf_put_number(&head, bits, sizeof(uint64_t));
	ctf_put_number(&head, bits, sizeof(uint64_t));
	ctf_put_number(&head, ctf->lost, sizeof(uint64_t));
	fwrite(ctf->buffer, 1, ctf->packet.n, ctf->stream);
	ctf->packet.n = CTF_HEADER;
	ctf->first = 0;
}

static void describe_field(FILE *file, const struct field *field)
{
	const bool is_dynamic = field->kind == FIELD_DATA_LOC || field->kind == FIELD_REL_LOC;
	const char *name = field->name, *sign = field->is_signed || field->kind == FIELD_SIGNED ? "" : "u";
	const int length = (int)field->name_length;

	if (field->kind == FIELD_CHARS || (is_dynamic && field->is_text))
		fprintf(file, " string _%.*s;", length, name);
	else if (field->kind == FIELD_STRUCT)
		fprintf(file, " uint8_t _%.*s[%u];", length, name, field->size);
	else if (is_dynamic)
		fprintf(file, " uint32_t __%.*s_length; %sint%u_t _%.*s[__%.*s_length];", length, name, sign,
			field->element * 8, length, name, length, name);
	else
		fprintf(file, " %sint%u_t _%.*s;", sign, field->size * 8, length, name);
}

/* `description`: NULL if the payload is shown as bytes. */
static void describe_event(FILE *file, uint32_t id, const char *name, const struct description *description)
{
	fprintf(file, "\nevent {\n\tid = %" PRIu32 ";\n\tname = \"", id);
	for (; *name; name++)
		fprintf(file, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name < ' ' ? '?' : *name);
	fprintf(file, "\";\n\tstream_id = 0;\n\tfields := struct {");
	for (size_t i = 0; description && i < description->n_fields; i++)
		describe_field(file, &description->field[i]);
	if (description && event_header_is(description))
		fprintf(file, " string _decoded;");
	fprintf(file, "%s };\n};\n",
		description ? "" : " uint32_t __payload_length; uint8_t _payload[__payload_length];");
}

static uint32_t find_id(struct ctf *ctf, const struct taken_record *record, const struct description *description)
{
	char key[2 * WIRE_PAYLOAD_MAX];
	struct ctf_event *event;
	size_t length;

	snprintf(key, sizeof(key), "%s %s", record->name, description ? record->description : "?");
	length = strlen(key);
	HASH_FIND(by_key, ctf->events, key, length, event);
	if (event)
		return event->id;
	event = must(calloc(1, sizeof(*event)));
	event->id = HASH_CNT(by_key, ctf->events);
	event->key = must(strdup(key));
	HASH_ADD_KEYPTR(by_key, ctf->events, event->key, length, event);
	must(table_added() ? event : NULL);
	describe_event(ctf->metadata, event->id, record->name, description);
	return event->id;
}

static void ctf_put_field(struct bytes *packet, const struct field *field, const struct taken_record *record)
{
	const bool is_dynamic = field->kind == FIELD_DATA_LOC || field->kind == FIELD_REL_LOC;
	size_t size;
	const uint8_t *bytes = record_field(field, record->payload, record->size, &size);

	if (field->kind == FIELD_CHARS || (is_dynamic && field->is_text)) {
		ctf_put_string(packet, bytes, size);
		return;
	}
	if (is_dynamic) {
		ctf_put_number(packet, size / field->element, sizeof(uint32_t));
		size -= size % field->element;
	}
	bytes_put(packet, bytes, size);
}

void ctf_put(struct ctf *ctf, const struct taken_record *record)
{
	static char buffer[CTF_TEXT_MAX];
	const struct description *description = record_fitting_description(record);
	const struct tenant_name *name = record->tenant_name ? record->tenant_name : tenant_name(record->tenant);
	struct bytes *packet = &ctf->packet;
	struct text decoded = text_make(buffer, sizeof(buffer));

	if (CTF_PACKET - packet->n < CTF_EVENT_MAX)
		end_packet(ctf);
	/* Readers refuse times that go back, as they do when the clock is set. */
	ctf->last = MAX(ctf->last, record->time);
	ctf->first = ctf->first > 0 ? ctf->first : ctf->last;
	ctf_put_number(packet, find_id(ctf, record, description), sizeof(uint32_t));
	ctf_put_number(packet, ctf->last, sizeof(uint64_t));
	ctf_put_number(packet, record->pid, sizeof(uint32_t));
	ctf_put_string(packet, record->comm, SIZE_MAX);
	ctf_put_string(packet, record->tenant, SIZE_MAX);
	ctf_put_string(packet, name->text, sizeof(name->text));
	for (size_t i = 0; description && i < description->n_fields; i++)
		ctf_put_field(packet, &description->field[i], record);
	/* Behind the header's fields, as a text: which fields there are differs from record to record. */
	if (description && event_header_is(description)) {
		record_to_text(description, record->payload, record->size, &decoded);
		ctf_put_string(packet, buffer, sizeof(buffer));
	}
	if (description)
		return;
	ctf_put_number(packet, record->size, sizeof(uint32_t));
	bytes_put(packet, record->payload, record->size);
}

/* Readers show the number between the packet before and the one that ends here. */
void ctf_missed(struct ctf *ctf, uint64_t lost)
{
	if (ctf->first > 0)
		end_packet(ctf);
	ctf->lost += lost;
}

int ctf_end(struct ctf *ctf)
{
	struct ctf_event *event, *next;
	int r;

	if (ctf->first > 0)
		end_packet(ctf);
	HASH_ITER(by_key, ctf->events, event, next) {
		HASH_DELETE(by_key, ctf->events, event);
		free(event->key);
		free(event);
	}
	r = ferror(ctf->stream) || ferror(ctf->metadata) ? -EIO : 0;
	if (fclose(ctf->stream) == EOF)
		r = errno ? -errno : -EIO;
	if (fclose(ctf->metadata) == EOF)
		r = errno ? -errno : -EIO;
	free(ctf);
	return r;
}
