/* SPDX-License-Identifier: GPL-2.0-or-later */

/* policy check, show, explain: from the files alone, so that they show the effect of files before a daemon reads them. */

#include "client/userevctl/policy/policy.h"

#include "daemon/identity/cgroup.h"
#include "protocol/protocol.h"

/* Of a machine with an unchanged kernel, on which no other program holds events. */
enum { CAPACITY_MAX = 64900 };

struct search {
	const struct cgroups *cgroups;
	struct policy_question *question;
	bool lifted; /* inside a delegated cgroup with Tenant=no, where delegation does not count */
};

static enum policy_tenant rule_of(void *data, const char *path)
{
	struct search *search = data;
	enum policy_tenant tenant = policy_tenant(search->question->policy, path);

	if (!search->lifted && tenant == POLICY_TENANT_UNSET)
		search->question->tenancy.sure &= cgroup_id(search->cgroups, path) != 0;
	search->lifted |= tenant == POLICY_TENANT_NO && cgroup_is_delegated(search->cgroups, path);
	return tenant;
}

/* As the daemon does it; but the cgroup may be on another machine, or not be there yet. */
int policy_find_tenant(struct policy_question *question, const char *typed)
{
	struct tenancy *ret = &question->tenancy;
	struct cgroups cgroups = { 0 };
	struct search search = { .cgroups = &cgroups, .question = question };
	size_t length = strlen(typed);
	struct policy_rules rules;
	int r;

	while (length > 1 && typed[length - 1] == '/')
		length--;
	if (typed[0] != '/' || length >= sizeof(ret->cgroup)) {
		ctl_error("'%s' is no cgroup: its path begins with '/', such as /system.slice/cron.service.",
			  excerpt_of(typed).text);
		return EXIT_USAGE;
	}
	r = policy_open(question);
	if (r != EXIT_DONE)
		return r;
	ret->sure = true;
	string_copy(ret->cgroup, length + 1, typed);
	string_copy(ret->path, sizeof(ret->path), ret->cgroup);
	if (!question->root)
		cgroups_find(NULL, &cgroups);
	cgroup_cut_to_tenant(&cgroups, ret->path, rule_of, &search);
	if (policy_tenant(question->policy, ret->path) == POLICY_TENANT_YES) {
		policy_lookup(&question->policy->sections, ret->path, &rules);
		ret->by = "policy";
		ret->origin = rules.value[POLICY_TENANT]->origin;
	} else {
		ret->by = cgroup_is_delegated(&cgroups, ret->path) ? "delegation" : "level";
	}
	return EXIT_DONE;
}

static const struct verb {
	const char *name;
	int least, most; /* arguments behind it */
	int (*run)(struct policy_question *);
} verbs[] = {
	{ "check", 0, INT32_MAX - 1, policy_check },
	{ "show", 0, 1, policy_show },
	{ "explain", 2, 2, policy_explain },
};

static int policy_run(struct ctl *ctl)
{
	struct policy_question question = { .ctl = ctl, .capacity = CAPACITY_MAX };
	const struct verb *verb = verbs;
	struct cursor status = { 0 };
	int r;

	options_read(ctl, &question, 1, INT32_MAX);
	while (verb < verbs + ARRAY_SIZE(verbs) && !streq(verb->name, ctl->argv[0]))
		verb++;
	if (verb == verbs + ARRAY_SIZE(verbs)) {
		ctl_error("policy: give check, show or explain, not '%s'. See 'userevctl policy --help'.",
			  excerpt_of(ctl->argv[0]).text);
		return EXIT_USAGE;
	}
	ctl_expect_arguments(ctl, verb->least + 1, verb->most + 1);
	ctl->argc--;
	ctl->argv++;
	/* The directories of the daemon that runs here, or else those that a daemon would read. */
	question.is_ours = !question.root && !question.directories;
	if (question.is_ours)
		control_ask_status(ctl->control_socket, CONTROL_TIMEOUT_MS, &status);
	row_get_string(status, "policy", question.found, sizeof(question.found));
	free((void *)status.at);
	if (!question.directories)
		question.directories = *question.found ? question.found : POLICY_DIRECTORIES;
	r = verb->run(&question);
	if (question.tenancy.by && !question.tenancy.sure)
		ctl_note("Not all of these cgroups are here: if one further out is delegated, that is the tenant.");
	policy_unref(question.policy);
	problems_deinit(&question.problems);
	return r;
}

COMMAND(policy, "check|show|explain ...", "check policy files, and see what they do",
	OPTIONS(TEXT_ROW("root", "DIR", struct policy_question, root, "the files of a machine with this root"),
		TEXT_ROW("policy", "DIR[:DIR...]", struct policy_question, directories,
			 "read these directories instead"),
		NUMBER_ROW("capacity", "N", struct policy_question, capacity, 1, UINT32_MAX,
			   "check: events for which there is room"),
		FLAG_ROW("strict", struct policy_question, strict, "check: unknown keys and sections are errors"),
		FLAG_ROW("persist", struct policy_question, persist, "explain: the event is to outlive its program"),
		FLAG_ROW("multi-format", struct policy_question, multi_format,
			 "explain: a name may have several formats")),
	"Reads the policy files, see userevd.conf(5); explain also asks a daemon if one runs.\n"
	"\n"
	"  check [FILE...]             print the mistakes in them, or in these files alone\n"
	"  show [CGROUP]               print its values, and the line that sets each;\n"
	"                              without a cgroup, those of [Daemon]\n"
	"  explain CGROUP DESCRIPTION  whether a program there may register this event,\n"
	"                              and the line that decides it");
