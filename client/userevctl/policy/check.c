/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy check: what is wrong, where, and what would be right. reload says it alike. */

#include "client/userevctl/policy/policy.h"

static void problem_print(const struct problem *problem, const struct output *output)
{
	bool error = problem->severity == PROBLEM_ERROR;

	output_styled(output, error ? STYLE_BAD : STYLE_BOLD, "%s", safe_string(problem->file).text);
	if (problem->line > 0)
		output_styled(output, error ? STYLE_BAD : STYLE_BOLD, ":%u", problem->line);
	fputs(": ", output->file);
	if (!error)
		output_styled(output, STYLE_WARNING, "warning: ");
	fprintf(output->file, "%s\n", problem->sentence);
}

void problems_print(const struct problems *problems, const struct output *output)
{
	for (size_t i = 0; i < problems->n; i++)
		problem_print(&problems->list[i], output);
}

static void put_json(struct json *json, const char *key, const char *value)
{
	json_key(json, key, strlen(key));
	json_string(json, value, strlen(value));
}

static void problem_json(struct json *json, const struct problem *problem)
{
	json_begin(json, '{');
	put_json(json, "severity", problem->severity == PROBLEM_ERROR ? "error" : "warning");
	put_json(json, "file", problem->file);
	if (problem->line > 0) {
		json_key(json, "line", 4);
		json_u64(json, problem->line);
	}
	if (problem->key)
		put_json(json, "key", problem->key);
	put_json(json, "sentence", problem->sentence);
	json_end(json, '}');
}

void problems_json(const struct problems *problems, struct json *json)
{
	json_key(json, "problems", 8);
	json_begin(json, '[');
	for (size_t i = 0; i < problems->n; i++)
		problem_json(json, &problems->list[i]);
	json_end(json, ']');
}

static void policy_check_json(const struct policy_question *question, FILE *file)
{
	struct json json = { .file = file };

	json_begin(&json, '{');
	json_key(&json, "good", 4);
	json_bool(&json, question->problems.errors == 0);
	problems_json(&question->problems, &json);
	json_end(&json, '}');
	putc('\n', file);
}

static void sum_up(const struct policy_question *question)
{
	size_t errors = question->problems.errors, warnings = question->problems.n - errors;

	if (errors > 0)
		ctl_note("%s, %s.", plural(errors, "error", "errors").text,
			 plural(warnings, "warning", "warnings").text);
	else
		ctl_note("%s, %s, %s: no error, %s.",
			 plural(policy_count_files(question->policy), "file", "files").text,
			 plural(policy_count_sections(question->policy), "section of cgroups", "sections of cgroups")
				 .text,
			 plural(policy_count_events(question->policy), "declared event", "declared events").text,
			 plural(warnings, "warning", "warnings").text);
}

/* Room that the kernel keeps for others is no room for reserves. */
static void check_capacity(struct policy_question *question)
{
	uint32_t margin = policy_daemon(question->policy, POLICY_KERNEL_MARGIN)->number;

	policy_check_capacity(question->policy, question->capacity - MIN(margin, question->capacity),
			      &question->problems);
}

static int out_of_memory(void)
{
	ctl_error("out of memory.");
	return EXIT_REFUSED;
}

int policy_open(struct policy_question *question)
{
	struct output output;
	int r = policy_load(question->directories, question->root, &question->problems, &question->policy);

	if (r < 0)
		return out_of_memory();
	output_init(&output, stderr, question->ctl->colour, 0);
	problems_print(&question->problems, &output);
	return r == 0 ? EXIT_DONE : EXIT_REFUSED;
}

int policy_check(struct policy_question *question)
{
	struct ctl *ctl = question->ctl;
	int r;

	if (ctl->argc > 0)
		r = policy_load_files(ctl->argv, (size_t)ctl->argc, &question->problems, &question->policy);
	else
		r = policy_load(question->directories, question->root, &question->problems, &question->policy);
	if (r == 0)
		check_capacity(question);
	/* Files that are named, or another machine's, say nothing of the cgroups here. */
	if (r == 0 && ctl->argc == 0 && !question->root)
		r = policy_check_cgroups(question->policy, &question->problems);
	if (question->strict)
		problems_be_strict(&question->problems);
	if (r < 0 || question->problems.failed)
		return out_of_memory();
	if (ctl->json) {
		policy_check_json(question, ctl->output.file);
	} else {
		problems_print(&question->problems, &ctl->output);
		sum_up(question);
	}
	r = ctl_finish(ctl);
	return question->problems.errors > 0 ? EXIT_REFUSED : r;
}
