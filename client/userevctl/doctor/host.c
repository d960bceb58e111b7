/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor: facts about the daemon from systemd, /proc and the policy files, also if it does not answer. */

#include <dirent.h>

#include "client/userevctl/doctor/doctor.h"
#include "client/userevctl/process.h"
#include "daemon/policy/policy.h"
#include "protocol/base/text.h"

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
	char line[512], listen[256], state[2][16] = { 0 }; /* the socket's and the service's */
	const char *sentence = "Its sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'.";
	bool listens = false;
	size_t n = 0, i = 0;
	static const char command[] =
		"systemctl show --property=ActiveState,Listen userevd.socket userevd.service 2>/dev/null";
	FILE *from = popen(command, "re"); /* NOLINT(cert-env33-c): a constant command */

	snprintf(listen, sizeof(listen), "Listen=%s (", doctor->path);
	while (from && n < ARRAY_SIZE(state) && fgets(line, sizeof(line), from)) {
		listens |= strncmp(line, listen, strlen(listen)) == 0;
		n += sscanf(line, "ActiveState=%15[a-z]", state[n]) == 1;
	}
	if (from)
		pclose(from);
	if (streq(state[0], "active")) {
		while (!strstr(state[1], advice[i][0]))
			i++;
		sentence = advice[i][1];
	}
	/* The units have nothing to do with another socket. */
	if (!listens)
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
