/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Files are read by a thread of their own: a thousand of them on a slow disk are nothing that anybody should wait for. It has
 * nothing in common with the rest of the daemon but what it was given, and what it leaves. Whoever asks while it is at work
 * may have changed a file that was read already, so then it is done once more.
 *
 * With an error anywhere the old policy stays as it is; at the start, that is the one which a daemon before this one has kept.
 */

#include "daemon/admin/reload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/daemon.h"
#include "daemon/process/log.h"
#include "daemon/process/systemd.h"
#include "daemon/process/unprivileged.h"
#include "daemon/recovery/last_policy.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/rules.h"
#include "protocol/row.h"

TAILQ_HEAD(reload_listings, reload_listing);

/* What came of it, for all who want to know. */
struct outcome {
	unsigned references;
	struct problems problems;
	struct policy *policy;	 /* until it is adopted */
	struct policy_copy copy; /* of it, for the next daemon */
	int prepared;		 /* last_policy_prepare() */
	size_t files, sections;
	bool adopted;
	int r;
};

struct reload {
	struct daemon *daemon;
	pthread_t thread;
	bool has_thread;	   /* which may have ended */
	bool running;		   /* it reads */
	struct policy *superseded; /* what was in force before this one; some tenants may still go by it */
	struct policy *unused;	   /* what nobody goes by; the thread's */
	bool again;
	struct outcome *outcome;	/* that the thread fills */
	_Atomic bool is_filled;		/* which is more than that the loop was woken */
	struct reload_listings waiting; /* for this one */
	struct reload_listings later;	/* for the next one */
	ev_async w_done;
	struct policy_copy first; /* until we are who is to write it */
	char note[WIRE_SENTENCE_MAX + 1];
};

static struct outcome *outcome_new(void)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	if (outcome)
		outcome->references = 1;
	return outcome;
}

static struct outcome *outcome_unref(struct outcome *outcome)
{
	if (!outcome || --outcome->references > 0)
		return NULL;
	problems_deinit(&outcome->problems);
	policy_unref(outcome->policy);
	policy_copy_deinit(&outcome->copy);
	free(outcome);
	return NULL;
}

static void read_files(const struct daemon *daemon, struct outcome *outcome)
{
	outcome->r = policy_load_copying(daemon->options.policy, NULL, &outcome->problems,
					 daemon->options.state_directory ? &outcome->copy : NULL, &outcome->policy);
	if (outcome->r != 0)
		return;
	outcome->files = policy_count_files(outcome->policy);
	outcome->sections = policy_count_sections(outcome->policy);
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

/* Takes over what was read, if it is good. */
static void adopt(struct daemon *daemon, struct outcome *outcome)
{
	if (outcome->r == 0 && daemon->registry.kernel)
		outcome->r =
			policy_check_capacity(outcome->policy, daemon->registry.machine.capacity, &outcome->problems);
	log_problems(&outcome->problems);
	if (outcome->r == 0)
		outcome->r = rules_adopt(&daemon->registry, &outcome->policy);
	if (outcome->r != 0)
		return;
	policy_unref(daemon->reload->superseded);
	daemon->reload->superseded = steal_pointer(outcome->policy);
	outcome->adopted = true;
	if (!daemon->registry.kernel)
		return;
	capacity_look(&daemon->registry);
	declared_adopt(&daemon->registry);
}

/* Once a policy is in force: the next daemon goes on with it. Without that this one is none the worse. */
static void keep(struct daemon *daemon, int prepared)
{
	const char *directory = daemon->options.state_directory;
	int r = prepared == 0 ? last_policy_commit(directory) : prepared;

	daemon->reload->note[0] = '\0';
	if (r < 0)
		log_warning("can't keep the policy in %s for the next start: %s", directory, strerror(-r));
}

/* A Guard= of that policy's was heeded already, or came too late. */
static bool has_our_guard(const struct daemon *daemon, const struct policy *policy)
{
	return !daemon->registry.kernel || policy_daemon(policy, POLICY_GUARD)->number ==
						   policy_daemon(daemon->registry.policy, POLICY_GUARD)->number;
}

/* 0; or POLICY_E_WRONG after a sentence. */
static int find_last(struct daemon *daemon, struct policy **ret, time_t *ret_since)
{
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	char buffer[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(buffer, sizeof(buffer));
	int r = last_policy_read(daemon->options.state_directory, unprivileged_user(daemon->options.user), &policy,
				 ret_since, &why);

	if (r == 0 && !has_our_guard(daemon, policy))
		text_printf(&why, "it has another Guard=");
	else if (r == 0 && daemon->registry.kernel &&
		 policy_check_capacity(policy, daemon->registry.machine.capacity, &problems) != 0)
		text_printf(&why, "there is no room for its reserves either");
	if (buffer[0]) {
		log_error("there is no last good policy to go on with: %s", buffer);
		return POLICY_E_WRONG;
	}
	*ret = steal_pointer(policy);
	return 0;
}

static int go_on_with_last(struct daemon *daemon)
{
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	struct reload *reload = daemon->reload;
	char since[64];
	struct tm tm;
	time_t time;
	int r;

	if (!daemon->options.state_directory || daemon->options.strict_policy)
		return POLICY_E_WRONG;
	r = find_last(daemon, &policy, &time);
	if (r == 0)
		r = rules_adopt(&daemon->registry, &policy);
	if (r != 0)
		return r;
	policy_copy_deinit(&reload->first);
	strftime(since, sizeof(since), "%F %T", localtime_r(&time, &tm));
	snprintf(
		reload->note, sizeof(reload->note),
		"the policy files have errors: an older policy is in force, the last good one, loaded first on %s; correct "
		"the files, and reload",
		since);
	log_error("%s", reload->note);
	if (daemon->registry.kernel)
		capacity_look(&daemon->registry);
	return 0;
}

static int say_wrong(int r)
{
	if (r == POLICY_E_WRONG)
		log_error("the policy is not clear, so nothing is started; 'userevctl policy check' shows the same");
	return r;
}

int reload_check_capacity(struct daemon *daemon)
{
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	int r = policy_check_capacity(daemon->registry.policy, daemon->registry.machine.capacity, &problems);

	log_problems(&problems);
	/* What is in force already may be that. */
	if (r == POLICY_E_WRONG && !daemon->reload->note[0])
		r = go_on_with_last(daemon);
	return say_wrong(r);
}

int reload_first(struct daemon *daemon)
{
	struct outcome *outcome = outcome_new();
	int r;

	if (!outcome)
		return -ENOMEM;
	if (daemon->options.state_directory)
		last_policy_make_directory(daemon->options.state_directory, unprivileged_user(daemon->options.user));
	read_files(daemon, outcome);
	adopt(daemon, outcome);
	r = outcome->r;
	if (r == 0) {
		daemon->reload->first = outcome->copy;
		outcome->copy = (struct policy_copy){ 0 };
	} else if (r == POLICY_E_WRONG) {
		r = say_wrong(go_on_with_last(daemon));
	} else {
		log_error("the policy can't be read: %s", strerror(-r));
	}
	outcome_unref(outcome);
	return r;
}

void reload_keep_first(struct daemon *daemon)
{
	struct policy_copy *first = &daemon->reload->first;

	if (first->bytes)
		keep(daemon, last_policy_prepare(daemon->options.state_directory, first));
	policy_copy_deinit(first);
}

const char *reload_note(const struct daemon *daemon)
{
	return daemon->reload->note;
}

static void *run(void *data)
{
	struct reload *reload = data;

	/* Here, since hundreds of sections take longer than anybody should have to wait. */
	reload->unused = policy_unref(reload->unused);
	read_files(reload->daemon, reload->outcome);
	/* It waits for the disk. */
	if (reload->outcome->copy.bytes && reload->outcome->r == 0)
		reload->outcome->prepared =
			last_policy_prepare(reload->daemon->options.state_directory, &reload->outcome->copy);
	policy_copy_deinit(&reload->outcome->copy);
	atomic_store(&reload->is_filled, true);
	ev_async_send(reload->daemon->loop, &reload->w_done);
	return NULL;
}

/* Not as soon as it is done: it may have to wait for a processor in order to end, and we with it. */
static void end_thread(struct reload *reload)
{
	if (reload->has_thread)
		pthread_join(reload->thread, NULL);
	reload->has_thread = false;
}

/* Unless somebody still goes by it, who then frees it. */
static void give_up_superseded(struct reload *reload)
{
	struct policy *policy = steal_pointer(reload->superseded);

	/* There is one still where no thread could be started. */
	reload->unused = policy_unref(reload->unused);
	if (policy && policy_has_one_holder(policy))
		reload->unused = policy;
	else
		policy_unref(policy);
}

/* The signals are the loop's. */
static int start_thread(struct reload *reload)
{
	sigset_t all, before;
	int r;

	end_thread(reload);
	give_up_superseded(reload);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&reload->thread, NULL, run, reload);
	reload->has_thread = r == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

struct reload_listing {
	struct listing listing;
	struct reload *reload;
	struct reload_listings *queue; /* NULL: it waits no more */
	TAILQ_ENTRY(reload_listing) entry;
	struct outcome *outcome;
	size_t next;
	bool told;
};

static void queue(struct reload_listing *listing, struct reload_listings *to)
{
	listing->queue = to;
	TAILQ_INSERT_TAIL(to, listing, entry);
}

static void unqueue(struct reload_listing *listing)
{
	if (listing->queue)
		TAILQ_REMOVE(listing->queue, listing, entry);
	listing->queue = NULL;
}

static void tell_all(struct reload *reload, struct outcome *outcome)
{
	struct reload_listing *listing;

	while ((listing = TAILQ_FIRST(&reload->waiting))) {
		unqueue(listing);
		outcome->references++;
		listing->outcome = outcome;
		listing_continue(listing->listing.client);
	}
}

static void log_outcome(const struct outcome *outcome)
{
	if (outcome->adopted)
		log_notice("the policy is loaded: %zu section%s from %zu file%s", outcome->sections,
			   outcome->sections == 1 ? "" : "s", outcome->files, outcome->files == 1 ? "" : "s");
	else if (outcome->r < 0)
		log_error("the policy can't be read (%s); the old one stays", strerror(-outcome->r));
	else
		log_error("the policy has errors; the old one stays");
}

static void finish(struct reload *reload)
{
	struct outcome *outcome = steal_pointer(reload->outcome);

	adopt(reload->daemon, outcome);
	log_outcome(outcome);
	if (outcome->adopted)
		keep(reload->daemon, reload->daemon->options.state_directory ? outcome->prepared : LAST_POLICY_SAME);
	tell_all(reload, outcome);
	outcome_unref(outcome);
}

/* There is always one to tell of what went wrong. */
static struct outcome *outcome_or_none(void)
{
	static struct outcome none = { .references = 1, .r = -ENOMEM };
	struct outcome *outcome = outcome_new();

	if (outcome)
		return outcome;
	none.references++;
	return &none;
}

static void begin(struct reload *reload)
{
	int r;

	reload->outcome = outcome_or_none();
	r = reload->outcome->r;
	if (r == 0)
		r = start_thread(reload);
	reload->running = r == 0;
	/* From here on the outcome is the thread's. */
	if (reload->running)
		return;
	reload->outcome->r = r;
	log_error("the policy can't be read again: %s", strerror(-r));
	tell_all(reload, reload->outcome);
	reload->outcome = outcome_unref(reload->outcome);
	systemd_say_ready(&reload->daemon->systemd);
}

static void on_done(struct ev_loop *loop _unused_, ev_async *w, int events _unused_)
{
	struct reload *reload = container_of(w, struct reload, w_done);
	struct reload_listing *listing;

	if (!atomic_exchange(&reload->is_filled, false))
		return;
	reload->running = false;
	finish(reload);
	while ((listing = TAILQ_FIRST(&reload->later))) {
		unqueue(listing);
		queue(listing, &reload->waiting);
	}
	if (!reload->again) {
		systemd_say_ready(&reload->daemon->systemd);
		return;
	}
	reload->again = false;
	begin(reload);
}

void reload_begin(struct daemon *daemon)
{
	struct reload *reload = daemon->reload;

	systemd_say_reloading(&daemon->systemd);
	if (reload->running)
		reload->again = true;
	else
		begin(reload);
}

int reload_init(struct daemon *daemon)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return -ENOMEM;
	reload->daemon = daemon;
	TAILQ_INIT(&reload->waiting);
	TAILQ_INIT(&reload->later);
	ev_async_init(&reload->w_done, on_done);
	ev_async_start(daemon->loop, &reload->w_done);
	daemon->reload = reload;
	return 0;
}

/* By now there is nobody left who waits. */
void reload_deinit(struct daemon *daemon)
{
	struct reload *reload = daemon->reload;

	if (!reload)
		return;
	end_thread(reload);
	policy_copy_deinit(&reload->first);
	policy_unref(reload->superseded);
	policy_unref(reload->unused);
	ev_async_stop(daemon->loop, &reload->w_done);
	outcome_unref(reload->outcome);
	free(reload);
	daemon->reload = NULL;
}

static void put_problem(struct packet *packet, const struct problem *problem)
{
	row_put_string(packet, "severity", problem->severity == PROBLEM_ERROR ? "error" : "warning");
	row_put_string(packet, "file", problem->file ? problem->file : "");
	row_put_u64(packet, "line", problem->line);
	row_put_string(packet, "key", problem->key ? problem->key : "");
	row_put_string(packet, "sentence", problem->sentence);
}

static int next_row(struct listing *base, struct packet *packet)
{
	struct reload_listing *listing = container_of(base, struct reload_listing, listing);
	const struct outcome *outcome = listing->outcome;

	if (!outcome)
		return LISTING_IDLE;
	if (listing->next < outcome->problems.n) {
		put_problem(packet, &outcome->problems.list[listing->next++]);
		return LISTING_ROW;
	}
	if (listing->told)
		return LISTING_END;
	listing->told = true;
	row_put_bool(packet, "loaded", outcome->adopted);
	row_put_u64(packet, "files", outcome->files);
	row_put_u64(packet, "sections", outcome->sections);
	row_put_string(packet, "why", outcome->r < 0 ? strerror(-outcome->r) : "");
	return LISTING_ROW;
}

static void deinit_listing(struct listing *base)
{
	struct reload_listing *listing = container_of(base, struct reload_listing, listing);

	unqueue(listing);
	outcome_unref(listing->outcome);
}

int handle_reload(struct client *client, const struct message *message)
{
	static const struct listing_kind kind = { .next = next_row, .deinit = deinit_listing };
	struct reload *reload = daemon_of(client)->reload;
	struct reload_listing *listing;

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	if (!control_may_list(client, message->serial, false))
		return 0;
	listing = calloc(1, sizeof(*listing));
	if (!listing) {
		control_refuse(client, message->serial, REFUSAL_TROUBLE,
			       "the daemon is out of memory; try again later");
		return 0;
	}
	listing->reload = reload;
	queue(listing, reload->running ? &reload->later : &reload->waiting);
	listing_start(client, &listing->listing, &kind, message->serial);
	reload_begin(daemon_of(client));
	return 0;
}
