/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The verbs of session, and its options. */

#include "client/userevctl/session/session.h"

#include "protocol/base/suggest.h"

static int set_running(struct session *session, bool on)
{
	const struct output *output = &session->ctl->output;
	int r = instance_write(session->instance, "tracing_on", on ? "1" : "0");

	if (r < 0)
		return tracefs_explain(on ? "start the session" : "stop the session", r);
	if (output->json)
		json_print(output->file, json_text("session", session->name), json_bool("on", on));
	else
		fprintf(output->file, "session '%s' is %s.\n", session->name, on ? "on" : "stopped");
	return EXIT_DONE;
}

static int session_start(struct session *session)
{
	return set_running(session, true);
}

static int session_stop(struct session *session)
{
	return set_running(session, false);
}

static int session_destroy(struct session *session)
{
	_cleanup_(freep) char *set_event = tracefs_instance_file_read(session->instance, "set_event", NULL);
	const struct output *output = &session->ctl->output;
	int r;

	/* The instance may not be in use. */
	tracefs_instance_free(session->instance);
	session->instance = NULL;
	r = session_erase(session->name);
	if (r == -EBUSY) {
		ctl_error("session '%s' is in use: another program reads it, or traces its probes. End that first.",
			  session->name);
		return EXIT_REFUSED;
	}
	if (r < 0)
		return tracefs_explain("destroy the session", r);
	session_unlimit(session, set_event ? set_event : "");
	if (output->json)
		json_print(output->file, json_text("session", session->name), json_bool("destroyed", true));
	else
		fprintf(output->file, "session '%s' is destroyed.\n", session->name);
	return EXIT_DONE;
}

static const struct verb {
	const char *name;
	int least, most; /* arguments behind it */
	bool locks;	 /* makes or removes a session */
	int (*run)(struct session *);
} verbs[] = {
	{ "create", 1, 1, true, session_create },
	{ "start", 1, 1, false, session_start },
	{ "stop", 1, 1, false, session_stop },
	{ "show", 1, 1, false, session_show },
	{ "list", 0, 0, false, session_list },
	{ "snapshot", 1, 1, false, session_snapshot },
	{ "destroy", 1, 1, true, session_destroy },
	{ "load", 0, INT32_MAX - 1, true, session_load },
	{ "check", 0, INT32_MAX - 1, false, session_check },
};

static int suggest_session(const char *instance, void *data)
{
	const char *name = session_of_instance(instance);

	if (name)
		suggest(data, name, strlen(name));
	return 0;
}

/* An enum exit_code. */
static int find_session(struct session *session, const struct verb *verb)
{
	struct suggestions suggestions = { .wanted = session->name };
	const char *nearest;

	session->instance = session_instance(session->name);
	if (session->instance || verb->run == session_create)
		return EXIT_DONE;
	tracefs_instances_walk(suggest_session, &suggestions);
	nearest = suggestions_nearest(&suggestions);
	if (nearest)
		ctl_error("there is no session '%s'. Did you mean '%s'?", session->name, nearest);
	else
		ctl_error("there is no session '%s'. See 'userevctl session list'.", session->name);
	return EXIT_REFUSED;
}

void session_init(struct session *session, struct ctl *ctl)
{
	*session = (struct session){ .ctl = ctl, .mode = session_modes[0] };
}

void session_deinit(struct session *session)
{
	tracefs_instance_free(session->instance);
	for (size_t i = 0; i < session->n_chosen; i++) {
		free(session->chosen[i].system);
		free(session->chosen[i].name);
	}
	free(session->chosen);
}

static int run_verb(struct session *session, const struct verb *verb)
{
	int lock, r = tracing_open(session->ctl, verb->run == session_create ? TRACING_ACT : TRACING_INSTANCES,
				   &session->tracing);

	if (r != EXIT_DONE)
		return r;
	if (!session->tracing->kernel) {
		ctl_error("session: the embedded backend has no sessions, which are the kernel's. 'userevctl tail "
			  "--json' records to a file.");
		return EXIT_REFUSED;
	}
	lock = sessions_lock(session->tracing);
	if (lock < 0)
		return tracefs_explain("lock the sessions", lock);
	sessions_clean();
	if (!verb->locks)
		lock = fd_close(lock);
	r = session->name ? find_session(session, verb) : EXIT_DONE;
	if (r == EXIT_DONE)
		r = verb->run(session);
	fd_close(lock);
	return r;
}

static int session_run(struct ctl *ctl)
{
	static struct session session; /* large */
	const struct verb *verb = verbs;
	int r;

	session_init(&session, ctl);
	options_read(ctl, &session, 1, INT32_MAX);
	while (verb < verbs + ARRAY_SIZE(verbs) && !streq(verb->name, ctl->argv[0]))
		verb++;
	if (verb == verbs + ARRAY_SIZE(verbs)) {
		ctl_error(
			"session: give create, start, stop, show, list, snapshot, destroy, load or check, not '%s'. See "
			"'userevctl session --help'.",
			excerpt_of(ctl->argv[0]).text);
		return EXIT_USAGE;
	}
	ctl_expect_arguments(ctl, verb->least + 1, verb->most + 1);
	session.name = verb->least > 0 ? ctl->argv[1] : NULL;
	if (session.name && !session_name_is_good(session.name)) {
		ctl_error("a session can't be called '%s': give at most %d letters, digits, '_', '-' and '.', of which "
			  "the first is none of the last two.",
			  excerpt_of(session.name).text, SESSION_NAME_MAX);
		return EXIT_USAGE;
	}
	/* Files are checked anywhere. */
	r = verb->run == session_check ? session_check(&session) : run_verb(&session, verb);
	session_deinit(&session);
	tracing_free(session.tracing);
	return r;
}

enum { SIZE_LEAST = 4096 };
#define SIZE_MOST (UINT64_C(1) << 40)

const struct option_row session_options[] = {
	VALUE_ROW("event", "EVENT", OPTION_TEXTS, struct session, events,
		  .help = "create: record these, a name or a pattern; may be given again"),
	VALUE_ROW("filter", "[EVENT: ]FILTER", OPTION_TEXTS, struct session, filters,
		  .help = "create: only records for which this is true, as 'us > 1000';\n"
			  "of the --event ones, or of the named one"),
	VALUE_ROW("trigger", "[EVENT: ]TRIGGER", OPTION_TEXTS, struct session, triggers,
		  .help = "create: the kernel does this then, as 'snapshot:1 if us > 5000'"),
	VALUE_ROW("kernel-event", "SYSTEM:NAME", OPTION_TEXTS, struct session, kernel_events,
		  .help = "create: also an event of the kernel, as sched:sched_switch"),
	VALUE_ROW("probe", "PROBE", OPTION_TEXTS, struct session, probes,
		  .help = "create: also one made of a function or an event, as\n"
			  "'p:opened do_sys_openat2' or 'e:slow user_events.NAME us=$us'"),
	TEXT_ROW("tracer", "TRACER", struct session, tracer, "create: also osnoise, timerlat, function, ..."),
	TEXT_ROW("pid", "PID[,PID...]", struct session, pids, "create: only records of these processes"),
	FLAG_ROW("children", struct session, children, "create: and of the children that they get"),
	VALUE_ROW("mode", "MODE", OPTION_WORD, struct session, mode, .words = session_modes,
		  .help = "create: flight-recorder keeps the newest records (default),\n"
			  "record the first ones"),
	VALUE_ROW("size", "BYTES", OPTION_SIZE, struct session, size, .least = SIZE_LEAST, .most = SIZE_MOST,
		  .help = "create: of the buffer of each processor; with k or M"),
	FLAG_ROW("stopped", struct session, stopped, "create: do not start it"),
	VALUE_ROW("tenant", "TENANT", OPTION_TEXTS, struct session, tenants,
		  .help = "create: only for these tenants, if the --event ones were off;\n"
			  "snapshot: only records of this one"),
	VALUE_ROW("output", "FILE", OPTION_TEXT, struct session, output, .help = "snapshot: write the records there",
		  .letter = 'o'),
	FLAG_ROW("now", struct session, now, "snapshot: take one now, also if a trigger has taken one"),
	{ 0 },
};

COMMAND(session, "create|list|...", "traces that go on without userevctl", session_options,
	"A session records events in the kernel, beside all other traces, until it is\n"
	"destroyed. It needs no program, and survives that of the daemon.\n"
	"\n"
	"  create NAME    make one of the events, filters, ... below, and start it\n"
	"  list           print all sessions\n"
	"  show NAME      print its events, filters, triggers and numbers\n"
	"  snapshot NAME  print its records, oldest first; it goes on\n"
	"  stop NAME      record nothing, until ...\n"
	"  start NAME     ... it goes on\n"
	"  destroy NAME   remove it: nothing is left in the kernel\n"
	"  load [NAME]    make those of the files in /etc/userevd/sessions.d, as at boot\n"
	"  check [FILE]   print the mistakes in these files, or in this one");
