/* SPDX-License-Identifier: GPL-2.0-or-later */

/* reload: the daemon reads the policy files again, and says what is wrong with them as policy check does. */

#include "client/userevctl/policy/policy.h"

/* A problem; or, last of all, what has become of it. */
struct reloaded {
	struct problems problems;
	bool known;
	bool loaded;
	uint64_t files, sections;
	char why[256]; /* where the files could not be read at all */
};

static void take_problem(struct reloaded *reloaded, struct cursor row)
{
	char severity[16], file[4096], key[64], sentence[4096];

	row_get_string(row, "severity", severity, sizeof(severity));
	row_get_string(row, "file", file, sizeof(file));
	row_get_string(row, "key", key, sizeof(key));
	row_get_string(row, "sentence", sentence, sizeof(sentence));
	problems_add(&reloaded->problems, streq(severity, "error") ? PROBLEM_ERROR : PROBLEM_WARNING,
		     (struct place){ file, (unsigned)row_get_u64(row, "line"), *key ? key : NULL }, "%s", sentence);
}

static void take_row(struct reloaded *reloaded, struct cursor row)
{
	struct row_field loaded;

	if (!row_find(row, "loaded", &loaded)) {
		take_problem(reloaded, row);
		return;
	}
	reloaded->known = true;
	reloaded->loaded = loaded.number;
	reloaded->files = row_get_u64(row, "files");
	reloaded->sections = row_get_u64(row, "sections");
	string_copy(reloaded->why, sizeof(reloaded->why), row_string(row, "why").text);
}

/* The daemon says at once that it has begun; the files may be many, and on a slow disk. */
static int ask(struct control *control, struct reloaded *ret)
{
	struct message message = { .flags = WIRE_MORE };
	int r = control_ask(control, KIND_RELOAD), patience = CONTROL_PATIENCE_MS;
	struct cursor rows, row;
	uint16_t count;

	while (r >= 0 && message.flags & WIRE_MORE) {
		r = control_receive(control, patience, &message);
		if (r == 0 && (message.kind != KIND_ROWS || decode_rows(message.body, &count, &rows) != 0))
			r = -EBADMSG;
		while (r == 0 && rows_next(&rows, &row))
			take_row(ret, row);
		patience = -1;
	}
	return r == 0 && !ret->known ? -EBADMSG : r;
}

static void print_json(const struct reloaded *reloaded, FILE *file)
{
	struct json json = { .file = file };

	json_begin(&json, '{');
	json_key(&json, "loaded", 6);
	json_bool(&json, reloaded->loaded);
	if (reloaded->loaded) {
		json_key(&json, "sections", 8);
		json_u64(&json, reloaded->sections);
		json_key(&json, "files", 5);
		json_u64(&json, reloaded->files);
	}
	if (reloaded->why[0]) {
		json_key(&json, "why", 3);
		json_string(&json, reloaded->why, strlen(reloaded->why));
	}
	problems_json(&reloaded->problems, &json);
	json_end(&json, '}');
	putc('\n', file);
}

static void print(const struct reloaded *reloaded, const struct output *output)
{
	problems_print(&reloaded->problems, output);
	if (reloaded->loaded)
		fprintf(output->file, "loaded: %s from %s\n", plural(reloaded->sections, "section", "sections").text,
			plural(reloaded->files, "file", "files").text);
	else if (reloaded->why[0])
		ctl_error("the files could not be read (%s); the policy stays as it was.", reloaded->why);
	else
		ctl_error("not loaded; the policy stays as it was.");
}

static int reload(struct ctl *ctl, struct reloaded *reloaded)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r = ctl_open_control(ctl, &control);

	if (r != EXIT_DONE)
		return r;
	r = ask(control, reloaded);
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	if (ctl->json)
		print_json(reloaded, ctl->output.file);
	else
		print(reloaded, &ctl->output);
	r = ctl_finish(ctl);
	return reloaded->loaded ? r : EXIT_REFUSED;
}

static int reload_run(struct ctl *ctl)
{
	struct reloaded reloaded = { 0 };
	int r;

	ctl_no_options(ctl);
	ctl_expect_arguments(ctl, 0, 0);
	r = reload(ctl, &reloaded);
	problems_deinit(&reloaded.problems);
	return r;
}

const struct command command_reload = {
	.name = "reload",
	.arguments = "",
	.summary = "let the daemon read its policy files again",
	.help = "The daemon reads its policy files again, see userevd.conf(5), and no program\n"
		"notices but by what it may have from then on. What is wrong with them is shown\n"
		"as by 'policy check'. With an error anywhere the policy stays as it was, and the\n"
		"exit status is 1.",
	.run = reload_run,
};
