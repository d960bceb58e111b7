/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/kernel/keeper/scene.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "protocol/transport.h"

char scene_directory[64], scene_address[100];
struct message_packet last_message;

/* --- the kernel --- */

static void fake_answer(struct fake *fake, struct kernel_call *call)
{
	struct stat status;
	int ends[2];

	if (message_op(call->op)->takes_fd)
		call->fd = fd_close(call->fd);
	call->result = fake->result;
	call->bit = call->index + 1;
	call->index += 2;
	if (!message_op(call->op)->gives_fd || call->page == 0)
		return;
	if (pipe2(ends, O_CLOEXEC) < 0 || fstat(ends[1], &status) < 0)
		abort();
	close(ends[0]);
	call->fd = ends[1];
	call->result = KERNEL_OK;
	fake->given[fake->n_given++] = status.st_ino;
}

static void fake_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct fake *fake = container_of(kernel, struct fake, kernel);

	fake->batches += n > 0;
	for (size_t i = 0; i < n; i++) {
		struct note *note = &fake->note[fake->noted++];

		note->call = calls[i];
		string_copy(note->text, sizeof(note->text), calls[i].text ? calls[i].text : "");
		fake_answer(fake, &calls[i]);
	}
	if (done)
		done(data, calls, n);
}

static int fake_dispatch(struct kernel *kernel)
{
	struct fake *fake = container_of(kernel, struct fake, kernel);
	eventfd_t count;

	eventfd_read(kernel->fd, &count);
	fake->dispatches++;
	wait_until(!fake->held);
	return fake->dispatch;
}

static void fake_orphan(struct kernel *kernel)
{
	container_of(kernel, struct fake, kernel)->orphaned++;
}

static const struct kernel_ops fake_ops = {
	.submit = fake_submit,
	.dispatch = fake_dispatch,
	.orphan = fake_orphan,
};

/* --- the keeper --- */

static void limit_waiting(int socket)
{
	const struct timeval timeout = { .tv_sec = 30 };

	ck_assert_int_eq(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
}

struct scene *scene_new(void)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	int pair[2];

	ck_assert_ptr_nonnull(scene);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	scene->daemon = pair[0];
	scene->keeper = pair[1];
	limit_waiting(scene->daemon);
	scene->fake.kernel = (struct kernel){
		.ops = &fake_ops,
		.facts = {
			.backend = BACKEND_STATUS_PAGE,
			.shared_page = true,
			.page_bits = 100,
			.capacity = 99,
			.payload_max = 4064,
			.note = "one page for all",
		},
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	return scene;
}

static void *serve(void *data)
{
	struct scene *scene = data;

	scene->served = keeper_serve(scene->keeper, &scene->fake.kernel, scene->box);
	return NULL;
}

static void *serve_all(void *data)
{
	struct scene *scene = data;
	const uid_t owner = keeper_find_owner(scene->keeper);

	scene->served = keeper_serve_all(scene->keeper, owner, scene->hold, &scene->fake.kernel);
	return NULL;
}

void scene_start(struct scene *scene)
{
	ck_assert_int_eq(pthread_create(&scene->thread, NULL, scene->hold ? serve_all : serve, scene), 0);
	scene->running = true;
}

struct scene *scene_ready(struct deposit_box *box)
{
	struct scene *scene = scene_new();

	scene->box = box;
	scene_start(scene);
	receive(scene, MESSAGE_READY);
	return scene;
}

struct scene *scene_of_many(unsigned hold)
{
	struct scene *scene = scene_new();
	struct sockaddr_un name;
	socklen_t length;

	make_temporary_directory(scene_directory, sizeof(scene_directory));
	snprintf(scene_address, sizeof(scene_address), "%s/keeper", scene_directory);
	scene->daemon = fd_close(scene->daemon);
	fd_close(scene->keeper);
	scene->keeper = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(transport_address(scene_address, &name, &length), 0);
	ck_assert_int_eq(bind(scene->keeper, (struct sockaddr *)&name, length), 0);
	ck_assert_int_eq(listen(scene->keeper, 8), 0);
	scene->hold = hold;
	scene_start(scene);
	return scene;
}

int scene_join(struct scene *scene)
{
	ck_assert_int_eq(pthread_join(scene->thread, NULL), 0);
	scene->running = false;
	if (*scene_address) {
		unlink(scene_address);
		rmdir(scene_directory);
	}
	return scene->served;
}

int hang_up(struct scene *scene)
{
	scene->daemon = fd_close(scene->daemon);
	return scene_join(scene);
}

void scene_free(struct scene **scene)
{
	if ((*scene)->running)
		hang_up(*scene);
	fdset_deinit(&last_message.fds);
	fd_close((*scene)->daemon);
	fd_close((*scene)->keeper);
	fd_close((*scene)->fake.kernel.fd);
	free(*scene);
}

int connect_daemon(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name;
	socklen_t length;

	ck_assert_int_eq(transport_address(scene_address, &name, &length), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&name, length), 0);
	limit_waiting(fd);
	return fd;
}

void next_daemon(struct scene *scene)
{
	fd_close(scene->daemon);
	scene->daemon = connect_daemon();
	receive(scene, MESSAGE_READY);
}

/* --- the daemon's end --- */

void receive(const struct scene *scene, enum message_kind kind)
{
	struct pollfd ask = { .fd = scene->daemon, .events = POLLIN };

	fdset_deinit(&last_message.fds);
	ck_assert_int_eq(poll(&ask, 1, 30000), 1);
	ck_assert_int_eq(message_receive(scene->daemon, &last_message), 1);
	ck_assert_uint_eq(last_message.header.kind, kind);
}

bool nothing_is_received(const struct scene *scene)
{
	struct pollfd ask = { .fd = scene->daemon, .events = POLLIN };

	return poll(&ask, 1, 0) == 0;
}

void expect_ended(const struct scene *scene, int socket)
{
	char byte;

	if (socket == scene->daemon && scene->hold == 0)
		shutdown(scene->keeper, SHUT_WR);
	ck_assert_int_eq(recv(socket, &byte, 1, 0), 0);
}

void send_calls(const struct scene *scene, const struct kernel_call *calls, size_t n)
{
	static uint8_t room[MESSAGE_MAX];

	ck_assert_int_eq(message_send(scene->daemon, room, MESSAGE_CALLS, calls, n), (int)n);
}

void expect_answered(const struct scene *scene, struct kernel_call *calls, size_t n, size_t fds)
{
	size_t with_fd = 0;

	receive(scene, MESSAGE_ANSWERS);
	ck_assert_uint_eq(last_message.header.count, n);
	for (size_t i = 0; i < n; i++) {
		calls[i].fd = -1;
		ck_assert(message_next_answer(&last_message, &calls[i]));
		with_fd += calls[i].fd >= 0;
	}
	ck_assert(message_is_done(&last_message));
	ck_assert_uint_eq(with_fd, fds);
}

void close_fds(struct kernel_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		calls[i].fd = fd_close(calls[i].fd);
}

void dispatch_kernel(struct scene *scene)
{
	unsigned before = scene->fake.dispatches;

	ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
	wait_until(scene->fake.dispatches > before);
}

const struct kernel_call examples[] = {
	{ .op = KERNEL_PAGE_NEW, .page = 7, .text = "/system.slice/a.service" },
	{ .op = KERNEL_STREAM_NEW, .page = 7, .stream = 8 },
	{ .op = KERNEL_REGISTER, .page = 7, .stream = 8, .flags = REGISTER_MULTI_FORMAT, .text = "event u32 x" },
	{ .op = KERNEL_STREAM_NEW, .page = 0, .stream = 9 }, /* is refused */
	{ .op = KERNEL_RELEASE, .stream = 8, .index = 3 },
	{ .op = KERNEL_STILL_OPEN, .stream = 8 },
	{ .op = KERNEL_CLEAN, .stream = 8 },
	{ .op = KERNEL_STREAM_FREE, .stream = 8 },
	{ .op = KERNEL_PAGE_FREE, .page = 7 },
};

/* --- deposits --- */

int some_fd(void)
{
	int fd = memfd_create("deposit", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

struct kernel_call deposit(uint64_t number, int fd)
{
	return (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = number, .fd = fd };
}

static struct kernel_call ask(const struct scene *scene, struct kernel_call call)
{
	send_calls(scene, &call, 1);
	receive(scene, MESSAGE_ANSWERS);
	call.fd = -1;
	ck_assert(message_next_answer(&last_message, &call));
	ck_assert(message_is_done(&last_message));
	return call;
}

void send_deposit(const struct scene *scene, uint64_t number, int fd)
{
	ck_assert_int_eq(ask(scene, deposit(number, fd)).result, KERNEL_OK);
}

int ask_for(const struct scene *scene, enum kernel_op op, uint64_t number)
{
	struct kernel_call call = ask(scene, (struct kernel_call){ .op = op, .number = number, .fd = -1 });

	fd_close(call.fd);
	return call.result;
}

void expect_deposited(const struct scene *scene, uint64_t number, int fd)
{
	struct kernel_call call =
		ask(scene, (struct kernel_call){ .op = KERNEL_DEPOSITED, .number = number, .fd = -1 });
	struct stat one, other;

	ck_assert_int_eq(call.result, KERNEL_OK);
	ck_assert_int_eq(fstat(fd, &one), 0);
	ck_assert_int_eq(fstat(call.fd, &other), 0);
	ck_assert_uint_eq(one.st_ino, other.st_ino);
	ck_assert_int_eq(fcntl(call.fd, F_GETFD), FD_CLOEXEC);
	close(call.fd);
}

void disown(const struct scene *scene)
{
	ck_assert_int_eq(ask(scene, (struct kernel_call){ .op = KERNEL_DISOWN, .fd = -1 }).result, scene->fake.result);
}
