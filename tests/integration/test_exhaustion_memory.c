/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant makes the daemon remember, and keep under way, as much as its maxima allow; and then it goes. */

#include <inttypes.h>
#include <stdio.h>

#include "daemon/limits.h"
#include "tests/integration/batch.h"
#include "tests/integration/scene.h"

/* What userevd(8) says that each costs at most, in bytes; and what a tenant costs beside that, in KiB. */
enum { CONNECTION_BYTES = 1024, FILE_BYTES = 1152, LEASE_BYTES = 400, BESIDE_KIB = 8192 };

static uint64_t rss(const struct scene *scene)
{
	return proc_status(scene->fixture.pid, "VmRSS:", 10);
}

/* As many events as fit, with names and fields so long that the packet is full, of which each connection asks for the same. */
static void put_long_batch(unsigned n, unsigned from)
{
	struct packet *to = raw_packet(KIND_REGISTER);
	size_t mark = encode_strings(to, 0);
	char text[128];

	for (unsigned i = 0; i < n; i++) {
		int length = snprintf(text, sizeof(text),
				      "attackers_event_with_a_name_that_is_rather_long_%u u64 a; u64 b; u64 ccccccccc",
				      from + i);

		encode_string(to, 0, text, (size_t)length);
	}
	encode_count(to, mark, (uint16_t)n);
}

static void take_reply(int socket)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "no answer: %zd", reply.size);
	raw_reply_deinit(&reply);
}

/* Bytes for each of so many things; what is still being read and written is not what they cost. */
static void expect_bytes(const char *what, uint64_t kib, uint64_t n, uint64_t most)
{
	printf("%s: %" PRIu64 " bytes\n", what, kib * 1024 / n);
	ck_assert_msg(kib * 1024 <= n * most || has_sanitizer(), "%" PRIu64 " bytes for a %s, not %" PRIu64,
		      kib * 1024 / n, what, most);
}

static void ask_all(const int *sockets, unsigned n, unsigned events)
{
	for (unsigned i = 0; i < n; i++) {
		put_long_batch(events, 0);
		ck_assert_int_eq(raw_send(sockets[i]), 0);
		take_reply(sockets[i]);
	}
}

TEST(connections_files_and_leases_cost_as_documented)
{
	enum { CLIENTS = 500, EVENTS = 100 };
	/* Each connection has a file of its own, and leases of its own. */
	static const char *const options[] = { "--guard=off", "--tenants=process", NULL };
	unsigned n = is_emulated() ? CLIENTS / 5 : CLIENTS;
	uint64_t before, connected, filed, leased;
	struct fixture fixture;
	int sockets[CLIENTS + 1];

	ck_assert_uint_ge(most_connections(n + 1), n + 1);
	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxConnections=infinity\n", options);
	/* The events themselves, and what the daemon needs once. */
	sockets[n] = raw_hello(fixture.socket, 0, NULL, NULL);
	ask_all(&sockets[n], 1, EVENTS);
	before = proc_status(fixture.pid, "VmRSS:", 10);
	for (unsigned i = 0; i < n; i++)
		sockets[i] = raw_hello(fixture.socket, 0, NULL, NULL);
	connected = proc_status(fixture.pid, "VmRSS:", 10);
	ask_all(sockets, n, 1);
	filed = proc_status(fixture.pid, "VmRSS:", 10);
	ask_all(sockets, n, EVENTS);
	leased = proc_status(fixture.pid, "VmRSS:", 10);
	ck_assert_uint_eq(tenant_number(&fixture, "leases"), (n + 1) * EVENTS);
	ck_assert_uint_eq(tenant_number(&fixture, "files"), n + 1);
	expect_bytes("connection", connected - before, n, CONNECTION_BYTES);
	expect_bytes("data file with one lease", filed - connected, n, FILE_BYTES + LEASE_BYTES);
	expect_bytes("lease", leased - filed, n * (EVENTS - 1), LEASE_BYTES);
	close_many(sockets, n + 1);
	fixture_stop(&fixture);
}

TEST(hostile_tenant_costs_at_most_its_maxima)
{
	unsigned n = most_connections(repetitions(200, DEFAULT_MAX_CONNECTIONS)),
		 leases = repetitions(16384, DEFAULT_MAX_LEASES);
	int *sockets = calloc(n, sizeof(int));
	char policy[64];
	struct scene scene;
	uint64_t held, worst, after, allowed;

	ck_assert_ptr_nonnull(sockets);
	snprintf(policy, sizeof(policy), "[Daemon]\nDefaultMaxLeases=%u\n", leases);
	scene_begin(&scene, policy, NULL);
	connect_many(&scene, sockets, n, true);
	for (unsigned i = 0; i < n; i++)
		take_reply(sockets[i]);
	for (unsigned half = 0; half < 2; half++)
		for (unsigned i = 0; i < n; i++) {
			put_long_batch(WIRE_BATCH_MAX, half * WIRE_BATCH_MAX);
			ck_assert_int_eq(raw_send(sockets[i]), 0);
			take_reply(sockets[i]);
		}
	held = rss(&scene) - scene.memory;
	for (unsigned i = 0; i < n; i++) {
		put_long_batch(WIRE_BATCH_MAX, 0);
		for (unsigned j = 0; j < 4; j++) {
			const struct packet *packet = raw_finish();

			transport_send(sockets[i], packet->data, packet->size, NULL, 0, MSG_DONTWAIT);
		}
	}
	scene_go_on(&scene);
	worst = rss(&scene) - scene.memory;
	close_many(sockets, n);
	ck_assert(eventually(status_number(&scene.fixture, "connections") == 1));
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
