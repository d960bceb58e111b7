/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant sends fds, or does not read those that it is sent; its neighbour works on. */

#include <fcntl.h>
#include <stdio.h>

#include "tests/integration/samples.h"
#include "tests/integration/scene.h"

enum { USER = 12345, FEW_FDS = 512 };

/* test_raw.c checks the answer. False: the kernel doesn't let a process send so many. */
static bool send_sample(const struct scene *scene, const struct sample *sample, size_t n)
{
	uint8_t packet[SAMPLE_MAX], answer[16];
	size_t size = build(sample, packet);
	int socket = open_for(&scene->fixture, sample);
	bool sent = send_with_fds(socket, packet, size, n == 1 ? socket : STDIN_FILENO, n);

	if (sent && sample->kind != KIND_LOST)
		ck_assert_int_ge(recv(socket, answer, sizeof(answer), 0), 0);
	close(socket);
	return sent;
}

SCENE_TEST(fds_of_a_request_are_closed_however_many)
{
	unsigned steps = repetitions(10, FDS_AT_ONCE_MAX), sent = 0;
	unsigned lowest = free_fd_of(scene->fixture.pid, 0);

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		for (unsigned step = 0; step <= steps; step++)
			sent += send_sample(scene, &samples[i], step * FDS_AT_ONCE_MAX / steps);
	ck_assert(eventually(free_fd_of(scene->fixture.pid, 0) == lowest));
	scene_end(scene, 4096, "%zu packets, of each kind, with 0 to %u fds, of which the kernel let %u through",
		  (steps + 1) * ARRAY_SIZE(samples), FDS_AT_ONCE_MAX, sent);
}

/* A process of another user sends fds of sockets with fds of sockets under way, until the kernel says that there are too many. */

static bool send_fd(int socket, int fd)
{
	return transport_send(socket, "x", 1, &fd, 1, MSG_DONTWAIT) == 0;
}

/* Each socket holds the one before it, and the last goes to `ret`; how many. */
static unsigned nest(int *ret)
{
	unsigned depth = 0;
	bool sent = true;

	*ret = -1;
	while (sent) {
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
			return depth;
		sent = *ret < 0 || send_fd(ends[0], *ret);
		depth += sent;
		close(sent ? ends[0] : ends[1]);
		fd_close(*ret);
		*ret = sent ? ends[1] : ends[0];
	}
	return depth;
}

/* As many sockets in a cycle as the kernel allows. Its collector has to free them. */
static unsigned entangle(void)
{
	unsigned n = 0;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	while (send_fd(ends[0], ends[n % 2]) && send_fd(ends[1], ends[n % 2]))
		n++;
	close(ends[0]);
	close(ends[1]);
	return n;
}

struct deeds {
	unsigned rounds, nested, entangled;
};

static _Noreturn void tangle(const char *path, unsigned rounds, struct deeds *deeds)
{
	limit_fds(FEW_FDS);
	ck_assert_int_eq(setresuid(USER, USER, USER), 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; deeds->rounds < rounds; deeds->rounds++) {
		int nested, socket;

		deeds->nested += nest(&nested);
		socket = raw_hello(path, 0, NULL, NULL);
		send_fd(socket, nested);
		close(socket);
		deeds->entangled += entangle();
		fd_close(nested);
		/* The collector is slow, and sockets that it has not collected count. */
		usleep(10000);
	}
	_exit(EXIT_SUCCESS);
}

SCENE_TEST(nested_sockets_do_not_affect_other_tenants, .needs_root = "sockets in sockets of another user")
{
	unsigned rounds = repetitions(20, 2000);
	struct deeds *deeds = share_memory(sizeof(*deeds));
	pid_t pid = start_process();

	if (pid == 0)
		tangle(scene->fixture.socket, rounds, deeds);
	await_success(pid);
	ck_assert_uint_eq(deeds->rounds, rounds);
	scene_end(scene, 4096, "%u sockets in sockets and %u in cycles, up to \"too many references\" %u times",
		  deeds->nested, deeds->entangled, 2 * rounds);
}

/* The client has no free fd, neither for its page nor for its stream. */
static void greet_without_room(const struct scene *scene)
{
	_cleanup_(fd_closep) int socket = raw_connect(scene->fixture.socket);
	struct raw_reply reply;

	limit_fds_of(0, (rlim_t)lowest_free_fd());
	ck_assert(actor_greet(socket));
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, -EPROTO);
	send_register(socket, "without_room u32 a");
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, -EPROTO);
	limit_fds_of(0, RLIM_INFINITY);
	expect_account(socket, "leases=1");
}

SCENE_TEST(client_without_an_fd_loses_its_stream_alone)
{
	unsigned n = repetitions(100, 10000);

	for (unsigned i = 0; i < n; i++)
		greet_without_room(scene);
	scene_end(scene, 4096, "%u pages and as many streams sent to clients without a free fd", n);
}

static void serve_newcomer(const struct scene *scene, unsigned round _unused_)
{
	scene_take_newcomer(scene);
}

/*
 * The kernel counts the fds in flight for each user that sends them, and limits them to the number that the user may have open. So a
 * client that doesn't read its fds must not use up the number that the daemon may send to others. The daemon's user is nobody else's
 * here: other daemons are often user nobody's.
 */
SCENE_TEST(unread_fds_of_a_tenant_leave_others_their_own, .fds_max = FEW_FDS, .options = { "--user=uucp" })
{
	int sockets[200];
	/* With a keeper the daemon has each file twice. */
	unsigned newcomers = repetitions(50, 5000),
		 n = scene->fixture.keeper ? ARRAY_SIZE(sockets) / 2 : ARRAY_SIZE(sockets);

	scene_measure_beside(scene, serve_newcomer);
	connect_many(scene, sockets, n, true);
	for (unsigned i = 0; i < n; i++)
		send_register(sockets[i], "unread u32 a");
	for (unsigned i = 0; i < newcomers; i++)
		scene_take_newcomer(scene);
	scene_go_on(scene);
	close_many(sockets, n);
	scene_end(scene, 4096,
		  "%u pages and as many streams never taken, of a daemon that may have %u fds under way; %u newcomers",
		  n, FEW_FDS, newcomers);
}
