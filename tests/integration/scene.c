/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/scene.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
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
	struct sight sights[PHASES];
};

/* --- the neighbour's process --- */

static void note(struct neighbour *self, uint64_t begun)
{
	struct sight *sight = &self->sights[self->phase];
	uint64_t microseconds = clock_us() - begun;

	sight->microseconds[sight->requests % SAMPLES_MAX] = (uint32_t)microseconds;
	sight->slowest = MAX(sight->slowest, microseconds);
	sight->requests++;
}

/* Makes a request, and notes how long it took. */
#define TIMED(request)                                                                                                 \
	({                                                                                                             \
		uint64_t begun_ = clock_us();                                                                          \
		__typeof__(request) result_ = (request);                                                               \
		note(self, begun_);                                                                                    \
		result_;                                                                                               \
	})

static void work(struct neighbour *self, int socket)
{
	struct answer answer;

	ck_assert_uint_eq(TIMED(raw_register(socket, "neighbours_own u32 a", &answer, NULL)), 0);
	ck_assert(TIMED((raw_watch(socket, true), true)));
	TIMED(raw_query(socket));
	ck_assert_uint_eq(TIMED(raw_release(socket, &answer.bit, 1)), 1);
}

static _Noreturn void live(struct neighbour *self, const char *path)
{
	int socket = raw_hello(path, UINT64_MAX, NULL, NULL);

	/* So that it has a stream from the beginning. */
	ck_assert_uint_eq(raw_register(socket, "neighbours_first u32 a", NULL, NULL), 0);
	while (!self->ended) {
		work(self, socket);
		usleep(PAUSE_US);
	}
	_exit(EXIT_SUCCESS);
}

static void start_neighbour(struct scene *scene)
{
	scene->neighbour = share_memory(sizeof(*scene->neighbour));
	scene->pid = start_process();
	if (scene->pid == 0)
		live(scene->neighbour, scene->fixture.socket);
}

/* --- the test --- */

/* So many requests are enough to measure how long they take. */
static unsigned enough(void)
{
	return repetitions(200, 1000);
}

static void await_requests(const struct scene *scene, enum phase phase, uint64_t requests)
{
	const struct sight *sight = &scene->neighbour->sights[phase];
	bool done = eventually(sight->requests >= requests || !is_running(scene->pid));

	if (!is_running(scene->pid))
		fixture_print_log(&scene->fixture);
	ck_assert_msg(is_running(scene->pid), "a request of the neighbour's has failed, as printed above");
	ck_assert_msg(done, "the neighbour has to wait");
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
	await_requests(scene, ALONE, enough());
	scene->memory = proc_status(scene->fixture.pid, "VmRSS:", 10);
	scene->neighbour->phase = TOGETHER;
}

void scene_measure_beside(struct scene *scene, void (*ordinary)(const struct scene *, unsigned round))
{
	struct sight *alone = &scene->neighbour->sights[ALONE];

	alone->requests = alone->slowest = 0;
	scene->neighbour->phase = ALONE;
	for (unsigned round = 0; alone->requests < enough(); round++)
		ordinary(scene, round);
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
	await_requests(scene, TOGETHER, scene->neighbour->sights[TOGETHER].requests + enough());
}

static int compare(const void *a, const void *b)
{
	const uint32_t *one = a, *another = b;

	return *one < *another ? -1 : *one > *another;
}

/* Microseconds in which so many of a thousand requests were answered. */
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
	await_success(scene->pid);
	print_row(scene, what, grown);
	ck_assert_msg(grown <= kib || has_sanitizer(), "the daemon has grown by %" PRIu64 " KiB, not %" PRIu64, grown,
		      kib);
	fixture_stop(&scene->fixture);
}

void connect_many(const struct scene *scene, int *sockets, unsigned n, bool greet)
{
	for (unsigned i = 0; i < n; i++) {
		sockets[i] = raw_connect(scene->fixture.socket);
		if (greet)
			actor_greet(sockets[i]);
	}
}

void close_many(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = fd_close(fds[i]);
}
