/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "client/userevctl/show/tenant_name.h"
#include "client/userevctl/silence/silence.h"
#include "daemon/identity/cgroup.h"
#include "protocol/base/array.h"

/*
 * A rule names tenants by paths of cgroups, which only the host's root and engines choose. A name may be another user's claim: so it is
 * looked up once, here, and a name that two tenants have names neither of them.
 */

void silence_patterns_deinit(struct silence_patterns *patterns)
{
	for (size_t i = 0; i < patterns->n; i++)
		free(patterns->at[i].text);
	free(patterns->at);
	*patterns = (struct silence_patterns){ 0 };
}

void silence_patterns_add(struct silence_patterns *patterns, const char *text, uint16_t flags)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (streq(patterns->at[i].text, text) && patterns->at[i].flags == flags)
			return;
	patterns->at = must(array_grow(patterns->at, patterns->n, sizeof(*patterns->at)));
	patterns->at[patterns->n++] = (struct silence_pattern){ must(strdup(text)), flags };
}

bool silence_unescape(const char *pattern, char *ret, size_t size)
{
	size_t n = 0;

	for (const char *c = pattern; *c && n < size - 1; c++) {
		if (strchr("*?[", *c) && *pattern == '/')
			return false;
		c += *pattern == '/' && *c == '\\' && c[1] && strchr("*?[", c[1]);
		ret[n++] = *c;
	}
	ret[n] = '\0';
	return true;
}

struct safe_string silence_shown(const char *pattern)
{
	char path[WIRE_TENANT_MAX + 1];

	return safe_string(silence_unescape(pattern, path, sizeof(path)) ? tenant_shown(path) : pattern);
}

static bool is_pid(const char *argument)
{
	return *argument && strspn(argument, "0123456789") == strlen(argument);
}

/* An enum exit_code. */
static int cgroup_of_pid(const char *argument, char *ret, size_t size)
{
	static struct cgroups cgroups;
	int r = *cgroups.root ? 0 : cgroups_find(NULL, &cgroups);

	if (r == 0)
		r = cgroup_of_process(&cgroups, (pid_t)strtol(argument, NULL, 10), ret, size);
	if (r == 0)
		return EXIT_DONE;
	ctl_error(r == -ESRCH ? "there is no process %s." : "the cgroup of process %s cannot be read.", argument);
	return EXIT_REFUSED;
}

/* "process:PID:COMM", the tenants of a daemon with --tenants=process. */
static bool is_process_tenant(const char *path, const char *argument)
{
	char begin[32];

	snprintf(begin, sizeof(begin), "process:%.12s:", argument);
	return strncmp(path, begin, strlen(begin)) == 0;
}

/* A number is a pid, whatever a container is called. */
int silence_find_present(struct ctl *ctl, const char *argument, struct silence_patterns *found)
{
	_cleanup_(control_freep) struct control *control = NULL;
	char path[WIRE_TENANT_MAX + 1], escaped[2 * WIRE_TENANT_MAX + 1];
	struct cursor row = { 0 };
	int r = control_request(ctl->control_socket, KIND_TENANTS, 0, NULL, 0, &control);
	size_t n;

	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		row_get_string(row, "tenant", path, sizeof(path));
		if (is_pid(argument) ? !is_process_tenant(path, argument)
				     : !tenant_matches(argument, tenant_name(path), path))
			continue;
		/* The path as a pattern that matches it alone. */
		n = 0;
		for (const char *c = path; *c && n < sizeof(escaped) - 2; c++) {
			if (*path == '/' && strchr("*?[", *c))
				escaped[n++] = '\\';
			escaped[n++] = *c;
		}
		escaped[n] = '\0';
		silence_patterns_add(found, escaped, 0);
	}
	return r;
}

/* An enum exit_code. */
static int find_tenants(struct ctl *ctl, const char *argument, struct silence_patterns *found)
{
	int r = silence_find_present(ctl, argument, found);

	return r < 0 ? control_explain(ctl->control_socket, r) : EXIT_DONE;
}

static int add_tenants(struct ctl *ctl, const char *argument, struct silence_patterns *ret)
{
	_cleanup_(silence_patterns_deinit) struct silence_patterns found = { 0 };
	int r = find_tenants(ctl, argument, &found);

	if (r != EXIT_DONE)
		return r;
	if (found.n == 0) {
		ctl_error(
			"no tenant is called '%s'. See 'userevctl tenants'. For one that is still to come give the path of its "
			"cgroup, or a pattern: '/machine.slice/*'.",
			excerpt_of(argument).text);
		return EXIT_REFUSED;
	}
	if (found.n > 1 && !strpbrk(argument, "*?[")) {
		ctl_error("%zu tenants are called '%s'. Give the path of one:", found.n, excerpt_of(argument).text);
		for (size_t i = 0; i < found.n; i++)
			ctl_note("  %s", safe_string(found.at[i].text).text);
		return EXIT_REFUSED;
	}
	for (size_t i = 0; i < found.n; i++)
		silence_patterns_add(ret, found.at[i].text, 0);
	return EXIT_DONE;
}

static int add_argument(struct ctl *ctl, const char *argument, struct silence_patterns *ret)
{
	_cleanup_(silence_patterns_deinit) struct silence_patterns found = { 0 };
	char path[WIRE_TENANT_MAX + 1];
	int r;

	if (*argument == '/') {
		silence_patterns_add(ret, argument, 0);
		return EXIT_DONE;
	}
	if (!is_pid(argument))
		return add_tenants(ctl, argument, ret);
	/* Of a daemon whose tenants are processes. */
	r = find_tenants(ctl, argument, &found);
	if (r == EXIT_DONE && found.n > 0) {
		silence_patterns_add(ret, found.at[0].text, 0);
		return EXIT_DONE;
	}
	if (r == EXIT_DONE)
		r = cgroup_of_pid(argument, path, sizeof(path));
	if (r == EXIT_DONE)
		silence_patterns_add(ret, path, SILENCE_OF_PROCESS);
	return r;
}

int silence_find(struct ctl *ctl, const char *const *arguments, size_t n, struct silence_patterns *ret)
{
	int r = EXIT_DONE;

	for (size_t i = 0; i < n && r == EXIT_DONE; i++)
		r = add_argument(ctl, arguments[i], ret);
	return r;
}

/* --- rules --- */

/* `cgroup`: of the process that the argument is the pid of, or "". */
static bool rule_matches(const char *argument, const char *cgroup, const char *pattern)
{
	char path[WIRE_TENANT_MAX + 1];

	if (streq(argument, pattern))
		return true;
	if (!silence_unescape(pattern, path, sizeof(path)))
		return false;
	if (is_pid(argument))
		return is_process_tenant(path, argument) || cgroup_is_inside(cgroup, path);
	return tenant_matches(argument, tenant_name(path), path);
}

int silence_find_rules(struct ctl *ctl, const char *rule, const char *const *arguments, size_t n,
		       struct silence_patterns *ret)
{
	_cleanup_(silence_patterns_deinit) struct silence_patterns rules = { 0 };
	_cleanup_(control_freep) struct control *control = NULL;
	char pattern[WIRE_TENANT_MAX + 1], cgroup[WIRE_TENANT_MAX + 1];
	struct cursor row = { 0 };
	int r = control_request(ctl->control_socket, KIND_SILENCES, 0, NULL, 0, &control);

	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		if (!streq(row_string(row, "rule").text, rule))
			continue;
		row_get_string(row, "tenant", pattern, sizeof(pattern));
		silence_patterns_add(&rules, pattern, 0);
	}
	if (r < 0)
		return control_explain(ctl->control_socket, r);
	for (size_t i = 0; i < n; i++) {
		const size_t before = ret->n;

		*cgroup = '\0';
		if (is_pid(arguments[i]) && cgroup_of_pid(arguments[i], cgroup, sizeof(cgroup)) != EXIT_DONE)
			return EXIT_REFUSED;
		for (size_t j = 0; j < rules.n; j++)
			if (rule_matches(arguments[i], cgroup, rules.at[j].text))
				silence_patterns_add(ret, rules.at[j].text, 0);
		if (ret->n > before)
			continue;
		ctl_error("no tenant is %s as '%s'. 'userevctl status' shows those that are.", rule,
			  excerpt_of(arguments[i]).text);
		return EXIT_REFUSED;
	}
	return EXIT_DONE;
}
