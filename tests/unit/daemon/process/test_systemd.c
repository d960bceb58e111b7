/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The test plays systemd: it hands over sockets, and listens to what it is told. */

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

/* --- what is handed over --- */

enum { LAST = -1, FIRST_FD = 3, HANDED_MAX = 12 };

/* In a child, whose descriptors from 3 on are these: what it makes of them, as an exit status. */
static int in_child_with(const int *fds, const char *names, int (*look)(int r, struct systemd_sockets *))
{
	int status = 0, copies[HANDED_MAX];
	size_t n = 0;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct systemd_sockets sockets = { .control = -1 };
		char number[24];

		for (; fds[n] != LAST; n++)
			copies[n] = fcntl(fds[n], F_DUPFD, 100);
		for (size_t i = 0; i < n; i++)
			dup2(copies[i], FIRST_FD + (int)i);
		snprintf(number, sizeof(number), "%zu", n);
		if (n > 0)
			setenv("LISTEN_FDS", number, 1);
		snprintf(number, sizeof(number), "%d", (int)getpid());
		setenv("LISTEN_PID", number, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		_exit(look(systemd_take_sockets(&sockets), &sockets));
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

static bool is_ready_for_us(int fd)
{
	return fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static int are_two_and_one(int r, struct systemd_sockets *sockets)
{
	return r == 0 && sockets->n_clients == 2 && sockets->clients[0] == 3 && sockets->control == 4 &&
	       sockets->clients[1] == 5 && is_ready_for_us(3) && is_ready_for_us(4) && is_ready_for_us(5) &&
	       !getenv("LISTEN_FDS");
}

TEST(sockets_that_are_handed_over_are_taken_by_their_names)
{
	int fd = new_socket(AF_UNIX, SOCK_SEQPACKET, true);

	ck_assert(in_child_with((int[]){ fd, fd, fd, LAST }, "clients:control:clients", are_two_and_one));
	close(fd);
}

static int is_none_and_closed(int r, struct systemd_sockets *sockets)
{
	return r == 0 && sockets->n_clients == 0 && sockets->control == -1 && fcntl(3, F_GETFD) < 0;
}

TEST(what_has_another_name_is_closed)
{
	int fd = new_socket(AF_UNIX, SOCK_SEQPACKET, true);

	log_open(LOG_ERR, false);
	ck_assert(in_child_with((int[]){ fd, LAST }, "unknown", is_none_and_closed));
	close(fd);
}

static int is_refused_and_closed(int r, struct systemd_sockets *sockets)
{
	return r < 0 && sockets->n_clients == 0 && sockets->control == -1 && fcntl(3, F_GETFD) < 0 &&
	       fcntl(4, F_GETFD) < 0;
}

TEST(what_is_no_such_socket_is_refused)
{
	int good = new_socket(AF_UNIX, SOCK_SEQPACKET, true), wrong[5];

	wrong[0] = new_socket(AF_UNIX, SOCK_SEQPACKET, false);
	wrong[1] = new_socket(AF_UNIX, SOCK_STREAM, true);
	wrong[2] = new_socket(AF_UNIX, SOCK_DGRAM, false);
	wrong[3] = new_socket(AF_INET, SOCK_STREAM, true);
	wrong[4] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	log_open(LOG_CRIT, false);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		ck_assert(in_child_with((int[]){ good, wrong[i], LAST }, "clients:control", is_refused_and_closed));
		ck_assert(in_child_with((int[]){ wrong[i], good, LAST }, "clients:control", is_refused_and_closed));
		close(wrong[i]);
	}
	ck_assert(in_child_with((int[]){ good, good, LAST }, "control:control", is_refused_and_closed));
	close(good);
}

static int how_many(int r, struct systemd_sockets *sockets)
{
	return r < 0 ? 100 : (int)sockets->n_clients;
}

TEST(as_many_are_taken_as_there_is_room_for)
{
	int fd = new_socket(AF_UNIX, SOCK_SEQPACKET, true), fds[] = { fd, fd, fd, fd, fd, fd, fd, fd, fd, LAST };
	static const char names[] = "clients:clients:clients:clients:clients:clients:clients:clients:clients";

	_Static_assert(ARRAY_SIZE(fds) - 2 == CLIENT_LISTENERS_MAX, "one more than there is room for");
	log_open(LOG_CRIT, false);
	ck_assert_int_eq(in_child_with(fds + 1, names + strlen("clients:"), how_many), CLIENT_LISTENERS_MAX);
	ck_assert_int_eq(in_child_with(fds, names, how_many), 100);
	close(fd);
}

static int is_none(int r, struct systemd_sockets *sockets)
{
	return r == 0 && sockets->n_clients == 0 && sockets->control == -1;
}

TEST(who_was_handed_nothing_has_nothing)
{
	ck_assert(in_child_with((int[]){ LAST }, "", is_none));
}

TEST(a_file_that_somebody_else_has_made_stays)
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

/* --- what is said --- */

static char heard[1024];

/* NOTIFY_SOCKET is this. */
static int listen_for_words(void)
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

/* The next words, or "". */
static const char *next_words(int fd)
{
	ssize_t n = recv(fd, heard, sizeof(heard) - 1, 0);

	heard[n < 0 ? 0 : n] = '\0';
	return heard;
}

/* The time after which the next may be said. */
static void let_time_pass(struct world *world)
{
	ev_timer_stop(world->daemon->loop, &world->daemon->systemd.w_status);
	turn(world);
}

TEST(its_status_goes_with_ready_and_is_kept_up_to_date_but_not_all_the_time)
{
	int words = listen_for_words();
	WORLD(world, 10, 10);
	END(end, world, 1);

	turn(world);
	ck_assert_str_eq(next_words(words), "");
	systemd_say_ready(&world->daemon->systemd);
	ck_assert_str_eq(next_words(words), "READY=1\nSTATUS=1 tenant, 0 of 10 events");
	say_hello(&end);
	expect_welcome(&end);
	get(&end, "one u32 a");
	ck_assert_str_eq(next_words(words), "");
	let_time_pass(world);
	ck_assert_str_eq(next_words(words), "STATUS=1 tenant, 1 of 10 events");
	let_time_pass(world);
	get(&end, "two u32 a");
	let_time_pass(world);
	ck_assert_str_eq(next_words(words), "STATUS=1 tenant, 2 of 10 events");
	close(words);
}

TEST(the_time_between_two_lines_ends)
{
	int words = listen_for_words();
	WORLD(world, 10, 10);

	systemd_say_ready(&world->daemon->systemd);
	ck_assert(ev_is_active(&world->daemon->systemd.w_status));
	strcpy(world->daemon->systemd.told, "another one");
	next_words(words);
	ev_timer_stop(world->daemon->loop, &world->daemon->systemd.w_status);
	ev_feed_event(world->daemon->loop, &world->daemon->systemd.w_status, EV_TIMER);
	ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert_str_eq(next_words(words), "STATUS=0 tenants, 0 of 10 events");
	close(words);
}

TEST(each_reload_says_when_it_began_and_all_of_them_end_with_ready)
{
	int words = listen_for_words();
	WORLD(world, 10, 10);
	unsigned long long first = 0, second = 0;

	log_open(LOG_ERR, false);
	systemd_say_ready(&world->daemon->systemd);
	next_words(words);
	reload_begin(world->daemon);
	ck_assert_int_eq(sscanf(next_words(words), "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=0 ", &first), 1);
	ck_assert(first > 0 && (double)first <= clock_now() * 1000000);
	reload_begin(world->daemon);
	ck_assert_int_eq(sscanf(next_words(words), "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=0 ", &second), 1);
	ck_assert_uint_ge(second, first);
	while (!*next_words(words))
		ev_run(world->daemon->loop, EVRUN_ONCE);
	ck_assert_str_eq(heard, "READY=1\nSTATUS=0 tenants, 0 of 10 events");
	ck_assert_str_eq(next_words(words), "");
	close(words);
}

TEST(the_watchdog_is_fed_from_the_loop_at_half_its_patience)
{
	int words = listen_for_words();
	struct world *world;

	setenv("WATCHDOG_USEC", "3000000", 1);
	world = world_new(10, 10);
	ck_assert_double_eq(world->daemon->systemd.w_watchdog.repeat, 1.5);
	ck_assert(ev_is_active(&world->daemon->systemd.w_watchdog));
	ck_assert_str_eq(next_words(words), "");
	ev_feed_event(world->daemon->loop, &world->daemon->systemd.w_watchdog, EV_TIMER);
	ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert_str_eq(next_words(words), "WATCHDOG=1");
	world_free(&world);
	close(words);
}

TEST(another_process_watchdog_is_not_fed)
{
	setenv("WATCHDOG_USEC", "3000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	WORLD(world, 10, 10);

	ck_assert(!ev_is_active(&world->daemon->systemd.w_watchdog));
}

TEST(without_systemd_nothing_is_said)
{
	WORLD(world, 10, 10);

	unsetenv("NOTIFY_SOCKET");
	systemd_say_ready(&world->daemon->systemd);
	systemd_say_reloading(&world->daemon->systemd);
	systemd_say_stopping();
	ck_assert(!ev_is_active(&world->daemon->systemd.w_status));
}
