/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/probe.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/suite.h"

/* A directory that plays the machine: some mount points and a mountinfo that tells of them. */
struct machine {
	char path[64];
	char mountinfo[96];
	FILE *file;
};

static struct machine machine_new(void)
{
	struct machine machine = { 0 };

	make_temporary_directory(machine.path, sizeof(machine.path));
	snprintf(machine.mountinfo, sizeof(machine.mountinfo), "%s/mountinfo", machine.path);
	machine.file = fopen(machine.mountinfo, "we");
	ck_assert_ptr_nonnull(machine.file);
	fprintf(machine.file, "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n");
	return machine;
}

static int remove_entry(const char *path, const struct stat *status _unused_, int type _unused_,
			struct FTW *at _unused_)
{
	return remove(path);
}

static void machine_free(struct machine *machine)
{
	if (machine->file)
		fclose(machine->file);
	ck_assert_int_eq(nftw(machine->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void make_directory(const struct machine *machine, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", machine->path, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static void make_file(const struct machine *machine, const char *name, mode_t mode)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", machine->path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
}

static void add_mount_of(const struct machine *machine, dev_t device, const char *root, const char *name,
			 const char *type)
{
	fprintf(machine->file, "36 21 %u:%u %s %s/%s rw,nosuid shared:9 master:2 - %s nodev rw\n", major(device),
		minor(device), root, machine->path, name, type);
}

static void add_mount(const struct machine *machine, const char *root, const char *name, const char *type)
{
	struct stat status;

	ck_assert_int_eq(stat(machine->path, &status), 0);
	add_mount_of(machine, status.st_dev, root, name, type);
}

static struct probe probe_it(struct machine *machine)
{
	struct probe probe;

	fclose(machine->file);
	machine->file = NULL;
	probe_machine(machine->mountinfo, &probe);
	ck_assert_uint_gt(strlen(probe.sentence), 20);
	ck_assert_uint_lt(strlen(probe.sentence), sizeof(probe.sentence) - 1);
	return probe;
}

static void expect_path(const struct probe *probe, const struct machine *machine, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", machine->path, name);
	ck_assert(probe->tracefs_mounted);
	ck_assert_str_eq(probe->tracefs, path);
}

static void expect_said(const struct probe *probe, const char *part)
{
	ck_assert_msg(strstr(probe->sentence, part), "'%s' is not in '%s'", part, probe->sentence);
}

TEST(without_a_tracefs_it_says_how_to_mount_one)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe = probe_it(&machine);

	ck_assert(!probe.tracefs_mounted);
	ck_assert(!probe.has_user_events);
	ck_assert_int_eq(probe.kind, BACKEND_EMBEDDED);
	expect_said(&probe, "mount -t tracefs");
}

TEST(a_tracefs_without_user_events_is_a_kernel_without)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "tracing");
	add_mount(&machine, "/", "tracing", "tracefs");
	probe = probe_it(&machine);
	expect_path(&probe, &machine, "tracing");
	ck_assert(!probe.has_user_events);
	ck_assert_int_eq(probe.kind, BACKEND_EMBEDDED);
	if (access("/proc/sys/kernel/user_events_max", F_OK) != 0)
		expect_said(&probe, "CONFIG_USER_EVENTS");
}

TEST(a_tracefs_under_another_mount_is_passed_over)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "hidden");
	make_directory(&machine, "tracing");
	add_mount_of(&machine, makedev(0, 4000), "/", "hidden", "tracefs");
	add_mount(&machine, "/", "tracing", "tracefs");
	probe = probe_it(&machine);
	expect_path(&probe, &machine, "tracing");
}

static struct probe probe_with_status_mode(struct machine *machine, mode_t mode)
{
	make_directory(machine, "tracing");
	make_file(machine, "tracing/user_events_data", 0600);
	if (mode)
		make_file(machine, "tracing/user_events_status", mode);
	add_mount(machine, "/", "tracing", "tracefs");
	return probe_it(machine);
}

TEST(the_mode_of_the_status_file_tells_the_newer_abi)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe = probe_with_status_mode(&machine, 0440);

	ck_assert(probe.has_user_events);
	ck_assert(probe.may_open);
	ck_assert_int_eq(probe.kind, BACKEND_ENABLE_ADDRESS);
	expect_said(&probe, "enable-address");
}

TEST(the_mode_of_the_status_file_tells_the_older_abi)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe = probe_with_status_mode(&machine, 0640);

	ck_assert_int_eq(probe.kind, BACKEND_STATUS_PAGE);
	expect_said(&probe, "status-page");
}

TEST(unknown_abi_is_not_guessed)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe = probe_with_status_mode(&machine, 0);

	ck_assert(probe.has_user_events);
	if (access("/proc/sys/kernel/user_events_max", F_OK) != 0)
		ck_assert_int_eq(probe.kind, BACKEND_EMBEDDED);
}

TEST(a_data_file_that_may_not_be_opened_is_said)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "tracing");
	make_directory(&machine, "tracing/user_events_data"); /* that root cannot open for writing either */
	make_file(&machine, "tracing/user_events_status", 0440);
	add_mount(&machine, "/", "tracing", "tracefs");
	probe = probe_it(&machine);
	ck_assert(probe.has_user_events);
	ck_assert(!probe.may_open);
	ck_assert_int_eq(probe.kind, BACKEND_ENABLE_ADDRESS);
	expect_said(&probe, "may not open");
}

TEST(tracefs_is_preferred_to_debugfs)
{
	_cleanup_(machine_free) struct machine first = machine_new();
	_cleanup_(machine_free) struct machine second = machine_new();
	struct probe probe;

	make_directory(&first, "debug");
	make_directory(&first, "debug/tracing");
	add_mount(&first, "/", "debug", "debugfs");
	probe = probe_it(&first);
	expect_path(&probe, &first, "debug/tracing");

	make_directory(&second, "debug");
	make_directory(&second, "debug/tracing");
	make_directory(&second, "tracing");
	add_mount(&second, "/", "debug", "debugfs");
	add_mount(&second, "/", "tracing", "tracefs");
	probe = probe_it(&second);
	expect_path(&probe, &second, "tracing");
}

TEST(a_path_with_spaces_is_unescaped)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "my tracing\\");
	add_mount(&machine, "/", "my\\040tracing\\134", "tracefs");
	probe = probe_it(&machine);
	expect_path(&probe, &machine, "my tracing\\");
}

TEST(unusable_tracefs_mounts_are_ignored)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "instance");
	add_mount(&machine, "/instances/a", "instance", "tracefs");
	add_mount(&machine, "/", "missing", "tracefs");
	add_mount(&machine, "/", "missing", "debugfs");
	fprintf(machine.file, "36 21 0:12 / /%0300d rw - tracefs nodev rw\n", 0);
	probe = probe_it(&machine);
	ck_assert(!probe.tracefs_mounted);
}

TEST(malformed_lines_are_skipped)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	fprintf(machine.file, "\n - \nx - tracefs\n1 2 3 / - tracefs nodev rw\n1 2 3 /\n - tracefs");
	fprintf(machine.file, "\n1 2 0:1 / /tmp\\ rw - tmpfs x y\n");
	make_directory(&machine, "tracing");
	add_mount(&machine, "/", "tracing", "tracefs");
	probe = probe_it(&machine);
	expect_path(&probe, &machine, "tracing");
}

TEST(a_missing_mountinfo_is_a_machine_without_tracefs)
{
	struct probe probe;

	probe_machine("/nonexistent/mountinfo", &probe);
	ck_assert(!probe.tracefs_mounted);
	expect_said(&probe, "not mounted");
}

TEST(this_machine_is_looked_at_without_a_fault)
{
	struct probe probe;

	probe_machine(NULL, &probe);
	ck_assert_str_ne(probe.sentence, "");
}

TEST(auto_depends_on_root)
{
	struct probe probe = {
		.tracefs_mounted = true,
		.has_user_events = true,
		.may_open = true,
		.kind = BACKEND_STATUS_PAGE,
		.sentence = "found",
	};
	enum wire_backend backend = 0;

	ck_assert_int_eq(probe_choose("auto", true, &probe, &backend), 0);
	ck_assert_int_eq(backend, BACKEND_STATUS_PAGE);
	ck_assert_str_eq(probe.sentence, "found");
	ck_assert_int_eq(probe_choose("auto", false, &probe, &backend), 0);
	ck_assert_int_eq(backend, BACKEND_EMBEDDED);
	expect_said(&probe, "not started as root");
}

TEST(embedded_is_embedded_whatever_was_found)
{
	struct probe probe = { .has_user_events = true, .kind = BACKEND_ENABLE_ADDRESS, .sentence = "found" };
	enum wire_backend backend = 0;

	ck_assert_int_eq(probe_choose("embedded", true, &probe, &backend), 0);
	ck_assert_int_eq(backend, BACKEND_EMBEDDED);
	ck_assert_str_eq(probe.sentence, "found");
}

TEST(unmounted_tracefs_is_left_to_keeper)
{
	struct probe probe = { .kind = BACKEND_EMBEDDED, .sentence = "found" };
	enum wire_backend backend = BACKEND_EMBEDDED;

	ck_assert_int_eq(probe_choose("auto", true, &probe, &backend), 0);
	ck_assert_int_ne(backend, BACKEND_EMBEDDED);
	ck_assert_int_eq(probe_choose("auto", false, &probe, &backend), 0);
	ck_assert_int_eq(backend, BACKEND_EMBEDDED);
	ck_assert_int_eq(probe_choose("status-page", true, &probe, &backend), 0);
	ck_assert_int_eq(backend, BACKEND_STATUS_PAGE);
	probe.tracefs_mounted = true;
	ck_assert_int_eq(probe_choose("auto", true, &probe, &backend), 0);
	ck_assert_int_eq(backend, BACKEND_EMBEDDED);
}

TEST(missing_backend_is_refused_with_reason)
{
	struct probe probe = {
		.tracefs_mounted = true,
		.has_user_events = true,
		.kind = BACKEND_ENABLE_ADDRESS,
		.sentence = "found",
	};
	enum wire_backend backend = 77;

	ck_assert_int_eq(probe_choose("status-page", true, &probe, &backend), -EOPNOTSUPP);
	expect_said(&probe, "no status-page: found");
	string_copy(probe.sentence, sizeof(probe.sentence), "found");
	ck_assert_int_eq(probe_choose("enable-address", false, &probe, &backend), -EOPNOTSUPP);
	expect_said(&probe, "no enable-address: found");
	ck_assert_int_eq(probe_choose("Embedded", true, &probe, &backend), -EINVAL);
	ck_assert_int_eq(probe_choose("", true, &probe, &backend), -EINVAL);
	ck_assert_int_eq(backend, 77);
}

TEST(every_backend_has_a_name)
{
	ck_assert_str_eq(backend_name(BACKEND_EMBEDDED), "embedded");
	ck_assert_str_eq(backend_name(BACKEND_STATUS_PAGE), "status-page");
	ck_assert_str_eq(backend_name(BACKEND_ENABLE_ADDRESS), "enable-address");
	ck_assert_str_eq(backend_name(0), "unknown");
	ck_assert_str_eq(backend_name(4), "unknown");
}
