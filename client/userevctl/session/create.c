/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * session create. Filters are set before an event is switched on, so that no other record is written; triggers when all events are on,
 * so that a snapshot has all of them. A failure removes what was made.
 */

#include "client/userevctl/session/session.h"

const char *const session_modes[] = { "flight-recorder", "record", NULL };

static int write_setting(struct tracefs_instance *instance, const char *file, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return instance_write(instance, file, text);
}

static int set_up_buffers(struct session *session)
{
	struct tracefs_instance *instance = session->instance;
	int r = instance_set_up(instance);

	if (r == 0 && session->size > 0)
		r = write_setting(instance, "buffer_size_kb", (session->size + 1023) / 1024);
	if (r == 0)
		r = write_setting(instance, "options/overwrite", session->mode == session_modes[0]);
	if (r == 0 && session->stopped)
		r = write_setting(instance, "tracing_on", 0);
	if (r == -ENOMEM)
		ctl_error("there is not enough memory for buffers of this size, of which each processor has one. Give "
			  "a smaller --size.");
	return r == -ENOMEM ? EXIT_REFUSED : r < 0 ? tracefs_explain("set the session up", r) : EXIT_DONE;
}

/* "12,34" */
static int set_up_processes(struct session *session)
{
	_cleanup_(freep) char *pids = must(strdup(session->pids ? session->pids : ""));
	struct tracefs_instance *instance = session->instance;
	const size_t length = strlen(pids);
	int r = 0;

	if (!session->pids && !session->children)
		return EXIT_DONE;
	for (size_t i = 0; i < length; i++)
		if (pids[i] == ',' && i > 0)
			pids[i] = ' ';
	if (strspn(pids, "0123456789 ") != length || length == 0 || pids[length - 1] == ' ') {
		ctl_error(session->pids ? "--pid=%s: give numbers of processes, as 12,34."
					: "--children%s: give --pid, too.",
			  session->pids ? excerpt_of(session->pids).text : "");
		return EXIT_USAGE;
	}
	if (session->children)
		r = instance_write(instance, "options/event-fork", "1");
	if (r == 0)
		r = instance_write(instance, "set_event_pid", pids);
	/* For the tracer called function. */
	if (r == 0 && tracefs_file_exists(instance, "set_ftrace_pid"))
		r = instance_write(instance, "set_ftrace_pid", pids);
	if (r == 0 && session->children && tracefs_file_exists(instance, "options/function-fork"))
		r = instance_write(instance, "options/function-fork", "1");
	return r < 0 ? tracefs_explain("select processes", r) : EXIT_DONE;
}

static int set_up_tracer(struct session *session)
{
	_cleanup_(freep) char *tracers = NULL;
	int r = session->tracer ? instance_write(session->instance, "current_tracer", session->tracer) : 0;

	session->tried = session->tracer;
	if (r != -EINVAL && r != -EBUSY)
		return r < 0 ? tracefs_explain("use this tracer", r) : EXIT_DONE;
	tracers = tracefs_instance_file_read(session->instance, "available_tracers", NULL);
	if (r == -EBUSY)
		ctl_error("--tracer=%s: the kernel can't run it beside a tracer of another session.",
			  excerpt_of(session->tracer).text);
	else
		ctl_error("--tracer=%s: the kernel has no such tracer for sessions. It has: %.*s",
			  excerpt_of(session->tracer).text, tracers ? (int)strcspn(tracers, "\n") : 0,
			  tracers ? tracers : "");
	return EXIT_REFUSED;
}

static int switch_events_on(struct session *session)
{
	size_t on = 0;

	for (size_t i = 0; i < session->n_chosen; i++) {
		const struct event event = { .shown = session->chosen[i].name, .system = session->chosen[i].system };
		int r = tracefs_turn(session->instance, &event, true);

		if (r < 0)
			return tracefs_explain("switch events on", r);
		on += r == 1;
	}
	if (on > 0 || session->tracer)
		return EXIT_DONE;
	ctl_error("the events have gone meanwhile.");
	return EXIT_REFUSED;
}

static int create(struct session *session)
{
	int r = set_up_buffers(session);

	if (r == EXIT_DONE)
		r = set_up_processes(session);
	if (r == EXIT_DONE)
		r = session_make_probes(session);
	if (r == EXIT_DONE)
		r = session_set_conditions(session, "filter", &session->filters);
	if (r == EXIT_DONE)
		r = session_limit(session);
	if (r == EXIT_DONE)
		r = switch_events_on(session);
	if (r == EXIT_DONE)
		r = set_up_tracer(session);
	if (r == EXIT_DONE)
		r = session_set_conditions(session, "trigger", &session->triggers);
	return r;
}

/* Makes the instance, which no other has: an enum exit_code. */
static int make_instance(struct session *session)
{
	char name[SESSION_NAME_MAX + 16];

	if (session->instance) {
		ctl_error("a session '%s' exists. Destroy it first ('userevctl session destroy %s'), or give another "
			  "name.",
			  session->name, session->name);
		return EXIT_REFUSED;
	}
	snprintf(name, sizeof(name), SESSION_PREFIX "%s", session->name);
	session->instance = tracefs_instance_create(name);
	return session->instance ? EXIT_DONE : tracefs_explain("make an instance in tracefs", errno ? -errno : -EIO);
}

static void print_created(const struct session *session)
{
	const struct output *output = &session->ctl->output;
	const char *tracer = session->tracer ? session->tracer : "";

	if (output->json)
		json_print(output->file, json_text("session", session->name), json_u64("events", session->n_chosen),
			   json_bool("on", !session->stopped));
	else
		fprintf(output->file, "session '%s' %s %s%s%s.\n", session->name,
			session->stopped ? "is stopped: it has" : "records",
			session->n_chosen > 0 ? plural(session->n_chosen, "event", "events").text : "",
			session->n_chosen > 0 && *tracer ? " and " : "", tracer);
}

bool session_is_empty(const struct session *session)
{
	return session->events.n + session->kernel_events.n + session->probes.n == 0 && !session->tracer;
}

int session_create(struct session *session)
{
	_cleanup_(freep) char *set_event = NULL;
	int r;

	if (session_is_empty(session)) {
		ctl_error("create: give --event, --kernel-event, --probe or --tracer. See 'userevctl session --help'.");
		return EXIT_USAGE;
	}
	r = session_choose_events(session);
	if (r == EXIT_DONE)
		r = session_choose_kernel_events(session);
	if (r == EXIT_DONE)
		r = make_instance(session);
	if (r != EXIT_DONE)
		return r;
	session->tried = NULL;
	r = create(session);
	if (r == EXIT_DONE && session_mark_complete(session->instance) < 0)
		r = tracefs_explain("complete the session", -EIO);
	if (r != EXIT_DONE) {
		set_event = tracefs_instance_file_read(session->instance, "set_event", NULL);
		session_erase(session->name);
		session_unlimit(session, set_event ? set_event : "");
		return r;
	}
	print_created(session);
	return EXIT_DONE;
}
