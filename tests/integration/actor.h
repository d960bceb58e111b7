/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Other processes. An actor connects a socket of the test's, and says hello. The connection's tenant is that of the
 * actor. A holder keeps a copy of an fd open. Both live until they are ended, and no longer than the test.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/integration/raw.h"

struct actor {
	pid_t pid;
	int leash; /* it ends when this is closed */
	int socket;
	int page;
};

/* The actor's identity; zeros: the test's own. */
struct actor_as {
	const char *cgroup; /* its directory */
	const char *comm;
	uid_t uid;
	void (*enter)(void); /* called last: enters namespaces, or executes another program */
	bool greets;	     /* with actor_connect(): sends HELLO, and leaves the answer to the test */
};

/* Forks. The child (0) has stdio, the leash as fd 3, and `keep` as fd 4. */
static inline pid_t actor_fork(int keep, int *ret_leash)
{
	int leash[2];
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, leash), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int kept = keep >= 0 ? fcntl(keep, F_DUPFD, 64) : -1;

		dup2(fcntl(leash[1], F_DUPFD, 64), 3);
		if (kept >= 0)
			dup2(kept, 4);
		close_range(kept >= 0 ? 5 : 4, ~0U, 0);
		become_child();
		return 0;
	}
	close(leash[1]);
	*ret_leash = leash[0];
	return pid;
}

static inline _Noreturn void actor_wait_for_the_end(void)
{
	char byte;

	while (read(3, &byte, 1) > 0)
		;
	_exit(EXIT_SUCCESS);
}

static inline bool actor_join(const char *cgroup)
{
	char path[512];
	bool joined;
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	joined = fd >= 0 && write(fd, "0", 1) == 1;
	fd_close(fd);
	return joined;
}

static inline void actor_become(const struct actor_as *as)
{
	ck_assert(!as->cgroup || actor_join(as->cgroup));
	if (as->comm)
		prctl(PR_SET_NAME, as->comm);
	ck_assert(as->uid == 0 || setresuid(as->uid, as->uid, as->uid) == 0);
	/* The change of the uid has cleared it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (as->enter)
		as->enter();
}

static inline bool actor_greet(int fd)
{
	encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ .understands = UINT64_MAX });
	return raw_send(fd) == 0;
}

/* A welcomed connection, or -1: the daemon does not accept it, or refuses it. */
static inline int actor_hello(const char *path, int *ret_page)
{
	static uint8_t buffer[WIRE_PACKET_MAX];
	struct fdset fds = { 0 };
	int fd = raw_try_to_connect(path, 0);

	if (fd >= 0 && actor_greet(fd) && transport_receive_fds(fd, buffer, sizeof(buffer), &fds, 0) > 0 &&
	    fds.count == 1) {
		*ret_page = fdset_steal(&fds, 0);
		return fd;
	}
	fdset_deinit(&fds);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* In the actor: connects fd 4. */
static inline _Noreturn void actor_act(const char *path, bool greets)
{
	struct sockaddr_un address;
	socklen_t length;

	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(connect(4, (struct sockaddr *)&address, length), 0);
	ck_assert(!greets || actor_greet(4));
	ck_assert_int_eq(write(3, "x", 1), 1);
	close(4);
	actor_wait_for_the_end();
}

/* Connects, but sends no HELLO unless `greets`: the test's first packet is the connection's first. There is no page. */
static inline void actor_connect(struct actor *actor, const char *path, const struct actor_as *as)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char byte;

	*actor = (struct actor){ .leash = -1, .socket = fd, .page = -1 };
	actor->pid = actor_fork(fd, &actor->leash);
	if (actor->pid == 0) {
		if (as)
			actor_become(as);
		actor_act(path, as && as->greets);
	}
	ck_assert_msg(read(actor->leash, &byte, 1) == 1, "the actor could not connect");
}

static inline struct actor actor_new(const char *path, const struct actor_as *as)
{
	struct actor_as greeting = as ? *as : (struct actor_as){ 0 };
	struct raw_reply reply;
	struct actor actor;

	greeting.greets = true;
	actor_connect(&actor, path, &greeting);
	raw_receive(actor.socket, &reply);
	ck_assert_msg(reply.size > 0 && reply.fds.count == 1, "the actor was not welcomed: %zd", reply.size);
	actor.page = fdset_steal(&reply.fds, 0);
	raw_reply_deinit(&reply);
	return actor;
}

/* Ends the process; the connection and the page stay open. */
static inline void actor_leave(struct actor *actor)
{
	if (actor->leash < 0)
		return;
	actor->leash = fd_close(actor->leash);
	ck_assert_int_eq(waitpid(actor->pid, NULL, 0), actor->pid);
}

static inline void actor_end(struct actor *actor)
{
	actor->socket = fd_close(actor->socket);
	actor->page = fd_close(actor->page);
	actor_leave(actor);
}

struct holder {
	pid_t pid;
	int leash;
};

/* Leaves a copy of the stream with another process; the test's stream and its connection are closed. */
static inline void leave_copy(struct holder *holder, int socket, int stream)
{
	*holder = (struct holder){ .leash = -1 };
	holder->pid = actor_fork(stream, &holder->leash);
	if (holder->pid == 0)
		actor_wait_for_the_end();
	fd_close(stream);
	close(socket);
}

/* The same with the stream of a new event. */
static inline void leave_event(struct holder *holder, int socket, const char *description)
{
	int stream = -1;

	ck_assert_uint_eq(raw_register(socket, description, NULL, &stream), 0);
	leave_copy(holder, socket, stream);
}

static inline void holder_end(struct holder *holder)
{
	holder->leash = fd_close(holder->leash);
	ck_assert_int_eq(waitpid(holder->pid, NULL, 0), holder->pid);
}
