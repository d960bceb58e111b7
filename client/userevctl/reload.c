/* SPDX-License-Identifier: GPL-2.0-or-later */

/* reload: the daemon reads the policy files again. Problems in them are printed as by policy check. */

#include "client/userevctl/policy/policy.h"

/* A row is a problem, or the result, which comes last: whether it is. */
static bool take_row(struct cursor row, const struct output *output, struct json *json, bool *ret_loaded)
{
	uint64_t files = row_get_u64(row, "files"), sections = row_get_u64(row, "sections");
	char severity[16], file[4096], key[64], sentence[4096];
	struct safe_string why = row_string(row, "why");
	struct row_field loaded;

	if (!row_find(row, "loaded", &loaded)) {
		row_get_string(row, "severity", severity, sizeof(severity));
		row_get_string(row, "file", file, sizeof(file));
		row_get_string(row, "key", key, sizeof(key));
		row_get_string(row, "sentence", sentence, sizeof(sentence));
		problem_print(&(struct problem){ .severity = streq(severity, "error") ? PROBLEM_ERROR : PROBLEM_WARNING,
						 .file = file,
						 .line = (unsigned)row_get_u64(row, "line"),
						 .key = *key ? key : NULL,
						 .sentence = sentence },
			      output, json);
		return false;
	}
	*ret_loaded = loaded.number;
	if (output->json) {
		json_end(json, ']');
		json_put(json, json_bool("loaded", *ret_loaded), json_if(*ret_loaded, json_u64("sections", sections)),
			 json_if(*ret_loaded, json_u64("files", files)),
			 json_if(*why.text, json_text("why", why.text)));
	} else if (*ret_loaded) {
		fprintf(output->file, "loaded: %s from %s\n", plural(sections, "section", "sections").text,
			plural(files, "file", "files").text);
	} else {
		ctl_error("not loaded%s%s; the policy stays as it was.", *why.text ? ": " : "", why.text);
	}
	return true;
}

static int reload_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct json json = { 0 };
	bool ended = false, loaded = false;
	struct cursor row;
	int r;

	options_read(ctl, NULL, 0, 0);
	json.file = ctl->output.file;
	r = control_request(ctl->control_socket, KIND_RELOAD, 0, NULL, 0, &control);
	if (r == 0)
		r = control_next_packet(control);
	if (r < 0)
		return control_explain(ctl->control_socket, r);
	if (ctl->output.json) {
		json_begin(&json, '{');
		json_put_begin(&json, "problems", '[');
	}
	/* The first packet comes at once; the files may be many, and on a slow disk. */
	control->timeout = -1;
	while (!ended && (r = control_next_row(control, &row)) > 0)
		ended = take_row(row, &ctl->output, &json, &loaded);
	if (r < 0 || !ended)
		return control_explain(ctl->control_socket, r < 0 ? r : -EBADMSG);
	if (ctl->output.json)
		json_end(&json, '}');
	return loaded ? EXIT_DONE : EXIT_REFUSED;
}

COMMAND(reload, "", "read the policy files again; why events fail", NULL,
	"The daemon reads its policy files again, see userevd.conf(5). No program is\n"
	"disconnected; the new limits hold from then on. Problems in the files are shown as\n"
	"by 'policy check'. With an error in any file the policy stays as it was, and the\n"
	"exit status is 1.");
