/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant leaves fds in flight: files that it was sent and does not take, and fds of its own. Its neighbour works on. */

#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/integration/scene.h"

enum {
	FEW_FDS =
		4096, /* of the daemon: a quarter are for data files, of which each connection gets one; as many again in flight */
	CONNECTIONS = 250,
	VICTIMS = 20,
};

/* Nobody else's user: other daemons are often user nobody's. The attacker reaches its maximum, so its places are seen. */
static const char policy[] = "[Daemon]\nDefaultMaxConnections=250\n";
static const char *const own_user[] = { "--user=uucp", NULL };

/* The daemon makes use of all that it may have. */
static void limit_fds(rlim_t number)
{
	const struct rlimit limit = { .rlim_cur = number, .rlim_max = number };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The attacker's process. No assertion there: it would be the test's. */

struct attack {
	_Atomic unsigned sent; /* requests */
	_Atomic bool rests;    /* no connection takes more requests */
	_Atomic bool hang_up;
	_Atomic bool has_hung_up;
	_Atomic bool leave;
};

static bool send_request(int socket, uint16_t kind, uint32_t bit)
{
	static const char event[] = "never_taken u32 a";
	uint8_t buffer[256];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	size_t mark;

	encode_begin(&packet, kind, 2, 0, NULL, 0);
	mark = kind == KIND_REGISTER ? encode_strings(&packet, 0) : encode_release(&packet);
	if (kind == KIND_REGISTER)
		encode_string(&packet, 0, event, strlen(event));
	else
		encode_release_bit(&packet, bit);
	encode_count(&packet, mark, 1);
	encode_end(&packet);
	return transport_send(socket, packet.data, packet.size, NULL, 0, MSG_DONTWAIT) == 0;
}

/* Which bit the event has. */
static uint32_t learn_bit(const char *path)
{
	uint8_t buffer[1024];
	struct message message;
	struct answers answers;
	struct answer answer = { 0 };
	struct fdset fds = { 0 };
	int page, socket = actor_hello(path, &page);
	ssize_t n;

	if (socket < 0 || !send_request(socket, KIND_REGISTER, 0))
		_exit(EXIT_FAILURE);
	n = transport_receive_fds(socket, buffer, sizeof(buffer), &fds, 0);
	fdset_deinit(&fds);
	if (n <= 0 || decode_message(buffer, (size_t)n, &message) != 0 ||
	    decode_registered(message.body, &answers) != 0 || !answers_next(&answers, &answer))
		_exit(EXIT_FAILURE);
	close(page);
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

	/* Until nothing has been taken for a second: only that makes a difference, not how long it takes. */
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

/* A third breaks the protocol, if there is room for that; all end their side, and keep what lies in it. */
static void hang_up(const int *sockets)
{
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		if (i % 3 == 0)
			send(sockets[i], "nonsense", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
		else
			shutdown(sockets[i], SHUT_RDWR);
	}
}

static void wait_for(const _Atomic bool *condition)
{
	while (!*condition)
		usleep(1000);
}

static _Noreturn void attacker(const char *path, struct attack *attack)
{
	int sockets[CONNECTIONS], page;
	uint32_t bit;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bit = learn_bit(path);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		sockets[i] = actor_hello(path, &page);
		if (sockets[i] < 0)
			_exit(EXIT_FAILURE);
		close(page);
	}
	ask_all(attack, sockets, bit);
	attack->rests = true;
	wait_for(&attack->hang_up);
	hang_up(sockets);
	attack->has_hung_up = true;
	wait_for(&attack->leave);
	_exit(EXIT_SUCCESS);
}

static pid_t start_attacker(const char *path, struct attack *attack)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		attacker(path, attack);
	return pid;
}

/* The test. */

/* Each is a tenant of its own. */
static void expect_victims_to_be_served(const struct scene *scene)
{
	for (unsigned i = 0; i < VICTIMS; i++) {
		struct actor victim;

		victim = actor_new(scene->fixture.socket, NULL);
		ck_assert_uint_eq(raw_register(victim.socket, "victims u32 a", NULL, NULL), 0);
		actor_end(&victim);
	}
}

static bool has_connections(const struct scene *scene, uint64_t wanted)
{
	return status_number(&scene->fixture, "connections") == wanted;
}

TEST(files_not_taken_cost_their_tenant_alone)
{
	struct attack *attack = mmap(NULL, sizeof(*attack), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct scene scene;
	unsigned sent;
	int status;
	pid_t pid;

	limit_fds(FEW_FDS);
	scene_begin(&scene, policy, geteuid() == 0 ? own_user : NULL);
	pid = start_attacker(scene.fixture.socket, attack);
	ck_assert(eventually(attack->rests || waitpid(pid, NULL, WNOHANG) != 0));
	ck_assert_msg(attack->rests, "the attacker was not served to begin with");
	sent = attack->sent;
	expect_victims_to_be_served(&scene);
	scene_go_on(&scene);
	/* What it has hung up on keeps its place: the neighbour has the other connection. */
	attack->hang_up = true;
	ck_assert(eventually(attack->has_hung_up));
	expect_victims_to_be_served(&scene);
	if (repetitions(0, 1))
		sleep(12);
	expect_victims_to_be_served(&scene);
	scene_go_on(&scene);
	ck_assert(eventually(has_connections(&scene, CONNECTIONS + 1)));
	attack->leave = true;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(eventually(has_connections(&scene, 1)));
	munmap(attack, sizeof(*attack));
	scene_end(&scene, 4096,
		  "%u requests for files on %u connections that read nothing, of a daemon that may have %u fds", sent,
		  CONNECTIONS, FEW_FDS);
}

/* Fds in flight of another process, of a user that is the daemon's, or the keeper's. */

struct filling {
	_Atomic bool full;
	_Atomic bool rages; /* against the daemon; before that against a socket of its own */
	_Atomic bool over;
};

static bool send_many(int socket, int fd)
{
	enum { MANY = 253 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(MANY * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *header = (struct cmsghdr *)(void *)control;

	*header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(MANY * sizeof(int)),
				    .cmsg_level = SOL_SOCKET,
				    .cmsg_type = SCM_RIGHTS };
	for (size_t i = 0; i < MANY; i++)
		memcpy(CMSG_DATA(header) + i * sizeof(fd), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

static void give_up_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };

	if (syscall(SYS_capset, &header, none) < 0)
		_exit(EXIT_FAILURE);
}

static _Noreturn void fill(uid_t uid, struct filling *filling)
{
	int ends[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (setresuid(uid, uid, uid) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		_exit(EXIT_FAILURE);
	give_up_capabilities();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (send_many(ends[0], null))
		;
	if (errno != ETOOMANYREFS)
		_exit(EXIT_FAILURE);
	filling->full = true;
	wait_for(&filling->over);
	_exit(EXIT_SUCCESS);
}

static pid_t start_filling(uid_t uid, struct filling *filling)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		fill(uid, filling);
	ck_assert(eventually(filling->full || waitpid(pid, NULL, WNOHANG) != 0));
	ck_assert_msg(filling->full, "no fds could be sent until there were too many");
	return pid;
}

static void stop_filling(pid_t pid, struct filling *filling)
{
	int status;

	filling->over = true;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	*filling = (struct filling){ 0 };
}

static void expect_no_answer_yet(int socket)
{
	struct pollfd connection = { .fd = socket, .events = POLLIN };

	ck_assert_int_eq(poll(&connection, 1, 0), 0);
}

TEST(fds_of_the_same_user_make_others_wait_at_most)
{
	struct filling *filling =
		mmap(NULL, sizeof(*filling), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned rounds = repetitions(2, 50);
	struct scene scene;
	uid_t uid;

	if (geteuid() != 0) {
		printf("not possible here without root: another user's fds in flight\n");
		return;
	}
	limit_fds(FEW_FDS);
	scene_begin(&scene, policy, own_user);
	uid = (uid_t)proc_status(scene.fixture.pid, "Uid:", 10);
	for (unsigned i = 0; i < rounds; i++) {
		/* The keeper's user: without its capability it could send no more. */
		pid_t pid = start_filling(0, filling);
		int visitor;

		expect_victims_to_be_served(&scene);
		stop_filling(pid, filling);
		pid = start_filling(uid, filling);
		visitor = raw_connect(scene.fixture.socket);
		ck_assert(actor_greet(visitor));
		scene_go_on(&scene);
		expect_no_answer_yet(visitor);
		stop_filling(pid, filling);
		expect_kind(visitor, KIND_WELCOME);
		ck_assert_uint_eq(raw_register(visitor, "visitors u32 a", NULL, NULL), 0);
		close(visitor);
	}
	munmap(filling, sizeof(*filling));
	scene_end(&scene, 4096, "%u times all fds that the keeper's user, and the daemon's, may have in flight",
		  rounds);
}

/* A storm: processes that connect and close, as fast as they can. */

struct storm {
	_Atomic unsigned connects;
	_Atomic unsigned full; /* times that the daemon's queue was full */
	_Atomic bool rages;    /* against the daemon; before that against a socket of its own */
	_Atomic bool over;
};

static bool connect_at_once(const char *path, int *ret)
{
	struct sockaddr_un address;
	socklen_t length;

	*ret = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return *ret >= 0 && transport_address(path, &address, &length) == 0 &&
	       connect(*ret, (struct sockaddr *)&address, length) == 0;
}

static int listen_at(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	socklen_t length;

	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(fd, SOMAXCONN), 0);
	return fd;
}

/* A container that may use one processor of two. */
static void use_one_processor(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
}

/* The socket of its own is served as the daemon's is: each connection is taken and closed. */
static _Noreturn void rage(const char *path, const char *own, int listener, struct storm *storm)
{
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	use_one_processor();
	while (!storm->over) {
		bool rages = storm->rages;
		bool connected = connect_at_once(rages ? path : own, &fd);

		close(fd);
		if (!rages)
			close(accept(listener, NULL, NULL));
		else if (connected)
			storm->connects++;
		else
			storm->full++;
	}
	_exit(EXIT_SUCCESS);
}

/* How often a connection had to be tried until it was there. */
static unsigned visit(const struct scene *scene)
{
	unsigned tries = 1;
	int fd;

	while (!connect_at_once(scene->fixture.socket, &fd)) {
		close(fd);
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

TEST(storm_of_connect_and_close_lets_others_in)
{
	struct storm *storm = mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned visits = repetitions(100, 5000), tries = 0, most = 0;
	struct scene scene;
	char own[128];
	pid_t pids[2];
	int listener;

	scene_begin(&scene, "", NULL);
	snprintf(own, sizeof(own), "%s.own", scene.fixture.socket);
	listener = listen_at(own);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (pids[i] == 0)
			rage(scene.fixture.socket, own, listener, storm);
	}
	scene_measure_beside(&scene, wait_a_little);
	storm->rages = true;
	ck_assert(eventually(storm->connects > 10000 || is_emulated()));
	for (unsigned i = 0; i < visits; i++) {
		unsigned now = visit(&scene);

		tries += now;
		most = MAX(most, now);
	}
	scene_go_on(&scene);
	storm->over = true;
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
	close(listener);
	unlink(own);
	scene_end(
		&scene, 8192,
		"%u connections, closed at once, and %u for which the queue was full; %u visitors had to try %u times, %u at most",
		storm->connects, storm->full, visits, tries, most);
	munmap(storm, sizeof(*storm));
}
