/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant sends fds, or does not take those that it is sent; its neighbour works on. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/integration/batch.h"
#include "tests/integration/samples.h"
#include "tests/integration/scene.h"

enum { USER = 12345, FEW_FDS = 512 };

static bool is_open(pid_t pid, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int lowest_free_fd_of(pid_t pid)
{
	int fd = 0;

	while (is_open(pid, fd))
		fd++;
	return fd;
}

/* Nothing is expected of the answer: what it is, is in test_raw.c. False where the kernel refuses that to their sender. */
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

TEST(fds_of_a_request_are_closed_however_many)
{
	unsigned steps = repetitions(10, FDS_AT_ONCE_MAX), sent = 0;
	struct scene scene;
	int lowest;

	scene_begin(&scene, "", NULL);
	lowest = lowest_free_fd_of(scene.fixture.pid);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		for (unsigned step = 0; step <= steps; step++)
			sent += send_sample(&scene, &samples[i], step * FDS_AT_ONCE_MAX / steps);
	ck_assert(eventually(lowest_free_fd_of(scene.fixture.pid) == lowest));
	scene_end(&scene, 4096, "%zu packets, of each kind, with 0 to %u fds, of which the kernel let %u through",
		  (steps + 1) * ARRAY_SIZE(samples), FDS_AT_ONCE_MAX, sent);
}

/*
 * Another process, of another user: fds of sockets with fds of sockets under way, until the kernel says that there are too
 * many. No assertion there: it would be the test's.
 */

static bool send_fd(int socket, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *header = (struct cmsghdr *)(void *)control;

	*header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
				    .cmsg_level = SOL_SOCKET,
				    .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* Each holds the one before it, and the last is the caller's; how deep it got. */
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

/* A cycle, which only the kernel's collector ends, of as many as the kernel lets us have. */
static unsigned entangle(void)
{
	unsigned n = 0;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		_exit(EXIT_FAILURE);
	while (send_fd(ends[0], ends[n % 2]) && send_fd(ends[1], ends[n % 2]))
		n++;
	close(ends[0]);
	close(ends[1]);
	return n;
}

static void send_nested(const char *path, int nested)
{
	int page, socket = actor_hello(path, &page);

	if (socket < 0)
		_exit(EXIT_FAILURE);
	send_fd(socket, nested);
	close(page);
	close(socket);
}

struct deeds {
	_Atomic unsigned rounds;
	unsigned nested, entangled;
};

static _Noreturn void tangle(const char *path, unsigned rounds, struct deeds *deeds)
{
	const struct rlimit few = { .rlim_cur = FEW_FDS, .rlim_max = FEW_FDS };

	setrlimit(RLIMIT_NOFILE, &few);
	if (setresuid(USER, USER, USER) < 0)
		_exit(EXIT_FAILURE);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; deeds->rounds < rounds; deeds->rounds++) {
		int nested;

		deeds->nested += nest(&nested);
		send_nested(path, nested);
		deeds->entangled += entangle();
		fd_close(nested);
		/* The collector takes its time, and what it has not collected counts. */
		usleep(10000);
	}
	_exit(EXIT_SUCCESS);
}

TEST(nested_sockets_do_not_affect_other_tenants)
{
	unsigned rounds = repetitions(20, 2000);
	struct deeds *deeds = mmap(NULL, sizeof(*deeds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct scene scene;
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		printf("not possible here without root: sockets in sockets of another user\n");
		return;
	}
	scene_begin(&scene, "", NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		tangle(scene.fixture.socket, rounds, deeds);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(deeds->rounds, rounds);
	scene_end(&scene, 4096, "%u sockets in sockets and %u in cycles, up to \"too many references\" %u times",
		  deeds->nested, deeds->entangled, 2 * rounds);
	munmap(deeds, sizeof(*deeds));
}

/* It has no fd left for its page, and no other one for its stream. */
static void greet_without_room(const struct scene *scene)
{
	struct rlimit limit, full;
	struct raw_reply reply;
	int socket = raw_connect(scene->fixture.socket);

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	full = limit;
	full.rlim_cur = (rlim_t)lowest_free_fd();
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &full), 0);
	ck_assert(actor_greet(socket));
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, -EPROTO);
	batch_put((const char *const[]){ "without_room u32 a" }, 1);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, -EPROTO);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(raw_query(socket).leases, 1);
	close(socket);
}

TEST(client_without_an_fd_loses_its_stream_alone)
{
	unsigned n = repetitions(100, 10000);
	struct scene scene;

	scene_begin(&scene, "", NULL);
	for (unsigned i = 0; i < n; i++)
		greet_without_room(&scene);
	scene_end(&scene, 4096, "%u pages and as many streams sent to who has no fd left", n);
}

/* The daemon can send no more fds that nobody has taken yet than it may have open. */
static void have_few_fds(void)
{
	const struct rlimit few = { .rlim_cur = FEW_FDS, .rlim_max = FEW_FDS };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* It is a tenant of its own: whatever this one is sent and does not take is its own trouble. */
static void serve_another_tenant(const struct scene *scene, unsigned round _unused_)
{
	_cleanup_(actor_end) struct actor actor = actor_new(scene->fixture.socket, NULL);

	ck_assert_uint_eq(raw_register(actor.socket, "another_tenants u32 a", NULL, NULL), 0);
}

/*
 * The kernel counts the fds under way for each user who sends them, and lets him send no more than he may have. So who is
 * sent fds, and does not read, must not use up what the daemon may send to others.
 */
TEST(unread_fds_of_a_tenant_leave_others_their_own)
{
	/* Whose are nobody else's: other daemons are often user nobody's. */
	static const char *const own_user[] = { "--user=uucp", NULL };
	unsigned newcomers = repetitions(50, 5000), n;
	struct scene scene;
	int sockets[200];

	have_few_fds();
	scene_begin(&scene, "", own_user);
	/* With a keeper it has all of them twice. */
	n = scene.fixture.keeper ? ARRAY_SIZE(sockets) / 2 : ARRAY_SIZE(sockets);
	scene_measure_beside(&scene, serve_another_tenant);
	connect_many(&scene, sockets, n, true);
	for (unsigned i = 0; i < n; i++) {
		batch_put((const char *const[]){ "unread u32 a" }, 1);
		ck_assert_int_eq(raw_send(sockets[i]), 0);
	}
	for (unsigned i = 0; i < newcomers; i++)
		serve_another_tenant(&scene, i);
	scene_go_on(&scene);
	close_many(sockets, n);
	scene_end(&scene, 4096,
		  "%u pages and as many streams never taken, of a daemon that may have %u fds under way; %u newcomers",
		  n, FEW_FDS, newcomers);
}
