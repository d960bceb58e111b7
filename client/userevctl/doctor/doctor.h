/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What doctor knows by now, and what it says. */

#include "client/userev.h"
#include "client/userevctl/ctl.h"

/* ctl_finding.c: what doctor says. */
enum mark { MARK_OK, MARK_NOTE, MARK_FAIL, MARK_SKIP };
struct findings {
	const struct output *output;
	struct json json;
	bool failed;
};
void findings_begin(struct findings *, const struct output *, const char *socket);
/* One sentence about one subject and, unless NULL, another one that says what to do. */
void finding(struct findings *, enum mark, const char *subject, const char *advice, const char *format, ...)
	_printf_(5, 6);
void findings_end(struct findings *);

/* ctl_greet.c: what a client sees of the daemon. */
struct greeting {
	struct wire_welcome welcome;
	struct wire_account account;
	char tenant[WIRE_TENANT_MAX + 1];
	int page; /* fd */
	uint32_t refusal;
	char sentence[WIRE_SENTENCE_MAX * 4 + 1];
};
/* HELLO and QUERY: 0 or a negative errno; -EREMOTEIO with the sentence. */
int greet(int fd, struct greeting *ret);
void greeting_deinit(struct greeting *);

/* As far as systemd knows it. */
enum daemon_state {
	DAEMON_BY_HAND,
	DAEMON_SOCKETS_STOPPED,
	DAEMON_STOPPED,
	DAEMON_STARTS,
	DAEMON_FAILED,
	DAEMON_RUNS,
};

struct doctor {
	struct ctl *ctl;
	const char *path;
	struct findings findings;
	int fd; /* of our own connection, -1 */
	bool greeted;
	struct greeting greeting;
	struct userev *userev;
	struct userev_event event;
	bool registered;
	bool over_quota;
	struct control *control;
	/* The daemon's sentences; "" where it said none. */
	char why[1024];
	char guard[1024];
	char note[1024];
	char policy_note[1024];
	char policy[4096]; /* directories */
	enum daemon_state state;
};

/* ctl_doctor_host.c: what systemd says of the daemon behind a socket, and what to do then. */
enum daemon_state doctor_ask_systemd(const char *path);
const char *doctor_advice(enum daemon_state, bool mute);
/* Errors in the policy files, which a daemon has not loaded or goes without. */
void doctor_check_policy_files(struct doctor *);

/* Whether the refusal is for want of a guard; then that is said, and what helps. */
bool doctor_find_unguarded_root(struct doctor *, const char *refusal);

/* ctl_doctor_user.c: whether the daemon shares its user with other programs. */
void doctor_check_user(struct doctor *);
/* ctl_doctor_event.c: what can be tried once the daemon has welcomed us, in this order. */
void doctor_check_registration(struct doctor *);
void doctor_check_quota(struct doctor *);
void doctor_check_page(struct doctor *);
void doctor_check_record(struct doctor *);
void doctor_check_losses(struct doctor *);
