/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which cgroup is the tenant, by Tenant= and delegation of each level. */

#include "daemon/identity/cgroup.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "protocol/base/text.h"
#include "tests/suite.h"

/*
 * The levels of a cgroup's path, outermost first, with blanks between them:
 *
 *	.  nothing	d  bears systemd's mark		o  is another user's
 *	+  Tenant=yes	-  Tenant=no
 */
static const char *levels;

static bool is(const char *path, char mark)
{
	const char *level = levels;

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
		level += strcspn(level, " ") + 1;
	return memchr(level, mark, strcspn(level, " "));
}

static const struct cgroups cgroups = { .mount = "/cgroups", .root = "/" };

static const char *below_mount(const char *path)
{
	ck_assert(strncmp(path, "/cgroups/", strlen("/cgroups/")) == 0);
	return path + strlen("/cgroups");
}

int stat(const char *path, struct stat *ret)
{
	*ret = (struct stat){ .st_uid = is(below_mount(path), 'o') ? 1000 : 0 };
	return 0;
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	ck_assert_str_eq(name, "user.delegate");
	ck_assert_uint_ge(size, 1);
	*(char *)value = '1';
	return is(below_mount(path), 'd') ? 1 : -1;
}

static enum policy_tenant rule_of(void *data _unused_, const char *path)
{
	return is(path, '+') ? POLICY_TENANT_YES : is(path, '-') ? POLICY_TENANT_NO : POLICY_TENANT_UNSET;
}

static const struct cgroups nowhere;

/* Which level is the tenant, and whether it is a boundary. Without a boundary it is the second one. */
static void expect_tenant(const struct cgroups *where, size_t level, bool is_boundary, const char *all)
{
	char path[256];
	struct text to = text_make(path, sizeof(path));
	size_t depth = 0;
	bool found;

	levels = all;
	for (const char *at = all; *at; at += strcspn(at, " "), at += *at == ' ')
		text_printf(&to, "/x");
	found = cgroup_cut_to_tenant(where, path, rule_of, NULL);
	for (const char *at = path; *at; at++)
		depth += *at == '/';
	ck_assert_msg(depth == level && found == is_boundary, "'%s': it is level %zu", all, depth);
}

TEST(tenant_is_the_outermost_boundary_that_counts)
{
	static const struct {
		const struct cgroups *where;
		size_t level;
		bool is_boundary;
		const char *levels;
	} cases[] = {
		/* A mark or another owner delegates. */
		{ &cgroups, 2, false, ". . ." },
		{ &cgroups, 3, true, ". . d" },
		{ &cgroups, 3, true, ". . o" },
		{ &cgroups, 1, true, "o ." },
		{ &cgroups, 3, true, ". . do ." },
		/* Marks inside a delegated cgroup have no effect. */
		{ &cgroups, 2, true, ". d d d" },
		{ &cgroups, 2, true, ". o d o" },
		{ &cgroups, 2, true, ". d o d" },
		/* The policy makes tenants without delegation. */
		{ &cgroups, 3, true, ". . +" },
		{ &cgroups, 3, true, ". . + ." },
		{ &cgroups, 1, true, "+ . ." },
		{ &cgroups, 3, true, ". . +d" },
		{ &cgroups, 2, true, ". + + ." },
		{ &cgroups, 2, true, ". + d ." },
		/* Otherwise the owner of a cgroup could make cgroups inside that match a pattern. */
		{ &cgroups, 2, true, ". d + ." },
		{ &cgroups, 2, true, ". o + ." },
		/* Tenant=no makes a delegated cgroup no tenant. */
		{ &cgroups, 2, false, ". . -d ." },
		{ &cgroups, 2, false, ". -o . ." },
		{ &cgroups, 2, false, "-d . ." },
		{ &cgroups, 4, true, ". . -d +" },
		{ &cgroups, 4, true, ". -d . +" },
		/* Inside it only the policy makes tenants: its owner can mark and delegate the cgroups inside at will. */
		{ &cgroups, 2, false, ". -d d ." },
		{ &cgroups, 2, false, ". -o . o d" },
		{ &cgroups, 2, false, "-d d d" },
		{ &cgroups, 2, false, ". -d -d d" },
		{ &cgroups, 5, true, ". -d d o +" },
		{ &cgroups, 5, true, ". -d -d d +d" },
		/* Tenant=no without delegation has no effect inside. */
		{ &cgroups, 2, false, ". - ." },
		{ &cgroups, 3, true, ". - d" },
		{ &cgroups, 3, true, "- - o" },
		{ &cgroups, 3, true, "- . +" },
		/* user.slice, user-1000.slice, session-3.scope; and user@1000.service, which belongs to the user. */
		{ &cgroups, 3, true, ". . o . ." },
		{ &cgroups, 2, true, ". + ." },
		{ &cgroups, 2, true, ". + o ." },
		/* All services of the user's manager, too. */
		{ &cgroups, 2, false, ". . -o o d" },
		/* Deeper than twelve levels nothing is checked. */
		{ &cgroups, 11, true, ". . . . . . . . . . d . ." },
		{ &cgroups, 11, true, ". . . . . . . . . . + . ." },
		{ &cgroups, 2, false, ". . . . . . . . . . . d ." },
		{ &cgroups, 2, false, ". . . . . . . . . . . + ." },
		{ &cgroups, 2, false, ". . . . . . . . . . . . +" },
		/* Without visible cgroups the policy alone counts. */
		{ &nowhere, 4, true, ". d o +" },
		{ &nowhere, 2, false, ". . -d d" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_tenant(cases[i].where, cases[i].level, cases[i].is_boundary, cases[i].levels);
}

static enum policy_tenant is_same(void *boundary, const char *path)
{
	return streq(path, boundary) ? POLICY_TENANT_YES : POLICY_TENANT_UNSET;
}

TEST(path_is_cut_at_the_end_of_a_name)
{
	static const struct {
		const char *path, *boundary /* "": none */, *tenant;
	} cases[] = {
		{ "", "", "" },
		{ "/", "", "/" },
		{ "/", "/", "/" },
		{ "/a", "", "/a" },
		{ "/a/b", "", "/a/b" },
		{ "/user.slice/user-1000.slice/session-3.scope", "", "/user.slice/user-1000.slice" },
		{ "/a/b/c/d/e", "/a/b/c", "/a/b/c" },
		{ "/a/b/c/d/e", "/a/b/c/d/e", "/a/b/c/d/e" },
		/* Boundaries of other paths have no effect. */
		{ "/a/b/c", "/a/b/c/d", "/a/b" },
		{ "/a/b/c", "/", "/a/b" },
		{ "/machine.slice/box.scope/made/..2", "", "/machine.slice/box.scope" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char boundary[32], path[64];

		string_copy(path, sizeof(path), cases[i].path);
		string_copy(boundary, sizeof(boundary), cases[i].boundary);
		cgroup_cut_to_tenant(&nowhere, path, is_same, boundary);
		ck_assert_str_eq(path, cases[i].tenant);
	}
}
