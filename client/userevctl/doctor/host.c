/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor: what systemd and the policy files say of a daemon that does not speak for itself. */

#include "client/userevctl/doctor/doctor.h"
#include "daemon/policy/policy.h"

static const struct {
	const char *missing; /* nobody listens */
	const char *mute;    /* somebody does, and does not answer */
} advices[] = {
	[DAEMON_BY_HAND] = { "Start one: 'userevd --foreground'.", "Look at its log." },
	[DAEMON_SOCKETS_STOPPED] = { "Its sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'.",
				     "Its sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'." },
	[DAEMON_STOPPED] = { "Start it: 'systemctl start userevd'.", "Start it: 'systemctl start userevd'." },
	[DAEMON_STARTS] = { "It is being started, or ends: 'journalctl -u userevd' says why that takes so long.",
			    "It is being started, or ends: 'journalctl -u userevd' says why that takes so long." },
	[DAEMON_FAILED] = { "'journalctl -u userevd' says why it ended; then 'systemctl restart userevd'.",
			    "'journalctl -u userevd' says why it ended; then 'systemctl restart userevd'." },
	[DAEMON_RUNS] = { "Its units are active, but have lost their socket: 'systemctl restart userevd.socket'.",
			  "Look what it does: 'systemctl status userevd', 'journalctl -u userevd'." },
};

struct unit {
	char state[16];
	bool loaded;
	bool listens;
};

/* The socket's unit and the service's, in this order, with an empty line between them. */
static void read_units(FILE *from, const char *path, struct unit unit[2])
{
	char line[512], listen[256];
	size_t at = 0;

	snprintf(listen, sizeof(listen), "Listen=%s (", path);
	while (fgets(line, sizeof(line), from) && at < 2) {
		if (line[0] == '\n')
			at++;
		else if (streq(line, "LoadState=loaded\n"))
			unit[at].loaded = true;
		else if (strncmp(line, listen, strlen(listen)) == 0)
			unit[at].listens = true;
		else
			sscanf(line, "ActiveState=%15[a-z]", unit[at].state);
	}
}

enum daemon_state doctor_ask_systemd(const char *path)
{
	struct unit unit[2] = { 0 };
	/* NOLINTNEXTLINE(cert-env33-c): nothing of the command is anybody's choice */
	FILE *from = popen("systemctl show --property=LoadState,ActiveState,Listen userevd.socket userevd.service "
			   "2>/dev/null",
			   "re");

	if (!from)
		return DAEMON_BY_HAND;
	read_units(from, path, unit);
	pclose(from);
	/* Of another socket they know nothing. */
	if (!unit[0].loaded || !unit[0].listens)
		return DAEMON_BY_HAND;
	if (!streq(unit[0].state, "active"))
		return DAEMON_SOCKETS_STOPPED;
	if (streq(unit[1].state, "failed"))
		return DAEMON_FAILED;
	if (streq(unit[1].state, "inactive"))
		return DAEMON_STOPPED;
	return strstr(unit[1].state, "activating") ? DAEMON_STARTS : DAEMON_RUNS;
}

const char *doctor_advice(enum daemon_state state, bool mute)
{
	return mute ? advices[state].mute : advices[state].missing;
}

/* What a text says that is wrong; for root also what can't be read: others need not be able to. */
static const struct problem *first_error(const struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++)
		if (problems->list[i].severity == PROBLEM_ERROR && (problems->list[i].line > 0 || geteuid() == 0))
			return &problems->list[i];
	return NULL;
}

void doctor_check_policy_files(struct doctor *doctor)
{
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	const struct problem *error;
	char buffer[1024];
	struct text text = text_make(buffer, sizeof(buffer));

	policy_load(doctor->policy, NULL, &problems, &policy);
	error = first_error(&problems);
	if (error)
		problem_text(error, &text);
	if (doctor->policy_note[0])
		finding(&doctor->findings, MARK_NOTE, "policy files",
			error ? buffer : "'userevctl policy check' shows them.", "%s", doctor->policy_note);
	else if (error)
		finding(&doctor->findings, doctor->greeted ? MARK_NOTE : MARK_FAIL, "policy files", buffer,
			"%s; %s, and 'userevctl policy check' shows all",
			plural(problems.errors, "error is in them", "errors are in them").text,
			doctor->greeted ? "the daemon has not loaded them" : "no daemon starts with them by itself");
}
