/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy explain: whether an event is allowed, and by which line. The numbers in use come from a running daemon. */

#include "client/userevctl/policy/policy.h"

#include "protocol/event/description.h"
#include "protocol/refusal.h"

struct explanation {
	char path[PATH_MAX];
	struct tenancy tenancy;
	struct policy_rules rules;
	char name[DESCRIPTION_NAME_MAX + 1]; /* with its prefix; "": the description is wrong */
	int refusal;			     /* REFUSAL_NONE: it is allowed */
	char why[WIRE_SENTENCE_MAX];
	struct policy_verdict verdict;
	struct ledger ledger;
};

static bool is_granted(const struct explanation *explanation)
{
	return explanation->refusal == REFUSAL_NONE && (!explanation->ledger.control || explanation->ledger.granted);
}

static void explanation_decide(const struct policy_question *question, struct explanation *explanation)
{
	static struct description description; /* large */
	const char *text = question->ctl->argv[1];
	struct text why = text_make(explanation->why, sizeof(explanation->why));

	policy_find_tenant(question, explanation->path, &explanation->tenancy);
	policy_resolve(question->policy, explanation->tenancy.path, &explanation->rules);
	explanation->refusal = policy_admit(&explanation->rules, text, strlen(text), question->flags, &description,
					    &explanation->verdict, &why);
	if (explanation->verdict.key != POLICY_KEYS)
		string_copy(explanation->name, description.name_length + 1, description.canonical);
}

/* The rule that decided, or the entry of a list. */
static void put_verdict(struct values *values, const struct explanation *explanation)
{
	const struct policy_verdict *verdict = &explanation->verdict;
	const struct policy_value *prefix = explanation->rules.value[POLICY_NAME_PREFIX];

	if (prefix->text)
		values_put(values, explanation->tenancy.path, POLICY_NAME_PREFIX, prefix);
	if (verdict->glob)
		values_put_text(values, explanation->tenancy.path, policy_key_name(verdict->key), verdict->glob->text,
				&verdict->glob->origin);
	else
		values_put(values, explanation->tenancy.path, verdict->key, verdict->value);
}

static void put_rules(struct values *values, const struct policy_question *question,
		      const struct explanation *explanation)
{
	if (*explanation->name)
		put_verdict(values, explanation);
	values_put_levels(values, question, explanation->path, &explanation->tenancy);
}

static void print_answer(const struct output *output, const struct explanation *explanation)
{
	bool asked = explanation->ledger.control;

	if (!is_granted(explanation)) {
		output_styled(output, STYLE_BAD, "refused");
		fprintf(output->file, ": %s\n", explanation->refusal ? explanation->why : explanation->ledger.sentence);
		return;
	}
	output_styled(output, STYLE_GOOD, "allowed");
	fprintf(output->file, ": %s%s\n", explanation->name,
		!asked				  ? ", as far as names and flags go; no daemon says what is left"
		: explanation->ledger.one_of_many ? ", as multi-format"
						  : "");
}

static void put_json(struct json *json, const char *key, const char *value)
{
	json_key(json, key, strlen(key));
	json_string(json, value, strlen(value));
}

static int explanation_print_json(struct values *values, const struct policy_question *question,
				  struct explanation *explanation)
{
	struct json *json = &values->json;
	int r = 0;

	json_begin(json, '{');
	put_json(json, "cgroup", explanation->path);
	put_json(json, "tenant", explanation->tenancy.path);
	put_json(json, "tenant_by", explanation->tenancy.by);
	json_key(json, "tenant_sure", 11);
	json_bool(json, explanation->tenancy.sure);
	json_key(json, "allowed", 7);
	json_bool(json, is_granted(explanation));
	if (*explanation->name)
		put_json(json, "event", explanation->name);
	if (explanation->refusal != REFUSAL_NONE) {
		put_json(json, "refusal", refusal_name((uint32_t)explanation->refusal));
		put_json(json, "sentence", explanation->why);
	}
	json_key(json, "values", 6);
	json_begin(json, '[');
	put_rules(values, question, explanation);
	json_end(json, ']');
	if (explanation->ledger.control) {
		json_key(json, "ledger", 6);
		json_begin(json, '[');
		r = ledger_print_json(&explanation->ledger, json);
		json_end(json, ']');
	}
	json_end(json, '}');
	putc('\n', json->file);
	return r;
}

static int explanation_print(struct policy_question *question, struct explanation *explanation)
{
	_cleanup_(values_deinit) struct values values = values_make(question->ctl);
	int r = 0;

	if (question->ctl->json) {
		r = explanation_print_json(&values, question, explanation);
	} else {
		print_answer(&question->ctl->output, explanation);
		put_rules(&values, question, explanation);
		r = table_print(&values.table, &question->ctl->output);
		if (r == 0 && explanation->ledger.control)
			r = ledger_print(&explanation->ledger, &question->ctl->output);
	}
	if (r < 0)
		return ctl_output_failed(r);
	policy_note_tenancy(&explanation->tenancy);
	r = ctl_finish(question->ctl);
	return is_granted(explanation) ? r : EXIT_REFUSED;
}

int policy_explain(struct policy_question *question)
{
	struct explanation explanation = { 0 };
	int r;

	if (!policy_take_path(question->ctl->argv[0], explanation.path, sizeof(explanation.path)))
		return EXIT_USAGE;
	r = policy_open(question);
	if (r != EXIT_DONE)
		return r;
	explanation_decide(question, &explanation);
	ledger_ask(question, explanation.path, &explanation.ledger);
	r = explanation_print(question, &explanation);
	ledger_deinit(&explanation.ledger);
	return r;
}
