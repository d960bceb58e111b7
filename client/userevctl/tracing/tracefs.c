/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The kernel's backends: userevctl reads and writes files of tracefs as any tracer does, and asks the daemon for the holders. */

#include "client/userevctl/tracing/tracefs.h"

#include <inttypes.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "kernel/probe.h"

char *tracefs_text(const char *name, size_t *ret_size)
{
	int size = 0;
	char *text = tracefs_instance_file_read(NULL, name, &size);

	if (text && ret_size)
		*ret_size = (size_t)size;
	return text;
}

int tracefs_read_format(const char *system, const char *name, struct event_format *ret)
{
	_cleanup_(freep) char *text = NULL;

	if (!catalogue_is_file_name(name))
		return -ENOENT;
	errno = 0;
	text = tracefs_event_file_read(NULL, system, name, "format", NULL);
	if (!text)
		return errno ? -errno : -ENOENT;
	return text_read_format(text, ret);
}

int tracefs_turn(struct tracefs_instance *instance, const char *system, const char *name, bool on)
{
	if (!catalogue_is_file_name(name))
		return -ENOENT;
	errno = 0;
	if (tracefs_event_file_write(instance, system, name, "enable", on ? "1" : "0") >= 0)
		return 0;
	return errno ? -errno : -EIO;
}

int tracefs_explain(const char *what, int error)
{
	if (error == -EACCES || error == -EPERM) {
		ctl_error("user %u may not %s. Tracing is for root: use sudo.", geteuid(), what);
		return EXIT_NOT_PERMITTED;
	}
	if (error == -EROFS)
		ctl_error("cannot %s: tracefs is mounted read-only here. In a container, run this on the host.", what);
	else
		ctl_error("cannot %s: %s.", what, strerror(-error));
	return EXIT_REFUSED;
}

static int ask_rows(const struct tracing *tracing, struct writers *writers, struct catalogue *catalogue)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r;

	r = control_open(tracing->ctl->control_socket, &control);
	if (r == 0)
		r = control_ask(control, KIND_EVENTS);
	if (r == 0 && writers)
		writers_begin(writers);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		r = catalogue_add_row(catalogue, row);
		if (r == 0 && writers)
			writers_learn(writers, row);
	}
	return r;
}

static bool look_at_multi(void *data _unused_, const char *shown, char *ret_fields, size_t size)
{
	struct event_format format;

	if (tracefs_read_format("user_events_multi", shown, &format) < 0)
		return false;
	string_copy(ret_fields, size, format.fields);
	return true;
}

int tracefs_catalogue(struct tracefs_tracing *tracefs, const char *status, size_t size, struct writers *writers,
		      struct catalogue *ret, int *ret_daemon)
{
	int r;

	*ret_daemon = 0;
	if (!tracefs->tracing.no_daemon)
		*ret_daemon = ask_rows(&tracefs->tracing, writers, ret);
	if (*ret_daemon < 0)
		return -EREMOTE;
	r = status ? catalogue_add_status(ret, status, size) : 0;
	if (r == 0)
		r = catalogue_merge(ret, look_at_multi, NULL);
	return r;
}

/* An enum exit_code. */
static int read_catalogue(struct tracefs_tracing *tracefs, struct catalogue *ret)
{
	_cleanup_(freep) char *status = NULL;
	size_t size = 0;
	int r, daemon;

	if (!tracefs->blind) {
		status = tracefs_text("user_events_status", &size);
		if (!status)
			return tracefs_explain("read user_events_status", errno ? -errno : -EIO);
	}
	r = tracefs_catalogue(tracefs, status, size, NULL, ret, &daemon);
	if (r == -EREMOTE)
		return control_explain(tracefs->tracing.ctl->control_socket, daemon, NULL);
	return r < 0 ? tracefs_explain("list events", r) : EXIT_DONE;
}

static int tracefs_list(struct tracing *tracing, char *const *patterns, int n, bool fields, event_take *take,
			void *data)
{
	struct tracefs_tracing *tracefs = tracefs_of(tracing);
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	int r = read_catalogue(tracefs, &catalogue);

	for (size_t i = 0; r == EXIT_DONE && i < catalogue.n; i++) {
		struct event_format format;
		struct event_view event;

		catalogue_view(&catalogue.events[i], &event);
		event.state_known = !tracefs->blind;
		if (n > 0 && !tracing_matches_any(tracing, patterns, n, &event))
			continue;
		if (fields && event.foreign && tracefs_read_format(event.system, event.shown, &format) == 0)
			event.fields = format.fields;
		take(data, &event);
	}
	return r;
}

static int tracefs_switch(struct tracing *tracing, char *const *patterns, int n, bool on, uint64_t *ret_events)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	int r = read_catalogue(tracefs_of(tracing), &catalogue);

	*ret_events = 0;
	for (size_t i = 0; r == EXIT_DONE && i < catalogue.n; i++) {
		struct event_view event;
		int error;

		catalogue_view(&catalogue.events[i], &event);
		if (!event.system || tracefs_of(tracing)->blind || !tracing_matches_any(tracing, patterns, n, &event))
			continue;
		error = tracefs_turn(NULL, event.system, event.shown, on);
		*ret_events += error == 0;
		/* Since the list was made, the event may have gone. */
		if (error < 0 && error != -ENOENT && error != -ENODEV)
			r = tracefs_explain(on ? "switch events on" : "switch events off", error);
	}
	return r;
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
static int tracefs_settle(struct tracing *tracing _unused_)
{
	struct tracefs_instance *instance;
	char name[64];
	int r = 0;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return EXIT_DONE;
	snprintf(name, sizeof(name), "userevctl-%d", (int)getpid());
	errno = 0;
	instance = tracefs_instance_create(name);
	if (!instance || tracefs_instance_destroy(instance) < 0)
		r = errno ? -errno : -EIO;
	tracefs_instance_free(instance);
	return r == 0 ? EXIT_DONE : tracefs_explain("wait for the last records", r);
}

static void tracefs_tracing_free(struct tracing *tracing)
{
	struct tracefs_tracing *tracefs = tracefs_of(tracing);

	session_free(tracefs->session);
	free(tracefs);
}

static int choose_tracefs(struct tracing *tracing)
{
	char *place = tracing->place;
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
	return tracefs_set_tracing_dir(place) < 0 ? tracefs_explain("use tracefs", -ENOMEM) : EXIT_DONE;
}

static int check_access(struct tracefs_tracing *tracefs, enum tracing_use use)
{
	struct tracing *tracing = &tracefs->tracing;
	char path[sizeof(tracing->place) + 32];

	snprintf(path, sizeof(path), "%s/user_events_status", tracing->place);
	if (access(path, R_OK) == 0)
		return EXIT_DONE;
	if (errno == ENOENT) {
		ctl_error("tracefs at %s has no user_events, but the daemon uses them: is it on another machine?",
			  tracing->place);
		return EXIT_REFUSED;
	}
	if (use == TRACING_ACT)
		return tracefs_explain("read tracefs", -errno);
	tracefs->blind = true;
	ctl_note("userevctl: user %u may not read tracefs: the state of events is not shown. Use sudo.", geteuid());
	return EXIT_DONE;
}

int tracing_tracefs_new(struct ctl *ctl, enum tracing_use use, bool no_daemon, struct tracing **ret)
{
	static const struct tracing_ops ops = {
		.list = tracefs_list,
		.turn = tracefs_switch,
		.settle = tracefs_settle,
		.tail_begin = session_begin,
		.tail_read = session_read,
		.free = tracefs_tracing_free,
	};
	struct tracefs_tracing *tracefs = calloc(1, sizeof(*tracefs));
	struct tracing *tracing;
	FILE *file;
	int r;

	if (!tracefs)
		return tracefs_explain("begin", -ENOMEM);
	tracing = &tracefs->tracing;
	*tracing = (struct tracing){ .ops = &ops, .ctl = ctl, .fd = -1, .kernel = true, .no_daemon = no_daemon };
	r = choose_tracefs(tracing);
	if (r == EXIT_DONE)
		r = check_access(tracefs, use);
	if (r != EXIT_DONE) {
		free(tracefs);
		return r;
	}
	file = fopen("/proc/sys/kernel/user_events_max", "re");
	if (file) {
		tracing->events_max_known = fscanf(file, "%" SCNu64, &tracing->events_max) == 1;
		fclose(file);
	}
	*ret = tracing;
	return EXIT_DONE;
}
