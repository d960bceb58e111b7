/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/tenant.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/identity/cgroup.h"
#include "daemon/identity/peer.h"
#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/process/clock.h"
#include "daemon/registry/resting.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/silence.h"
#include "kernel/kernel.h"

static void tenant_enter(struct tenant *tenant)
{
	const struct entry_tenant entry = { .cgroup_id = tenant->cgroup_id, .is_contained = tenant->is_contained };

	ledger_enter(tenant->registry->ledger, &tenant->entry, ENTRY_TENANT, tenant->number, 0, &entry, sizeof(entry),
		     tenant->path);
}

static struct tenant *tenant_free(struct tenant *tenant)
{
	fd_close(tenant->page_fd);
	fd_close(tenant->page_writable);
	if (tenant->expelling)
		LIST_REMOVE(tenant, in_expelling);
	rules_forget(tenant);
	if (tenant->level)
		resting_add(tenant->registry, tenant->level);
	level_unref(tenant->level);
	free(tenant->precedent);
	free(tenant);
	return NULL;
}

static int tenant_new(struct registry *registry, uint32_t number, const char *path, uint64_t id, struct tenant **ret)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant)
		return -ENOMEM;
	tenant->registry = registry;
	tenant->number = number;
	tenant->cgroup_id = id;
	tenant->page_fd = -1;
	tenant->page_writable = -1;
	LIST_INIT(&tenant->holders);
	LIST_INIT(&tenant->sharing);
	LIST_INIT(&tenant->all_grants);
	TAILQ_INIT(&tenant->ready);
	TAILQ_INIT(&tenant->begun);
	TAILQ_INIT(&tenant->due);
	if (level_get(&registry->levels, path, &tenant->level) < 0) {
		tenant_free(tenant);
		return -ENOMEM;
	}
	tenant->path = tenant->level->path;
	NUMBER_ADD(by_number, registry->tenants, number, tenant);
	if (!table_added()) {
		tenant_free(tenant);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&tenant->level->tenants, tenant, in_level);
	tenant_enter(tenant);
	silence_note_tenant(tenant);
	*ret = tenant;
	return 0;
}

/* A path that was deleted and made again has another id, and is another tenant. */
static struct tenant *tenant_find(const struct registry *registry, const char *path, uint64_t id)
{
	const struct level *level = level_find(&registry->levels, path, strlen(path));
	struct tenant *tenant = level ? LIST_FIRST(&level->tenants) : NULL;

	while (tenant && tenant->cgroup_id != id)
		tenant = LIST_NEXT(tenant, in_level);
	return tenant;
}

static int tenant_get(struct registry *registry, const char *path, uint64_t id, struct tenant **ret)
{
	*ret = tenant_find(registry, path, id);
	if (*ret)
		return 0;
	do
		registry->last_tenant++;
	while (registry->last_tenant == 0 || tenant_by_number(registry, registry->last_tenant));
	return tenant_new(registry, registry->last_tenant, path, id, ret);
}

static void tenant_update(struct tenant *tenant, bool is_contained)
{
	if (tenant->is_contained != is_contained) {
		tenant->is_contained = is_contained;
		tenant_enter(tenant);
	}
	rules_update(tenant);
}

int tenant_restore(struct registry *registry, uint32_t number, const char *path, uint64_t id, bool is_contained,
		   struct tenant **ret)
{
	int r;

	if (number == 0 || tenant_by_number(registry, number) || tenant_find(registry, path, id))
		return -EEXIST;
	r = tenant_new(registry, number, path, id, ret);
	if (r < 0)
		return r;
	registry->last_tenant = MAX(registry->last_tenant, number);
	tenant_update(*ret, is_contained);
	return 0;
}

int tenant_of_cgroup(struct registry *registry, const char *cgroup, struct tenant **ret)
{
	char path[PATH_MAX];
	bool is_contained;
	int r;

	string_copy(path, sizeof(path), cgroup);
	is_contained = cgroup_cut_to_tenant(&registry->cgroups, path, rules_border, registry);
	r = tenant_get(registry, path, cgroup_id(&registry->cgroups, path), ret);
	if (r == 0)
		tenant_update(*ret, is_contained);
	return r;
}

int tenant_of_peer(struct registry *registry, const struct peer *peer, struct tenant **ret)
{
	struct cgroup *cgroup = peer->cgroup;
	char path[64];
	double now;
	int r;

	if (registry->options->tenant_is_process) {
		/* The path is made up, and does not look like a cgroup's. */
		snprintf(path, sizeof(path), "process:%d:%s", (int)peer->pid, peer->comm);
		r = tenant_get(registry, path, 0, ret);
		if (r == 0)
			rules_update(*ret);
		return r;
	}
	now = clock_now();
	*ret = tenant_by_number(registry, cgroup->tenant);
	if (*ret && cgroup->generation == registry->generation && now - cgroup->looked < BORDER_INTERVAL) {
		rules_update(*ret);
		return 0;
	}
	r = tenant_of_cgroup(registry, cgroup->path, ret);
	if (r < 0 || cgroup->id == 0)
		return r;
	cgroup->tenant = (*ret)->number;
	cgroup->generation = registry->generation;
	cgroup->looked = now;
	return 0;
}

int tenant_of_policy(struct registry *registry, struct tenant **ret)
{
	int r = tenant_get(registry, TENANT_OF_POLICY, 0, ret);

	if (r == 0)
		rules_update(*ret);
	return r;
}

struct tenant *tenant_by_number(struct registry *registry, uint32_t number)
{
	struct tenant *tenant;

	NUMBER_FIND(by_number, registry->tenants, number, tenant);
	return tenant;
}

/* The table keeps them in the order in which they came, which is that of their numbers. */
struct tenant *tenant_after(struct registry *registry, uint32_t number)
{
	struct tenant *tenant = tenant_by_number(registry, number);

	if (tenant)
		return tenant->by_number.next;
	for (tenant = registry->tenants; tenant && tenant->number <= number;)
		tenant = tenant->by_number.next;
	return tenant;
}

size_t tenant_page_calls(const struct tenant *tenant, const char *text, struct kernel_call ret[2])
{
	ret[0] = (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = tenant->number, .text = text, .fd = -1 };
	/* Writable: in case we outlive the keeper. */
	ret[1] = (struct kernel_call){ .op = KERNEL_PAGE_FETCH, .page = tenant->number, .index = 1, .fd = -1 };
	return tenant->registry->kernel->facts.deposits ? 2 : 1;
}

int tenant_take_page(struct registry *registry, struct kernel_call *calls, size_t n)
{
	struct tenant *tenant = tenant_by_number(registry, calls->page);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (calls[i].result != KERNEL_OK)
			r = calls[i].result < 0 ? calls[i].result : -EIO;
	/* Two clients may have asked at the same time. A page on which streams have been made is freed with the tenant. */
	if (tenant && tenant->page_fd < 0 && (r == 0 || tenant->streams > 0)) {
		tenant->page_fd = fd_steal(&calls[0].fd);
		tenant->page_writable = n > 1 ? fd_steal(&calls[1].fd) : -1;
	}
	if (calls->result == KERNEL_OK && (!tenant || tenant->page_fd < 0))
		kernel_tell(registry->kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = calls->page });
	for (size_t i = 0; i < n; i++)
		fd_close(calls[i].fd);
	return r;
}

void tenant_release(struct tenant *tenant)
{
	struct registry *registry = tenant->registry;

	if (tenant->connections > 0 || tenant->n_grants > 0 || tenant->streams > 0 || tenant->is_native)
		return;
	if (tenant->page_fd >= 0)
		kernel_tell(registry->kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = tenant->number });
	ledger_strike(registry->ledger, &tenant->entry);
	ledger_strike(registry->ledger, &tenant->traces.entry);
	if (tenant->traces.walking)
		TAILQ_REMOVE(&registry->walks, tenant, traces.in_walks);
	HASH_DELETE(by_number, registry->tenants, tenant);
	LIST_REMOVE(tenant, in_level);
	tenant_free(tenant);
}
