/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * userevd-keeper: root's part. Opens what only root may, gives up what it doesn't need, and serves the daemon. Where systemd
 * starts it, these are two processes: one that prepares and ends, and one without any privilege, which outlives its daemons.
 */

#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kernel/keeper/handover.h"
#include "kernel/keeper/mounts.h"
#include "kernel/keeper/serve.h"
#include "kernel/privileges.h"
#include "kernel/probe.h"
#include "kernel/program.h"
#include "kernel/user_events/enabler.h"

#ifndef CAP_BPF
#define CAP_PERFMON 38
#define CAP_BPF	    39
#endif

#define BIT(capability) (UINT64_C(1) << (capability))

enum guard { GUARD_OFF, GUARD_PREFER, GUARD_REQUIRE };

/* A daemon that is upgraded on a busy machine is back in that time; clients that nobody answers wait no longer than that. */
enum { HOLD_SECONDS = 60 };

/* Beside the socket on which systemd listens for it. */
#define KEEPER_PAGES "/run/userevd-keeper/pages"

struct keeper_options {
	const char *backend; /* "auto", or the one that it has to be */
	enum guard guard;
	const char *pages; /* the directory for them; "": none */
	bool prepare;	   /* and nothing else */
	unsigned hold;	   /* seconds */
	struct kernel_limits limits;
};

enum {
	OPTION_ENABLER = 256,
	OPTION_BACKEND,
	OPTION_GUARD,
	OPTION_PERSIST,
	OPTION_CAPACITY,
	OPTION_PAGE_BITS,
	OPTION_PAGES,
	OPTION_PREPARE,
	OPTION_HOLD,
	OPTION_VERSION
};

static const struct option long_options[] = {
	{ "enabler", no_argument, NULL, OPTION_ENABLER },
	{ "backend", required_argument, NULL, OPTION_BACKEND },
	{ "guard", required_argument, NULL, OPTION_GUARD },
	{ "allow-persist", no_argument, NULL, OPTION_PERSIST },
	{ "capacity", required_argument, NULL, OPTION_CAPACITY },
	{ "page-bits", required_argument, NULL, OPTION_PAGE_BITS },
	{ "pages", required_argument, NULL, OPTION_PAGES },
	{ "prepare", no_argument, NULL, OPTION_PREPARE },
	{ "hold", required_argument, NULL, OPTION_HOLD },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ 0 },
};

static void print_help(void)
{
	printf("Usage: userevd-keeper [OPTION…]\n"
	       "\n"
	       "Holds the kernel's part of userevd, which starts it with a socket as file descriptor %d, or connects to it\n"
	       "where systemd starts it. Not for people.\n"
	       "\n"
	       "      --backend=NAME     auto, status-page or enable-address (default auto)\n"
	       "      --guard=MODE       require, prefer or off: what keeps clients from registering by themselves on\n"
	       "                         the files that they are given (default prefer)\n"
	       "      --allow-persist    keep CAP_PERFMON, for events that outlive their programs\n"
	       "      --capacity=N       events in the whole machine (default: what the kernel can)\n"
	       "      --page-bits=N      bits in a status page\n"
	       "      --pages=DIR        where status pages are, so that a successor finds them (default for systemd's\n"
	       "                         %s)\n"
	       "      --prepare          make the mounts and load the guard, hand them to systemd for the keeper, and end\n"
	       "      --hold=SECONDS     how long to keep everything while no daemon is connected (default %d)\n"
	       "  -h, --help             show this help\n"
	       "      --version          show the version\n"
	       "\n"
	       "See userevd-keeper(8).\n",
	       KEEPER_SOCKET, KEEPER_PAGES, HOLD_SECONDS);
}

static int parse_guard(const char *text, enum guard *ret)
{
	static const char *const names[] = { "off", "prefer", "require" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (streq(text, names[i])) {
			*ret = (enum guard)i;
			return 0;
		}
	}
	fprintf(stderr, "userevd-keeper: --guard=%s: give require, prefer or off\n", text);
	return -EINVAL;
}

static int parse_hold(const char *text, unsigned *ret)
{
	unsigned long seconds;
	char *end;

	errno = 0;
	seconds = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || seconds > INT32_MAX) {
		fprintf(stderr, "userevd-keeper: --hold=%s: give a number of seconds\n", text);
		return -EINVAL;
	}
	*ret = (unsigned)seconds;
	return 0;
}

/* -1: go on; else an exit status. */
static int parse_options(int argc, char **argv, struct keeper_options *ret)
{
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
		switch (option) {
		case OPTION_ENABLER:
			return enabler_run(ENABLER_SOCKET);
		case OPTION_BACKEND:
			ret->backend = optarg;
			break;
		case OPTION_GUARD:
			if (parse_guard(optarg, &ret->guard) < 0)
				return 2;
			break;
		case OPTION_PERSIST:
			ret->limits.persist = true;
			break;
		case OPTION_CAPACITY:
			ret->limits.capacity = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case OPTION_PAGE_BITS:
			ret->limits.page_bits = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case OPTION_PAGES:
			ret->pages = optarg;
			break;
		case OPTION_PREPARE:
			ret->prepare = true;
			break;
		case OPTION_HOLD:
			if (parse_hold(optarg, &ret->hold) < 0)
				return 2;
			break;
		case OPTION_VERSION:
			printf("userevd-keeper %s\n", VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			fprintf(stderr, "Try 'userevd-keeper --help'.\n");
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "userevd-keeper: no arguments are wanted, only options: '%s'\n", argv[optind]);
		return 2;
	}
	return -1;
}

/* Which ABI, by trying; one that was named has to be that one. */
static int choose_backend(const struct keeper_options *options, const struct mounts *mounts, enum wire_backend *ret,
			  struct text *why)
{
	struct probe probe = { .kind = BACKEND_EMBEDDED };

	probe_tracefs(mounts->tracefs, &probe);
	if (!probe.has_user_events || probe.kind == BACKEND_EMBEDDED) {
		text_printf(why, "this kernel has no user_events; Linux 6.4 or later with CONFIG_USER_EVENTS=y has");
		return -EOPNOTSUPP;
	}
	if (!streq(options->backend, "auto") && !streq(options->backend, backend_name(probe.kind))) {
		text_printf(why, "this machine has no %s: this kernel has user_events (%s)", options->backend,
			    backend_name(probe.kind));
		return -EOPNOTSUPP;
	}
	*ret = probe.kind;
	return 0;
}

/* The loader's own words, one line, or what can be said without them. */
static void read_sentence(int from, int status, char *ret, size_t size)
{
	static const char prefix[] = "userevd-guard: ";
	ssize_t n = read(from, ret, size - 1);

	ret[MAX(n, 0)] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	if (strncmp(ret, prefix, strlen(prefix)) == 0)
		memmove(ret, ret + strlen(prefix), strlen(ret + strlen(prefix)) + 1);
	if (*ret == '\0')
		snprintf(ret, size, "userevd-guard ended with status %#x", (unsigned)status);
}

/* 0: what is opened through the mount is guarded, for whoever `keeper` says; else why not. */
static int load_guard(const char *path, const struct mounts *mounts, char *keeper, char *why, size_t size)
{
	char mount[48];
	char *const argv[] = { (char[]){ "userevd-guard" }, mount, keeper, NULL };
	char *const environment[] = { NULL };
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	posix_spawn_file_actions_t actions;
	int words[2], status = -1, r;
	pid_t pid;

	snprintf(mount, sizeof(mount), "--mount=%llu", (unsigned long long)mounts->tracefs_id);
	if (!*path) {
		snprintf(why, size, "userevd-guard is not installed");
		return -ENOENT;
	}
	if (pipe2(words, O_CLOEXEC) < 0)
		return -errno;
	ours = words[0];
	theirs = words[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, theirs, STDERR_FILENO);
	r = -posix_spawn(&pid, path, &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	fd_close(fd_steal(&theirs));
	if (r < 0) {
		snprintf(why, size, "userevd-guard can't be started: %s", strerror(-r));
		return r;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return 0;
	read_sentence(ours, status, why, size);
	return -EOPNOTSUPP;
}

static void raise_limits(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit files;

	/* Every page is locked in memory. */
	setrlimit(RLIMIT_MEMLOCK, &all);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static bool may_write(int tracefs, const char *name)
{
	int fd = openat(tracefs, name, O_WRONLY | O_CLOEXEC);

	fd_close(fd);
	return fd >= 0;
}

/* Of the file, or of the directory where that is what bars the way. */
static uid_t owner_of(int tracefs, const char *name)
{
	struct stat status;

	if (fstatat(tracefs, name, &status, 0) == 0 || fstat(tracefs, &status) == 0)
		return status.st_uid;
	return 0;
}

static void say_why_no_data(int tracefs, int error, struct text *why)
{
	uid_t owner = owner_of(tracefs, "user_events_data");

	if (error == -EACCES && owner != 0)
		text_printf(
			why,
			"tracefs belongs to user %u, and the keeper is root without privileges; remount it with uid=0",
			owner);
	else if (error == -EACCES && may_write(tracefs, "user_events_data"))
		text_printf(why, "user_events_status can't be read; give root that permission (chmod u+r)");
	else if (error == -EACCES)
		text_printf(why,
			    "user_events_data can't be opened for writing; give root that permission (chmod u+rw)");
	else if (error == -EPERM)
		text_printf(why, "the kernel doesn't let anybody open user_events_data (lockdown?)");
	else
		text_printf(why, "can't use user_events: %s", strerror(-error));
}

/* Where this process is in cgroup v2, as an option of the guard's: what systemd runs as one unit is one keeper. */
static int find_cgroup(char *ret, size_t size)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX] = "", path[PATH_MAX + 32];

	while (file && fgets(line, sizeof(line), file) && strncmp(line, "0::/", 4) != 0)
		*line = '\0';
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; *line && i < ARRAY_SIZE(mounts); i++) {
		snprintf(path, sizeof(path), "%s%s", mounts[i], line + 3);
		if (access(path, F_OK) == 0 && snprintf(ret, size, "--cgroup=%s", path) < (int)size)
			return 0;
	}
	return -ENOENT;
}

/* By hand a keeper is its process and the children of that; a unit is made anew at each start, and has a cgroup for itself. */
static int name_keeper(const struct keeper_options *options, char *ret, size_t size)
{
	if (options->prepare)
		return find_cgroup(ret, size);
	snprintf(ret, size, "--process=%d", (int)getpid());
	return 0;
}

static void guard_mount(const struct keeper_options *options, const char *guard, struct preparation *preparation)
{
	char keeper[PATH_MAX + 64];
	int r = name_keeper(options, keeper, sizeof(keeper));

	if (r < 0)
		snprintf(preparation->no_guard, sizeof(preparation->no_guard), "there is no cgroup v2");
	else
		r = load_guard(guard, &preparation->mounts, keeper, preparation->no_guard,
			       sizeof(preparation->no_guard));
	preparation->guarded = r == 0;
}

static int open_pages(const struct keeper_options *options, enum wire_backend backend, const char *tracefs,
		      struct mounts *ret, struct text *why)
{
	const char *directory = *options->pages ? options->pages : NULL;

	if (backend == BACKEND_STATUS_PAGE)
		return mounts_open_status(tracefs, directory, ret, why);
	return mounts_open_pages(directory, ret, why);
}

/* Everything for which root's privileges are needed. 0 or a negative errno with a sentence. */
static int prepare(const struct keeper_options *options, struct preparation *ret, struct text *why)
{
	enum wire_backend backend = BACKEND_EMBEDDED;
	char guard[PATH_MAX];
	const char *tracefs;
	struct probe probe;
	int r;

	*ret = PREPARATION_NONE;
	/* Looked for now: what /proc/self/exe says in another namespace leads nowhere where we live in a chroot. */
	if (program_beside("userevd-guard", guard, sizeof(guard)) < 0)
		*guard = '\0';
	probe_machine(NULL, &probe);
	if (options->guard == GUARD_OFF)
		snprintf(ret->no_guard, sizeof(ret->no_guard), "switched off");
	else
		mounts_prepare();
	tracefs = probe.tracefs_mounted ? probe.tracefs : NULL;
	r = mounts_open_tracefs(tracefs, &ret->mounts, why);
	if (r == 0)
		r = choose_backend(options, &ret->mounts, &backend, why);
	if (r == 0 && options->guard != GUARD_OFF)
		guard_mount(options, guard, ret);
	if (r == 0 && options->guard == GUARD_REQUIRE && !ret->guarded) {
		text_printf(why, "there is no guard, and it is required: %s", ret->no_guard);
		r = -EOPNOTSUPP;
	}
	if (r == 0)
		r = open_pages(options, backend, tracefs, &ret->mounts, why);
	if (r < 0)
		preparation_deinit(ret);
	return r;
}

/*
 * Without CAP_SYS_RESOURCE the kernel lets all processes of uid 0 together, those in containers included, have only so many fds
 * in flight. Where there is no such capability, what the keeper sends may have to wait.
 */
static uint64_t wanted_privileges(const struct keeper_options *options)
{
	return (privileges_held() & BIT(CAP_SYS_RESOURCE)) | (options->limits.persist ? BIT(CAP_PERFMON) : 0);
}

/* With what was prepared, and without any other privilege. 0 or a negative errno with a sentence. */
static int start(const struct keeper_options *options, struct preparation *preparation, struct kernel **ret,
		 struct text *why)
{
	enum wire_backend backend = BACKEND_EMBEDDED;
	_cleanup_(fd_closep) int tracefs = -1;
	int r;

	r = choose_backend(options, &preparation->mounts, &backend, why);
	if (r < 0)
		return r;
	/* What was handed over is closed where it fails. */
	tracefs = fcntl(preparation->mounts.tracefs, F_DUPFD_CLOEXEC, 0);
	raise_limits();
	r = privileges_keep(wanted_privileges(options));
	if (r == 0) {
		r = user_events_new(backend, &preparation->mounts, &options->limits, ret);
		preparation->mounts = PREPARATION_NONE.mounts;
	}
	if (r != 0) {
		say_why_no_data(tracefs, r, why);
		return r;
	}
	(*ret)->facts.guarded = preparation->guarded;
	if (!preparation->guarded && backend == BACKEND_ENABLE_ADDRESS)
		snprintf((*ret)->facts.note, sizeof((*ret)->facts.note), "%s", preparation->no_guard);
	return 0;
}

/*
 * Also what can't be had is handed over, and is no failure of the unit's: whoever asks is told why, and does without, where
 * else systemd would start us again and again.
 */
static int prepare_for_another(const struct keeper_options *options)
{
	_cleanup_(preparation_deinit) struct preparation preparation = PREPARATION_NONE;
	char sentence[WIRE_SENTENCE_MAX + 1] = "";
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	/* What is for mounts, and what is for the guard, which gives up the first. */
	r = privileges_keep(BIT(CAP_SYS_ADMIN) | BIT(CAP_SETPCAP) | BIT(CAP_BPF) | BIT(CAP_PERFMON));
	if (r == 0 && prepare(options, &preparation, &why) < 0)
		string_copy(preparation.failure, sizeof(preparation.failure), sentence);
	if (r == 0)
		r = handover_put(&preparation);
	if (r < 0)
		fprintf(stderr, "userevd-keeper: can't hand over what was prepared: %s\n", strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Whoever starts us by hand may have something else there. */
static bool has_socket(void)
{
	int type;
	socklen_t size = sizeof(type);

	return getsockopt(KEEPER_SOCKET, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

/* `preparation`: perhaps what it has come to is why there is nothing. NULL with a sentence. */
static struct kernel *open_kernel(const struct keeper_options *options, bool is_prepared,
				  struct preparation *preparation, struct text *why)
{
	struct kernel *kernel = NULL;
	int r = 0;

	if (is_prepared && *preparation->failure)
		text_printf(why, "%s", preparation->failure);
	else if (!is_prepared)
		r = prepare(options, preparation, why);
	if (r == 0 && why->length == 0)
		start(options, preparation, &kernel, why);
	return kernel;
}

static void say_why_no_more(int r)
{
	fprintf(stderr, "userevd-keeper: can't go on: %s\n", strerror(-r));
}

/* As userevd's child. */
static int serve_parent(const struct keeper_options *options, int socket, struct preparation *preparation)
{
	char sentence[WIRE_SENTENCE_MAX + 1] = "";
	struct text why = text_make(sentence, sizeof(sentence));
	struct kernel *kernel;
	int r;

	/* It ends with its daemon, not before it: what a terminal or a supervisor says is the daemon's to hear. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	kernel = open_kernel(options, false, preparation, &why);
	if (!kernel) {
		keeper_refuse(socket, sentence);
		return EXIT_FAILURE;
	}
	/* There was no keeper before this one that could have handed over anything. */
	kernel_tell(kernel, (struct kernel_call){ .op = KERNEL_DISOWN, .fd = -1 });
	r = keeper_serve(socket, kernel, NULL);
	/* What made no sense was said when it came. */
	if (r < 0 && r != -EPROTO) {
		text_printf(&why, "the keeper can't go on: %s", strerror(-r));
		keeper_refuse(socket, sentence);
	}
	kernel_free(kernel);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* One daemon is told, and the next one tries another keeper. */
static int refuse_next(int listener, uid_t owner, unsigned hold, const char *sentence)
{
	struct pollfd ask = { .fd = listener, .events = POLLIN };
	int socket, r = 0;

	while (r == 0 && poll(&ask, 1, (int)MIN(hold, INT32_MAX / 1000U) * 1000) > 0)
		r = keeper_accept(listener, owner, &socket);
	if (r > 0) {
		keeper_refuse(socket, sentence);
		fd_close(socket);
	}
	return r;
}

/* Where systemd starts it; what it was not handed, it needs privileges for. */
static int serve_all(const struct keeper_options *options, int listener, struct preparation *preparation)
{
	const bool is_prepared = preparation->mounts.tracefs >= 0 || *preparation->failure;
	const uid_t owner = keeper_find_owner(listener);
	char sentence[WIRE_SENTENCE_MAX + 1] = "";
	struct text why = text_make(sentence, sizeof(sentence));
	struct kernel *kernel = open_kernel(options, is_prepared, preparation, &why);
	int r;

	r = kernel ? keeper_serve_all(listener, owner, options->hold, kernel)
		   : refuse_next(listener, owner, options->hold, sentence);
	/* The daemon has all pages, too, and the next keeper gets them from it: they must not end with this one. */
	if (r < 0)
		say_why_no_more(r);
	else
		kernel_free(kernel);
	/* Who was told that it can't start is no failure of the unit's. */
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct keeper_options options = { .backend = "auto", .pages = "", .guard = GUARD_PREFER, .hold = HOLD_SECONDS };
	_cleanup_(preparation_deinit) struct preparation preparation = PREPARATION_NONE;
	int listener, r;

	r = parse_options(argc, argv, &options);
	if (r >= 0)
		return r;
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (options.prepare) {
		options.pages = *options.pages ? options.pages : KEEPER_PAGES;
		return prepare_for_another(&options);
	}
	r = handover_take(&listener, &preparation);
	if (r == 0 && !*options.pages)
		options.pages = KEEPER_PAGES;
	if (r == 0)
		return serve_all(&options, listener, &preparation);
	if (r == -ENOENT && !has_socket()) {
		fprintf(stderr, "userevd-keeper is started by userevd or by systemd; see userevd(8)\n");
		return 2;
	}
	if (r == -ENOENT)
		r = fcntl(KEEPER_SOCKET, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0)
		return serve_parent(&options, KEEPER_SOCKET, &preparation);
	fprintf(stderr, "userevd-keeper: can't take what it was handed: %s\n", strerror(-r));
	return EXIT_FAILURE;
}
