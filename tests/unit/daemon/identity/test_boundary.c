/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which cgroup is the tenant, by Tenant= and delegation of each level. test_cgroup.c cuts the paths. */

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

/* Which level is the tenant, and whether it is a boundary. */
static size_t find_tenant(const struct cgroups *where, const char *all, bool *ret_boundary)
{
	char path[256];
	struct text to = text_make(path, sizeof(path));
	size_t depth = 0;

	levels = all;
	for (const char *level = all; *level; level += strcspn(level, " "), level += *level == ' ')
		text_printf(&to, "/x");
	*ret_boundary = cgroup_cut_to_tenant(where, path, rule_of, NULL);
	for (const char *at = path; *at; at++)
		depth += *at == '/';
	return depth;
}

static void expect_boundary(size_t level, const char *all)
{
	bool boundary;
	size_t found = find_tenant(&cgroups, all, &boundary);

	ck_assert_msg(found == level && boundary, "'%s': it is level %zu", all, found);
}

/* No level is a boundary. */
static void expect_second_level(const char *all)
{
	bool boundary;
	size_t found = find_tenant(&cgroups, all, &boundary);

	ck_assert_msg(found == 2 && !boundary, "'%s': it is level %zu", all, found);
}

TEST(delegated_cgroup_is_a_tenant_by_mark_or_owner)
{
	expect_second_level(". . .");
	expect_boundary(3, ". . d");
	expect_boundary(3, ". . o");
	expect_boundary(1, "o .");
	expect_boundary(3, ". . do .");
}

TEST(marks_inside_a_delegated_cgroup_have_no_effect)
{
	expect_boundary(2, ". d d d");
	expect_boundary(2, ". o d o");
	expect_boundary(2, ". d o d");
}

TEST(policy_makes_tenants_without_delegation)
{
	expect_boundary(3, ". . +");
	expect_boundary(3, ". . + .");
	expect_boundary(1, "+ . .");
	expect_boundary(3, ". . +d");
}

TEST(outermost_tenant_counts)
{
	expect_boundary(2, ". + + .");
	expect_boundary(2, ". + d .");
	/* Otherwise the owner of a cgroup could make cgroups inside that match a pattern. */
	expect_boundary(2, ". d + .");
	expect_boundary(2, ". o + .");
}

TEST(tenant_no_makes_a_delegated_cgroup_no_tenant)
{
	expect_second_level(". . -d .");
	expect_second_level(". -o . .");
	expect_second_level("-d . .");
	expect_boundary(4, ". . -d +");
	expect_boundary(4, ". -d . +");
}

/* The owner of the outermost cgroup can mark and delegate the cgroups inside at will. */
TEST(inside_tenant_no_only_the_policy_makes_tenants)
{
	expect_second_level(". -d d .");
	expect_second_level(". -o . o d");
	expect_second_level("-d d d");
	expect_second_level(". -d -d d");
	expect_boundary(5, ". -d d o +");
	expect_boundary(5, ". -d -d d +d");
}

TEST(tenant_no_without_delegation_has_no_inner_effect)
{
	expect_second_level(". - .");
	expect_boundary(3, ". - d");
	expect_boundary(3, "- - o");
	expect_boundary(3, "- . +");
}

/* user.slice, user-1000.slice, session-3.scope; and user@1000.service, which belongs to the user. */
TEST(sessions_belong_to_the_tenant_of_their_user)
{
	expect_second_level(". . .");
	expect_boundary(3, ". . o . .");
	expect_boundary(2, ". + .");
	expect_boundary(2, ". + o .");
	expect_boundary(3, ". . +");
	/* All services of the user's manager, too. */
	expect_second_level(". . -o o d");
}

TEST(cgroup_beyond_the_deepest_level_is_no_tenant)
{
	expect_boundary(11, ". . . . . . . . . . d . .");
	expect_boundary(11, ". . . . . . . . . . + . .");
	expect_second_level(". . . . . . . . . . . d .");
	expect_second_level(". . . . . . . . . . . + .");
	expect_second_level(". . . . . . . . . . . . +");
}

TEST(without_visible_cgroups_the_policy_alone_counts)
{
	const struct cgroups nowhere = { 0 };
	bool boundary;

	ck_assert_uint_eq(find_tenant(&nowhere, ". d o +", &boundary), 4);
	ck_assert(boundary);
	ck_assert_uint_eq(find_tenant(&nowhere, ". . -d d", &boundary), 2);
	ck_assert(!boundary);
}
