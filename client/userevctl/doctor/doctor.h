/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The state of doctor, and its output. */

#include "client/userev.h"
#include "client/userevctl/ctl.h"

struct doctor {
	struct ctl *ctl;
	struct json json;
	bool failed;
	const char *path;	/* of the clients' socket */
	char advice[512];	/* if no daemon listens or answers: by the state of its units, as systemd shows it */
	struct control *client; /* the connection to that socket */
	bool greeted;		/* the daemon has answered HELLO and QUERY */
	struct wire_welcome welcome;
	struct wire_account account;
	char tenant[4 * WIRE_TENANT_MAX + 1]; /* safe to show */
	int page;			      /* fd */
	struct cursor status;		      /* a copy of the daemon's row; empty: this user is no admin */
	char policy[4096];		      /* the directories of its policy files */
	struct userev *userev;
	struct userev_event event;
	bool registered;
};

/* finding.c: the output. */
enum mark { MARK_OK, MARK_NOTE, MARK_FAIL, MARK_SKIP };
void findings_begin(struct doctor *);
/* One sentence about one subject and, unless NULL or empty, another sentence with advice. */
void finding(struct doctor *, enum mark, const char *subject, const char *advice, const char *format, ...)
	_printf_(5, 6);
/* The reason for an error. A table ends with error 0, for all other errors. */
struct obstacle {
	int error;
	const char *subject, *sentence, *advice;
};
/* A failed check, by the table. `detail`: the refusal, or the error's text. */
void finding_by_error(struct doctor *, const struct obstacle *table, int error, const char *detail);
void findings_end(struct doctor *);

/* host.c */
void doctor_ask_systemd(struct doctor *);
void doctor_check_policy_files(struct doctor *);
/* Whether another program runs as the daemon's user. */
void doctor_check_user(struct doctor *);

/* native.c */
void doctor_check_native(struct doctor *);

/* event.c: checks that need a daemon which has answered, in this order. */
void doctor_check_registration(struct doctor *);
void doctor_check_quota(struct doctor *);
void doctor_check_page(struct doctor *);
void doctor_check_record(struct doctor *);
void doctor_check_losses(struct doctor *);
