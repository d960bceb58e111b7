/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor: facts about the daemon from systemd, /proc and the policy files, also if it does not answer. */

#include <dirent.h>

#include "client/userevctl/doctor/doctor.h"
#include "client/userevctl/process.h"
#include "daemon/policy/policy.h"
#include "protocol/base/text.h"

struct units {
	char socket[16], service[16]; /* their states, or empty */
	bool listen_here;	      /* at the socket that doctor tries */
	char lost[108];		      /* another one at which they listen, and which is not there */
};

static struct units ask_units(const char *here)
{
	static const char command[] =
		"systemctl show --property=ActiveState,Listen userevd.socket userevd.service 2>/dev/null";
	FILE *from = popen(command, "re"); /* NOLINT(cert-env33-c): a constant command */
	struct units units = { 0 };
	char line[512], path[108], *state = units.socket;

	while (from && state && fgets(line, sizeof(line), from)) {
		if (sscanf(line, "ActiveState=%15[a-z]", state) == 1)
			state = state == units.socket ? units.service : NULL;
		else if (sscanf(line, "Listen=%107s", path) != 1)
			continue;
		else if (streq(path, here))
			units.listen_here = true;
		else if (access(path, F_OK) != 0)
			string_copy(units.lost, sizeof(units.lost), path);
	}
	if (from)
		pclose(from);
	return units;
}

void doctor_ask_systemd(struct doctor *doctor)
{
	static const char *const advice[][2] = {
		{ "failed", "'journalctl -u userevd' shows why it ended; then 'systemctl restart userevd'." },
		{ "inactive", "Start it: 'systemctl start userevd'." },
		{ "activating", "It is starting or ending: 'journalctl -u userevd' shows why that takes so long." },
		{ "",
		  "Its units are active: see 'systemctl status userevd' and 'journalctl -u userevd'; if they have lost "
		  "their socket, 'systemctl restart userevd.socket'." },
	};
	const struct units units = ask_units(doctor->path);
	const char *sentence = "Its sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'.";
	size_t i = 0;

	if (streq(units.socket, "active")) {
		while (!strstr(units.service, advice[i][0]))
			i++;
		sentence = advice[i][1];
		if (*units.lost)
			finding(doctor, MARK_FAIL, "socket",
				"Make it again: 'systemctl restart userevd.socket'. Programs that are connected stay so.",
				"somebody has removed %s, where programs and containers look for the daemon",
				units.lost);
	}
	/* The units have nothing to do with another socket. */
	if (!units.listen_here)
		sentence = "Start one: 'userevd --foreground'; if it runs, look at its log.";
	snprintf(doctor->advice, sizeof(doctor->advice), "%s In a container, %s, see userevd-containers(7).", sentence,
		 access("/run/userevd/client", F_OK) == 0
			 ? "start it on its host, and mount its directory, not the socket itself"
			 : "mount the host's directory, not the socket itself: "
			   "'-v /run/userevd/client:/run/userevd/client:ro'");
}

/*
 * The kernel counts the fds in flight for all processes of a user together (daemon/connection/inflight.c), so another program
 * of the daemon's user could use up the daemon's share.
 */
void doctor_check_user(struct doctor *doctor)
{
	pid_t pid = (pid_t)row_get_u64(doctor->status, "pid"), one;
	struct process_status daemon, process;
	const struct dirent *entry;
	DIR *directory;
	unsigned n = 0;

	if (pid == 0 || !process_read(pid, &daemon))
		return;
	/* A daemon that an ordinary user runs serves that user's programs only. */
	if (daemon.uid != 0 && daemon.uid == geteuid())
		return;
	directory = opendir("/proc");
	while (directory && (entry = readdir(directory))) {
		one = (pid_t)strtol(entry->d_name, NULL, 10);
		/* A child of the daemon removes the files of the sockets. */
		n += one != 0 && one != pid && process_read(one, &process) && process.uid == daemon.uid &&
		     process.parent != pid;
	}
	if (directory)
		closedir(directory);
	if (n > 0)
		finding(doctor, MARK_NOTE, "user",
			"Give the daemon a user of its own (--user=, or User= in its unit): file descriptors that other programs "
			"of its user send, and that are not received, can keep the daemon from sending any.",
			"%s as user %u, which is the daemon's; 'ps -u %u' lists them",
			plural(n, "other process runs", "other processes run").text, daemon.uid, daemon.uid);
}

void doctor_check_policy_files(struct doctor *doctor)
{
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	struct safe_string note = row_string(doctor->status, "policy_note");
	char first[1024] = "";
	struct text text = text_make(first, sizeof(first));

	policy_load(doctor->policy, NULL, &problems, &policy);
	/* A file that cannot be read (line 0) is an error for root only: the daemon may be able to. */
	for (size_t i = 0; i < problems.n && !*first; i++)
		if (problems.list[i].severity == PROBLEM_ERROR && (problems.list[i].line > 0 || geteuid() == 0))
			problem_text(&problems.list[i], &text);
	if (*note.text)
		finding(doctor, MARK_NOTE, "policy files", *first ? first : "'userevctl policy check' shows them.",
			"%s", note.text);
	else if (*first)
		finding(doctor, doctor->greeted ? MARK_NOTE : MARK_FAIL, "policy files", first,
			"%s; %s, and 'userevctl policy check' shows all",
			plural(problems.errors, "error is in them", "errors are in them").text,
			doctor->greeted ? "the daemon has not loaded them" : "no daemon starts with them");
}
