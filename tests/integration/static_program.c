/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A program with declared events: static_program ROLE [ARGUMENT], where ROLE is a row of the table below. It emits when program_tick
 * is on, and exits with 0 if everything was as expected.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "protocol/base/base.h"
#include "tests/integration/static_events.h"
#include "tests/integration/static_library.h"

struct point {
	int32_t x;
	int32_t y;
};

USEREV_EVENT(program, tick, (u32, n));
USEREV_EVENT(program, nothing);
USEREV_EVENT(program, kinds, (u8, a), (s8, b), (chars, comm, 8), (u16, c), (s16, d), (struct, point, where, 8),
	     (u32, e), (s32, f), (f32, part), (f64, load), (string, text), (bytes, data), (u64, g), (s64, h),
	     (chars, full, 4), (string, none));

/* Its record has parts that are too large to be copied, and small ones around these. */
struct block {
	char byte[260];
};

USEREV_EVENT(program, large, (u8, a), (chars, name, 8), (u16, b), (struct, block, block, 260), (u32, c),
	     (chars, more, 300), (u8, d), (string, text), (bytes, data), (string, last));

/* Usually short; a minute for slow machines. */
enum { TRIES = 60000 };

#define wait_for(condition)                                                                                            \
	do {                                                                                                           \
		for (int i_ = 0; !(condition); i_++) {                                                                 \
			if (i_ == TRIES)                                                                               \
				_exit(100);                                                                            \
			usleep(1000);                                                                                  \
		}                                                                                                      \
	} while (0)

static int go_on(const char *argument _unused_)
{
	wait_for(userev_on(program_tick));
	userev_emit(program_tick, 1);
	return 0;
}

static int emit_kinds(const char *argument _unused_)
{
	const struct point where = { 1, -1 };

	wait_for(userev_on(program_kinds));
	userev_emit(program_kinds, 255, -1, "abc", 65535, -2, &where, 7, -7, 0.5f, -2.0, "some text", "\x01\x02", 2,
		    UINT64_MAX, INT64_MIN, "wxyz", NULL);
	wait_for(userev_on(program_nothing));
	userev_emit(program_nothing);
	return 0;
}

static int emit_large(const char *argument _unused_)
{
	struct block block;
	char text[300];

	memset(&block, 'b', sizeof(block));
	memset(text, 't', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	wait_for(userev_on(program_large));
	userev_emit(program_large, 1, "name", 2, &block, 3, "more", 4, text, "\x05", 1, "last");
	return 0;
}

static int in_a_child(int (*act)(const char *))
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(act(NULL));
	return waitpid(child, &status, 0) == child ? status : 1;
}

static int go_on_in_both(const char *argument)
{
	int r = in_a_child(go_on);

	return r != 0 ? r : go_on(argument);
}

static char *myself;

static int go_on_after_vfork(const char *argument)
{
	int status;
	pid_t child;

	wait_for(userev_on(program_tick));
	child = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork)
	if (child == 0) {
		execl(myself, myself, "plain", NULL);
		_exit(101);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 1;
	return go_on(argument);
}

static int go_on_in_another_image(const char *argument _unused_)
{
	wait_for(userev_on(program_tick));
	execl(myself, myself, "plain", NULL);
	return 1;
}

static void close_all(void)
{
	for (int fd = 0; fd < 1000; fd++)
		close(fd);
	/* Reuse the numbers: no record must be written to these files. */
	for (int fd = 0; fd < 300; fd++)
		open("/dev/null", O_RDWR);
}

static int become_a_daemon(const char *argument)
{
	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	close_all();
	return go_on(argument);
}

static int go_on_after_closing_all(const char *argument)
{
	close_all();
	userev_poll(NULL, 0);
	return go_on(argument);
}

static int change_user(const char *argument)
{
	if (userev_wait(TRIES) != 0)
		return 2;
	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		return 1;
	return go_on(argument);
}

static int change_root(const char *argument)
{
	if (userev_wait(TRIES) != 0)
		return 2;
	if (geteuid() == 0 && (chroot("/proc") < 0 || chdir("/") < 0))
		return 1;
	return go_on(argument);
}

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_writev),
		ALLOW(SYS_clock_nanosleep),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	/* Sanitizers need these system calls. */
#ifdef __SANITIZE_ADDRESS__
	if (program.len > 0)
		return 0;
#endif
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0;
}

/* An event of another userev, whose daemon is not running, is pending. */
static int go_on_without_system_calls(const char *argument)
{
	static struct userev_event waiting;
	struct userev *unconnected = userev_open("/tmp/userevd-without-a-daemon", 0);

	userev_register(unconnected, &waiting, "waiting", 0);
	if (userev_wait(TRIES) != 0)
		return 1;
	userev_seal(NULL);
	userev_seal(unconnected);
	if (forbid_system_calls() != 0)
		return 1;
	for (int i = 0; i < 1000; i++)
		userev_enabled(&waiting);
	go_on(argument);
	_exit(0);
}

enum { GENERATIONS = 50, AT_ONCE = 4 };

static void *emit_one(void *data _unused_)
{
	userev_emit(program_tick, 1);
	return NULL;
}

static int let_threads_come_and_go(const char *argument _unused_)
{
	pthread_t thread[AT_ONCE];

	wait_for(userev_on(program_tick));
	for (int generation = 0; generation < GENERATIONS; generation++) {
		for (int i = 0; i < AT_ONCE; i++)
			if (pthread_create(&thread[i], NULL, emit_one, NULL) != 0)
				return 1;
		for (int i = 0; i < AT_ONCE; i++)
			pthread_join(thread[i], NULL);
	}
	return userev_lost(NULL).queue_full > 0;
}

static volatile sig_atomic_t emitted;

static void on_alarm(int signal _unused_)
{
	if (!userev_on(program_tick) || emitted)
		return;
	userev_emit(program_tick, 1);
	emitted = 1;
}

/* The handler may interrupt anything, and find work of any kind in the library. */
static int emit_from_a_handler(const char *argument _unused_)
{
	const struct itimerval often = { .it_interval = { 0, 200 }, .it_value = { 0, 200 } };
	const struct sigaction action = { .sa_handler = on_alarm };
	void *volatile memory;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int64_t i = 0; !emitted && i < INT64_C(20000000000); i++) {
		memory = malloc((size_t)(i % 5000));
		free(memory);
	}
	return emitted ? 0 : 1;
}

static int know_by_watching(const char *argument _unused_)
{
	struct pollfd changed = { .fd = userev_watch(NULL), .events = POLLIN };
	struct userev_event *event;

	/* First without waiting: userev_watch() itself may have received the message. */
	while ((event = userev_changed(NULL)) != USEREV_EVENT_OF(program_tick))
		if (!event && poll(&changed, 1, TRIES) != 1)
			return 1;
	return go_on(NULL);
}

/* With $USEREV_WAIT all events are registered before main(). */
static int be_ready(const char *argument _unused_)
{
	const char *why = userev_why(USEREV_EVENT_OF(program_tick));

	if (why)
		fprintf(stderr, "%s\n", why);
	return why ? 1 : 0;
}

struct plugin {
	void *library;
	bool (*is_on)(void);
	void (*emit)(uint32_t);
};

static struct plugin load_plugin(const char *path)
{
	struct plugin plugin = { .library = dlopen(path, RTLD_NOW | RTLD_LOCAL) };

	if (!plugin.library)
		_exit(103);
	*(void **)&plugin.is_on = dlsym(plugin.library, "library_is_on");
	*(void **)&plugin.emit = dlsym(plugin.library, "library_emit");
	if (!plugin.is_on || !plugin.emit)
		_exit(104);
	return plugin;
}

static int load(const char *path)
{
	struct plugin plugin = load_plugin(path);

	wait_for(plugin.is_on());
	plugin.emit(5);
	dlclose(plugin.library);
	return dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

/* Then waits until the test has checked it. */
static int load_again_and_again(const char *path)
{
	int before = -1, after, r = 0;

	for (int i = 0; r == 0 && i < 20; i++) {
		r = load(path);
		after = dup(0);
		close(after);
		if (i > 0 && after != before)
			return 3;
		before = after;
	}
	wait_for(!userev_poll(NULL, 0));
	return r != 0 ? r : go_on(NULL);
}

static void *emit_for_ever(void *data)
{
	const struct plugin *plugin = data;

	for (;;)
		plugin->emit(8);
	return NULL;
}

/* exit() releases the events of all loaded libraries, while other threads may still emit. */
static int exit_while_others_emit(const char *path)
{
	static struct plugin plugin;
	pthread_t thread;

	plugin = load_plugin(path);
	wait_for(plugin.is_on());
	for (int i = 0; i < AT_ONCE; i++)
		if (pthread_create(&thread, NULL, emit_for_ever, &plugin) != 0)
			return 1;
	plugin.emit(9);
	exit(0);
}

static int use_the_library(const char *argument)
{
	wait_for(library_is_on());
	library_emit(6);
	userev_emit(static_shared, 7);
	return go_on(argument);
}

static const struct {
	const char *name;
	int (*act)(const char *argument);
} all[] = {
	{ "plain", go_on },
	{ "kinds", emit_kinds },
	{ "large", emit_large },
	{ "fork", go_on_in_both },
	{ "vfork", go_on_after_vfork },
	{ "exec", go_on_in_another_image },
	{ "daemon", become_a_daemon },
	{ "close", go_on_after_closing_all },
	{ "setuid", change_user },
	{ "chroot", change_root },
	{ "seccomp", go_on_without_system_calls },
	{ "threads", let_threads_come_and_go },
	{ "handler", emit_from_a_handler },
	{ "watch", know_by_watching },
	{ "ready", be_ready },
	{ "load", load_again_and_again },
	{ "exit", exit_while_others_emit },
	{ "library", use_the_library },
};

int main(int argc, char **argv)
{
	myself = argv[0];
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(all); i++)
		if (streq(argv[1], all[i].name))
			return all[i].act(argv[2]);
	return 102;
}
