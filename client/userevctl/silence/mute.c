/* SPDX-License-Identifier: GPL-2.0-or-later */

/* mute, unmute, block, unblock. */

#include <inttypes.h>

#include "client/userevctl/show/tenant_name.h"
#include "client/userevctl/silence/silence.h"

/* One of the four commands: its request, and the words of its output. */
struct silencing {
	uint16_t asked;
	const char *rule;  /* of SILENCES: the command ends such rules; NULL: it makes them */
	const char *done;  /* "muted" */
	const char *comes; /* of tenants that come later */
};

static void print_one(const struct ctl *ctl, const struct silencing *silencing, struct cursor row)
{
	const uint64_t tenants = row_get_u64(row, "tenants"), events = row_get_u64(row, "events"),
		       files = row_get_u64(row, "files"), connections = row_get_u64(row, "connections");
	char pattern[WIRE_TENANT_MAX + 1];
	FILE *file = ctl->output.file;
	const char *shown;
	struct safe_string safe;

	row_get_string(row, "tenant", pattern, sizeof(pattern));
	safe = silence_shown(pattern);
	shown = safe.text;
	fprintf(file, "%s %s%s", shown, silencing->done, row_get_u64(row, "changes") ? "" : " already");
	if (tenants > 1)
		fprintf(file, ", which are %s", plural(tenants, "tenant", "tenants").text);
	if (silencing->asked == ASK_MUTE && tenants > 0)
		fprintf(file, ": %s off", plural(events, "event is", "events are").text);
	if (silencing->asked == ASK_BLOCK && tenants > 0)
		fprintf(file, ": %s closed, %s off", plural(connections, "connection is", "connections are").text,
			plural(events, "event is", "events are").text);
	fprintf(file, ".\n");
	if (silencing->asked == ASK_BLOCK && files > 0)
		fprintf(file, "Programs may go on writing to the %s that they have, until they close %s.\n",
			plural(files, "data file", "data files").text, files == 1 ? "it" : "them");
	if (tenants == 0 && silencing->comes)
		fprintf(file, "No tenant matches now. %s.\n", silencing->comes);
}

static void mute_print_json(const struct ctl *ctl, const struct silence_answer *answer)
{
	struct json json = { .file = ctl->output.file };
	char pattern[WIRE_TENANT_MAX + 1], path[WIRE_TENANT_MAX + 1];

	json_begin(&json, '{');
	json_put(&json, json_bool("kept", answer->kept));
	json_put_begin(&json, "tenants", '[');
	for (size_t i = 0; i < answer->n; i++) {
		json_begin(&json, '{');
		row_get_string(answer->rows[i], "tenant", pattern, sizeof(pattern));
		if (silence_unescape(pattern, path, sizeof(path)))
			tenant_name_json(tenant_name(path), &json);
		json_row_fields(&json, answer->rows[i]);
		json_end(&json, '}');
	}
	json_end(&json, ']');
	json_end(&json, '}');
}

static int silencing_run(struct ctl *ctl, const struct silencing *silencing)
{
	_cleanup_(silence_patterns_deinit) struct silence_patterns patterns = { 0 };
	_cleanup_(silence_answer_deinit) struct silence_answer answer = { 0 };
	const char *const *arguments;
	struct cursor status = { 0 };
	int r;

	options_read(ctl, NULL, 1, INT32_MAX);
	arguments = (const char *const *)ctl->argv;
	r = silencing->rule ? silence_find_rules(ctl, silencing->rule, arguments, (size_t)ctl->argc, &patterns)
			    : silence_find(ctl, arguments, (size_t)ctl->argc, &patterns);
	if (r == EXIT_DONE)
		r = silence_ask(ctl, silencing->asked, NULL, 0, &patterns, &answer);
	if (r != EXIT_DONE)
		return r;
	if (ctl->output.json)
		mute_print_json(ctl, &answer);
	for (size_t i = 0; i < answer.n && !ctl->output.json; i++)
		print_one(ctl, silencing, answer.rows[i]);
	r = ctl_finish(ctl);
	if (!silencing->rule)
		silence_note_kept(&answer);
	/* Before Linux 6.4 the pages of blocked tenants cannot be told from those of others. */
	if (silencing->asked == ASK_BLOCK &&
	    control_ask_status(ctl->control_socket, CONTROL_TIMEOUT_MS, &status) == 0 &&
	    streq(row_string(status, "backend").text, "status-page"))
		ctl_note(
			"userevctl: before Linux 6.4 all tenants have the kernel's one page, so programs that have data files "
			"still see which events are on, and write.");
	free((void *)status.at);
	return r;
}

static int mute_run(struct ctl *ctl)
{
	return silencing_run(ctl, &(const struct silencing){ .asked = ASK_MUTE,
							     .done = "is muted",
							     .comes = "One that comes later is muted" });
}

static int unmute_run(struct ctl *ctl)
{
	return silencing_run(ctl, &(const struct silencing){
					  .asked = ASK_UNMUTE, .rule = "muted", .done = "is not muted any more" });
}

static int block_run(struct ctl *ctl)
{
	return silencing_run(ctl, &(const struct silencing){ .asked = ASK_BLOCK,
							     .done = "is blocked",
							     .comes = "One that comes later is refused" });
}

static int unblock_run(struct ctl *ctl)
{
	return silencing_run(ctl, &(const struct silencing){
					  .asked = ASK_UNBLOCK, .rule = "blocked", .done = "is not blocked any more" });
}

COMMAND(mute, "TENANT...", "silence tenants, or keep them out", NULL,
	"Silences tenants: for their programs all events are off, for all tracers,\n"
	"until 'userevctl unmute'. For other tenants nothing changes. TENANT is a name, the\n"
	"path of a cgroup or a pattern of paths, also of tenants to come, or a pid.\n"
	"A restart of the daemon, a reload and a reboot change nothing.");

COMMAND(unmute, "TENANT...", "", NULL,
	"Ends 'userevctl mute' for tenants: events that are on are on for their programs\n"
	"again. TENANT is as for mute, or a pattern as it was given there.");

COMMAND(block, "TENANT...", "", NULL,
	"Keeps tenants out: their programs are disconnected, and refused with a sentence,\n"
	"until 'userevctl unblock'; and all events are off for them. Files that they have\n"
	"can still be written to until they are closed: their number is printed. TENANT is\n"
	"as for mute.");

COMMAND(unblock, "TENANT...", "", NULL,
	"Ends 'userevctl block' for tenants: their programs connect again by themselves.\n"
	"TENANT is as for mute, or a pattern as it was given there.");
