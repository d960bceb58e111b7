/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant leaves fds in flight: files that it was sent and doesn't read, and fds of its own. Its neighbour works on. */

#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "tests/integration/samples.h"
#include "tests/integration/scene.h"

/* Of the daemon's fds a quarter are for data files, of which each connection gets one; as many again may be in flight. */
enum { FEW_FDS = 4096, CONNECTIONS = 250, VICTIMS = 20 };

/* The attacker reaches its maximum, so that each place that it keeps matters. */
#define FEW_CONNECTIONS "[Daemon]\nDefaultMaxConnections=250\n"
/* A user of the daemon's own: other daemons are often user nobody's. */
static const char *const own_user[] = { "--user=uucp", NULL };

static void wait_for(const _Atomic bool *condition)
{
	while (!*condition)
		usleep(1000);
}

/* The state of the process is set, or it has ended. */
static void expect_to_become(const _Atomic bool *condition, pid_t pid, const char *otherwise)
{
	ck_assert(eventually(*condition || waitpid(pid, NULL, WNOHANG) != 0));
	ck_assert_msg(*condition, "%s", otherwise);
}

/* --- the attacker's process --- */

struct attack {
	_Atomic unsigned sent; /* requests */
	_Atomic bool rests;    /* no connection takes more requests */
	_Atomic bool hang_up;
	_Atomic bool has_hung_up;
	_Atomic bool leave;
};

/* False: the connection takes no more. */
static bool send_request(int socket, uint16_t kind, uint32_t bit)
{
	const struct packet *packet;

	if (kind == KIND_REGISTER)
		batch_put((const char *const[]){ "never_taken u32 a" }, 1);
	else
		raw_put_release(&bit, 1);
	packet = raw_finish();
	return transport_send(socket, packet->data, packet->size, NULL, 0, MSG_DONTWAIT) == 0;
}

/* Registers the event on a connection of its own, and returns its bit. */
static uint32_t learn_bit(const char *path)
{
	int socket = raw_hello(path, 0, NULL, NULL);
	struct answer answer;

	ck_assert_uint_eq(raw_register(socket, "never_taken u32 a", &answer, NULL), 0);
	close(socket);
	return answer.bit;
}

/* As many requests as the connection takes. */
static unsigned ask_on(int socket, uint32_t bit, unsigned asked)
{
	while (send_request(socket, asked % 2 ? KIND_RELEASE : KIND_REGISTER, bit))
		asked++;
	return asked;
}

static void ask_all(struct attack *attack, const int *sockets, uint32_t bit)
{
	unsigned asked[CONNECTIONS] = { 0 }, idle = 0;

	/* Until no request has been taken for a second. */
	while (idle < 100) {
		unsigned before = attack->sent;

		for (unsigned i = 0; i < CONNECTIONS; i++) {
			unsigned now = ask_on(sockets[i], bit, asked[i]);

			attack->sent += now - asked[i];
			asked[i] = now;
		}
		idle = attack->sent == before ? idle + 1 : 0;
		usleep(10000);
	}
}

/* A third breaks the protocol, if there is room for that; the others shut down. The fds stay in the sockets. */
static void hang_up(const int *sockets)
{
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		if (i % 3 == 0)
			send(sockets[i], "nonsense", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
		else
			shutdown(sockets[i], SHUT_RDWR);
	}
}

static _Noreturn void attacker(const char *path, struct attack *attack)
{
	int sockets[CONNECTIONS];
	uint32_t bit = learn_bit(path);

	for (unsigned i = 0; i < CONNECTIONS; i++)
		sockets[i] = raw_hello(path, 0, NULL, NULL);
	ask_all(attack, sockets, bit);
	attack->rests = true;
	wait_for(&attack->hang_up);
	hang_up(sockets);
	attack->has_hung_up = true;
	wait_for(&attack->leave);
	_exit(EXIT_SUCCESS);
}

/* --- the test --- */

static void expect_newcomers_to_be_served(const struct scene *scene)
{
	for (unsigned i = 0; i < VICTIMS; i++)
		scene_take_newcomer(scene);
}

TEST(files_not_taken_cost_their_tenant_alone)
{
	struct attack *attack = share_memory(sizeof(*attack));
	struct scene scene;
	unsigned sent;
	pid_t pid;

	limit_fds(FEW_FDS);
	scene_prepare(&scene, FEW_CONNECTIONS);
	scene_launch(&scene, geteuid() == 0 ? own_user : NULL);
	pid = start_process();
	if (pid == 0)
		attacker(scene.fixture.socket, attack);
	expect_to_become(&attack->rests, pid, "the attacker was not served to begin with");
	sent = attack->sent;
	expect_newcomers_to_be_served(&scene);
	scene_go_on(&scene);
	/* A connection that was shut down keeps its place; the last one is the neighbour's. */
	attack->hang_up = true;
	ck_assert(eventually(attack->has_hung_up));
	expect_newcomers_to_be_served(&scene);
	if (repetitions(0, 1))
		sleep(12);
	expect_newcomers_to_be_served(&scene);
	scene_go_on(&scene);
	await_status(&scene.fixture, "connections=%u", CONNECTIONS + 1);
	attack->leave = true;
	await_success(pid);
	await_status(&scene.fixture, "connections=1");
	scene_end(&scene, 4096,
		  "%u requests for files on %u connections that read nothing, of a daemon that may have %u fds", sent,
		  CONNECTIONS, FEW_FDS);
}

/* --- fds in flight of another process, of the daemon's or the keeper's user --- */

struct filling {
	_Atomic bool full;
	_Atomic bool over;
};

/* Without root's capability, which would let it send more. */
static _Noreturn void fill(uid_t uid, struct filling *filling)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };
	int ends[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ssize_t sent;

	ck_assert_int_eq(setresuid(uid, uid, uid), 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ck_assert_int_eq(syscall(SYS_capset, &header, none), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	do
		sent = send_many_fds(ends[0], "x", 1, null, FDS_AT_ONCE_MAX, MSG_DONTWAIT);
	while (sent > 0);
	ck_assert_int_eq(sent, -ETOOMANYREFS);
	filling->full = true;
	wait_for(&filling->over);
	_exit(EXIT_SUCCESS);
}

static pid_t start_filling(uid_t uid, struct filling *filling)
{
	pid_t pid = start_process();

	if (pid == 0)
		fill(uid, filling);
	expect_to_become(&filling->full, pid, "no fds could be sent until there were too many");
	return pid;
}

static void stop_filling(pid_t pid, struct filling *filling)
{
	filling->over = true;
	await_success(pid);
	*filling = (struct filling){ 0 };
}

SCENE_TEST(fds_of_the_same_user_make_others_wait_at_most, .policy = FEW_CONNECTIONS, .options = { "--user=uucp" },
	   .fds_max = FEW_FDS, .needs_root = "another user's fds in flight")
{
	struct filling *filling = share_memory(sizeof(*filling));
	unsigned rounds = repetitions(2, 50);
	uid_t uid = (uid_t)proc_status(scene->fixture.pid, "Uid:", 10);

	for (unsigned i = 0; i < rounds; i++) {
		/* The keeper's user: the keeper can send more fds because of its capability. */
		pid_t pid = start_filling(0, filling);
		struct pollfd visitor = { .events = POLLIN };

		expect_newcomers_to_be_served(scene);
		stop_filling(pid, filling);
		pid = start_filling(uid, filling);
		visitor.fd = raw_connect(scene->fixture.socket);
		ck_assert(actor_greet(visitor.fd));
		scene_go_on(scene);
		ck_assert_int_eq(poll(&visitor, 1, 0), 0);
		stop_filling(pid, filling);
		expect_kind(visitor.fd, KIND_WELCOME);
		ck_assert_uint_eq(raw_register(visitor.fd, "visitors u32 a", NULL, NULL), 0);
		close(visitor.fd);
	}
	scene_end(scene, 4096, "%u times all fds that the keeper's user, and the daemon's, may have in flight", rounds);
}

/* --- a storm: processes that connect and close, as fast as they can --- */

struct storm {
	_Atomic unsigned connects;
	_Atomic unsigned full; /* times that the daemon's queue was full */
	_Atomic bool rages;    /* against the daemon; before that against a socket of its own */
	_Atomic bool over;
};

/* On one processor of two, as a container may be limited. Its own socket is served like the daemon's: accepted and closed. */
static _Noreturn void rage(const char *path, const char *own, int listener, struct storm *storm)
{
	cpu_set_t first;
	int fd;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	while (!storm->over) {
		bool rages = storm->rages;

		fd = raw_try_to_connect(rages ? path : own, SOCK_NONBLOCK);
		if (fd >= 0)
			close(fd);
		if (!rages)
			close(accept(listener, NULL, NULL));
		else if (fd >= 0)
			storm->connects++;
		else
			storm->full++;
	}
	_exit(EXIT_SUCCESS);
}

/* How many attempts a connection needed. */
static unsigned visit(const struct scene *scene)
{
	unsigned tries = 1;
	int fd;

	while ((fd = raw_try_to_connect(scene->fixture.socket, SOCK_NONBLOCK)) < 0) {
		tries++;
		usleep(1000);
	}
	ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
	ck_assert(actor_greet(fd));
	expect_kind(fd, KIND_WELCOME);
	close(fd);
	return tries;
}

/* The other processes work. */
static void wait_a_little(const struct scene *scene _unused_, unsigned round _unused_)
{
	usleep(1000);
}

SCENE_TEST(storm_of_connect_and_close_lets_others_in)
{
	struct storm *storm = share_memory(sizeof(*storm));
	unsigned visits = repetitions(100, 5000), tries = 0, most = 0;
	char own[128];
	pid_t pids[2];
	int listener;

	snprintf(own, sizeof(own), "%s.own", scene->fixture.socket);
	listener = raw_listen(own, SOCK_NONBLOCK);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = start_process();
		if (pids[i] == 0)
			rage(scene->fixture.socket, own, listener, storm);
	}
	scene_measure_beside(scene, wait_a_little);
	storm->rages = true;
	ck_assert(eventually(storm->connects > 10000 || is_emulated()));
	for (unsigned i = 0; i < visits; i++) {
		unsigned now = visit(scene);

		tries += now;
		most = MAX(most, now);
	}
	scene_go_on(scene);
	storm->over = true;
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		await_success(pids[i]);
	close(listener);
	unlink(own);
	scene_end(
		scene, 8192,
		"%u connections, closed at once, and %u for which the queue was full; %u visitors had to try %u times, %u at most",
		storm->connects, storm->full, visits, tries, most);
}
