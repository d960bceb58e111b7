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
		while (r == 0 && !ret->result.at && rows_next(&rows, &row))
			take_row(ret, row);
		timeout = -1;
	}
	return r == 0 && !ret->result.at ? -EBADMSG : r;
}

static void reload_print_json(const struct reloaded *reloaded, FILE *file)
{
	struct safe_string why = row_string(reloaded->result, "why");
	bool loaded = row_get_u64(reloaded->result, "loaded");
	struct json json = { .file = file };

	json_begin(&json, '{');
	json_put_bool(&json, "loaded", loaded);
	if (loaded) {
		json_put_u64(&json, "sections", row_get_u64(reloaded->result, "sections"));
		json_put_u64(&json, "files", row_get_u64(reloaded->result, "files"));
	}
	if (*why.text)
		json_put_text(&json, "why", why.text);
	problems_json(&reloaded->problems, &json);
	json_end_line(&json, '}');
}

static void reload_print(const struct reloaded *reloaded, const struct output *output)
{
	struct safe_string why = row_string(reloaded->result, "why");

	problems_print(&reloaded->problems, output);
	if (row_get_u64(reloaded->result, "loaded"))
		fprintf(output->file, "loaded: %s from %s\n",
			plural(row_get_u64(reloaded->result, "sections"), "section", "sections").text,
			plural(row_get_u64(reloaded->result, "files"), "file", "files").text);
	else if (*why.text)
		ctl_error("the files could not be read (%s); the policy stays as it was.", why.text);
	else
		ctl_error("not loaded; the policy stays as it was.");
}

static int reload_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct reloaded reloaded = { 0 };
	int r;

	options_read(ctl, NULL, 0, 0);
	r = control_open_or_explain(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = reload_ask(control, &reloaded);
	if (r < 0) {
		r = control_explain(ctl->control_socket, r, control);
	} else {
		if (ctl->output.json)
			reload_print_json(&reloaded, ctl->output.file);
		else
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
