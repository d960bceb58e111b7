/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The process that wrote a record. The record has only a pid (of the thread, as all tracers show it), and the process may have
 * ended. While it lives its name and user come from /proc and its tenant from the daemon; if it is no client (a child of one,
 * say), its tenant comes from its cgroup. The data is kept for processes that end later.
 */

#include "client/userevctl/process.h"
#include "client/userevctl/tracing/tracefs.h"
#include "daemon/identity/cgroup.h"

enum {
	FRESH_MS = 1000, /* for that time a pid is taken for the same process */
	PROCESSES_MAX = 65536,
};

struct process {
	uint64_t pid;
	uint64_t looked; /* ns; 0: /proc was not read yet */
	uint64_t answer; /* the number of the daemon's last answer in which it held an event; 0: none */
	struct writer writer;
	UT_hash_handle by_pid;
};

static void set_tenant(struct process *process, const char *tenant, size_t length)
{
	free(process->writer.tenant);
	process->writer.tenant = must(strndup(tenant, length));
}

void writers_deinit(struct writers *writers)
{
	struct process *process, *next;

	HASH_ITER(by_pid, writers->processes, process, next) {
		HASH_DELETE(by_pid, writers->processes, process);
		free(process->writer.tenant);
		free(process);
	}
}

static struct process *writers_get(struct writers *writers, uint64_t pid)
{
	struct process *process;

	HASH_FIND(by_pid, writers->processes, &pid, sizeof(pid), process);
	if (process)
		return process;
	process = must(calloc(1, sizeof(*process)));
	process->pid = pid;
	HASH_ADD(by_pid, writers->processes, pid, sizeof(pid), process);
	return must(table_added() ? process : NULL);
}

static void learn_holder(struct writers *writers, struct cursor row)
{
	struct process *process = writers_get(writers, row_get_u64(row, "pid"));
	struct writer *writer = &process->writer;
	struct row_field tenant;

	/* Most programs hold many events. */
	if (process->answer == writers->answer || !row_find(row, "tenant", &tenant))
		return;
	process->answer = writers->answer;
	set_tenant(process, (const char *)tenant.value, tenant.length);
	writer->uid = row_get_u64(row, "uid");
	writer->uid_known = true;
	if (process->looked == 0)
		row_get_string(row, "comm", writer->comm, sizeof(writer->comm));
}

void writers_learn(struct writers *writers, const struct catalogue *catalogue)
{
	writers->answer++;
	for (size_t i = 0; i < catalogue->n; i++) {
		struct cursor holders = row_rows(catalogue->events[i].row, "holders"), holder;

		while (row_next_item(&holders, &holder) > 0)
			learn_holder(writers, holder);
	}
}

/* The innermost known tenant that contains the cgroup of the process; if there is none, the cgroup itself. */
static void read_tenant(const struct writers *writers, struct process *process, pid_t pid)
{
	const struct cgroups cgroups = { 0 };
	char cgroup[PATH_MAX];
	size_t best = 0;

	if (cgroup_of_process(&cgroups, pid, cgroup, sizeof(cgroup)) < 0)
		return;
	for (const struct process *other = writers->processes; other; other = other->by_pid.next) {
		const char *tenant = other->answer > 0 ? other->writer.tenant : "";
		size_t length = strlen(tenant);

		if (length > best && strncmp(cgroup, tenant, length) == 0 &&
		    (cgroup[length] == '/' || cgroup[length] == '\0'))
			best = length;
	}
	/* Then no tenant that other processes could be in. */
	if (best == 0)
		process->answer = 0;
	set_tenant(process, cgroup, best > 0 ? best : strlen(cgroup));
}

/* From /proc; false: the process has ended. */
static bool read_process(struct session *session, struct process *thread)
{
	struct writers *writers = &session->writers;
	struct writer *writer = &thread->writer;
	struct process_status status;
	struct process *process;

	if (!process_read((pid_t)thread->pid, &status))
		return false;
	string_copy(writer->comm, sizeof(writer->comm), status.comm);
	writer->uid = status.uid;
	writer->uid_known = true;
	process = writers_get(writers, (uint64_t)status.process);
	/* An older answer may be about another process of the same pid. */
	if (process->answer == 0 || process->answer != writers->answer)
		session_ask_daemon(session);
	if (process->answer == 0 || process->answer != writers->answer)
		read_tenant(writers, thread, status.process);
	else if (process != thread)
		set_tenant(thread, process->writer.tenant, strlen(process->writer.tenant));
	return true;
}

const struct writer *writers_find(struct session *session, uint64_t pid)
{
	struct writers *writers = &session->writers;
	uint64_t now = ctl_now_ns();
	struct process *process;
	bool is_new;

	if (HASH_CNT(by_pid, writers->processes) > PROCESSES_MAX)
		writers_deinit(writers);
	process = writers_get(writers, pid);
	is_new = process->looked == 0;
	if (!is_new && now - process->looked < FRESH_MS * NS_PER_MS)
		return &process->writer;
	process->looked = now;
	/* A process that has ended is known from the daemon, or from the kernel. */
	if (!read_process(session, process) && is_new && process->answer == 0) {
		_cleanup_(freep) char *commands = tracefs_text("saved_cmdlines");

		if (commands)
			text_find_command(commands, pid, process->writer.comm);
	}
	return &process->writer;
}
