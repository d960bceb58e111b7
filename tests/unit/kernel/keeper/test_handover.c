/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The test acts as systemd's file descriptor store: the next process is started with the fds that it has got. */

#include "kernel/keeper/handover.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/fdset.h"
#include "protocol/transport.h"
#include "tests/suite.h"

enum { STORE_MAX = 8, FIRST_FD = 3 };

static struct store {
	int socket;
	int fds[STORE_MAX];
	char names[STORE_MAX][32];
	size_t n;
} store;

/* NOTIFY_SOCKET, of either kind. */
static void store_open(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(address);

	store.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (path)
		string_copy(address.sun_path, sizeof(address.sun_path), path);
	ck_assert_int_eq(bind(store.socket, (struct sockaddr *)&address, path ? length : sizeof(sa_family_t)), 0);
	ck_assert_int_eq(getsockname(store.socket, (struct sockaddr *)&address, &length), 0);
	if (!path) {
		address.sun_path[0] = '@';
		address.sun_path[length - offsetof(struct sockaddr_un, sun_path)] = '\0';
	}
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
}

static void store_remove(size_t i)
{
	close(store.fds[i]);
	store.n--;
	store.fds[i] = store.fds[store.n];
	memcpy(store.names[i], store.names[store.n], sizeof(store.names[i]));
}

static void store_close(void)
{
	while (store.n > 0)
		store_remove(0);
	close(store.socket);
}

static void store_take(const char *text, struct fdset *fds)
{
	char name[32];

	if (sscanf(text, "FDSTOREREMOVE=1\nFDNAME=%31s", name) == 1) {
		ck_assert_uint_eq(fds->count, 0);
		for (size_t i = store.n; i-- > 0;)
			if (streq(store.names[i], name))
				store_remove(i);
		return;
	}
	ck_assert_int_eq(sscanf(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=%31s", store.names[store.n]), 1);
	ck_assert_uint_eq(fds->count, 1);
	ck_assert_uint_lt(store.n, STORE_MAX);
	store.fds[store.n++] = fdset_steal(fds, 0);
}

static void store_read(void)
{
	for (;;) {
		_cleanup_(fdset_deinit) struct fdset fds = { 0 };
		char text[256];
		ssize_t n = transport_receive_fds(store.socket, text, sizeof(text) - 1, &fds, MSG_DONTWAIT);

		if (n <= 0)
			return;
		text[n] = '\0';
		store_take(text, &fds);
	}
}

/* Reads while it writes, as systemd does: a socket holds ten messages. */
static void put(const struct preparation *preparation)
{
	const pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(-handover_put(preparation));
	while (waitpid(child, &status, WNOHANG) == 0) {
		store_read();
		usleep(1000);
	}
	store_read();
	ck_assert_int_eq(status, 0);
}

/* Calls handover_take() in a child that is started with `listener` (or -1) and the stored fds, and returns the result of `look`. */
static int in_successor(int listener, int (*look)(int r, const struct preparation *))
{
	pid_t child = fork();
	int status = 0;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct preparation preparation = PREPARATION_NONE;
		int copies[STORE_MAX + 1], n = 0, r;
		char names[512] = "", number[16];
		struct text text = text_make(names, sizeof(names));

		if (listener >= 0) {
			copies[n++] = fcntl(listener, F_DUPFD, 100);
			text_printf(&text, "keeper");
		}
		for (size_t i = 0; i < store.n; i++) {
			copies[n++] = fcntl(store.fds[i], F_DUPFD, 100);
			text_printf(&text, "%s%s", n > 1 ? ":" : "", store.names[i]);
		}
		for (int i = 0; i < n; i++)
			dup2(copies[i], FIRST_FD + i);
		snprintf(number, sizeof(number), "%d", n);
		setenv("LISTEN_FDS", number, 1);
		snprintf(number, sizeof(number), "%d", (int)getpid());
		setenv("LISTEN_PID", number, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		r = handover_take(&preparation);
		_exit(look(r, &preparation));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static struct preparation prepare_guarded(void)
{
	struct preparation preparation = PREPARATION_NONE;

	preparation.mounts.tracefs = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	preparation.mounts.pages = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	preparation.mounts.pages_read_only = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	preparation.guarded = true;
	return preparation;
}

static bool is_at(int fd, const char *path)
{
	struct stat one, other;

	return fcntl(fd, F_GETFD) & FD_CLOEXEC && fstat(fd, &one) == 0 && stat(path, &other) == 0 &&
	       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static int is_complete(int r, const struct preparation *preparation)
{
	const struct mounts *mounts = &preparation->mounts;

	return r == 0 && preparation->listener == FIRST_FD && is_at(mounts->tracefs, "/proc") &&
	       is_at(mounts->pages, "/tmp") && is_at(mounts->pages_read_only, "/tmp") && preparation->guarded &&
	       !*preparation->failure;
}

TEST(preparation_reaches_next_process)
{
	struct preparation preparation = prepare_guarded();

	store_open(NULL);
	put(&preparation);
	ck_assert_uint_eq(store.n, 4);
	ck_assert(in_successor(store.socket, is_complete));
	preparation_deinit(&preparation);
	store_close();
}

TEST(earlier_preparation_is_replaced)
{
	struct preparation preparation = prepare_guarded();
	char directory[64], path[100];

	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/notify", directory);
	store_open(path);
	for (int i = 0; i < 2; i++) {
		put(&preparation);
		ck_assert_uint_eq(store.n, 4);
	}
	preparation_deinit(&preparation);
	put(&preparation);
	ck_assert_uint_eq(store.n, 1);
	store_close();
	unlink(path);
	rmdir(directory);
}

/* If the kernel has no kcmp(), systemd compares device, inode and flags. */
static void expect_all_differ(struct preparation *preparation)
{
	struct stat one, other;

	store_open(NULL);
	put(preparation);
	for (size_t i = 0; i < store.n; i++) {
		for (size_t j = 0; j < i; j++) {
			ck_assert_int_eq(fstat(store.fds[i], &one), 0);
			ck_assert_int_eq(fstat(store.fds[j], &other), 0);
			ck_assert(one.st_dev != other.st_dev || one.st_ino != other.st_ino ||
				  fcntl(store.fds[i], F_GETFL) != fcntl(store.fds[j], F_GETFL));
		}
	}
	preparation_deinit(preparation);
	store_close();
}

TEST(stored_fds_differ)
{
	struct preparation pages = prepare_guarded(), kernels_page = prepare_guarded();

	expect_all_differ(&pages);
	/* Before Linux 6.4 the clients' page is in tracefs. */
	kernels_page.mounts.pages = fd_close(kernels_page.mounts.pages);
	close(kernels_page.mounts.pages_read_only);
	kernels_page.mounts.pages_read_only = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	expect_all_differ(&kernels_page);
}

static int is_unguarded(int r, const struct preparation *preparation)
{
	return r == 0 && preparation->listener >= 0 && !preparation->guarded && preparation->mounts.pages == -1 &&
	       streq(preparation->no_guard, "no BTF") && !*preparation->failure;
}

static int is_failure(int r, const struct preparation *preparation)
{
	return r == 0 && preparation->listener >= 0 && !preparation->guarded && preparation->mounts.tracefs == -1 &&
	       streq(preparation->failure, "no user_events");
}

TEST(reasons_are_handed_over)
{
	struct preparation preparation = PREPARATION_NONE;

	store_open(NULL);
	string_copy(preparation.no_guard, sizeof(preparation.no_guard), "no BTF");
	put(&preparation);
	ck_assert(in_successor(store.socket, is_unguarded));
	string_copy(preparation.failure, sizeof(preparation.failure), "no user_events");
	put(&preparation);
	ck_assert(in_successor(store.socket, is_failure));
	store_close();
}

static int is_nothing(int r, const struct preparation *preparation)
{
	return r == -ENOENT && preparation->listener == -1 && preparation->mounts.tracefs == -1;
}

static int is_nothing_and_closed(int r, const struct preparation *preparation)
{
	return is_nothing(r, preparation) && fcntl(FIRST_FD, F_GETFD) < 0;
}

TEST(nothing_is_taken_without_listening_socket)
{
	struct preparation preparation = prepare_guarded();

	store_open(NULL);
	ck_assert(in_successor(-1, is_nothing));
	put(&preparation);
	ck_assert(in_successor(-1, is_nothing_and_closed));
	preparation_deinit(&preparation);
	ck_assert_int_eq(handover_take(&preparation), -ENOENT);
	store_close();
}

TEST(handover_without_systemd_fails)
{
	struct preparation preparation = PREPARATION_NONE;

	unsetenv("NOTIFY_SOCKET");
	ck_assert_int_eq(handover_put(&preparation), -ENOTCONN);
}
