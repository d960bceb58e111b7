/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The whole daemon: logged refusals, connections without fds, distrusted clients. */

#include "daemon/daemon.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "daemon/identity/peer.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "protocol/transport.h"
#include "tests/unit/fake_kernel.h"

/* The test moves the clock, or stops it. */
static time_t seconds_ahead;
static bool is_stopped;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static struct timespec last;

	if (is_stopped && clock == CLOCK_MONOTONIC) {
		*ret = last;
		return 0;
	}
	if (syscall(SYS_clock_gettime, clock, ret) < 0)
		return -1;
	if (clock == CLOCK_MONOTONIC) {
		ret->tv_sec += seconds_ahead;
		last = *ret;
	}
	return 0;
}

/* The calls of a new connection, in this order, that find all files of the machine in use. */
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

/* --- logged refusals --- */

static void refuse_event(struct end *end, uint32_t refusal, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		refusal_note(&end->world->daemon->registry, tenant_of(end), "event", refusal, "because");
}

/* One line since the last time, which has this text; NULL: none. */
static void expect_line(const char *text)
{
	const char *log = logged();

	expect_logged(log, "\n", text ? 1 : 0);
	if (text)
		expect_logged(log, text, 1);
}

TEST(refusals_of_a_kind_are_logged_once_a_minute)
{
	static const struct {
		time_t seconds; /* since the last one */
		unsigned refusals;
		const char *line;
	} steps[] = {
		{ 0, 10, ": event refused (name-taken): because" },
		{ 58, 1, NULL },
		{ 3, 3, ": event refused (name-taken) (and 10 more before): because" },
		{ 61, 1, "(and 2 more before)" },
		{ 61, 1, "(name-taken): because" },
	};
	WORLD(world, 10, 10);
	WELCOMED(end, world, 7);
	unsigned all = 0;

	log_begin(LOG_NOTICE);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		seconds_ahead += steps[i].seconds;
		refuse_event(&end, REFUSAL_NAME_TAKEN, steps[i].refusals);
		expect_line(steps[i].line);
		all += steps[i].refusals;
	}
	ck_assert_uint_eq(tenant_of(&end)->refusals[REFUSAL_NAME_TAKEN], all);
}

TEST(refusals_of_each_kind_and_tenant_are_logged)
{
	WORLD(world, 10, 10);
	WELCOMED(one, world, 7);
	WELCOMED(another, world, 8);
	const char *log;

	log_begin(LOG_NOTICE);
	refuse_event(&one, REFUSAL_NAME_TAKEN, 5);
	refuse_event(&one, REFUSAL_QUOTA_EXCEEDED, 5);
	refuse_event(&another, REFUSAL_NAME_TAKEN, 5);
	log = logged();
	expect_logged(log, "\n", 3);
	expect_logged(log, "userevd: tenant ", 3);
	ck_assert_uint_eq(tenant_of(&one)->refusals[REFUSAL_NAME_TAKEN], 5);
	ck_assert_uint_eq(tenant_of(&one)->refusals[REFUSAL_QUOTA_EXCEEDED], 5);
	ck_assert_uint_eq(tenant_of(&another)->refusals[REFUSAL_NAME_TAKEN], 5);
}

TEST(refusals_of_a_short_lived_tenant_are_logged_once)
{
	WORLD(world, 10, 10);

	log_begin(LOG_NOTICE);
	for (unsigned i = 0; i < 21; i++) {
		WELCOMED(end, world, 7);

		if (i == 20) {
			expect_line("because");
			seconds_ahead += 61;
		}
		refuse_event(&end, REFUSAL_NAME_TAKEN, 1);
	}
	turn(world);
	ck_assert_ptr_null(world->daemon->registry.tenants);
	expect_line("(and 19 more before)");
}

/* --- new connections --- */

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

TEST(connection_without_a_free_file_waits)
{
	WORLD(world, 10, 10);
	WELCOMED(there, world, 7);
	const char *log;

	log_begin(LOG_NOTICE);
	no_file = AT_ACCEPT;
	_cleanup_(end_deinit) struct end end = end_connected(world);
	say_hello(&end);
	expect_silence(&end);
	log = logged();
	expect_logged(log, "\n", 1);
	expect_logged(log, "can't accept on ", 1);
	expect_logged(log, strerror(ENFILE), 1);
	try_again(world);
	expect_silence(&end);
	/* A connected client needs no file. */
	ck_assert_uint_eq(query(&there).events, 0);
	no_file = HAS_FILES;
	try_again(world);
	expect_welcome(&end);
	expect_line(NULL);
}

TEST(connection_whose_peer_cannot_be_read_is_dropped)
{
	for (int place = AT_ACCEPT + 1; place < PLACES; place++) {
		WORLD(world, 10, 10);
		const char *log;

		log_begin(LOG_NOTICE);
		no_file = place;
		_cleanup_(end_deinit) struct end end = end_connected(world);
		expect_disconnected(&end);
		log = logged();
		expect_logged(log, "\n", 1);
		expect_logged(log, "was dropped: ", 1);
		expect_logged(log, strerror(ENFILE), 1);
		no_file = HAS_FILES;
		_cleanup_(end_deinit) struct end next = end_connected(world);
		say_hello(&next);
		expect_welcome(&next);
		expect_line(NULL);
	}
}

static void expect_to_be_unknown(struct world *world)
{
	_cleanup_(end_deinit) struct end end = end_connected(world);
	const struct string_item sentence = expect_error(&end, KIND_ERROR, REFUSAL_UNKNOWN_PEER);

	ck_assert_ptr_nonnull(memmem(sentence.text, sentence.length, "mount cgroup2", strlen("mount cgroup2")));
}

TEST(peer_without_a_visible_cgroup_is_refused)
{
	WORLD(world, 10, 10);
	struct cgroups *cgroups = &world->daemon->registry.cgroups;
	const char *log;

	/* As on a v1 machine without systemd. */
	string_copy(cgroups->controller, sizeof(cgroups->controller), "name=nobodys");
	log_begin(LOG_NOTICE);
	expect_to_be_unknown(world);
	log = logged();
	expect_logged(log, "\n", 1);
	expect_logged(log, "tenant unknown refused (unknown-peer): ", 1);
	for (unsigned i = 0; i < 5; i++)
		expect_to_be_unknown(world);
	expect_line(NULL);
	seconds_ahead += 61;
	expect_to_be_unknown(world);
	expect_line("(and 5 more before)");
	ck_assert_ptr_null(world->daemon->registry.tenants);
}

/* The next daemon's socket may have the same inode number. A process that outlives the daemon removes the file. */
TEST(socket_of_the_next_daemon_is_not_removed)
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

/* --- long listings --- */

/* Adds the rows that have come, and returns the number of packets. */
static unsigned take_rows(struct end *end, unsigned *rows, uint16_t *ret_last)
{
	struct heard *heard = &end->heard;
	unsigned packets = 0;
	struct cursor list;
	uint16_t count = 0;

	while (has_an_answer(end)) {
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

TEST(long_listing_delays_no_client)
{
	enum { TENANTS = 10000 };
	static struct tenant *tenants[TENANTS];
	unsigned rows = 0, turns = 0, packets = 0;
	uint16_t last = 0;
	WORLD(world, 10, 10);
	WELCOMED(client, world, 7);
	ADMIN(admin, world);
	char path[64];

	for (unsigned i = 0; i < TENANTS; i++) {
		snprintf(path, sizeof(path), "/many.slice/%u.service", i);
		ck_assert_int_eq(tenant_of_cgroup(&world->daemon->registry, path, &tenants[i]), 0);
	}
	say_at_once(&admin, KIND_TENANTS);
	say_at_once(&admin, KIND_SYNC);
	say_at_once(&client, KIND_QUERY);
	for (; !has_an_answer(&client); turns++) {
		ev_run(world->daemon->loop, EVRUN_NOWAIT);
		packets += take_rows(&admin, &rows, &last);
	}
	/* One in each turn, and one that SYNC has sent. */
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

/* --- distrusted clients --- */

TEST(root_in_a_container_is_refused_without_a_guard)
{
	UNGUARDED(world);
	const uid_t other = getuid() == 0 ? 4711 : getuid();

	/* Root may be the effective user, of the connection, or the real one, of the packets. */
	for (unsigned i = 0; i < 4; i++) {
		_cleanup_(end_deinit) struct end end = end_of_user(world, 7, i & 1 ? 0 : other);

		end.client->holder.known.real_uid = i & 1 ? other : 0;
		tenant_of(&end)->is_contained = i & 2;
		say_hello(&end);
		if (i & 2)
			expect_cut(&end, REFUSAL_NOT_PERMITTED);
		else
			expect_welcome(&end);
	}
}

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

/* A child of the container's root could hand it the file. */
static void expect_distrust(struct world *world, bool may_be_root, bool is_contained, bool distrusted)
{
	_cleanup_(end_deinit) struct end end = end_of_user(world, 7, 4711);
	const char *why;

	end.client->holder.known.real_uid = 4711;
	end.client->holder.known.may_be_root = may_be_root;
	tenant_of(&end)->is_contained = is_contained;
	why = rules_distrust(&end.client->holder);
	ck_assert_int_eq(why != NULL, distrusted);
	ck_assert(!distrusted || strstr(why, "AllowHostUserns=yes"));
}

TEST(machines_user_namespace_is_distrusted_unguarded)
{
	UNGUARDED(world);

	expect_distrust(world, true, true, true);
	expect_distrust(world, false, true, false);
	expect_distrust(world, true, false, false);
	world->daemon->options.tenant_is_process = false;
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

/* --- request rates of tenants that come and go --- */

static void come_and_go(struct world *world, pid_t pid)
{
	{
		WELCOMED(end, world, pid);
	}
	turn(world);
}

/* To the next look, which is once a second. */
static void let_rest(struct world *world)
{
	seconds_ahead += 10;
	ck_assert(ev_is_active(&world->daemon->registry.w_rest));
	ev_feed_event(world->daemon->loop, &world->daemon->registry.w_rest, EV_TIMER);
	turn(world);
}

TEST(request_rate_outlives_its_tenant)
{
	GUARDED(world);
	const struct registry *registry = &world->daemon->registry;

	world_adopt(world, "[Daemon]\nDefaultMaxRequestsPerSecond=1/3\n");
	come_and_go(world, 7);
	ck_assert_ptr_null(registry->tenants);
	ck_assert_uint_eq(registry->n_resting, 1);
	come_and_go(world, 7);
	ck_assert_uint_eq(registry->n_resting, 1);
	ck_assert_uint_eq(bucket_tokens(&TAILQ_FIRST(&registry->resting)->own_requests, clock_now()), 1);
	let_rest(world);
	ck_assert_uint_eq(registry->n_resting, 0);
	ck_assert_ptr_null(registry->levels);
	ck_assert(!ev_is_active(&registry->w_rest));
}

TEST(request_rates_of_the_last_tenants_are_remembered)
{
	GUARDED(world);
	const struct registry *registry = &world->daemon->registry;

	world_adopt(world, "[Daemon]\nDefaultMaxRequestsPerSecond=1/3\n");
	/* Otherwise the first would have rested by the end. */
	is_stopped = true;
	for (pid_t pid = 1; pid <= RESTING_MAX + 1; pid++)
		come_and_go(world, pid);
	is_stopped = false;
	ck_assert_uint_eq(registry->n_resting, RESTING_MAX);
	/* And the root. */
	ck_assert_uint_eq(HASH_CNT(by_path, registry->levels), RESTING_MAX + 1);
	ck_assert_str_eq(TAILQ_FIRST(&registry->resting)->path, "process:2:program");
	let_rest(world);
}
