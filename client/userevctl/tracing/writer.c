/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The process that wrote a record. The record has only a pid (of the thread, as all tracers show it), and the process may have
 * ended. While it lives its name and user come from /proc and its tenant from the daemon; if it is no client (a child of one,
 * say), its tenant comes from its cgroup. The data is kept for processes that end later.
 */

#include <inttypes.h>
#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/table.h"

enum {
	FRESH_MS = 1000, /* for that time a pid is taken for the same process */
	HOLDERS_MAX = 65536,
	KNOWN_MAX = 4096,
};

/* A client of the daemon that holds an event. */
struct holder {
	uint64_t pid;
	uint64_t uid;
	uint64_t answer; /* the number of the last answer of the daemon that had it */
	char *tenant;
	size_t tenant_length;
	char comm[64];
	UT_hash_handle by_pid;
};

struct known {
	uint64_t pid;
	uint64_t looked; /* ns */
	struct writer writer;
	UT_hash_handle by_pid;
};

struct writers {
	writers_ask *ask;
	void *data;
	uint64_t answer;
	struct holder *holders;
	struct known *known;
	struct known spare; /* if memory is short */
};

int writers_new(writers_ask *ask, void *data, struct writers **ret)
{
	struct writers *writers = calloc(1, sizeof(*writers));

	if (!writers)
		return -ENOMEM;
	writers->ask = ask;
	writers->data = data;
	*ret = writers;
	return 0;
}

static void forget_holders(struct writers *writers)
{
	struct holder *holder, *next;

	HASH_ITER(by_pid, writers->holders, holder, next) {
		HASH_DELETE(by_pid, writers->holders, holder);
		free(holder->tenant);
		free(holder);
	}
}

static void forget_known(struct writers *writers)
{
	struct known *known, *next;

	HASH_ITER(by_pid, writers->known, known, next) {
		HASH_DELETE(by_pid, writers->known, known);
		free(known);
	}
}

struct writers *writers_free(struct writers *writers)
{
	if (!writers)
		return NULL;
	forget_holders(writers);
	forget_known(writers);
	free(writers);
	return NULL;
}

void writers_begin(struct writers *writers)
{
	writers->answer++;
	if (HASH_CNT(by_pid, writers->holders) > HOLDERS_MAX)
		forget_holders(writers);
}

static struct holder *get_holder(struct writers *writers, uint64_t pid)
{
	struct holder *holder;

	HASH_FIND(by_pid, writers->holders, &pid, sizeof(pid), holder);
	if (holder)
		return holder;
	holder = calloc(1, sizeof(*holder));
	if (!holder)
		return NULL;
	holder->pid = pid;
	HASH_ADD(by_pid, writers->holders, pid, sizeof(pid), holder);
	if (table_added())
		return holder;
	free(holder);
	return NULL;
}

void writers_learn(struct writers *writers, struct cursor row)
{
	struct row_field field;
	struct cursor holders = { 0 }, item;

	if (row_find(row, "holders", &field) && field.type == ROW_ROWS)
		holders = cursor_make(field.value, field.length);
	while (row_next_item(&holders, &item) > 0) {
		struct holder *holder = get_holder(writers, row_get_u64(item, "pid"));

		/* Most programs hold many events. */
		if (!holder || holder->answer == writers->answer || !row_find(item, "tenant", &field) ||
		    field.length > WIRE_TENANT_MAX)
			continue;
		free(holder->tenant);
		holder->tenant = strndup((const char *)field.value, field.length);
		holder->tenant_length = holder->tenant ? strlen(holder->tenant) : 0;
		holder->uid = row_get_u64(item, "uid");
		row_get_string(item, "comm", holder->comm, sizeof(holder->comm));
		holder->answer = writers->answer;
	}
}

static const struct holder *find_holder(struct writers *writers, uint64_t pid, bool present)
{
	struct holder *holder;

	HASH_FIND(by_pid, writers->holders, &pid, sizeof(pid), holder);
	return holder && holder->tenant && (!present || holder->answer == writers->answer) ? holder : NULL;
}

/* A small file of /proc/PID: whether it was read. */
static bool read_process_file(uint64_t pid, const char *name, char *ret, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	if (n < 0)
		return false;
	ret[n] = '\0';
	return true;
}

/* The innermost known tenant that contains the cgroup of the process; if there is none, the cgroup itself. */
static void read_tenant(struct writers *writers, uint64_t pid, struct writer *writer)
{
	char text[2 * WIRE_TENANT_MAX], *cgroup;
	const char *best;
	size_t longest = 0;

	writer->tenant[0] = '\0';
	if (!read_process_file(pid, "cgroup", text, sizeof(text)))
		return;
	cgroup = strstr(text, "0::/");
	if (!cgroup || (cgroup > text && cgroup[-1] != '\n'))
		return;
	cgroup += strlen("0::");
	cgroup[strcspn(cgroup, "\n")] = '\0';
	best = cgroup;
	for (const struct holder *holder = writers->holders; holder; holder = holder->by_pid.next) {
		size_t length = holder->tenant_length;

		if (length <= longest || strncmp(cgroup, holder->tenant, length) != 0 ||
		    (cgroup[length] != '/' && cgroup[length] != '\0'))
			continue;
		best = holder->tenant;
		longest = length;
	}
	string_copy(writer->tenant, sizeof(writer->tenant), best);
}

/* From /proc; false: the process has ended. */
static bool read_process(struct writers *writers, uint64_t pid, struct writer *writer)
{
	const struct holder *holder;
	uint64_t process = pid;
	char status[4096];
	const char *uid;

	if (!read_process_file(pid, "status", status, sizeof(status)) ||
	    !read_process_file(pid, "comm", writer->comm, sizeof(writer->comm)))
		return false;
	writer->comm[strcspn(writer->comm, "\n")] = '\0';
	text_find_number(status, "Tgid", &process);
	/* The effective one stands behind the real one. */
	uid = strstr(status, "\nUid:");
	writer->uid_known = uid && sscanf(uid, "\nUid: %*u %" SCNu64, &writer->uid) == 1;
	/* An older answer may be about another process of the same pid. */
	holder = find_holder(writers, process, true);
	if (!holder) {
		writers->ask(writers->data);
		holder = find_holder(writers, process, true);
	}
	if (holder)
		string_copy(writer->tenant, sizeof(writer->tenant), holder->tenant);
	else
		read_tenant(writers, process, writer);
	return true;
}

/* A process that has ended: from the daemon, or from the kernel. */
static void remember_process(struct writers *writers, uint64_t pid, struct writer *writer)
{
	const struct holder *holder = find_holder(writers, pid, false);
	_cleanup_(freep) char *commands = holder ? NULL : tracefs_text("saved_cmdlines", NULL);

	if (holder) {
		string_copy(writer->comm, sizeof(writer->comm), holder->comm);
		string_copy(writer->tenant, sizeof(writer->tenant), holder->tenant);
		writer->uid = holder->uid;
		writer->uid_known = true;
	} else if (!commands || !text_find_command(commands, pid, writer->comm, sizeof(writer->comm))) {
		writer->comm[0] = '\0';
	}
}

const struct writer *writers_find(struct writers *writers, uint64_t pid)
{
	uint64_t now = ctl_now_ns();
	struct known *known;
	bool is_new;

	HASH_FIND(by_pid, writers->known, &pid, sizeof(pid), known);
	if (known && now - known->looked < FRESH_MS * NS_PER_MS)
		return &known->writer;
	is_new = !known;
	if (is_new) {
		if (HASH_CNT(by_pid, writers->known) > KNOWN_MAX)
			forget_known(writers);
		known = calloc(1, sizeof(*known));
	}
	if (is_new && known) {
		known->pid = pid;
		HASH_ADD(by_pid, writers->known, pid, sizeof(pid), known);
		if (!table_added()) {
			free(known);
			known = NULL;
		}
	}
	if (!known) {
		known = &writers->spare;
		known->writer = (struct writer){ 0 };
	}
	if (!read_process(writers, pid, &known->writer) && is_new)
		remember_process(writers, pid, &known->writer);
	known->looked = now;
	return &known->writer;
}
