/* SPDX-License-Identifier: GPL-2.0-or-later */

/* reload: the daemon reads the policy files again. Problems in them are printed as by policy check. */

#include "client/userevctl/policy/policy.h"

struct reloaded {
	struct problems problems;
	bool known; /* the result has come */
	bool loaded;
	uint64_t files, sections;
	char why[256]; /* the files could not be read at all */
};

/* A row is a problem, or the result, which comes last. */
static void take_row(struct reloaded *reloaded, struct cursor row)
{
	char severity[16], file[4096], key[64], sentence[4096];
	struct row_field loaded;

	if (row_find(row, "loaded", &loaded)) {
		reloaded->known = true;
		reloaded->loaded = loaded.number;
		reloaded->files = row_get_u64(row, "files");
		reloaded->sections = row_get_u64(row, "sections");
		string_copy(reloaded->why, sizeof(reloaded->why), row_string(row, "why").text);
		return;
	}
	row_get_string(row, "severity", severity, sizeof(severity));
	row_get_string(row, "file", file, sizeof(file));
	row_get_string(row, "key", key, sizeof(key));
	row_get_string(row, "sentence", sentence, sizeof(sentence));
	problems_add(&reloaded->problems, streq(severity, "error") ? PROBLEM_ERROR : PROBLEM_WARNING,
		     (struct place){ file, (unsigned)row_get_u64(row, "line"), *key ? key : NULL }, "%s", sentence);
}

/* The first packet comes at once; the files may be many, and on a slow disk. */
static int reload_ask(struct control *control, struct reloaded *ret)
{
	struct message message = { .flags = WIRE_MORE };
	int r = control_ask(control, KIND_RELOAD), timeout = CONTROL_TIMEOUT_MS;
	struct cursor rows, row;
	uint16_t count;

	while (r >= 0 && message.flags & WIRE_MORE) {
		r = control_receive(control, timeout, &message);
		if (r == 0 && (message.kind != KIND_ROWS || decode_rows(message.body, &count, &rows) != 0))
			r = -EBADMSG;
		while (r == 0 && rows_next(&rows, &row))
			take_row(ret, row);
		timeout = -1;
	}
	return r == 0 && !ret->known ? -EBADMSG : r;
}

static void reload_print_json(const struct reloaded *reloaded, FILE *file)
{
	struct json json = { .file = file };

	json_begin(&json, '{');
	json_put_bool(&json, "loaded", reloaded->loaded);
	if (reloaded->loaded) {
		json_put_u64(&json, "sections", reloaded->sections);
		json_put_u64(&json, "files", reloaded->files);
	}
	if (reloaded->why[0])
		json_put_text(&json, "why", reloaded->why);
	problems_json(&reloaded->problems, &json);
	json_end_line(&json, '}');
}

static int reload(struct ctl *ctl, struct reloaded *reloaded)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r = control_open_or_explain(ctl, &control);

	if (r != EXIT_DONE)
		return r;
	r = reload_ask(control, reloaded);
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	if (ctl->json)
		reload_print_json(reloaded, ctl->output.file);
	else
		problems_print(&reloaded->problems, &ctl->output);
	if (!ctl->json && reloaded->loaded)
		fprintf(ctl->output.file, "loaded: %s from %s\n",
			plural(reloaded->sections, "section", "sections").text,
			plural(reloaded->files, "file", "files").text);
	else if (!ctl->json && reloaded->why[0])
		ctl_error("the files could not be read (%s); the policy stays as it was.", reloaded->why);
	else if (!ctl->json)
		ctl_error("not loaded; the policy stays as it was.");
	r = ctl_finish(ctl);
	return reloaded->loaded ? r : EXIT_REFUSED;
}

static int reload_run(struct ctl *ctl)
{
	struct reloaded reloaded = { 0 };
	int r;

	options_read(ctl, NULL, 0, 0);
	r = reload(ctl, &reloaded);
	problems_deinit(&reloaded.problems);
	return r;
}

const struct command command_reload = {
	.name = "reload",
	.arguments = "",
	.summary = "let the daemon read its policy files again",
	.help = "The daemon reads its policy files again, see userevd.conf(5). No program is\n"
		"disconnected; the new limits hold from then on. Problems in the files are shown as\n"
		"by 'policy check'. With an error in any file the policy stays as it was, and the\n"
		"exit status is 1.",
	.run = reload_run,
};
