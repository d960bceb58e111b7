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
	bool is_inside;	 /* in a tenant of the daemon's */
	struct writer writer;
	UT_hash_handle by_pid;
};

void writers_deinit(struct session *session)
{
	struct process *process, *next;

	HASH_ITER(by_pid, session->processes, process, next) {
		HASH_DELETE(by_pid, session->processes, process);
		free(process->writer.tenant);
		free(process);
	}
}

static struct process *writers_get(struct session *session, uint64_t pid)
{
	struct process *process;

	HASH_FIND(by_pid, session->processes, &pid, sizeof(pid), process);
	if (process)
		return process;
	process = must(calloc(1, sizeof(*process)));
	process->pid = pid;
	process->writer.uid = UID_UNKNOWN;
	HASH_ADD(by_pid, session->processes, pid, sizeof(pid), process);
	return must(table_added() ? process : NULL);
}

static void set_tenant(struct process *process, const char *tenant, size_t length, bool is_inside)
{
	char *copy = must(strndup(tenant, length));

	free(process->writer.tenant);
	process->writer.tenant = copy;
	process->is_inside = is_inside;
}

static void learn_holder(struct session *session, struct cursor row)
{
	struct process *process = writers_get(session, row_get_u64(row, "pid"));
	struct row_field tenant;

	if (!row_find(row, "tenant", &tenant))
		return;
	set_tenant(process, (const char *)tenant.value, tenant.length, true);
	process->writer.uid = row_get_u64(row, "uid");
	if (process->looked == 0)
		row_get_string(row, "comm", process->writer.comm, sizeof(process->writer.comm));
}

void writers_learn(struct session *session, const struct catalogue *catalogue)
{
	for (size_t i = 0; i < catalogue->n; i++) {
		struct cursor holders = row_rows(catalogue->events[i].row, "holders"), holder;

		while (row_next_item(&holders, &holder) > 0)
			learn_holder(session, holder);
	}
}

/* The length of the innermost known tenant's path that contains the cgroup; 0: there is none. */
static size_t find_tenant(const struct session *session, const char *cgroup)
{
	size_t best = 0;

	for (const struct process *other = session->processes; other; other = other->by_pid.next) {
		const char *tenant = other->is_inside ? other->writer.tenant : "";
		size_t length = strlen(tenant);

		if (length > best && strncmp(cgroup, tenant, length) == 0 &&
		    (cgroup[length] == '/' || cgroup[length] == '\0'))
			best = length;
	}
	return best;
}

/* From /proc; false: the process has ended. */
static bool read_process(struct session *session, struct process *process)
{
	const struct cgroups cgroups = { 0 };
	struct process_status status;
	char cgroup[PATH_MAX];
	size_t length;

	if (!process_read((pid_t)process->pid, &status))
		return false;
	string_copy(process->writer.comm, sizeof(process->writer.comm), status.comm);
	process->writer.uid = status.uid;
	if (cgroup_of_process(&cgroups, status.process, cgroup, sizeof(cgroup)) < 0)
		return true;
	length = find_tenant(session, cgroup);
	if (length == 0) {
		session_ask_daemon(session);
		length = find_tenant(session, cgroup);
	}
	set_tenant(process, cgroup, length > 0 ? length : strlen(cgroup), length > 0);
	return true;
}

const struct writer *writers_find(struct session *session, uint64_t pid)
{
	uint64_t now = ctl_now_ns();
	struct process *process;
	bool is_new;

	if (HASH_CNT(by_pid, session->processes) > PROCESSES_MAX)
		writers_deinit(session);
	process = writers_get(session, pid);
	is_new = process->looked == 0;
	if (!is_new && now - process->looked < FRESH_MS * NS_PER_MS)
		return &process->writer;
	process->looked = now;
	/* A process that has ended is known from the daemon, or from the kernel. */
	if (!read_process(session, process) && is_new && !process->is_inside) {
		_cleanup_(freep) char *commands = tracefs_instance_file_read(NULL, "saved_cmdlines", NULL);

		if (commands)
			text_find_command(commands, pid, process->writer.comm);
	}
	return &process->writer;
}
