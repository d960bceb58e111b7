/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy show: the values of all keys for a cgroup, and the line that each comes from. */

#include "client/userevctl/policy/policy.h"

static const struct column columns[] = {
	{ "CGROUP", COLUMN_PATH }, { "KEY", COLUMN_TEXT },     { "VALUE", COLUMN_LONG },
	{ "FROM", COLUMN_PATH },   { "SECTION", COLUMN_PATH },
};

struct values values_make(struct ctl *ctl)
{
	return (struct values){
		.ctl = ctl,
		.table = table_make(columns, ARRAY_SIZE(columns)),
		.json = { .file = ctl->output.file },
	};
}

void values_deinit(struct values *values)
{
	table_deinit(&values->table);
}

static void put_json(struct json *json, const char *key, const char *value)
{
	json_key(json, key, strlen(key));
	json_string(json, value, strlen(value));
}

static void put_object(struct json *json, const char *cgroup, const char *key, const char *value,
		       const struct policy_origin *origin)
{
	json_begin(json, '{');
	if (cgroup)
		put_json(json, "cgroup", cgroup);
	put_json(json, "key", key);
	put_json(json, "value", value);
	json_key(json, "default", 7);
	json_bool(json, !origin->file);
	if (origin->file) {
		put_json(json, "file", origin->file);
		json_key(json, "line", 4);
		json_u64(json, origin->line);
		put_json(json, "section", origin->section);
	}
	json_end(json, '}');
}

void values_put_text(struct values *values, const char *cgroup, const char *key, const char *value,
		     const struct policy_origin *origin)
{
	char buffer[PATH_MAX + 32];
	struct text from = text_make(buffer, sizeof(buffer));
	const char *section = origin->file ? origin->section : "-";

	if (values->ctl->json) {
		put_object(&values->json, cgroup, key, value, origin);
		return;
	}
	policy_origin_text(origin, &from);
	table_put_safe(&values->table, STYLE_NAME, cgroup ? cgroup : "-", cgroup ? strlen(cgroup) : 1);
	table_put(&values->table, STYLE_PLAIN, key);
	table_put(&values->table, STYLE_BOLD, value);
	table_put(&values->table, origin->file ? STYLE_PLAIN : STYLE_DIM, buffer);
	table_put_safe(&values->table, STYLE_DIM, section, strlen(section));
}

void values_put(struct values *values, const char *cgroup, enum policy_key key, const struct policy_value *value)
{
	char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));

	policy_value_text(key, value, &text);
	values_put_text(values, cgroup, policy_key_name(key), buffer, &value->origin);
}

struct levels {
	struct values *values;
	const struct policy_question *question;
};

static bool values_put_level_of(void *data, const char *path)
{
	struct levels *levels = data;
	struct policy_rules rules;

	policy_lookup(levels->question->policy, path, &rules);
	for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
		if (rules.value[key] && key != POLICY_TENANT && policy_key_reach(key) == POLICY_OF_CGROUP)
			values_put(levels->values, path, key, rules.value[key]);
	return false;
}

/* A tenant without a limit of its own has that of [Daemon]. */
static void put_defaults(struct values *values, const struct policy *policy, const struct policy_rules *rules,
			 const char *tenant)
{
	for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
		if (policy_key_of_daemon(key) && rules->value[key]->is_default)
			values_put(values, tenant, policy_key_of_daemon(key), policy_tenant_limit(policy, rules, key));
}

void values_put_levels(struct values *values, const struct policy_question *question, const char *path,
		       const struct tenancy *tenancy)
{
	struct levels levels = { values, question };
	struct policy_rules rules;

	values_put_text(values, tenancy->path, policy_key_name(POLICY_TENANT), "yes", &tenancy->origin);
	policy_walk(path, values_put_level_of, &levels);
	policy_resolve(question->policy, tenancy->path, &rules);
	put_defaults(values, question->policy, &rules, tenancy->path);
}

/* Denials of all levels add up. */
static void put_denials(struct values *values, const char *tenant, const struct policy_rules *rules)
{
	for (size_t i = 0; i < rules->n_denials; i++)
		values_put(values, tenant, POLICY_DENY_EVENTS, rules->denials[i]);
	if (rules->n_denials == 0)
		values_put(values, tenant, POLICY_DENY_EVENTS, rules->value[POLICY_DENY_EVENTS]);
}

/* Names that the tenant owns; NULL: names that any section owns. */
static void put_owners(struct values *values, const struct policy *policy, const char *tenant)
{
	struct policy_owner owner;

	for (size_t at = 0; policy_next_owner(policy, &at, &owner);)
		if (!tenant || policy_owner_has(&owner, tenant))
			values_put(values, tenant ? tenant : owner.pattern->text, POLICY_OWN_NAMES, owner.names);
}

static void put_cgroup(struct values *values, const struct policy_question *question, const char *path,
		       const struct tenancy *tenancy)
{
	struct policy_rules rules;

	values_put_levels(values, question, path, tenancy);
	policy_resolve(question->policy, tenancy->path, &rules);
	for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
		if (policy_key_reach(key) == POLICY_OF_TENANT && key != POLICY_DENY_EVENTS)
			values_put(values, tenancy->path, key, rules.value[key]);
	put_denials(values, tenancy->path, &rules);
	put_owners(values, question->policy, tenancy->path);
}

static void put_daemon(struct values *values, const struct policy *policy)
{
	for (enum policy_key key = 0; key < POLICY_KEYS; key++)
		if (policy_key_reach(key) == POLICY_OF_DAEMON)
			values_put(values, NULL, key, policy_daemon(policy, key));
}

static void put_events(struct values *values, const struct policy *policy)
{
	struct policy_event event;

	for (size_t at = 0; policy_next_event(policy, &at, &event);) {
		values_put(values, event.origin->section, POLICY_FIELDS, event.fields);
		values_put(values, event.origin->section, POLICY_PERSIST, event.persist);
		values_put(values, event.origin->section, POLICY_TENANTS, event.tenants);
	}
}

static void begin_json(struct json *json, const char *path, const struct tenancy *tenancy)
{
	json_begin(json, '{');
	if (path) {
		put_json(json, "cgroup", path);
		put_json(json, "tenant", tenancy->path);
		put_json(json, "tenant_by", tenancy->by);
		json_key(json, "tenant_sure", 11);
		json_bool(json, tenancy->sure);
	}
	json_key(json, "values", 6);
	json_begin(json, '[');
}

static void end_json(struct json *json)
{
	json_end(json, ']');
	json_end(json, '}');
	putc('\n', json->file);
}

static int policy_show_print(struct policy_question *question, const char *path)
{
	_cleanup_(values_deinit) struct values values = values_make(question->ctl);
	struct tenancy tenancy = { .sure = true };
	int r = 0;

	if (path)
		policy_find_tenant(question, path, &tenancy);
	if (question->ctl->json)
		begin_json(&values.json, path, &tenancy);
	if (path)
		put_cgroup(&values, question, path, &tenancy);
	if (!path) {
		put_daemon(&values, question->policy);
		put_owners(&values, question->policy, NULL);
		put_events(&values, question->policy);
	}
	if (question->ctl->json)
		end_json(&values.json);
	else
		r = table_print(&values.table, &question->ctl->output);
	if (r < 0)
		return ctl_output_failed(r);
	policy_note_tenancy(&tenancy);
	return ctl_finish(question->ctl);
}

int policy_show(struct policy_question *question)
{
	struct ctl *ctl = question->ctl;
	char path[PATH_MAX];
	int r;

	if (ctl->argc > 0 && !policy_take_path(ctl->argv[0], path, sizeof(path)))
		return EXIT_USAGE;
	r = policy_open(question);
	return r == EXIT_DONE ? policy_show_print(question, ctl->argc > 0 ? path : NULL) : r;
}
