/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What one tenant can do to all that is the kernel's: locks on the data file, and names that are others'. */

#include <fcntl.h>
#include <stdio.h>

#include "tests/integration/scene.h"

static const char *const unguarded[] = { "--guard=off", NULL };

static bool has_kernel(const char *what)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	if (!need_kernel(&fixture, what))
		return false;
	fixture_stop(&fixture);
	return true;
}

static int change_lock(int fd, short type, uint64_t from, uint64_t n)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)n };

	return fcntl(fd, F_OFD_SETLK, &lock);
}

/* All that it can get: where others have a lock it takes what is before and behind. */
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

TEST(locked_bytes_deny_no_tenant_a_file)
{
	unsigned rounds = repetitions(100, 1000);
	struct scene scene;
	int socket, file = -1;

	if (!has_kernel("locks on the kernel's data file"))
		return;
	scene_begin(&scene, "", unguarded);
	socket = raw_hello(scene.fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "holders u32 a", NULL, &file), 0);
	for (unsigned i = 0; i < rounds; i++) {
		lock_all(file, 0, INT64_MAX);
		scene_take_newcomer(&scene);
	}
	scene_go_on(&scene);
	close(file);
	close(socket);
	scene_end(&scene, 4096, "%u times every free byte of the data file locked, and as many newcomers", rounds);
}

static void add_foreign_event(void)
{
	write_file("/sys/kernel/tracing/dynamic_events", "u:foreign u32 number\n");
}

/* After an event of the tenant's own was removed, when the kernel might still have that. */
static uint32_t ask_after_removal(const struct scene *scene, unsigned round, const char *description)
{
	char passing[32];
	int socket = raw_hello(scene->fixture.socket, 0, NULL, NULL);
	uint32_t refusal;

	snprintf(passing, sizeof(passing), "passing_%u u32 a", round);
	ck_assert_uint_eq(raw_register(socket, passing, NULL, NULL), 0);
	close(socket);
	socket = raw_hello(scene->fixture.socket, 0, NULL, NULL);
	refusal = raw_register(socket, description, NULL, NULL);
	close(socket);
	return refusal;
}

static void ask_for_free_name(const struct scene *scene, unsigned round)
{
	ck_assert_uint_eq(ask_after_removal(scene, round, "free u64 number"), 0);
}

static bool has_multi_format(const struct scene *scene)
{
	struct wire_welcome welcome;

	close(raw_hello(scene->fixture.socket, UINT64_MAX, &welcome, NULL));
	return welcome.features & WIRE_FEATURE_MULTI_FORMAT;
}

TEST(name_of_foreign_event_does_not_block)
{
	unsigned rounds = repetitions(200, 2000);
	struct janitor janitor;
	struct scene scene;
	uint32_t expected;

	if (!has_kernel("names that foreign events hold"))
		return;
	scene_begin(&scene, "", NULL);
	scene_measure_beside(&scene, ask_for_free_name);
	/* From Linux 6.9 on it becomes an event of many formats, beside the foreign one. */
	expected = has_multi_format(&scene) ? 0 : REFUSAL_NAME_TAKEN;
	janitor_start(&janitor, delete_event, "foreign");
	add_foreign_event();
	for (unsigned i = 0; i < rounds; i++)
		ck_assert_uint_eq(ask_after_removal(&scene, i, "foreign u64 number"), expected);
	scene_go_on(&scene);
	janitor_end(&janitor);
	scene_end(&scene, 4096, "%u times a name that a foreign event holds, after events were removed", rounds);
}
