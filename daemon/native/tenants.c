/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The kernel has to know a tenant before its first program registers, and nobody tells us of containers that start. So we watch the tree of
 * cgroups with inotify down to the tenants, and enter each as soon as it is made: what a container's runtime has to do yet takes longer.
 *
 * A cgroup is a tenant by the same rule as for programs that connect (cgroup_cut_to_tenant()). The second level below the root, which
 * is one by default, may have tenants inside, which then are to be entered, too.
 */

#include "daemon/native/state.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "daemon/process/log.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"

struct native_tenant *tenants_find(const struct natives *natives, uint64_t cgroup)
{
	struct native_tenant *found;

	HASH_FIND(by_cgroup, natives->tenants, &cgroup, sizeof(cgroup), found);
	return found;
}

/* --- the kernel's entry --- */

static void tenant_give_back(struct natives *natives, struct native_tenant *native)
{
	struct tenant *tenant = native->tenant;

	native->own = account_unref(&natives->accounts, native->own);
	native->share = account_unref(&natives->accounts, native->share);
	for (size_t i = 0; i < ADMISSION_RESERVES; i++)
		native->reserves[i] = account_unref(&natives->accounts, native->reserves[i]);
	native->tenant = NULL;
	if (tenant) {
		tenant->is_native = false;
		tenant_release(tenant);
	}
}

static void tenant_remove(struct natives *natives, struct native_tenant *native)
{
	native_remove_tenant(natives->kernel, native->cgroup);
	tenant_give_back(natives, native);
	HASH_DELETE(by_cgroup, natives->tenants, native);
	free(native);
}

static int find_accounts(struct natives *natives, struct native_tenant *native)
{
	const struct registry *registry = natives->registry;
	struct tenant *tenant = native->tenant;
	struct accounts *accounts = &natives->accounts;
	size_t n = 0;

	native->own = account_of_tenant(accounts, tenant->level);
	native->share = account_of_share(accounts, tenant->level);
	if (!native->own || !native->share)
		return -ENOSPC;
	for (size_t i = 0; i < tenant->rules.n_reserves && n < ADMISSION_RESERVES; i++) {
		const char *pattern = rules_pattern(registry, tenant->rules.reserve[i]);

		if (pattern)
			native->reserves[n++] = account_of_reserve(accounts, tenant->rules.reserve[i], pattern);
	}
	return 0;
}

static int tenant_enter_kernel(const struct natives *natives, const struct native_tenant *native, int rules,
			       bool is_default)
{
	const struct policy_rules *values = &native->tenant->rules.values;
	struct admission_tenant entry = { .quota = account_number(native->own),
					  .share = account_number(native->share),
					  .pool = ACCOUNT_POOL,
					  .rules = (unsigned)rules };

	for (size_t i = 0; i < ADMISSION_RESERVES; i++)
		entry.reserves[i] = account_number(native->reserves[i]);
	if (values->value[POLICY_ALLOW_MULTI_FORMAT]->number)
		entry.flags |= ADMISSION_MULTI_FORMAT;
	if (values->value[POLICY_NATIVE_VIOLATIONS]->number == POLICY_VIOLATIONS_KILL)
		entry.flags |= ADMISSION_KILL;
	if (is_default)
		entry.flags |= ADMISSION_DEFAULT;
	return native_set_tenant(natives->kernel, native->cgroup, &entry);
}

static int tenant_fill(struct natives *natives, struct native_tenant *native, bool is_default)
{
	struct tenant *tenant;
	int r = tenant_of_cgroup(natives->registry, native->path, &tenant);

	if (r < 0)
		return r;
	tenant->is_native = true;
	/* The accounts of before are let go afterwards, so that what both need stays. */
	struct native_tenant before = *native;

	native->tenant = tenant;
	memset(native->reserves, 0, sizeof(native->reserves));
	r = find_accounts(natives, native);
	if (r == 0)
		r = names_find(natives, &tenant->rules.values);
	if (r >= 0)
		r = tenant_enter_kernel(natives, native, r, is_default);
	before.tenant = before.tenant == tenant ? NULL : before.tenant;
	tenant_give_back(natives, &before);
	return r;
}

static struct native_tenant *tenant_get(struct natives *natives, uint64_t cgroup, const char *path)
{
	struct native_tenant *native = tenants_find(natives, cgroup);

	if (native)
		return native;
	native = calloc(1, sizeof(*native) + strlen(path) + 1);
	if (!native)
		return NULL;
	native->cgroup = cgroup;
	memcpy(native->path, path, strlen(path));
	HASH_ADD(by_cgroup, natives->tenants, cgroup, sizeof(native->cgroup), native);
	if (table_added())
		return native;
	free(native);
	return NULL;
}

/* Whether a tenant that is one by default, and whose programs may register, is around this cgroup. */
static bool is_inside_of_one(const struct natives *natives, const char *path)
{
	for (const struct native_tenant *native = natives->tenants; native; native = native->by_cgroup.next)
		if (native->tenant && !streq(path, native->path) && cgroup_is_inside(path, native->path))
			return true;
	return false;
}

/* `is_default`: because it is of the second level. */
static void tenant_consider(struct natives *natives, const char *path, bool is_default)
{
	const struct registry *registry = natives->registry;
	const uint64_t cgroup = cgroup_id(&registry->cgroups, path);
	struct native_tenant *native = cgroup ? tenants_find(natives, cgroup) : NULL;
	struct policy_rules rules;
	bool wanted;
	int r = 0;

	policy_resolve(registry->policy, path, &rules);
	wanted = rules.value[POLICY_NATIVE]->number != POLICY_NATIVE_NO;
	if (cgroup == 0 || (!wanted && !native && !is_inside_of_one(natives, path)))
		return;
	native = tenant_get(natives, cgroup, path);
	if (!native)
		r = -ENOMEM;
	else if (wanted)
		r = tenant_fill(natives, native, is_default);
	else if (is_inside_of_one(natives, path))
		r = native_set_tenant(natives->kernel, cgroup, &(struct admission_tenant){ 0 });
	if (native && !wanted)
		tenant_give_back(natives, native);
	if (r < 0)
		log_warning("programs of %s can't register by themselves: %s", path,
			    r == -E2BIG	   ? "the rules for names take too many states"
			    : r == -ENOSPC ? "there is no room for another tenant"
					   : strerror(-r));
	if (native && (r < 0 || (!wanted && !is_inside_of_one(natives, path))))
		tenant_remove(natives, native);
	else if (native)
		native->walk = natives->walk;
}

/* --- the tree --- */

static void watch_directory(struct natives *natives, const char *path, const char *directory)
{
	struct watched *watched;
	int watch = inotify_add_watch(natives->inotify, directory, IN_CREATE | IN_DELETE | IN_ATTRIB | IN_ONLYDIR);

	/* Nobody but root can look into it, or it has just gone. */
	if (watch < 0 && (errno == EACCES || errno == ENOENT))
		return;
	if (watch < 0) {
		log_warning("can't watch %s for new containers: %s", path, strerror(errno));
		return;
	}
	HASH_FIND(by_watch, natives->watched, &watch, sizeof(watch), watched);
	if (watched)
		return;
	watched = calloc(1, sizeof(*watched) + strlen(path) + 1);
	if (!watched)
		return;
	watched->watch = watch;
	memcpy(watched->path, path, strlen(path));
	HASH_ADD(by_watch, natives->watched, watch, sizeof(watched->watch), watched);
	if (!table_added())
		free(watched);
}

static void visit(struct natives *natives, const char *path, unsigned depth);

static void visit_children(struct natives *natives, const char *path, const char *directory, unsigned depth)
{
	DIR *stream = opendir(directory);
	const struct dirent *entry;
	char child[PATH_MAX];

	while (stream && (entry = readdir(stream)))
		if (entry->d_type == DT_DIR && *entry->d_name != '.' &&
		    snprintf(child, sizeof(child), "%s/%s", streq(path, "/") ? "" : path, entry->d_name) <
			    (int)sizeof(child))
			visit(natives, child, depth + 1);
	if (stream)
		closedir(stream);
}

/* Cgroups inside of a tenant are not tenants, unless it is one by default. */
static void visit(struct natives *natives, const char *path, unsigned depth)
{
	const struct registry *registry = natives->registry;
	char tenant[PATH_MAX], directory[PATH_MAX];
	bool is_border;

	string_copy(tenant, sizeof(tenant), path);
	is_border = cgroup_cut_to_tenant(&registry->cgroups, tenant, rules_border, natives->registry) &&
		    streq(tenant, path);
	if (depth > 0 && (is_border || depth == 2))
		tenant_consider(natives, path, !is_border);
	if (is_border || depth >= ADMISSION_DEPTH ||
	    !cgroup_directory(&registry->cgroups, path, directory, sizeof(directory)))
		return;
	watch_directory(natives, path, directory);
	visit_children(natives, path, directory, depth);
}

void tenants_walk(struct natives *natives)
{
	struct native_tenant *native, *next;

	natives->walk++;
	names_begin_anew(natives);
	visit(natives, "/", 0);
	HASH_ITER(by_cgroup, natives->tenants, native, next)
		if (native->walk != natives->walk)
			tenant_remove(natives, native);
	tenants_share(natives);
}

static void tenant_gone(struct natives *natives, const char *path)
{
	struct native_tenant *native, *next;

	HASH_ITER(by_cgroup, natives->tenants, native, next)
		if (cgroup_is_inside(native->path, path) &&
		    cgroup_id(&natives->registry->cgroups, native->path) != native->cgroup)
			tenant_remove(natives, native);
}

static void take_event(struct natives *natives, const struct inotify_event *event)
{
	struct watched *watched;
	char path[PATH_MAX];

	if (event->mask & IN_Q_OVERFLOW) {
		tenants_walk(natives);
		return;
	}
	HASH_FIND(by_watch, natives->watched, &event->wd, sizeof(event->wd), watched);
	if (!watched)
		return;
	if (event->mask & IN_IGNORED) {
		HASH_DELETE(by_watch, natives->watched, watched);
		free(watched);
		return;
	}
	if (!(event->mask & IN_ISDIR) || event->len == 0 ||
	    snprintf(path, sizeof(path), "%s/%s", streq(watched->path, "/") ? "" : watched->path, event->name) >=
		    (int)sizeof(path))
		return;
	/* One that was removed and made again has another number. */
	tenant_gone(natives, path);
	if (!(event->mask & IN_DELETE))
		visit(natives, path, (unsigned)path_depth(path));
}

static void on_cgroups(struct ev_loop *loop _unused_, ev_io *w, int events _unused_)
{
	struct natives *natives = container_of(w, struct natives, w_cgroups);
	char buffer[8192] __attribute__((aligned(8)));
	ssize_t n = read(natives->inotify, buffer, sizeof(buffer));

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const void *)(buffer + at);

		at += (ssize_t)(sizeof(*event) + event->len);
		take_event(natives, event);
	}
	tenants_share(natives);
}

/* The last daemon has entered them, and they have gone since. */
static void forget_others(const struct natives *natives)
{
	const struct admission_tenant *tenants = natives->kernel->shared->tenants;

	for (size_t i = 0; i < ADMISSION_TENANTS; i++)
		if (tenants[i].cgroup != 0 && tenants[i].cgroup != ADMISSION_GONE &&
		    !tenants_find(natives, tenants[i].cgroup))
			native_remove_tenant(natives->kernel, tenants[i].cgroup);
}

int tenants_watch(struct natives *natives)
{
	natives->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (natives->inotify < 0)
		return -errno;
	ev_io_init(&natives->w_cgroups, on_cgroups, natives->inotify, EV_READ);
	ev_io_start(natives->registry->loop, &natives->w_cgroups);
	tenants_walk(natives);
	forget_others(natives);
	return 0;
}

/*
 * The fair share is coarser than that of charge.c: of `n` tenants that have events of the pool natively, another one gets one part of
 * n + 2 of the room. So the first gets a half, the second a sixth, as there.
 */
void tenants_share(struct natives *natives)
{
	const uint32_t room = machine_room(&natives->registry->machine);
	unsigned sharing = 0;

	for (const struct native_tenant *native = natives->tenants; native; native = native->by_cgroup.next)
		sharing += native->tenant && account_used(&natives->accounts, native->share) > 0;
	for (const struct native_tenant *native = natives->tenants; native; native = native->by_cgroup.next) {
		uint32_t used;

		if (!native->tenant)
			continue;
		used = account_used(&natives->accounts, native->share);
		account_limit(&natives->accounts, native->share,
			      native->tenant->level->own[RESOURCE_EVENTS].has_own_maximum
				      ? QUOTA_NO_MAXIMUM
				      : MAX(used, (room + used) / (sharing - (used > 0) + 2)));
	}
}

void tenants_deinit(struct natives *natives)
{
	struct native_tenant *native, *next;
	struct watched *watched, *next_watched;

	ev_io_stop(natives->registry->loop, &natives->w_cgroups);
	natives->inotify = fd_close(natives->inotify);
	/* Entries and nodes stay, for programs, and for the next daemon. */
	HASH_ITER(by_cgroup, natives->tenants, native, next) {
		HASH_DELETE(by_cgroup, natives->tenants, native);
		if (native->tenant) {
			native->tenant->is_native = false;
			tenant_release(native->tenant);
		}
		free(native);
	}
	HASH_ITER(by_watch, natives->watched, watched, next_watched) {
		HASH_DELETE(by_watch, natives->watched, watched);
		free(watched);
	}
}
