/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The format file of an event, as tracefs shows it. The kernel's own cannot be used: the embedded backend has none, and one number of
 * the kernel may belong to several events in the course of a recording.
 */

#include "client/userevctl/record/trace_dat.h"

#include <ctype.h>

#include "protocol/event/description.h"

/* How trace-cmd prints the value, and where it is. Numbers in dynamic arrays are left out: it has no function for them. */
static void put_print(struct text *print, struct text *arguments, const struct field *field)
{
	const int length = (int)field->name_length;
	const char *name = field->name, *form = "%s", *argument = "REC->";

	if (field->kind == FIELD_UNSIGNED)
		form = field->size == 8 ? "%llu" : "%u";
	else if (field->kind == FIELD_SIGNED)
		form = field->size == 8 ? "%lld" : field->size == 4 ? "%d" : field->size == 2 ? "%hd" : "%hhd";
	else if (field->kind == FIELD_STRUCT)
		argument = "__print_hex_str(REC->";
	else if (field->kind != FIELD_CHARS && !field->is_text)
		return;
	else if (field->kind == FIELD_DATA_LOC)
		argument = "__get_str(";
	else if (field->kind == FIELD_REL_LOC)
		argument = "__get_rel_str(";
	text_printf(print, "%s%.*s=%s", print->length > 0 ? " " : "", length, name, form);
	text_printf(arguments, ", %s%.*s", argument, length, name);
	if (field->kind == FIELD_STRUCT)
		text_printf(arguments, ", %u)", field->size);
	else if (argument[0] == '_')
		text_printf(arguments, ")");
}

void format_put(struct text *out, unsigned type, const char *name, const struct description *description)
{
	char print_buffer[4 * WIRE_DESCRIPTION_MAX], arguments_buffer[8 * WIRE_DESCRIPTION_MAX];
	struct text print = text_make(print_buffer, sizeof(print_buffer));
	struct text arguments = text_make(arguments_buffer, sizeof(arguments_buffer));

	text_printf(out, "name: ");
	/* trace-cmd reads no other names. */
	for (; *name; name++)
		text_printf(out, "%c", isalnum((unsigned char)*name) ? *name : '_');
	text_printf(out,
		    "\nID: %u\nformat:\n"
		    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n",
		    type);
	for (size_t i = 0; i < description->n_fields; i++) {
		const struct field *field = &description->field[i];
		const char *bracket = memchr(field->type, '[', field->type_length);
		const bool is_dynamic = field->kind == FIELD_DATA_LOC || field->kind == FIELD_REL_LOC;
		const size_t length = bracket && !is_dynamic ? (size_t)(bracket - field->type) : field->type_length;

		text_printf(out, "\tfield:%.*s %.*s%.*s;\toffset:%u;\tsize:%u;\tsigned:%d;\n", (int)length, field->type,
			    (int)field->name_length, field->name, (int)(field->type_length - length),
			    field->type + length, RING_COMMON + field->offset, field->size,
			    field->is_signed || field->kind == FIELD_SIGNED);
		put_print(&print, &arguments, field);
	}
	text_printf(out, "\nprint fmt: \"%s\"%s\n", print.buffer, arguments.buffer);
}
