/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy check: the problems of the files. reload prints problems in the same form. */

#include "client/userevctl/policy/policy.h"

#include <fts.h>

#include "daemon/identity/cgroup.h"

void problem_print(const struct problem *problem, const struct output *output, struct json *json)
{
	bool error = problem->severity == PROBLEM_ERROR;
	enum style style = error ? STYLE_BAD : STYLE_BOLD;

	if (output->json) {
		json_object(json, json_text("severity", error ? "error" : "warning"), json_text("file", problem->file),
			    json_if(problem->line > 0, json_u64("line", problem->line)), json_text("key", problem->key),
			    json_text("sentence", problem->sentence));
		return;
	}
	output_styled(output, style, "%s", safe_string(problem->file).text);
	if (problem->line > 0)
		output_styled(output, style, ":%u", problem->line);
	fputs(": ", output->file);
	if (!error)
		output_styled(output, STYLE_WARNING, "warning: ");
	fprintf(output->file, "%s\n", problem->sentence);
}

void problems_show(const struct problems *problems, const struct output *output)
{
	struct json json = { .file = output->file };

	if (output->json) {
		json_begin(&json, '{');
		json_put(&json, json_bool("good", problems->errors == 0));
		json_put_begin(&json, "problems", '[');
	}
	for (size_t i = 0; i < problems->n; i++)
		problem_print(&problems->list[i], output, &json);
	if (output->json) {
		json_end(&json, ']');
		json_end(&json, '}');
	}
}

void problems_note(const struct problems *problems, const char *when)
{
	struct output output = { .when = when };

	output_open(&output, stderr);
	problems_show(problems, &output);
}

/* 0, or a positive number for errors in the files. */
static int load(struct policy_question *question, char *const *files, int n)
{
	int r;

	if (n > 0)
		r = policy_load_files(files, (size_t)n, &question->problems, &question->policy);
	else
		r = policy_load(question->directories, question->root, &question->problems, &question->policy);
	if (r < 0 || question->problems.failed)
		must(NULL);
	return r;
}

int policy_open(struct policy_question *question)
{
	int r = load(question, NULL, 0);

	problems_note(&question->problems, question->ctl->output.when);
	return r == 0 ? EXIT_DONE : EXIT_REFUSED;
}

/*
 * A section that matches no cgroup of this machine is most often misspelt, or for another cgroup driver. It is a warning, since a cgroup
 * that is made later may match it. Without visible cgroups there is none.
 */
static void check_cgroups(const struct policy *policy, struct problems *problems)
{
	size_t n = policy->sections.n;
	_cleanup_(freep) bool *matched = must(calloc(n + 1, sizeof(*matched)));
	struct cgroups cgroups;
	FTSENT *entry;
	FTS *tree;

	/* In a cgroup namespace, paths differ from those that the daemon sees. */
	if (cgroups_find(NULL, &cgroups) < 0 || !*cgroups.mount || !streq(cgroups.root, "/"))
		return;
	tree = fts_open((char *const[]){ cgroups.mount, NULL }, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	while (tree && (entry = fts_read(tree))) {
		const char *path = entry->fts_path + strlen(cgroups.mount);

		if (entry->fts_info != FTS_D)
			continue;
		path = *path ? path : "/";
		for (size_t i = 0; i < n; i++)
			matched[i] |= pattern_matches(&policy->sections.at[i]->pattern, path, path_depth(path));
		if (entry->fts_level == POLICY_LEVELS_MAX)
			fts_set(tree, entry, FTS_SKIP);
	}
	if (tree)
		fts_close(tree);
	for (size_t i = 0; i < n; i++) {
		const struct policy_origin *section = &policy->sections.at[i]->origin;

		if (!matched[i])
			problems_add(problems, PROBLEM_WARNING, *section,
				     "[%s]: no cgroup matches that here now; systemd-cgls shows those that there are",
				     excerpt_of(section->section).text);
	}
}

int policy_check(struct policy_question *question)
{
	const struct problems *problems = &question->problems;
	struct ctl *ctl = question->ctl;
	int r = load(question, ctl->argv, ctl->argc);
	struct phrase warnings;
	uint32_t margin;

	if (r == 0) {
		/* Room that the kernel keeps for others is no room for reserves. */
		margin = policy_daemon(question->policy, POLICY_KERNEL_MARGIN)->number;
		policy_check_capacity(question->policy, question->capacity - MIN(margin, question->capacity),
				      &question->problems);
	}
	/* The cgroups of this machine have nothing to do with files that are named, or another machine's. */
	if (r == 0 && ctl->argc == 0 && !question->root)
		check_cgroups(question->policy, &question->problems);
	if (question->strict)
		problems_be_strict(&question->problems);
	if (question->problems.failed)
		must(NULL);
	problems_show(problems, &ctl->output);
	warnings = plural(problems->n - problems->errors, "warning", "warnings");
	if (!ctl->output.json && problems->errors > 0)
		ctl_note("%s, %s.", plural(problems->errors, "error", "errors").text, warnings.text);
	else if (!ctl->output.json)
		ctl_note("%s, %s, %s: no error, %s.", plural(question->policy->n_files, "file", "files").text,
			 plural(question->policy->sections.n, "section of cgroups", "sections of cgroups").text,
			 plural(question->policy->events.n, "declared event", "declared events").text, warnings.text);
	return problems->errors > 0 ? EXIT_REFUSED : EXIT_DONE;
}
