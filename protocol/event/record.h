/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Reads and builds payloads by their event's description. Numbers are in the machine's byte order, as in the kernel. */

#include "protocol/event/description.h"

/*
 * Checks a payload like the kernel: it has the fixed fields (EINVAL), no dynamic field points outside it, and dynamic char data has its
 * NUL (EFAULT).
 */
bool record_is_valid(const struct description *, const void *payload, size_t size);

/* The bytes of a field's value, those that a dynamic field points at included; for a payload that record_is_valid() passed. */
const void *record_field(const struct field *, const void *payload, size_t size, size_t *ret_size);

/* A number of 1, 2, 4 or 8 bytes; a signed one as an int64_t. */
uint64_t record_number(const void *at, size_t size, bool is_signed);

/* "status=200 ns=81 path=\"/x\"". For a payload that record_is_valid() passed. */
void record_to_text(const struct description *, const void *payload, size_t size, struct text *out);
/* {"status":200,"ns":81,"path":"/x"} */
void record_to_json(const struct description *, const void *payload, size_t size, struct text *out);

/*
 * Builds a payload from "FIELD=VALUE" strings. Numbers in decimal, 0x or 0 for octal; 'c' for a char; structs and dynamic
 * arrays of numbers as hex bytes or [1,2,3]; unassigned fields are zero or empty. 0 with the size in `ret_size`, or
 * REFUSAL_BAD_DESCRIPTION with a sentence in `why`; -ENOSPC where the buffer is too small.
 */
int record_build(const struct description *, const char *const *assignments, size_t n, void *buffer, size_t capacity,
		 size_t *ret_size, struct text *why);
