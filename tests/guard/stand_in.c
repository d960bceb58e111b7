/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/guard/stand_in.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/suite.h"

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

#define TRACEFS "/sys/kernel/tracing"

enum wish { WISH_OPEN, WISH_TRY };

struct wish_packet {
	enum wish wish;
	enum stand_in_process process;
	enum operation operation;
	char event[64];
};

struct answer_packet {
	int error;
	off_t byte;
};

struct trial {
	int fd;
	int depth; /* generations of children */
	enum operation operation;
	const char *event;
};

/* Without check's assertions, which tell check of success as well: the stand-in would do that after the test has its answer. */
void send_packet(int socket, const void *packet, size_t size, int fd)
{
	int r = transport_send(socket, packet, size, &fd, fd >= 0, 0);

	if (r < 0)
		ck_abort_msg("transport_send: %s", strerror(-r));
}

int receive_packet(int socket, void *packet, size_t size)
{
	struct fdset fds = { 0 };

	if (transport_receive_fds(socket, packet, size, &fds, 0) != (ssize_t)size)
		_exit(1);
	return fdset_steal(&fds, 0);
}

int run_in_child(in_child *function, void *data)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(function(data));
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "it ended with status %#x", (unsigned)status);
	return WEXITSTATUS(status);
}

int clone_tracefs(uint64_t *ret_id)
{
	int fd = open_tree(AT_FDCWD, TRACEFS, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct statx status;

	ck_assert_msg(fd >= 0, "open_tree: %s", strerror(errno));
	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &status) < 0 || !(status.stx_mask & STATX_MNT_ID_UNIQUE))
		ck_assert_int_eq(statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status), 0);
	*ret_id = status.stx_mnt_id;
	return fd;
}

int open_data_file(int directory)
{
	int fd = openat(directory, "user_events_data", O_WRONLY | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "user_events_data: %s", strerror(errno));
	return fd;
}

bool is_locked(off_t byte)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int fd = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);

	ck_assert_int_eq(fcntl(fd, F_OFD_GETLK, &lock), 0);
	close(fd);
	return lock.l_type != F_UNLCK;
}

void cgroup_make(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", name);
	ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
}

void cgroup_enter(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/cgroup.procs", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(write(fd, "0\n", 2), 2);
	close(fd);
}

/* --- the process --- */

static int try_it(void *data)
{
	struct trial *trial = data;
	unsigned manner = access("/proc/sys/kernel/user_events_max", F_OK) < 0 ? MANNER_STATUS_PAGE : 0;

	if (trial->depth-- > 0)
		return run_in_child(try_it, trial);
	return attempt(trial->fd, trial->operation, manner, trial->event);
}

/* The stand-in is no test: after a failed assertion check's main() would go on in it. */
static void must(bool true_or_end)
{
	if (!true_or_end) {
		fprintf(stderr, "the stand-in for the keeper: %s\n", strerror(errno));
		_exit(1);
	}
}

static int open_locked(int directory, off_t byte)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int fd = openat(directory, "user_events_data", O_WRONLY | O_CLOEXEC);

	must(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
	return fd;
}

static void serve(int socket, int directory)
{
	static off_t last_byte;
	struct answer_packet answer = { .error = 0 };
	struct wish_packet wish;
	struct trial trial = { .fd = receive_packet(socket, &wish, sizeof(wish)) };

	if (wish.wish == WISH_OPEN) {
		answer.byte = (off_t)getpid() * 4096 + ++last_byte;
		send_packet(socket, &answer, sizeof(answer), open_locked(directory, answer.byte));
		return;
	}
	trial.depth = (int)wish.process;
	trial.operation = wish.operation;
	trial.event = wish.event;
	answer.error = try_it(&trial);
	close(trial.fd);
	send_packet(socket, &answer, sizeof(answer), -1);
}

static void live(int socket, const char *cgroup)
{
	uint64_t mount_id;
	int directory;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cgroup_enter(cgroup);
	must(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	directory = clone_tracefs(&mount_id);
	send_packet(socket, &mount_id, sizeof(mount_id), -1);
	for (;;)
		serve(socket, directory);
}

void stand_in_start(struct stand_in *stand_in, const char *cgroup)
{
	int sockets[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	cgroup_make(cgroup);
	stand_in->pid = fork();
	if (stand_in->pid == 0) {
		close(sockets[0]);
		live(sockets[1], cgroup);
		_exit(1);
	}
	close(sockets[1]);
	stand_in->socket = sockets[0];
	receive_packet(stand_in->socket, &stand_in->mount, sizeof(stand_in->mount));
}

void stand_in_end(struct stand_in *stand_in)
{
	kill(stand_in->pid, SIGKILL);
	waitpid(stand_in->pid, NULL, 0);
	close(stand_in->socket);
}

static int ask(const struct stand_in *stand_in, const struct wish_packet *wish, int fd, struct answer_packet *ret)
{
	send_packet(stand_in->socket, wish, sizeof(*wish), fd);
	return receive_packet(stand_in->socket, ret, sizeof(*ret));
}

int stand_in_open(struct stand_in *stand_in, off_t *ret_byte)
{
	struct wish_packet wish = { .wish = WISH_OPEN };
	struct answer_packet answer;
	int fd = ask(stand_in, &wish, -1, &answer);

	ck_assert_int_ge(fd, 0);
	if (ret_byte)
		*ret_byte = answer.byte;
	return fd;
}

int stand_in_try(struct stand_in *stand_in, enum stand_in_process process, int fd, enum operation operation,
		 const char *event)
{
	struct wish_packet wish = { .wish = WISH_TRY, .process = process, .operation = operation };
	struct answer_packet answer;

	string_copy(wish.event, sizeof(wish.event), event);
	ask(stand_in, &wish, fd, &answer);
	return answer.error;
}
