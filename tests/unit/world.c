/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/world.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "daemon/admin/reload.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/process/loop.h"
#include "daemon/registry/resting.h"

/* --- a daemon in this process --- */

void world_begin(struct world *world)
{
	struct options options = {
		.backend = "embedded",
		.guard = "prefer",
		.policy = "",
		.user = "root",
		.capacity = world->capacity,
		.max_events = world->max_events,
		.ring_bytes = DEFAULT_RING_BYTES,
		.client_timeout = DEFAULT_CLIENT_TIMEOUT,
		.tenant_is_process = true,
		.allow_persist = true,
	};

	make_temporary_directory(world->directory, sizeof(world->directory));
	snprintf(world->socket, sizeof(world->socket), "%s/userevd.sock", world->directory);
	snprintf(world->control, sizeof(world->control), "%s/control.sock", world->directory);
	options.socket = world->socket;
	options.control_socket = world->control;
	ck_assert_int_eq(daemon_new(&options, &world->daemon), 0);
	script_begin(world->daemon->registry.kernel);
}

struct world *world_new(uint32_t capacity, uint32_t max_events)
{
	struct world *world = calloc(1, sizeof(*world));

	if (!world)
		ck_abort();
	log_open(LOG_EMERG, false);
	world->capacity = capacity;
	world->max_events = max_events;
	world_begin(world);
	return world;
}

long allocations_given = -1;

void turn(struct world *world)
{
	allocations_left = allocations_given;
	if (world->daemon && !world->stands_still) {
		for (unsigned i = 0; i < TURNS; i++)
			ev_run(world->daemon->loop, EVRUN_NOWAIT);
		/* On a slow machine a turn is one request; and not all that a client leaves behind is freed in one turn. */
		while (ev_is_active(&world->daemon->connections.w_busy))
			ev_run(world->daemon->loop, EVRUN_NOWAIT);
	}
	allocations_given = allocations_left;
	allocations_left = -1;
}

void find_events(void)
{
	struct epoll_event others[64];

	epoll_wait(loop_epoll, others, ARRAY_SIZE(others), 0);
}

void take_events(void)
{
	find_events();
	clients_take_events();
}

void log_begin(int level)
{
	int file = memfd_create("log", MFD_CLOEXEC);

	ck_assert_int_ge(file, 0);
	fflush(stderr);
	ck_assert_int_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
	close(file);
	log_open(level, false);
}

const char *logged(void)
{
	static char text[1 << 18];
	ssize_t n;

	fflush(stderr);
	n = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);
	text[MAX(n, 0)] = '\0';
	ck_assert_int_eq(ftruncate(STDERR_FILENO, 0), 0);
	lseek(STDERR_FILENO, 0, SEEK_SET);
	return text;
}

void expect_logged(const char *log, const char *text, unsigned times)
{
	unsigned n = 0;

	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	ck_assert_msg(n == times, "%u times \"%s\" in: %s", n, text, log);
}

void world_adopt(struct world *world, const char *policy)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/10.conf", world->directory);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(policy, file), 0);
	ck_assert_int_eq(fclose(file), 0);
	world->daemon->options.policy = world->directory;
	ck_assert_int_eq(reload_first(world->daemon), 0);
	reload_keep_first(world->daemon);
	unlink(path);
	turn(world);
}

unsigned count_slots(void)
{
	struct source *source, *next;
	unsigned n = 0;

	HASH_ITER(by_number, embedded()->sources, source, next)
		n += source->n_slots;
	return n;
}

void expect_charged(const struct world *world, unsigned events, unsigned leases)
{
	ck_assert_uint_eq(world->daemon->registry.machine.common, events);
	ck_assert_uint_eq(world->daemon->registry.leases, leases);
}

void expect_no_charges(const struct world *world)
{
	expect_charged(world, 0, 0);
	ck_assert_ptr_null(world->daemon->registry.events);
	ck_assert_uint_eq(count_slots(), 0);
	ck_assert_ptr_null(embedded()->holdings);
	ck_assert_uint_eq(HASH_CNT(by_name, embedded()->tracer.events), 0);
}

void expect_nothing_left(struct world *world)
{
	struct daemon *daemon = world->daemon;

	/* Refusals are remembered for a minute. */
	resting_clear(&daemon->registry);

	expect_no_charges(world);
	ck_assert_ptr_null(daemon->registry.tenants);
	ck_assert_ptr_null(daemon->registry.levels);
	ck_assert_ptr_null(daemon->registry.streams);
	ck_assert(TAILQ_EMPTY(&daemon->registry.lingering));
	ck_assert(TAILQ_EMPTY(&daemon->connections.clients));
	ck_assert(TAILQ_EMPTY(&daemon->connections.impatient));
	ck_assert(TAILQ_EMPTY(&daemon->connections.flushing));
	ck_assert_uint_eq(daemon->registry.n_holders, 0);
	ck_assert_ptr_null(embedded()->sources);
	ck_assert_ptr_null(embedded()->pages);
}

bool look_at_lingering(struct world *world)
{
	struct daemon *daemon = world->daemon;
	struct stream *stream;

	TAILQ_FOREACH(stream, &daemon->registry.lingering, idle) {
		if (!ev_is_active(&stream->w_idle))
			continue;
		ev_timer_stop(daemon->loop, &stream->w_idle);
		ev_invoke(daemon->loop, &stream->w_idle, EV_TIMER);
	}
	bucket_init(&daemon->registry.look_tokens, 10000, 10000, clock_now());
	ev_invoke(daemon->loop, &daemon->registry.w_linger, EV_TIMER);
	return !TAILQ_EMPTY(&daemon->registry.lingering);
}

void world_end(struct world *world)
{
	world->daemon = daemon_free(world->daemon);
	ck_assert_int_eq(rmdir(world->directory), 0);
}

void world_free(struct world **world)
{
	if ((*world)->daemon) {
		hold_no_more();
		turn(*world);
		look_at_lingering(*world);
		turn(*world);
		expect_nothing_left(*world);
		world_end(*world);
	}
	free(*world);
}
