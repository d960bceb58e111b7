/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Traces that tenants make of themselves: what they have in them, and what others notice of that. */

#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "client/userev.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"
#include "tests/integration/silence.h"

#define OWN_TRACING ROOT_IS_TRUSTED "OwnTracing=yes\n"
#define OWN_TEST(name, ...)                                                                                            \
	DAEMON_TEST(name, .policy = OWN_TRACING, .needs_cgroups = "tenants of their own", __VA_ARGS__)

/* --- readers --- */

struct reader {
	struct actor actor;
	int fd;
};

struct own_record {
	struct wire_own_record header;
	struct ucred writer;
	char description[WIRE_DESCRIPTION_MAX + 1];
	uint32_t number; /* of its first field */
	size_t size;
};

static void ask_for_trace(int socket, const char *pattern)
{
	raw_strings(KIND_TRACE_OWN, 0, &pattern, pattern != NULL, 0);
	ck_assert_int_eq(raw_send(socket), 0);
}

static int take_trace(int socket)
{
	struct raw_reply reply;
	int fd;

	raw_receive(socket, &reply);
	while (reply.size > 0 && reply.message.kind == KIND_TRACED) {
		raw_reply_deinit(&reply);
		raw_receive(socket, &reply);
	}
	ck_assert_msg(reply.size > 0 && reply.message.kind == KIND_TRACING_OWN && reply.fds.count == 1, "kind %u",
		      reply.message.kind);
	fd = fdset_steal(&reply.fds, 0);
	raw_reply_deinit(&reply);
	return fd;
}

/* A program's end. */
static int take_traced(int socket)
{
	struct raw_reply reply;
	int fd;

	raw_receive(socket, &reply);
	ck_assert(reply.size > 0 && reply.message.kind == KIND_TRACED && reply.fds.count == 1);
	fd = fdset_steal(&reply.fds, 0);
	raw_reply_deinit(&reply);
	return fd;
}

/* Behind what the daemon tells of other traces. */
static void expect_trace_refused(int socket, uint32_t refusal, const char *words)
{
	struct wire_header header;

	while (recv(socket, &header, sizeof(header), MSG_PEEK) == sizeof(header) && header.kind == KIND_TRACED)
		expect_kind_with_fds(socket, KIND_TRACED, 1);
	expect_cut_with(socket, refusal, words);
}

static struct reader reader_in(const struct fixture *fixture, const char *cgroup, const char *pattern)
{
	struct reader reader = { .actor = actor_in(fixture, make_cgroup(cgroup), 0) };

	ask_for_trace(reader.actor.socket, pattern);
	reader.fd = take_trace(reader.actor.socket);
	return reader;
}

static void reader_end(struct reader *reader)
{
	reader->fd = fd_close(reader->fd);
	actor_end(&reader->actor);
}

#define READER(name, cgroup, pattern) _cleanup_(reader_end) struct reader name = reader_in(fixture, cgroup, pattern)

/* False: there is none now. */
static bool read_own(int fd, struct own_record *ret)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	static uint8_t buffer[8192];
	struct iovec iov = { buffer, sizeof(buffer) };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT);
	const uint8_t *payload;

	if (size <= 0)
		return false;
	*ret = (struct own_record){ .size = (size_t)size };
	ck_assert_int_ge(size, sizeof(ret->header));
	memcpy(&ret->header, buffer, sizeof(ret->header));
	ck_assert(CMSG_FIRSTHDR(&message) && CMSG_FIRSTHDR(&message)->cmsg_type == SCM_CREDENTIALS);
	memcpy(&ret->writer, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(ret->writer));
	string_copy(ret->description, ret->header.description_length + 1, (const char *)buffer + sizeof(ret->header));
	payload = buffer + sizeof(ret->header) + ret->header.description_length;
	if (payload + sizeof(ret->number) <= buffer + size)
		memcpy(&ret->number, payload, sizeof(ret->number));
	return true;
}

static unsigned count_own(int fd)
{
	struct own_record record;
	unsigned n = 0;

	while (read_own(fd, &record))
		n++;
	return n;
}

/* --- programs with the library --- */

/* A process in a cgroup with an event: `emit` records for each request, numbered on. */
struct emitter {
	pid_t pid;
	int leash;
};

enum { EMITTER_QUIT = UINT32_MAX };

/* Answers with how many records userev_writev() took. */
static _Noreturn void emit_on_demand(const char *socket, const char *description)
{
	struct userev *userev = userev_open(socket, 0);
	static struct userev_event event;
	uint32_t wanted, number = 0, taken;

	ck_assert_int_eq(userev_register(userev, &event, description, 0), 0);
	ck_assert_int_eq(write(3, "x", 1), 1);
	while (read(3, &wanted, sizeof(wanted)) == sizeof(wanted)) {
		taken = 0;
		for (uint32_t i = 0; i < wanted; i++) {
			taken += userev_write(&event, &number, sizeof(number)) > 0;
			number++;
		}
		ck_assert_int_eq(write(3, &taken, sizeof(taken)), sizeof(taken));
	}
	userev_close(userev);
	_exit(EXIT_SUCCESS);
}

static struct emitter emitter_in(const struct fixture *fixture, const char *cgroup, const char *description)
{
	const struct actor_as as = { .cgroup = cgroup ? make_cgroup(cgroup) : NULL };
	struct emitter emitter = { .leash = -1 };
	char byte;

	emitter.pid = actor_fork(-1, &emitter.leash);
	if (emitter.pid == 0) {
		actor_become(&as);
		emit_on_demand(fixture->socket, description);
	}
	ck_assert_int_eq(read(emitter.leash, &byte, 1), 1);
	return emitter;
}

static uint32_t emit(const struct emitter *emitter, uint32_t n)
{
	uint32_t taken = 0;

	ck_assert_int_eq(write(emitter->leash, &n, sizeof(n)), sizeof(n));
	ck_assert_int_eq(read(emitter->leash, &taken, sizeof(taken)), sizeof(taken));
	return taken;
}

static void emitter_end(struct emitter *emitter)
{
	emitter->leash = fd_close(emitter->leash);
	await_success(emitter->pid);
}

#define EMITTER(name, cgroup, description)                                                                             \
	_cleanup_(emitter_end) struct emitter name = emitter_in(fixture, cgroup, description)

/* Where the kernel has one page for all. */
static bool can_trace_itself(const struct fixture *fixture)
{
	if (has_a_page_per_tenant(fixture))
		return true;
	{
		struct actor actor = actor_in(fixture, make_cgroup("one"), 0);

		ask_for_trace(actor.socket, NULL);
		expect_trace_refused(actor.socket, REFUSAL_KERNEL_TOO_OLD, "Linux 6.4 is needed");
		actor_end(&actor);
	}
	return false;
}

/* --- what is in a trace --- */

static uint64_t see_records(struct fixture *fixture, const char *event)
{
	struct seen seen;

	see(fixture, event, &seen);
	return seen.records;
}

OWN_TEST(own_trace_has_this_tenants_records_alone)
{
	struct own_record record;

	if (!can_trace_itself(fixture))
		return;
	EMITTER(one, "one", "mine u32 x");
	EMITTER(other, "other", "mine u32 x");
	PROGRAM(shown, "one", "mine u32 x");
	PROGRAM(neighbour, "other", "mine u32 x");
	READER(reader, "one", "mine");

	ck_assert(is_on(&shown) && !is_on(&neighbour));
	ck_assert_uint_eq(emit(&one, 100), 100);
	ck_assert_uint_eq(emit(&other, 100), 0);
	for (uint32_t i = 0; i < 100; i++) {
		ck_assert_msg(read_own(reader.fd, &record), "record %u is missing", i);
		ck_assert_uint_eq(record.number, i);
		ck_assert_str_eq(record.description, "mine u32 x");
		ck_assert_int_eq(record.writer.pid, one.pid);
		ck_assert_uint_eq(record.header.lost, 0);
	}
	ck_assert(!read_own(reader.fd, &record));
	/* Nothing of it is in the machine's traces. */
	trace(fixture, "mine", true);
	ck_assert_uint_eq(see_records(fixture, "mine"), 0);
	trace(fixture, "mine", false);
	reader_end(&reader);
	ck_assert(eventually(!is_on(&shown)));
	ck_assert_uint_eq(emit(&one, 100), 0);
	reader = reader_in(fixture, "one", "no_such_*");
	ck_assert_uint_eq(emit(&one, 1), 0);
	/* A program that comes later, and its first record. */
	EMITTER(late, "one", "no_such_yet u32 x");
	ck_assert_uint_eq(emit(&late, 1), 1);
	ck_assert(read_own(reader.fd, &record));
	ck_assert_str_eq(record.description, "no_such_yet u32 x");
}

OWN_TEST(each_of_four_traces_has_its_events)
{
	struct own_record record;

	if (!can_trace_itself(fixture))
		return;
	EMITTER(a, "one", "first u32 x");
	EMITTER(b, "one", "second u32 x");
	READER(all, "one", NULL);
	READER(only_a, "one", "fir*");
	READER(only_b, "one", "secon?");
	READER(none, "one", "third");
	struct actor fifth = actor_in(fixture, make_cgroup("one"), 0);

	ask_for_trace(fifth.socket, NULL);
	expect_trace_refused(fifth.socket, REFUSAL_QUOTA_EXCEEDED, "has 4 traces of its own");
	actor_end(&fifth);
	ck_assert_uint_eq(emit(&a, 3), 3);
	ck_assert_uint_eq(emit(&b, 5), 5);
	ck_assert_uint_eq(count_own(all.fd), 8);
	ck_assert_uint_eq(count_own(only_a.fd), 3);
	ck_assert_uint_eq(count_own(only_b.fd), 5);
	ck_assert_uint_eq(count_own(none.fd), 0);
	/* One ends, and another one begins: the programs have its socket before their next record. */
	for (unsigned i = 0; i < 3 * WIRE_TRACES_MAX; i++) {
		reader_end(&only_a);
		only_a = reader_in(fixture, "one", "first");
		ck_assert_uint_eq(emit(&a, 1), 1);
		ck_assert_msg(read_own(only_a.fd, &record), "in round %u", i);
		ck_assert_uint_eq(record.number, 3 + i);
	}
	ck_assert_uint_eq(count_own(all.fd), 3 * WIRE_TRACES_MAX);
	/* A second one on the same connection. */
	ask_for_trace(none.actor.socket, NULL);
	expect_trace_refused(none.actor.socket, REFUSAL_NOT_PERMITTED, "this connection has a trace");
}

/* --- the machine's tracers --- */

/* In any order, neither misses a record of the other's doing. */
OWN_TEST(machines_trace_is_whole_whatever_the_tenant_does)
{
	const unsigned rounds = repetitions(40, 400);
	uint64_t written = 0, own = 0;
	uint32_t go_on = 20000 / rounds; /* fewer than the embedded backend keeps */

	if (!can_trace_itself(fixture))
		return;
	EMITTER(one, "one", "both u32 x");
	trace(fixture, "both", true);
	/* While the program writes, traces of its own begin and end. */
	for (unsigned i = 0; i < rounds; i++) {
		_cleanup_(reader_end) struct reader reader = { .actor = actor_in(fixture, make_cgroup("one"), 0) };
		uint32_t taken;

		ck_assert_int_eq(write(one.leash, &go_on, sizeof(go_on)), sizeof(go_on));
		ask_for_trace(reader.actor.socket, "both");
		reader.fd = take_trace(reader.actor.socket);
		ck_assert_int_eq(read(one.leash, &taken, sizeof(taken)), sizeof(taken));
		ck_assert_uint_eq(taken, go_on);
		written += taken;
		own += count_own(reader.fd);
	}
	printf("of %lu records the tenant saw %lu\n", (unsigned long)written, (unsigned long)own);
	/* Off and on again under an own trace: that one misses nothing. */
	READER(reader, "one", "both");
	/* It may have left many sockets unread, and gets this one when it has read them. */
	ck_assert(eventually((written += emit(&one, 1), count_own(reader.fd) > 0)));
	ck_assert_uint_eq(emit(&one, 3), 3);
	trace(fixture, "both", false);
	ck_assert_uint_eq(emit(&one, 4), 4);
	trace(fixture, "both", true);
	ck_assert_uint_eq(emit(&one, 5), 5);
	ck_assert_uint_eq(count_own(reader.fd), 12);
	written += 3 + 5;
	ck_assert_uint_eq(see_records(fixture, "both"), written);
	reader_end(&reader);
	reader = reader_in(fixture, "one", "nothing");
	ck_assert_uint_eq(emit(&one, 2), 2);
	ck_assert_uint_eq(see_records(fixture, "both"), written + 2);
	trace(fixture, "both", false);
	ck_assert_uint_eq(emit(&one, 2), 0);
}

/* Muted is muted; on for others alone is no reason not to watch oneself. */
OWN_TEST(rules_of_admins_go_before)
{
	if (!can_trace_itself(fixture))
		return;
	EMITTER(one, "one", "ruled u32 x");
	PROGRAM(shown, "one", "ruled u32 x");
	PROGRAM(two, "two", "ruled u32 x");
	READER(reader, "one", "ruled");

	expect_ctl(EXIT_SUCCESS, "is muted", "mute", shown.path);
	ck_assert(!is_on(&shown));
	ck_assert_uint_eq(emit(&one, 1), 0);
	expect_ctl(EXIT_SUCCESS, "not muted any more", "unmute", shown.path);
	ck_assert(is_on(&shown));
	ck_assert_uint_eq(emit(&one, 2), 2);
	ck_assert_uint_eq(count_own(reader.fd), 2);
	expect_ctl(EXIT_SUCCESS, "1 event is on", "enable", "ruled", "--tenant", two.path);
	ck_assert(is_on(&shown) && is_on(&two));
	trace(fixture, "ruled", true);
	ck_assert_uint_eq(emit(&one, 3), 3);
	ck_assert_uint_eq(count_own(reader.fd), 3);
	ck_assert_uint_eq(see_records(fixture, "ruled"), 0);
	reader_end(&reader);
	ck_assert(eventually(!is_on(&shown)));
	ck_assert(is_on(&two));
	trace(fixture, "ruled", false);
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "ruled");
	/* A blocked tenant's trace ends with its connections. */
	reader = reader_in(fixture, "one", "ruled");
	expect_ctl(EXIT_SUCCESS, "is blocked", "block", shown.path);
	ck_assert(!is_on(&shown));
	expect_ctl(EXIT_SUCCESS, "not blocked any more", "unblock", shown.path);
	ck_assert(!is_on(&shown));
	ck_assert_uint_eq(emit(&one, 1), 0);
}

/* --- those who ask --- */

OWN_TEST(reader_that_does_not_read_costs_only_its_own_records)
{
	const uint32_t n = 5000;
	struct own_record record;
	uint64_t lost = 0, read = 0;

	if (!can_trace_itself(fixture))
		return;
	EMITTER(one, "one", "fast u32 x");
	EMITTER(other, "other", "fast u32 x");
	PROGRAM(program, "one", "fast u32 x");
	READER(reader, "one", "fast");
	_cleanup_(fd_closep) int socket = take_traced(program.actor.socket);

	ck_assert_int_eq(send(socket, "", 1, MSG_NOSIGNAL), 1);
	ck_assert_int_eq(recv(reader.fd, &record, 1, 0), 1);
	ck_assert_uint_eq(emit(&one, n), n);
	ck_assert_uint_eq(emit(&other, n), 0);
	while (read_own(reader.fd, &record)) {
		lost += record.header.lost;
		read++;
	}
	ck_assert_uint_gt(read, 50);
	ck_assert_uint_lt(read, n);
	/* The next record says how many are missing. */
	ck_assert_uint_eq(emit(&one, 1), 1);
	ck_assert(read_own(reader.fd, &record));
	ck_assert_uint_eq(record.number, n);
	ck_assert_uint_eq(lost + record.header.lost + read, n);
	/* A copy of its end is worth nothing after the trace has ended. */
	{
		_cleanup_(fd_closep) int copy = dup(reader.fd);

		reader_end(&reader);
		ck_assert(eventually(emit(&one, 1) == 0));
		count_own(copy);
		ck_assert(send(socket, "", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
		ck_assert_uint_eq(emit(&one, 1), 0);
		ck_assert_uint_eq(count_own(copy), 0);
	}
	reader = reader_in(fixture, "one", "fast");
}

/* Takes the sockets that were sent, and writes a record to each. */
static bool answers_on_trace(int socket, int reader, unsigned *dead)
{
	const struct wire_own_record record = { .description_length = 5 };
	const struct iovec pieces[] = { { (void *)(uintptr_t)&record, sizeof(record) }, { (char[]){ "often" }, 5 } };
	const struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = 2 };
	struct raw_reply reply;
	char byte;

	while (recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
		raw_receive(socket, &reply);
		ck_assert_uint_eq(reply.message.kind, KIND_TRACED);
		ck_assert_uint_eq(reply.fds.count, 1);
		*dead += sendmsg(reply.fds.fd[0], &message, MSG_NOSIGNAL) < 0 && errno == EPIPE;
		raw_reply_deinit(&reply);
	}
	return count_own(reader) > 0;
}

OWN_TEST(thousand_traces_leave_nothing_behind)
{
	const unsigned n = repetitions(100, 1000);

	if (!can_trace_itself(fixture))
		return;
	EMITTER(one, "one", "often u32 x");
	/* It never reads what it is sent, and is sent no more than a few. */
	PROGRAM(idle, "one", "often u32 x");

	for (unsigned i = 0; i < n; i++) {
		READER(reader, "one", i % 2 ? "often" : NULL);

		ck_assert(is_on(&idle));
		ck_assert_uint_eq(emit(&one, 1), 1);
		ck_assert_uint_eq(count_own(reader.fd), 1);
	}
	ck_assert(eventually(!is_on(&idle)));
	{
		READER(reader, "one", "often");
		unsigned dead = 0;

		/* Most of the sockets that it was sent have ended. When it has read them, the daemon sends the one that is missing. */
		ck_assert(eventually(answers_on_trace(idle.member.socket, reader.fd, &dead)));
		ck_assert_uint_le(dead, 8);
	}
}

DAEMON_TEST(policy_decides_who_may_trace_itself, .policy = ROOT_IS_TRUSTED, .needs_cgroups = "tenants of their own")
{
	struct actor actor;

	if (!has_a_page_per_tenant(fixture))
		return;
	actor = actor_in(fixture, make_cgroup("one"), 0);
	ask_for_trace(actor.socket, NULL);
	expect_trace_refused(actor.socket, REFUSAL_NOT_PERMITTED, "ask the admin for OwnTracing=yes");
	actor_end(&actor);
	change_policy(fixture, OWN_TRACING);
	{
		READER(reader, "one", NULL);

		change_policy(fixture, OWN_TRACING "MaxTraceBytes=64K\n");
		ck_assert(!is_disconnected(reader.actor.socket));
		{
			EMITTER(one, "one", "bounded u32 x");
			READER(small, "one", NULL);
			unsigned most, fewest;

			/* A record takes three quarters of a kilobyte of the kernel's memory, and each of four traces has a quarter. */
			ck_assert_uint_eq(emit(&one, 1000), 1000);
			most = count_own(reader.fd);
			fewest = count_own(small.fd);
			ck_assert_msg(most > 100 && fewest > 4 && fewest < 64, "%u and %u", most, fewest);
		}
		change_policy(fixture, ROOT_IS_TRUSTED);
		expect_trace_refused(reader.actor.socket, REFUSAL_NOT_PERMITTED,
				     "the policy does not let this tenant trace itself any more");
	}
	fixture_write_policy(fixture, OWN_TRACING "MaxTraceBytes=1K\n");
	expect_reload(fixture, EXIT_FAILURE, "from 64K to 16M");
}

OWN_TEST(bad_requests_for_traces_are_refused)
{
	static const char *const many[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };
	char longest[300];
	struct actor actor;

	if (!can_trace_itself(fixture))
		return;
	actor = actor_in(fixture, make_cgroup("one"), 0);
	raw_strings(KIND_TRACE_OWN, 0, many, ARRAY_SIZE(many), 0);
	ck_assert_int_eq(raw_send(actor.socket), 0);
	expect_trace_refused(actor.socket, REFUSAL_BAD_DESCRIPTION, "at most 8 patterns");
	actor_end(&actor);
	memset(longest, '*', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	actor = actor_in(fixture, make_cgroup("one"), 0);
	ask_for_trace(actor.socket, longest);
	expect_trace_refused(actor.socket, REFUSAL_BAD_DESCRIPTION, "of 255 bytes");
	actor_end(&actor);
	actor = actor_in(fixture, make_cgroup("one"), 0);
	ask_for_trace(actor.socket, "a[b");
	expect_trace_refused(actor.socket, REFUSAL_BAD_DESCRIPTION, "has no ']'");
	actor_end(&actor);
	actor = actor_in(fixture, make_cgroup("one"), 0);
	raw_strings(KIND_TRACE_OWN, 1, many, 1, 0);
	ck_assert_int_eq(raw_send(actor.socket), 0);
	expect_trace_refused(actor.socket, REFUSAL_BAD_PACKET, "malformed TRACE_OWN");
	actor_end(&actor);
	actor = actor_in(fixture, make_cgroup("one"), 0);
	raw_strings(KIND_TRACE_OWN, 0, many, 1, 1);
	ck_assert_int_eq(raw_send(actor.socket), 0);
	expect_trace_refused(actor.socket, REFUSAL_BAD_PACKET, "malformed TRACE_OWN");
	actor_end(&actor);
	/* Stars without end are matched in no time. */
	EMITTER(one, "one",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa u32 x");
	READER(reader, "one", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b");
	ck_assert_uint_eq(emit(&one, 1), 0);
}

/* Its cgroup is made again: that is another tenant, whose programs the old trace does not see. */
OWN_TEST(trace_ends_with_its_tenants_cgroup)
{
	if (!can_trace_itself(fixture))
		return;
	READER(reader, "again", NULL);
	actor_leave(&reader.actor);
	remove_cgroup(make_cgroup("again"));
	EMITTER(one, "again", "reborn u32 x");
	ck_assert_uint_eq(emit(&one, 1), 0);
	ck_assert_uint_eq(count_own(reader.fd), 0);
	{
		READER(next, "again", NULL);

		ck_assert_uint_eq(emit(&one, 2), 2);
		ck_assert_uint_eq(count_own(next.fd), 2);
		ck_assert_uint_eq(count_own(reader.fd), 0);
	}
}

/* --- userevctl --- */

static pid_t ctl_in(const struct fixture *fixture, const char *cgroup, const char *output, const char *const *words)
{
	const char *argv[16] = { built("userevctl"), "--control-socket=/nonexistent/socket" };
	const char *directory = cgroup ? make_cgroup(cgroup) : NULL;
	pid_t pid = start_process();
	size_t n = 2;

	if (pid > 0)
		return pid;
	while (*words && n < ARRAY_SIZE(argv) - 1)
		argv[n++] = *words++;
	ck_assert(!directory || actor_join(directory));
	setenv("USEREV_SOCKET", fixture->socket, 1);
	ck_assert(freopen(output, "w", stdout) && dup2(STDOUT_FILENO, STDERR_FILENO) >= 0);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

#define CTL_IN(cgroup, output, ...) ctl_in(fixture, cgroup, output, (const char *const[]){ __VA_ARGS__, NULL })

static unsigned count_lines(const char *path, const char *with)
{
	_cleanup_(freep) char *line = NULL;
	FILE *file = fopen(path, "r");
	size_t size = 0;
	unsigned n = 0;

	while (file && getline(&line, &size, file) > 0)
		n += strstr(line, with) != NULL;
	if (file)
		fclose(file);
	return n;
}

/* A record of four zeros that claims to be of this event. */
static void send_own(int socket, const char *description)
{
	uint8_t packet[128] = { 0 };
	const struct wire_own_record header = { .description_length = (uint32_t)strlen(description) };

	memcpy(packet, &header, sizeof(header));
	memcpy(packet + sizeof(header), description, strlen(description));
	ck_assert_int_ge(send(socket, packet, sizeof(header) + strlen(description) + 4, MSG_NOSIGNAL), 0);
}

OWN_TEST(tail_and_record_show_a_tenant_itself)
{
	char output[128], recording[128], option[160];
	pid_t tail, record;

	if (!can_trace_itself(fixture))
		return;
	snprintf(output, sizeof(output), "%s/tail", fixture->directory);
	snprintf(recording, sizeof(recording), "%s/trace.dat", fixture->directory);
	snprintf(option, sizeof(option), "--output=%s", recording);
	EMITTER(one, "one", "shop u32 status");
	EMITTER(other, "other", "shop u32 status");
	PROGRAM(shown, "one", "shop u32 status");
	int socket;

	tail = CTL_IN("one", output, "tail", "--own", "--json", "sho*");
	ck_assert(eventually(is_on(&shown)));
	/* A program may write anything: what describes no event is left out, of a screen as of a file. */
	socket = take_traced(shown.actor.socket);
	send_own(socket, "shop\nforged u32 status");
	send_own(socket, "shop u32 status\033[2J");
	send_own(socket, "shop");
	close(socket);
	record = CTL_IN("one", "/dev/null", "record", "--own", option);
	ck_assert(eventually(access(recording, F_OK) == 0));
	usleep(is_emulated() ? 500000 : 100000);
	ck_assert_uint_eq(emit(&one, 7), 7);
	ck_assert_uint_eq(emit(&other, 7), 0);
	ck_assert(eventually(count_lines(output, "\"event\":\"shop\"") == 1 + 7));
	ck_assert_uint_eq(count_lines(output, "forged") + count_lines(output, "[2J"), 0);
	end_ctl(record, SIGINT);
	end_ctl(tail, SIGTERM);
	expect_ctl(EXIT_SUCCESS, "shop", "report", recording);
	tail = CTL_IN("one", output, "tail", "--own", "--past");
	ck_assert(waitpid(tail, NULL, 0) == tail);
	ck_assert_uint_eq(count_lines(output, "--past is for the machine's tracer"), 1);
}

/* userevctl asks the next daemon. */
PAIR_TEST(tail_goes_on_when_daemon_and_keeper_are_killed, "--guard=prefer")
{
	char output[128];
	unsigned lines = 0;
	pid_t tail;

	snprintf(output, sizeof(output), "%s/tail", fixture->directory);
	change_policy(fixture, "[/]\nAllowHostRoot=yes\nOwnTracing=yes\n" OWN_TRACING);
	if (!has_a_page_per_tenant(fixture))
		return;
	EMITTER(one, NULL, "restarted u32 x");
	tail = CTL_IN(NULL, output, "tail", "--own", "restarted");
	for (unsigned round = 0; round < 3; round++) {
		ck_assert(eventually((emit(&one, 1), count_lines(output, "restarted") > lines)));
		lines = count_lines(output, "restarted");
		if (round == 0) {
			pair_restart_daemon(pair, SIGKILL);
			ck_assert(eventually(count_lines(output, "a daemon is there again") == 1));
		}
		if (round != 1)
			continue;
		pair_end_keeper(pair, SIGKILL);
		/* Meanwhile, too. */
		ck_assert(eventually((emit(&one, 1), count_lines(output, "restarted") > lines)));
		pair_start_keeper(pair);
		pair_wait(pair);
		lines = count_lines(output, "restarted");
	}
	ck_assert_uint_eq(count_lines(output, "a daemon is there again"), 1);
	/* Nobody ends it when its reader is killed while there is no daemon. */
	pair_end_daemon(pair, SIGKILL);
	end_ctl(tail, SIGKILL);
	pair_start_daemon(pair);
	pair_wait(pair);
	ck_assert(eventually(emit(&one, 1) == 0));
	unlink(output);
}

int main(void)
{
	return run_tests_in_cgroups();
}
