/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Values in a JSON text, found where they stand. Whatever is not asked for is skipped without a look, so a text that is not quite JSON
 * may yield values, or none; only what is returned matters.
 */

#include "protocol/base/base.h"

/* Without blanks around it. An empty one has no members. */
struct json_value {
	const char *at, *end;
};

struct json_value json_member(struct json_value object, const char *key);
/* The next of an array, until it has none: `array` goes on. */
bool json_next(struct json_value *array, struct json_value *ret);
/* A string without a NUL that fits. */
bool json_string_of(struct json_value, char *ret, size_t size);
