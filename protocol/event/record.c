/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A dynamic field is a u32 in the fixed part: length << 16 | offset. The kernel (user_event_validate(), the same in 6.1
 * and 6.12) looks at it when the payload already stands behind the entry's common fields, struct trace_entry, eight
 * bytes. The offset of a __data_loc counts from the start of that *entry*, so a writer adds eight to what it counts in its
 * own payload; that of a __rel_loc counts from the end of the u32. The kernel wants the end of the data inside the entry
 * and, where the type has "char" in it, the byte before that end to be NUL, also where the length is 0.
 *
 * So a __rel_loc char[] of 0 is good (the byte before its end is the u32's own last one), and a __data_loc may point at the
 * common fields. Those we don't have, and what the byte before the entry is nobody knows: both are refused here.
 *
 * Everything below counts in the entry, as the kernel does, until it takes a pointer.
 */

#include "protocol/event/record.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "protocol/refusal.h"

enum { ENTRY_HEADER = 8 };

struct span {
	const uint8_t *at;
	size_t size;
};

static uint32_t get_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static bool is_dynamic(const struct field *field)
{
	return field->kind == FIELD_DATA_LOC || field->kind == FIELD_REL_LOC;
}

/* The bytes of a dynamic field, or an enum record_fault. The fixed part must be there. */
static int locate(const struct field *field, const uint8_t *payload, size_t size, struct span *ret)
{
	uint32_t location = get_u32(payload + field->offset);
	size_t origin = field->kind == FIELD_REL_LOC ? ENTRY_HEADER + field->offset + sizeof(location) : 0;
	size_t start = origin + (location & 0xffff);
	size_t end = start + (location >> 16);

	if (end > ENTRY_HEADER + size)
		return RECORD_OUTSIDE;
	if (start < ENTRY_HEADER && end > start)
		return RECORD_OUTSIDE;
	if (field->is_text && (end <= ENTRY_HEADER || payload[end - ENTRY_HEADER - 1] != '\0'))
		return RECORD_NOT_TERMINATED;
	*ret = (struct span){ payload, 0 };
	if (end > start)
		*ret = (struct span){ payload + (start - ENTRY_HEADER), end - start };
	return RECORD_OK;
}

int record_check(const struct description *description, const void *payload, size_t size)
{
	struct span span;
	int fault = size < description->size ? RECORD_SHORT : RECORD_OK;

	for (size_t i = 0; fault == RECORD_OK && i < description->n_fields; i++)
		if (is_dynamic(&description->field[i]))
			fault = locate(&description->field[i], payload, size, &span);
	return fault;
}

/* Either of two notations for the same values. */
struct writer {
	struct text *out;
	bool json;
};

/* What the description calls text ends at its first NUL, for us as for the kernel's own %s. */
static struct span until_nul(struct span span)
{
	const uint8_t *nul = span.size > 0 ? memchr(span.at, '\0', span.size) : NULL;

	if (nul)
		span.size = (size_t)(nul - span.at);
	return span;
}

/* A backslash, too, gets one in front: what looks like an escape is one. */
static void put_quoted(struct text *out, const char *from, size_t length)
{
	size_t begin = 0;

	text_put(out, "\"", 1);
	for (size_t at = 0; at < length; at++) {
		if (from[at] != '"' && from[at] != '\\')
			continue;
		text_safe(out, from + begin, at - begin);
		text_put(out, "\\", 1);
		begin = at;
	}
	text_safe(out, from + begin, length - begin);
	text_put(out, "\"", 1);
}

static void write_text(struct writer writer, struct span span)
{
	span = until_nul(span);
	if (writer.json)
		text_json_string(writer.out, (const char *)span.at, span.size);
	else
		put_quoted(writer.out, (const char *)span.at, span.size);
}

static void write_hex(struct writer writer, struct span span)
{
	const char *quote = writer.json ? "\"" : "";

	text_printf(writer.out, "%s", quote);
	for (size_t i = 0; i < span.size; i++)
		text_printf(writer.out, "%02x", span.at[i]);
	text_printf(writer.out, "%s", quote);
}

static uint64_t get_unsigned(const uint8_t *at, size_t size)
{
	uint16_t value16;
	uint32_t value32;
	uint64_t value64;

	switch (size) {
	case 1:
		return *at;
	case 2:
		memcpy(&value16, at, sizeof(value16));
		return value16;
	case 4:
		memcpy(&value32, at, sizeof(value32));
		return value32;
	default:
		memcpy(&value64, at, sizeof(value64));
		return value64;
	}
}

static int64_t get_signed(const uint8_t *at, size_t size)
{
	unsigned unused_bits = 64 - 8 * (unsigned)size;

	return (int64_t)(get_unsigned(at, size) << unused_bits) >> unused_bits;
}

static void write_number(struct writer writer, const uint8_t *at, size_t size, bool is_signed)
{
	if (is_signed)
		text_printf(writer.out, "%lld", (long long)get_signed(at, size));
	else
		text_printf(writer.out, "%llu", (unsigned long long)get_unsigned(at, size));
}

static bool ends_with(const struct field *field, const char *end)
{
	size_t length = strlen(end);

	return field->name_length > length && memcmp(field->name + field->name_length - length, end, length) == 0;
}

/* The kernel has no floats. USEREV_EVENT() and its like register their bits, under a name that says so. */
static bool is_float(const struct field *field)
{
	return field->kind == FIELD_UNSIGNED && ((field->size == sizeof(float) && ends_with(field, "_f32")) ||
						 (field->size == sizeof(double) && ends_with(field, "_f64")));
}

static double get_float(const uint8_t *at, size_t size)
{
	double wide;
	float narrow;

	if (size == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return (double)narrow;
}

/* As few digits as there have to be to read the same again. */
static void write_float(struct writer writer, const uint8_t *at, size_t size)
{
	const double value = get_float(at, size);
	char digits[32] = "";

	if (!__builtin_isfinite(value)) {
		const char *name = __builtin_isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";

		text_printf(writer.out, writer.json ? "\"%s\"" : "%s", name);
		return;
	}
	for (int n = 6; n <= 17; n++) {
		snprintf(digits, sizeof(digits), "%.*g", n, value);
		if (size == sizeof(value) ? strtod(digits, NULL) == value : strtof(digits, NULL) == (float)value)
			break;
	}
	text_printf(writer.out, "%s", digits);
}

/* In JSON a char is always a number: a reader wants one type for one field. */
static void write_integer(struct writer writer, const struct field *field, const uint8_t *at)
{
	bool is_char = field->is_text && field->is_signed;

	if (is_float(field))
		write_float(writer, at, field->size);
	else if (is_char && !writer.json && *at >= ' ' && *at <= '~')
		text_printf(writer.out, "'%c'", *at);
	else
		write_number(writer, at, field->size, field->is_signed);
}

/* Bytes behind the last whole element are nobody's. */
static void write_array(struct writer writer, const struct field *field, struct span span)
{
	text_put(writer.out, "[", 1);
	for (size_t at = 0; at + field->element <= span.size; at += field->element) {
		text_printf(writer.out, "%s", at > 0 ? "," : "");
		write_number(writer, span.at + at, field->element, field->is_signed);
	}
	text_put(writer.out, "]", 1);
}

static void write_dynamic(struct writer writer, const struct field *field, const uint8_t *payload, size_t size)
{
	struct span span = { payload, 0 };

	locate(field, payload, size, &span); /* leaves it empty where the payload was never checked */
	if (field->is_text)
		write_text(writer, span);
	else
		write_array(writer, field, span);
}

static void write_value(struct writer writer, const struct field *field, const uint8_t *payload, size_t size)
{
	struct span fixed = { payload + field->offset, field->size };

	switch (field->kind) {
	case FIELD_UNSIGNED:
	case FIELD_SIGNED:
		write_integer(writer, field, fixed.at);
		break;
	case FIELD_CHARS:
		write_text(writer, fixed);
		break;
	case FIELD_STRUCT:
		write_hex(writer, fixed);
		break;
	case FIELD_DATA_LOC:
	case FIELD_REL_LOC:
		write_dynamic(writer, field, payload, size);
		break;
	}
}

void record_to_text(const struct description *description, const void *payload, size_t size, struct text *out)
{
	for (size_t i = 0; i < description->n_fields && size >= description->size; i++) {
		const struct field *field = &description->field[i];

		text_printf(out, "%s%.*s=", i > 0 ? " " : "", (int)field->name_length, field->name);
		write_value((struct writer){ out, false }, field, payload, size);
	}
}

void record_to_json(const struct description *description, const void *payload, size_t size, struct text *out)
{
	text_put(out, "{", 1);
	for (size_t i = 0; i < description->n_fields && size >= description->size; i++) {
		const struct field *field = &description->field[i];

		text_printf(out, "%s\"%.*s\":", i > 0 ? "," : "", (int)field->name_length, field->name);
		write_value((struct writer){ out, true }, field, payload, size);
	}
	text_put(out, "}", 1);
}

struct builder {
	const struct description *description;
	uint8_t *payload;
	size_t size; /* so far: dynamic data is added at the end */
	size_t capacity;
	struct text *why;
};

/* Where the value begins, behind "NAME="; NULL where the assignment is another field's. */
static const char *value_of(const char *assignment, const struct field *field)
{
	if (strncmp(assignment, field->name, field->name_length) != 0 || assignment[field->name_length] != '=')
		return NULL;
	return assignment + field->name_length + 1;
}

static const struct field *find_field(const struct description *description, const char *assignment)
{
	for (size_t i = 0; i < description->n_fields; i++)
		if (value_of(assignment, &description->field[i]))
			return &description->field[i];
	return NULL;
}

static const char *find_value(const char *const *assignments, size_t n, const struct field *field)
{
	for (size_t i = 0; i < n; i++) {
		const char *value = value_of(assignments[i], field);

		if (value)
			return value;
	}
	return NULL;
}

static int refuse_name(struct builder *builder, const char *name, size_t length)
{
	const struct description *description = builder->description;
	const char *there_is[] = { "; this event has none", "; there is ", "; there are " };

	text_put(builder->why, "'", 1);
	text_excerpt(builder->why, name, length);
	text_printf(builder->why, "' is not a field%s", there_is[MIN(description->n_fields, (size_t)2)]);
	for (size_t i = 0; i < description->n_fields; i++)
		text_printf(builder->why, "%s%.*s", i > 0 ? ", " : "", (int)description->field[i].name_length,
			    description->field[i].name);
	return REFUSAL_BAD_DESCRIPTION;
}

static int refuse_assignment(struct builder *builder, const char *assignment, const char *say)
{
	text_put(builder->why, "'", 1);
	text_excerpt(builder->why, assignment, strlen(assignment));
	text_printf(builder->why, "' %s", say);
	return REFUSAL_BAD_DESCRIPTION;
}

static int check_names(struct builder *builder, const char *const *assignments, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t length = strcspn(assignments[i], "=");
		const struct field *field = find_field(builder->description, assignments[i]);

		if (assignments[i][length] == '\0')
			return refuse_assignment(builder, assignments[i], "has no value; write FIELD=VALUE");
		if (!field)
			return refuse_name(builder, assignments[i], length);
		if (find_value(assignments, i, field))
			return refuse_assignment(builder, assignments[i], "is the second value of this field");
	}
	return 0;
}

static const char *article(const struct field *field)
{
	bool vowel = field->type[0] == 'i' || strncmp(field->type, "unsigned", 8) == 0;

	return vowel || (field->type[0] == 's' && strchr("1368", field->type[1])) ? "an" : "a";
}

/* "status=70000: a u16 takes ", and what it takes. */
_printf_(4, 5) static int refuse_value(struct builder *builder, const struct field *field, const char *value,
				       const char *takes, ...)
{
	char said[128];
	va_list arguments;

	va_start(arguments, takes);
	vsnprintf(said, sizeof(said), takes, arguments);
	va_end(arguments);
	text_printf(builder->why, "%.*s=", (int)MIN(field->name_length, (size_t)TEXT_EXCERPT_MAX), field->name);
	text_excerpt(builder->why, value, strlen(value));
	text_printf(builder->why, ": %s %.*s takes %s", article(field),
		    (int)MIN(field->type_length, (size_t)TEXT_EXCERPT_MAX), field->type, said);
	return REFUSAL_BAD_DESCRIPTION;
}

enum { NUMBER_MAX = 32 }; /* in a list; the longest has 23 digits, in octal */

struct number {
	uint64_t magnitude;
	bool negative;
};

/* Digits with 0x, 0 or nothing in front, and a minus before that: 0, -EINVAL where it is none, or -ERANGE. */
static int read_number(const char *text, struct number *ret)
{
	char *end;

	ret->negative = *text == '-';
	if (ret->negative)
		text++;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	ret->magnitude = strtoull(text, &end, 0);
	return *end == '\0' ? -errno : -EINVAL;
}

static void put_number(uint8_t *to, size_t size, uint64_t value)
{
	const uint8_t value8 = (uint8_t)value;
	const uint16_t value16 = (uint16_t)value;
	const uint32_t value32 = (uint32_t)value;

	if (size == 1)
		memcpy(to, &value8, size);
	else if (size == 2)
		memcpy(to, &value16, size);
	else if (size == 4)
		memcpy(to, &value32, size);
	else
		memcpy(to, &value, size);
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
	uint64_t maximum = UINT64_MAX >> (64 - 8 * field->size + (field->is_signed ? 1 : 0));
	long long minimum = field->is_signed ? -(long long)maximum - 1 : 0;
	const char *or_character = field->size == 1 ? ", or a character in single quotes" : "";
	struct number number;
	int r;

	if (field->size == 1 && strlen(value) == 3 && value[0] == '\'' && value[2] == '\'') {
		builder->payload[field->offset] = (uint8_t)value[1];
		return 0;
	}
	r = read_number(value, &number);
	if (r == -EINVAL)
		return refuse_value(builder, field, value, "a number (0x: hexadecimal, 0: octal) from %lld to %llu%s",
				    minimum, (unsigned long long)maximum, or_character);
	if (r != 0 || number.magnitude > (number.negative ? -(uint64_t)minimum : maximum))
		return refuse_value(builder, field, value, "%lld to %llu%s", minimum, (unsigned long long)maximum,
				    or_character);
	put_number(builder->payload + field->offset, field->size,
		   number.negative ? -number.magnitude : number.magnitude);
	return 0;
}

static int set_chars(struct builder *builder, const struct field *field, const char *value)
{
	size_t length = strlen(value);

	if (length > field->size)
		return refuse_value(builder, field, value, "%u bytes, not %zu", field->size, length);
	memcpy(builder->payload + field->offset, value, length);
	return 0;
}

/* Of a character that is one. */
static unsigned hex_digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

static bool is_hex(const char *text)
{
	return text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
}

/* `text` is_hex(), and even. */
static void put_hex(uint8_t *to, const char *text)
{
	for (; *text; text += 2)
		*to++ = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
}

static int set_struct(struct builder *builder, const struct field *field, const char *value)
{
	if (!is_hex(value) || strlen(value) != 2 * (size_t)field->size)
		return refuse_value(builder, field, value, "%u hexadecimal digits", 2 * field->size);
	put_hex(builder->payload + field->offset, value);
	return 0;
}

/* Room at the end for a dynamic field's data, and the u32 that says where that is. */
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

static bool is_list(const struct field *field, const char *value)
{
	size_t last = strcspn(value + (value[0] == '['), "[]") + 1;

	return !field->is_text && value[0] == '[' && value[last] == ']' && value[last + 1] == '\0';
}

static size_t list_length(const char *list)
{
	size_t length = list[1] != ']';

	for (; *list; list++)
		length += *list == ',';
	return length;
}

/* "[1,-2,0x3]": each element as a field of its own would take it. */
static int set_list(struct builder *builder, const struct field *field, const char *list)
{
	size_t length = list_length(list);
	struct field element = *field;
	int r;

	element.offset = (uint32_t)builder->size;
	element.size = field->element;
	r = add_data(builder, field, list, length * field->element);
	for (size_t i = 0; r == 0 && i < length; i++, element.offset += element.size) {
		size_t number_length = strcspn(++list, ",]");
		char number[NUMBER_MAX + 1];

		/* What is longer is cut, and then it is no number any more. */
		snprintf(number, sizeof(number), "%s%.*s", number_length > NUMBER_MAX ? "?" : "", (int)number_length,
			 list);
		r = set_integer(builder, &element, number);
		list += number_length;
	}
	return r;
}

static int set_dynamic(struct builder *builder, const struct field *field, const char *value)
{
	size_t length = field->is_text ? strlen(value) + 1 : strlen(value) / 2;
	uint8_t *data = builder->payload + builder->size;
	int r;

	if (is_list(field, value))
		return set_list(builder, field, value);
	if (!field->is_text && (!is_hex(value) || strlen(value) % (2 * (size_t)field->element) != 0))
		return refuse_value(builder, field, value,
				    "a list as [1,2,3], or hexadecimal digits, %u for each element",
				    2 * field->element);
	r = add_data(builder, field, value, length);
	if (r != 0)
		return r;
	if (field->is_text)
		memcpy(data, value, length);
	else
		put_hex(data, value);
	return 0;
}

/* A dynamic field without a value is set too: char data must have its NUL. The others stay zero. */
static int set_field(struct builder *builder, const struct field *field, const char *value)
{
	if (is_dynamic(field))
		return set_dynamic(builder, field, value ? value : "");
	if (!value)
		return 0;
	if (field->kind == FIELD_CHARS)
		return set_chars(builder, field, value);
	if (field->kind == FIELD_STRUCT)
		return set_struct(builder, field, value);
	return is_float(field) ? set_float(builder, field, value) : set_integer(builder, field, value);
}

int record_build(const struct description *description, const char *const *assignments, size_t n, void *buffer,
		 size_t capacity, size_t *ret_size, struct text *why)
{
	struct builder builder = { description, buffer, description->size, capacity, why };
	int r = check_names(&builder, assignments, n);

	if (r == 0 && description->size > capacity)
		r = -ENOSPC;
	if (r == 0 && description->size > 0)
		memset(buffer, 0, description->size);
	for (size_t i = 0; r == 0 && i < description->n_fields; i++) {
		const struct field *field = &description->field[i];

		r = set_field(&builder, field, find_value(assignments, n, field));
	}
	if (r == 0)
		*ret_size = builder.size;
	return r;
}
