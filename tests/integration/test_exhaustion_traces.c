/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A tenant traces itself as often as it can, with readers that never read. */

#include "tests/integration/cgroups.h"
#include "tests/integration/scene.h"

#define TRACING_TENANTS "[/**]\nAllowHostRoot=yes\nOwnTracing=yes\n"

enum { EVENTS = 64 };

static int begin_trace(int socket)
{
	struct raw_reply reply = { 0 };
	int fd = -1;

	raw_strings(KIND_TRACE_OWN, 0, NULL, 0, 0);
	if (raw_send(socket) < 0)
		return -1;
	do {
		raw_reply_deinit(&reply);
		raw_receive(socket, &reply);
	} while (reply.size > 0 && reply.message.kind == KIND_TRACED);
	if (reply.size > 0 && reply.message.kind == KIND_TRACING_OWN && reply.fds.count == 1)
		fd = fdset_steal(&reply.fds, 0);
	raw_reply_deinit(&reply);
	return fd;
}

/* In the attacker's cgroup: a program with events that reads nothing, three readers that don't either, and one that comes and goes. */
static _Noreturn void trace_without_end(const char *cgroup, const char *path, uint64_t *done, const bool *ended)
{
	static struct batch batch;
	const int program = (ck_assert(actor_join(cgroup)), raw_hello(path, UINT64_MAX, NULL, NULL));

	batch_register(program, numbered("traced_%u u32 x", 0, EVENTS), EVENTS, &batch, NULL);
	for (unsigned i = 0; i < WIRE_TRACES_MAX - 1; i++)
		ck_assert_int_ge(begin_trace(raw_hello(path, 0, NULL, NULL)), 0);
	while (!__atomic_load_n(ended, __ATOMIC_RELAXED)) {
		const int socket = raw_hello(path, 0, NULL, NULL);
		const int fd = begin_trace(socket);

		/* The last one may not have ended yet. */
		*done += fd >= 0;
		fd_close(fd);
		close(socket);
	}
	_exit(EXIT_SUCCESS);
}

static void connect_and_ask(const struct scene *scene, unsigned round _unused_)
{
	const int socket = raw_hello(scene->fixture.socket, 0, NULL, NULL);

	raw_query(socket);
	close(socket);
}

SCENE_TEST(traces_of_ones_own_cost_others_nothing, .policy = TRACING_TENANTS, .options = { "--tenants=cgroup" },
	   .needs_cgroups = "tenants of their own")
{
	struct {
		uint64_t done;
		bool ended;
	} *shared = share_memory(sizeof(*shared));
	const char *cgroup = make_cgroup("attacker");
	pid_t attacker;

	if (!has_a_page_per_tenant(&scene->fixture)) {
		scene_end(scene, 1024, "no tenant can trace itself here");
		return;
	}
	scene_measure_beside(scene, connect_and_ask);
	attacker = start_process();
	if (attacker == 0)
		trace_without_end(cgroup, scene->fixture.socket, &shared->done, &shared->ended);
	for (unsigned i = repetitions(2, 60); i > 0; i--)
		scene_go_on(scene);
	ck_assert(eventually(__atomic_load_n(&shared->done, __ATOMIC_RELAXED) > 0));
	shared->ended = true;
	await_success(attacker);
	scene_end(scene, 8192, "%lu traces of its own events by a tenant that reads none", (unsigned long)shared->done);
}

int main(void)
{
	return run_tests_in_cgroups();
}
