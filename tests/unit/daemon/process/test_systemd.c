/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The test plays systemd: it passes sockets, and receives notifications. */

#include "daemon/process/systemd.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/admin/reload.h"
#include "daemon/connection/listener.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "protocol/transport.h"
#include "tests/unit/world.h"

/* --- sockets --- */

enum { FIRST_FD = 3, PASSED_MAX = 12, REFUSED = 100 };

static bool is_prepared(int fd)
{
	return fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

/* Ten for each socket of clients, one for that of admins; or REFUSED. Other fds have to be closed. */
static int take(int passed)
{
	struct systemd_sockets sockets = { .control = -1 };
	int r = systemd_take_sockets(&sockets), n_open = 0;

	for (int fd = FIRST_FD; fd < FIRST_FD + passed; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		if (!is_prepared(fd))
			return EXIT_FAILURE;
		n_open++;
	}
	for (size_t i = 0; i < sockets.n_clients; i++)
		n_open -= sockets.clients[i] < FIRST_FD + passed;
	if (n_open - (sockets.control >= 0) != 0 || (passed > 0 && getenv("LISTEN_FDS")))
		return EXIT_FAILURE;
	return r < 0 ? REFUSED : 10 * (int)sockets.n_clients + (sockets.control >= 0);
}

/* The result of take() in a child that has copies of these fds from 3 on. */
static int take_in_child(const int *fds, int n, const char *names)
{
	int status = 0, copies[PASSED_MAX];
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		char number[24];

		for (int i = 0; i < n; i++)
			copies[i] = fcntl(fds[i], F_DUPFD, 100);
		for (int i = 0; i < n; i++)
			dup2(copies[i], FIRST_FD + i);
		snprintf(number, sizeof(number), "%d", n);
		if (n > 0)
			setenv("LISTEN_FDS", number, 1);
		snprintf(number, sizeof(number), "%d", (int)getpid());
		setenv("LISTEN_PID", number, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		_exit(take(n));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int new_socket(int domain, int type, bool listens)
{
	int fd = socket(domain, type | SOCK_CLOEXEC, 0);
	/* A name that the kernel chooses, for which no file has to be made. */
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	ck_assert_int_ge(fd, 0);
	if (listens && domain == AF_UNIX)
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	if (listens)
		ck_assert_int_eq(listen(fd, 1), 0);
	return fd;
}

TEST(passed_sockets_are_taken_by_name)
{
	static const char many[] = "clients:clients:clients:clients:clients:clients:clients:clients:clients";
	static const struct {
		const char *names;
		int n, result;
	} cases[] = {
		{ "", 0, 0 },
		{ "clients:control:clients", 3, 21 },
		{ "unknown", 1, 0 },
		{ "control:control", 2, REFUSED },
		{ many, CLIENT_LISTENERS_MAX, 10 * CLIENT_LISTENERS_MAX },
		{ many, CLIENT_LISTENERS_MAX + 1, REFUSED },
	};
	int fd = new_socket(AF_UNIX, SOCK_SEQPACKET, true), fds[PASSED_MAX];

	for (size_t i = 0; i < PASSED_MAX; i++)
		fds[i] = fd;
	log_open(LOG_CRIT, false);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char names[128];

		string_copy(names, MIN(sizeof(names), (size_t)cases[i].n * strlen("clients:")), cases[i].names);
		if (cases[i].names != many)
			string_copy(names, sizeof(names), cases[i].names);
		ck_assert_msg(take_in_child(fds, cases[i].n, names) == cases[i].result, "%s", names);
	}
	close(fd);
}

TEST(passed_socket_of_another_kind_is_refused)
{
	int good = new_socket(AF_UNIX, SOCK_SEQPACKET, true), wrong[5];

	wrong[0] = new_socket(AF_UNIX, SOCK_SEQPACKET, false);
	wrong[1] = new_socket(AF_UNIX, SOCK_STREAM, true);
	wrong[2] = new_socket(AF_UNIX, SOCK_DGRAM, false);
	wrong[3] = new_socket(AF_INET, SOCK_STREAM, true);
	wrong[4] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	log_open(LOG_CRIT, false);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		ck_assert_int_eq(take_in_child((int[]){ good, wrong[i] }, 2, "clients:control"), REFUSED);
		ck_assert_int_eq(take_in_child((int[]){ wrong[i], good }, 2, "clients:control"), REFUSED);
		close(wrong[i]);
	}
	close(good);
}

TEST(file_of_a_passed_socket_is_not_removed)
{
	WORLD(world, 10, 10);
	struct listener listener;
	struct sockaddr_un address;
	struct stat status;
	socklen_t length;
	char path[100];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), on = 0;
	socklen_t size = sizeof(on);

	snprintf(path, sizeof(path), "%s/given", world->directory);
	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(listener_take(&listener, &world->daemon->connections, fd, SOCKET_CLIENTS), 0);
	ck_assert_str_eq(listener.path, path);
	ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, &size), 0);
	ck_assert_int_eq(on, 1);
	listener_remove_files(&listener);
	listener_deinit(&listener);
	ck_assert_int_eq(stat(path, &status), 0);
	unlink(path);
}

/* --- notifications --- */

static char received[1024];

/* Sets NOTIFY_SOCKET. */
static int notify_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	address.sun_path[0] = '@';
	address.sun_path[length - offsetof(struct sockaddr_un, sun_path)] = '\0';
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
	return fd;
}

/* The next notification, or "". */
static const char *next_notification(int fd)
{
	ssize_t n = recv(fd, received, sizeof(received) - 1, 0);

	received[n < 0 ? 0 : n] = '\0';
	return received;
}

/* Ends the pause between two notifications. */
static void let_time_pass(struct world *world)
{
	ck_assert(ev_is_active(&world->daemon->systemd.w_status));
	ev_timer_stop(world->daemon->loop, &world->daemon->systemd.w_status);
	ev_feed_event(world->daemon->loop, &world->daemon->systemd.w_status, EV_TIMER);
	turn(world);
}

TEST(status_is_sent_with_ready_and_after_changes)
{
	int notify = notify_socket();
	WORLD(world, 10, 10);
	END(end, world, 1);

	turn(world);
	ck_assert_str_eq(next_notification(notify), "");
	systemd_say_ready(&world->daemon->systemd);
	ck_assert_str_eq(next_notification(notify), "READY=1\nSTATUS=1 tenant, 0 of 10 events");
	say_hello(&end);
	expect_welcome(&end);
	get(&end, "one u32 a");
	ck_assert_str_eq(next_notification(notify), "");
	let_time_pass(world);
	ck_assert_str_eq(next_notification(notify), "STATUS=1 tenant, 1 of 10 events");
	let_time_pass(world);
	get(&end, "two u32 a");
	let_time_pass(world);
	ck_assert_str_eq(next_notification(notify), "STATUS=1 tenant, 2 of 10 events");
	close(notify);
}

TEST(reload_is_notified_with_time_and_ready)
{
	int notify = notify_socket();
	WORLD(world, 10, 10);
	unsigned long long first = 0, second = 0;

	log_open(LOG_ERR, false);
	systemd_say_ready(&world->daemon->systemd);
	next_notification(notify);
	reload_begin(world->daemon);
	ck_assert_int_eq(sscanf(next_notification(notify), "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=0 ", &first), 1);
	ck_assert(first > 0 && (double)first <= clock_now() * 1000000);
	reload_begin(world->daemon);
	ck_assert_int_eq(sscanf(next_notification(notify), "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=0 ", &second), 1);
	ck_assert_uint_ge(second, first);
	while (!*next_notification(notify))
		ev_run(world->daemon->loop, EVRUN_ONCE);
	ck_assert_str_eq(received, "READY=1\nSTATUS=0 tenants, 0 of 10 events");
	ck_assert_str_eq(next_notification(notify), "");
	close(notify);
}

TEST(watchdog_is_fed_at_half_its_timeout)
{
	int notify = notify_socket();
	struct world *world;

	setenv("WATCHDOG_USEC", "3000000", 1);
	world = world_new(10, 10);
	ck_assert_double_eq(world->daemon->systemd.w_watchdog.repeat, 1.5);
	ck_assert(ev_is_active(&world->daemon->systemd.w_watchdog));
	ck_assert_str_eq(next_notification(notify), "");
	ev_feed_event(world->daemon->loop, &world->daemon->systemd.w_watchdog, EV_TIMER);
	ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert_str_eq(next_notification(notify), "WATCHDOG=1");
	world_free(&world);
	close(notify);
}

TEST(watchdog_of_another_process_is_not_fed)
{
	setenv("WATCHDOG_USEC", "3000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	WORLD(world, 10, 10);

	ck_assert(!ev_is_active(&world->daemon->systemd.w_watchdog));
}

TEST(without_systemd_nothing_is_sent)
{
	WORLD(world, 10, 10);

	unsetenv("NOTIFY_SOCKET");
	systemd_say_ready(&world->daemon->systemd);
	systemd_say_reloading(&world->daemon->systemd);
	ck_assert(!ev_is_active(&world->daemon->systemd.w_status));
}
