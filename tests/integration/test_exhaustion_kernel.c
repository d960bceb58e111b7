/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant misuses things of the kernel's: locks on the data file, and names of foreign events. Its neighbour works on. */

#include <fcntl.h>

#include "tests/integration/kernel_events.h"
#include "tests/integration/scene.h"

/* Every byte that no other process has locked. */
static void lock_all(int fd, uint64_t from, uint64_t until)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)from };

	lock.l_len = (off_t)(until - from);
	if (from == until || change_lock(fd, F_WRLCK, from, until - from) == 0)
		return;
	/* Streams come and go meanwhile. */
	if (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return;
	lock_all(fd, from, MAX((uint64_t)lock.l_start, from));
	lock_all(fd, MIN((uint64_t)(lock.l_start + lock.l_len), until), until);
}

SCENE_TEST(locked_bytes_deny_no_tenant_a_file, .options = { "--guard=off" },
	   .needs_kernel = "locks on the kernel's data file")
{
	unsigned rounds = repetitions(100, 1000);
	int socket = fixture_client(&scene->fixture), file = -1;

	ck_assert_uint_eq(raw_register(socket, "holders u32 a", NULL, &file), 0);
	for (unsigned i = 0; i < rounds; i++) {
		lock_all(file, 0, INT64_MAX);
		scene_take_newcomer(scene);
	}
	scene_go_on(scene);
	close(file);
	close(socket);
	scene_end(scene, 4096, "%u times every free byte of the data file locked, and as many newcomers", rounds);
}

/* After an event of the tenant's was removed, which the kernel might still have. */
static uint32_t ask_after_removal(const struct scene *scene, unsigned round, const char *description)
{
	int socket = fixture_client(&scene->fixture);
	uint32_t refusal;

	take_batch(socket, numbered("passing_%u u32 a", round, 1), 1, NULL, NULL);
	close(socket);
	socket = fixture_client(&scene->fixture);
	refusal = raw_register(socket, description, NULL, NULL);
	close(socket);
	return refusal;
}

static void ask_for_free_name(const struct scene *scene, unsigned round)
{
	ck_assert_uint_eq(ask_after_removal(scene, round, "free u64 number"), 0);
}

SCENE_TEST(name_of_foreign_event_does_not_block, .needs_kernel = "names that foreign events hold")
{
	unsigned rounds = repetitions(200, 2000);
	struct janitor janitor;
	/* From Linux 6.9 on it becomes an event of many formats, beside the foreign one. */
	uint32_t expected = offers_multi_format(&scene->fixture) ? 0 : REFUSAL_NAME_TAKEN;

	scene_measure_beside(scene, ask_for_free_name);
	foreign_event_begin(&janitor, "foreign u32 number");
	for (unsigned i = 0; i < rounds; i++)
		ck_assert_uint_eq(ask_after_removal(scene, i, "foreign u64 number"), expected);
	scene_go_on(scene);
	janitor_end(&janitor);
	scene_end(scene, 4096, "%u times a name that a foreign event holds, after events were removed", rounds);
}
