/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A dynamic field is a u32 in the fixed part: length << 16 | offset. The kernel (user_event_validate(), the same in 6.1 and 6.12) reads it
 * when the payload is already behind the entry's common fields, struct trace_entry, eight bytes. The offset of a __data_loc counts from
 * the start of this *entry*, so a writer adds eight to the offset in its payload; that of a __rel_loc counts from the end of the u32. The
 * kernel requires the end of the data to be inside the entry and, if the type contains "char", the byte before this end to be NUL, even
 * if the length is 0.
 *
 * So a __rel_loc char[] of 0 is valid (the byte before its end is the u32's last one), and a __data_loc may point at the common fields.
 * We have neither these nor the byte before the entry: both are refused here.
 *
 * Offsets below are in the entry, like the kernel's, except for pointers.
 */

#include "protocol/event/record.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "protocol/event/event_header.h"
#include "protocol/refusal.h"

enum {
	ENTRY_HEADER = 8,
	NUMBER_MAX = 32, /* bytes of a number in a list: the longest has 23 digits, in octal */
};

struct span {
	const uint8_t *at;
	size_t size;
};

/* Numbers of 1, 2, 4 or 8 bytes in the machine's order: where a uint64_t has the bytes of a smaller one. */
static uint8_t *low_bytes(uint64_t *number, size_t size)
{
	return (uint8_t *)number + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(*number) - size : 0);
}

static uint64_t get_unsigned(const uint8_t *at, size_t size)
{
	uint64_t number = 0;

	memcpy(low_bytes(&number, size), at, size);
	return number;
}

static bool field_is_dynamic(const struct field *field)
{
	return field->kind == FIELD_DATA_LOC || field->kind == FIELD_REL_LOC;
}

/* Finds the bytes of a dynamic field. The fixed part must exist. False: they are invalid. */
static bool locate(const struct field *field, const uint8_t *payload, size_t size, struct span *ret)
{
	const uint64_t location = get_unsigned(payload + field->offset, sizeof(uint32_t));
	size_t origin = field->kind == FIELD_REL_LOC ? ENTRY_HEADER + field->offset + sizeof(uint32_t) : 0;
	size_t start = origin + (location & 0xffff);
	size_t end = start + (location >> 16);

	if (end > ENTRY_HEADER + size || (start < ENTRY_HEADER && end > start) ||
	    (field->is_text && (end <= ENTRY_HEADER || payload[end - ENTRY_HEADER - 1] != '\0')))
		return false;
	*ret = (struct span){ payload, 0 };
	if (end > start)
		*ret = (struct span){ payload + (start - ENTRY_HEADER), end - start };
	return true;
}

bool record_is_valid(const struct description *description, const void *payload, size_t size)
{
	struct span span;

	if (size < description->size)
		return false;
	for (size_t i = 0; i < description->n_fields; i++)
		if (field_is_dynamic(&description->field[i]) && !locate(&description->field[i], payload, size, &span))
			return false;
	return true;
}

const void *record_field(const struct field *field, const void *payload, size_t size, size_t *ret_size)
{
	struct span span = { (const uint8_t *)payload + field->offset, field->size };

	if (field_is_dynamic(field) && !locate(field, payload, size, &span))
		span.size = 0;
	*ret_size = span.size;
	return span.at;
}

uint64_t record_number(const void *at, size_t size, bool is_signed)
{
	const unsigned unused_bits = (64 - 8 * (unsigned)size) & 63;
	const uint64_t number = get_unsigned(at, size);

	return is_signed ? (uint64_t)((int64_t)(number << unused_bits) >> unused_bits) : number;
}

struct writer {
	struct text *out;
	bool json;
};

/* Text ends at its first NUL, as for the kernel's %s. */
static void write_chars(struct writer writer, struct span span)
{
	const char *text = (const char *)span.at;

	if (writer.json)
		text_json_string(writer.out, text, strnlen(text, span.size));
	else
		text_quoted(writer.out, text, strnlen(text, span.size));
}

static void write_number(struct writer writer, const uint8_t *at, size_t size, bool is_signed)
{
	const uint64_t number = record_number(at, size, is_signed);

	if (is_signed)
		text_printf(writer.out, "%lld", (long long)number);
	else
		text_printf(writer.out, "%llu", (unsigned long long)number);
}

static bool ends_with(const struct field *field, const char *end)
{
	size_t length = strlen(end);

	return field->name_length > length && memcmp(field->name + field->name_length - length, end, length) == 0;
}

/* The kernel has no floats. USEREV_EVENT() and its relatives register their bits, in a field with such a name. */
static bool is_float(const struct field *field)
{
	return field->kind == FIELD_UNSIGNED && ((field->size == sizeof(float) && ends_with(field, "_f32")) ||
						 (field->size == sizeof(double) && ends_with(field, "_f64")));
}

static void write_value(struct writer writer, const struct field *field, const uint8_t *payload, size_t size)
{
	const uint8_t *at = payload + field->offset;
	struct span span = { payload, 0 };

	if (field_is_dynamic(field))
		locate(field, payload, size, &span); /* stays empty if the payload was never checked */
	if (field->kind == FIELD_CHARS) {
		write_chars(writer, (struct span){ at, field->size });
	} else if (field->kind == FIELD_STRUCT) {
		text_put(writer.out, "\"", writer.json);
		for (size_t i = 0; i < field->size; i++)
			text_printf(writer.out, "%02x", at[i]);
		text_put(writer.out, "\"", writer.json);
	} else if (field_is_dynamic(field) && field->is_text) {
		write_chars(writer, span);
	} else if (field_is_dynamic(field)) {
		/* Bytes behind the last complete element are ignored. */
		text_put(writer.out, "[", 1);
		for (size_t i = 0; i + field->element <= span.size; i += field->element) {
			text_put(writer.out, ",", i > 0);
			write_number(writer, span.at + i, field->element, field->is_signed);
		}
		text_put(writer.out, "]", 1);
	} else if (is_float(field)) {
		text_put_float(writer.out, get_unsigned(at, field->size), field->size, writer.json);
	} else if (field->is_text && field->is_signed && !writer.json && *at >= ' ' && *at <= '~') {
		/* In JSON a char is always a number, so the field has one type. */
		text_printf(writer.out, "'%c'", *at);
	} else {
		write_number(writer, at, field->size, field->is_signed);
	}
}

/* A payload that is too short has no values. */
static void write_values(struct writer writer, const struct description *description, const uint8_t *payload,
			 size_t size)
{
	const char *between = "";

	for (size_t i = 0; i < description->n_fields && size >= description->size; i++) {
		const struct field *field = &description->field[i];

		text_printf(writer.out, writer.json ? "%s\"%.*s\":" : "%s%.*s=", between, (int)field->name_length,
			    field->name);
		write_value(writer, field, payload, size);
		between = writer.json ? "," : " ";
	}
}

void record_to_text(const struct description *description, const void *payload, size_t size, struct text *out)
{
	if (event_header_is(description) && size >= description->size)
		event_header_to_text(payload, size, out);
	else
		write_values((struct writer){ out, false }, description, payload, size);
}

void record_to_json(const struct description *description, const void *payload, size_t size, struct text *out)
{
	if (event_header_is(description) && size >= description->size) {
		event_header_to_json(payload, size, out);
		return;
	}
	text_put(out, "{", 1);
	write_values((struct writer){ out, true }, description, payload, size);
	text_put(out, "}", 1);
}

struct builder {
	const struct description *description;
	uint8_t *payload;
	size_t size; /* so far: dynamic data is added at the end */
	size_t capacity;
	struct text *why;
};

/* The value behind "NAME=", or NULL if the assignment is to another field. */
static const char *assigned_value(const char *assignment, const struct field *field)
{
	if (strncmp(assignment, field->name, field->name_length) != 0 || assignment[field->name_length] != '=')
		return NULL;
	return assignment + field->name_length + 1;
}

static const char *find_assigned(const char *const *assignments, size_t n, const struct field *field)
{
	const char *value = NULL;

	for (size_t i = 0; i < n && !value; i++)
		value = assigned_value(assignments[i], field);
	return value;
}

static int refuse_assignment(struct builder *builder, const char *assignment, size_t length, const char *say)
{
	text_put(builder->why, "'", 1);
	text_excerpt(builder->why, assignment, length);
	text_printf(builder->why, "' %s", say);
	return REFUSAL_BAD_DESCRIPTION;
}

static int check_assignments(struct builder *builder, const char *const *assignments, size_t n)
{
	const struct description *description = builder->description;

	for (size_t i = 0; i < n; i++) {
		const size_t length = strcspn(assignments[i], "="), whole = strlen(assignments[i]);
		size_t field = 0;

		if (length == whole)
			return refuse_assignment(builder, assignments[i], whole, "has no value; write FIELD=VALUE");
		while (field < description->n_fields && !assigned_value(assignments[i], &description->field[field]))
			field++;
		if (field == description->n_fields) {
			refuse_assignment(builder, assignments[i], length, "is not a field; this event has ");
			text_put(builder->why, "none", field == 0 ? 4 : 0);
			for (size_t j = 0; j < field; j++)
				text_printf(builder->why, "%s%.*s", j > 0 ? ", " : "",
					    (int)description->field[j].name_length, description->field[j].name);
			return REFUSAL_BAD_DESCRIPTION;
		}
		if (find_assigned(assignments, i, &description->field[field]))
			return refuse_assignment(builder, assignments[i], whole, "is the second value of this field");
	}
	return 0;
}

/* "status=70000: u16 takes 0 to 65535" */
_printf_(4, 5) static int refuse_value(struct builder *builder, const struct field *field, const char *value,
				       const char *takes, ...)
{
	char range[128];
	va_list arguments;

	va_start(arguments, takes);
	vsnprintf(range, sizeof(range), takes, arguments);
	va_end(arguments);
	text_printf(builder->why, "%.*s=", (int)MIN(field->name_length, (size_t)TEXT_EXCERPT_MAX), field->name);
	text_excerpt(builder->why, value, strlen(value));
	text_printf(builder->why, ": %.*s takes %s", (int)MIN(field->type_length, (size_t)TEXT_EXCERPT_MAX),
		    field->type, range);
	return REFUSAL_BAD_DESCRIPTION;
}

static int set_float(struct builder *builder, const struct field *field, const char *value)
{
	char *end;
	const double wide = strtod(value, &end);
	const float narrow = (float)wide;

	if (end == value || *end != '\0' || isspace((unsigned char)*value))
		return refuse_value(builder, field, value, "a number such as 0.5 or 1e9");
	if (field->size == sizeof(wide))
		memcpy(builder->payload + field->offset, &wide, sizeof(wide));
	else
		memcpy(builder->payload + field->offset, &narrow, sizeof(narrow));
	return 0;
}

static int set_integer(struct builder *builder, const struct field *field, const char *value)
{
	const uint64_t maximum = UINT64_MAX >> (64 - 8 * field->size + (field->is_signed ? 1 : 0));
	const long long minimum = field->is_signed ? -(long long)maximum - 1 : 0;
	const char *or_character = field->size == 1 ? ", or a character in single quotes" : "";
	const bool negative = *value == '-';
	const char *digits = value + negative;
	uint64_t magnitude;
	char *end;

	if (field->size == 1 && strlen(value) == 3 && value[0] == '\'' && value[2] == '\'') {
		builder->payload[field->offset] = (uint8_t)value[1];
		return 0;
	}
	errno = 0;
	/* strtoull() skips blanks and accepts signs as well. */
	magnitude = strtoull(digits, &end, 0);
	if (*digits < '0' || *digits > '9' || *end != '\0')
		return refuse_value(builder, field, value, "a number (0x: hexadecimal, 0: octal) from %lld to %llu%s",
				    minimum, (unsigned long long)maximum, or_character);
	if (errno != 0 || magnitude > (negative ? -(uint64_t)minimum : maximum))
		return refuse_value(builder, field, value, "%lld to %llu%s", minimum, (unsigned long long)maximum,
				    or_character);
	magnitude = negative ? -magnitude : magnitude;
	memcpy(builder->payload + field->offset, low_bytes(&magnitude, field->size), field->size);
	return 0;
}

static bool is_hex(const char *text)
{
	return text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
}

/* `text` is_hex(), with an even number of digits. */
static void decode_hex(uint8_t *to, const char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (; *text; text += 2)
		*to++ = (uint8_t)((strchr(digits, tolower((unsigned char)text[0])) - digits) << 4 |
				  (strchr(digits, tolower((unsigned char)text[1])) - digits));
}

/* Makes room at the end for a dynamic field's data, and sets the u32 with its place. */
static int add_data(struct builder *builder, const struct field *field, const char *value, size_t length)
{
	size_t offset = ENTRY_HEADER + builder->size;
	uint32_t location;

	if (field->kind == FIELD_REL_LOC)
		offset -= ENTRY_HEADER + field->offset + sizeof(location);
	if (offset > UINT16_MAX || length > UINT16_MAX)
		return refuse_value(builder, field, value, "at most %d bytes, and not further behind than that",
				    UINT16_MAX);
	if (length > builder->capacity - builder->size)
		return -ENOSPC;
	location = (uint32_t)(length << 16 | offset);
	memcpy(builder->payload + field->offset, &location, sizeof(location));
	builder->size += length;
	return 0;
}

/* "[1,-2,0x3]", each element like a field of its own. */
static int set_list(struct builder *builder, const struct field *field, const char *list)
{
	struct field element = *field;
	size_t length = !streq(list, "[]");
	int r;

	for (const char *at = list; *at; at++)
		length += *at == ',';
	element.offset = (uint32_t)builder->size;
	element.size = field->element;
	r = add_data(builder, field, list, length * field->element);
	for (size_t i = 0; r == 0 && i < length; i++, element.offset += element.size) {
		size_t number_length = strcspn(++list, ",]");
		char number[NUMBER_MAX + 1];

		/* Longer text is no number. */
		snprintf(number, sizeof(number), "%s%.*s", number_length > NUMBER_MAX ? "?" : "", (int)number_length,
			 list);
		r = set_integer(builder, &element, number);
		list += number_length;
	}
	return r;
}

static int set_dynamic(struct builder *builder, const struct field *field, const char *value)
{
	const size_t given = strlen(value), length = field->is_text ? given + 1 : given / 2;
	uint8_t *data = builder->payload + builder->size;
	int r;

	if (!field->is_text && given >= 2 && value[0] == '[' && strcspn(value + 1, "[]") == given - 2 &&
	    value[given - 1] == ']')
		return set_list(builder, field, value);
	if (!field->is_text && (!is_hex(value) || given % (2 * (size_t)field->element) != 0))
		return refuse_value(builder, field, value,
				    "a list as [1,2,3], or hexadecimal digits, %u for each element",
				    2 * field->element);
	r = add_data(builder, field, value, length);
	if (r != 0)
		return r;
	if (field->is_text)
		memcpy(data, value, length);
	else
		decode_hex(data, value);
	return 0;
}

/* Sets a dynamic field without a value, too, since char data must have its NUL. Others stay zero. */
static int set_field(struct builder *builder, const struct field *field, const char *value)
{
	const size_t length = value ? strlen(value) : 0;

	if (field_is_dynamic(field))
		return set_dynamic(builder, field, value ? value : "");
	if (!value)
		return 0;
	if (field->kind == FIELD_CHARS) {
		if (length > field->size)
			return refuse_value(builder, field, value, "%u bytes, not %zu", field->size, length);
		memcpy(builder->payload + field->offset, value, length);
		return 0;
	}
	if (field->kind == FIELD_STRUCT) {
		if (!is_hex(value) || length != 2 * (size_t)field->size)
			return refuse_value(builder, field, value, "%u hexadecimal digits", 2 * field->size);
		decode_hex(builder->payload + field->offset, value);
		return 0;
	}
	return is_float(field) ? set_float(builder, field, value) : set_integer(builder, field, value);
}

int record_build(const struct description *description, const char *const *assignments, size_t n, void *buffer,
		 size_t capacity, size_t *ret_size, struct text *why)
{
	struct builder builder = { description, buffer, description->size, capacity, why };
	int r = check_assignments(&builder, assignments, n);

	if (r == 0 && description->size > capacity)
		r = -ENOSPC;
	if (r == 0 && description->size > 0)
		memset(buffer, 0, description->size);
	for (size_t i = 0; r == 0 && i < description->n_fields; i++) {
		const struct field *field = &description->field[i];

		r = set_field(&builder, field, find_assigned(assignments, n, field));
	}
	if (r == 0)
		*ret_size = builder.size;
	return r;
}
