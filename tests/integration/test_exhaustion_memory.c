/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant makes the daemon hold as much, and have as many requests under way, as its maxima allow; then it disconnects. */

#include <inttypes.h>
#include <stdio.h>

#include "daemon/limits.h"
#include "tests/integration/scene.h"

/* The most that each costs, in bytes, as in userevd(8); and a tenant besides, in KiB. */
enum { CONNECTION_BYTES = 1024, FILE_BYTES = 1152, LEASE_BYTES = 300, BESIDE_KIB = 8192 };

static uint64_t rss(const struct scene *scene)
{
	return proc_status(scene->fixture.pid, "VmRSS:", 10);
}

/* Events with names and fields so long that the packet is full. */
static void put_long_batch(unsigned n, unsigned from)
{
	batch_put(numbered("attackers_event_with_a_name_that_is_rather_long_%u u64 a; u64 b; u64 ccccccccc", from, n),
		  n);
}

static void ask_long_batch(int socket, unsigned n, unsigned from)
{
	struct raw_reply reply;

	put_long_batch(n, from);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "no answer: %zd", reply.size);
	raw_reply_deinit(&reply);
}

/* n things have cost at most so many bytes each. */
static void expect_bytes(const char *what, uint64_t kib, uint64_t n, uint64_t most)
{
	printf("%s: %" PRIu64 " bytes\n", what, kib * 1024 / n);
	ck_assert_msg(kib * 1024 <= n * most || has_sanitizer(), "%" PRIu64 " bytes for a %s, not %" PRIu64,
		      kib * 1024 / n, what, most);
}

static uint64_t ask_all(const struct fixture *fixture, const int *sockets, unsigned n, unsigned events)
{
	for (unsigned i = 0; i < n; i++)
		ask_long_batch(sockets[i], events, 0);
	return proc_status(fixture->pid, "VmRSS:", 10);
}

/* Each connection has a file of its own, and leases of its own. */
DAEMON_TEST(connections_files_and_leases_cost_as_documented, .policy = "[Daemon]\nDefaultMaxConnections=infinity\n",
	    .options = { "--guard=off", "--tenants=process" })
{
	enum { CLIENTS = 500, EVENTS = 100 };
	unsigned n = is_emulated() ? CLIENTS / 5 : CLIENTS;
	uint64_t before, connected, filed, leased;
	int sockets[CLIENTS + 1];

	ck_assert_uint_ge(most_connections(n + 1), n + 1);
	/* Allocates the events themselves, and memory that the daemon needs once. */
	sockets[n] = fixture_client(fixture);
	before = ask_all(fixture, &sockets[n], 1, EVENTS);
	for (unsigned i = 0; i < n; i++)
		sockets[i] = fixture_client(fixture);
	connected = proc_status(fixture->pid, "VmRSS:", 10);
	filed = ask_all(fixture, sockets, n, 1);
	leased = ask_all(fixture, sockets, n, EVENTS);
	expect_tenant(fixture, "leases=%u files=%u", (n + 1) * EVENTS, n + 1);
	expect_bytes("connection", connected - before, n, CONNECTION_BYTES);
	expect_bytes("data file with one lease", filed - connected, n, FILE_BYTES + LEASE_BYTES);
	expect_bytes("lease", leased - filed, n * (EVENTS - 1), LEASE_BYTES);
	close_many(sockets, n + 1);
}

/* Requests that the daemon can't answer, since the client doesn't read. */
static void leave_requests(int socket)
{
	const struct packet *packet;

	put_long_batch(WIRE_BATCH_MAX, 0);
	packet = raw_finish();
	for (unsigned i = 0; i < 4; i++)
		transport_send(socket, packet->data, packet->size, NULL, 0, MSG_DONTWAIT);
}

TEST(hostile_tenant_costs_at_most_its_maxima)
{
	unsigned n = most_connections(repetitions(200, DEFAULT_MAX_CONNECTIONS)),
		 leases = repetitions(16384, DEFAULT_MAX_LEASES);
	int *sockets = calloc(n, sizeof(int));
	uint64_t held, worst, after, allowed;
	struct scene scene;
	char policy[64];

	ck_assert_ptr_nonnull(sockets);
	snprintf(policy, sizeof(policy), "[Daemon]\nDefaultMaxLeases=%u\n", leases);
	scene_prepare(&scene, policy);
	scene_launch(&scene, NULL);
	for (unsigned i = 0; i < n; i++)
		sockets[i] = fixture_client(&scene.fixture);
	for (unsigned half = 0; half < 2; half++)
		for (unsigned i = 0; i < n; i++)
			ask_long_batch(sockets[i], WIRE_BATCH_MAX, half * WIRE_BATCH_MAX);
	held = rss(&scene) - scene.memory;
	for (unsigned i = 0; i < n; i++)
		leave_requests(sockets[i]);
	scene_go_on(&scene);
	worst = rss(&scene) - scene.memory;
	close_many(sockets, n);
	await_status(&scene.fixture, "connections=1");
	scene_go_on(&scene);
	sleep(3);
	after = rss(&scene);
	after -= MIN(after, scene.memory);
	allowed = ((uint64_t)leases * LEASE_BYTES + (uint64_t)n * (CONNECTION_BYTES + FILE_BYTES)) / 1024 + BESIDE_KIB;
	printf("%u connections: held %" PRIu64 " KiB, at worst %" PRIu64 ", allowed %" PRIu64 ", afterwards %" PRIu64
	       "\n",
	       n, held, worst, allowed, after);
	free(sockets);
	scene_end(&scene, allowed, "%u connections with all the leases that they get, and as many requests under way",
		  n);
	ck_assert_msg(after <= 2048 || has_sanitizer(), "%" PRIu64 " KiB are not given back", after);
}
