/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * One tenant registers an event, keeps the data file, hangs up, and does so again: with nothing but files that linger. Its
 * neighbour works on, and one that has a reserve of events gets all of them.
 */

#include <stdio.h>
#include <sys/resource.h>

#include "tests/integration/batch.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/scene.h"

/* The file that is left over in `ret`, or -1. 0, or why there is none. */
static uint32_t leave_file(int socket, const char *event, int *ret, char *ret_sentence, size_t size)
{
	static struct batch batch;

	*ret = -1;
	batch_register(socket, &event, 1, &batch, ret);
	snprintf(ret_sentence, size, "%.*s", (int)batch.answer[0].length,
		 batch.answer[0].text ? batch.answer[0].text : "");
	close(socket);
	return batch.answer[0].refusal;
}

static uint32_t come_and_leave_file(const struct fixture *fixture, int *ret, char *ret_sentence, size_t size)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL);

	return leave_file(socket, "same u32 a", ret, ret_sentence, size);
}

static void expect_part(const char *sentence, const char *part)
{
	ck_assert_msg(strstr(sentence, part), "'%s' is not in '%s'", part, sentence);
}

static bool no_file_lingers(const struct fixture *fixture)
{
	return status_number(fixture, "lingering") == 0;
}

TEST(tenant_keeps_no_more_files_than_its_maximum)
{
	char policy[64], sentence[WIRE_SENTENCE_MAX + 1], part[64];
	unsigned maximum = repetitions(200, 1000), more = repetitions(20, 200);
	int *files = calloc(maximum, sizeof(int)), none;
	struct scene scene;
	uint64_t streams;

	ck_assert_ptr_nonnull(files);
	ck_assert_uint_ge(most_connections(maximum), maximum);
	snprintf(policy, sizeof(policy), "[Daemon]\nDefaultMaxFiles=%u\n", maximum);
	snprintf(part, sizeof(part), "%u of %u data files (DefaultMaxFiles=%u", maximum, maximum, maximum);
	scene_begin(&scene, policy, NULL);
	streams = status_number(&scene.fixture, "streams");
	for (unsigned i = 0; i < maximum; i++)
		ck_assert_uint_eq(come_and_leave_file(&scene.fixture, &files[i], sentence, sizeof(sentence)), 0);
	for (unsigned i = 0; i < more; i++) {
		ck_assert_uint_eq(come_and_leave_file(&scene.fixture, &none, sentence, sizeof(sentence)),
				  REFUSAL_QUOTA_EXCEEDED);
		expect_part(sentence, part);
	}
	scene_go_on(&scene);
	scene_go_on(&scene);
	ck_assert_uint_le(status_number(&scene.fixture, "streams"), streams + maximum);
	close_many(files, maximum);
	/* Each that is closed makes room for another one. */
	ck_assert(eventually(no_file_lingers(&scene.fixture)));
	ck_assert_uint_eq(come_and_leave_file(&scene.fixture, &files[0], sentence, sizeof(sentence)), 0);
	close(files[0]);
	free(files);
	scene_end(&scene, 8192, "%u data files kept after hanging up, and %u more asked for", maximum, more);
}

static void have_few_fds(rlim_t number)
{
	const struct rlimit few = { .rlim_cur = number, .rlim_max = number };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* From several tenants, each with the default maximum, until nobody gets any more. How many they got. */
static unsigned take_all_files(const struct fixture *fixture, int *files, unsigned most)
{
	enum { TENANTS = 8 };
	char name[32], sentence[WIRE_SENTENCE_MAX + 1];
	unsigned n = 0;

	for (unsigned i = 0; i < TENANTS; i++) {
		uint32_t refusal = 0;

		snprintf(name, sizeof(name), "attacker%u", i);
		while (refusal == 0 && n < most) {
			struct actor actor;

			actor = actor_new(fixture->socket, &(struct actor_as){ .cgroup = make_cgroup(name) });
			refusal = leave_file(fd_steal(&actor.socket), "same u32 a", &files[n], sentence,
					     sizeof(sentence));
			actor_end(&actor);
			n += refusal == 0;
		}
		ck_assert(n < most && (refusal == REFUSAL_QUOTA_EXCEEDED || refusal == REFUSAL_MACHINE_FULL));
		expect_part(sentence, "data files");
	}
	return n;
}

static void expect_reserve_of_files(const char *guard)
{
	enum { RESERVE = 60, FDS = 800, MOST = FDS / 4 };
	const char *const options[] = { guard, NULL };
	int files[MOST], sockets[RESERVE];
	struct fixture fixture;
	char policy[256];
	unsigned n;

	snprintf(policy, sizeof(policy), "[/**]\nAllowHostRoot=yes\n[%s]\nReserveEvents=%u\n",
		 cgroup_path(make_cgroup("victim")), RESERVE);
	have_few_fds(FDS);
	fixture_start_with_policy(&fixture, policy, options);
	n = take_all_files(&fixture, files, MOST);
	printf("eight tenants got %u data files\n", n);
	for (unsigned i = 0; i < RESERVE; i++) {
		struct actor actor;
		char event[32];

		snprintf(event, sizeof(event), "reserved_%u u32 a", i);
		actor = actor_new(fixture.socket, &(struct actor_as){ .cgroup = make_cgroup("victim") });
		ck_assert_uint_eq(raw_register(actor.socket, event, NULL, NULL), 0);
		sockets[i] = fd_steal(&actor.socket);
		actor_end(&actor);
	}
	close_many(sockets, RESERVE);
	close_many(files, n);
	fixture_stop(&fixture);
}

TEST(reserved_events_have_their_files)
{
	if (need_cgroups("files kept for a reserve"))
		expect_reserve_of_files("--guard=prefer");
}

TEST(reserved_events_have_their_files_unguarded)
{
	if (need_cgroups("files kept for a reserve"))
		expect_reserve_of_files("--guard=off");
}

int main(void)
{
	return run_tests_in_cgroups();
}
