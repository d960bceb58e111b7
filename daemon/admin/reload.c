/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A thread reads the files, since a thousand files on a slow disk would block the loop. It shares nothing with the rest of the
 * daemon but its outcome. A reload that is requested while the thread runs starts a second one behind it, because the thread may
 * have read a file before that was changed.
 *
 * With an error in any file the policy in force stays; at the start, the daemon uses the copy of the last good policy.
 *
 * A kubelet renews the files of a ConfigMap all at once: it replaces the link "..data" to their directory. So that is a reload, too.
 * With AutoReload=yes so is each other change in the directories, once nothing has changed for a moment: an admin may copy several files.
 */

#include "daemon/admin/reload.h"

#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/daemon.h"
#include "daemon/native/native.h"
#include "daemon/process/log.h"
#include "daemon/process/systemd.h"
#include "daemon/process/unprivileged.h"
#include "daemon/recovery/last_policy.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/own_trace.h"
#include "daemon/registry/rules.h"
#include "protocol/row.h"

#define SETTLED_SECONDS 0.5

/* The result of one reload, for the log and for all admins that wait for it. */
struct outcome {
	unsigned references;
	struct problems problems;
	struct policy *policy; /* until it is adopted; then the one before */
	uint32_t capacity;     /* for reserves and declared events; UINT32_MAX: there is no kernel yet */
	int kept;	       /* a negative errno: the copy for the next daemon was not written */
	size_t files, sections;
	bool is_done; /* the loop has taken it */
	int r;
};

/* An admin that waits for an outcome. */
struct reload_listing {
	struct listing listing;
	struct outcome *outcome;
};

/* With one reference, which the caller owns. NULL: no memory. */
static struct outcome *outcome_new(void)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	if (outcome)
		*outcome = (struct outcome){ .references = 1, .capacity = UINT32_MAX };
	return outcome;
}

static struct outcome *outcome_unref(struct outcome *outcome)
{
	if (!outcome || --outcome->references > 0)
		return NULL;
	problems_deinit(&outcome->problems);
	policy_unref(outcome->policy);
	free(outcome);
	return NULL;
}

static void outcome_fill(const struct daemon *daemon, struct outcome *outcome)
{
	outcome->r = policy_load(daemon->options.policy, NULL, &outcome->problems, &outcome->policy);
	if (outcome->r != 0)
		return;
	outcome->files = outcome->policy->n_files;
	outcome->sections = outcome->policy->sections.n;
	outcome->r = policy_check_capacity(outcome->policy, outcome->capacity, &outcome->problems);
}

static void log_problems(const struct problems *problems)
{
	char line[1024];

	for (size_t i = 0; i < problems->n; i++) {
		struct text text = text_make(line, sizeof(line));

		problem_text(&problems->list[i], &text);
		log_line(LOG_OF_DAEMON, problems->list[i].severity == PROBLEM_ERROR ? LOG_ERR : LOG_WARNING, "%s",
			 line);
	}
	if (problems->failed)
		log_error("out of memory: not all that is wrong with the policy files is shown");
}

/* FNV-1a: the same files have the same digest on each machine. */
static void note_policy(struct daemon *daemon, time_t loaded)
{
	const struct policy_copy *copy = &daemon->registry.policy->copy;
	uint64_t digest = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < copy->size; i++)
		digest = (digest ^ (unsigned char)copy->bytes[i]) * UINT64_C(0x100000001b3);
	daemon->reload.digest = digest;
	daemon->reload.loaded = loaded;
}

/* Puts the policy in force, if it has no error. */
static void outcome_adopt(struct daemon *daemon, struct outcome *outcome)
{
	log_problems(&outcome->problems);
	if (outcome->r == 0)
		outcome->r = rules_adopt(&daemon->registry, &outcome->policy);
	if (outcome->r == 0)
		note_policy(daemon, time(NULL));
	if (outcome->r != 0 || !daemon->registry.kernel)
		return;
	capacity_look(&daemon->registry);
	declared_adopt(&daemon->registry);
	own_traces_check(&daemon->registry);
	native_adopt_policy(&daemon->registry);
}

/* Without its copy the next daemon may not start, but this one goes on. */
static void log_kept(const struct daemon *daemon, int r)
{
	if (r < 0)
		log_warning("can't keep the policy in %s for the next start: %s", daemon->options.state_directory,
			    strerror(-r));
}

/* Puts the copy of the last good policy in force. 0; POLICY_E_WRONG after a line in the log; or a negative errno. */
static int reload_use_last(struct daemon *daemon)
{
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	const struct registry *registry = &daemon->registry;
	char buffer[WIRE_SENTENCE_MAX + 1], since[64];
	struct text why = text_make(buffer, sizeof(buffer));
	struct reload *reload = &daemon->reload;
	struct tm tm;
	time_t time;
	int r;

	if (!daemon->options.state_directory || daemon->options.strict_policy)
		return POLICY_E_WRONG;
	r = last_policy_read(daemon->options.state_directory, daemon->user.uid, &policy, &time, &why);
	/* Guard= is read before the kernel is opened, and not again. */
	if (r == 0 && registry->kernel &&
	    policy_daemon(policy, POLICY_GUARD)->number != policy_daemon(registry->policy, POLICY_GUARD)->number)
		text_printf(&why, "it has another Guard=");
	else if (r == 0 && registry->kernel &&
		 policy_check_capacity(policy, registry->machine.capacity, &problems) != 0)
		text_printf(&why, "there is no room for its reserves either");
	if (buffer[0]) {
		log_error("there is no last good policy to go on with: %s", buffer);
		return POLICY_E_WRONG;
	}
	r = rules_adopt(&daemon->registry, &policy);
	if (r != 0)
		return r;
	note_policy(daemon, time);
	strftime(since, sizeof(since), "%F %T", localtime_r(&time, &tm));
	snprintf(reload->note, sizeof(reload->note),
		 "the policy files have errors: an older policy is in force, the last good one, loaded first on %s; "
		 "correct the files, and reload",
		 since);
	log_error("%s", reload->note);
	if (registry->kernel)
		capacity_look(&daemon->registry);
	return 0;
}

int reload_check_capacity(struct daemon *daemon)
{
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	int r = policy_check_capacity(daemon->registry.policy, daemon->registry.machine.capacity, &problems);

	log_problems(&problems);
	/* Unless the last policy is already in force. */
	if (r == POLICY_E_WRONG && !daemon->reload.note[0])
		r = reload_use_last(daemon);
	return r;
}

int reload_first(struct daemon *daemon)
{
	const char *directory = daemon->options.state_directory;
	struct outcome *outcome = outcome_new();
	int r;

	if (!outcome)
		return -ENOMEM;
	/* A missing one. If that fails, last_policy_keep() fails, too. */
	if (directory && mkdir(directory, 0700) == 0)
		(void)!chown(directory, daemon->user.uid, (gid_t)-1);
	outcome_fill(daemon, outcome);
	outcome_adopt(daemon, outcome);
	r = outcome->r;
	outcome_unref(outcome);
	if (r == POLICY_E_WRONG)
		return reload_use_last(daemon);
	if (r < 0)
		log_error("the policy can't be read: %s", strerror(-r));
	return r;
}

void reload_keep_first(struct daemon *daemon)
{
	if (daemon->options.state_directory)
		log_kept(daemon, last_policy_keep(daemon->options.state_directory, &daemon->registry.policy->copy));
}

static void *reload_thread(void *data)
{
	struct daemon *daemon = data;
	const char *directory = daemon->options.state_directory;
	struct outcome *outcome = daemon->reload.outcome;

	outcome_fill(daemon, outcome);
	if (directory && outcome->r == 0)
		outcome->kept = last_policy_keep(directory, &outcome->policy->copy);
	atomic_store(&daemon->reload.is_filled, true);
	ev_async_send(daemon->loop, &daemon->reload.w_done);
	return NULL;
}

/* Before the next thread or at the end: a thread that is done may still have to wait for a processor before it exits. */
static void join_thread(struct reload *reload)
{
	if (reload->has_thread)
		pthread_join(reload->thread, NULL);
	reload->has_thread = false;
}

static void reload_start(struct daemon *daemon)
{
	struct reload *reload = &daemon->reload;
	sigset_t all, before;

	join_thread(reload);
	reload->outcome->capacity = daemon->registry.machine.capacity;
	/* Signals are handled by the loop's thread alone. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	reload->has_thread = pthread_create(&reload->thread, NULL, reload_thread, daemon) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* Without a thread the loop waits for the disk. */
	if (!reload->has_thread)
		reload_thread(daemon);
}

static int reload_next(struct listing *listing, struct packet *packet)
{
	const struct outcome *outcome = container_of(listing, struct reload_listing, listing)->outcome;
	const struct problem *problem;

	if (!outcome->is_done)
		return LISTING_IDLE;
	if (listing->n_rows > outcome->problems.n)
		return LISTING_END;
	if (listing->n_rows < outcome->problems.n) {
		problem = &outcome->problems.list[listing->n_rows];
		row_put_string(packet, "severity", problem->severity == PROBLEM_ERROR ? "error" : "warning");
		row_put_string(packet, "file", problem->file);
		row_put_u64(packet, "line", problem->line);
		row_put_string(packet, "key", problem->key ? problem->key : "");
		row_put_string(packet, "sentence", problem->sentence);
		return LISTING_ROW;
	}
	row_put_bool(packet, "loaded", outcome->r == 0);
	row_put_u64(packet, "files", outcome->files);
	row_put_u64(packet, "sections", outcome->sections);
	row_put_string(packet, "why", outcome->r < 0 ? strerror(-outcome->r) : "");
	return LISTING_ROW;
}

static void reload_listing_deinit(struct listing *listing)
{
	outcome_unref(container_of(listing, struct reload_listing, listing)->outcome);
}

static const struct listing_kind reload_kind = {
	.size = sizeof(struct reload_listing),
	.next = reload_next,
	.deinit = reload_listing_deinit,
};

static void on_reload_done(struct ev_loop *loop _unused_, ev_async *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, reload.w_done);
	struct reload *reload = &daemon->reload;
	struct outcome *outcome = reload->outcome;

	if (!atomic_exchange(&reload->is_filled, false))
		return;
	reload->outcome = steal_pointer(reload->next);
	outcome_adopt(daemon, outcome);
	outcome->is_done = true;
	reload->n++;
	if (outcome->r == 0)
		log_notice("the policy is loaded: %zu section%s from %zu file%s", outcome->sections,
			   outcome->sections == 1 ? "" : "s", outcome->files, outcome->files == 1 ? "" : "s");
	else if (outcome->r < 0)
		log_error("the policy can't be read (%s); the old one stays", strerror(-outcome->r));
	else
		log_error("the policy has errors; the old one stays");
	if (outcome->r == 0)
		reload->note[0] = '\0';
	else if (!reload->note[0])
		string_copy(reload->note, sizeof(reload->note),
			    "the policy files have errors: an older policy is in force; correct the files, and reload");
	log_kept(daemon, outcome->kept);
	outcome_unref(outcome);
	listings_continue(daemon, &reload_kind);
	if (reload->outcome)
		reload_start(daemon);
	else
		systemd_say_ready(&daemon->systemd);
}

/* The outcome of a reload that begins after this. NULL: no memory. */
static struct outcome *reload_ask(struct daemon *daemon)
{
	struct reload *reload = &daemon->reload;
	struct outcome *outcome = reload->next ? reload->next : outcome_new();

	if (!outcome || outcome == reload->next)
		return outcome;
	systemd_say_reloading(&daemon->systemd);
	if (reload->outcome) {
		reload->next = outcome;
	} else {
		reload->outcome = outcome;
		reload_start(daemon);
	}
	return outcome;
}

void reload_begin(struct daemon *daemon)
{
	if (!reload_ask(daemon))
		log_error("out of memory: the policy files are not read again");
}

static void on_link_replaced(struct ev_loop *loop _unused_, ev_stat *w, int events _unused_)
{
	reload_begin(container_of(w, struct daemon, reload.w_link));
}

static void on_settled(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, reload.w_settled);

	ev_timer_stop(loop, w);
	if (policy_daemon(daemon->registry.policy, POLICY_AUTO_RELOAD)->number)
		reload_begin(daemon);
}

static void on_directory_changed(struct ev_loop *loop, ev_io *w, int events _unused_)
{
	struct reload *reload = container_of(w, struct reload, w_watch);
	char changes[4096];

	while (read(w->fd, changes, sizeof(changes)) > 0)
		;
	ev_timer_again(loop, &reload->w_settled);
}

/* Also without AutoReload=, which a reload may set. */
static void watch_directories(struct daemon *daemon)
{
	const uint32_t changes = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR;
	const char *directories = daemon->options.policy;
	struct reload *reload = &daemon->reload;
	char path[PATH_MAX];

	reload->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (reload->watch < 0) {
		log_warning("changes of the policy files are not noticed, whatever AutoReload= is: %s",
			    strerror(errno));
		return;
	}
	for (size_t length; *directories; directories += length + (directories[length] == ':')) {
		length = strcspn(directories, ":");
		snprintf(path, sizeof(path), "%.*s", (int)length, directories);
		/* One that does not exist has no files. */
		if (inotify_add_watch(reload->watch, path, changes) < 0 && errno != ENOENT &&
		    policy_daemon(daemon->registry.policy, POLICY_AUTO_RELOAD)->number)
			log_warning("AutoReload=: changes in %s are not noticed: %s", path, strerror(errno));
	}
	ev_io_init(&reload->w_watch, on_directory_changed, reload->watch, EV_READ);
	ev_io_start(daemon->loop, &reload->w_watch);
	ev_init(&reload->w_settled, on_settled);
	reload->w_settled.repeat = SETTLED_SECONDS;
}

void reload_init(struct daemon *daemon)
{
	struct reload *reload = &daemon->reload;
	const char *directories = daemon->options.policy;

	/* Of the first directory that has one. */
	for (size_t length; *directories; directories += length + (directories[length] == ':')) {
		struct stat status;

		length = strcspn(directories, ":");
		snprintf(reload->link, sizeof(reload->link), "%.*s/..data", (int)length, directories);
		if (lstat(reload->link, &status) < 0)
			continue;
		ev_stat_init(&reload->w_link, on_link_replaced, reload->link, 0.);
		ev_stat_start(daemon->loop, &reload->w_link);
		break;
	}
	watch_directories(daemon);
	ev_async_init(&daemon->reload.w_done, on_reload_done);
	ev_async_start(daemon->loop, &daemon->reload.w_done);
}

void reload_deinit(struct daemon *daemon)
{
	join_thread(&daemon->reload);
	if (ev_is_active(&daemon->reload.w_watch))
		fd_close(daemon->reload.watch);
	outcome_unref(daemon->reload.outcome);
	outcome_unref(daemon->reload.next);
}

int handle_reload(struct client *client, const struct message *message)
{
	struct reload_listing *listing = listing_new(client, message->serial, &reload_kind);

	if (!listing)
		return 0;
	listing->outcome = reload_ask(daemon_of(client));
	if (!listing->outcome)
		return -ENOMEM;
	listing->outcome->references++;
	listing_continue(client);
	return 0;
}
