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

void writers_deinit(struct follower *follower)
{
	struct writer *writer, *next;

	follower->last_writer = NULL;
	HASH_ITER(by_pid, follower->writers, writer, next) {
		HASH_DELETE(by_pid, follower->writers, writer);
		free(writer->tenant);
		free(writer);
	}
}

static struct writer *writers_get(struct follower *follower, uint64_t pid)
{
	struct writer *writer;

	NUMBER_FIND(by_pid, follower->writers, pid, writer);
	if (writer)
		return writer;
	writer = must(calloc(1, sizeof(*writer)));
	writer->pid = pid;
	writer->uid = UID_UNKNOWN;
	NUMBER_ADD(by_pid, follower->writers, pid, writer);
	return must(table_added() ? writer : NULL);
}

static void set_tenant(struct writer *writer, const char *tenant, size_t length, bool is_inside)
{
	char *copy = must(strndup(tenant, length));

	free(writer->tenant);
	writer->tenant = copy;
	writer->is_inside = is_inside;
}

void writers_learn(struct follower *follower, const struct catalogue *catalogue)
{
	for (size_t i = 0; i < catalogue->n; i++) {
		struct cursor holders = row_rows(catalogue->events[i].row, "holders"), holder;

		while (row_next_item(&holders, &holder) > 0) {
			struct writer *writer = writers_get(follower, row_get_u64(holder, "pid"));
			struct row_field tenant;

			if (!row_find(holder, "tenant", &tenant))
				continue;
			writer->version = ++follower->versions;
			set_tenant(writer, (const char *)tenant.value, tenant.length, true);
			writer->uid = row_get_u64(holder, "uid");
			if (writer->looked == 0)
				row_get_string(holder, "comm", writer->comm, sizeof(writer->comm));
		}
	}
}

/* The length of the innermost known tenant's path that contains the cgroup; 0: there is none. */
static size_t find_tenant(const struct follower *follower, const char *cgroup)
{
	size_t best = 0;

	for (const struct writer *other = follower->writers; other; other = other->by_pid.next) {
		const char *tenant = other->is_inside ? other->tenant : "";
		size_t length = strlen(tenant);

		/* The tenant "/" has the processes of the root alone. */
		if (length > best && (length > 1 ? cgroup_is_inside(cgroup, tenant) : streq(cgroup, tenant)))
			best = length;
	}
	return best;
}

/* From /proc; false: the process has ended. */
static bool read_process(struct follower *follower, struct writer *writer)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	const struct cgroups cgroups = { 0 };
	struct process_status status;
	uint64_t now = ctl_now_ns();
	char cgroup[PATH_MAX];
	size_t length;

	if (!process_read((pid_t)writer->pid, &status))
		return false;
	string_copy(writer->comm, sizeof(writer->comm), status.comm);
	writer->uid = status.uid;
	if (cgroup_of_process(&cgroups, status.process, cgroup, sizeof(cgroup)) < 0)
		return true;
	length = find_tenant(follower, cgroup);
	/* Perhaps the daemon knows more than when it was asked last. */
	if (length == 0 && !follower->tracing->no_daemon && now - follower->asked >= look_pause(follower)) {
		follower->asked = now;
		if (tracing_read(follower->tracing, NULL, &catalogue) == 0)
			writers_learn(follower, &catalogue);
		length = find_tenant(follower, cgroup);
	}
	set_tenant(writer, cgroup, length > 0 ? length : strlen(cgroup), length > 0);
	return true;
}

const struct writer *writers_find(struct follower *follower, uint64_t pid, uint64_t now)
{
	struct writer *writer = follower->last_writer;
	bool is_new;

	/* Most records are of the same process. */
	if (writer && writer->pid == pid && now < writer->looked + FRESH_MS * NS_PER_MS)
		return writer;
	if (HASH_CNT(by_pid, follower->writers) > PROCESSES_MAX)
		writers_deinit(follower);
	writer = follower->last_writer = writers_get(follower, pid);
	is_new = writer->looked == 0;
	if (!is_new && now < writer->looked + FRESH_MS * NS_PER_MS)
		return writer;
	writer->looked = now;
	writer->version = ++follower->versions;
	/* A process that has ended is known from the daemon, or from the kernel. */
	if (!read_process(follower, writer) && is_new && !writer->is_inside) {
		_cleanup_(freep) char *commands = tracefs_instance_file_read(NULL, "saved_cmdlines", NULL);

		if (commands)
			text_find_command(commands, pid, writer->comm);
	}
	return writer;
}
