/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Programs that speak user_events by themselves (Native=): their tenants, and what the kernel is to admit. native.c explains. */

#include "protocol/base/text.h"

struct registry;
struct tenant;

/*
 * At the start, once the last daemon's state is restored. Waits for the keeper: before the daemon grants anything it has to know what
 * native programs hold. 0 or a negative errno.
 */
int native_begin(struct registry *);
/* After a reload of the policy. */
void native_adopt_policy(struct registry *);
/* Another keeper has taken over, perhaps of another build: whether the kernel still does what it is to do is tried again. */
void native_adopt_keeper(struct registry *);
void native_deinit(struct registry *);

/* "on", or "off: " and why; "" where the policy has no Native=. */
void native_state(const struct registry *, struct text *);
/* Whether programs of this tenant may register by themselves now. */
bool native_is_allowed(const struct tenant *);
/* The kernel's file, opened for a program of this tenant. An fd, or a negative errno with a sentence. */
int native_open_file(const struct tenant *, struct text *why);

/* An event of a tenant's, and the process that has registered it last. */
struct native_held {
	char *text; /* canonical */
	size_t name_length;
	struct tenant *tenant; /* NULL: it has no entry in the kernel any more */
	uint32_t pid;
	uint32_t uid;
	bool lingers;
	char comm[16];
};
/* All of them, by their texts; for native_list_free(). */
struct native_list {
	struct native_held *held;
	size_t n;
};
struct native_list native_list_make(const struct registry *);
void native_list_free(struct native_list *);

/* Registrations that the kernel could not refuse. */
uint64_t native_violations(const struct registry *);
