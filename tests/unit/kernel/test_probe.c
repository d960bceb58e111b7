/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/suite.h"

/* A directory as a machine: some mount points, and their mountinfo. */
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

static void machine_free(struct machine *machine)
{
	if (machine->file)
		fclose(machine->file);
	remove_directory(machine->path);
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

static void expect_sentence(const struct probe *probe, const char *part)
{
	ck_assert_msg(strstr(probe->sentence, part), "'%s' is not in '%s'", part, probe->sentence);
}

TEST(sentence_without_tracefs_names_mount_command)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe = probe_it(&machine);

	ck_assert(!probe.tracefs_mounted);
	ck_assert(!probe.has_user_events);
	ck_assert_int_eq(probe.kind, BACKEND_EMBEDDED);
	expect_sentence(&probe, "mount -t tracefs");
}

TEST(tracefs_without_user_events_is_found)
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
		expect_sentence(&probe, "CONFIG_USER_EVENTS");
}

TEST(hidden_tracefs_is_skipped)
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

TEST(data_file_of_another_kind_is_not_user_events)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "tracing");
	make_file(&machine, "tracing/user_events_data", 0600);
	add_mount(&machine, "/", "tracing", "tracefs");
	probe = probe_it(&machine);
	ck_assert(probe.has_user_events && probe.may_open);
	ck_assert_int_eq(probe.kind, BACKEND_EMBEDDED);
}

TEST(inaccessible_data_file_is_explained)
{
	_cleanup_(machine_free) struct machine machine = machine_new();
	struct probe probe;

	make_directory(&machine, "tracing");
	make_directory(&machine, "tracing/user_events_data"); /* that root cannot open for writing either */
	add_mount(&machine, "/", "tracing", "tracefs");
	probe = probe_it(&machine);
	ck_assert(probe.has_user_events);
	ck_assert(!probe.may_open);
	ck_assert_int_eq(probe.kind, access("/proc/sys/kernel/user_events_max", F_OK) == 0 ? BACKEND_ENABLE_ADDRESS
											   : BACKEND_STATUS_PAGE);
	expect_sentence(&probe, "may not open");
}

TEST(tracefs_is_preferred_to_debugfs)
{
	for (unsigned both = 0; both < 2; both++) {
		_cleanup_(machine_free) struct machine machine = machine_new();
		struct probe probe;

		make_directory(&machine, "debug");
		make_directory(&machine, "debug/tracing");
		make_directory(&machine, "my tracing\\");
		add_mount(&machine, "/", "debug", "debugfs");
		if (both)
			add_mount(&machine, "/", "my\\040tracing\\134", "tracefs");
		probe = probe_it(&machine);
		expect_path(&probe, &machine, both ? "my tracing\\" : "debug/tracing");
	}
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

TEST(missing_mountinfo_means_no_tracefs)
{
	struct probe probe;

	probe_machine("/nonexistent/mountinfo", &probe);
	ck_assert(!probe.tracefs_mounted);
	expect_sentence(&probe, "not mounted");
}

TEST(backend_is_chosen_by_name_root_and_probe)
{
	static const struct {
		const char *name;
		bool root;
		bool mounted;
		enum wire_backend found; /* 0: no user_events */
		int result;
		enum wire_backend chosen;
		const char *sentence;
	} rows[] = {
		{ "auto", true, true, BACKEND_STATUS_PAGE, 0, BACKEND_STATUS_PAGE, "found" },
		{ "auto", false, true, BACKEND_STATUS_PAGE, 0, BACKEND_EMBEDDED, "not started as root" },
		{ "auto", true, true, 0, 0, BACKEND_EMBEDDED, "found" },
		{ "embedded", true, true, BACKEND_ENABLE_ADDRESS, 0, BACKEND_EMBEDDED, "found" },
		/* The keeper may mount tracefs. */
		{ "auto", true, false, 0, 0, BACKEND_ENABLE_ADDRESS, "found" },
		{ "auto", false, false, 0, 0, BACKEND_EMBEDDED, "found" },
		{ "status-page", true, false, 0, 0, BACKEND_STATUS_PAGE, "found" },
		{ "status-page", true, true, BACKEND_ENABLE_ADDRESS, -EOPNOTSUPP, 77, "no status-page: found" },
		{ "enable-address", false, true, BACKEND_ENABLE_ADDRESS, -EOPNOTSUPP, 77, "no enable-address: found" },
		{ "Embedded", true, true, BACKEND_ENABLE_ADDRESS, -EINVAL, 77, "found" },
		{ "", true, true, BACKEND_ENABLE_ADDRESS, -EINVAL, 77, "found" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct probe probe = {
			.tracefs_mounted = rows[i].mounted,
			.has_user_events = rows[i].found != 0,
			.may_open = rows[i].found != 0,
			.kind = rows[i].found ? rows[i].found : BACKEND_EMBEDDED,
			.sentence = "found",
		};
		enum wire_backend backend = 77;

		ck_assert_int_eq(probe_choose(rows[i].name, rows[i].root, &probe, &backend), rows[i].result);
		ck_assert_int_eq(backend, rows[i].chosen);
		expect_sentence(&probe, rows[i].sentence);
	}
}

TEST(every_backend_has_a_name)
{
	ck_assert_str_eq(backend_name(BACKEND_EMBEDDED), "embedded");
	ck_assert_str_eq(backend_name(BACKEND_STATUS_PAGE), "status-page");
	ck_assert_str_eq(backend_name(BACKEND_ENABLE_ADDRESS), "enable-address");
	ck_assert_str_eq(backend_name(0), "unknown");
	ck_assert_str_eq(backend_name(4), "unknown");
}
