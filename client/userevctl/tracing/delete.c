/* SPDX-License-Identifier: GPL-2.0-or-later */

/* delete: the daemon has the kernel delete persistent events, name by name, so one that is in use does not keep the others. */

#include "client/userevctl/tracing/tracing.h"
#include "client/userevctl/tracing/users.h"

struct deleting {
	bool foreign;
};

/* An enum exit_code. */
static int delete_event(const struct tracing *tracing, const struct event *event)
{
	_cleanup_(control_freep) struct control *control = NULL;
	const char *path = tracing->ctl->control_socket;
	struct cursor row = { 0 };
	char buffer[1024];
	struct text list = text_make(buffer, sizeof(buffer));
	int r = control_request(path, KIND_DELETE, 0, (const char *const[]){ event->name }, 1, &control);

	if (r == 0)
		r = control_next_row(control, &row);
	if (r > 0)
		return EXIT_DONE;
	ctl_note("userevctl: '%s' is not deleted.", safe_string(event->name).text);
	users_put(event, &list);
	if (r == -EREMOTEIO && control_refusal.number == REFUSAL_IN_USE && list.length > 0)
		ctl_note("It is on, for %s. 'userevctl disable' ends what 'userevctl enable' began.", buffer);
	return control_explain(path, r < 0 ? r : -EBADMSG);
}

static int delete_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct deleting deleting = { 0 };
	const struct event *event = NULL;
	const char *before = "";
	int r, worst = EXIT_DONE;
	uint64_t deleted = 0;

	options_read(ctl, &deleting, 1, INT32_MAX);
	r = tracing_open(ctl, TRACING_LOOK_AT_DAEMON, &tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = deleting.foreign ? FOREIGN_BY_NAME : FOREIGN_NEVER;
	/* Nothing is deleted unless every name is known. */
	r = names_check(tracing, false);
	if (r != EXIT_DONE)
		return r;
	while (worst <= EXIT_REFUSED && (event = tracing_next(tracing, event))) {
		/* All formats of a name are deleted together. */
		if (streq(event->name, before))
			continue;
		before = event->name;
		r = delete_event(tracing, event);
		deleted += r == EXIT_DONE;
		worst = MAX(r, worst);
	}
	if (ctl->output.json)
		json_print(ctl->output.file, json_u64("deleted", deleted));
	else if (deleted > 0)
		fprintf(ctl->output.file, "%s deleted.\n", plural(deleted, "event is", "events are").text);
	return worst;
}

COMMAND(delete, "EVENT...", "",
	OPTIONS(FLAG_ROW("foreign", struct deleting, foreign, "also events made without the daemon, by full name")),
	"Deletes persistent events, which outlive their programs: they are gone from the\n"
	"kernel, and not charged to their tenants any more. EVENT is a name or a pattern\n"
	"with *, ? and [...]. An event that a program has, or a tracer uses, or that the\n"
	"policy declares, is not deleted, and the message says what to do. Events that\n"
	"are not persistent end with their programs. Nothing is deleted if one EVENT\n"
	"matches no event.");
