/* SPDX-License-Identifier: GPL-2.0-or-later */

/* reload: the daemon reads the policy files again. Problems in them are printed as by policy check. */

#include "client/userevctl/policy/policy.h"

struct reloaded {
	struct problems problems;
	struct cursor result; /* a copy of the last row; empty: it has not come */
};

/* A row is a problem, or the result, which comes last. */
static void take_row(struct reloaded *reloaded, struct cursor row)
{
	char severity[16], file[4096], key[64], sentence[4096];
	struct row_field loaded;

	if (row_find(row, "loaded", &loaded)) {
		reloaded->result = row_copy(row);
		return;
	}
	row_get_string(row, "severity", severity, sizeof(severity));
	row_get_string(row, "file", file, sizeof(file));
	row_get_string(row, "key", key, sizeof(key));
	row_get_string(row, "sentence", sentence, sizeof(sentence));
	problems_add(&reloaded->problems, streq(severity, "error") ? PROBLEM_ERROR : PROBLEM_WARNING,
		     (struct place){ file, (unsigned)row_get_u64(row, "line"), *key ? key : NULL }, "%s", sentence);
}

static void reload_print(const struct reloaded *reloaded, const struct output *output)
{
	struct safe_string why = row_string(reloaded->result, "why");
	uint64_t loaded = row_get_u64(reloaded->result, "loaded"), files = row_get_u64(reloaded->result, "files"),
		 sections = row_get_u64(reloaded->result, "sections");
	struct json json = { .file = output->file };

	if (output->json) {
		json_begin(&json, '{');
		json_put(&json, json_bool("loaded", loaded));
		if (loaded)
			json_put(&json, json_u64("sections", sections), json_u64("files", files));
		json_put(&json, json_text("why", *why.text ? why.text : NULL));
		problems_json(&reloaded->problems, &json);
		json_end_line(&json, '}');
		return;
	}
	problems_print(&reloaded->problems, output);
	if (loaded)
		fprintf(output->file, "loaded: %s from %s\n", plural(sections, "section", "sections").text,
			plural(files, "file", "files").text);
	else if (*why.text)
		ctl_error("the files could not be read (%s); the policy stays as it was.", why.text);
	else
		ctl_error("not loaded; the policy stays as it was.");
}

static int reload_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct reloaded reloaded = { 0 };
	struct cursor row;
	int r;

	options_read(ctl, NULL, 0, 0);
	r = control_open_or_explain(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask(control, KIND_RELOAD);
	if (r == 0)
		r = control_next_packet(control);
	/* The first packet comes at once; the files may be many, and on a slow disk. */
	control->timeout = -1;
	while (r >= 0 && !reloaded.result.at && (r = control_next_row(control, &row)) > 0)
		take_row(&reloaded, row);
	if (r < 0 || !reloaded.result.at) {
		r = control_explain(ctl->control_socket, r < 0 ? r : -EBADMSG);
	} else {
		reload_print(&reloaded, &ctl->output);
		r = ctl_finish(ctl);
		r = row_get_u64(reloaded.result, "loaded") ? r : EXIT_REFUSED;
	}
	problems_deinit(&reloaded.problems);
	free((void *)reloaded.result.at);
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
