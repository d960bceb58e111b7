/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Holdings (an event on a page) and slots (its registration on one stream). */

#include "kernel/user_events/user_events.h"

/* REGISTER and ADOPT. An answer; that of a new event comes with registrations_send(), or with a later call. */
int on_register(struct user_events *, struct kernel_call *, const struct target *);
/* Registers the new events of earlier calls. */
void registrations_send(struct user_events *);
/* Frees the stream's slots, and removes events that no other stream of the page has. */
void registrations_free(struct user_events *, struct event_stream *);
/* The event's name, in front of its fields. */
void holding_name(const struct holding *, char ret[WIRE_DESCRIPTION_MAX + 1]);
/* Translates an errno of the kernel's REG. */
int registration_answer(int error);
