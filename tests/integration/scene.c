/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/scene.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "protocol/base/text.h"

enum {
	SAMPLES_MAX = 65536, /* of requests that are timed: the last ones */
	PAUSE_US = 1000,     /* between rounds, as a program would do other work */
};

/* The neighbour's measurements in one phase. */
struct sight {
	_Atomic uint64_t requests;
	uint64_t slowest; /* of all of them, in microseconds */
	uint32_t microseconds[SAMPLES_MAX];
};

enum phase { ALONE, TOGETHER, PHASES };

struct neighbour {
	_Atomic enum phase phase;
	_Atomic bool ended;
	char trouble[256]; /* "": all was granted */
	struct sight sights[PHASES];
};

/* The neighbour's process, which asserts nothing: check would count that as the test's. */

static struct neighbour *self;
static uint8_t buffer[WIRE_PACKET_MAX];
static struct packet packet;

static _Noreturn void give_up(const char *what, int error)
{
	snprintf(self->trouble, sizeof(self->trouble), "%s%s%s", what, error ? ": " : "",
		 error ? strerror(-error) : "");
	_exit(EXIT_FAILURE);
}

static void note(uint64_t microseconds)
{
	struct sight *sight = &self->sights[self->phase];

	sight->microseconds[sight->requests % SAMPLES_MAX] = (uint32_t)microseconds;
	sight->slowest = MAX(sight->slowest, microseconds);
	sight->requests++;
}

static struct packet *begin(uint16_t kind)
{
	packet = packet_make(buffer, sizeof(buffer));
	encode_begin(&packet, kind, 1, 0, NULL, 0);
	return &packet;
}

/* Sends the packet and waits for the answer, behind any number of CHANGED. */
static struct message ask(int socket, uint16_t wanted)
{
	uint64_t begun = clock_us();
	struct message message = { 0 };
	struct fdset fds;
	ssize_t r;

	encode_end(&packet);
	r = transport_send(socket, packet.data, packet.size, NULL, 0, 0);
	if (r < 0)
		give_up("a request could not be sent", (int)r);
	do {
		r = transport_receive_fds(socket, buffer, sizeof(buffer), &fds, 0);
		if (r <= 0)
			give_up(r == 0 ? "the daemon has hung up" : "no answer came", (int)r);
		fdset_deinit(&fds);
		if (decode_message(buffer, (size_t)r, &message) != 0)
			give_up("the answer is no packet", 0);
	} while (message.kind == KIND_CHANGED);
	if (message.kind != wanted)
		give_up("another answer came than was wanted", 0);
	note(clock_us() - begun);
	return message;
}

static uint32_t take(int socket, const char *event)
{
	struct packet *to = begin(KIND_REGISTER);
	size_t mark = encode_strings(to, 0);
	struct message message;
	struct answers answers;
	struct answer answer;

	encode_string(to, 0, event, strlen(event));
	encode_count(to, mark, 1);
	message = ask(socket, KIND_REGISTERED);
	if (decode_registered(message.body, &answers) != 0 || !answers_next(&answers, &answer))
		give_up("the answer to REGISTER is malformed", 0);
	if (answer.refusal != 0)
		give_up(refusal_name(answer.refusal), 0);
	return answer.bit;
}

static void give_back(int socket, uint32_t bit)
{
	struct packet *to = begin(KIND_RELEASE);
	size_t mark = encode_release(to);
	struct wire_released released;

	encode_release_bit(to, bit);
	encode_count(to, mark, 1);
	if (decode_released(ask(socket, KIND_RELEASED).body, &released) != 0 || released.released != 1)
		give_up("nothing was released", 0);
}

static void work(int socket)
{
	uint32_t bit = take(socket, "neighbours_own u32 a");

	encode_watch(begin(KIND_WATCH), &(struct wire_watch){ .on = 1 });
	ask(socket, KIND_WATCHING);
	begin(KIND_QUERY);
	ask(socket, KIND_ACCOUNT);
	give_back(socket, bit);
}

static void live(const char *path)
{
	static const struct timeval patience = { .tv_sec = 60 };
	int page, socket = actor_hello(path, &page);

	if (socket < 0)
		give_up("it could not connect", -errno);
	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	/* So that it has a stream from the beginning. */
	take(socket, "neighbours_first u32 a");
	while (!self->ended) {
		work(socket);
		usleep(PAUSE_US);
	}
	_exit(EXIT_SUCCESS);
}

static void start_neighbour(struct scene *scene)
{
	self = scene->neighbour = share_memory(sizeof(*self));
	scene->pid = start_process();
	if (scene->pid > 0)
		return;
	close_range(STDERR_FILENO + 1, ~0U, 0);
	live(scene->fixture.socket);
}

/* The test. */

/* So many requests are enough to measure how long they take. */
static unsigned enough(void)
{
	return repetitions(200, 1000);
}

static bool has_done(const struct scene *scene, enum phase phase, uint64_t requests)
{
	return scene->neighbour->sights[phase].requests >= requests || *scene->neighbour->trouble;
}

static void expect_no_trouble(const struct scene *scene)
{
	if (*scene->neighbour->trouble)
		fixture_print_log(&scene->fixture);
	ck_assert_msg(*scene->neighbour->trouble == '\0', "the neighbour: %s", scene->neighbour->trouble);
}

void scene_prepare(struct scene *scene, const char *policy)
{
	*scene = (struct scene){ 0 };
	fixture_prepare(&scene->fixture, policy);
}

void scene_launch(struct scene *scene, const char *const *options)
{
	/* With the usual log level: a line for each refusal would cost time. */
	const char *all[16] = { "--tenants=process", "--log-level=info" };

	for (size_t n = 2; options && *options && n < ARRAY_SIZE(all) - 1; n++)
		all[n] = *options++;
	fixture_launch(&scene->fixture, all);
	start_neighbour(scene);
	ck_assert_msg(eventually(has_done(scene, ALONE, enough())), "the neighbour does nothing");
	expect_no_trouble(scene);
	scene->memory = proc_status(scene->fixture.pid, "VmRSS:", 10);
	scene->neighbour->phase = TOGETHER;
}

void scene_measure_beside(struct scene *scene, void (*ordinary)(const struct scene *, unsigned round))
{
	struct sight *alone = &scene->neighbour->sights[ALONE];

	alone->requests = alone->slowest = 0;
	scene->neighbour->phase = ALONE;
	for (unsigned round = 0; !has_done(scene, ALONE, enough()); round++)
		ordinary(scene, round);
	expect_no_trouble(scene);
	scene->neighbour->phase = TOGETHER;
}

void scene_run(const struct daemon_test *test, void (*body)(struct scene *))
{
	struct scene scene;

	if (!test_is_possible(test))
		return;
	scene_prepare(&scene, test->policy ? test->policy : "");
	scene_launch(&scene, test->options);
	body(&scene);
}

void scene_go_on(struct scene *scene)
{
	uint64_t done = scene->neighbour->sights[TOGETHER].requests;

	ck_assert_msg(eventually(has_done(scene, TOGETHER, done + enough())), "the neighbour has to wait");
	expect_no_trouble(scene);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *one = a, *another = b;

	return *one < *another ? -1 : *one > *another;
}

/* That part of a thousand of its requests has taken no longer. */
static uint32_t quantile(struct sight *sight, size_t thousandths)
{
	size_t n = MIN(sight->requests, (uint64_t)SAMPLES_MAX);

	qsort(sight->microseconds, n, sizeof(*sight->microseconds), compare);
	return sight->microseconds[(n - 1) * thousandths / 1000];
}

static void print_row(struct scene *scene, const char *what, uint64_t grown)
{
	struct sight *alone = &scene->neighbour->sights[ALONE], *together = &scene->neighbour->sights[TOGETHER];
	uint32_t before = MAX(quantile(alone, 500), 1u), median = quantile(together, 500);

	printf("| %s | %" PRIu64 " | %" PRIu64 ", 0 | %u → %u (%.1f) | %u → %u | %.1f |\n", what, grown,
	       together->requests, before, median, (double)median / before, quantile(alone, 990),
	       quantile(together, 990), (double)together->slowest / 1000.);
}

/* A tenant of its own. */
void scene_take_newcomer(const struct scene *scene)
{
	_cleanup_(actor_end) struct actor actor = actor_new(scene->fixture.socket, NULL);

	ck_assert_uint_eq(raw_register(actor.socket, "newcomers u32 a", NULL, NULL), 0);
}

void scene_end(struct scene *scene, uint64_t kib, const char *format, ...)
{
	uint64_t grown = proc_status(scene->fixture.pid, "VmHWM:", 10);
	char what[256];
	va_list arguments;

	grown -= MIN(grown, scene->memory);
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	scene_go_on(scene);
	scene_take_newcomer(scene);
	scene->neighbour->ended = true;
	expect_success(scene->pid);
	expect_no_trouble(scene);
	print_row(scene, what, grown);
	ck_assert_msg(grown <= kib || has_sanitizer(), "the daemon has grown by %" PRIu64 " KiB, not %" PRIu64, grown,
		      kib);
	fixture_stop(&scene->fixture);
}

unsigned most_connections(unsigned wanted)
{
	enum { MARGIN = 256 };
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return (unsigned)MIN((rlim_t)wanted, limit.rlim_max - MARGIN);
}

void limit_fds(rlim_t number)
{
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ number, number }), 0);
}

void connect_many(const struct scene *scene, int *sockets, unsigned n, bool greet)
{
	for (unsigned i = 0; i < n; i++) {
		sockets[i] = raw_connect(scene->fixture.socket);
		if (greet)
			actor_greet(sockets[i]);
	}
}

void send_register_many(const int *sockets, unsigned n, const char *description)
{
	for (unsigned i = 0; i < n; i++)
		send_register(sockets[i], description);
}

void close_many(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = fd_close(fds[i]);
}
