/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Holdings (an event on a page) and slots (its registration on one stream). */

#include "kernel/user_events/placement.h"
#include "kernel/user_events/user_events.h"

/* REGISTER and ADOPT. An answer; the call's placement may still be under way. */
int on_register(struct user_events *, struct job *, struct event_stream *, struct kernel_call *);
/* The result of a placement's slot. */
void registration_placed(struct event_stream *, struct holding *, struct kernel_call *);
void registration_failed(struct user_events *, struct event_stream *, struct holding *);
/* Frees the stream's slots, and removes events that no other stream of the page has. */
void registrations_free(struct user_events *, struct event_stream *);
/* The event's name, in front of its fields. */
void holding_name(const struct holding *, char ret[WIRE_DESCRIPTION_MAX + 1]);
/* Translates an errno of the kernel's REG. */
int registration_answer(int error);
