/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A daemon that sends invalid packets, files and pages, or disconnects in between. */

#include "tests/unit/client/library/library_test.h"

/* Each mischief from `first` to `last`, with a daemon and a userev of its own. */
static void with_each(void (*expect)(enum mischief, int error), enum mischief first, enum mischief last, bool opens)
{
	for (enum mischief mischief = first; mischief <= last; mischief++) {
		library_test_begin(true, opens);
		expect(mischief, mischief == HANG_UP ? -ECONNRESET : -EPROTO);
		library_test_end();
	}
}

static void expect_nothing_is_left(enum mischief mischief, int error)
{
	int fds;

	fake_do(mischief, KIND_HELLO);
	userev = open_library();
	register_event(&event, "event u32 number");
	ck_assert_uint_eq(fake_daemon->registers, 0);
	expect_off(&event);
	ck_assert_int_eq(userev_connected(userev), error);
	fake_wait(fake_daemon->accepted == fake_daemon->ended);
	fds = count_open_fds();
	ck_assert_int_eq(userev_connected(userev), error);
	fake_wait(fake_daemon->accepted == fake_daemon->ended);
	ck_assert_int_eq(count_open_fds(), fds);
	fake_do(GOOD, 0);
	expect_connected();
	expect_alive(&event, "event");
}

TEST(invalid_welcome_leaves_nothing)
{
	with_each(expect_nothing_is_left, HANG_UP, BATCH_NONE, false);
}

static void expect_connection_ends(enum mischief mischief, int error)
{
	static struct userev_event before;

	register_event(&before, "before u32 number");
	fake_set(keep_records = true);
	fake_set(fresh_stream = true);
	fake_do(mischief, KIND_REGISTER);
	register_event(&event, "event u32 number");
	fake_switch("event", true);
	expect_off(&event);
	fake_wait(fake_daemon->ended == 1);
	ck_assert_int_eq(userev_connected(userev), error);
	fake_wait(fake_daemon->ended == 2);
	fake_do(GOOD, 0);
	fake_set(keep_records = false);
	expect_connected();
	expect_alive(&before, "before");
	expect_alive(&event, "event");
}

TEST(invalid_answer_ends_connection)
{
	with_each(expect_connection_ends, HANG_UP, STREAM_BLOCKS, true);
	with_each(expect_connection_ends, ANSWER_MISSING, STREAM_UNKNOWN, true);
}

static void expect_other_event_stays(enum mischief mischief, int error _unused_)
{
	register_event(&event, "event");
	register_event(&other, "other");
	fake_set(keep_records = true);
	fake_do(mischief, KIND_RELEASE);
	userev_release(userev, &event);
	expect_off(&event);
	/* Page and stream are still open, without a connection. */
	expect_alive(&other, "other");
	fake_wait(fake_daemon->ended == 1);
	fake_set(keep_records = false);
	register_event(&event, "event");
	expect_alive(&event, "event");
	expect_alive(&other, "other");
}

TEST(invalid_released_keeps_other_events)
{
	with_each(expect_other_event_stays, HANG_UP, FD_EXTRA, true);
}

/* Requests that were sent ahead are sent again, and their old answers are not taken for new ones. */
static void expect_batches_recover(enum mischief mischief, int error _unused_)
{
	fake_set(welcome.batch_max = 30);
	fake_do(mischief, KIND_REGISTER);
	userev = open_library();
	ck_assert_int_eq(userev_register_all(userev, many(100, 40), 100), 0);
	expect_off(&events[99]);
	fake_wait(fake_daemon->ended == 1);
	fake_do(GOOD, 0);
	expect_connected();
	expect_alive(&events[0], "event0");
	expect_alive(&events[99], "event99");
}

TEST(invalid_answer_before_next_batch_recovers)
{
	with_each(expect_batches_recover, HANG_UP, GARBAGE, false);
	with_each(expect_batches_recover, WRONG_SERIAL, WRONG_SERIAL, false);
	with_each(expect_batches_recover, ANSWER_MISSING, ANSWER_MISSING, false);
}

WITH_DAEMON_ONLY(next_batch_is_sent_before_answer)
{
	struct userev_registration *registrations = many(100, 40);

	fake_set(welcome.batch_max = 30);
	fake_set(ahead = 3);
	fake_refuse("event3", REFUSAL_QUOTA_EXCEEDED);
	userev = open_library();
	/* event3 and event30 to event39: in the first batch and the second. */
	ck_assert_int_eq(userev_register_all(userev, registrations, 100), 11);
	ck_assert_uint_eq(fake_daemon->alone, 0);
	ck_assert_uint_eq(fake_daemon->registers, 4);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(registrations[i].result, i == 3 || i / 10 == 3 ? -EDQUOT : 0);
	expect_alive(&events[2], "event2");
	expect_alive(&events[29], "event29");
	expect_alive(&events[99], "event99");
	expect_off(&events[30]);
}

/* A daemon's successor cannot know whether the answer was sent. */
TEST(repeated_answer_is_ignored)
{
	static const uint16_t kinds[] = { KIND_HELLO, KIND_REGISTER, KIND_RELEASE };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int fds;

		library_test_begin(true, false);
		fake_do(TWICE, kinds[i]);
		userev = open_library();
		fds = count_open_fds();
		register_event(&events[0], "event0 u32 x");
		register_event(&events[1], "event1 u32 x");
		userev_release(userev, &events[1]);
		expect_connected();
		register_event(&events[2], "event2 u32 x");
		expect_alive(&events[0], "event0");
		expect_alive(&events[2], "event2");
		ck_assert_uint_eq(fake_daemon->accepted, 1);
		ck_assert_int_le(count_open_fds(), fds + 2); /* the fake daemon's and our end of the stream */
		library_test_end();
	}
}

/* Maps a page from that peer. 0 or a negative errno. */
static int try_page(int fd, int socket)
{
	uint8_t *page = NULL;
	int r = page_map(fd, socket, &page);

	page_unmap(page);
	return r;
}

static int own_page(uid_t owner, mode_t mode)
{
	int fd = fake_memfd(WIRE_PAGE_BYTES);

	ck_assert_int_eq(fchmod(fd, mode), 0);
	if (owner != geteuid())
		ck_assert_int_eq(fchown(fd, owner, (gid_t)-1), 0);
	return fd;
}

enum { OTHER_UID = 4711 };

/* Of a daemon that does not run as root. Exits with 0, or with the index of the wrong result. */
static void try_pages_of(uid_t peer, const int *fds, const int *wanted, size_t n)
{
	int ends[2];

	if (geteuid() == 0 && setresuid(peer, peer, peer) < 0)
		_exit(100);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		_exit(101);
	for (size_t i = 0; i < n; i++)
		if (try_page(fds[i], ends[0]) != wanted[i])
			_exit((int)i + 1);
	_exit(0);
}

TEST(page_that_can_be_truncated_is_refused)
{
	const bool root = geteuid() == 0;
	const uid_t peer = root ? 65534 : geteuid();
	const int fds[] = {
		fake_page_file(),
		own_page(peer, 0777),
		own_page(peer, 0660),
		own_page(peer, 0602),
		own_page(peer, 0644),
		own_page(peer, 0600),
		own_page(root ? 0 : peer, 0600),
		own_page(root ? OTHER_UID : peer, root ? 0644 : 0666),
	};
	const int wanted[] = { 0, -EPROTO, -EPROTO, -EPROTO, 0, 0, 0, -EPROTO };
	int status, ends[2];
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0)
		try_pages_of(peer, fds, wanted, ARRAY_SIZE(fds));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "page %d", WEXITSTATUS(status));
	/* Pages of root are always accepted. */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	if (root)
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			ck_assert_int_eq(try_page(fds[i], ends[0]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	close(ends[0]);
	close(ends[1]);
}

/* Nobody can write or truncate through such a mount, so its owner does not matter. */
TEST(page_on_read_only_mount_is_accepted)
{
	char directory[64], path[96];
	int fd, wanted = 0, status;
	pid_t child;

	if (geteuid() != 0)
		return;
	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/page", directory);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("tmpfs", directory, "tmpfs", 0, NULL) < 0)
			_exit(77);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (ftruncate(fd, WIRE_PAGE_BYTES) < 0 || fchmod(fd, 0666) < 0 || fchown(fd, OTHER_UID, OTHER_UID) < 0)
			_exit(100);
		close(fd);
		if (mount(NULL, directory, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
			_exit(101);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		try_pages_of(65534, &fd, &wanted, 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	rmdir(directory);
	/* 77: mounting is not permitted here. */
	ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77), "%d",
		      WEXITSTATUS(status));
}
