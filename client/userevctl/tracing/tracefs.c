/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The kernel's backends: userevctl reads and writes files of tracefs as any tracer does, and asks the daemon for the holders. */

#include "client/userevctl/tracing/tracefs.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "client/userevctl/tracing/hist.h"
#include "kernel/probe.h"

int tracefs_read_format(const char *system, const char *name, struct event_format *ret)
{
	_cleanup_(freep) char *text = NULL;

	if (!text_is_file_name(name))
		return -ENOENT;
	text = tracefs_event_file_read(NULL, system, name, "format", NULL);
	if (!text)
		return errno ? -errno : -ENOENT;
	return text_read_format(text, ret);
}

int tracefs_write_event_file(struct tracefs_instance *instance, const struct event *event, const char *file,
			     const char *text)
{
	if (!text_is_file_name(event->shown))
		return 0;
	/* Appended, since a trigger file that is truncated loses its histograms. */
	if (tracefs_event_file_append(instance, event->system, event->shown, file, text) >= 0)
		return 1;
	if (errno == ENOENT || errno == ENODEV)
		return 0;
	return errno ? -errno : -EIO;
}

int tracefs_turn(struct tracefs_instance *instance, const struct event *event, bool on)
{
	return tracefs_write_event_file(instance, event, "enable", on ? "1" : "0");
}

void tracing_learn_fields(struct tracing *tracing)
{
	_cleanup_(freep) char *text = NULL;

	if (tracing->events.foreign > 0 && !tracing->blind)
		text = tracefs_instance_file_read(NULL, "dynamic_events", NULL);
	if (text)
		catalogue_learn_fields(&tracing->events, text);
}

int tracefs_explain(const char *action, int error)
{
	if (error == -EACCES || error == -EPERM) {
		ctl_error("user %u may not %s. Tracing is for root: use sudo.", geteuid(), action);
		return EXIT_NOT_PERMITTED;
	}
	if (error == -EROFS)
		ctl_error("cannot %s: tracefs is mounted read-only here. In a container, run this on the host.",
			  action);
	else
		ctl_error("cannot %s: %s.", action, strerror(-error));
	return EXIT_REFUSED;
}

void tracefs_explain_refused(const char *name, const char *text, const char *log, int error)
{
	static const char mark[] = "error: ";
	const char *sentence = strerror(-error);

	/* It ends with "hist:user_events:a: error: Couldn't find field", "Command: ...", and a line that points at the place. */
	for (const char *at = log; at && (at = strstr(at, mark));)
		sentence = at += strlen(mark);
	ctl_error("%s: the kernel refuses '%s': %.*s", safe_string(name).text, text, (int)strcspn(sentence, "\n"),
		  sentence);
}

int tracefs_set_condition(struct tracefs_instance *instance, const struct event *event, const char *file,
			  const char *text)
{
	int r = tracefs_write_event_file(instance, event, file, text);
	_cleanup_(freep) char *log = NULL;

	if (r != -EINVAL && r != -ENOENT)
		return r;
	log = tracefs_instance_file_read(instance, "error_log", NULL);
	tracefs_explain_refused(event->shown, text, log, r);
	return CONDITION_REFUSED;
}

int instance_write(struct tracefs_instance *instance, const char *file, const char *text)
{
	return tracefs_instance_file_write(instance, file, text) >= 0 ? 0 : errno ? -errno : -EIO;
}

int instance_remove(struct tracefs_instance *instance)
{
	int r = tracefs_instance_destroy(instance) < 0 ? errno ? -errno : -EIO : 0;

	tracefs_instance_free(instance);
	return r;
}

/*
 * An instance is called userevctl-PID: a later userevctl removes the instances of processes that were killed. An instance in use
 * cannot be removed, so a pid that belongs to another namespace does no harm.
 */
static int remove_leftover(const char *name, void *data _unused_)
{
	pid_t pid = text_instance_pid(name);
	struct tracefs_instance *instance;

	if (pid == 0 || (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH)))
		return 0;
	instance = tracefs_instance_alloc(NULL, name);
	if (!instance)
		return 0;
	hists_remove(instance, pid);
	instance_remove(instance);
	return 0;
}

int instance_set_up(struct tracefs_instance *instance)
{
	/* A new instance inherits options of the top instance. Which of these files exist depends on the kernel. */
	static const struct {
		const char *file, *value;
	} settings[] = {
		{ "options/overwrite", "1" },  { "options/record-cmd", "1" },	  { "options/event-fork", "0" },
		{ "options/stacktrace", "0" }, { "options/userstacktrace", "0" }, { "tracing_on", "1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (tracefs_file_exists(instance, settings[i].file))
			tracefs_instance_file_write(instance, settings[i].file, settings[i].value);
	return instance_write(instance, "trace_clock", "mono");
}

int instance_make(struct tracefs_instance **ret)
{
	struct tracefs_instance *instance;
	char name[32];

	tracefs_instances_walk(remove_leftover, NULL);
	snprintf(name, sizeof(name), "userevctl-%d", (int)getpid());
	*ret = instance = tracefs_instance_create(name);
	if (!instance)
		return errno ? -errno : -EIO;
	if (tracefs_file_exists(instance, "buffer_percent"))
		tracefs_instance_file_write(instance, "buffer_percent", "0");
	return instance_set_up(instance);
}

/*
 * The kernel switches an event off without waiting for writes in progress: a write() looks up its tracers and calls them with
 * preemption disabled, as a reader of RCU (user_events_write_core()), and on another CPU it may have looked up ours just before
 * they were removed. A grace period waits for all of those. (perf waits for one by itself when it ends, and so does the removal
 * of an instance.)
 *
 * membarrier() is synchronize_rcu(), since Linux 4.3. With nohz_full it fails, and seccomp filters may forbid it; then an
 * instance is made and removed, which costs a directory for each event of the kernel.
 */
int tracing_settle(const struct tracing *tracing)
{
	struct tracefs_instance *instance;
	int r, removed;

	if (!tracing->kernel || syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return EXIT_DONE;
	r = instance_make(&instance);
	removed = instance ? instance_remove(instance) : 0;
	r = r < 0 ? r : removed;
	return r == 0 ? EXIT_DONE : tracefs_explain("wait for the last records", r);
}

int tracefs_open(struct tracing *tracing, enum tracing_use use)
{
	char *place = tracing->place, path[sizeof(tracing->place) + 32];
	struct probe probe;

	probe_machine(NULL, &probe);
	if (tracing->no_daemon && !probe.has_user_events)
		return EXIT_NO_DAEMON;
	string_copy(place, sizeof(tracing->place), probe.tracefs_mounted ? probe.tracefs : "/sys/kernel/tracing");
	/* For this process alone, so that nothing is left behind, and the host can still unmount its file systems. */
	if (!probe.tracefs_mounted &&
	    (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	     mount("tracefs", place, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)) {
		ctl_error("tracefs is not mounted here: 'mount -t tracefs tracefs /sys/kernel/tracing', as root. In a "
			  "container, run this on the host.");
		return geteuid() == 0 ? EXIT_REFUSED : EXIT_NOT_PERMITTED;
	}
	if (tracefs_set_tracing_dir(place) < 0)
		return tracefs_explain("use tracefs", -ENOMEM);
	snprintf(path, sizeof(path), "%s/user_events_status", place);
	if (access(path, R_OK) == 0)
		return EXIT_DONE;
	if (errno == ENOENT) {
		ctl_error("tracefs at %s has no user_events, but the daemon uses them: is it on another machine?",
			  place);
		return EXIT_REFUSED;
	}
	if (use >= TRACING_ACT)
		return tracefs_explain("read tracefs", -errno);
	tracing->blind = true;
	ctl_note("userevctl: user %u may not read tracefs: the state of events is not shown. Use sudo.", geteuid());
	return EXIT_DONE;
}
