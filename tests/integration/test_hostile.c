/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A tenant with a hundred processes that misuse the socket and their files in every way, and a neighbour with a reserve, which must get
 * all of it meanwhile. How long the neighbour waits is printed: time decides no test.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "kernel/uapi.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/samples.h"
#include "tests/integration/speaker.h"

enum { PROCESSES = 100, CGROUPS = 7, CAPACITY = 120, RESERVE = 60, USER = 12345, NEIGHBOUR = 12346, MANY = 64 };

static uint8_t buffer[WIRE_PACKET_MAX];

/* Variables of a hostile process. */
static const char *daemon_socket;
static unsigned process;
/* Shared by all of them, and by the test. */
static struct deeds {
	_Atomic uint64_t rounds[PROCESSES];
	_Atomic uint64_t answers[REFUSAL_MAX_]; /* counts of answers by refusal; REFUSAL_NONE: granted */
	_Atomic uint64_t turned_away;
} * deeds;

static unsigned any(unsigned below)
{
	static unsigned seed;

	seed = seed * 1103515245 + 12345 + process;
	return seed / 65536 % below;
}

static int hello(void)
{
	static const struct timeval timeout = { .tv_sec = 3 };
	int page = -1, socket = actor_hello(daemon_socket, &page);

	fd_close(page);
	if (socket < 0)
		deeds->turned_away++;
	else
		setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	return socket;
}

static const struct packet *put_names(unsigned n)
{
	static unsigned last;
	char format[32];

	snprintf(format, sizeof(format), "hostile_%u_%%u u32 a", process);
	batch_put(numbered(format, last, n), n);
	last += n;
	return raw_finish();
}

/* The answer to a REGISTER, and the stream if it has one. False: the connection has ended. */
static bool take_answer(int socket, int *ret_stream)
{
	struct fdset fds = { 0 };
	struct message message;
	struct strings answers;
	struct answer answer;
	ssize_t size = transport_receive_fds(socket, buffer, sizeof(buffer), &fds, 0);

	if (size > 0 && decode_message(buffer, (size_t)size, &message) == 0 && message.kind == KIND_REGISTERED &&
	    decode_registered(message.body, &answers) == 0)
		while (answers_next(&answers, &answer))
			deeds->answers[answer.refusal]++;
	if (ret_stream && fds.count > 0)
		*ret_stream = fdset_steal(&fds, 0);
	fdset_deinit(&fds);
	return size > 0;
}

static int register_names(int socket, unsigned n, int *ret_stream)
{
	const struct packet *packet = put_names(n);

	if (transport_send(socket, packet->data, packet->size, NULL, 0, 0) < 0 || !take_answer(socket, ret_stream))
		return -EPIPE;
	return 0;
}

/* Ways to be hostile. Each gets a connection of its own for a round. */

static void ask_for_one_after_the_other(int socket)
{
	for (unsigned i = 0; i < MANY && register_names(socket, 1, NULL) == 0; i++)
		;
}

static void ask_for_the_whole_page(int socket)
{
	for (unsigned i = 0; i < 4 && register_names(socket, WIRE_BATCH_MAX, NULL) == 0; i++)
		;
}

static void never_read(int socket)
{
	const struct packet *packet;

	do
		packet = put_names(WIRE_BATCH_MAX);
	while (transport_send(socket, packet->data, packet->size, NULL, 0, MSG_DONTWAIT) == 0);
	usleep(100000);
}

/* A good packet of any kind with a few bytes changed, possibly cut, possibly with fds. */
static void talk_nonsense(int socket)
{
	int fds[WIRE_FDS_MAX];

	for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
		fds[i] = socket;
	for (unsigned i = 0; i < MANY; i++) {
		size_t size = build(&samples[any(SAMPLES)], buffer), n = any(8) ? 0 : WIRE_FDS_MAX;

		for (unsigned changes = any(4); changes > 0; changes--)
			buffer[any((unsigned)size)] = (uint8_t)any(256);
		if (transport_send(socket, buffer, any(4) ? size : any((unsigned)size), fds, n, 0) < 0)
			return;
	}
	recv(socket, buffer, sizeof(buffer), 0);
}

static void close_all(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
}

static void connect_until_refused(int socket _unused_)
{
	int fds[2 * MANY];
	unsigned n = 0;

	while (n < ARRAY_SIZE(fds) && (fds[n] = hello()) >= 0)
		n++;
	usleep(100000);
	close_all(fds, n);
}

/* Disconnects, but keeps copies of its data files. */
static void hold_files(int socket)
{
	static int held[MANY];
	static unsigned n;
	_cleanup_(fd_closep) int stream = -1;

	if (n == ARRAY_SIZE(held)) {
		close_all(held, n);
		n = 0;
	}
	register_names(socket, 1 + any(4), &stream);
	if (stream >= 0 && (held[n] = dup(stream)) >= 0)
		n++;
}

/* Succeeds without a guard, so only a few times: the daemon can't limit the events that the kernel has. */
static void register_any(int file)
{
	static unsigned last;
	char name[64];

	if (last < 4)
		snprintf(name, sizeof(name), "itself_%u_%u", process, last++);
	else
		string_copy(name, sizeof(name), "itself");
	register_by_itself(file, name);
	ioctl(file, UAPI_IOCTL_DELETE, "hostile_0_0");
}

static void misuse_files(int socket)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	_cleanup_(fd_closep) int stream = -1;

	if (register_names(socket, 1, &stream) < 0 || stream < 0)
		return;
	register_any(stream);
	fcntl(stream, F_OFD_SETLK, &lock);
	for (unsigned i = 0; i < MANY; i++) {
		uint32_t record[4] = { any(1000) };

		(void)!write(stream, record, any(sizeof(record)));
	}
	(void)!ftruncate(stream, 0);
}

static void (*const ways[])(int socket) = {
	ask_for_one_after_the_other,
	ask_for_the_whole_page,
	never_read,
	talk_nonsense,
	connect_until_refused,
	hold_files,
	misuse_files,
};

static _Noreturn void be_hostile(void)
{
	for (;;) {
		_cleanup_(fd_closep) int socket = hello();

		deeds->rounds[process]++;
		if (socket >= 0)
			ways[process % ARRAY_SIZE(ways)](socket);
	}
}

/* In one of the container's cgroups, and with little processor time, which it isn't the daemon's task to share out. */
static pid_t hostile_start(unsigned number, const char *container)
{
	char directory[256];
	pid_t pid = start_process();

	if (pid > 0)
		return pid;
	snprintf(directory, sizeof(directory), "%s/inside%u", container, number % CGROUPS);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	actor_become(&(struct actor_as){ .cgroup = directory, .uid = USER });
	setpriority(PRIO_PROCESS, 0, 19);
	process = number;
	be_hostile();
}

static unsigned count_begun(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PROCESSES; i++)
		n += deeds->rounds[i] > 0;
	return n;
}

static bool anybody_was_refused(void)
{
	return deeds->answers[REFUSAL_QUOTA_EXCEEDED] + deeds->answers[REFUSAL_MACHINE_FULL] > 0;
}

/* The first two work alone until an event was granted and another refused: a hundred may hinder each other so much that none is answered. */
static void start_all(const struct fixture *fixture, const char *container, pid_t *pids)
{
	daemon_socket = fixture->socket;
	deeds = share_memory(sizeof(*deeds));
	for (unsigned i = 0; i < PROCESSES; i++) {
		pids[i] = hostile_start(i, container);
		if (i == 0)
			ck_assert_msg(eventually(deeds->answers[REFUSAL_NONE] > 0), "nobody was granted an event");
		if (i == 1)
			ck_assert_msg(eventually(anybody_was_refused()), "nobody was refused one");
	}
	ck_assert_msg(eventually(count_begun() == PROCESSES), "of %d hostile processes %u have done anything",
		      PROCESSES, count_begun());
}

/* --- the neighbour --- */

/* So many of the reserve, each of which it must get; how long it waited for each, in microseconds. */
static uint64_t take_from_reserve(int socket, const char *name, unsigned n)
{
	uint64_t waited = 0;
	char event[64];

	speak_as(NEIGHBOUR);
	for (unsigned i = 0; i < n; i++) {
		uint64_t begun = clock_us();
		uint32_t refusal;

		snprintf(event, sizeof(event), "%s_%u", name, i);
		refusal = raw_register(socket, event, NULL, NULL);
		waited += clock_us() - begun;
		ck_assert_msg(refusal == 0, "%s was refused: %s", event, refusal_name(refusal));
		usleep(20000);
	}
	speak_as(geteuid());
	return waited / n;
}

static void print_report(const char *guard, uint64_t before, uint64_t during)
{
	printf("beside %d hostile processes (%s) a registration takes %llu µs instead of %llu µs: %.1f times; they were "
	       "%llu times turned away",
	       PROCESSES, guard, (unsigned long long)during, (unsigned long long)before,
	       (double)during / (double)MAX(before, 1), (unsigned long long)deeds->turned_away);
	for (uint32_t i = 0; i < REFUSAL_MAX_; i++)
		if (deeds->answers[i] > 0)
			printf(", %s: %llu", i ? refusal_name(i) : "granted", (unsigned long long)deeds->answers[i]);
	printf("\n");
}

static const char *make_container(void)
{
	const char *container = make_cgroup("machine.slice/hostile.scope");
	char name[64];

	for (unsigned i = 0; i < CGROUPS; i++) {
		snprintf(name, sizeof(name), "machine.slice/hostile.scope/inside%u", i);
		make_cgroup(name);
	}
	return delegate(container) ? container : NULL;
}

/* Both tenants are in the machine's user namespace, and there may be no guard. A line for each refusal would cost time. */
#define RESERVE_OF_SIXTY                                                                                               \
	.policy = "[/**]\nAllowHostUserns=yes\n"                                                                       \
		  "[/userevd-test-*/neighbour.slice/neighbour.service]\nTenant=yes\nReserveEvents=60\n",               \
	.needs_cgroups = "a hostile tenant and its neighbour"

static void expect_reserve_to_be_safe(const struct fixture *fixture, const char *guard)
{
	const char *neighbour = make_cgroup("neighbour.slice/neighbour.service"), *container = make_container();
	struct seen_tenants seen;
	struct actor actor;
	pid_t pids[PROCESSES];
	uint64_t before, during;

	if (!container)
		return;
	actor = actor_in(fixture, neighbour, NEIGHBOUR);
	before = take_from_reserve(actor.socket, "before", RESERVE / 2);
	start_all(fixture, container, pids);
	during = take_from_reserve(actor.socket, "during", RESERVE / 2);
	print_report(guard, before, during);
	seen = expect_tenants(fixture, neighbour, container);
	ck_assert_uint_eq(seen.tenant[0].events, RESERVE);
	ck_assert_uint_le(seen.tenant[1].events, CAPACITY - RESERVE);
	expect_status(fixture, "reserved=%u", RESERVE);
	for (unsigned i = 0; i < PROCESSES; i++)
		ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
	for (unsigned i = 0; i < PROCESSES; i++)
		ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
	actor_end(&actor);
	/* Before Linux 6.4 the kernel keeps the events that they have registered themselves. */
	if (fixture->keeper)
		delete_new_events(fixture->events_before);
}

DAEMON_TEST(reserve_is_safe_from_a_hostile_tenant, RESERVE_OF_SIXTY,
	    .options = { "--capacity=120", "--log-level=info", "--guard=prefer" })
{
	expect_reserve_to_be_safe(fixture, "--guard=prefer");
}

/* The same as above where no guard is possible. */
static bool can_guard(void)
{
	struct fixture fixture;
	bool guarded;

	fixture_start(&fixture, NULL);
	guarded = shares_streams(&fixture);
	fixture_stop(&fixture);
	return guarded;
}

DAEMON_TEST(reserve_is_safe_from_a_hostile_unguarded_tenant, RESERVE_OF_SIXTY,
	    .options = { "--capacity=120", "--log-level=info", "--guard=off" })
{
	if (can_guard())
		expect_reserve_to_be_safe(fixture, "--guard=off");
}

int main(void)
{
	return run_tests_in_cgroups();
}
