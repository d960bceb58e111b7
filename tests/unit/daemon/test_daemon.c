/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What concerns all of it: what is said of refusals, and what a new policy changes in what is under way. */

#include "daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "daemon/admin/reload.h"
#include "daemon/connection/scheduler.h"
#include "daemon/identity/peer.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "protocol/transport.h"
#include "tests/unit/books.h"
#include "tests/unit/fake_kernel.h"

/* The clock is where the test wants it. */
static time_t seconds_ahead;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (clock == CLOCK_MONOTONIC)
		ret->tv_sec += seconds_ahead;
	return r;
}

/* Where all the machine's files are in use: what takes one when somebody connects, in this order. */
static enum { HAS_FILES, AT_ACCEPT, AT_PIDFD, AT_CGROUP, PLACES } no_file;

static int lack_file(void)
{
	errno = ENFILE;
	return -1;
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	return no_file == AT_ACCEPT ? lack_file() : (int)syscall(SYS_accept4, fd, address, length, flags);
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* newer than Debian 12's headers */
#endif

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	if (no_file == AT_PIDFD && name == SO_PEERPIDFD)
		return lack_file();
	return (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

int open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	if (no_file == AT_CGROUP && strstr(path, "/cgroup"))
		return lack_file();
	return openat(AT_FDCWD, path, flags, mode);
}

/* From here on stderr is a file. */
static void begin_log(void)
{
	int file = memfd_create("log", MFD_CLOEXEC);

	ck_assert_int_ge(file, 0);
	fflush(stderr);
	ck_assert_int_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
	close(file);
	log_open(LOG_NOTICE, false);
}

/* What has been logged since the last time. */
static const char *logged(void)
{
	static char text[65536];
	ssize_t n;

	fflush(stderr);
	n = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = '\0';
	ck_assert_int_eq(ftruncate(STDERR_FILENO, 0), 0);
	lseek(STDERR_FILENO, 0, SEEK_SET);
	return text;
}

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

static unsigned count_lines(const char *text)
{
	unsigned lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void be_refused(struct end *end, uint32_t refusal, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		refusal_note(&end->world->daemon->registry, end->client->holder.tenant, "event", refusal, "because");
}

TEST(one_refusal_of_a_kind_is_logged_in_a_minute_and_all_are_counted)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 7);
	const char *text;

	begin_log();
	be_refused(&end, REFUSAL_NAME_TAKEN, 10);
	text = logged();
	ck_assert_uint_eq(count_lines(text), 1);
	ck_assert_msg(strstr(text, ": event refused (name-taken): because"), "%s", text);

	seconds_ahead += 58;
	be_refused(&end, REFUSAL_NAME_TAKEN, 1);
	ck_assert_str_eq(logged(), "");
	seconds_ahead += 3;
	be_refused(&end, REFUSAL_NAME_TAKEN, 3);
	text = logged();
	ck_assert_uint_eq(count_lines(text), 1);
	ck_assert_msg(strstr(text, ": event refused (name-taken) (and 10 more before): because"), "%s", text);

	/* Counted anew. */
	seconds_ahead += 61;
	be_refused(&end, REFUSAL_NAME_TAKEN, 1);
	text = logged();
	ck_assert_msg(strstr(text, "(and 2 more before)"), "%s", text);
	seconds_ahead += 61;
	be_refused(&end, REFUSAL_NAME_TAKEN, 1);
	text = logged();
	ck_assert_msg(strstr(text, "(name-taken): because"), "%s", text);
	ck_assert_uint_eq(end.client->holder.tenant->refusals[REFUSAL_NAME_TAKEN], 16);
}

TEST(each_reason_and_each_tenant_is_logged_by_itself)
{
	WORLD(world, 10, 10);
	WELCOMED(one, world, 7);
	WELCOMED(another, world, 8);
	const char *text;

	begin_log();
	be_refused(&one, REFUSAL_NAME_TAKEN, 5);
	be_refused(&one, REFUSAL_QUOTA_EXCEEDED, 5);
	be_refused(&another, REFUSAL_NAME_TAKEN, 5);
	text = logged();
	ck_assert_uint_eq(count_lines(text), 3);
	ck_assert_msg(begins_with(text, "userevd: tenant "), "%s", text);
	ck_assert_uint_eq(one.client->holder.tenant->refusals[REFUSAL_NAME_TAKEN], 5);
	ck_assert_uint_eq(one.client->holder.tenant->refusals[REFUSAL_QUOTA_EXCEEDED], 5);
	ck_assert_uint_eq(another.client->holder.tenant->refusals[REFUSAL_NAME_TAKEN], 5);
}

TEST(a_tenant_that_comes_and_goes_gets_one_line_in_a_minute)
{
	WORLD(world, 10, 10);
	const char *text;

	begin_log();
	for (unsigned i = 0; i < 20; i++) {
		WELCOMED(end, world, 7);
		be_refused(&end, REFUSAL_NAME_TAKEN, 1);
	}
	turn(world);
	ck_assert_ptr_null(world->daemon->registry.tenants);
	text = logged();
	ck_assert_msg(count_lines(text) == 1, "%s", text);
	seconds_ahead += 61;
	{
		WELCOMED(end, world, 7);
		be_refused(&end, REFUSAL_NAME_TAKEN, 1);
	}
	text = logged();
	ck_assert_uint_eq(count_lines(text), 1);
	ck_assert_msg(strstr(text, "(and 19 more before)"), "%s", text);
}

/* What /proc/PID/cgroup says of us is then of other hierarchies, as on a v1 machine without systemd. */
static void see_no_cgroups(struct world *world)
{
	string_copy(world->daemon->registry.cgroups.controller, sizeof(world->daemon->registry.cgroups.controller),
		    "name=nobodys");
}

/* One that the daemon has to accept. */
static struct end end_connected(struct world *world)
{
	struct end end = { .world = world, .page = -1, .stream = -1 };
	struct sockaddr_un address;
	socklen_t length;

	ck_assert_int_eq(transport_address(world->socket, &address, &length), 0);
	end.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(end.socket, (struct sockaddr *)&address, length), 0);
	turn(world);
	return end;
}

static void try_again(struct world *world)
{
	struct listener *listener = &world->daemon->client_listeners[0];

	ck_assert(ev_is_active(&listener->w_backoff));
	ev_feed_event(world->daemon->loop, &listener->w_backoff, EV_TIMER);
	turn(world);
}

TEST(who_comes_when_the_machine_has_no_file_left_waits_and_is_then_served)
{
	for (int place = AT_ACCEPT; place < PLACES; place++) {
		WORLD(world, 10, 10);
		WELCOMED(there, world, 7);
		const char *text;

		begin_log();
		no_file = place;
		_cleanup_(end_deinit) struct end end = end_connected(world);
		say_hello(&end);
		expect_silence(&end);
		text = logged();
		ck_assert_uint_eq(count_lines(text), 1);
		ck_assert_msg(strstr(text, "can't accept on ") && strstr(text, strerror(ENFILE)), "%s", text);
		try_again(world);
		expect_silence(&end);
		/* Who is there needs none. */
		ck_assert_uint_eq(query(&there).events, 0);

		no_file = HAS_FILES;
		try_again(world);
		expect_welcome(&end);
		ck_assert_str_eq(logged(), "");
	}
}

static void expect_to_be_unknown(struct world *world)
{
	_cleanup_(end_deinit) struct end end = end_connected(world);
	struct string_item sentence;
	uint32_t refusal;

	ck_assert_int_eq(decode_error(expect(&end, KIND_ERROR)->body, &refusal, &sentence), 0);
	ck_assert_uint_eq(refusal, REFUSAL_UNKNOWN_PEER);
	ck_assert_ptr_nonnull(memmem(sentence.text, sentence.length, "mount cgroup2", strlen("mount cgroup2")));
}

TEST(who_is_in_no_cgroup_that_the_daemon_can_see_is_told_so_and_the_admin_once_a_minute)
{
	WORLD(world, 10, 10);
	const char *text;

	see_no_cgroups(world);
	begin_log();
	expect_to_be_unknown(world);
	text = logged();
	ck_assert_uint_eq(count_lines(text), 1);
	ck_assert_msg(strstr(text, "tenant unknown refused (unknown-peer): ") && strstr(text, "cgroup2"), "%s", text);
	for (unsigned i = 0; i < 5; i++)
		expect_to_be_unknown(world);
	ck_assert_str_eq(logged(), "");
	seconds_ahead += 61;
	expect_to_be_unknown(world);
	text = logged();
	ck_assert_msg(strstr(text, "(and 5 more before)"), "%s", text);
	ck_assert_ptr_null(world->daemon->registry.tenants);
}

/* Without giving the daemon a turn. */
static void say_simply_and_go_on(struct end *end, uint16_t kind)
{
	struct packet packet = begin(end, kind);

	encode_end(&packet);
	ck_assert_int_eq(transport_send(end->socket, packet.data, packet.size, NULL, 0, 0), 0);
}

static bool has_heard(const struct end *end)
{
	struct pollfd poll_for = { .fd = end->socket, .events = POLLIN };

	return poll(&poll_for, 1, 0) > 0;
}

/* What has come of it by now: adds its rows, and says how many packets that were. */
static unsigned take_rows(struct end *end, unsigned *rows, uint16_t *ret_last)
{
	struct heard *heard = &end->heard;
	unsigned packets = 0;
	struct cursor list;
	uint16_t count = 0;

	while (has_heard(end)) {
		heard->size = transport_receive_fds(end->socket, heard->packet, sizeof(heard->packet), &heard->fds, 0);
		ck_assert_int_eq(decode_message(heard->packet, (size_t)heard->size, &heard->message), 0);
		*ret_last = heard->message.kind;
		if (heard->message.kind == KIND_ROWS)
			ck_assert_int_eq(decode_rows(heard->message.body, &count, &list), 0);
		*rows += heard->message.kind == KIND_ROWS ? count : 0;
		packets++;
	}
	return packets;
}

TEST(a_long_listing_keeps_nobody_waiting_and_what_is_asked_after_it_is_answered_after_it)
{
	enum { TENANTS = 10000 };
	unsigned rows = 0, turns = 0, packets = 0;
	static struct tenant *tenants[TENANTS];
	uint16_t last = 0;
	WORLD(world, 10, 10);
	WELCOMED(client, world, 7);
	ADMIN(admin, world);
	char path[64];

	for (unsigned i = 0; i < TENANTS; i++) {
		snprintf(path, sizeof(path), "/many.slice/%u.service", i);
		ck_assert_int_eq(tenant_of_cgroup(&world->daemon->registry, path, &tenants[i]), 0);
	}
	say_simply_and_go_on(&admin, KIND_TENANTS);
	say_simply_and_go_on(&admin, KIND_SYNC);
	say_simply_and_go_on(&client, KIND_QUERY);
	for (; !has_heard(&client); turns++) {
		ev_run(world->daemon->loop, EVRUN_NOWAIT);
		packets += take_rows(&admin, &rows, &last);
	}
	/* One each, and SYNC has brought one. */
	ck_assert_msg(rows < TENANTS && packets <= turns + 1, "%u packets in %u turns", packets, turns);
	for (unsigned i = 0; last != KIND_SYNCED && i < 1000; i++) {
		ev_run(world->daemon->loop, EVRUN_NOWAIT);
		take_rows(&admin, &rows, &last);
	}
	ck_assert_uint_eq(rows, TENANTS + 1);
	ck_assert_uint_eq(last, KIND_SYNCED);
	for (unsigned i = 0; i < TENANTS; i++)
		tenant_release(tenants[i]);
}

/* As whom it connects, and who it says that it is: what we say is said as ourselves. */
static void expect_root(struct world *world, uid_t effective, uid_t real, bool is_contained)
{
	_cleanup_(end_deinit) struct end end = end_of_user(world, 7, effective);

	end.client->holder.real_uid = real;
	tenant_of(&end)->is_contained = is_contained;
	say_hello(&end);
	if (is_contained)
		expect_cut(&end, REFUSAL_NOT_PERMITTED);
	else
		expect_welcome(&end);
}

TEST(root_gets_nothing_unguarded_in_a_container_whether_it_is_the_effective_user_or_the_real_one)
{
	UNGUARDED(world);
	uid_t other = getuid() == 0 ? 4711 : getuid();

	for (unsigned is_contained = 0; is_contained < 2; is_contained++) {
		expect_root(world, 0, other, is_contained);
		expect_root(world, other, 0, is_contained);
	}
}

/* Which uids of its user namespace are which of ours. */
TEST(uid_map_with_our_uid_0_is_a_possible_roots)
{
	static const struct {
		const char *map;
		bool has_root;
	} maps[] = {
		{ "         0          0 4294967295\n", true },
		{ "         0          0          1\n", true },
		{ "      1000          0          1\n", true },
		{ "         0       1000          1\n         1     100000      65536\n", false },
		{ "         0     100000      65536\n", false },
		{ "         0     100000      65536\n     65536          0          1\n", true },
		{ "         0 4294967295          1\n", true },
		{ "", true },
		{ "nonsense\n", true },
		{ "0 1000", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		ck_assert_msg(peer_map_has_root(maps[i].map) == maps[i].has_root, "\"%s\"", maps[i].map);
}

/* As a child of the container's root, which could hand it the file. (Packets are this process's own, which may be root.) */
static void expect_distrust(struct world *world, bool may_be_root, bool is_contained, bool distrusted)
{
	_cleanup_(end_deinit) struct end end = end_of_user(world, 7, 4711);
	const char *why;

	end.client->holder.real_uid = 4711;
	end.client->holder.may_be_root = may_be_root;
	tenant_of(&end)->is_contained = is_contained;
	why = rules_distrust(&end.client->holder);
	ck_assert_int_eq(why != NULL, distrusted);
	if (distrusted)
		ck_assert_msg(strstr(why, "AllowHostUserns=yes"), "%s", why);
}

TEST(machines_user_namespace_is_distrusted_unguarded)
{
	UNGUARDED(world);

	expect_distrust(world, true, true, true);
	expect_distrust(world, false, true, false);
	expect_distrust(world, true, false, false);
	world->daemon->registry.tenant_is_process = false;
	world_adopt(world, "[/world]\nAllowHostUserns=yes\n");
	expect_distrust(world, true, true, false);
	world_adopt(world, "[/world]\nAllowHostRoot=yes\n");
	expect_distrust(world, true, true, false);
	world_adopt(world, "");
	expect_distrust(world, true, true, true);
}

TEST(machines_user_namespace_is_trusted_with_a_guard)
{
	GUARDED(world);

	expect_distrust(world, true, true, false);
}

/* Where there are no cgroups of that name, the policy alone draws borders. */
static void expect_border(struct world *world, const char *cgroup, const char *border, struct tenant **ret)
{
	ck_assert_int_eq(tenant_of_cgroup(&world->daemon->registry, cgroup, ret), 0);
	ck_assert_str_eq((*ret)->path, border);
}

TEST(a_new_policy_draws_new_borders_also_where_there_are_tenants)
{
	static const struct {
		const char *policy, *border;
	} policies[] = {
		{ "[/nowhere/*/b]\nTenant=yes\n", "/nowhere/a/b" },
		{ "[/nowhere/*]\nTenant=yes\n[/nowhere/*/b]\nTenant=no\n", "/nowhere/a" },
		{ "[/nowhere]\nTenant=yes\n", "/nowhere" },
		{ "[/nowhere/**]\nTenant=no\n[/nowhere/a/b/c]\nTenant=yes\n", "/nowhere/a/b/c" },
		{ "[/nowhere/a/b/c]\nMaxEvents=5\n", "/nowhere/a" },
	};
	struct tenant *tenants[ARRAY_SIZE(policies)], *again;
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		world_adopt(world, policies[i].policy);
		expect_border(world, "/nowhere/a/b/c/d", policies[i].border, &tenants[i]);
		/* Nor does it matter who is there by now. */
		expect_border(world, "/nowhere/a/b/c/d", policies[i].border, &again);
		ck_assert_ptr_eq(again, tenants[i]);
	}
	ck_assert_ptr_eq(tenants[1], tenants[4]);
	for (size_t i = 0; i < ARRAY_SIZE(policies) - 1; i++)
		tenant_release(tenants[i]);
}

#define EIGHT "e0 u32 a", "e1 u32 a", "e2 u32 a", "e3 u32 a", "e4 u32 a", "e5 u32 a", "e6 u32 a", "e7 u32 a"

/* Which would be answered with what the first one was granted. */
TEST(what_was_decided_before_a_reload_is_no_answer_for_who_asks_alike_after_it)
{
	GUARDED(world);
	/* Whom sections name. */
	world->daemon->registry.tenant_is_process = false;
	WELCOMED(first, world, 7);
	WELCOMED(waiting, world, 7);
	WELCOMED(later, world, 7);
	struct answer answer[8];

	hold();
	REGISTER(&first, EIGHT);
	turn(world);
	REGISTER(&waiting, EIGHT);
	turn(world);
	world_adopt(world, "[/**]\nDenyEvents=e3\n");
	/* By now the tenant knows. */
	query(&later);
	hold_no_more();
	turn(world);
	expect_answers(&first, answer, ARRAY_SIZE(answer));
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_NONE);
	expect_answers(&waiting, answer, ARRAY_SIZE(answer));
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_NOT_PERMITTED);
	REGISTER(&later, EIGHT);
	expect_answers(&later, answer, ARRAY_SIZE(answer));
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_NOT_PERMITTED);
	ck_assert_uint_eq(answer[4].refusal, REFUSAL_NONE);
}

static uint64_t features_now(struct world *world)
{
	END(end, world, 7);
	struct packet packet = begin(&end, KIND_HELLO);
	struct string_item tenant;
	struct wire_welcome welcome;

	encode_hello(&packet, &(struct wire_hello){ .understands = UINT64_MAX });
	say(&end, &packet);
	expect_welcome(&end);
	ck_assert_int_eq(decode_welcome(end.heard.message.body, &welcome, &tenant), 0);
	return welcome.features & (WIRE_FEATURE_PERSIST | WIRE_FEATURE_MULTI_FORMAT);
}

/* Of what the kernel can. */
TEST(features_are_what_the_policy_allows)
{
	static const struct {
		const char *policy;
		uint64_t with_option, without;
	} cases[] = {
		{ "", WIRE_FEATURE_PERSIST | WIRE_FEATURE_MULTI_FORMAT, WIRE_FEATURE_MULTI_FORMAT },
		{ "[/**]\nAllowPersist=no\n", WIRE_FEATURE_MULTI_FORMAT, WIRE_FEATURE_MULTI_FORMAT },
		{ "[/**]\nAllowPersist=yes\nAllowMultiFormat=no\n", WIRE_FEATURE_PERSIST, WIRE_FEATURE_PERSIST },
	};
	GUARDED(world);

	world->daemon->registry.tenant_is_process = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		world->daemon->registry.allow_persist = true;
		world_adopt(world, cases[i].policy);
		ck_assert_uint_eq(features_now(world), cases[i].with_option);
		world->daemon->registry.allow_persist = false;
		world_adopt(world, cases[i].policy);
		ck_assert_uint_eq(features_now(world), cases[i].without);
	}
}

TEST(what_the_policy_does_not_allow_is_refused_in_words)
{
	GUARDED(world);
	world->daemon->registry.tenant_is_process = false;
	world->daemon->registry.allow_persist = false;
	world_adopt(world, "[/**]\nAllowMultiFormat=no\n");
	WELCOMED(end, world, 7);

	REGISTER_WITH(&end, REGISTER_PERSIST, "lasting u32 a");
	expect_refused(&end, REFUSAL_NOT_PERMITTED);
	REGISTER_WITH(&end, REGISTER_MULTI_FORMAT, "many u32 a");
	expect_refused(&end, REFUSAL_NOT_PERMITTED);
	REGISTER(&end, "plain u32 a");
	expect_granted(&end);
}

/* Whether two of one user have one file. */
static bool share_a_file(struct world *world)
{
	WELCOMED(one, world, 7);
	WELCOMED(another, world, 7);

	get(&one, "common u32 a");
	get(&another, "common u32 a");
	return is_same_file(one.stream, another.stream);
}

TEST(files_are_shared_as_the_policy_says_with_a_guard_and_without)
{
	static const struct {
		const char *policy;
		bool guarded, unguarded;
	} cases[] = {
		{ "[/**]\nStream=auto\n", true, false },
		{ "[/**]\nStream=client\n", false, false },
		{ "[/**]\nStream=shared\n", true, true },
	};
	GUARDED(world);

	world->daemon->registry.tenant_is_process = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		world_adopt(world, cases[i].policy);
		for (int guarded = 0; guarded < 2; guarded++) {
			set_guard(world, guarded);
			/* The first file shows whether it holds. */
			share_a_file(world);
			ck_assert(share_a_file(world) == (guarded ? cases[i].guarded : cases[i].unguarded));
			turn(world);
		}
	}
}

static void come_and_go(struct world *world, pid_t pid)
{
	END(end, world, pid);

	say_hello(&end);
	expect_welcome(&end);
}

/* To the next look, which is once a second. */
static void let_rest(struct world *world)
{
	seconds_ahead += 10;
	ck_assert(ev_is_active(&world->daemon->registry.w_rest));
	ev_feed_event(world->daemon->loop, &world->daemon->registry.w_rest, EV_TIMER);
	turn(world);
}

/* Else it would begin anew each time. */
TEST(what_a_tenant_has_asked_is_remembered_until_it_has_all_its_requests_again)
{
	GUARDED(world);

	world_adopt(world, "[Daemon]\nDefaultMaxRequestsPerSecond=1/3\n");
	come_and_go(world, 7);
	turn(world);
	ck_assert_ptr_null(world->daemon->registry.tenants);
	ck_assert_uint_eq(world->daemon->registry.n_resting, 1);
	come_and_go(world, 7);
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.n_resting, 1);
	ck_assert_uint_eq(bucket_tokens(&TAILQ_FIRST(&world->daemon->registry.resting)->own_requests, clock_now()), 1);
	let_rest(world);
	ck_assert_uint_eq(world->daemon->registry.n_resting, 0);
	ck_assert_ptr_null(world->daemon->registry.levels);
	ck_assert(!ev_is_active(&world->daemon->registry.w_rest));
}

TEST(of_very_many_who_have_gone_the_last_are_remembered)
{
	const double now = clock_now();
	GUARDED(world);

	world_adopt(world, "[Daemon]\nDefaultMaxRequestsPerSecond=1/3\n");
	for (pid_t pid = 1; pid <= RESTING_MAX + 1; pid++) {
		come_and_go(world, pid);
		turn(world);
		/* However long that takes: time stands still, or the first would have been forgotten. */
		seconds_ahead -= clock_now() - now;
	}
	ck_assert_uint_eq(world->daemon->registry.n_resting, RESTING_MAX);
	/* And the root. */
	ck_assert_uint_eq(HASH_CNT(by_path, world->daemon->registry.levels), RESTING_MAX + 1);
	ck_assert_str_eq(TAILQ_FIRST(&world->daemon->registry.resting)->path, "process:2:program");
	let_rest(world);
}

static void say_some(struct end *end, const char *what, size_t n)
{
	static char texts[WIRE_BATCH_MAX][32];
	const char *descriptions[WIRE_BATCH_MAX];

	for (size_t i = 0; i < n; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%s_%zu u32 a", what, i);
		descriptions[i] = texts[i];
	}
	say_register(end, 0, descriptions, n);
}

/* As many events as one may ask for, in some other words each time. */
static void say_many(struct end *end, const char *what)
{
	say_some(end, what, WIRE_BATCH_MAX);
}

static bool has_an_answer(const struct end *end)
{
	char byte;

	return recv(end->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* As the daemon does it, but step by step. */
static void take_turns_until_answered(const struct end *end)
{
	while (!has_an_answer(end)) {
		struct client *next = scheduler_next(&end->world->daemon->connections);

		ck_assert_ptr_nonnull(next);
		client_take_request(next);
	}
}

/* What it says now is read when the test says so. */
static void stop_listening(struct end *end)
{
	turn(end->world);
	ev_io_stop(end->world->daemon->loop, &end->client->w_io);
}

TEST(while_much_is_decided_for_one_tenant_the_others_have_their_turns)
{
	struct answer answers[WIRE_BATCH_MAX];
	GUARDED(world);
	WELCOMED(greedy, world, 7);
	WELCOMED(sibling, world, 7);
	WELCOMED(neighbour, world, 8);

	stop_listening(&greedy);
	stop_listening(&sibling);
	stop_listening(&neighbour);
	say_many(&greedy, "greedy");
	REGISTER(&sibling, "small u32 a");
	REGISTER(&neighbour, "small u32 a");
	scheduler_add(greedy.client);
	scheduler_add(sibling.client);
	scheduler_add(neighbour.client);
	take_turns_until_answered(&neighbour);
	ck_assert(client_goes_on(greedy.client));
	take_turns_until_answered(&sibling);
	ck_assert(client_goes_on(greedy.client));
	ck_assert(!has_an_answer(&greedy));
	ev_io_start(world->daemon->loop, &neighbour.client->w_io);
	ev_io_start(world->daemon->loop, &sibling.client->w_io);
	expect_granted(&neighbour);
	expect_granted(&sibling);
	expect_answers(&greedy, answers, WIRE_BATCH_MAX);
	for (size_t i = 0; i < WIRE_BATCH_MAX; i++)
		ck_assert_uint_eq(answers[i].refusal, REFUSAL_NONE);
	ck_assert(!client_goes_on(greedy.client));
	check_books(world->daemon);
}

/* Else the kernel would tell of each of thousands that it has something to say, whenever one of them is served. */
TEST(who_queues_for_its_turn_is_not_looked_at_meanwhile)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 7);
	struct packet packet = begin(&end, KIND_QUERY);

	encode_end(&packet);
	ck_assert_int_eq(transport_send(end.socket, packet.data, packet.size, NULL, 0, 0), 0);
	ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert_int_eq(end.client->stall, STALL_TURN);
	ck_assert(!ev_is_active(&end.client->w_io));
	turn(world);
	expect(&end, KIND_ACCOUNT);
	ck_assert_int_eq(end.client->stall, STALL_NONE);
	ck_assert(ev_is_active(&end.client->w_io));
}

/* Hears nothing on the way, and is not read. */
static void begin_to_decide(struct end *end, const char *what)
{
	stop_listening(end);
	say_many(end, what);
	client_take_request(end->client);
	ck_assert(client_goes_on(end->client));
}

TEST(who_leaves_while_much_is_decided_for_it_leaves_nothing)
{
	GUARDED(world);
	WELCOMED(leaver, world, 7);
	WELCOMED(broken, world, 8);

	begin_to_decide(&leaver, "leaver");
	end_hang_up(&leaver);
	begin_to_decide(&broken, "broken");
	break_connection(&broken);
	expect_all_gone(world);
}

static size_t count_under_way(void)
{
	const struct batch *batch;
	size_t n = 0;

	TAILQ_FOREACH(batch, &script.under_way, entry)
		n += batch->n;
	return n;
}

/* With one connection or with many. */
TEST(what_the_kernel_has_before_it_of_one_tenant_is_bounded)
{
	struct answer answers[WIRE_BATCH_MAX];
	GUARDED(world);
	WELCOMED(greedy, world, 7);
	WELCOMED(sibling, world, 7);
	WELCOMED(neighbour, world, 8);

	hold();
	say_many(&greedy, "greedy");
	say_many(&sibling, "sibling");
	ck_assert_uint_ge(count_under_way(), BACKLOG_MAX);
	ck_assert_uint_lt(count_under_way(), BACKLOG_MAX + BACKLOG_MAX / 2);
	/* Not one that is full keeps the other waiting. */
	REGISTER(&neighbour, "small u32 a");
	ck_assert_uint_lt(count_under_way(), BACKLOG_MAX + BACKLOG_MAX / 2 + 2);
	while (neighbour.client->task)
		answer_one();
	expect_granted(&neighbour);
	ck_assert_ptr_nonnull(greedy.client->task);
	while (script.n_under_way > 0) {
		ck_assert_uint_lt(count_under_way(), BACKLOG_MAX + BACKLOG_MAX / 2);
		answer_one();
		turn(world);
	}
	expect_answers(&greedy, answers, WIRE_BATCH_MAX);
	expect_answers(&sibling, answers, WIRE_BATCH_MAX);
	ck_assert_uint_eq(tenant_of(&greedy)->backlog, 0);
	check_books(world->daemon);
}

TEST(who_leaves_while_it_waits_for_the_kernels_answers_to_others_leaves_nothing)
{
	GUARDED(world);
	WELCOMED(greedy, world, 7);
	WELCOMED(leaver, world, 7);
	WELCOMED(broken, world, 7);
	WELCOMED(last, world, 7);

	hold();
	say_many(&greedy, "greedy");
	REGISTER(&leaver, "leaver u32 a");
	REGISTER(&broken, "broken u32 a");
	REGISTER(&last, "last u32 a");
	ck_assert_int_eq(tenant_of(&last)->turn, TURN_BACKLOG);
	end_hang_up(&leaver);
	break_connection(&broken);
	break_connection(&greedy);
	answer_all();
	turn(world);
	answer_all();
	expect_granted(&last);
	ck_assert_uint_eq(tenant_of(&last)->backlog, 0);
}

/* The kernel is not asked for it, so none of its answers comes that would let the next one go. */
TEST(who_waits_for_the_kernels_answers_to_others_is_served_although_the_others_ask_it_for_nothing)
{
	struct answer answers[BACKLOG_MAX];
	GUARDED(world);
	WELCOMED(first, world, 7);
	WELCOMED(second, world, 7);
	WELCOMED(third, world, 7);
	WELCOMED(fourth, world, 7);

	hold();
	say_some(&first, "first", BACKLOG_MAX);
	REGISTER(&second, "nonsense long a");
	REGISTER(&third, "nonsense again and again x");
	REGISTER(&fourth, "nonsense as well");
	ck_assert_int_eq(tenant_of(&fourth)->turn, TURN_BACKLOG);
	answer_all();
	expect_answers(&first, answers, BACKLOG_MAX);
	expect(&second, KIND_REGISTERED);
	expect(&third, KIND_REGISTERED);
	expect(&fourth, KIND_REGISTERED);
	hold_no_more();
}

TEST(a_daemon_that_ends_while_much_is_decided_ends_well)
{
	GUARDED(world);
	WELCOMED(end, world, 7);

	begin_to_decide(&end, "unfinished");
	end.may_be_cut = true;
	world_end(world);
}

/* The next daemon's may have the number of the last one's, which is removed by a process that outlives it. */
TEST(a_socket_that_came_after_ours_is_not_removed_though_it_has_the_number_of_ours)
{
	WORLD(world, 10, 10);
	const struct listener ours = world->daemon->client_listeners[0];
	struct listener last = ours;

	last.file.stx_btime.tv_nsec ^= 1;
	listener_remove_files(&last);
	ck_assert_int_eq(access(world->socket, F_OK), 0);
	listener_remove_files(&ours);
	ck_assert_int_eq(access(world->socket, F_OK), -1);
}
