/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first program in a guest (run-guest.sh boots it). It makes the host's files the root, read-only below an overlay whose changes
 * go to a disk that is thrown away, runs one command there as root and switches the machine off.
 *
 *   init command     its output goes to the second serial port as it is, its exit status into the share
 *   init shell       the second serial port is its terminal
 *   init systemd     systemd is started instead; under-systemd.sh has made the command a unit
 *   init probe       says that it is alive, and nothing else: can this machine run a guest at all?
 *
 * The share is a directory that host and guest may both write: the command is in it, and what comes of it. The first serial port is
 * the kernel's alone, so that nothing that a command prints can be taken for the end of it.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define ROOT	  "/new"
#define SHARE	  "/run/guest"
#define OVER_9P	  "trans=virtio,version=9p2000.L,msize=262144"
#define KEPT_MAX  8
#define FILES_MAX 524288

/* What a mount would hide: the checkout may be below /tmp. */
struct kept {
	char path[PATH_MAX];
	int tree;
};

/* The first one is the console, or that is a port of another kind. */
static char serial_port[64] = "/dev/ttyS1";
static struct kept kept[KEPT_MAX];
static size_t n_kept;

static _Noreturn void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

/* Without a status the host knows that something went wrong, and shows this, which is on the console. */
static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
	power_off();
}

static void make_directories(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(path, 0755);
	}
	mkdir(path, 0755);
}

static int try_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *options)
{
	mkdir(target, 0755);
	return mount(source, target, type, flags, options);
}

static void mount_needed(const char *type, const char *target, unsigned long flags, const char *options)
{
	if (try_mount(type, target, type, flags, options) < 0)
		give_up(target);
}

/* Not every kernel has it. */
static void mount_if_there(const char *type, const char *target, const char *options)
{
	if (try_mount(type, target, type, 0, options) < 0 && errno != ENODEV && errno != ENOENT && errno != EPERM)
		fprintf(stderr, "init: %s: %s\n", target, strerror(errno));
}

static void mount_root(void)
{
	if (try_mount("host", "/host", "9p", MS_RDONLY, OVER_9P ",cache=loose") < 0)
		give_up("the host's files");
	if (try_mount("share", "/share", "9p", 0, OVER_9P ",cache=none") < 0)
		give_up("the share");
	mount_needed("devtmpfs", "/dev", 0, NULL);
	if (try_mount("/dev/vda", "/changes", "ext4", 0, "noinit_itable") < 0)
		give_up("the disk for changes");
	mkdir("/changes/upper", 0755);
	mkdir("/changes/work", 0755);
	mount_needed("overlay", ROOT, 0, "lowerdir=/host,upperdir=/changes/upper,workdir=/changes/work");
}

/* The root of a guest of another machine does not have the checkout, which is a share of its own then. */
static void mount_checkout(void)
{
	char under_root[PATH_MAX] = ROOT;
	const size_t root = sizeof(ROOT) - 1;
	FILE *file;

	if (try_mount("checkout", "/checkout", "9p", MS_RDONLY, OVER_9P ",cache=loose") < 0)
		return;
	file = fopen("/share/keep", "re");
	if (!file || !fgets(under_root + root, (int)(sizeof(under_root) - root), file))
		give_up("the checkout");
	fclose(file);
	under_root[strcspn(under_root, "\n")] = '\0';
	make_directories(under_root);
	mkdir("/changes/checkout", 0755);
	mkdir("/changes/checkout-work", 0755);
	mount_needed("overlay", under_root, 0,
		     "lowerdir=/checkout,upperdir=/changes/checkout,workdir=/changes/checkout-work");
}

static bool is_hidden(const char *path)
{
	static const char *const hidden[] = { "/tmp/", "/run/", "/dev/shm/" };

	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
		if (strncmp(path, hidden[i], strlen(hidden[i])) == 0)
			return true;
	return false;
}

static void take_kept(void)
{
	FILE *file = fopen("/share/keep", "re");
	char under_root[PATH_MAX + sizeof(ROOT)];

	while (file && n_kept < KEPT_MAX && fgets(kept[n_kept].path, PATH_MAX, file)) {
		struct kept *next = &kept[n_kept];

		next->path[strcspn(next->path, "\n")] = '\0';
		if (!is_hidden(next->path))
			continue;
		snprintf(under_root, sizeof(under_root), ROOT "%s", next->path);
		next->tree = open_tree(AT_FDCWD, under_root, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (next->tree < 0)
			give_up(next->path);
		n_kept++;
	}
	if (file)
		fclose(file);
}

static void put_kept(void)
{
	for (size_t i = 0; i < n_kept; i++) {
		make_directories(kept[i].path);
		if (move_mount(kept[i].tree, "", AT_FDCWD, kept[i].path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			give_up(kept[i].path);
		close(kept[i].tree);
	}
}

static void enter_root(void)
{
	if (chdir(ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		give_up(ROOT);
}

static void mount_the_rest(void)
{
	mount_needed("proc", ROOT "/proc", 0, NULL);
	mount_needed("sysfs", ROOT "/sys", 0, NULL);
	mount_needed("devtmpfs", ROOT "/dev", 0, "mode=755");
	mount_needed("devpts", ROOT "/dev/pts", 0, "mode=620,gid=5,ptmxmode=666");
	mount_needed("tmpfs", ROOT "/dev/shm", 0, "mode=1777");
	mount_needed("tmpfs", ROOT "/tmp", 0, "mode=1777");
	mount_needed("tmpfs", ROOT "/run", 0, "mode=755");
	mkdir(ROOT "/run/lock", 01777);
	mkdir(ROOT SHARE, 0755);
	if (mount("/share", ROOT SHARE, NULL, MS_MOVE, NULL) < 0)
		give_up(SHARE);
	if (!getenv("NO_CGROUPS"))
		mount_if_there("cgroup2", ROOT "/sys/fs/cgroup", NULL);
	mount_if_there("tracefs", ROOT "/sys/kernel/tracing", NULL);
	mount_if_there("bpf", ROOT "/sys/fs/bpf", "mode=700");
	mount_if_there("securityfs", ROOT "/sys/kernel/security", NULL);
}

static void finish_root(void)
{
	symlink("/proc/self/fd", "/dev/fd");
	symlink("fd/0", "/dev/stdin");
	symlink("fd/1", "/dev/stdout");
	symlink("fd/2", "/dev/stderr");
	/* systemd and others would think that they are in the container in which the host may be. */
	unlink("/.dockerenv");
	unlink("/run/.containerenv");
	sethostname("guest", 5);
}

static void bring_loopback_up(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		fprintf(stderr, "init: lo: %s\n", strerror(errno));
	close(fd);
}

static void set_limits_and_environment(void)
{
	/* As systemd sets it for services. */
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 1024, FILES_MAX });
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("USER", "root", 1);
	setenv("LOGNAME", "root", 1);
	setenv("SHELL", "/bin/bash", 1);
	setenv("TERM", "dumb", 1);
	umask(022);
}

static int open_serial(bool raw)
{
	int fd = open(serial_port, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios settings;

	if (fd < 0 || tcgetattr(fd, &settings) < 0)
		give_up(serial_port);
	if (raw)
		cfmakeraw(&settings);
	cfsetspeed(&settings, B115200);
	tcsetattr(fd, TCSANOW, &settings);
	return fd;
}

/* Bash runs the script that the host left. With a terminal it gets that to control, else only something to print to. */
static pid_t start(const char *script, int input, int output, bool with_terminal)
{
	sigset_t none;
	pid_t pid = fork();

	if (pid < 0)
		give_up("fork");
	if (pid > 0)
		return pid;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	if (with_terminal)
		ioctl(STDIN_FILENO, TIOCSCTTY, 0);
	execl("/bin/bash", "bash", script, (char *)NULL);
	_exit(127);
}

/* True when it was that child; the orphans of others are taken care of by the way. */
static bool reaped(pid_t child, int *ret_status)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == child) {
			*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			return true;
		}
	}
	return false;
}

static void write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0)
			return;
		bytes += n;
		size -= (size_t)n;
	}
}

/* Not longer than there is something to copy now: what the command left running may hold the pipe for ever. */
static bool copy_what_is_there(int from, int to)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		write_all(to, bytes, (size_t)n);
	return n < 0;
}

static int wait_for(pid_t child, int children, int output, int serial)
{
	struct pollfd fds[] = { { .fd = children, .events = POLLIN }, { .fd = output, .events = POLLIN } };
	struct signalfd_siginfo ignored;
	int status;

	while (!reaped(child, &status)) {
		poll(fds, 2, -1);
		if (fds[0].revents)
			(void)!read(children, &ignored, sizeof(ignored));
		if (fds[1].revents && !copy_what_is_there(output, serial))
			fds[1].fd = -1;
	}
	copy_what_is_there(output, serial);
	return status;
}

static int run_command(int children)
{
	int serial = open_serial(true), output[2], nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t child;

	if (pipe2(output, O_CLOEXEC) < 0 || fcntl(output[0], F_SETFL, O_NONBLOCK) < 0)
		give_up("pipe");
	child = start(SHARE "/command", nothing, output[1], false);
	close(output[1]);
	return wait_for(child, children, output[0], serial);
}

static int run_shell(int children)
{
	int serial = open_serial(false);

	return wait_for(start(SHARE "/command", serial, serial, true), children, -1, serial);
}

static void report(int status)
{
	int fd = open(SHARE "/status", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || dprintf(fd, "%d\n", status) < 0 || fsync(fd) < 0 || close(fd) < 0)
		give_up("the status");
}

static _Noreturn void become_systemd(int children)
{
	int console = open("/dev/console", O_RDWR | O_CLOEXEC);
	sigset_t none;

	if (wait_for(start(SHARE "/prepare", console, console, false), children, -1, -1) != 0)
		give_up("under-systemd.sh");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execl("/lib/systemd/systemd", "/lib/systemd/systemd", "--unit=guest.target", "--crash-reboot", (char *)NULL);
	give_up("/lib/systemd/systemd");
}

static int watch_children(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *port = getenv("SERIAL_PORT");
	int children, status;

	/* The kernel passes on words of its command line that it does not know. */
	if (port)
		snprintf(serial_port, sizeof(serial_port), "%s", port);
	if (strcmp(mode, "probe") == 0) {
		mount_needed("devtmpfs", "/dev", 0, NULL);
		write_all(open_serial(true), "alive\n", 6);
		power_off();
	}
	mount_root();
	mount_checkout();
	take_kept();
	mount_the_rest();
	enter_root();
	put_kept();
	finish_root();
	bring_loopback_up();
	set_limits_and_environment();
	children = watch_children();
	fprintf(stderr, "init: all is mounted\n");
	if (strcmp(mode, "systemd") == 0)
		become_systemd(children);
	status = strcmp(mode, "shell") == 0 ? run_shell(children) : run_command(children);
	report(status);
	power_off();
}
