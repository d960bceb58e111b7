/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Who is who: cgroups and tenants, with real cgroups where this machine lets us make some. Where not, that is said, and what
 * can be shown with --tenants=process is shown.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <linux/magic.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"

static const char *const each_process_a_tenant[] = { "--tenants=process", NULL };

/* Cgroups. Those of a run have its pid in their names, and whatever happens main() removes them. */

static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
static char top[64];	  /* our own cgroup's directory; "" where there can be none */
static char why_not[128]; /* then */

/* Removes the cgroups below a directory and the directory. What lives there is ended. */
static void remove_cgroup(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	char below[512];
	int fd;

	while (directory && (entry = readdir(directory))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		remove_cgroup(below);
	}
	if (directory)
		closedir(directory);
	snprintf(below, sizeof(below), "%s/cgroup.kill", path);
	fd = open(below, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) < 0)
		printf("cannot end what is in %s: %s\n", path, strerror(errno));
	fd_close(fd);
	for (int i = 0; i < 200 && rmdir(path) < 0 && errno == EBUSY; i++)
		usleep(10000);
}

/* What a run has left behind that did not live to clean up. */
static void remove_stale_cgroups(const char *mount)
{
	DIR *directory = opendir(mount);
	const struct dirent *entry;
	char path[512];
	int pid;

	while (directory && (entry = readdir(directory))) {
		if (sscanf(entry->d_name, "userevd-test-%d", &pid) != 1 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/%s", mount, entry->d_name);
		remove_cgroup(path);
	}
	if (directory)
		closedir(directory);
}

/* Whether we are where the daemon will look for us. */
static bool are_we_in(const char *path)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[512], wanted[512];
	bool found = false;

	snprintf(wanted, sizeof(wanted), "0::%s\n", path);
	while (file && !found && fgets(line, sizeof(line), file))
		found = streq(line, wanted);
	if (file)
		fclose(file);
	return found;
}

static bool is_of_use(const char *cgroup, const char *path)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(actor_join(cgroup) && are_we_in(path) ? EXIT_SUCCESS : EXIT_FAILURE);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void find_cgroups(void)
{
	/* What belongs to a user is one tenant, whatever he makes in it. */
	if (geteuid() != 0) {
		string_copy(why_not, sizeof(why_not), "only root's cgroups are tenants of their own");
		return;
	}
	string_copy(why_not, sizeof(why_not), "no cgroup2 file system is mounted at /sys/fs/cgroup or below");
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		struct statfs status;

		if (statfs(mounts[i], &status) < 0 || status.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		remove_stale_cgroups(mounts[i]);
		snprintf(top, sizeof(top), "%s/userevd-test-%d", mounts[i], (int)getpid());
		if (mkdir(top, 0755) == 0) {
			if (is_of_use(top, strrchr(top, '/')))
				return;
			snprintf(why_not, sizeof(why_not),
				 "processes cannot be put into cgroups made in %s, or do not see it", mounts[i]);
			remove_cgroup(top);
		} else {
			snprintf(why_not, sizeof(why_not), "cannot make a cgroup in %s: %s", mounts[i],
				 strerror(errno));
		}
		top[0] = '\0';
	}
}

/* Whether the test can go on; says so where not. */
static bool need_cgroups(const char *what)
{
	if (!*top)
		printf("not possible here: %s: %s\n", what, why_not);
	return *top;
}

/* A cgroup below ours, made if it was not there. Its directory, in one of a few buffers. */
static const char *make_cgroup(const char *name)
{
	static char paths[8][128];
	static unsigned next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	ck_assert_msg(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
	return path;
}

static void move_to(pid_t pid, const char *cgroup)
{
	char path[256], number[16];
	int fd, n;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	n = snprintf(number, sizeof(number), "%d", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, number, (size_t)n), n);
	close(fd);
}

static void actor_in(struct actor *actor, const struct fixture *fixture, const char *cgroup)
{
	actor_start(actor, fixture->socket, &(struct actor_as){ .cgroup = cgroup });
}

/* Tenants, as the daemon sees them. */

struct seen_tenant {
	char path[256];
	uint64_t cgroup_id;
	uint64_t connections;
	uint64_t events;
};

struct seen_tenants {
	size_t n;
	struct seen_tenant tenant[8];
};

static void see_tenant(void *data, struct cursor row)
{
	struct seen_tenants *seen = data;
	struct seen_tenant *tenant = &seen->tenant[seen->n++];

	ck_assert_uint_le(seen->n, ARRAY_SIZE(seen->tenant));
	row_get_string(row, "tenant", tenant->path, sizeof(tenant->path));
	tenant->cgroup_id = row_get_u64(row, "cgroup_id");
	tenant->connections = row_get_u64(row, "connections");
	tenant->events = row_get_u64(row, "events");
}

/* In the order in which they came. */
static void see_tenants(const struct fixture *fixture, struct seen_tenants *ret)
{
	int control = raw_connect(fixture->control);

	ret->n = 0;
	ck_assert_uint_eq(raw_rows(control, KIND_TENANTS, 0, NULL, see_tenant, ret), 0);
	close(control);
}

/* Whether it is the tenant of that cgroup directory. */
static bool is_tenant(const struct seen_tenant *tenant, const char *cgroup)
{
	size_t mount = (size_t)(strrchr(top, '/') - top);
	struct stat status;

	return streq(tenant->path, cgroup + mount) && stat(cgroup, &status) == 0 && status.st_ino == tenant->cgroup_id;
}

static bool page_says(int page, uint32_t bit)
{
	const uint8_t *bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	bool on;

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	on = bytes[bit / 8] >> bit % 8 & 1;
	munmap((void *)(uintptr_t)bytes, WIRE_PAGE_BYTES);
	return on;
}

static bool page_is_empty(int page)
{
	const uint8_t *bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	size_t set = 0;

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	for (size_t i = 0; i < WIRE_PAGE_BYTES; i++)
		set += bytes[i] != 0;
	munmap((void *)(uintptr_t)bytes, WIRE_PAGE_BYTES);
	return set == 0;
}

static ino_t file_of(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return status.st_ino;
}

/* Two who are tenants of their own, whichever way. */
static void expect_two_tenants(struct fixture *fixture, struct actor *one, struct actor *another)
{
	bool own_pages = has_a_page_per_tenant(fixture);
	struct answer first, second, both;

	ck_assert_uint_eq(status_number(fixture, "tenants"), 2);
	ck_assert(own_pages == (file_of(one->page) != file_of(another->page)));
	ck_assert_uint_eq(raw_register(one->socket, "ours", &first, NULL), 0);
	ck_assert_uint_eq(raw_register(another->socket, "theirs", &second, NULL), 0);
	ck_assert_uint_eq(trace(fixture, "ours", true), 1);
	ck_assert(page_says(one->page, first.bit));
	ck_assert(own_pages == page_is_empty(another->page));

	/* What both have costs each of them one, and the machine one; and it is on for both. */
	ck_assert_uint_eq(raw_register(one->socket, "both", &both, NULL), 0);
	ck_assert_uint_eq(raw_register(another->socket, "both", &second, NULL), 0);
	ck_assert_uint_eq(raw_query(one->socket).events, 2);
	ck_assert_uint_eq(raw_query(another->socket).events, 2);
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	ck_assert_uint_eq(trace(fixture, "both", true), 1);
	ck_assert(page_says(one->page, both.bit));
	ck_assert(page_says(another->page, second.bit));
	/* Who releases it sees no more of it, unless it is still on his stream. */
	ck_assert_uint_eq(raw_release(another->socket, &second.bit, 1), 1);
	ck_assert(page_is_empty(another->page) == releases_at_once(fixture));
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	ck_assert_uint_eq(trace(fixture, "*", false), 3);
	ck_assert(page_is_empty(one->page));
}

TEST(two_processes_are_two_tenants_where_each_is_one)
{
	struct seen_tenants seen;
	struct actor one, another;
	struct fixture fixture;
	char wanted[64];

	fixture_start(&fixture, each_process_a_tenant);
	actor_start(&one, fixture.socket, &(struct actor_as){ .comm = "one" });
	actor_start(&another, fixture.socket, &(struct actor_as){ .comm = "another" });
	expect_two_tenants(&fixture, &one, &another);
	see_tenants(&fixture, &seen);
	snprintf(wanted, sizeof(wanted), "process:%d:one", (int)one.pid);
	ck_assert_str_eq(seen.tenant[0].path, wanted);
	snprintf(wanted, sizeof(wanted), "process:%d:another", (int)another.pid);
	ck_assert_str_eq(seen.tenant[1].path, wanted);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(two_cgroups_are_two_tenants_with_a_page_each)
{
	struct seen_tenants seen;
	struct actor one, another;
	struct fixture fixture;
	const char *first, *second;

	if (!need_cgroups("two cgroups as two tenants"))
		return;
	first = make_cgroup("first");
	second = make_cgroup("second");
	fixture_start(&fixture, NULL);
	actor_in(&one, &fixture, first);
	actor_in(&another, &fixture, second);
	expect_two_tenants(&fixture, &one, &another);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_msg(is_tenant(&seen.tenant[0], first), "%s is not %s", seen.tenant[0].path, first);
	ck_assert_msg(is_tenant(&seen.tenant[1], second), "%s is not %s", seen.tenant[1].path, second);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(two_processes_of_one_cgroup_share_page_events_and_maximum)
{
	static const char *const options[] = { "--max-events=2", NULL };
	struct actor one, another;
	struct answer ours, theirs;
	struct fixture fixture;
	const char *cgroup = *top ? make_cgroup("shared") : NULL;

	/* Our own will do. */
	if (!cgroup)
		printf("in the cgroup that we are in, since %s\n", why_not);
	fixture_start(&fixture, options);
	actor_in(&one, &fixture, cgroup);
	actor_in(&another, &fixture, cgroup);
	ck_assert_uint_eq(status_number(&fixture, "tenants"), 1);
	ck_assert_uint_eq(file_of(one.page), file_of(another.page));
	ck_assert_uint_eq(raw_register(one.socket, "shared", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(another.socket, "shared", &theirs, NULL), 0);
	ck_assert_uint_eq(ours.bit, theirs.bit);
	ck_assert_uint_eq(raw_register(one.socket, "second", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(another.socket, "third", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(cgroups_made_below_a_tenant_gain_it_nothing)
{
	static const char *const options[] = { "--max-events=1", NULL };
	struct seen_tenants seen;
	struct actor one, below, deeper;
	struct fixture fixture;
	const char *cgroup;

	if (!need_cgroups("cgroups below a tenant's"))
		return;
	cgroup = make_cgroup("outer");
	make_cgroup("outer/inner");
	fixture_start(&fixture, options);
	actor_in(&one, &fixture, cgroup);
	actor_in(&below, &fixture, make_cgroup("outer/other"));
	actor_in(&deeper, &fixture, make_cgroup("outer/inner/innermost"));
	ck_assert_uint_eq(raw_register(deeper.socket, "the_one", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(below.socket, "the_other", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(raw_register(one.socket, "the_other", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_msg(is_tenant(&seen.tenant[0], cgroup), "%s is not %s", seen.tenant[0].path, cgroup);
	ck_assert_uint_eq(seen.tenant[0].connections, 3);
	actor_end(&deeper);
	actor_end(&below);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

static bool delegate(const char *cgroup)
{
	if (setxattr(cgroup, "user.delegate", "1", 1, 0) == 0)
		return true;
	printf("not possible here: a cgroup that is delegated: setxattr: %s\n", strerror(errno));
	return false;
}

TEST(who_owns_a_cgroup_gains_nothing_by_marks_inside)
{
	static const char *const options[] = { "--max-events=1", NULL };
	struct actor one, another;
	struct fixture fixture;
	const char *mine, *sibling;

	if (!need_cgroups("a cgroup of another user"))
		return;
	ck_assert_int_eq(chown(make_cgroup("given"), 65534, 65534), 0);
	mine = make_cgroup("given/mine");
	sibling = make_cgroup("given/sibling");
	ck_assert_int_eq(chown(mine, 65534, 65534), 0);
	ck_assert_int_eq(chown(sibling, 65534, 65534), 0);
	if (!delegate(mine) || !delegate(sibling))
		return;
	fixture_start(&fixture, options);
	actor_in(&one, &fixture, mine);
	actor_in(&another, &fixture, sibling);
	ck_assert_uint_eq(raw_register(one.socket, "the_one", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(another.socket, "the_other", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(the_outermost_delegated_cgroup_is_the_tenant)
{
	struct seen_tenants seen;
	struct actor inside, sibling, undelegated;
	struct fixture fixture;
	const char *slice, *scope, *container;

	if (!need_cgroups("delegation"))
		return;
	slice = make_cgroup("slice");
	scope = make_cgroup("slice/scope");
	container = make_cgroup("slice/scope/container");
	if (!delegate(scope))
		return;
	/* What is marked further inside was marked by who was given the outer one. */
	delegate(container);
	fixture_start(&fixture, NULL);
	actor_in(&inside, &fixture, container);
	actor_in(&sibling, &fixture, make_cgroup("slice/scope/sibling"));
	actor_in(&undelegated, &fixture, make_cgroup("slice/other"));
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_msg(is_tenant(&seen.tenant[0], scope), "%s is not %s", seen.tenant[0].path, scope);
	ck_assert_uint_eq(seen.tenant[0].connections, 2);
	ck_assert_msg(is_tenant(&seen.tenant[1], slice), "%s is not %s", seen.tenant[1].path, slice);
	actor_end(&undelegated);
	actor_end(&sibling);
	actor_end(&inside);

	/* Above the second level, too. */
	ck_assert(delegate(top));
	ck_assert(eventually(status_number(&fixture, "tenants") == 0));
	actor_in(&inside, &fixture, container);
	see_tenants(&fixture, &seen);
	ck_assert_int_eq(removexattr(top, "user.delegate"), 0);
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_msg(is_tenant(&seen.tenant[0], top), "%s is not %s", seen.tenant[0].path, top);
	actor_end(&inside);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_is_moved_after_connecting_keeps_its_tenant)
{
	struct seen_tenants seen;
	struct actor moved, newcomer;
	struct fixture fixture;
	const char *before, *after;

	if (!need_cgroups("a process that is moved to another cgroup"))
		return;
	before = make_cgroup("before");
	after = make_cgroup("after");
	fixture_start(&fixture, NULL);
	actor_in(&moved, &fixture, before);
	ck_assert_uint_eq(raw_register(moved.socket, "first", NULL, NULL), 0);
	move_to(moved.pid, after);
	ck_assert_uint_eq(raw_register(moved.socket, "second", NULL, NULL), 0);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 1);
	ck_assert(is_tenant(&seen.tenant[0], before));
	ck_assert_uint_eq(seen.tenant[0].events, 2);
	/* A new connection is made where it is now. */
	actor_in(&newcomer, &fixture, after);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert(is_tenant(&seen.tenant[1], after));
	actor_end(&newcomer);
	actor_end(&moved);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_path_that_is_made_again_is_another_tenant)
{
	struct seen_tenants seen;
	struct actor first, second;
	struct fixture fixture;
	const char *path, *elsewhere;

	if (!need_cgroups("a cgroup that is removed and made again"))
		return;
	path = make_cgroup("again");
	elsewhere = make_cgroup("elsewhere");
	fixture_start(&fixture, NULL);
	actor_in(&first, &fixture, path);
	ck_assert_uint_eq(raw_register(first.socket, "old", NULL, NULL), 0);
	move_to(first.pid, elsewhere);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	actor_in(&second, &fixture, path);
	ck_assert_uint_eq(raw_query(second.socket).events, 0);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_str_eq(seen.tenant[0].path, seen.tenant[1].path);
	ck_assert_uint_ne(seen.tenant[0].cgroup_id, seen.tenant[1].cgroup_id);
	ck_assert_uint_eq(seen.tenant[0].events, 1);
	if (has_a_page_per_tenant(&fixture))
		ck_assert_uint_ne(file_of(first.page), file_of(second.page));
	actor_end(&second);
	actor_end(&first);
	fixture_stop(&fixture);
}
END_TEST

/* Who holds an event. */

struct seen_holder {
	const char *event;
	char tenant[256], comm[32];
	uint64_t n, pid, uid, total;
};

static void see_holders(void *data, struct cursor row)
{
	struct seen_holder *seen = data;
	struct row_field holders;
	struct cursor items, item;
	char event[64];

	row_get_string(row, "event", event, sizeof(event));
	if (!streq(event, seen->event))
		return;
	seen->total = row_get_u64(row, "holders_total");
	ck_assert(row_find(row, "holders", &holders));
	items = cursor_make(holders.value, holders.length);
	while (row_next_item(&items, &item) > 0) {
		seen->n++;
		seen->pid = row_get_u64(item, "pid");
		seen->uid = row_get_u64(item, "uid");
		row_get_string(item, "comm", seen->comm, sizeof(seen->comm));
		row_get_string(item, "tenant", seen->tenant, sizeof(seen->tenant));
	}
}

static struct seen_holder holder_of(const struct fixture *fixture, const char *event)
{
	struct seen_holder seen = { .event = event };
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, KIND_EVENTS, 0, NULL, see_holders, &seen), 0);
	close(control);
	return seen;
}

TEST(the_holder_of_an_event_is_shown_with_pid_name_and_user)
{
	const uid_t uid = geteuid() == 0 ? 65534 : geteuid();
	struct seen_holder seen;
	struct fixture fixture;
	struct answer answer;
	struct actor actor;
	char wanted[64];

	if (geteuid() != 0)
		printf("not possible here without root: a holder with another uid than ours\n");
	fixture_start(&fixture, each_process_a_tenant);
	actor_start(&actor, fixture.socket, &(struct actor_as){ .comm = "the holder", .uid = uid });
	/* What is said on its connection is to come from its user, and the kernel goes by the real uid. */
	ck_assert_int_eq(setreuid(uid, (uid_t)-1), 0);
	ck_assert_uint_eq(raw_register(actor.socket, "held", &answer, NULL), 0);
	ck_assert_int_eq(setreuid(geteuid(), (uid_t)-1), 0);
	seen = holder_of(&fixture, "held");
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_uint_eq(seen.total, 1);
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_uint_eq(seen.uid, uid);
	ck_assert_str_eq(seen.comm, "the holder");
	snprintf(wanted, sizeof(wanted), "process:%d:the holder", (int)actor.pid);
	ck_assert_str_eq(seen.tenant, wanted);
	actor_end(&actor);
	fixture_stop(&fixture);
}
END_TEST

TEST(of_many_holders_the_first_sixty_four_are_named_and_all_are_counted)
{
	enum { HOLDERS = 70, NAMED_MAX = 64 };
	struct seen_holder seen;
	struct fixture fixture;
	int sockets[HOLDERS];

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < HOLDERS; i++) {
		sockets[i] = raw_hello(fixture.socket, 0, NULL, NULL);
		ck_assert_uint_eq(raw_register(sockets[i], "popular", NULL, NULL), 0);
	}
	seen = holder_of(&fixture, "popular");
	ck_assert_uint_eq(seen.n, NAMED_MAX);
	ck_assert_uint_eq(seen.total, HOLDERS);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	for (size_t i = 0; i < HOLDERS; i++)
		close(sockets[i]);
	fixture_stop(&fixture);
}
END_TEST

/*
 * Connects, says hello and ends, but is not reaped yet. Where there is somebody to report to, it leaves the connection to a
 * child, which tells whether that ended without a word.
 */
static pid_t connect_and_end(const char *path, int report)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int socket = raw_connect(path);
		char byte;
		bool ended;

		encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
		raw_send(socket);
		if (report < 0 || fork() > 0)
			_exit(EXIT_SUCCESS);
		ended = recv(socket, &byte, 1, 0) == 0 || errno == ECONNRESET;
		_exit(write(report, ended ? "e" : "x", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	return pid;
}

TEST(who_has_ended_before_it_is_accepted_is_turned_away)
{
	struct fixture fixture;
	int bystander, report[2];
	char reported[2];
	pid_t unreaped;

	fixture_start(&fixture, NULL);
	ck_assert_int_eq(pipe2(report, O_CLOEXEC), 0);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	unreaped = connect_and_end(fixture.socket, report[1]);
	for (int i = 0; i < 10; i++)
		waitpid(connect_and_end(fixture.socket, -1), NULL, 0);
	waitpid(connect_and_end(fixture.socket, report[1]), NULL, 0);
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	/* To whom it was left does not help: nobody can tell any more which tenant it was. */
	for (size_t i = 0; i < sizeof(reported); i++) {
		ck_assert_int_eq(read(report[0], &reported[i], 1), 1);
		ck_assert_int_eq(reported[i], 'e');
	}
	ck_assert_int_eq(waitpid(unreaped, NULL, 0), unreaped);
	ck_assert_uint_eq(status_number(&fixture, "connections"), 1);
	ck_assert_uint_eq(raw_register(bystander, "unharmed", NULL, NULL), 0);
	close(report[0]);
	close(report[1]);
	close(bystander);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_ends_after_it_was_accepted_may_leave_the_connection_to_others)
{
	struct seen_holder seen;
	struct fixture fixture;
	struct actor actor;

	fixture_start(&fixture, each_process_a_tenant);
	actor_start(&actor, fixture.socket, &(struct actor_as){ .comm = "the departed" });
	ck_assert_uint_eq(raw_register(actor.socket, "before", NULL, NULL), 0);
	actor_leave(&actor);
	ck_assert_uint_eq(raw_register(actor.socket, "after", NULL, NULL), 0);
	ck_assert_uint_eq(raw_query(actor.socket).events, 2);
	seen = holder_of(&fixture, "after");
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_str_eq(seen.comm, "the departed");
	actor_end(&actor);
	fixture_stop(&fixture);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		two_processes_are_two_tenants_where_each_is_one,
		two_cgroups_are_two_tenants_with_a_page_each,
		two_processes_of_one_cgroup_share_page_events_and_maximum,
		cgroups_made_below_a_tenant_gain_it_nothing,
		who_owns_a_cgroup_gains_nothing_by_marks_inside,
		the_outermost_delegated_cgroup_is_the_tenant,
		who_is_moved_after_connecting_keeps_its_tenant,
		a_path_that_is_made_again_is_another_tenant,
		the_holder_of_an_event_is_shown_with_pid_name_and_user,
		of_many_holders_the_first_sixty_four_are_named_and_all_are_counted,
		who_has_ended_before_it_is_accepted_is_turned_away,
		who_ends_after_it_was_accepted_may_leave_the_connection_to_others,
	};
	int r;

	find_cgroups();
	r = run_suite("tenants", tests, ARRAY_SIZE(tests), 60);
	if (*top)
		remove_cgroup(top);
	return r;
}
