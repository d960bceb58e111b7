/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * May this tenant register an event of this name? DenyEvents= of all levels comes first: nothing can allow an event that one of these
 * lists denies. Where matching a name fails with an error, the event is refused.
 */

#include "daemon/policy/policy.h"
#include "protocol/event/description.h"
#include "protocol/protocol.h"
#include "protocol/refusal.h"

void policy_origin_text(const struct policy_origin *origin, struct text *text)
{
	if (!origin->file) {
		text_printf(text, "default");
		return;
	}
	text_safe(text, origin->file, strlen(origin->file));
	text_printf(text, ":%u", origin->line);
}

void policy_limit_text(enum policy_key key, const struct policy_value *value, struct text *text)
{
	text_printf(text, "%s=", policy_keys[key].name);
	policy_value_text(key, value, text);
	if (!value->origin.file)
		return;
	text_printf(text, " of [");
	text_excerpt(text, value->origin.section, strlen(value->origin.section));
	text_printf(text, "]");
}

/* "BEFORE 'NAME'AFTER (FILE:LINE)" */
static int verdict_refuse(struct text *why, const char *before, const char *name, const char *after,
			  const struct policy_origin *origin)
{
	text_printf(why, "%s '", before);
	text_excerpt(why, name, strlen(name));
	text_printf(why, "'%s (", after);
	policy_origin_text(origin, why);
	text_printf(why, ")");
	return REFUSAL_NOT_PERMITTED;
}

/* The glob of the list that matches. `on_error`: a glob for which fnmatch(3) fails counts as one that matches. */
static const struct policy_glob *verdict_find_glob(const struct policy_value *list, const char *name, bool on_error)
{
	for (size_t i = 0; i < list->n_globs; i++) {
		int r = glob_match(list->globs[i].text, name);

		if (r > 0 || (r < 0 && on_error))
			return &list->globs[i];
	}
	return NULL;
}

/* By DenyEvents= of any level. */
static int verdict_deny(const struct policy_rules *rules, const char *name, struct policy_verdict *ret,
			struct text *why)
{
	for (size_t i = 0; i < rules->n_denials; i++) {
		const struct policy_glob *glob = verdict_find_glob(rules->denials[i], name, true);

		if (!glob)
			continue;
		*ret = (struct policy_verdict){ POLICY_DENY_EVENTS, rules->denials[i], glob };
		text_printf(why, "DenyEvents=");
		text_excerpt(why, glob->text, strlen(glob->text));
		return verdict_refuse(why, " denies", name, "", &glob->origin);
	}
	return 0;
}

bool policy_keeps_event(const struct policy_rules *rules, const struct section *event)
{
	const struct policy_value *tenants = policy_section_value(event, POLICY_TENANTS);

	for (size_t i = 0; rules->path[0] == '/' && i < tenants->n_globs; i++)
		if (pattern_matches(&tenants->globs[i].pattern, rules->path, path_depth(rules->path)))
			return false;
	return !tenants->is_default;
}

static int verdict_keep(const struct policy_rules *rules, const char *name, struct policy_verdict *ret,
			struct text *why)
{
	const struct section *event;
	const struct policy_value *tenants;

	if (rules->policy->events.n == 0)
		return 0;
	event = policy_find_event(rules->policy, name, strlen(name));
	if (!event || !policy_keeps_event(rules, event))
		return 0;
	tenants = policy_section_value(event, POLICY_TENANTS);
	*ret = (struct policy_verdict){ POLICY_TENANTS, tenants, NULL };
	return verdict_refuse(why, "the policy keeps the event", name, " for others", &tenants->origin);
}

static int verdict_allow_flags(const struct policy_rules *rules, unsigned flags, struct policy_verdict *ret,
			       struct text *why)
{
	enum policy_key key = flags & REGISTER_PERSIST && !rules->value[POLICY_ALLOW_PERSIST]->number
				      ? POLICY_ALLOW_PERSIST
				      : POLICY_ALLOW_MULTI_FORMAT;
	const struct policy_value *value = rules->value[key];

	if (value->number || (key == POLICY_ALLOW_MULTI_FORMAT && !(flags & REGISTER_MULTI_FORMAT)))
		return 0;
	*ret = (struct policy_verdict){ key, value, NULL };
	text_printf(why, "%s=no; register it without that flag (", policy_keys[key].name);
	policy_origin_text(&value->origin, why);
	text_printf(why, ")");
	return REFUSAL_NOT_PERMITTED;
}

int policy_may_register(const struct policy_rules *rules, const char *asked, size_t length, unsigned flags,
			struct policy_verdict *ret, struct text *why)
{
	const struct policy_value *allow = rules->value[POLICY_ALLOW_EVENTS], *names = NULL;
	const struct sections *owners = &rules->policy->owners;
	const struct policy_glob *glob = NULL;
	char name[DESCRIPTION_NAME_MAX + 1];
	size_t i;
	int r;

	string_copy(name, MIN(sizeof(name), length + 1), asked);
	r = verdict_deny(rules, name, ret, why);
	if (r != 0)
		return r;
	for (i = 0; !glob && i < owners->n; i++) {
		names = &owners->at[i]->values[POLICY_OWN_NAMES];
		glob = verdict_find_glob(names, name, true);
	}
	*ret = (struct policy_verdict){ POLICY_OWN_NAMES, names, glob };
	/* The sentence does not name the owner: the cgroups of other tenants are not this tenant's business. */
	if (glob && !policy_section_has(owners->at[i - 1], rules->path))
		return verdict_refuse(why, "the policy keeps the name", name, " for others", &glob->origin);
	/* An owned name is the better explanation where all names are allowed. */
	if (!glob || !allow->is_default)
		*ret = (struct policy_verdict){ POLICY_ALLOW_EVENTS, allow, verdict_find_glob(allow, name, false) };
	if (!ret->glob && !allow->is_default)
		return verdict_refuse(why, "nothing in AllowEvents= matches", name, "", &allow->origin);
	r = verdict_keep(rules, name, ret, why);
	return r == 0 ? verdict_allow_flags(rules, flags, ret, why) : r;
}

int policy_admit(const struct policy_rules *rules, const char *asked, size_t length, unsigned flags,
		 struct description *ret, struct policy_verdict *ret_verdict, struct text *why)
{
	const char *prefix = rules->value[POLICY_NAME_PREFIX]->text;
	/* A text that does not fit is too long for a description, too. */
	TEXT(text, WIRE_DESCRIPTION_MAX + 64);
	int r;

	*ret_verdict = (struct policy_verdict){ .key = POLICY_KEYS };
	if (prefix) {
		size_t blanks = 0;

		while (blanks < length && strchr(" \t", asked[blanks]))
			blanks++;
		text_put(&text, prefix, strlen(prefix));
		text_put(&text, asked + blanks, length - blanks);
		asked = text.buffer;
		length = text.length;
	}
	r = description_parse(asked, length, ret, why);
	if (r == 0)
		r = policy_may_register(rules, ret->canonical, ret->name_length, flags, ret_verdict, why);
	return r;
}
