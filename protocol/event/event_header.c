/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The payload is a header of eight bytes; then extensions, of which one has the metadata; then the values, unaligned, in the order of
 * the metadata. Names and types come from the program, so each byte is checked here. Each element of an array consumes payload, or is a
 * struct with such a member: so the work is bounded by the size of the payload.
 */

#include "protocol/event/event_header.h"

#include "protocol/event/event_header_value.h"

enum {
	HEADER_BYTES = 8,
	NESTING_MAX = 8, /* of structs, as in other readers of the format */
};

enum { FLAG_LITTLE_ENDIAN = 2, FLAG_EXTENSION = 4 };
enum { EXTENSION_METADATA = 1, EXTENSION_ACTIVITY = 2, EXTENSION_MORE = 0x8000 };
enum {
	IS_ARRAY = 0x20,
	IS_LIST = 0x40,
	HAS_MORE = 0x80
}; /* of constant length; of variable length; another byte follows */

struct decoder {
	uint8_t version, opcode, level;
	uint16_t id, tag;
	const uint8_t *activity; /* NULL: none */
	bool has_parent;	 /* the parent's id stands behind it */
	struct cursor metadata;
	const char *name;
	size_t name_length;
	struct value_stream values; /* what is left of the payload */
	bool damaged;		    /* nothing more is decoded */
};

/* The definition of a field, in the metadata. */
struct definition {
	const char *name;
	size_t name_length;
	uint8_t encoding; /* without flags */
	uint8_t format;	  /* of a struct: its number of fields */
	bool is_array, is_list;
	uint16_t count; /* of an array */
};

bool event_header_is(const struct description *description)
{
	return streq(description->canonical + description->name_length,
		     " u8 eventheader_flags; u8 version; u16 id; u16 tag; u8 opcode; u8 level");
}

static uint8_t take_u8(struct cursor *from)
{
	const uint8_t *at = cursor_take(from, sizeof(uint8_t));

	return at ? *at : 0;
}

/* A name with its NUL. Attributes begin with a semicolon, and are left out. */
static const char *take_name(struct cursor *metadata, size_t *ret_length)
{
	const char *name = (const char *)metadata->at, *end = NULL;

	if (!metadata->failed && metadata->left > 0)
		end = memchr(name, '\0', metadata->left);
	cursor_take(metadata, end ? (size_t)(end - name) + 1 : SIZE_MAX);
	if (!end)
		return NULL;
	*ret_length = strcspn(name, ";");
	return name;
}

static bool take_definition(struct decoder *decoder, struct cursor *metadata, struct definition *ret)
{
	uint8_t encoding, format = 0;

	*ret = (struct definition){ 0 };
	ret->name = take_name(metadata, &ret->name_length);
	encoding = take_u8(metadata);
	if (encoding & HAS_MORE)
		format = take_u8(metadata);
	if (format & HAS_MORE)
		value_take_u16(&decoder->values, metadata); /* a tag, which has a meaning for the program alone */
	ret->encoding = encoding & (IS_ARRAY - 1);
	ret->format = format & (HAS_MORE - 1);
	ret->is_array = encoding & IS_ARRAY;
	ret->is_list = encoding & IS_LIST;
	if (ret->is_array)
		ret->count = value_take_u16(&decoder->values, metadata);
	return !metadata->failed && !(ret->is_array && (ret->is_list || ret->count == 0)) && ret->encoding > 0 &&
	       ret->encoding < ENCODINGS && (ret->encoding != ENCODING_STRUCT || ret->format > 0);
}

/* --- fields --- */

static bool decode_field(struct decoder *decoder, struct cursor *metadata, bool is_first, unsigned depth);

/* A value, or a struct, whose fields' definitions begin at the cursor. */
static void put_element(struct decoder *decoder, const struct definition *field, struct cursor *metadata,
			unsigned depth)
{
	if (field->encoding != ENCODING_STRUCT) {
		if (!value_put(&decoder->values, field->encoding, field->format)) {
			decoder->damaged = true;
			text_printf(decoder->values.out, decoder->values.json ? "null" : "");
		}
		return;
	}
	decoder->damaged |= depth == NESTING_MAX;
	text_put(decoder->values.out, "{", 1);
	for (unsigned i = 0; i < field->format && decode_field(decoder, metadata, i == 0, depth + 1); i++)
		;
	text_put(decoder->values.out, "}", 1);
}

static void put_array(struct decoder *decoder, const struct definition *field, struct cursor *metadata, unsigned depth)
{
	const struct cursor begin = *metadata;
	const size_t n = field->is_list ? value_take_u16(&decoder->values, &decoder->values.left) : field->count;
	struct definition skipped;

	decoder->damaged = decoder->values.left.failed;
	/* Without an element: moves over the definitions of a struct's fields. */
	for (size_t left = n == 0 && field->encoding == ENCODING_STRUCT ? field->format : 0;
	     left > 0 && !decoder->damaged; left--) {
		decoder->damaged = !take_definition(decoder, metadata, &skipped);
		if (skipped.encoding == ENCODING_STRUCT)
			left += skipped.format;
	}
	text_put(decoder->values.out, "[", 1);
	for (size_t i = 0; i < n && !decoder->damaged && !decoder->values.out->cut; i++) {
		text_put(decoder->values.out, ",", i > 0);
		*metadata = begin;
		put_element(decoder, field, metadata, depth);
	}
	text_put(decoder->values.out, "]", 1);
}

/* False: there is none, or it is the last one that can be decoded. */
static bool decode_field(struct decoder *decoder, struct cursor *metadata, bool is_first, unsigned depth)
{
	struct definition field;

	if (!decoder->damaged)
		decoder->damaged = !take_definition(decoder, metadata, &field);
	if (decoder->damaged)
		return false;
	/* In text the fields stand behind the header. */
	text_put(decoder->values.out, decoder->values.json ? "," : " ",
		 !is_first || (!decoder->values.json && depth == 0));
	if (decoder->values.json)
		text_json_string(decoder->values.out, field.name, field.name_length);
	else
		text_safe(decoder->values.out, field.name, field.name_length);
	text_put(decoder->values.out, decoder->values.json ? ":" : "=", 1);
	if (field.is_array || field.is_list)
		put_array(decoder, &field, metadata, depth);
	else
		put_element(decoder, &field, metadata, depth);
	return !decoder->damaged && !decoder->values.out->cut;
}

/* --- the header and its extensions --- */

static void decode_header(struct decoder *decoder, const uint8_t *payload, size_t size)
{
	struct value_stream *values = &decoder->values;
	struct cursor *from = &values->left;
	bool more = payload[0] & FLAG_EXTENSION;

	*from = cursor_make(payload + HEADER_BYTES, size - HEADER_BYTES);
	values->little_endian = payload[0] & FLAG_LITTLE_ENDIAN;
	decoder->version = payload[1];
	decoder->id = (uint16_t)value_number(values, payload + 2, sizeof(uint16_t));
	decoder->tag = (uint16_t)value_number(values, payload + 4, sizeof(uint16_t));
	decoder->opcode = payload[6];
	decoder->level = payload[7];
	while (more) {
		const uint16_t length = value_take_u16(values, from), kind = value_take_u16(values, from);
		const unsigned what = kind & (EXTENSION_MORE - 1);
		const uint8_t *body = cursor_take(from, length);

		if (!body)
			break;
		if (what == EXTENSION_ACTIVITY && length >= UUID_BYTES) {
			decoder->activity = body;
			decoder->has_parent = length >= 2 * UUID_BYTES;
		} else if (what == EXTENSION_METADATA && !decoder->name) {
			decoder->metadata = cursor_make(body, length);
			decoder->name = take_name(&decoder->metadata, &decoder->name_length);
		}
		more = kind & EXTENSION_MORE;
	}
	/* Without metadata the values cannot be told apart. */
	decoder->damaged = from->failed || !decoder->name;
}

static void put_all_fields(struct decoder *decoder)
{
	bool more = !decoder->damaged && decoder->metadata.left > 0;

	for (bool is_first = true; more; is_first = false)
		more = decode_field(decoder, &decoder->metadata, is_first, 0) && decoder->metadata.left > 0;
}

/* A word for the number, or the number. */
static void put_named(struct text *out, const char *before, const char *const *names, size_t n, unsigned number)
{
	if (number < n && names[number])
		text_printf(out, "%s%s", before, names[number]);
	else
		text_printf(out, "%s%u", before, number);
}

static void put_header_text(struct decoder *decoder)
{
	static const char *const levels[] = { NULL, "critical", "error", "warning", "information", "verbose" };
	static const char *const opcodes[256] = {
		NULL,	  "start",   "stop", "collection-start", "collection-stop", "extension", "reply",
		"resume", "suspend", "send", [0xf0] = "receive",
	};
	struct text *out = decoder->values.out;

	text_safe(out, decoder->name ? decoder->name : "", decoder->name_length);
	put_named(out, "(level=", levels, ARRAY_SIZE(levels), decoder->level);
	if (decoder->opcode > 0)
		put_named(out, " opcode=", opcodes, ARRAY_SIZE(opcodes), decoder->opcode);
	if (decoder->id > 0)
		text_printf(out, " id=%u version=%u", decoder->id, decoder->version);
	if (decoder->tag > 0)
		text_printf(out, " tag=%u", decoder->tag);
	for (unsigned i = 0; decoder->activity && i < 1U + decoder->has_parent; i++) {
		text_printf(out, i == 0 ? " activity=" : " parent=");
		value_put_uuid(&decoder->values, decoder->activity + (size_t)i * UUID_BYTES);
	}
	text_put(out, ")", 1);
}

static void put_header_json(struct decoder *decoder)
{
	struct text *out = decoder->values.out;

	text_printf(out, "\"event_header\":{\"name\":");
	text_json_string(out, decoder->name ? decoder->name : "", decoder->name_length);
	text_printf(out, ",\"level\":%u,\"opcode\":%u", decoder->level, decoder->opcode);
	if (decoder->id > 0)
		text_printf(out, ",\"id\":%u,\"version\":%u", decoder->id, decoder->version);
	if (decoder->tag > 0)
		text_printf(out, ",\"tag\":%u", decoder->tag);
	for (unsigned i = 0; decoder->activity && i < 1U + decoder->has_parent; i++) {
		text_printf(out, i == 0 ? ",\"activity_id\":" : ",\"parent_id\":");
		value_put_uuid(&decoder->values, decoder->activity + (size_t)i * UUID_BYTES);
	}
	text_printf(out, "%s}", decoder->damaged ? ",\"damaged\":true" : "");
}

void event_header_to_text(const void *payload, size_t size, struct text *out)
{
	struct decoder decoder = { .values.out = out };

	decode_header(&decoder, payload, size);
	put_header_text(&decoder);
	put_all_fields(&decoder);
	text_printf(out, decoder.damaged ? " (damaged)" : "");
}

void event_header_to_json(const void *payload, size_t size, struct text *out)
{
	struct decoder decoder = { .values = { .out = out, .json = true } };
	size_t begin;

	decode_header(&decoder, payload, size);
	text_put(out, "{", 1);
	begin = out->length;
	put_all_fields(&decoder);
	text_put(out, ",", out->length > begin);
	put_header_json(&decoder);
	text_put(out, "}", 1);
}
