/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy show: the values of all keys for a cgroup, and the line that each comes from. */

#include "client/userevctl/policy/policy.h"

void values_begin(struct values *values, const struct policy_question *question)
{
	static const struct column columns[] = {
		{ "CGROUP", COLUMN_PATH, 0 }, { "KEY", COLUMN_TEXT, 0 },     { "VALUE", COLUMN_LONG, 0 },
		{ "FROM", COLUMN_PATH, 0 },   { "SECTION", COLUMN_PATH, 0 },
	};
	const struct tenancy *tenancy = &question->tenancy;
	struct json *json = &values->json;

	*values = (struct values){
		.question = question,
		.table = table_make(columns, ARRAY_SIZE(columns)),
		.json = { .file = question->ctl->output.file },
	};
	if (!question->ctl->output.json)
		return;
	json_begin(json, '{');
	if (tenancy->by)
		json_put(json, json_text("cgroup", tenancy->cgroup), json_text("tenant", tenancy->path),
			 json_text("tenant_by", tenancy->by), json_bool("tenant_sure", tenancy->sure));
	json_put_begin(json, "values", '[');
}

void values_end(struct values *values)
{
	if (values->question->ctl->output.json)
		json_end(&values->json, ']');
	else
		table_print(&values->table, &values->question->ctl->output);
	table_deinit(&values->table);
}

void values_put_text(struct values *values, const char *cgroup, const char *key, const char *value,
		     const struct policy_origin *origin)
{
	char buffer[PATH_MAX + 32];
	struct text from = text_make(buffer, sizeof(buffer));
	struct table *table = &values->table;

	if (values->question->ctl->output.json) {
		json_object(&values->json, json_text("cgroup", cgroup), json_text("key", key),
			    json_text("value", value), json_bool("default", !origin->file),
			    json_text("file", origin->file), json_if(origin->file, json_u64("line", origin->line)),
			    json_if(origin->file, json_text("section", origin->section)));
		return;
	}
	policy_origin_text(origin, &from);
	table_put(table, STYLE_NAME, cgroup ? cgroup : "-");
	table_put(table, STYLE_PLAIN, key);
	table_put(table, STYLE_BOLD, value);
	table_put(table, origin->file ? STYLE_PLAIN : STYLE_DIM, buffer);
	table_put(table, STYLE_DIM, origin->file ? origin->section : "-");
}

void values_put(struct values *values, const char *cgroup, enum policy_key key, const struct policy_value *value)
{
	char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));

	policy_value_text(key, value, &text);
	values_put_text(values, cgroup, policy_keys[key].name, buffer, &value->origin);
}

void values_put_levels(struct values *values)
{
	const struct policy *policy = values->question->policy;
	const struct tenancy *tenancy = &values->question->tenancy;
	struct policy_levels levels = { .from = tenancy->cgroup };
	struct policy_rules rules;

	values_put_text(values, tenancy->path, policy_keys[POLICY_TENANT].name, "yes", &tenancy->origin);
	while (policy_next_level(&levels)) {
		policy_lookup(&policy->sections, levels.path, &rules);
		for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
			if (rules.value[key] && key != POLICY_TENANT && policy_keys[key].reach == POLICY_OF_CGROUP)
				values_put(values, levels.path, key, rules.value[key]);
	}
	policy_resolve(policy, tenancy->path, &rules);
	/* A tenant without a limit of its own has that of [Daemon]. */
	for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
		if (policy_keys[key].of_daemon && rules.value[key]->is_default)
			values_put(values, tenancy->path, policy_keys[key].of_daemon, policy_tenant_limit(&rules, key));
}

/* Names that the tenant owns; NULL: names that any section owns. */
static void put_owners(struct values *values, const char *tenant)
{
	const struct policy *policy = values->question->policy;

	for (size_t i = 0; i < policy->owners.n; i++) {
		const struct section *owner = policy->owners.at[i];

		if (!tenant || policy_section_has(owner, tenant))
			values_put(values, tenant ? tenant : owner->name, POLICY_OWN_NAMES,
				   &owner->values[POLICY_OWN_NAMES]);
	}
}

/* Values of a reach, of the daemon or the section of an event. */
static void put_keys(struct values *values, enum policy_reach reach, const struct section *event)
{
	const struct policy *policy = values->question->policy;

	for (enum policy_key key = 0; key < POLICY_KEYS; key++)
		if (policy_keys[key].reach == reach)
			values_put(values, event ? event->name : NULL, key,
				   event ? policy_section_value(event, key) : policy_daemon(policy, key));
}

int policy_show(struct policy_question *question)
{
	const char *tenant = question->tenancy.path;
	struct ctl *ctl = question->ctl;
	struct policy_rules rules;
	struct values values;
	int r = ctl->argc > 0 ? policy_find_tenant(question, ctl->argv[0]) : policy_open(question);

	if (r != EXIT_DONE)
		return r;
	values_begin(&values, question);
	if (ctl->argc > 0) {
		values_put_levels(&values);
		policy_resolve(question->policy, tenant, &rules);
		for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
			if (policy_keys[key].reach == POLICY_OF_TENANT && key != POLICY_DENY_EVENTS)
				values_put(&values, tenant, key, rules.value[key]);
		/* Denials of all levels add up. */
		for (size_t i = 0; i < rules.n_denials; i++)
			values_put(&values, tenant, POLICY_DENY_EVENTS, rules.denials[i]);
		if (rules.n_denials == 0)
			values_put(&values, tenant, POLICY_DENY_EVENTS, rules.value[POLICY_DENY_EVENTS]);
		put_owners(&values, tenant);
	} else {
		put_keys(&values, POLICY_OF_DAEMON, NULL);
		put_owners(&values, NULL);
		for (size_t i = 0; i < question->policy->events.n; i++)
			put_keys(&values, POLICY_OF_EVENT, question->policy->events.at[i]);
	}
	values_end(&values);
	if (ctl->output.json)
		json_end(&values.json, '}');
	return EXIT_DONE;
}
