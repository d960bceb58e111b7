/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* Which process owns an enabler after fork(), in a thread, and after exec(). */

static uint64_t word;

static int switch_on_and_look(const char *event)
{
	switch_event(event, true);
	return (int)word;
}

TEST(fork_copies_enablers_with_the_memory)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), 0);
	ck_assert_int_eq(as(ROOT, switch_on_and_look(machine.event)), 1);
	ck_assert_uint_eq(word, 1);
	ck_assert_int_eq(as(ROOT, disable(machine.data, &word, 0)), 0);
	switch_event(machine.event, false);
	ck_assert_uint_eq(word, 0);
	ck_assert_int_eq(disable(machine.data, &word, 0), 0);
}
END_TEST

TEST(a_fork_holds_the_event_as_long_as_it_lives)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR | O_CLOEXEC);
	struct person fork;

	ck_assert_int_eq(enable(stream, machine.text, &word, 0), 0);
	fd_closep(&stream);
	fork = companion_start();
	ck_assert_int_eq(disable(machine.data, &word, 0), 0);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	companion_end(&fork);
	ck_assert(eventually(!event_exists(machine.event)));
}
END_TEST

/* Registers, and becomes another program, which has neither the file nor the enabler and lives until `pipe` is closed. */
static _Noreturn void register_and_become_cat(const struct machine *machine, int pipe)
{
	int stream = data_open(O_RDWR);

	dup2(pipe, STDIN_FILENO);
	if (enable(stream, machine->text, &word, 0) == 0)
		execl("/bin/cat", "cat", NULL);
	_exit(1);
}

TEST(exec_removes_enablers)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	int pipe[2], status;
	pid_t pid;

	/* The file holds the event, too, so that its status can be read in any case. */
	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(pipe2(pipe, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		register_and_become_cat(&machine, pipe[0]);
	fd_closep(&machine.data);
	/* The fork had a copy of that file. All references to the event end with the exec. */
	ck_assert(eventually(!event_exists(machine.event)));
	ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
	close(pipe[0]);
	close(pipe[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

struct errand {
	const struct machine *machine;
	pthread_barrier_t barrier;
	int result;
};

static void *disable_in_thread(void *data)
{
	struct errand *errand = data;

	pthread_barrier_wait(&errand->barrier);
	errand->result = disable(errand->machine->data, &word, 0);
	return NULL;
}

/* The result of unregistering the word's bit in a thread that starts before or after the registration. */
static int disable_elsewhere(const struct machine *machine, bool began_before)
{
	struct errand errand = { .machine = machine };
	pthread_t thread;

	ck_assert_int_eq(pthread_barrier_init(&errand.barrier, NULL, 2), 0);
	if (began_before)
		ck_assert_int_eq(pthread_create(&thread, NULL, disable_in_thread, &errand), 0);
	ck_assert_int_eq(enable(machine->data, machine->text, &word, 0), 0);
	if (!began_before)
		ck_assert_int_eq(pthread_create(&thread, NULL, disable_in_thread, &errand), 0);
	pthread_barrier_wait(&errand.barrier);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	pthread_barrier_destroy(&errand.barrier);
	return errand.result;
}

TEST(threads_share_the_enablers)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(disable_elsewhere(&machine, false), 0);
	ck_assert_int_eq(disable(machine.data, &word, 0), -ENOENT);
	/* All later threads share the enablers, whatever is registered. */
	ck_assert_int_eq(disable_elsewhere(&machine, true), 0);
}
END_TEST

/* A process that has threads should register something before it makes them. */
TEST(threads_before_first_registration_share_no_enabler)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(disable_elsewhere(&machine, true), -ENOENT);
	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), -EADDRINUSE);
	switch_event(machine.event, true);
	ck_assert_uint_eq(word, 1);
	switch_event(machine.event, false);
	ck_assert_uint_eq(word, 0);
}
END_TEST

/* A program on this file system blocks in exec() until the test answers. */
struct hold_up {
	char directory[64];
	char arrived[80];
	char go_on[80];
	int spawned;
	pid_t pid;
};

static struct hold_up hold_up_new(void)
{
	struct hold_up hold_up;

	make_temporary_directory(hold_up.directory, sizeof(hold_up.directory));
	snprintf(hold_up.arrived, sizeof(hold_up.arrived), "%s/arrived", hold_up.directory);
	snprintf(hold_up.go_on, sizeof(hold_up.go_on), "%s/go-on", hold_up.directory);
	ck_assert_int_eq(mkfifo(hold_up.arrived, 0600), 0);
	ck_assert_int_eq(mkfifo(hold_up.go_on, 0600), 0);
	return hold_up;
}

static void hold_up_free(struct hold_up *hold_up)
{
	unlink(hold_up->arrived);
	unlink(hold_up->go_on);
	rmdir(hold_up->directory);
}

/* Does not return before the program has been executed. */
static void *spawn_with_hold_up(void *data)
{
	char name[] = "true", *const argv[] = { name, NULL };
	struct hold_up *hold_up = data;
	posix_spawn_file_actions_t actions;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 3, hold_up->arrived, O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 4, hold_up->go_on, O_RDONLY, 0);
	hold_up->spawned = posix_spawn(&hold_up->pid, "/bin/true", &actions, NULL, argv, NULL);
	posix_spawn_file_actions_destroy(&actions);
	return NULL;
}

/* posix_spawn() has a process between the spawn and the exec; after a real fork that process would hold the event. */
TEST(posix_spawn_copies_no_enablers)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(hold_up_free) struct hold_up hold_up = hold_up_new();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	int arrived, go_on, status;
	pthread_t thread;

	ck_assert_int_eq(enable(stream, machine.text, &word, 0), 0);
	fd_closep(&stream);
	ck_assert_int_eq(pthread_create(&thread, NULL, spawn_with_hold_up, &hold_up), 0);
	arrived = open(hold_up.arrived, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(arrived, 0);
	ck_assert(event_exists(machine.event));
	ck_assert_int_eq(disable(machine.data, &word, 0), 0);
	ck_assert(eventually(!event_exists(machine.event)));
	go_on = open(hold_up.go_on, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(hold_up.spawned, 0);
	ck_assert_int_eq(waitpid(hold_up.pid, &status, 0), hold_up.pid);
	ck_assert_int_eq(status, 0);
	close(arrived);
	close(go_on);
}
END_TEST

static int write_as_oneself(const struct machine *machine)
{
	int n = write_value(machine->data, 0);

	return n == 4 ? getpid() : -1;
}

TEST(fork_writes_to_inherited_file_under_its_own_pid)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	pid_t pid;

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	pid = as(ROOT, write_as_oneself(&machine));
	ck_assert_int_gt(pid, 0);
	ck_assert_int_ne(pid, getpid());
	ck_assert_int_eq(writer_of_last_record(machine.event), pid);
}
END_TEST

PROMISES("inheriting", ENABLE_ADDRESS(fork_copies_enablers_with_the_memory),
	 ENABLE_ADDRESS(a_fork_holds_the_event_as_long_as_it_lives), ENABLE_ADDRESS(exec_removes_enablers),
	 ENABLE_ADDRESS(threads_share_the_enablers), ENABLE_ADDRESS(threads_before_first_registration_share_no_enabler),
	 ENABLE_ADDRESS(posix_spawn_copies_no_enablers), EITHER(fork_writes_to_inherited_file_under_its_own_pid))
