/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy explain: whether an event is allowed, and by which line. The numbers in use come from a running daemon. */

#include "client/userevctl/policy/policy.h"

#include <inttypes.h>

#include "protocol/event/description.h"
#include "protocol/refusal.h"

struct explanation {
	struct policy_question *question;
	struct policy_rules rules;
	char name[DESCRIPTION_NAME_MAX + 1]; /* with its prefix; "": the description is wrong */
	int refusal;			     /* REFUSAL_NONE: it is allowed */
	char why[WIRE_SENTENCE_MAX];
	struct policy_verdict verdict;
	struct control *daemon; /* that runs here; NULL: there is none, or the question is not about this machine */
	struct cursor answer;	/* its first row, until the second one is read */
	bool granted;
	bool has_native;			/* programs of this tenant may register by themselves: */
	char native_why[WIRE_SENTENCE_MAX + 1]; /* why not this one; "": they may */
};

/* The kernel can't put a prefix before its name: it has to have it. */
static void decide_native(struct explanation *explanation, const char *text, uint16_t flags)
{
	static struct description description; /* large */
	const char *prefix = explanation->rules.value[POLICY_NAME_PREFIX]->text;
	const size_t length = prefix ? strlen(prefix) : 0;
	struct text why = text_make(explanation->native_why, sizeof(explanation->native_why));
	struct policy_verdict verdict;

	if (length > 0 && strncmp(text, prefix, length) != 0)
		text_printf(&why, "the name has to begin with %s", prefix);
	else if (flags & REGISTER_PERSIST)
		text_printf(&why, "such an event can't outlive its program");
	else
		(void)policy_admit(&explanation->rules, text + length, strlen(text + length), flags, &description,
				   &verdict, &why);
}

static void explanation_decide(struct explanation *explanation)
{
	static struct description description; /* large */
	const struct policy_question *question = explanation->question;
	const uint16_t flags =
		(question->persist ? REGISTER_PERSIST : 0) | (question->multi_format ? REGISTER_MULTI_FORMAT : 0);
	const char *text = question->ctl->argv[1];
	const char *const strings[] = { question->tenancy.cgroup, text };
	struct text why = text_make(explanation->why, sizeof(explanation->why));

	policy_resolve(question->policy, question->tenancy.path, &explanation->rules);
	explanation->refusal =
		policy_admit(&explanation->rules, text, strlen(text), flags, &description, &explanation->verdict, &why);
	if (explanation->verdict.key != POLICY_KEYS)
		string_copy(explanation->name, description.name_length + 1, description.canonical);
	if (question->is_ours && (control_request(question->ctl->control_socket, KIND_EXPLAIN, flags, strings,
						  ARRAY_SIZE(strings), &explanation->daemon) < 0 ||
				  control_next_row(explanation->daemon, &explanation->answer) <= 0))
		explanation->daemon = control_free(explanation->daemon);
	explanation->granted = explanation->refusal == REFUSAL_NONE &&
			       (!explanation->daemon || row_get_u64(explanation->answer, "granted"));
	explanation->has_native = explanation->rules.value[POLICY_NATIVE]->number != POLICY_NATIVE_NO;
	if (explanation->has_native)
		decide_native(explanation, text, flags);
}

/* The events, files and leases in use at every level, and the limits. */
static int print_levels(struct explanation *explanation, const struct output *output)
{
	static const struct column columns[] = {
		{ "LEVEL", COLUMN_PATH, 0 },	  { "HOLDS", COLUMN_NUMBER, 0 },   { "MAX", COLUMN_NUMBER, 0 },
		{ "PAYS FOR", COLUMN_NUMBER, 0 }, { "SHARING", COLUMN_NUMBER, 0 }, { "FILES", COLUMN_NUMBER, 0 },
		{ "FILE MAX", COLUMN_NUMBER, 0 }, { "LEASES", COLUMN_NUMBER, 0 },  { "LEASE MAX", COLUMN_NUMBER, 0 },
	};
	static const char *const keys[ARRAY_SIZE(columns)] = {
		"level", "held", "maximum", "paid", "sharing", "files", "files_max", "leases", "leases_max",
	};
	_cleanup_(table_deinit) struct table table = table_make(columns, ARRAY_SIZE(columns));
	struct cursor row = explanation->answer;
	struct row_field field;
	int r;

	/* Behind another table numbers without titles mean nothing in a pipe. */
	for (size_t i = 0; !output->terminal && i < ARRAY_SIZE(columns); i++)
		table_put(&table, STYLE_PLAIN, columns[i].title);
	fprintf(output->file,
		"the pool has %" PRIu64 " of %" PRIu64 " events; %" PRIu64 " more are reserved, %" PRIu64
		" are others'\n",
		row_get_u64(row, "common"), row_get_u64(row, "pool"), row_get_u64(row, "claimed"),
		row_get_u64(row, "foreign"));
	while ((r = control_next_row(explanation->daemon, &row)) > 0) {
		bool is_level = row_find(row, "level", &field);

		for (size_t i = 0; is_level && i < ARRAY_SIZE(columns); i++) {
			if (!row_find(row, keys[i], &field))
				table_put(&table, STYLE_DIM, "-");
			else if (columns[i].kind == COLUMN_NUMBER)
				table_put_number(&table, STYLE_PLAIN, field.number);
			else
				table_put_safe(&table, STYLE_NAME, (const char *)field.value, field.length);
		}
		if (!is_level)
			fprintf(output->file,
				"a reserve of %" PRIu64 " events, of which %" PRIu64 " are filled, and of %" PRIu64
				" data files, of which %" PRIu64 " are\n",
				row_get_u64(row, "reserve"), row_get_u64(row, "filled"), row_get_u64(row, "files"),
				row_get_u64(row, "files_filled"));
	}
	if (r == 0)
		table_print(&table, output);
	return r;
}

static void print_decision(const struct explanation *explanation, const struct output *output)
{
	const char *reservation = "";

	if (!explanation->daemon)
		reservation = ", as far as names and flags go; no daemon says what is left";
	else if (row_get_u64(explanation->answer, "multi_format"))
		reservation = ", as multi-format";
	output_styled(output, explanation->granted ? STYLE_GOOD : STYLE_BAD, "%s",
		      explanation->granted ? "allowed" : "refused");
	if (explanation->granted)
		fprintf(output->file, ": %s%s\n", explanation->name, reservation);
	else
		fprintf(output->file, ": %s\n",
			explanation->refusal ? explanation->why : row_string(explanation->answer, "sentence").text);
}

static void print_native(const struct explanation *explanation, const struct output *output)
{
	const bool refused = *explanation->native_why;

	fputs("registered by the program itself (Native=): ", output->file);
	output_styled(output, refused ? STYLE_BAD : STYLE_GOOD, "%s", refused ? "refused" : "allowed");
	fprintf(output->file, "%s%s\n", refused ? ": " : "", explanation->native_why);
}

/* The rest of the object that values_begin() has begun. */
static int put_decision(const struct explanation *explanation, struct json *json)
{
	struct cursor row = explanation->answer;
	int r = 0;

	json_put(json, json_bool("allowed", explanation->granted),
		 json_if(explanation->has_native, json_bool("native_allowed", !*explanation->native_why)),
		 json_if(*explanation->name, json_text("event", explanation->name)),
		 json_if(explanation->refusal, json_text("refusal", refusal_name((uint32_t)explanation->refusal))),
		 json_if(explanation->refusal, json_text("sentence", explanation->why)));
	if (explanation->daemon) {
		json_put_begin(json, "ledger", '[');
		do
			json_row(json, row);
		while ((r = control_next_row(explanation->daemon, &row)) > 0);
		json_end(json, ']');
	}
	json_end(json, '}');
	return r;
}

int policy_explain(struct policy_question *question)
{
	struct explanation explanation = { .question = question };
	const struct policy_verdict *verdict = &explanation.verdict;
	const char *tenant = question->tenancy.path;
	struct ctl *ctl = question->ctl;
	const struct policy_value *prefix;
	struct values values;
	int r = policy_find_tenant(question, ctl->argv[0]);

	if (r != EXIT_DONE)
		return r;
	explanation_decide(&explanation);
	if (!ctl->output.json)
		print_decision(&explanation, &ctl->output);
	if (!ctl->output.json && explanation.has_native)
		print_native(&explanation, &ctl->output);
	values_begin(&values, question);
	/* The rule that decided, or the entry of a list; and the limits. */
	prefix = explanation.rules.value[POLICY_NAME_PREFIX];
	if (*explanation.name && prefix->text)
		values_put(&values, tenant, POLICY_NAME_PREFIX, prefix);
	if (*explanation.name && verdict->glob)
		values_put_text(&values, tenant, policy_keys[verdict->key].name, verdict->glob->text,
				&verdict->glob->origin);
	else if (*explanation.name)
		values_put(&values, tenant, verdict->key, verdict->value);
	values_put_levels(&values);
	values_end(&values);
	if (ctl->output.json)
		r = put_decision(&explanation, &values.json);
	else if (explanation.daemon)
		r = print_levels(&explanation, &ctl->output);
	control_free(explanation.daemon);
	if (r < 0)
		return control_explain(ctl->control_socket, r);
	return explanation.granted ? EXIT_DONE : EXIT_REFUSED;
}
