/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Records, as tail, run and doctor show them. */

#include "client/userevctl/control.h"
#include "client/userevctl/output.h"
#include "protocol/event/description.h"

struct piece {
	const void *at;
	size_t length;
};
/* Empty for NULL. */
static inline struct piece piece_of(const char *text)
{
	return (struct piece){ text, text ? strlen(text) : 0 };
}

struct taken_record {
	uint64_t time; /* ns since 1970 */
	uint64_t pid;
	uint64_t uid;
	bool uid_known;
	struct piece comm;
	struct piece tenant;	  /* empty: not known */
	struct piece name;	  /* of the event */
	struct piece description; /* "name type field; …" */
	struct piece payload;
};
struct record_view {
	struct output *output;
	uint64_t records;
	uint64_t missed;
	uint64_t most;			 /* ends after so many; 0: never */
	int output_error;		 /* a negative errno */
	struct description *description; /* the last one that was parsed */
	char *canonical;		 /* … and its text */
};
void record_view_deinit(struct record_view *);
void record_view_put(struct record_view *, const struct taken_record *);
/* So many records were overwritten before they were read. */
void record_view_missed(struct record_view *, uint64_t missed);
/* Receives a packet, prints its records, and flushes: 0 or the errno of control_next_packet(). */
int record_view_take(struct record_view *, struct control *);
bool record_view_done(const struct record_view *);
