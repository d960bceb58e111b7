/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * One tenant registers an event, keeps the data file and hangs up, many times: it has nothing but lingering files. Its
 * neighbour works on, and a tenant with a reserve of events gets all of them.
 */

#include <stdio.h>

#include "tests/integration/cgroups.h"
#include "tests/integration/scene.h"

/* Registers an event and hangs up: 0, and the data file, or the refusal and -1. The refusal is that of data files, with those words. */
static uint32_t leave_file(int socket, const char *words, int *ret)
{
	static const char *const event = "same u32 a";
	static struct batch batch;

	*ret = -1;
	batch_register(socket, &event, 1, &batch, ret);
	if (batch.answer[0].refusal)
		ck_assert_msg(memmem(batch.answer[0].text, batch.answer[0].length, words, strlen(words)),
			      "'%s' is not in '%.*s'", words, (int)batch.answer[0].length, batch.answer[0].text);
	close(socket);
	return batch.answer[0].refusal;
}

TEST(tenant_keeps_no_more_files_than_its_maximum)
{
	unsigned maximum = repetitions(200, 1000), more = repetitions(20, 200), kept = 0;
	int *files = calloc(2 * maximum, sizeof(int)), none;
	char policy[64], words[64];
	struct scene scene;
	uint64_t streams;

	ck_assert_ptr_nonnull(files);
	ck_assert_uint_ge(most_connections(maximum), maximum);
	snprintf(policy, sizeof(policy), "[Daemon]\nDefaultMaxFiles=%u\n", maximum);
	snprintf(words, sizeof(words), "%u of %u data files (DefaultMaxFiles=%u", maximum, maximum, maximum);
	scene_prepare(&scene, policy);
	scene_launch(&scene, NULL);
	streams = status_number(&scene.fixture, "streams");
	/* A client shares the file of the one before if that hangup has not been handled yet. */
	while (kept < 2 * maximum && leave_file(fixture_client(&scene.fixture), words, &files[kept]) == 0)
		kept++;
	ck_assert_uint_ge(kept, maximum);
	for (unsigned i = 0; i < more; i++)
		ck_assert_uint_eq(leave_file(fixture_client(&scene.fixture), words, &none), REFUSAL_QUOTA_EXCEEDED);
	scene_go_on(&scene);
	scene_go_on(&scene);
	ck_assert_uint_le(status_number(&scene.fixture, "streams"), streams + maximum);
	close_many(files, kept);
	/* Then there is room again. */
	await_status(&scene.fixture, "lingering=0");
	ck_assert_uint_eq(leave_file(fixture_client(&scene.fixture), words, &files[0]), 0);
	close(files[0]);
	free(files);
	scene_end(&scene, 8192, "%u data files kept after hanging up, and %u more asked for", maximum, more);
}

/* Several tenants, each with the default maximum, take files until they get no more. How many they got. */
static unsigned take_all_files(const struct fixture *fixture, int *files, unsigned most)
{
	enum { TENANTS = 8 };
	char name[32];
	unsigned n = 0;

	for (unsigned i = 0; i < TENANTS; i++) {
		uint32_t refusal = 0;

		snprintf(name, sizeof(name), "attacker%u", i);
		while (refusal == 0 && n < most) {
			_cleanup_(actor_end) struct actor actor = actor_in(fixture, make_cgroup(name), 0);

			refusal = leave_file(fd_steal(&actor.socket), "data files", &files[n]);
			n += refusal == 0;
		}
		ck_assert(n < most && (refusal == REFUSAL_QUOTA_EXCEEDED || refusal == REFUSAL_MACHINE_FULL));
	}
	return n;
}

enum { RESERVE = 60, FDS = 800, MOST = FDS / 4 };

static void expect_reserve_of_files(const struct fixture *fixture)
{
	int files[MOST], sockets[RESERVE];
	unsigned n = take_all_files(fixture, files, MOST);

	printf("eight tenants got %u data files\n", n);
	for (unsigned i = 0; i < RESERVE; i++) {
		_cleanup_(actor_end) struct actor actor = actor_in(fixture, make_cgroup("victim"), 0);

		take_batch(actor.socket, numbered("reserved_%u u32 a", i, 1), 1, NULL, NULL);
		sockets[i] = fd_steal(&actor.socket);
	}
	close_many(sockets, RESERVE);
	close_many(files, n);
}

#define RESERVE_OF_A_VICTIM                                                                                            \
	.policy = "[/**]\nAllowHostRoot=yes\n[/userevd-test-*/victim]\nReserveEvents=60\n", .fds_max = FDS,            \
	.needs_cgroups = "files kept for a reserve"

DAEMON_TEST(reserved_events_have_their_files, RESERVE_OF_A_VICTIM)
{
	expect_reserve_of_files(fixture);
}

DAEMON_TEST(reserved_events_have_their_files_unguarded, RESERVE_OF_A_VICTIM, .options = { "--guard=off" })
{
	expect_reserve_of_files(fixture);
}

int main(void)
{
	return run_tests_in_cgroups();
}
