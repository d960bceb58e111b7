/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Runs userevd-guard, and checks what a machine has for it. */

#include <check.h>

#include "protocol/base/base.h"

enum { LOADER_OUTPUT_BYTES = 65536 };

extern const char *loader_directory;		/* its --pin */
extern char loader_output[LOADER_OUTPUT_BYTES]; /* of its last run, stdout and stderr */

/* Returns its exit status. */
int loader(const char *format, ...) _printf_(1, 2);
/* As uid 1000, or as root with only these capabilities (1 << CAP_…). */
int loader_as_nobody(const char *arguments);
int loader_with(uint64_t capabilities, const char *arguments);

/* Whether the directory has this entry. */
bool is_pinned(const char *name);
/* The one directory below it whose name begins so. */
void find_pinned(const char *prefix, char *ret, size_t size);

bool has_btf(void);
/* Prepares for the tests. False: they can't run here; it prints why. */
bool is_a_place_for_tests(void);
