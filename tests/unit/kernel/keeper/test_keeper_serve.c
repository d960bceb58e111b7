/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The keeper's conversation with its daemon, over a kernel of the test's own that notes what it is asked. */

#include "kernel/keeper/serve.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "kernel/keeper/deposit.h"
#include "kernel/rpc/message.h"
#include "protocol/transport.h"
#include "tests/suite.h"

enum { NOTED_MAX = 400, DEVICES = 32, HELD_MAX = 32 };

/* --- how many fds are on their way, of all programs of this user together --- */

static _Atomic bool too_many_in_flight;
static _Atomic unsigned refused_sends;
/* So many answers of the keeper's, which has the other end, find no memory. */
static _Atomic unsigned without_memory;
static int daemons_end;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (without_memory > 0 && fd != daemons_end) {
		errno = without_memory-- % 2 ? ENOMEM : ENOBUFS;
		return -1;
	}
	if (too_many_in_flight && message->msg_controllen > 0) {
		refused_sends++;
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* Here time is short. */
int usleep(useconds_t us)
{
	return nanosleep(&(struct timespec){ .tv_nsec = (long)us * 10 }, NULL);
}

/* --- the kernel --- */

struct note {
	struct kernel_call call;
	char text[WIRE_TENANT_MAX + 1];
};

struct held {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
};

/* Whatever it notes is looked at when the keeper has ended, or has answered. */
struct fake {
	struct kernel kernel;
	bool holds; /* each dispatch answers one batch, the youngest first; a cancel all */
	struct held held[HELD_MAX];
	_Atomic size_t n_held;
	struct note note[NOTED_MAX];
	size_t noted;
	size_t batches;
	int result; /* of all but pages and streams */
	unsigned orphaned;
	int dispatch;
	_Atomic unsigned dispatches;
	ino_t given[DEVICES]; /* fds */
	size_t n_given;
};

static void fake_answer(struct fake *fake, struct kernel_call *call)
{
	struct stat status;
	int ends[2];

	/* It is the kernel's. */
	if (message_op_takes_fd(call->op))
		call->fd = fd_close(call->fd);
	call->result = fake->result;
	call->bit = call->index + 1;
	call->index += 2;
	if (!message_op_gives_fd(call->op) || call->page == 0)
		return;
	if (pipe2(ends, O_CLOEXEC) < 0 || fstat(ends[1], &status) < 0)
		abort();
	close(ends[0]);
	call->fd = ends[1];
	call->result = KERNEL_OK;
	fake->given[fake->n_given++] = status.st_ino;
}

static void answer_youngest(struct fake *fake)
{
	const struct held *held = &fake->held[fake->n_held - 1];

	fake->n_held--;
	held->done(held->data, held->calls, held->n);
}

static void fake_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct fake *fake = container_of(kernel, struct fake, kernel);

	fake->batches++;
	for (size_t i = 0; i < n; i++) {
		struct note *note = &fake->note[fake->noted++];

		note->call = calls[i];
		string_copy(note->text, sizeof(note->text), calls[i].text ? calls[i].text : "");
		fake_answer(fake, &calls[i]);
	}
	if (fake->holds && done) {
		if (fake->n_held == HELD_MAX)
			abort();
		fake->held[fake->n_held] = (struct held){ calls, n, done, data };
		fake->n_held++;
	} else if (done) {
		done(data, calls, n);
	}
}

static void fake_cancel(struct kernel *kernel)
{
	struct fake *fake = container_of(kernel, struct fake, kernel);

	while (fake->n_held > 0)
		answer_youngest(fake);
}

static int fake_dispatch(struct kernel *kernel)
{
	struct fake *fake = container_of(kernel, struct fake, kernel);
	eventfd_t count;

	eventfd_read(kernel->fd, &count);
	if (fake->n_held > 0)
		answer_youngest(fake);
	fake->dispatches++;
	return fake->dispatch;
}

static void fake_orphan(struct kernel *kernel)
{
	struct fake *fake = container_of(kernel, struct fake, kernel);

	fake->orphaned++;
}

static const struct kernel_ops fake_ops = {
	.submit = fake_submit,
	.cancel = fake_cancel,
	.dispatch = fake_dispatch,
	.orphan = fake_orphan,
};

/* --- the keeper, in a thread --- */

struct scene {
	struct fake fake;
	struct deposit_box *box; /* or NULL */
	int daemon;
	int keeper;
	unsigned hold;
	pthread_t thread;
	bool running;
	int served;
};

static void *serve(void *data)
{
	struct scene *scene = data;

	scene->served = keeper_serve(scene->keeper, &scene->fake.kernel, scene->box);
	return NULL;
}

static struct scene *scene_new(void)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	const struct timeval patience = { .tv_sec = 30 };
	int pair[2];

	ck_assert_ptr_nonnull(scene);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	scene->daemon = pair[0];
	scene->keeper = pair[1];
	ck_assert_int_eq(setsockopt(scene->daemon, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
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

static void start(struct scene *scene)
{
	ck_assert_int_eq(pthread_create(&scene->thread, NULL, serve, scene), 0);
	scene->running = true;
}

/* What keeper_serve() said. */
static int join(struct scene *scene)
{
	ck_assert_int_eq(pthread_join(scene->thread, NULL), 0);
	scene->running = false;
	return scene->served;
}

static int hang_up(struct scene *scene)
{
	scene->daemon = fd_close(scene->daemon);
	return join(scene);
}

static void scene_free(struct scene **scene)
{
	if ((*scene)->running)
		hang_up(*scene);
	fd_close((*scene)->daemon);
	fd_close((*scene)->keeper);
	fd_close((*scene)->fake.kernel.fd);
	free(*scene);
}

#define SCENE(name) _cleanup_(scene_free) struct scene *name = scene_new()

/* --- the daemon's end --- */

static uint8_t buffer[2 * MESSAGE_MAX];

static struct packet packet_new(void)
{
	return packet_make(buffer, sizeof(buffer));
}

static void say(const struct scene *scene, const struct packet *packet)
{
	ck_assert(!packet->failed);
	ck_assert_int_eq(transport_send(scene->daemon, packet->data, packet->size, NULL, 0, 0), 0);
}

static struct heard {
	struct message_header header;
	struct cursor body;
	struct fdset fds;
	uint8_t packet[MESSAGE_MAX];
} heard;

static void hear(const struct scene *scene, enum message_kind kind)
{
	ssize_t size;

	fdset_deinit(&heard.fds);
	size = transport_receive_fds(scene->daemon, heard.packet, sizeof(heard.packet), &heard.fds, 0);
	ck_assert_int_gt(size, 0);
	ck_assert(message_read(heard.packet, (size_t)size, &heard.header, &heard.body));
	ck_assert_uint_eq(heard.header.kind, kind);
}

static void expect_end(const struct scene *scene)
{
	char byte;

	ck_assert_int_eq(shutdown(scene->keeper, SHUT_WR), 0);
	ck_assert_int_eq(recv(scene->daemon, &byte, 1, 0), 0);
}

/* It has said that it is ready. */
static struct scene *scene_ready(void)
{
	struct scene *scene = scene_new();

	start(scene);
	hear(scene, MESSAGE_READY);
	return scene;
}

#define READY_SCENE(name) _cleanup_(scene_free) struct scene *name = scene_ready()

/* With what they bring, which stays the test's. */
static void say_calls(const struct scene *scene, const struct kernel_call *calls, size_t n)
{
	struct packet packet = packet_new();
	int fds[MESSAGE_FDS_MAX];
	size_t n_fds = 0;

	ck_assert_uint_eq(message_put_calls(&packet, calls, n), n);
	for (size_t i = 0; i < n; i++)
		if (message_op_takes_fd(calls[i].op) && calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	ck_assert_int_eq(transport_send(scene->daemon, packet.data, packet.size, fds, n_fds, 0), 0);
}

/* The answer's fds are in heard.fds, in the order of the calls. */
static void expect_answers(const struct scene *scene, struct kernel_call *calls, size_t n, size_t fds)
{
	size_t with_fd = 0;

	hear(scene, MESSAGE_ANSWERS);
	ck_assert_uint_eq(heard.header.count, n);
	for (size_t i = 0; i < n; i++) {
		bool has_fd;

		ck_assert(message_next_answer(&heard.body, &calls[i], &has_fd));
		with_fd += has_fd;
		calls[i].fd = has_fd ? 1 : -1;
	}
	ck_assert(cursor_done(&heard.body));
	ck_assert_uint_eq(with_fd, fds);
	ck_assert_uint_eq(heard.fds.count, fds);
}

static void expect_noted(const struct note *note, const struct kernel_call *call)
{
	ck_assert_int_eq(note->call.op, call->op);
	ck_assert_uint_eq(note->call.page, call->page);
	ck_assert_uint_eq(note->call.stream, call->stream);
	ck_assert_uint_eq(note->call.flags, call->flags);
	ck_assert_uint_eq(note->call.index, call->index);
	ck_assert_int_eq(note->call.fd, -1);
	ck_assert_int_eq(note->call.result, 0);
	ck_assert_str_eq(note->text, call->text ? call->text : "");
}

static const struct kernel_call examples[] = {
	{ .op = KERNEL_PAGE_NEW, .page = 7, .text = "/system.slice/a.service" },
	{ .op = KERNEL_STREAM_NEW, .page = 7, .stream = 8 },
	{ .op = KERNEL_REGISTER, .page = 7, .stream = 8, .flags = KERNEL_MULTI_FORMAT, .text = "event u32 x" },
	{ .op = KERNEL_STREAM_NEW, .page = 0, .stream = 9 }, /* is refused */
	{ .op = KERNEL_RELEASE, .stream = 8, .index = 3 },
	{ .op = KERNEL_STILL_OPEN, .stream = 8 },
	{ .op = KERNEL_CLEAN, .stream = 8 },
	{ .op = KERNEL_STREAM_FREE, .stream = 8 },
	{ .op = KERNEL_PAGE_FREE, .page = 7 },
};

/* --- tests --- */

TEST(the_keeper_speaks_first_and_says_what_it_has)
{
	SCENE(scene);
	struct kernel_facts facts;

	start(scene);
	hear(scene, MESSAGE_READY);
	ck_assert_uint_eq(heard.fds.count, 0);
	ck_assert(message_get_ready(heard.body, &facts));
	ck_assert_uint_eq(facts.backend, BACKEND_STATUS_PAGE);
	ck_assert(facts.shared_page);
	ck_assert(!facts.guarded);
	ck_assert_uint_eq(facts.page_bits, 100);
	ck_assert_uint_eq(facts.capacity, 99);
	ck_assert_str_eq(facts.note, "one page for all");
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, 0);
}

TEST(calls_arrive_and_are_answered)
{
	READY_SCENE(scene);
	struct kernel_call calls[ARRAY_SIZE(examples)];

	memcpy(calls, examples, sizeof(calls));
	scene->fake.result = KERNEL_E_LINGERS;
	say_calls(scene, examples, ARRAY_SIZE(examples));
	expect_answers(scene, calls, ARRAY_SIZE(examples), 2);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.batches, 1);
	ck_assert_uint_eq(scene->fake.noted, ARRAY_SIZE(examples));
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		expect_noted(&scene->fake.note[i], &examples[i]);
		ck_assert_int_eq(calls[i].result, i < 2 ? KERNEL_OK : KERNEL_E_LINGERS);
		ck_assert_uint_eq(calls[i].bit, examples[i].index + 1);
		ck_assert_uint_eq(calls[i].index, examples[i].index + 2);
		ck_assert_int_eq(calls[i].fd, i < 2 ? 1 : -1);
	}
	fdset_deinit(&heard.fds);
}

TEST(fds_go_with_their_calls)
{
	READY_SCENE(scene);
	struct kernel_call calls[2 * MESSAGE_FDS_MAX];
	int fds = count_open_fds();
	struct stat status;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = (struct kernel_call){ .op = i % 2 ? KERNEL_STREAM_NEW : KERNEL_CLEAN, .page = 1 };
	say_calls(scene, calls, ARRAY_SIZE(calls));
	expect_answers(scene, calls, ARRAY_SIZE(calls), MESSAGE_FDS_MAX);
	for (size_t i = 0; i < MESSAGE_FDS_MAX; i++) {
		ck_assert_int_eq(fstat(heard.fds.fd[i], &status), 0);
		ck_assert_uint_eq(status.st_ino, scene->fake.given[i]);
		ck_assert_int_eq(calls[2 * i + 1].fd, 1);
	}
	fdset_deinit(&heard.fds);
	/* It closes its own behind what it sends. */
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

TEST(the_fullest_packets_are_taken)
{
	READY_SCENE(scene);
	static char description[WIRE_DESCRIPTION_MAX + 1], path[WIRE_TENANT_MAX + 1];
	struct kernel_call calls[MESSAGE_CALLS_MAX];

	memset(description, 'd', sizeof(description) - 1);
	memset(path, 'p', sizeof(path) - 1);
	for (size_t i = 0; i < MESSAGE_CALLS_MAX; i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_REGISTER, .text = description };
	say_calls(scene, calls, MESSAGE_CALLS_MAX);
	expect_answers(scene, calls, MESSAGE_CALLS_MAX, 0);
	for (size_t i = 0; i < MESSAGE_FDS_MAX; i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = 1, .text = path };
	say_calls(scene, calls, MESSAGE_FDS_MAX);
	expect_answers(scene, calls, MESSAGE_FDS_MAX, MESSAGE_FDS_MAX);
	fdset_deinit(&heard.fds);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, MESSAGE_CALLS_MAX + MESSAGE_FDS_MAX);
	for (size_t i = 0; i < scene->fake.noted; i++)
		ck_assert_str_eq(scene->fake.note[i].text, i < MESSAGE_CALLS_MAX ? description : path);
}

/* Nor is the next one taken for it. */
TEST(answer_without_memory_ends_connection)
{
	READY_SCENE(scene);
	const struct kernel_call call = { .op = KERNEL_CLEAN };
	char byte;

	daemons_end = scene->daemon;
	without_memory = UINT_MAX;
	say_calls(scene, &call, 1);
	ck_assert_int_eq(recv(scene->daemon, &byte, 1, 0), 0);
	ck_assert_int_eq(join(scene), 0);
	without_memory = 0;
}

TEST(packets_are_answered_one_by_one_in_order)
{
	READY_SCENE(scene);
	struct kernel_call calls[3] = { { .op = KERNEL_CLEAN } };

	for (uint32_t i = 1; i <= 3; i++) {
		calls[0].index = i;
		say_calls(scene, calls, i);
	}
	for (uint32_t i = 1; i <= 3; i++) {
		expect_answers(scene, calls, i, 0);
		ck_assert_uint_eq(calls[0].bit, i + 1);
	}
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.batches, 3);
}

/* --- what is under way --- */

/* What another thread does; the suite's time limit is what ends it. */
#define wait_until(condition)                                                                                          \
	while (!(condition))                                                                                           \
	usleep(1000)

static bool nothing_is_heard(const struct scene *scene)
{
	struct pollfd ask = { .fd = scene->daemon, .events = POLLIN };

	return poll(&ask, 1, 0) == 0;
}

/* A packet of as many calls as its number. */
static void say_numbered(const struct scene *scene, uint32_t number)
{
	struct kernel_call calls[HELD_MAX] = { 0 };

	for (uint32_t i = 0; i < number; i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_CLEAN, .index = number };
	say_calls(scene, calls, number);
}

static void expect_numbered(const struct scene *scene, uint32_t number)
{
	struct kernel_call calls[HELD_MAX] = { 0 };

	for (uint32_t i = 0; i < number; i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_CLEAN };
	expect_answers(scene, calls, number, 0);
	ck_assert_uint_eq(calls[0].bit, number + 1);
}

static void answer_one(struct scene *scene)
{
	unsigned before = scene->fake.dispatches;

	ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
	wait_until(scene->fake.dispatches > before);
}

TEST(packets_are_read_ahead_and_answered_in_order)
{
	READY_SCENE(scene);

	scene->fake.holds = true;
	for (uint32_t i = 1; i <= 3; i++)
		say_numbered(scene, i);
	wait_until(scene->fake.n_held == 3);
	/* The third and the second are done, and wait for the first. */
	answer_one(scene);
	answer_one(scene);
	ck_assert(nothing_is_heard(scene));
	answer_one(scene);
	for (uint32_t i = 1; i <= 3; i++)
		expect_numbered(scene, i);
	ck_assert_int_eq(hang_up(scene), 0);
}

/* So that what it remembers has an end. */
TEST(sixteen_packets_are_under_way_at_most)
{
	enum { ALL = 40, WINDOW = 16 };
	READY_SCENE(scene);

	scene->fake.holds = true;
	for (uint32_t i = 0; i < ALL; i++)
		say_numbered(scene, 1 + i % 8);
	wait_until(scene->fake.n_held == WINDOW);
	for (uint32_t i = 0; i < WINDOW; i++)
		answer_one(scene);
	for (uint32_t i = 0; i < WINDOW; i++)
		expect_numbered(scene, 1 + i % 8);
	wait_until(scene->fake.n_held == WINDOW);
	ck_assert_uint_eq(scene->fake.batches, 2 * WINDOW);
	ck_assert_int_eq(hang_up(scene), 0);
}

TEST(daemon_may_hang_up_with_calls_under_way)
{
	READY_SCENE(scene);
	struct kernel_call calls[2];
	int fds = count_open_fds();

	memcpy(calls, examples, sizeof(calls));
	scene->fake.holds = true;
	say_numbered(scene, 1);
	say_calls(scene, calls, 2);
	wait_until(scene->fake.n_held == 2);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.n_held, 0);
	/* Its own end of the line, and no page nor stream. */
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

/* In their order, and the packets behind them, too. */
TEST(answers_are_sent_later_after_too_many_references)
{
	READY_SCENE(scene);
	struct kernel_call calls[ARRAY_SIZE(examples)];
	int fds = count_open_fds();

	memcpy(calls, examples, sizeof(calls));
	too_many_in_flight = true;
	say_calls(scene, calls, 2);
	wait_until(refused_sends > 1);
	say_numbered(scene, 3);
	too_many_in_flight = false;
	expect_answers(scene, calls, 2, 2);
	fdset_deinit(&heard.fds);
	expect_numbered(scene, 3);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

TEST(daemon_that_hangs_up_on_waiting_answers_ends_it)
{
	READY_SCENE(scene);
	struct kernel_call calls[2];
	int fds = count_open_fds();

	memcpy(calls, examples, sizeof(calls));
	too_many_in_flight = true;
	for (uint32_t i = 0; i < 32; i++)
		say_calls(scene, calls, 2);
	wait_until(refused_sends > 0);
	ck_assert_int_eq(hang_up(scene), 0);
	too_many_in_flight = false;
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

TEST(invalid_packet_comes_after_earlier_answers)
{
	READY_SCENE(scene);

	scene->fake.holds = true;
	say_numbered(scene, 1);
	say_numbered(scene, 2);
	ck_assert_int_eq(transport_send(scene->daemon, "nonsense", 8, NULL, 0, 0), 0);
	expect_numbered(scene, 1);
	expect_numbered(scene, 2);
	hear(scene, MESSAGE_FAILED);
	ck_assert_int_eq(join(scene), -EPROTO);
}

TEST(a_daemon_that_hangs_up_ends_it_well)
{
	READY_SCENE(scene);

	ck_assert_int_eq(hang_up(scene), 0);
}

/* Even without having read what was said: then the kernel calls it a reset. */
TEST(a_daemon_that_never_listened_ends_it_well)
{
	SCENE(scene);
	struct pollfd ask = { .fd = scene->daemon, .events = POLLIN };

	start(scene);
	ck_assert_int_eq(poll(&ask, 1, 30000), 1);
	ck_assert_int_eq(hang_up(scene), 0);
}

TEST(daemon_that_had_gone_is_no_sigpipe)
{
	SCENE(scene);

	scene->daemon = fd_close(scene->daemon);
	start(scene);
	ck_assert_int_eq(join(scene), 0);
}

/* Its last wishes are carried out; nobody hears of it, and nothing is left. */
TEST(calls_of_gone_daemon_are_carried_out)
{
	SCENE(scene);
	struct kernel_call calls[2];

	memcpy(calls, examples, sizeof(calls));
	say_calls(scene, calls, 2);
	ck_assert_int_eq(shutdown(scene->daemon, SHUT_WR), 0);
	start(scene);
	ck_assert_int_eq(join(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, 2);
	hear(scene, MESSAGE_READY);
	expect_answers(scene, calls, 2, 2);
	fdset_deinit(&heard.fds);
}

TEST(a_kernel_that_has_something_to_do_gets_to_it)
{
	READY_SCENE(scene);
	struct kernel_call call = { .op = KERNEL_CLEAN };

	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
		say_calls(scene, &call, 1);
		expect_answers(scene, &call, 1, 0);
	}
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.dispatches, 3);
}

TEST(a_kernel_that_fails_ends_it)
{
	SCENE(scene);

	scene->fake.dispatch = -EIO;
	ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
	start(scene);
	ck_assert_int_eq(join(scene), -EIO);
	hear(scene, MESSAGE_READY);
}

/* --- nonsense --- */

static void fill_header(struct packet *packet, uint16_t kind, size_t count)
{
	const struct message_header header = { .size = (uint32_t)packet->size, .kind = kind, .count = (uint16_t)count };

	memcpy(packet->data, &header, sizeof(header));
}

static void put_raw(struct packet *packet, struct message_call raw, const char *text, size_t length)
{
	packet_put(packet, &raw, sizeof(raw));
	packet_put_padded(packet, text, length);
}

/* So that there is something that must not be done. */
static void put_good(struct packet *packet)
{
	packet_room(packet, sizeof(struct message_header));
	put_raw(packet, (struct message_call){ .op = KERNEL_STREAM_NEW, .page = 1 }, "", 0);
}

static void garbage(struct packet *packet)
{
	packet_put(packet, "what is this?", 13);
}

static void a_byte(struct packet *packet)
{
	packet_put(packet, "", 1);
}

static void no_calls(struct packet *packet)
{
	packet_room(packet, sizeof(struct message_header));
	fill_header(packet, MESSAGE_CALLS, 0);
}

static void fewer_calls_than_said(struct packet *packet)
{
	put_good(packet);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void no_calls_but_some(struct packet *packet)
{
	put_good(packet);
	fill_header(packet, MESSAGE_CALLS, 0);
}

static void more_calls_than_said(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .op = KERNEL_CLEAN }, "", 0);
	fill_header(packet, MESSAGE_CALLS, 1);
}

static void more_bytes_than_calls(struct packet *packet)
{
	put_good(packet);
	packet_room(packet, 1);
	fill_header(packet, MESSAGE_CALLS, 1);
}

static void half_a_call(struct packet *packet)
{
	put_good(packet);
	packet_room(packet, sizeof(struct message_call) - 1);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void no_such_operation(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .op = KERNEL_OP_MAX_ }, "", 0);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void too_long_a_text(struct packet *packet)
{
	static const char text[WIRE_TENANT_MAX + 2] = { [0 ... WIRE_TENANT_MAX] = 'x' };

	put_good(packet);
	put_raw(packet, (struct message_call){ .text_length = WIRE_TENANT_MAX + 1 }, text, WIRE_TENANT_MAX + 1);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void a_text_of_any_length(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .text_length = UINT32_MAX }, "text", 4);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void a_zero_in_the_text(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .op = KERNEL_REGISTER, .text_length = 8 }, "ev\0nt u8", 8);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void too_many_calls(struct packet *packet)
{
	put_good(packet);
	for (size_t i = 0; i < MESSAGE_CALLS_MAX; i++)
		put_raw(packet, (struct message_call){ .op = KERNEL_CLEAN }, "", 0);
	fill_header(packet, MESSAGE_CALLS, MESSAGE_CALLS_MAX + 1);
}

static void too_many_fds_asked_for(struct packet *packet)
{
	put_good(packet);
	for (size_t i = 0; i < MESSAGE_FDS_MAX; i++)
		put_raw(packet, (struct message_call){ .op = KERNEL_PAGE_NEW, .page = 1 }, "", 0);
	fill_header(packet, MESSAGE_CALLS, MESSAGE_FDS_MAX + 1);
}

static void too_long_a_packet(struct packet *packet)
{
	put_good(packet);
	packet_room(packet, MESSAGE_MAX);
	fill_header(packet, MESSAGE_CALLS, 1);
}

static void another_size(struct packet *packet)
{
	put_good(packet);
	fill_header(packet, MESSAGE_CALLS, 1);
	packet->data[0] ^= 1;
}

static void what_only_keepers_say(struct packet *packet)
{
	put_good(packet);
	fill_header(packet, MESSAGE_ANSWERS, 1);
}

static void that_it_is_ready(struct packet *packet)
{
	put_good(packet);
	fill_header(packet, MESSAGE_READY, 1);
}

static void a_deposit_of_nothing(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .op = KERNEL_DEPOSIT }, "", 0);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void a_deposit_that_did_not_come(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .op = KERNEL_DEPOSIT, .has_fd = 1 }, "", 0);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void an_fd_for_what_takes_none(struct packet *packet)
{
	put_good(packet);
	put_raw(packet, (struct message_call){ .op = KERNEL_CLEAN, .has_fd = 1 }, "", 0);
	fill_header(packet, MESSAGE_CALLS, 2);
}

static void that_it_failed(struct packet *packet)
{
	message_put_failed(packet, "I can't");
}

static void (*const nonsense[])(struct packet *) = {
	garbage,
	a_byte,
	no_calls,
	fewer_calls_than_said,
	no_calls_but_some,
	more_calls_than_said,
	more_bytes_than_calls,
	half_a_call,
	no_such_operation,
	too_long_a_text,
	a_text_of_any_length,
	a_zero_in_the_text,
	too_many_calls,
	too_many_fds_asked_for,
	too_long_a_packet,
	another_size,
	what_only_keepers_say,
	that_it_is_ready,
	that_it_failed,
	a_deposit_of_nothing,
	a_deposit_that_did_not_come,
	an_fd_for_what_takes_none,
};

/* The end, in words; nothing of it was done, nor what was asked behind it. */
static void expect_refusal(struct scene *scene)
{
	char sentence[WIRE_SENTENCE_MAX + 1];

	ck_assert_int_eq(join(scene), -EPROTO);
	hear(scene, MESSAGE_FAILED);
	ck_assert_uint_eq(heard.fds.count, 0);
	ck_assert(message_get_failed(heard.body, sentence));
	ck_assert_uint_gt(strlen(sentence), 20);
	expect_end(scene);
	ck_assert_uint_eq(scene->fake.noted, 0);
}

TEST(invalid_packet_is_refused_as_a_whole)
{
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		READY_SCENE(scene);
		struct kernel_call call = { .op = KERNEL_CLEAN };
		struct packet packet = packet_new();

		nonsense[i](&packet);
		say(scene, &packet);
		/* Perhaps it has ended already. */
		packet = packet_new();
		message_put_calls(&packet, &call, 1);
		transport_send(scene->daemon, packet.data, packet.size, NULL, 0, 0);
		expect_refusal(scene);
	}
}

/* Whatever it says of its size: that of the whole, or what is left. */
TEST(a_message_cut_short_anywhere_is_nonsense)
{
	uint8_t whole[512];
	struct packet packet = packet_make(whole, sizeof(whole));

	ck_assert_uint_eq(message_put_calls(&packet, examples, ARRAY_SIZE(examples)), ARRAY_SIZE(examples));
	for (size_t length = 1; length < packet.size; length++)
		for (unsigned corrected = 0; corrected < 2; corrected++) {
			READY_SCENE(scene);
			struct packet cut = packet_new();

			packet_put(&cut, whole, length);
			if (corrected && length >= sizeof(struct message_header))
				fill_header(&cut, MESSAGE_CALLS, ARRAY_SIZE(examples));
			say(scene, &cut);
			expect_refusal(scene);
		}
}

/* What the table above breaks is good without that. */
TEST(unusual_valid_calls_are_carried_out)
{
	READY_SCENE(scene);
	struct kernel_call calls[2] = { { .op = KERNEL_STREAM_NEW }, { .op = KERNEL_CLEAN } };
	struct packet packet = packet_new();

	put_good(&packet);
	put_raw(&packet, (struct message_call){ .op = KERNEL_OP_MAX_ - 1, .text_length = 3 }, "evt", 3);
	fill_header(&packet, MESSAGE_CALLS, 2);
	say(scene, &packet);
	expect_answers(scene, calls, 2, 1);
	fdset_deinit(&heard.fds);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_str_eq(scene->fake.note[1].text, "evt");
}

TEST(an_fd_that_no_call_mentions_is_nonsense)
{
	static const int fds[] = { STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, STDERR_FILENO,
				   STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, STDERR_FILENO };

	for (size_t n = 1; n <= ARRAY_SIZE(fds); n += 7) {
		READY_SCENE(scene);
		struct kernel_call call = { .op = KERNEL_CLEAN };
		struct packet packet = packet_new();

		message_put_calls(&packet, &call, 1);
		ck_assert_int_eq(transport_send(scene->daemon, packet.data, packet.size, fds, n, 0), 0);
		expect_refusal(scene);
	}
}

/* One too few, and one too many; none of them is kept. */
TEST(as_many_fds_as_calls_mention_or_it_is_nonsense)
{
	for (size_t n = 1; n <= 3; n += 2) {
		READY_SCENE(scene);
		const struct kernel_call calls[2] = { { .op = KERNEL_DEPOSIT }, { .op = KERNEL_PAGE_ADOPT } };
		const int fds[3] = { STDERR_FILENO, STDERR_FILENO, STDERR_FILENO };
		struct packet packet = packet_new();
		int before = count_open_fds();

		message_put_calls(&packet, calls, 2);
		ck_assert_int_eq(transport_send(scene->daemon, packet.data, packet.size, fds, n, 0), 0);
		expect_refusal(scene);
		ck_assert_int_eq(count_open_fds(), before);
	}
}

TEST(refusal_has_a_sentence)
{
	SCENE(scene);
	char text[2 * WIRE_SENTENCE_MAX] = "no tracefs here", sentence[WIRE_SENTENCE_MAX + 1];

	for (unsigned i = 0; i < 2; i++) {
		keeper_refuse(scene->keeper, text);
		hear(scene, MESSAGE_FAILED);
		ck_assert(message_get_failed(heard.body, sentence));
		ck_assert_uint_eq(strlen(sentence), MIN(strlen(text), WIRE_SENTENCE_MAX));
		ck_assert_int_eq(strncmp(sentence, text, strlen(sentence)), 0);
		memset(text, 'x', sizeof(text) - 1);
	}
	scene->daemon = fd_close(scene->daemon);
	keeper_refuse(scene->keeper, text);
}

/* --- what is deposited --- */

static struct kernel_call deposit(uint64_t number, int fd)
{
	return (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = number, .fd = fd };
}

static int ask_for(const struct scene *scene, enum kernel_op op, uint64_t number)
{
	struct kernel_call call = { .op = op, .number = number, .fd = -1 };

	say_calls(scene, &call, 1);
	hear(scene, MESSAGE_ANSWERS);
	ck_assert(message_next_answer(&heard.body, &call, &(bool){ false }));
	ck_assert_uint_eq(heard.fds.count, call.result == KERNEL_OK && op == KERNEL_DEPOSITED);
	return call.result;
}

static void expect_deposited(const struct scene *scene, uint64_t number, int fd)
{
	struct stat one, other;

	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, number), KERNEL_OK);
	ck_assert_int_eq(fstat(fd, &one), 0);
	ck_assert_int_eq(fstat(heard.fds.fd[0], &other), 0);
	ck_assert_uint_eq(one.st_ino, other.st_ino);
	ck_assert_int_eq(fcntl(heard.fds.fd[0], F_GETFD), FD_CLOEXEC);
	fdset_deinit(&heard.fds);
}

static void say_deposit(const struct scene *scene, uint64_t number, int fd)
{
	struct kernel_call call = deposit(number, fd);

	say_calls(scene, &call, 1);
	expect_answers(scene, &call, 1, 0);
	ck_assert_int_eq(call.result, KERNEL_OK);
}

static int some_fd(void)
{
	int fd = memfd_create("deposit", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static struct scene *scene_with_box(struct deposit_box *box)
{
	struct scene *scene = scene_new();

	scene->box = box;
	start(scene);
	hear(scene, MESSAGE_READY);
	return scene;
}

TEST(deposit_stays_until_withdrawn)
{
	struct deposit_box box = { 0 };
	_cleanup_(scene_free) struct scene *scene = scene_with_box(&box);
	struct kernel_facts facts;
	int one = some_fd(), other = some_fd(), fds = count_open_fds();

	ck_assert(message_get_ready(heard.body, &facts));
	ck_assert(facts.deposits);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 7), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(ask_for(scene, KERNEL_WITHDRAW, 7), KERNEL_E_NO_SUCH);
	say_deposit(scene, 7, one);
	say_deposit(scene, UINT64_MAX, other);
	expect_deposited(scene, 7, one);
	expect_deposited(scene, UINT64_MAX, other);
	/* In the place of what is there. */
	say_deposit(scene, 7, other);
	expect_deposited(scene, 7, other);
	/* Not at once: the keeper closes its copy behind what it sends. */
	wait_until(count_open_fds() == fds + 2);
	ck_assert_int_eq(ask_for(scene, KERNEL_WITHDRAW, 7), KERNEL_OK);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 7), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(deposit_clear(&box), 1);
	wait_until(count_open_fds() == fds - 1);
	ck_assert_uint_eq(scene->fake.noted, 0);
	close(one);
	close(other);
}

TEST(deposits_are_answered_in_order)
{
	struct deposit_box box = { 0 };
	_cleanup_(scene_free) struct scene *scene = scene_with_box(&box);
	int fd = some_fd();
	struct kernel_call calls[] = {
		{ .op = KERNEL_CLEAN, .index = 10, .fd = -1 },	     deposit(1, fd),
		{ .op = KERNEL_DEPOSITED, .number = 1, .fd = -1 },   { .op = KERNEL_CLEAN, .index = 20, .fd = -1 },
		{ .op = KERNEL_CLEAN, .index = 30, .fd = -1 },	     { .op = KERNEL_PAGE_NEW, .page = 1, .fd = -1 },
		{ .op = KERNEL_DEPOSITED, .number = 404, .fd = -1 },
	};

	scene->fake.result = KERNEL_E_LINGERS;
	say_calls(scene, calls, ARRAY_SIZE(calls));
	expect_answers(scene, calls, ARRAY_SIZE(calls), 2);
	ck_assert_int_eq(calls[0].result, KERNEL_E_LINGERS);
	ck_assert_int_eq(calls[1].result, KERNEL_OK);
	ck_assert_int_eq(calls[2].result, KERNEL_OK);
	ck_assert_uint_eq(calls[4].bit, 31);
	ck_assert_int_eq(calls[5].result, KERNEL_OK);
	ck_assert_int_eq(calls[6].result, KERNEL_E_NO_SUCH);
	ck_assert_uint_eq(scene->fake.batches, 2);
	ck_assert_uint_eq(scene->fake.noted, 4);
	fdset_deinit(&heard.fds);
	ck_assert_int_eq(hang_up(scene), 0);
	deposit_clear(&box);
	close(fd);
}

TEST(fds_of_calls_reach_the_kernel)
{
	READY_SCENE(scene);
	int fd = some_fd(), fds = count_open_fds();
	struct kernel_call calls[] = {
		{ .op = KERNEL_PAGE_ADOPT, .page = 3, .index = 1, .fd = fd },
		{ .op = KERNEL_STREAM_ADOPT, .stream = 4, .number = INT64_MAX, .fd = -1 },
		{ .op = KERNEL_ADOPT, .stream = 4, .bit = 5, .index = 6, .fd = -1 },
		{ .op = KERNEL_STREAM_ADOPT, .stream = 5, .fd = fd },
	};

	say_calls(scene, calls, ARRAY_SIZE(calls));
	expect_answers(scene, calls, ARRAY_SIZE(calls), 0);
	ck_assert_int_ge(scene->fake.note[0].call.fd, 0);
	ck_assert_int_eq(scene->fake.note[1].call.fd, -1);
	ck_assert_uint_eq(scene->fake.note[1].call.number, INT64_MAX);
	ck_assert_uint_eq(scene->fake.note[2].call.bit, 5);
	ck_assert_int_ge(scene->fake.note[3].call.fd, 0);
	ck_assert_int_eq(count_open_fds(), fds);
	ck_assert_int_eq(hang_up(scene), 0);
	close(fd);
}

TEST(keeper_of_one_daemon_takes_no_deposits)
{
	READY_SCENE(scene);
	struct kernel_facts facts;
	int fd = some_fd();
	struct kernel_call call = deposit(1, fd);

	ck_assert(message_get_ready(heard.body, &facts));
	ck_assert(!facts.deposits);
	scene->fake.result = KERNEL_E_UNSUPPORTED; /* as backends say */
	say_calls(scene, &call, 1);
	expect_answers(scene, &call, 1, 0);
	ck_assert_int_eq(call.result, KERNEL_E_UNSUPPORTED);
	ck_assert_int_eq(hang_up(scene), 0);
	close(fd);
}

TEST(ten_thousand_deposits_are_all_there)
{
	enum { ALL = 10000 };
	struct deposit_box box = { 0 };
	const struct rlimit many = { ALL + 1000, ALL + 1000 };
	_cleanup_(scene_free) struct scene *scene = NULL;
	int fds = count_open_fds(), fd = some_fd();

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &many), 0);
	scene = scene_with_box(&box);
	for (uint64_t i = 0; i < ALL; i += MESSAGE_FDS_MAX) {
		struct kernel_call calls[MESSAGE_FDS_MAX];

		for (uint64_t j = 0; j < MESSAGE_FDS_MAX; j++)
			calls[j] = deposit(i + j, fd);
		say_calls(scene, calls, MESSAGE_FDS_MAX);
		expect_answers(scene, calls, MESSAGE_FDS_MAX, 0);
		for (size_t j = 0; j < MESSAGE_FDS_MAX; j++)
			if (calls[j].result != KERNEL_OK)
				ck_abort_msg("%zu: %d", (size_t)i + j, calls[j].result);
	}
	expect_deposited(scene, 0, fd);
	expect_deposited(scene, ALL - 1, fd);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, ALL), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(deposit_clear(&box), ALL);
	scene->keeper = fd_close(scene->keeper);
	close(fd);
	wait_until(count_open_fds() == fds + 1); /* the kernel's */
}

/* All of a packet or nothing, and the rest of it is done. */
TEST(call_with_lost_fd_fails)
{
	struct deposit_box box = { 0 };
	_cleanup_(scene_free) struct scene *scene = scene_with_box(&box);
	int fd = some_fd(), spare = dup(fd);
	struct rlimit limit, few;
	struct kernel_call calls[] = { deposit(1, fd),
				       { .op = KERNEL_CLEAN, .fd = -1 },
				       deposit(2, fd),
				       { .op = KERNEL_STREAM_ADOPT, .fd = fd } };

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){ (rlim_t)spare + 1, limit.rlim_max };
	close(spare);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	say_calls(scene, calls, ARRAY_SIZE(calls));
	hear(scene, MESSAGE_ANSWERS);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		ck_assert(message_next_answer(&heard.body, &calls[i], &(bool){ false }));
		ck_assert_int_eq(calls[i].result, i == 1 ? KERNEL_OK : -EMFILE);
	}
	ck_assert_uint_eq(scene->fake.noted, 1);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(deposit_clear(&box), 0);
	close(fd);
}

/* --- daemons, one after the other --- */

/* scene->keeper is a listening socket. */
static void *serve_all(void *data)
{
	struct scene *scene = data;

	scene->served =
		keeper_serve_all(scene->keeper, keeper_find_owner(scene->keeper), scene->hold, &scene->fake.kernel);
	return NULL;
}

static char directory[64], address[100];

static struct scene *scene_of_many(unsigned hold)
{
	struct scene *scene = scene_new();
	struct sockaddr_un name;
	socklen_t length;

	make_temporary_directory(directory, sizeof(directory));
	snprintf(address, sizeof(address), "%s/keeper", directory);
	scene->daemon = fd_close(scene->daemon);
	fd_close(scene->keeper);
	scene->keeper = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(transport_address(address, &name, &length), 0);
	ck_assert_int_eq(bind(scene->keeper, (struct sockaddr *)&name, length), 0);
	ck_assert_int_eq(listen(scene->keeper, 8), 0);
	scene->hold = hold;
	ck_assert_int_eq(pthread_create(&scene->thread, NULL, serve_all, scene), 0);
	scene->running = true;
	return scene;
}

static int connect_daemon(void)
{
	const struct timeval patience = { .tv_sec = 30 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name;
	socklen_t length;

	ck_assert_int_eq(transport_address(address, &name, &length), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&name, length), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

static void next_daemon(struct scene *scene)
{
	fd_close(scene->daemon);
	scene->daemon = connect_daemon();
	hear(scene, MESSAGE_READY);
}

static void disown(const struct scene *scene)
{
	struct kernel_call call = { .op = KERNEL_DISOWN, .fd = -1 };

	say_calls(scene, &call, 1);
	expect_answers(scene, &call, 1, 0);
}

static int end_of_many(struct scene *scene)
{
	int r;

	scene->daemon = fd_close(scene->daemon);
	r = join(scene);
	unlink(address);
	rmdir(directory);
	return r;
}

TEST(deposits_outlive_the_daemon)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	int fd = some_fd(), fds;
	struct kernel_facts facts;

	next_daemon(scene);
	/* Not before: the keeper's thread has just begun. Without both ends of this connection. */
	fds = count_open_fds() - 2;
	ck_assert(message_get_ready(heard.body, &facts));
	ck_assert(facts.deposits);
	say_deposit(scene, 5, fd);
	next_daemon(scene);
	expect_deposited(scene, 5, fd);
	ck_assert_uint_eq(scene->fake.orphaned, 1);
	/* Nobody comes. */
	ck_assert_int_eq(end_of_many(scene), 0);
	wait_until(count_open_fds() == fds);
	close(fd);
}

TEST(one_daemon_is_served_at_a_time)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	struct pollfd second = { .events = POLLIN };

	next_daemon(scene);
	second.fd = connect_daemon();
	disown(scene);
	ck_assert_int_eq(poll(&second, 1, 200), 0);
	fd_close(scene->daemon);
	scene->daemon = second.fd;
	hear(scene, MESSAGE_READY);
	disown(scene);
	ck_assert_int_eq(end_of_many(scene), 0);
}

TEST(another_user_is_turned_away)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	int status;
	char byte;
	pid_t pid;

	ck_assert_int_eq(chmod(directory, 0711), 0);
	ck_assert_int_eq(chmod(address, 0777), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	/* Only root can become another user. */
	if (pid == 0)
		_exit(setresuid(65534, 65534, 65534) < 0 ? 0 : (int)recv(connect_daemon(), &byte, 1, 0));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	next_daemon(scene);
	disown(scene);
	ck_assert_int_eq(end_of_many(scene), 0);
}

/* What is under way is finished, and what it made stays; its fds go with the answers. */
TEST(gone_daemons_pages_and_streams_stay)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	struct kernel_call calls[2];
	int fds;

	memcpy(calls, examples, sizeof(calls));
	next_daemon(scene);
	fds = count_open_fds();
	scene->fake.holds = true;
	say_calls(scene, calls, 2);
	say_numbered(scene, 3);
	wait_until(scene->fake.n_held == 2);
	scene->daemon = fd_close(scene->daemon);
	next_daemon(scene);
	ck_assert_uint_eq(scene->fake.n_held, 0);
	ck_assert_uint_eq(scene->fake.noted, 5);
	ck_assert(nothing_is_heard(scene));
	ck_assert_int_eq(count_open_fds(), fds);
	ck_assert_int_eq(end_of_many(scene), 0);
}

TEST(invalid_packet_keeps_deposits)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	int fd = some_fd();
	char byte;

	next_daemon(scene);
	say_deposit(scene, 5, fd);
	ck_assert_int_eq(transport_send(scene->daemon, "nonsense", 8, NULL, 0, 0), 0);
	hear(scene, MESSAGE_FAILED);
	ck_assert_int_eq(recv(scene->daemon, &byte, 1, 0), 0);
	next_daemon(scene);
	expect_deposited(scene, 5, fd);
	ck_assert_int_eq(end_of_many(scene), 0);
	close(fd);
}

static size_t count_noted(const struct scene *scene, enum kernel_op op)
{
	size_t n = 0;

	for (size_t i = 0; i < scene->fake.noted; i++)
		n += scene->fake.note[i].call.op == op;
	return n;
}

enum { DEATHS = 8 /* that are enough */ };

TEST(deposits_of_crashing_daemons_are_dropped)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	int pair[2];
	char byte;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	next_daemon(scene);
	disown(scene);
	say_deposit(scene, 5, pair[1]);
	for (unsigned i = 0; i < DEATHS; i++) {
		next_daemon(scene);
		expect_deposited(scene, 5, pair[1]);
	}
	close(pair[1]);
	ck_assert_uint_eq(count_noted(scene, KERNEL_DISOWN), 1);
	next_daemon(scene);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 5), KERNEL_E_NO_SUCH);
	ck_assert_uint_eq(count_noted(scene, KERNEL_DISOWN), 2);
	/* A connection ends for its client. */
	ck_assert_int_eq(recv(pair[0], &byte, 1, 0), 0);
	ck_assert_int_eq(end_of_many(scene), 0);
	close(pair[0]);
}

TEST(a_daemon_that_has_taken_over_begins_the_count_anew)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	int fd = some_fd();

	next_daemon(scene);
	say_deposit(scene, 5, fd);
	for (unsigned i = 0; i < DEATHS - 1; i++)
		next_daemon(scene);
	expect_deposited(scene, 5, fd);
	disown(scene);
	for (unsigned i = 0; i < DEATHS; i++) {
		next_daemon(scene);
		expect_deposited(scene, 5, fd);
	}
	ck_assert_int_eq(end_of_many(scene), 0);
	close(fd);
}

/* Whoever it was has ended meanwhile, and the daemon did not live to say so. */
TEST(disown_closes_unfetched_deposits)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(1);
	int wanted = some_fd(), pair[2];
	char byte;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	next_daemon(scene);
	say_deposit(scene, 5, wanted);
	say_deposit(scene, 6, pair[1]);
	close(pair[1]);
	disown(scene);
	next_daemon(scene);
	expect_deposited(scene, 5, wanted);
	disown(scene);
	ck_assert_int_eq(recv(pair[0], &byte, 1, 0), 0);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 6), KERNEL_E_NO_SUCH);
	expect_deposited(scene, 5, wanted);
	ck_assert_int_eq(end_of_many(scene), 0);
	close(pair[0]);
	close(wanted);
}

TEST(kernel_is_dispatched_without_daemon)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(30);

	answer_one(scene);
	next_daemon(scene);
	scene->daemon = fd_close(scene->daemon);
	answer_one(scene);
	scene->fake.dispatch = -EIO;
	ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
	ck_assert_int_eq(end_of_many(scene), -EIO);
}

/* With nobody there who would take over, it ends well at once. */
TEST(sigterm_without_daemon_ends_keeper)
{
	_cleanup_(scene_free) struct scene *scene = scene_of_many(3000);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	answer_one(scene); /* so it is waiting */
	ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
	ck_assert_int_eq(end_of_many(scene), 0);
}

/* --- with the other side as it is --- */

static void on_done(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	++*(unsigned *)data;
}

TEST(both_sides_understand_each_other)
{
	SCENE(scene);
	struct kernel_call calls[220];
	char why[WIRE_SENTENCE_MAX + 1];
	struct kernel *kernel;
	unsigned done = 0;

	start(scene);
	ck_assert_int_eq(remote_new(scene->daemon, &kernel, why), 0);
	scene->daemon = -1;
	ck_assert_str_eq(kernel->facts.note, "one page for all");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = (struct kernel_call){
			.op = i % 10 ? KERNEL_REGISTER : KERNEL_STREAM_NEW,
			.page = 1,
			.text = i % 10 ? "event u32 x" : NULL,
			.index = (uint32_t)i,
		};
	kernel_submit(kernel, calls, ARRAY_SIZE(calls), on_done, &done);
	kernel_tell(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .page = 1 });
	kernel_submit(kernel, calls, 0, on_done, &done);
	while (done < 2 || scene->fake.noted < ARRAY_SIZE(calls) + 1) {
		struct pollfd ask = { .fd = kernel->fd, .events = POLLIN };

		ck_assert_int_eq(poll(&ask, 1, 30000), 1);
		ck_assert_int_eq(kernel_dispatch(kernel), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
		ck_assert_uint_eq(calls[i].index, i + 2);
		ck_assert_int_eq(calls[i].fd >= 0, i % 10 == 0);
		fd_close(calls[i].fd);
	}
	kernel_free(kernel);
	ck_assert_int_eq(join(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, ARRAY_SIZE(calls) + 1);
}
