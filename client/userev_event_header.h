/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef USEREV_EVENT_HEADER_H
#define USEREV_EVENT_HEADER_H

/*
 * Events in the EventHeader format, which readers of LinuxTracepoints and OpenTelemetry decode: the record itself has the event's name and
 * the names and types of its fields. Many events share one tracepoint, PROVIDER_L<level>K<keyword>, and are switched on together.
 *
 *	USEREV_EVENT_HEADER(PROVIDER, NAME, LEVEL, KEYWORD, FIELD…);
 *
 * declares the event NAME of the tracepoint PROVIDER_LlevelKkeyword. LEVEL is 1 (critical), 2 (error), 3 (warning), 4 (information) or
 * 5 (verbose). KEYWORD is a set of bits with meanings of the provider's own, in hexadecimal digits without 0x. The fields are those of
 * USEREV_EVENT(); a (chars, x, N) is written up to its end, and a (struct, TAG, x, SIZE) as bytes.
 *
 *	userev_emit(PROVIDER_NAME, ARGUMENT…);
 *
 * writes a record, and userev_on() and USEREV_EVENT_OF() are those of userev_event.h, too.
 *
 *	userev_emit_activity(PROVIDER_NAME, OPCODE, ACTIVITY, PARENT, ARGUMENT…);
 *
 * writes a record that belongs to an activity: OPCODE is USEREV_ACTIVITY_START, USEREV_ACTIVITY_STOP or 0 between them. ACTIVITY is
 * the address of its 16 bytes, PARENT of those of the activity around it, or NULL.
 */

#include "userev.h"

enum { USEREV_ACTIVITY_START = 1, USEREV_ACTIVITY_STOP = 2 };

/* 64-bit pointers, byte order, and an extension behind the header, in LinuxTracepoints' numbers. */
#define USEREV_EH_FLAGS_ (4 | (sizeof(void *) == 8 ? 1 : 0) | (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 2 : 0))
#define USEREV_EH_MORE_	 0x8000

/* The header, the activity and the metadata. */
USEREV_INLINE_ void userev_put_header_(struct userev_record_ *record, unsigned level, unsigned opcode,
				       const void *activity, const void *parent, const char *metadata, size_t size)
{
	const unsigned char header[8] = {
		USEREV_EH_FLAGS_, 0, 0, 0, 0, 0, (unsigned char)opcode, (unsigned char)level
	};
	const uint16_t activity_head[] = { (uint16_t)(parent ? 32 : 16), 2 | USEREV_EH_MORE_ };
	const uint16_t metadata_head[] = { (uint16_t)size, 1 };

	userev_put_number_(record, header, sizeof(header));
	if (activity) {
		userev_put_number_(record, activity_head, sizeof(activity_head));
		userev_put_number_(record, activity, 16);
		if (parent)
			userev_put_number_(record, parent, 16);
	}
	userev_put_number_(record, metadata_head, sizeof(metadata_head));
	userev_put_bytes_(record, metadata, size);
}
#define USEREV_EH_FIXED_ (8 + 4 + 32 + 4)

/* A u16 with the length of the bytes, then these. More than it can hold would not fit in a record. */
USEREV_INLINE_ void userev_put_counted_(struct userev_record_ *record, const void *base, size_t length)
{
	const uint16_t count = (uint16_t)(length < 0xffff ? length : 0xffff);

	userev_put_number_(record, &count, sizeof(count));
	userev_put_bytes_(record, base, length);
}

/* clang-format off */

/* --- for each kind of field: its definition in the metadata, its value, and the room and the pieces that the value takes --- */

#define USEREV_EH_CODE_uint8_t "\2"
#define USEREV_EH_CODE_uint16_t "\3"
#define USEREV_EH_CODE_uint32_t "\4"
#define USEREV_EH_CODE_uint64_t "\5"
#define USEREV_EH_CODE_int8_t "\202\2"
#define USEREV_EH_CODE_int16_t "\203\2"
#define USEREV_EH_CODE_int32_t "\204\2"
#define USEREV_EH_CODE_int64_t "\205\2"
#define USEREV_EH_CODE_float "\204\10"
#define USEREV_EH_CODE_double "\205\10"

#define USEREV_NUMBER_AS_EH_META(type, text, called, name) #name "\0" USEREV_EH_CODE_##type
#define USEREV_NUMBER_AS_EH_PUT(type, text, called, name) userev_put_number_(&userev_record, &name##_, sizeof(name##_));
#define USEREV_NUMBER_AS_ARGUMENT(type, text, called, name) name##_
#define USEREV_NUMBER_AS_EH_ROOM(type, text, called, name) +sizeof(type)
#define USEREV_NUMBER_AS_EH_PIECES(type, text, called, name)

#define USEREV_EH_CODE_chars "\12"
#define USEREV_EH_CODE_struct "\15"
#define USEREV_EH_CODE_string "\7"
#define USEREV_EH_CODE_bytes "\15"
#define USEREV_EH_LENGTH_chars(text, size) userev_chars_length_(text, size)
#define USEREV_EH_LENGTH_struct(base, size) size

#define USEREV_BLOCK_AS_EH_META(kind, type, text, is_right, sentence, name, size) #name "\0" USEREV_EH_CODE_##kind
#define USEREV_BLOCK_AS_EH_PUT(kind, type, text, is_right, sentence, name, size) \
	userev_put_counted_(&userev_record, name##_, USEREV_EH_LENGTH_##kind(name##_, size));
#define USEREV_BLOCK_AS_ARGUMENT(kind, type, text, is_right, sentence, name, size) name##_
#define USEREV_BLOCK_AS_EH_ROOM(kind, type, text, is_right, sentence, name, size) +sizeof(uint16_t)
#define USEREV_BLOCK_AS_EH_PIECES(kind, type, text, is_right, sentence, name, size) +2

#define USEREV_EH_PUT_string(data, length) userev_put_bytes_(&userev_record, data, length);
#define USEREV_EH_PUT_bytes(data, length) userev_put_counted_(&userev_record, data, length);
#define USEREV_EH_ARGUMENT_string(name) name##_
#define USEREV_EH_ARGUMENT_bytes(name) name##_, name##_length_
#define USEREV_EH_ROOM_string
#define USEREV_EH_ROOM_bytes +sizeof(uint16_t)

#define USEREV_BEHIND_AS_EH_META(kind, type, parameters, literals, data, length, name) #name "\0" USEREV_EH_CODE_##kind
#define USEREV_BEHIND_AS_EH_PUT(kind, type, parameters, literals, data, length, name) \
	USEREV_EH_PUT_##kind(userev_data_##name, userev_length_##name)
#define USEREV_BEHIND_AS_ARGUMENT(kind, type, parameters, literals, data, length, name) USEREV_EH_ARGUMENT_##kind(name)
#define USEREV_BEHIND_AS_EH_ROOM(kind, type, parameters, literals, data, length, name) USEREV_EH_ROOM_##kind
#define USEREV_BEHIND_AS_EH_PIECES(kind, type, parameters, literals, data, length, name) +2

#define USEREV_EVENT_HEADER(...) USEREV_PASTE_(USEREV_EH_WITH_, USEREV_EH_FIELDS_(__VA_ARGS__))(__VA_ARGS__)
/* Without the provider there are three arguments before the fields, as USEREV_FIELDS_() expects. */
#define USEREV_EH_FIELDS_(provider, ...) USEREV_FIELDS_(__VA_ARGS__)
#define USEREV_EH_WITH_NAME_MISSING(...) \
	USEREV_ASSERT_(0, "usage: USEREV_EVENT_HEADER(PROVIDER, NAME, LEVEL, KEYWORD, FIELD...)")
#define USEREV_EH_WITH_TOO_MANY_FIELDS(...) USEREV_ASSERT_(0, "an event has at most 16 fields")
#define USEREV_EH_WITH_NO(provider, name, level, keyword) \
	USEREV_EH_DECLARE_(provider##_##name, #provider "_L" #level "K" #keyword, level, 0x##keyword##ull) \
	static __attribute__((__cold__, __noinline__, __unused__)) void userev_emit_activity_##provider##_##name( \
		USEREV_EH_PARAMETERS_) \
	{ \
		USEREV_EH_BEGIN_(#name "\0", level, 0, 0) \
		userev_end_record_(&userev_record, &userev_event_##provider##_##name); \
	} \
	USEREV_INLINE_ void userev_emit_##provider##_##name(void) \
	{ \
		userev_emit_activity_##provider##_##name(0, 0, 0); \
	} \
	USEREV_EH_SHORT_ENOUGH_(#provider "_L" #level "K" #keyword)
#define USEREV_EH_WITH_SOME(provider, name, level, keyword, ...) \
	USEREV_EH_DECLARE_(provider##_##name, #provider "_L" #level "K" #keyword, level, 0x##keyword##ull) \
	USEREV_EH_WITH_FIELDS_(provider##_##name, #name "\0", level, USEREV_COUNT_(0, provider, name, __VA_ARGS__), __VA_ARGS__) \
	USEREV_EH_SHORT_ENOUGH_(#provider "_L" #level "K" #keyword)
#define USEREV_EH_WITH_FIELDS_(id, text, level, count, ...) \
	USEREV_EACH_(count, USEREV_KNOWN_, , __VA_ARGS__) \
	USEREV_QUIETLY_ void userev_literals_##id(USEREV_LIST_(count, USEREV_FIELD_, AS_LITERAL, __VA_ARGS__)) \
		USEREV_EACH_(count, USEREV_FIELD_, AS_FITS, __VA_ARGS__); USEREV_AS_BEFORE_ \
	static __attribute__((__cold__, __noinline__, __unused__)) void userev_emit_activity_##id( \
		USEREV_EH_PARAMETERS_, USEREV_LIST_(count, USEREV_FIELD_, AS_PARAMETER, __VA_ARGS__)) \
	{ \
		USEREV_EH_BEGIN_(text USEREV_EACH_(count, USEREV_FIELD_, AS_EH_META, __VA_ARGS__), level, \
				 0 USEREV_EACH_(count, USEREV_FIELD_, AS_EH_ROOM, __VA_ARGS__), \
				 0 USEREV_EACH_(count, USEREV_FIELD_, AS_EH_PIECES, __VA_ARGS__)) \
		USEREV_EACH_(count, USEREV_FIELD_, AS_CHECK, __VA_ARGS__) \
		USEREV_EACH_(count, USEREV_FIELD_, AS_EH_PUT, __VA_ARGS__) \
		userev_end_record_(&userev_record, &userev_event_##id); \
	} \
	USEREV_INLINE_ void userev_emit_##id(USEREV_LIST_(count, USEREV_FIELD_, AS_PARAMETER, __VA_ARGS__)) \
	{ \
		userev_emit_activity_##id(0, 0, 0, USEREV_LIST_(count, USEREV_FIELD_, AS_ARGUMENT, __VA_ARGS__)); \
	}

#define USEREV_EH_PARAMETERS_ unsigned userev_opcode, const void *userev_activity, const void *userev_parent
#define USEREV_EH_BEGIN_(text, level, room, more_pieces) \
	static const char userev_metadata[] = text; \
	unsigned char userev_buffer[USEREV_BUFFER_]; \
	struct iovec userev_pieces[3 + (more_pieces)]; \
	struct userev_record_ userev_record = { \
		userev_buffer, userev_pieces, 0, 4, 0, USEREV_BUFFER_ - 4 - USEREV_EH_FIXED_ - (room), 0, 0 }; \
	userev_put_header_(&userev_record, level, userev_opcode, userev_activity, userev_parent, userev_metadata, \
			   sizeof(userev_metadata) - 1);
#define USEREV_EH_DECLARE_(id, tracepoint, level, keyword) \
	USEREV_ASSERT_((level) >= 1 && (level) <= 5, "the level of an event is 1 to 5"); \
	USEREV_ASSERT_((keyword) >= 0, "a keyword is hexadecimal digits"); \
	USEREV_DECLARE_(0, id, tracepoint, tracepoint " u8 eventheader_flags; u8 version; u16 id; u16 tag; u8 opcode; u8 level")
#define USEREV_EH_SHORT_ENOUGH_(tracepoint) \
	USEREV_ASSERT_(sizeof(tracepoint) <= 201, "a tracepoint's name has at most 200 bytes")

#define userev_emit_activity(event, ...) \
	USEREV_EMIT_(event, userev_emit_activity_##event(__VA_ARGS__), )

/* clang-format on */

#endif
