/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy explain: whether an event is allowed, and by which line. The numbers in use come from a running daemon. */

#include "client/userevctl/policy/policy.h"

#include "protocol/event/description.h"
#include "protocol/refusal.h"

struct explanation {
	struct policy_question *question;
	struct tenancy tenancy;
	struct policy_rules rules;
	char name[DESCRIPTION_NAME_MAX + 1]; /* with its prefix; "": the description is wrong */
	int refusal;			     /* REFUSAL_NONE: it is allowed */
	char why[WIRE_SENTENCE_MAX];
	struct policy_verdict verdict;
	struct ledger ledger;
	bool granted;
};

static void explanation_decide(struct explanation *explanation)
{
	static struct description description; /* large */
	const struct policy_question *question = explanation->question;
	const char *text = question->ctl->argv[1];
	struct text why = text_make(explanation->why, sizeof(explanation->why));

	policy_resolve(question->policy, explanation->tenancy.path, &explanation->rules);
	explanation->refusal = policy_admit(&explanation->rules, text, strlen(text), policy_question_flags(question),
					    &description, &explanation->verdict, &why);
	if (explanation->verdict.key != POLICY_KEYS)
		string_copy(explanation->name, description.name_length + 1, description.canonical);
	ledger_ask(&explanation->ledger, question, explanation->tenancy.cgroup);
	explanation->granted = explanation->refusal == REFUSAL_NONE &&
			       (!explanation->ledger.control || row_get_u64(explanation->ledger.answer, "granted"));
}

/* The rule that decided, or the entry of a list; and the limits. */
static void put_rules(struct values *values, const struct explanation *explanation)
{
	const struct policy_verdict *verdict = &explanation->verdict;
	const struct policy_value *prefix = explanation->rules.value[POLICY_NAME_PREFIX];
	const char *tenant = explanation->tenancy.path;

	if (*explanation->name && prefix->text)
		values_put(values, tenant, POLICY_NAME_PREFIX, prefix);
	if (*explanation->name && verdict->glob)
		values_put_text(values, tenant, policy_key_name(verdict->key), verdict->glob->text,
				&verdict->glob->origin);
	else if (*explanation->name)
		values_put(values, tenant, verdict->key, verdict->value);
	values_put_levels(values, explanation->question->policy, &explanation->tenancy);
}

static int explanation_print(struct values *values, struct explanation *explanation)
{
	const struct output *output = &values->ctl->output;
	struct ledger *ledger = &explanation->ledger;
	const char *reservation = "";

	if (!ledger->control)
		reservation = ", as far as names and flags go; no daemon says what is left";
	else if (row_get_u64(ledger->answer, "multi_format"))
		reservation = ", as multi-format";
	output_styled(output, explanation->granted ? STYLE_GOOD : STYLE_BAD, "%s",
		      explanation->granted ? "allowed" : "refused");
	if (explanation->granted)
		fprintf(output->file, ": %s%s\n", explanation->name, reservation);
	else
		fprintf(output->file, ": %s\n",
			explanation->refusal ? explanation->why : row_string(ledger->answer, "sentence").text);
	put_rules(values, explanation);
	table_print(&values->table, output);
	return ledger->control ? ledger_print(ledger, output) : 0;
}

static int explanation_print_json(struct values *values, struct explanation *explanation)
{
	struct json *json = &values->json;
	int r = 0;

	json_begin(json, '{');
	tenancy_json(&explanation->tenancy, json);
	json_put_bool(json, "allowed", explanation->granted);
	if (*explanation->name)
		json_put_text(json, "event", explanation->name);
	if (explanation->refusal != REFUSAL_NONE) {
		json_put_text(json, "refusal", refusal_name((uint32_t)explanation->refusal));
		json_put_text(json, "sentence", explanation->why);
	}
	json_put_begin(json, "values", '[');
	put_rules(values, explanation);
	json_end(json, ']');
	if (explanation->ledger.control) {
		json_put_begin(json, "ledger", '[');
		r = ledger_print_json(&explanation->ledger, json);
		json_end(json, ']');
	}
	json_end_line(json, '}');
	return r;
}

int policy_explain(struct policy_question *question)
{
	struct explanation explanation = { .question = question };
	struct ctl *ctl = question->ctl;
	struct values values = values_make(ctl);
	int r = policy_find_tenant(question, ctl->argv[0], &explanation.tenancy);

	if (r != EXIT_DONE)
		return r;
	explanation_decide(&explanation);
	r = (ctl->output.json ? explanation_print_json : explanation_print)(&values, &explanation);
	table_deinit(&values.table);
	ledger_deinit(&explanation.ledger);
	if (r < 0)
		return ctl_output_failed(r);
	policy_note_tenancy(&explanation.tenancy);
	r = ctl_finish(ctl);
	return explanation.granted ? r : EXIT_REFUSED;
}
