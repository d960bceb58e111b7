/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Who wrote a record? It has nothing but a pid (a thread's, as all tracers show it), and the process may have ended.
 * What is known of a pid comes from /proc while it lives, its tenant from the daemon, which knows its clients; for one
 * whose parent is the client, from its cgroup. What was learnt stays for those that have ended since.
 */

#include <inttypes.h>
#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/table.h"

enum {
	FRESH_MS = 1000, /* so long a pid is believed to be the same process */
	HOLDERS_MAX = 65536,
	KNOWN_MAX = 4096,
};

struct holder {
	uint64_t pid;
	uint64_t uid;
	uint64_t answer; /* in which answer of the daemon it was, the last time */
	struct tenant_name *tenant;
	char comm[64];
	UT_hash_handle by_pid;
};

struct tenant_name {
	UT_hash_handle by_name;
	size_t length;
	char name[];
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
	struct tenant_name *tenants;
	struct known *known;
	struct known spare; /* where memory is short */
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
	struct tenant_name *tenant, *next;

	if (!writers)
		return NULL;
	forget_holders(writers);
	forget_known(writers);
	HASH_ITER(by_name, writers->tenants, tenant, next) {
		HASH_DELETE(by_name, writers->tenants, tenant);
		free(tenant);
	}
	free(writers);
	return NULL;
}

void writers_begin(struct writers *writers)
{
	writers->answer++;
	if (HASH_CNT(by_pid, writers->holders) > HOLDERS_MAX)
		forget_holders(writers);
}

static struct tenant_name *get_tenant(struct writers *writers, const char *name, size_t length)
{
	struct tenant_name *tenant;

	HASH_FIND(by_name, writers->tenants, name, length, tenant);
	if (tenant)
		return tenant;
	tenant = calloc(1, sizeof(*tenant) + length + 1);
	if (!tenant)
		return NULL;
	memcpy(tenant->name, name, length);
	tenant->length = length;
	HASH_ADD_KEYPTR(by_name, writers->tenants, tenant->name, length, tenant);
	if (table_added())
		return tenant;
	free(tenant);
	return NULL;
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

		/* One program holds many events. */
		if (!holder || holder->answer == writers->answer)
			continue;
		if (!row_find(item, "tenant", &field) || field.length > WIRE_TENANT_MAX)
			continue;
		holder->tenant = get_tenant(writers, (const char *)field.value, field.length);
		holder->uid = row_get_u64(item, "uid");
		row_get_string(item, "comm", holder->comm, sizeof(holder->comm));
		holder->answer = writers->answer;
	}
}

static const struct holder *find_holder(struct writers *writers, uint64_t pid)
{
	struct holder *holder;

	HASH_FIND(by_pid, writers->holders, &pid, sizeof(pid), holder);
	return holder && holder->tenant ? holder : NULL;
}

/* A process that lives: what was said of its pid before may be about another one, and the daemon is asked again. */
static const struct holder *find_present_holder(struct writers *writers, uint64_t pid)
{
	const struct holder *holder = find_holder(writers, pid);

	if (holder && holder->answer == writers->answer)
		return holder;
	writers->ask(writers->data);
	holder = find_holder(writers, pid);
	return holder && holder->answer == writers->answer ? holder : NULL;
}

/* A small file of /proc/PID: its size, or a negative errno. */
static ssize_t read_process_file(uint64_t pid, const char *name, char *ret, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return n;
}

/* The longest tenant that is the cgroup or above it; where none is, the cgroup itself. */
static void tenant_of_cgroup(struct writers *writers, const char *cgroup, char *ret, size_t size)
{
	const char *best = cgroup;
	size_t longest = 0;

	for (struct tenant_name *tenant = writers->tenants; tenant; tenant = tenant->by_name.next) {
		bool above = strncmp(cgroup, tenant->name, tenant->length) == 0 &&
			     (cgroup[tenant->length] == '/' || cgroup[tenant->length] == '\0');

		if (above && tenant->length > longest) {
			best = tenant->name;
			longest = tenant->length;
		}
	}
	string_copy(ret, size, best);
}

static void read_tenant(struct writers *writers, uint64_t pid, struct writer *writer)
{
	char text[2 * WIRE_TENANT_MAX], *line;

	writer->tenant[0] = '\0';
	if (read_process_file(pid, "cgroup", text, sizeof(text)) < 0)
		return;
	line = strstr(text, "0::/");
	if (!line || (line > text && line[-1] != '\n'))
		return;
	line += strlen("0::");
	line[strcspn(line, "\n")] = '\0';
	tenant_of_cgroup(writers, line, writer->tenant, sizeof(writer->tenant));
}

/* From /proc: whether it is there. */
static bool look_at_process(struct writers *writers, uint64_t pid, struct writer *writer)
{
	const struct holder *holder;
	uint64_t process = pid;
	char status[4096];
	const char *uid;

	if (read_process_file(pid, "status", status, sizeof(status)) < 0 ||
	    read_process_file(pid, "comm", writer->comm, sizeof(writer->comm)) < 0)
		return false;
	writer->comm[strcspn(writer->comm, "\n")] = '\0';
	text_find_number(status, "Tgid", &process);
	/* Real, then effective. */
	uid = strstr(status, "\nUid:");
	writer->uid_known = uid && sscanf(uid, "\nUid: %*u %" SCNu64, &writer->uid) == 1;
	holder = find_present_holder(writers, process);
	if (holder)
		string_copy(writer->tenant, sizeof(writer->tenant), holder->tenant->name);
	else
		read_tenant(writers, process, writer);
	return true;
}

/* It has ended: what the daemon, and the kernel, still know. */
static void remember_process(struct writers *writers, uint64_t pid, struct writer *writer)
{
	_cleanup_(freep) char *commands = NULL;
	const struct holder *holder = find_holder(writers, pid);

	if (holder) {
		string_copy(writer->comm, sizeof(writer->comm), holder->comm);
		string_copy(writer->tenant, sizeof(writer->tenant), holder->tenant->name);
		writer->uid = holder->uid;
		writer->uid_known = true;
		return;
	}
	commands = tracefs_text("saved_cmdlines", NULL);
	if (!commands || !cmdlines_find(commands, pid, writer->comm, sizeof(writer->comm)))
		writer->comm[0] = '\0';
}

static struct known *add_known(struct writers *writers, uint64_t pid)
{
	struct known *known;

	if (HASH_CNT(by_pid, writers->known) > KNOWN_MAX)
		forget_known(writers);
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->pid = pid;
	HASH_ADD(by_pid, writers->known, pid, sizeof(pid), known);
	if (table_added())
		return known;
	free(known);
	return NULL;
}

const struct writer *writers_find(struct writers *writers, uint64_t pid)
{
	uint64_t now = monotonic_ns();
	bool is_new;
	struct known *known;

	HASH_FIND(by_pid, writers->known, &pid, sizeof(pid), known);
	if (known && now - known->looked < FRESH_MS * UINT64_C(1000000))
		return &known->writer;
	is_new = !known;
	if (is_new)
		known = add_known(writers, pid);
	if (!known) {
		known = &writers->spare;
		known->writer = (struct writer){ 0 };
	}
	if (!look_at_process(writers, pid, &known->writer) && is_new)
		remember_process(writers, pid, &known->writer);
	known->looked = now;
	return &known->writer;
}
