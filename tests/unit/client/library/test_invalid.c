/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A daemon that sends invalid packets, files and pages, or disconnects in between. */

#include "tests/unit/client/library/library_test.h"

struct trouble {
	enum mischief mischief;
	int error; /* of userev_connected() */
};

static void expect_trouble_at_hello(const struct trouble *trouble)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;
	int fds;

	fake_do(fake, trouble->mischief, KIND_HELLO);
	userev = open_to(fake);
	register_event(userev, &event, "event u32 number");
	ck_assert_uint_eq(fake->registers, 0);
	expect_off(&event);
	ck_assert_int_eq(userev_connected(userev), trouble->error);
	fake_wait(fake, fake->accepted == fake->ended);
	fds = count_open_fds();
	ck_assert_int_eq(userev_connected(userev), trouble->error);
	fake_wait(fake, fake->accepted == fake->ended);
	ck_assert_int_eq(count_open_fds(), fds);
	fake_do(fake, GOOD, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

static const struct trouble hello_troubles[] = {
	{ HANG_UP, -ECONNRESET },     { HANG_UP_UNREAD, -EPROTO },     { ERROR_PACKET, -EPROTO },
	{ GARBAGE, -EPROTO },	      { HEADER_ONLY, -EPROTO },	       { CUT_SHORT, -EPROTO },
	{ TOO_LONG, -EPROTO },	      { WRONG_SERIAL, -EPROTO },       { WRONG_KIND, -EPROTO },
	{ MORE_FOLLOWS, -EPROTO },    { FD_MISSING, -EPROTO },	       { FD_EXTRA, -EPROTO },
	{ PAGE_SHORT, -EPROTO },      { PAGE_IS_PIPE, -EPROTO },       { PAGE_IS_DIRECTORY, -EPROTO },
	{ PAGE_UNREADABLE, -EPROTO }, { PAGE_OF_OTHER_SIZE, -EPROTO }, { PAGE_BITS_TOO_MANY, -EPROTO },
	{ PAGE_BITS_NONE, -EPROTO },  { PACKET_TOO_SMALL, -EPROTO },   { BATCH_NONE, -EPROTO },
	{ STREAM_IS_PIPE, -EPROTO },  { STREAM_IS_STREAM, -EPROTO },   { STREAM_IS_FILE, -EPROTO },
	{ STREAM_BLOCKS, -EPROTO },
};

TEST(invalid_welcome_leaves_nothing)
{
	for (size_t i = 0; i < ARRAY_SIZE(hello_troubles); i++)
		expect_trouble_at_hello(&hello_troubles[i]);
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

enum { STRANGER = 4711 };

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
		own_page(root ? STRANGER : peer, root ? 0644 : 0666),
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
		if (ftruncate(fd, WIRE_PAGE_BYTES) < 0 || fchmod(fd, 0666) < 0 || fchown(fd, STRANGER, STRANGER) < 0)
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

static const struct trouble register_troubles[] = {
	{ HANG_UP, -ECONNRESET },    { ERROR_PACKET, -EPROTO },	  { GARBAGE, -EPROTO },
	{ HEADER_ONLY, -EPROTO },    { CUT_SHORT, -EPROTO },	  { TOO_LONG, -EPROTO },
	{ WRONG_SERIAL, -EPROTO },   { WRONG_KIND, -EPROTO },	  { MORE_FOLLOWS, -EPROTO },
	{ FD_MISSING, -EPROTO },     { FD_EXTRA, -EPROTO },	  { ANSWER_MISSING, -EPROTO },
	{ ANSWER_EXTRA, -EPROTO },   { BIT_ZERO, -EPROTO },	  { BIT_OUTSIDE, -EPROTO },
	{ STREAM_UNKNOWN, -EPROTO }, { STREAM_IS_PIPE, -EPROTO }, { STREAM_IS_STREAM, -EPROTO },
	{ STREAM_IS_FILE, -EPROTO }, { STREAM_BLOCKS, -EPROTO },
};

static void expect_trouble_at_register(const struct trouble *trouble)
{
	struct fake *fake = start();
	struct userev_event before = { 0 }, event = { 0 };
	struct userev *userev = open_to(fake);

	register_event(userev, &before, "before u32 number");
	fake_set(fake, keep_records = true);
	fake_set(fake, fresh_stream = true);
	fake_do(fake, trouble->mischief, KIND_REGISTER);
	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	expect_off(&event);
	fake_wait(fake, fake->ended == 1);
	ck_assert_int_eq(userev_connected(userev), trouble->error);
	fake_wait(fake, fake->ended == 2);
	fake_do(fake, GOOD, 0);
	fake_set(fake, keep_records = false);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &before, "before");
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

TEST(invalid_answer_ends_connection)
{
	for (size_t i = 0; i < ARRAY_SIZE(register_troubles); i++)
		expect_trouble_at_register(&register_troubles[i]);
}

TEST(next_batch_is_sent_before_answer)
{
	static struct userev_event event[100];
	struct userev_registration *registrations = many(event, 100, 40);
	struct fake *fake = start();
	struct userev *userev;

	fake_set(fake, welcome.batch_max = 30);
	fake_set(fake, ahead = 3);
	fake_set(fake, refuse = "event3");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	userev = open_to(fake);
	/* event3 and event30 to event39: in the first batch and the second. */
	ck_assert_int_eq(userev_register_all(userev, registrations, 100), 11);
	ck_assert_uint_eq(fake->alone, 0);
	ck_assert_uint_eq(fake->registers, 4);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(registrations[i].result, i == 3 || i / 10 == 3 ? -EDQUOT : 0);
	expect_alive(fake, &event[2], "event2");
	expect_alive(fake, &event[29], "event29");
	expect_alive(fake, &event[99], "event99");
	expect_off(&event[30]);
	userev_close(userev);
	free_many(registrations, 100);
	fake_free(fake);
}

/* Requests that were sent ahead are sent again, and their old answers are not taken for new ones. */
TEST(invalid_answer_before_next_batch_recovers)
{
	static const enum mischief all[] = { HANG_UP, ERROR_PACKET, GARBAGE, WRONG_SERIAL, ANSWER_MISSING };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct userev_event event[100] = { 0 };
		struct userev_registration *registrations = many(event, 100, 40);
		struct fake *fake = start();
		struct userev *userev;

		fake_set(fake, welcome.batch_max = 30);
		fake_do(fake, all[i], KIND_REGISTER);
		userev = open_to(fake);
		ck_assert_int_eq(userev_register_all(userev, registrations, 100), 0);
		expect_off(&event[99]);
		fake_wait(fake, fake->ended == 1);
		fake_do(fake, GOOD, 0);
		ck_assert_int_eq(userev_connected(userev), 0);
		expect_alive(fake, &event[0], "event0");
		expect_alive(fake, &event[99], "event99");
		userev_close(userev);
		free_many(registrations, 100);
		fake_free(fake);
	}
}

/* A daemon's successor cannot know whether the answer was sent. */
TEST(repeated_answer_is_ignored)
{
	static const uint16_t kinds[] = { KIND_HELLO, KIND_REGISTER, KIND_RELEASE };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct userev_event event[3] = { 0 };
		struct fake *fake = start();
		struct userev *userev;
		int fds;

		fake_do(fake, TWICE, kinds[i]);
		userev = open_to(fake);
		fds = count_open_fds();
		register_event(userev, &event[0], "event0 u32 x");
		register_event(userev, &event[1], "event1 u32 x");
		userev_release(userev, &event[1]);
		ck_assert_int_eq(userev_connected(userev), 0);
		register_event(userev, &event[2], "event2 u32 x");
		expect_alive(fake, &event[0], "event0");
		expect_alive(fake, &event[2], "event2");
		ck_assert_uint_eq(fake->accepted, 1);
		ck_assert_int_le(count_open_fds(), fds + 2); /* the fake daemon's and our end of the stream */
		userev_close(userev);
		fake_free(fake);
	}
}

TEST(disconnect_between_batches_recovers)
{
	static struct userev_event event[100];
	struct userev_registration *registrations = many(event, 100, 40);
	struct fake *fake = start();
	struct userev *userev;

	fake_set(fake, welcome.batch_max = 40);
	fake_set(fake, refuse = "event99");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	userev = open_to(fake);
	ck_assert_int_eq(userev_register_all(userev, registrations, 90), 0);
	/* Ten more events, and the daemon ends: they are registered and pending. */
	fake_do(fake, HANG_UP, KIND_REGISTER);
	ck_assert_int_eq(userev_register_all(userev, registrations + 90, 10), 0);
	fake_do(fake, GOOD, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_refusal(), "because");
	expect_alive(fake, &event[0], "event0");
	expect_alive(fake, &event[98], "event98");
	expect_off(&event[99]);
	userev_close(userev);
	free_many(registrations, 100);
	fake_free(fake);
}

TEST(invalid_released_keeps_other_events)
{
	static const enum mischief all[] = { HANG_UP,  ERROR_PACKET, GARBAGE,	 HEADER_ONLY, CUT_SHORT,
					     TOO_LONG, WRONG_SERIAL, WRONG_KIND, FD_EXTRA };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct fake *fake = start();
		struct userev *userev = open_to(fake);
		struct userev_event event = { 0 }, other = { 0 };

		register_event(userev, &event, "event");
		register_event(userev, &other, "other");
		fake_set(fake, keep_records = true);
		fake_do(fake, all[i], KIND_RELEASE);
		userev_release(userev, &event);
		expect_off(&event);
		/* Page and stream are still open, without a connection. */
		expect_alive(fake, &other, "other");
		fake_wait(fake, fake->ended == 1);
		fake_set(fake, keep_records = false);
		register_event(userev, &event, "event");
		expect_alive(fake, &event, "event");
		expect_alive(fake, &other, "other");
		userev_close(userev);
		fake_free(fake);
	}
}
