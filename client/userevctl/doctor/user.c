/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Whether the daemon shares its user with other programs. The kernel counts the fds that are in flight for all processes of a
 * user together (daemon/connection/inflight.c), so another program of that user could leave the daemon none to send.
 */

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>

#include "client/userevctl/doctor/doctor.h"
#include "protocol/base/text.h"

/* What /proc/PID/status says, as far as it is wanted here. False: the process has gone, or is not to be seen. */
struct process {
	pid_t pid, parent;
	uid_t uid;
	char comm[64];
};

static bool read_process(pid_t pid, struct process *ret)
{
	char path[64], line[256];
	struct process process = { .pid = pid, .uid = (uid_t)-1 };
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Name:\t", 6) == 0) {
			line[strcspn(line, "\n")] = '\0';
			string_copy(process.comm, sizeof(process.comm), line + 6);
		}
		if (strncmp(line, "PPid:\t", 6) == 0)
			process.parent = (pid_t)strtol(line + 6, NULL, 10);
		/* Those in effect come behind the real ones. */
		if (strncmp(line, "Uid:\t", 5) == 0)
			process.uid = (uid_t)strtoul(line + 5 + strcspn(line + 5, "\t"), NULL, 10);
	}
	if (file)
		fclose(file);
	*ret = process;
	return process.uid != (uid_t)-1;
}

/* Not the daemon, nor what belongs to it: its child that removes the sockets' files. */
static bool is_another(const struct process *process, const struct process *daemon)
{
	return process->uid == daemon->uid && process->pid != daemon->pid && process->parent != daemon->pid;
}

/* How many there are, and one of them. */
static unsigned count_others(const struct process *daemon, struct process *ret)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	unsigned n = 0;

	while (directory && (entry = readdir(directory))) {
		struct process process;

		if (!isdigit((unsigned char)*entry->d_name))
			continue;
		if (read_process((pid_t)strtol(entry->d_name, NULL, 10), &process) && is_another(&process, daemon) &&
		    n++ == 0)
			*ret = process;
	}
	if (directory)
		closedir(directory);
	return n;
}

void doctor_check_user(struct doctor *doctor)
{
	struct process daemon, other = { 0 };
	struct cursor row = { 0 };
	char buffer[4 * sizeof(other.comm)];
	struct text comm = text_make(buffer, sizeof(buffer));
	unsigned n;

	if (!doctor->control || control_ask_row(doctor->control, KIND_STATUS, &row) <= 0 ||
	    !read_process((pid_t)row_get_u64(row, "pid"), &daemon))
		return;
	/* A daemon that a user has started for programs of its own harms nobody else. */
	if (daemon.uid != 0 && daemon.uid == geteuid())
		return;
	n = count_others(&daemon, &other);
	if (n == 0)
		return;
	text_safe(&comm, other.comm, strlen(other.comm));
	finding(&doctor->findings, MARK_NOTE, "user",
		"Give the daemon a user that nothing else runs as (--user=, or User= in its unit): file descriptors that "
		"other programs of its user send and nobody takes can keep the daemon from sending any.",
		"%u other %s user %u, which is the daemon's, such as %s (pid %d)", n,
		n == 1 ? "process runs as" : "processes run as", daemon.uid, buffer, (int)other.pid);
}
