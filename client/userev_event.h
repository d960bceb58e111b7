/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef USEREV_EVENT_H
#define USEREV_EVENT_H

/*
 * Events declared in one line. They are registered when the program starts, or when the shared library that declares them is
 * loaded. Included by userev.h.
 *
 *	USEREV_EVENT(PROVIDER, NAME, FIELD…);
 *
 * declares, at file scope, the event PROVIDER_NAME with up to 16 fields:
 *
 *	(u8, x) … (u64, x), (s8, x) … (s64, x)	an integer of that many bits
 *	(f32, x), (f64, x)	a float or double: its bits, in a u32 named x_f32 or a u64 named x_f64. Readers of records recognize
 *				these suffixes
 *	(chars, x, N)		char[N]: the first N bytes of a string, padded with zeros; N is a decimal literal
 *	(struct, TAG, x, SIZE)	a struct TAG, passed by address; SIZE is a decimal literal, checked at compile time
 *	(string, x)		a NUL-terminated string of any length; NULL is recorded as "(null)"
 *	(bytes, x)		any bytes; takes two arguments, address and length
 *
 *	userev_emit(PROVIDER_NAME, ARGUMENT…);
 *
 * writes one record. The arguments are evaluated only while the event is enabled. A record that is too big, or that meets a full
 * queue, is lost and counted (userev_lost(NULL)).
 *
 *	if (userev_on(PROVIDER_NAME)) …
 *
 * is userev_enabled() for a declared event. USEREV_EVENT_OF(PROVIDER_NAME) is the event's address, for userev_why() and
 * userev_event_name().
 *
 * The same event may be declared in several places, in several libraries and in a header, with the same fields everywhere.
 * USEREV_EVENT_FLAGS(FLAGS, PROVIDER, NAME, FIELD…) accepts USEREV_PERSIST and USEREV_MULTI_FORMAT.
 *
 * Events are registered by constructors of priority 101, so constructors of later priorities may emit. dlclose() releases the
 * library's events. Link a shared library that contains libuserev.a with -Wl,-z,nodelete.
 */

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A declared event's constants, in read-only memory. */
struct userev_declaration {
	const char *name;
	const char *description;
	uintptr_t flags;
};

/* Called by the macros only. `buffer` and pieces[0] begin with room for the index. */
void userev_load(struct userev_event *first, struct userev_event *end);
void userev_unload(struct userev_event *first, struct userev_event *end);
void userev_write_buffer(const struct userev_event *event, unsigned char *buffer, size_t size);
ssize_t userev_write_record(const struct userev_event *event, const struct iovec *pieces, int n);

/* The section in which the linker collects the declared events of this program or shared library. */
extern struct userev_event __start_userev_events[] __attribute__((__visibility__("hidden")));
extern struct userev_event __stop_userev_events[] __attribute__((__visibility__("hidden")));

#ifdef __cplusplus
}
#define USEREV_ASSERT_ static_assert
#else
#define USEREV_ASSERT_ _Static_assert
#endif

/* Keeps the section under --gc-sections although nothing refers to it. */
#if defined(__has_attribute)
#if __has_attribute(__retain__)
#define USEREV_RETAIN_ , __retain__
#endif
#endif
#ifndef USEREV_RETAIN_
#define USEREV_RETAIN_
#endif

/*
 * A record under construction. Fields that fit are copied into `buffer` behind the index, since the kernel charges a quarter
 * more for a second piece; the others are written from where they are. The compiler evaluates all offsets of fields.
 */
#define USEREV_BUFFER_ 256

struct userev_record_ {
	unsigned char *buffer;
	struct iovec *pieces;
	int n;
	size_t at;    /* bytes used of `buffer` */
	size_t run;   /* start of the current piece in `buffer` */
	size_t left;  /* bytes of `buffer` that neither are used nor belong to numbers */
	size_t place; /* of the next field in the payload */
	size_t end;   /* of the payload so far: strings and bytes follow the fields */
};

#define USEREV_INLINE_ static inline __attribute__((__always_inline__, __unused__))

USEREV_INLINE_ void userev_put_piece_(struct userev_record_ *record, const void *base, size_t length)
{
	record->pieces[record->n].iov_base = (void *)(uintptr_t)base;
	record->pieces[record->n].iov_len = length;
	record->n++;
}

USEREV_INLINE_ void userev_end_run_(struct userev_record_ *record)
{
	if (record->at > record->run)
		userev_put_piece_(record, record->buffer + record->run, record->at - record->run);
	record->run = record->at;
}

USEREV_INLINE_ void userev_end_record_(struct userev_record_ *record, const struct userev_event *event)
{
	if (record->n == 0) {
		userev_write_buffer(event, record->buffer, record->at);
	} else {
		userev_end_run_(record);
		userev_write_record(event, record->pieces, record->n);
	}
}

USEREV_INLINE_ void userev_put_bytes_(struct userev_record_ *record, const void *base, size_t length)
{
	if (length == 0)
		return;
	if (length <= record->left) {
		memcpy(record->buffer + record->at, base, length);
		record->at += length;
		record->left -= length;
	} else {
		userev_end_run_(record);
		userev_put_piece_(record, base, length);
	}
}

USEREV_INLINE_ void userev_put_number_(struct userev_record_ *record, const void *number, size_t size)
{
	memcpy(record->buffer + record->at, number, size);
	record->at += size;
	record->place += size;
}

USEREV_INLINE_ void userev_put_struct_(struct userev_record_ *record, const void *base, size_t size)
{
	userev_put_bytes_(record, base, size);
	record->place += size;
}

/* Up to its NUL, if it has one among the first `size` bytes. */
USEREV_INLINE_ size_t userev_chars_length_(const char *text, size_t size)
{
	const void *nul = memchr(text, 0, size);

	return nul ? (size_t)((const char *)nul - text) : size;
}

USEREV_INLINE_ void userev_put_chars_(struct userev_record_ *record, const char *text, size_t size)
{
	static const char zeros[1024] = { 0 };
	const size_t length = userev_chars_length_(text, size);

	userev_put_bytes_(record, text, length);
	userev_put_bytes_(record, zeros, size - length);
	record->place += size;
}

/* The __rel_loc word of a string or of bytes: length in the upper half, distance from the end of this word in the lower. */
USEREV_INLINE_ void userev_put_place_(struct userev_record_ *record, size_t length)
{
	uint32_t word = (uint32_t)(length << 16 | (record->end - record->place - sizeof(word)));

	userev_put_number_(record, &word, sizeof(word));
	record->end += length;
}

/* clang-format off */

/* --- for each kind of field: its part of the description, of the emitting function, and of their sizes --- */

#define USEREV_FIELD_u8(as, kind, name) USEREV_NUMBER_##as(uint8_t, "u8", #name, name)
#define USEREV_FIELD_u16(as, kind, name) USEREV_NUMBER_##as(uint16_t, "u16", #name, name)
#define USEREV_FIELD_u32(as, kind, name) USEREV_NUMBER_##as(uint32_t, "u32", #name, name)
#define USEREV_FIELD_u64(as, kind, name) USEREV_NUMBER_##as(uint64_t, "u64", #name, name)
#define USEREV_FIELD_s8(as, kind, name) USEREV_NUMBER_##as(int8_t, "s8", #name, name)
#define USEREV_FIELD_s16(as, kind, name) USEREV_NUMBER_##as(int16_t, "s16", #name, name)
#define USEREV_FIELD_s32(as, kind, name) USEREV_NUMBER_##as(int32_t, "s32", #name, name)
#define USEREV_FIELD_s64(as, kind, name) USEREV_NUMBER_##as(int64_t, "s64", #name, name)
#define USEREV_FIELD_f32(as, kind, name) USEREV_NUMBER_##as(float, "u32", #name "_f32", name)
#define USEREV_FIELD_f64(as, kind, name) USEREV_NUMBER_##as(double, "u64", #name "_f64", name)
#define USEREV_FIELD_chars(as, kind, name, size) \
	USEREV_BLOCK_##as(chars, char, "char[" USEREV_STRING_(size) "] " #name, \
			  size <= 1024, "a char array has at most 1024 bytes", name, size)
#define USEREV_FIELD_struct(as, kind, tag, name, size) \
	USEREV_BLOCK_##as(struct, struct tag, "struct " #tag " " #name " " USEREV_STRING_(size), \
			  sizeof(struct tag) == size, "sizeof(struct " #tag ") is not " #size, name, size)
#define USEREV_FIELD_string(as, kind, name) \
	USEREV_BEHIND_##as(string, "char", (const char *name##_), (const void *name##_), \
			   name##_ ? name##_ : "(null)", strlen((const char *)userev_data_##name) + 1, name)
#define USEREV_FIELD_bytes(as, kind, name) \
	USEREV_BEHIND_##as(bytes, "u8", (const void *name##_, size_t name##_length_), \
			   (const void *name##_, size_t name##_length_), name##_, name##_length_, name)

#define USEREV_NUMBER_AS_PROBE(type, text, called, name) , 1
#define USEREV_NUMBER_AS_DESCRIPTION(type, text, called, name) " " text " " called ";"
#define USEREV_NUMBER_AS_PARAMETER(type, text, called, name) type name##_
#define USEREV_NUMBER_AS_SIZE(type, text, called, name) +sizeof(type)
#define USEREV_NUMBER_AS_FIXED(type, text, called, name) +sizeof(type)
#define USEREV_NUMBER_AS_PIECES(type, text, called, name)
#define USEREV_NUMBER_AS_CHECK(type, text, called, name)
#define USEREV_NUMBER_AS_PUT(type, text, called, name) userev_put_number_(&userev_record, &name##_, sizeof(name##_));
#define USEREV_NUMBER_AS_DATA(type, text, called, name)
#define USEREV_NUMBER_AS_LITERAL(type, text, called, name) double name##_
#define USEREV_NUMBER_AS_FITS(type, text, called, name) \
	USEREV_WARN_IF_(USEREV_IS_NO_(type, name##_), "the field " #name " is a " text ": this value does not fit")

/* Bytes among the fields. */
#define USEREV_BLOCK_AS_PROBE(kind, type, text, is_right, sentence, name, size) , 1
#define USEREV_BLOCK_AS_DESCRIPTION(kind, type, text, is_right, sentence, name, size) " " text ";"
#define USEREV_BLOCK_AS_PARAMETER(kind, type, text, is_right, sentence, name, size) const type *name##_
#define USEREV_BLOCK_AS_SIZE(kind, type, text, is_right, sentence, name, size) USEREV_DECIMAL_(size)
#define USEREV_BLOCK_AS_FIXED(kind, type, text, is_right, sentence, name, size)
#define USEREV_BLOCK_AS_PIECES(kind, type, text, is_right, sentence, name, size) +3
#define USEREV_BLOCK_AS_CHECK(kind, type, text, is_right, sentence, name, size) USEREV_ASSERT_(is_right, sentence);
#define USEREV_BLOCK_AS_PUT(kind, type, text, is_right, sentence, name, size) \
	userev_put_##kind##_(&userev_record, name##_, size);
#define USEREV_BLOCK_AS_DATA(kind, type, text, is_right, sentence, name, size)
#define USEREV_BLOCK_AS_LITERAL(kind, type, text, is_right, sentence, name, size) const void *name##_
#define USEREV_BLOCK_AS_FITS(kind, type, text, is_right, sentence, name, size)

/* A place among the fields, of bytes behind them. */
#define USEREV_BEHIND_AS_PROBE(kind, type, parameters, literals, data, length, name) , 1
#define USEREV_BEHIND_AS_DESCRIPTION(kind, type, parameters, literals, data, length, name) \
	" __rel_loc " type "[] " #name ";"
#define USEREV_BEHIND_AS_PARAMETER(kind, type, parameters, literals, data, length, name) USEREV_OPEN_ parameters
#define USEREV_BEHIND_AS_SIZE(kind, type, parameters, literals, data, length, name) +sizeof(uint32_t)
#define USEREV_BEHIND_AS_FIXED(kind, type, parameters, literals, data, length, name) +sizeof(uint32_t)
#define USEREV_BEHIND_AS_PIECES(kind, type, parameters, literals, data, length, name) +1
#define USEREV_BEHIND_AS_CHECK(kind, type, parameters, literals, data, length, name) \
	const void *userev_data_##name = data; \
	const size_t userev_length_##name = length;
#define USEREV_BEHIND_AS_PUT(kind, type, parameters, literals, data, length, name) \
	userev_put_place_(&userev_record, userev_length_##name);
#define USEREV_BEHIND_AS_DATA(kind, type, parameters, literals, data, length, name) \
	userev_put_bytes_(&userev_record, userev_data_##name, userev_length_##name);
#define USEREV_BEHIND_AS_LITERAL(kind, type, parameters, literals, data, length, name) USEREV_OPEN_ literals
#define USEREV_BEHIND_AS_FITS(kind, type, parameters, literals, data, length, name)

/* --- iteration over the fields --- */

#define USEREV_PASTE_(a, b) USEREV_PASTE_NOW_(a, b)
#define USEREV_PASTE_NOW_(a, b) a##b
#define USEREV_STRING_(text) USEREV_STRING_NOW_(text)
#define USEREV_STRING_NOW_(text) #text
/* The size becomes a part of the description, so it has to be a literal: pasting a 1 in front fails for anything else. */
#define USEREV_DECIMAL_(size) USEREV_DECIMAL_NOW_(size)
#define USEREV_DECIMAL_NOW_(size) +(size) + 0 * (1##size)

#define USEREV_KIND_(kind, ...) kind
#define USEREV_OPEN_(...) __VA_ARGS__
#define USEREV_CALL_(macro, ...) macro(__VA_ARGS__)
#define USEREV_FIELD_(as, field) \
	USEREV_CALL_(USEREV_CALL_(USEREV_MACRO_, USEREV_IS_KIND_ field, USEREV_KIND_ field), as, USEREV_OPEN_ field)

/* An unknown kind fails one assertion and is otherwise treated as u64, so that no further errors bury that one. */
#define USEREV_FIELD_unknown_(as, kind, ...) USEREV_UNKNOWN_(as, __VA_ARGS__, 0)
#define USEREV_UNKNOWN_(as, name, ...) USEREV_NUMBER_##as(uint64_t, "u64", #name, name)
#define USEREV_KNOWN_(as, field) USEREV_CALL_(USEREV_KNOWN_NOW_, USEREV_IS_KIND_ field, USEREV_KIND_ field)
#define USEREV_KNOWN_NOW_(known, kind) \
	USEREV_ASSERT_(known, "(" #kind ", ...) is no field: use u8 to u64, s8 to s64, f32, f64, chars, struct, string " \
			      "or bytes");
/* 1 if there is a macro USEREV_FIELD_kind, which expands to a comma and a 1 here; else 0. */
#define USEREV_IS_KIND_(kind, ...) USEREV_SECOND_(USEREV_FIELD_##kind(AS_PROBE, kind, __VA_ARGS__), 0, 0)
#define USEREV_SECOND_(...) USEREV_SECOND_NOW_(__VA_ARGS__)
#define USEREV_SECOND_NOW_(first, second, ...) second
#define USEREV_MACRO_(known, kind) USEREV_MACRO_##known(kind)
#define USEREV_MACRO_0(kind) USEREV_FIELD_unknown_
#define USEREV_MACRO_1(kind) USEREV_FIELD_##kind

/* For each field; USEREV_LIST_ puts commas between them. */
#define USEREV_EACH_(count, ...) USEREV_PASTE_(USEREV_EACH_, count)(USEREV_NOTHING_, __VA_ARGS__)
#define USEREV_LIST_(count, ...) USEREV_PASTE_(USEREV_EACH_, count)(USEREV_COMMA_, __VA_ARGS__)
#define USEREV_NOTHING_()
#define USEREV_COMMA_() ,

#define USEREV_EACH_1(between, part, as, a) part(as, a)
#define USEREV_EACH_2(between, part, as, a, ...) part(as, a) between() USEREV_EACH_1(between, part, as, __VA_ARGS__)
#define USEREV_EACH_3(between, part, as, a, ...) part(as, a) between() USEREV_EACH_2(between, part, as, __VA_ARGS__)
#define USEREV_EACH_4(between, part, as, a, ...) part(as, a) between() USEREV_EACH_3(between, part, as, __VA_ARGS__)
#define USEREV_EACH_5(between, part, as, a, ...) part(as, a) between() USEREV_EACH_4(between, part, as, __VA_ARGS__)
#define USEREV_EACH_6(between, part, as, a, ...) part(as, a) between() USEREV_EACH_5(between, part, as, __VA_ARGS__)
#define USEREV_EACH_7(between, part, as, a, ...) part(as, a) between() USEREV_EACH_6(between, part, as, __VA_ARGS__)
#define USEREV_EACH_8(between, part, as, a, ...) part(as, a) between() USEREV_EACH_7(between, part, as, __VA_ARGS__)
#define USEREV_EACH_9(between, part, as, a, ...) part(as, a) between() USEREV_EACH_8(between, part, as, __VA_ARGS__)
#define USEREV_EACH_10(between, part, as, a, ...) part(as, a) between() USEREV_EACH_9(between, part, as, __VA_ARGS__)
#define USEREV_EACH_11(between, part, as, a, ...) part(as, a) between() USEREV_EACH_10(between, part, as, __VA_ARGS__)
#define USEREV_EACH_12(between, part, as, a, ...) part(as, a) between() USEREV_EACH_11(between, part, as, __VA_ARGS__)
#define USEREV_EACH_13(between, part, as, a, ...) part(as, a) between() USEREV_EACH_12(between, part, as, __VA_ARGS__)
#define USEREV_EACH_14(between, part, as, a, ...) part(as, a) between() USEREV_EACH_13(between, part, as, __VA_ARGS__)
#define USEREV_EACH_15(between, part, as, a, ...) part(as, a) between() USEREV_EACH_14(between, part, as, __VA_ARGS__)
#define USEREV_EACH_16(between, part, as, a, ...) part(as, a) between() USEREV_EACH_15(between, part, as, __VA_ARGS__)

#define USEREV_PICK_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, \
		     a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, picked, ...) \
	picked
/* Select by the number of arguments. The first two count FLAGS, PROVIDER, NAME and the fields. */
#define USEREV_FIELDS_(...) \
	USEREV_PICK_(__VA_ARGS__, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, \
		     TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, \
		     TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, TOO_MANY_FIELDS, SOME, SOME, \
		     SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, NO, \
		     NAME_MISSING, NAME_MISSING, 0)
#define USEREV_COUNT_(...) \
	USEREV_PICK_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, \
		     5, 4, 3, 2, 1, 0, 0, 0, 0)
/* This one counts an event and its arguments. */
#define USEREV_ARGUMENTS_(...) \
	USEREV_PICK_(__VA_ARGS__, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, \
		     SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, SOME, \
		     SOME, SOME, SOME, NO, 0)

#define USEREV_EVENT(...) USEREV_EVENT_FLAGS(0, __VA_ARGS__)
#define USEREV_EVENT_FLAGS(...) USEREV_PASTE_(USEREV_EVENT_WITH_, USEREV_FIELDS_(__VA_ARGS__))(__VA_ARGS__)
#define USEREV_EVENT_WITH_NAME_MISSING(...) USEREV_ASSERT_(0, "usage: USEREV_EVENT(PROVIDER, NAME, FIELD...)")
#define USEREV_EVENT_WITH_TOO_MANY_FIELDS(...) USEREV_ASSERT_(0, "an event has at most 16 fields")
#define USEREV_EVENT_WITH_NO(flags, provider, name) \
	USEREV_DECLARE_(flags, provider##_##name, #provider "_" #name, #provider "_" #name) \
	static __attribute__((__cold__, __noinline__, __unused__)) void userev_emit_##provider##_##name(void) \
	{ \
		unsigned char userev_index[4]; \
		userev_write_buffer(&userev_event_##provider##_##name, userev_index, sizeof(userev_index)); \
	} \
	USEREV_SHORT_ENOUGH_(#provider "_" #name, #provider "_" #name)
#define USEREV_EVENT_WITH_SOME(flags, provider, name, ...) \
	USEREV_EVENT_WITH_FIELDS_(flags, provider##_##name, #provider "_" #name, \
				  USEREV_COUNT_(flags, provider, name, __VA_ARGS__), __VA_ARGS__)
#define USEREV_EVENT_WITH_FIELDS_(flags, id, text, count, ...) \
	USEREV_EACH_(count, USEREV_KNOWN_, , __VA_ARGS__) \
	USEREV_QUIETLY_ void userev_literals_##id(USEREV_LIST_(count, USEREV_FIELD_, AS_LITERAL, __VA_ARGS__)) \
		USEREV_EACH_(count, USEREV_FIELD_, AS_FITS, __VA_ARGS__); USEREV_AS_BEFORE_ \
	USEREV_DECLARE_(flags, id, text, text USEREV_EACH_(count, USEREV_FIELD_, AS_DESCRIPTION, __VA_ARGS__)) \
	static __attribute__((__cold__, __noinline__, __unused__)) void userev_emit_##id( \
		USEREV_LIST_(count, USEREV_FIELD_, AS_PARAMETER, __VA_ARGS__)) \
	{ \
		unsigned char userev_buffer[USEREV_BUFFER_]; \
		struct iovec userev_pieces[1 USEREV_EACH_(count, USEREV_FIELD_, AS_PIECES, __VA_ARGS__)]; \
		struct userev_record_ userev_record = { userev_buffer, userev_pieces, 0, 4, 0, \
							USEREV_BUFFER_ - 4 - \
								(0 USEREV_EACH_(count, USEREV_FIELD_, AS_FIXED, __VA_ARGS__)), \
							0, 0 USEREV_EACH_(count, USEREV_FIELD_, AS_SIZE, __VA_ARGS__) }; \
		USEREV_EACH_(count, USEREV_FIELD_, AS_CHECK, __VA_ARGS__) \
		USEREV_EACH_(count, USEREV_FIELD_, AS_PUT, __VA_ARGS__) \
		USEREV_EACH_(count, USEREV_FIELD_, AS_DATA, __VA_ARGS__) \
		userev_end_record_(&userev_record, &userev_event_##id); \
	} \
	USEREV_SHORT_ENOUGH_(text, text USEREV_EACH_(count, USEREV_FIELD_, AS_DESCRIPTION, __VA_ARGS__))

#define USEREV_DECLARE_(event_flags, id, name, text) \
	static const struct userev_declaration userev_declaration_##id = { name, text, event_flags }; \
	static struct userev_event userev_event_##id \
		__attribute__((__section__("userev_events"), __aligned__(8), __used__ USEREV_RETAIN_)) = { \
			0, &userev_declaration_##id, { 0 } }; \
	static __attribute__((__constructor__(101), __used__)) void userev_load_##id(void) \
	{ \
		userev_load(__start_userev_events, __stop_userev_events); \
	} \
	static __attribute__((__destructor__(101), __used__)) void userev_unload_##id(void) \
	{ \
		userev_unload(__start_userev_events, __stop_userev_events); \
	}
#define USEREV_SHORT_ENOUGH_(name, text) \
	USEREV_ASSERT_(sizeof(name) <= 201, "an event's name, PROVIDER_NAME, has at most 200 bytes"); \
	USEREV_ASSERT_(sizeof(text) <= 512, "an event's description has at most 511 bytes; use shorter names")

USEREV_ASSERT_(sizeof(struct userev_event) == 8 + 2 * sizeof(void *), "the section is an array of struct userev_event");

#define USEREV_EVENT_OF(event) (&userev_event_##event)
#define userev_on(event) userev_enabled(USEREV_EVENT_OF(event))

#define userev_emit(...) USEREV_PASTE_(USEREV_EMIT_WITH_, USEREV_ARGUMENTS_(__VA_ARGS__))(__VA_ARGS__)
#define USEREV_EMIT_WITH_NO(event) USEREV_EMIT_(event, userev_emit_##event(), )
#define USEREV_EMIT_WITH_SOME(event, ...) \
	USEREV_EMIT_(event, userev_emit_##event(__VA_ARGS__), USEREV_LITERALS_(userev_literals_##event(__VA_ARGS__)))
#define USEREV_EMIT_(event, call, check) \
	do { if (userev_on(event)) { USEREV_STRICTLY_ call; USEREV_AS_BEFORE_ } check } while (0)

/*
 * Type errors in arguments. A pointer where a number belongs, or a pointer to another type, is an error in C++ and made one here
 * in C. A fraction for an integer field, or a negative number for an unsigned one, gets a warning. GCC has pragmas for that. Clang
 * ignores them in macros of a system header, so it checks the arguments against a declared but undefined function with
 * diagnose_if, in a branch that is never taken.
 */
#define USEREV_AS_BEFORE_ _Pragma("GCC diagnostic pop")
#ifdef __clang__
#define USEREV_NUMBERS_
#define USEREV_WARN_IF_(condition, sentence) __attribute__((__diagnose_if__(condition, sentence, "warning")))
#define USEREV_IS_NO_(type, number) \
	((type)0.5 == 0 && (((type)-1 > 0 && (number) < 0) || (number) != (double)(type)(number)))
#define USEREV_QUIETLY_ \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wgcc-compat\"") \
		_Pragma("GCC diagnostic ignored \"-Wconversion\"") _Pragma("GCC diagnostic ignored \"-Wdouble-promotion\"")
#define USEREV_LITERALS_(call) USEREV_QUIETLY_ if (0) call; USEREV_AS_BEFORE_
#else
#define USEREV_QUIETLY_ _Pragma("GCC diagnostic push")
#define USEREV_NUMBERS_ \
	_Pragma("GCC diagnostic warning \"-Wfloat-conversion\"") _Pragma("GCC diagnostic warning \"-Wsign-conversion\"")
#define USEREV_WARN_IF_(condition, sentence)
#define USEREV_LITERALS_(call)
#endif
#ifdef __cplusplus
#define USEREV_STRICTLY_ _Pragma("GCC diagnostic push") USEREV_NUMBERS_
#else
#define USEREV_STRICTLY_ \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wint-conversion\"") \
		_Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"") USEREV_NUMBERS_
#endif

#endif
