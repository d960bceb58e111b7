/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/silence.h"

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/registry/tenant.h"
#include "protocol/base/table.h"
#include "protocol/event/description.h"

/*
 * Rules concern tenants and events that are there, and those that come later: a tenant finds out when it is made, an event of a tenant
 * when the kernel is asked for it. A rule without any tenant or event is kept. No client can choose the path of its cgroup on the host, so
 * none can leave a rule, or bring another tenant into one.
 */

struct silenced_event {
	struct silence_rules rules;
	UT_hash_handle by_name;
	size_t length;
	char name[];
};

bool silence_is_possible(const struct registry *registry)
{
	return !registry->kernel->facts.shared_page;
}

/* A name for pattern_parse(), which needs a slash: tenants that are processes have none. */
static bool is_cgroup(const char *tenant)
{
	return *tenant == '/';
}

bool silence_matches(const struct silence_rule *rule, const struct tenant *tenant)
{
	char path[PATH_MAX], *slash;

	if (!is_cgroup(rule->tenant) || !is_cgroup(tenant->path))
		return streq(rule->tenant, tenant->path);
	string_copy(path, sizeof(path), tenant->path);
	do {
		if (pattern_matches(&rule->pattern, path, path_depth(path)))
			return true;
		slash = strrchr(path, '/');
		/* The root is around all. */
		slash[slash == path && slash[1]] = '\0';
	} while (*path);
	return false;
}

static bool rules_match(const struct silence_rules *rules, const struct tenant *tenant)
{
	const struct silence_rule *rule;

	TAILQ_FOREACH(rule, rules, in_list)
		if (silence_matches(rule, tenant))
			return true;
	return false;
}

/* --- what is silent --- */

void silence_note_tenant(struct tenant *tenant)
{
	const struct silence *silence = tenant->registry->silence;

	tenant->muted = silence && rules_match(&silence->list[SILENCE_MUTE], tenant);
	tenant->blocked = silence && rules_match(&silence->list[SILENCE_BLOCK], tenant);
}

static struct silenced_event *silence_find_event(const struct silence *silence, const char *name, size_t length)
{
	struct silenced_event *found = NULL;

	if (silence)
		HASH_FIND(by_name, silence->events, name, length, found);
	return found;
}

const struct silence_rules *silence_of_event(const struct registry *registry, const char *event, size_t length)
{
	struct silenced_event *found = silence_find_event(registry->silence, event, length);

	return found ? &found->rules : NULL;
}

/* The policy's own tenant has a page that nobody reads. */
bool silence_is_wanted(const struct tenant *tenant, const char *event, size_t length)
{
	const struct silence *silence = tenant->registry->silence;
	const struct silence_rules *rules;

	if (!silence || silence->n == 0 || !silence_is_possible(tenant->registry) ||
	    streq(tenant->path, TENANT_OF_POLICY))
		return false;
	if (tenant->muted || tenant->blocked)
		return true;
	rules = silence_of_event(tenant->registry, event, length);
	return rules && !rules_match(rules, tenant);
}

/* --- rules --- */

const char *silence_check(const char *event, const char *tenant)
{
	struct pattern pattern;
	char *room;
	const char *wrong;

	for (const char *c = tenant; *c; c++)
		if ((unsigned char)*c < ' ')
			return "it has a control character, and no path of a cgroup has a line's end";
	if (strlen(tenant) >= PATH_MAX || strlen(event) > DESCRIPTION_NAME_MAX)
		return "it is too long";
	if (!*tenant || strchr(event, ' '))
		return "it is no name";
	if (!is_cgroup(tenant))
		return NULL;
	room = malloc(2 * strlen(tenant) + 2);
	wrong = room ? pattern_parse(tenant, room, &pattern) : "the daemon is out of memory";
	free(room);
	return wrong;
}

struct silence *silence_get(struct registry *registry)
{
	struct silence *silence = registry->silence;

	if (silence)
		return silence;
	silence = calloc(1, sizeof(*silence));
	if (!silence)
		return NULL;
	silence->registry = registry;
	TAILQ_INIT(&silence->all);
	TAILQ_INIT(&silence->waiting);
	for (size_t i = 0; i < SILENCE_KINDS; i++)
		TAILQ_INIT(&silence->list[i]);
	registry->silence = silence;
	return silence;
}

/* The rules among which this one belongs. NULL: no memory. */
static struct silence_rules *list_get(struct silence *silence, enum silence_kind kind, const char *event)
{
	struct silenced_event *found;

	if (kind != SILENCE_ONLY)
		return &silence->list[kind];
	found = silence_find_event(silence, event, strlen(event));
	if (found)
		return &found->rules;
	found = calloc(1, sizeof(*found) + strlen(event) + 1);
	if (!found)
		return NULL;
	TAILQ_INIT(&found->rules);
	found->length = strlen(event);
	memcpy(found->name, event, found->length);
	HASH_ADD(by_name, silence->events, name, found->length, found);
	if (table_added())
		return &found->rules;
	free(found);
	return NULL;
}

/* An event without rules is on for all. */
static void list_tidy(struct silence *silence, struct silenced_event *found)
{
	if (!found || !TAILQ_EMPTY(&found->rules))
		return;
	HASH_DELETE(by_name, silence->events, found);
	free(found);
}

static struct silence_rule *rule_find(const struct silence_rules *rules, const char *tenant, const void *owner)
{
	struct silence_rule *rule;

	TAILQ_FOREACH(rule, rules, in_list)
		if (rule->owner == owner && streq(rule->tenant, tenant))
			return rule;
	return NULL;
}

/* NULL: no memory. */
static struct silence_rule *rule_new(enum silence_kind kind, const char *event, const char *tenant)
{
	const size_t event_bytes = strlen(event) + 1, tenant_bytes = strlen(tenant) + 1;
	/* Behind both texts the pattern has its room. */
	struct silence_rule *rule = calloc(1, sizeof(*rule) + event_bytes + tenant_bytes + 2 * tenant_bytes);
	char *text;

	if (!rule)
		return NULL;
	rule->kind = kind;
	memcpy(rule->event, event, event_bytes);
	text = rule->event + event_bytes;
	memcpy(text, tenant, tenant_bytes);
	rule->tenant = text;
	if (is_cgroup(tenant))
		pattern_parse(text, text + tenant_bytes, &rule->pattern);
	return rule;
}

/* The rule has come, or goes. */
static void rule_note_tenants(struct registry *registry, const struct silence_rule *rule)
{
	for (struct tenant *tenant = registry->tenants; tenant && rule->kind != SILENCE_ONLY;
	     tenant = tenant->by_number.next)
		if (silence_matches(rule, tenant))
			silence_note_tenant(tenant);
}

int silence_add(struct registry *registry, enum silence_kind kind, const char *event, const char *tenant,
		const void *owner)
{
	struct silence *silence = silence_get(registry);
	struct entry_silence entry = { .kind = (uint32_t)kind, .event_length = (uint32_t)strlen(event) };
	struct silence_rules *rules;
	struct silence_rule *rule;
	char *text;

	if (silence_check(event, tenant) || kind == 0 || kind >= SILENCE_KINDS || (kind == SILENCE_ONLY) == !*event)
		return -EINVAL;
	if (!silence)
		return -ENOMEM;
	if (silence->n == SILENCE_RULES_MAX)
		return SILENCE_E_FULL;
	rules = list_get(silence, kind, event);
	if (rules && rule_find(rules, tenant, owner))
		return 0;
	rule = rules ? rule_new(kind, event, tenant) : NULL;
	text = rule ? malloc(strlen(event) + strlen(tenant) + 1) : NULL;
	if (!text) {
		free(rule);
		list_tidy(silence, silence_find_event(silence, event, strlen(event)));
		return -ENOMEM;
	}
	rule->owner = owner;
	rule->number = ++registry->last_number;
	TAILQ_INSERT_TAIL(rules, rule, in_list);
	TAILQ_INSERT_TAIL(&silence->all, rule, in_all);
	silence->n++;
	stpcpy(stpcpy(text, event), tenant);
	/* The next daemon does not have the connection. */
	if (!owner)
		ledger_enter(registry->ledger, &rule->entry, ENTRY_SILENCE, rule->number, 0, &entry, sizeof(entry),
			     text);
	free(text);
	rule_note_tenants(registry, rule);
	return 0;
}

static void rule_free(struct silence *silence, struct silence_rules *rules, struct silence_rule *rule)
{
	TAILQ_REMOVE(rules, rule, in_list);
	TAILQ_REMOVE(&silence->all, rule, in_all);
	silence->n--;
	ledger_strike(silence->registry->ledger, &rule->entry);
	rule_note_tenants(silence->registry, rule);
	free(rule);
}

bool silence_remove(struct registry *registry, enum silence_kind kind, const char *event, const char *tenant)
{
	struct silence *silence = registry->silence;
	struct silenced_event *found = silence_find_event(silence, event, strlen(event));
	struct silence_rules *rules = NULL;
	struct silence_rule *rule;
	bool any = false;

	if (silence)
		rules = kind != SILENCE_ONLY ? &silence->list[kind] : found ? &found->rules : NULL;
	while (rules && (rule = tenant ? rule_find(rules, tenant, NULL) : TAILQ_FIRST(rules))) {
		rule_free(silence, rules, rule);
		any = true;
	}
	if (any)
		list_tidy(silence, found);
	return any;
}

bool silence_leave(struct registry *registry, const void *owner)
{
	struct silence *silence = registry->silence;
	struct silence_rule *rule, *next;
	struct silenced_event *event;
	bool any = false;

	for (rule = silence ? TAILQ_FIRST(&silence->all) : NULL; rule; rule = next) {
		next = TAILQ_NEXT(rule, in_all);
		if (rule->owner != owner)
			continue;
		/* A list of the event's, since mutes and blocks have no owner. */
		event = silence_find_event(silence, rule->event, strlen(rule->event));
		rule_free(silence, &event->rules, rule);
		list_tidy(silence, event);
		any = true;
	}
	return any;
}

const struct silence_rule *silence_after(const struct registry *registry, uint64_t number)
{
	const struct silence_rule *rule = registry->silence ? TAILQ_FIRST(&registry->silence->all) : NULL;

	while (rule && rule->number <= number)
		rule = TAILQ_NEXT(rule, in_all);
	return rule;
}

/* The rules stay in the ledger, for the next daemon. */
void silence_deinit(struct registry *registry)
{
	struct silence *silence = steal_pointer(registry->silence);
	struct silenced_event *event, *next;
	struct silence_rule *rule;

	if (!silence)
		return;
	while ((rule = TAILQ_FIRST(&silence->all))) {
		TAILQ_REMOVE(&silence->all, rule, in_all);
		free(rule);
	}
	HASH_ITER(by_name, silence->events, event, next) {
		HASH_DELETE(by_name, silence->events, event);
		free(event);
	}
	free(silence);
}
