/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Entries of a recording between its records: the name and fields of an event, before its first record; the name and tenant of a
 * process, before its first record; the number of records that are missing at a place. So a page can be read with the pages before it
 * alone, and no end has to be written: the recorder may be killed at any time. trace-cmd shows these entries as events.
 */

#include "client/userevctl/record/trace_dat.h"

static const struct {
	unsigned numbers, strings;
} shapes[] = {
	{ 1, 2 }, /* TYPE_EVENT */
	{ 2, 4 }, /* TYPE_WRITER */
	{ 1, 0 }, /* TYPE_LOST */
};

/* A string is 32 bits in the fixed part: length << 16 | offset behind these bits. */
static size_t string_place(unsigned numbers, unsigned i)
{
	return numbers * sizeof(uint64_t) + i * sizeof(uint32_t);
}

size_t note_write(uint16_t type, const struct note *note, uint8_t *buffer, size_t capacity)
{
	const unsigned numbers = shapes[type - TYPE_EVENT].numbers, strings = shapes[type - TYPE_EVENT].strings;
	size_t end = string_place(numbers, strings);

	memcpy(buffer, note->number, numbers * sizeof(uint64_t));
	for (unsigned i = 0; i < strings; i++) {
		const size_t length = strlen(note->string[i]) + 1, place = string_place(numbers, i);
		const uint32_t location = (uint32_t)(length << 16 | (end - place - sizeof(location)));

		if (length > capacity - end)
			return 0;
		memcpy(buffer + place, &location, sizeof(location));
		memcpy(buffer + end, note->string[i], length);
		end += length;
	}
	return end;
}

bool note_read(uint16_t type, const uint8_t *payload, size_t size, struct note *ret)
{
	const unsigned numbers = shapes[type - TYPE_EVENT].numbers, strings = shapes[type - TYPE_EVENT].strings;

	if (size < string_place(numbers, strings))
		return false;
	memcpy(ret->number, payload, numbers * sizeof(uint64_t));
	for (unsigned i = 0; i < strings; i++) {
		const size_t place = string_place(numbers, i);
		uint32_t location;
		size_t start, length;

		memcpy(&location, payload + place, sizeof(location));
		start = place + sizeof(location) + (location & 0xffff);
		length = location >> 16;
		if (start > size || length == 0 || length > size - start || payload[start + length - 1] != '\0')
			return false;
		ret->string[i] = (const char *)payload + start;
	}
	return true;
}
