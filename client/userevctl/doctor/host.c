/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor: facts about the daemon from systemd, /proc and the policy files, also if it does not answer. */

#include <dirent.h>

#include "client/userevctl/doctor/doctor.h"
#include "client/userevctl/process.h"
#include "daemon/policy/policy.h"
#include "protocol/base/text.h"

static const struct daemon_state by_hand = { "Start one: 'userevd --foreground'.", "Look at its log.", false };
#define NO_DAEMON(advice)                                                                                              \
	{                                                                                                              \
		advice, advice, true                                                                                   \
	}
static const struct daemon_state sockets_stopped =
	NO_DAEMON("Its sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'.");
static const struct daemon_state failed =
	NO_DAEMON("'journalctl -u userevd' shows why it ended; then 'systemctl restart userevd'.");
static const struct daemon_state stopped = NO_DAEMON("Start it: 'systemctl start userevd'.");
static const struct daemon_state starts =
	NO_DAEMON("It is starting or ending: 'journalctl -u userevd' shows why that takes so long.");
static const struct daemon_state runs = {
	"Its units are active, but have lost their socket: 'systemctl restart userevd.socket'.",
	"See 'systemctl status userevd' and 'journalctl -u userevd'.", false
};

const struct daemon_state *doctor_ask_systemd(const char *path)
{
	struct {
		char state[16];
		bool loaded;
		bool listens;
	} unit[2] = { 0 }; /* the socket's and the service's, in this order, with an empty line between them */
	char line[512], listen[256];
	size_t at = 0;
	/* NOLINTNEXTLINE(cert-env33-c): a constant command */
	FILE *from = popen("systemctl show --property=LoadState,ActiveState,Listen userevd.socket userevd.service "
			   "2>/dev/null",
			   "re");

	if (!from)
		return &by_hand;
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
	pclose(from);
	/* The units have nothing to do with another socket. */
	if (!unit[0].loaded || !unit[0].listens)
		return &by_hand;
	if (!streq(unit[0].state, "active"))
		return &sockets_stopped;
	if (streq(unit[1].state, "failed"))
		return &failed;
	if (streq(unit[1].state, "inactive"))
		return &stopped;
	return strstr(unit[1].state, "activating") ? &starts : &runs;
}

/*
 * The kernel counts the fds in flight for all processes of a user together (daemon/connection/inflight.c), so another program
 * of the daemon's user could use up the daemon's share.
 */
void doctor_check_user(struct doctor *doctor)
{
	pid_t pid = (pid_t)row_get_u64(doctor->status, "pid"), one, other_pid = 0;
	struct process_status daemon, process, other = { 0 };
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
		if (one == 0 || one == pid || !process_read(one, &process) || process.uid != daemon.uid ||
		    process.parent == pid)
			continue;
		n++;
		other = process;
		other_pid = one;
	}
	if (directory)
		closedir(directory);
	if (n > 0)
		finding(doctor, MARK_NOTE, "user",
			"Give the daemon a user of its own (--user=, or User= in its unit): file descriptors that other programs "
			"of its user send, and that are not received, can keep the daemon from sending any.",
			"%u other %s user %u, which is the daemon's, such as %s (pid %d)", n,
			n == 1 ? "process runs as" : "processes run as", daemon.uid, safe_string(other.comm).text,
			(int)other_pid);
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
