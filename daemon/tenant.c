/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/tenant.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/daemon.h"
#include "daemon/pages.h"
#include "daemon/peer.h"
#include "kernel/kernel.h"

static bool is_delegated(void *data, const char *path)
{
	return cgroup_is_delegated(data, path);
}

/* Where each program is a tenant of its own, a made-up path says so. */
static void cut_to_tenant(struct daemon *daemon, const struct peer *peer, char *path, size_t size, uint64_t *ret_id)
{
	if (daemon->options.tenant_is_process) {
		snprintf(path, size, "process:%d:%s", (int)peer->pid, peer->comm);
		*ret_id = 0;
		return;
	}
	string_copy(path, size, peer->cgroup);
	cgroup_cut_to_tenant(path, is_delegated, &daemon->cgroups);
	*ret_id = cgroup_id(&daemon->cgroups, path);
}

static struct tenant *tenant_free(struct tenant *tenant)
{
	pages_forget(tenant);
	fd_close(tenant->page_fd);
	free(tenant->path);
	free(tenant);
	return NULL;
}

/* One that is not in use; 0 never is. */
static uint32_t next_number(struct daemon *daemon)
{
	do
		daemon->last_tenant++;
	while (daemon->last_tenant == 0 || tenant_by_number(daemon, daemon->last_tenant));
	return daemon->last_tenant;
}

static int tenant_new(struct daemon *daemon, const char *identity, const char *path, uint64_t id, struct tenant **ret)
{
	size_t length = strlen(identity);
	struct tenant *tenant = calloc(1, sizeof(*tenant) + length + 1);

	if (!tenant)
		return -ENOMEM;
	tenant->daemon = daemon;
	tenant->number = next_number(daemon);
	tenant->cgroup_id = id;
	tenant->page_fd = -1;
	LIST_INIT(&tenant->clients);
	LIST_INIT(&tenant->sharing);
	TAILQ_INIT(&tenant->ready);
	memcpy(tenant->identity, identity, length + 1);
	tenant->path = strdup(path);
	if (!tenant->path) {
		tenant_free(tenant);
		return -ENOMEM;
	}

	HASH_ADD(by_identity, daemon->tenants, identity, length, tenant);
	if (!table_added()) {
		tenant_free(tenant);
		return -ENOMEM;
	}
	HASH_ADD(by_number, daemon->tenants_by_number, number, sizeof(tenant->number), tenant);
	if (!table_added()) {
		HASH_DELETE(by_identity, daemon->tenants, tenant);
		tenant_free(tenant);
		return -ENOMEM;
	}
	quota_init(&tenant->quota, NULL, daemon->options.max_events);
	*ret = tenant;
	return 0;
}

int tenant_of_peer(struct daemon *daemon, const struct peer *peer, struct tenant **ret)
{
	char path[PATH_MAX], identity[PATH_MAX + 32];
	struct tenant *tenant;
	uint64_t id;

	cut_to_tenant(daemon, peer, path, sizeof(path), &id);
	/* A path that was deleted and made again has another id, and is another tenant. */
	snprintf(identity, sizeof(identity), "%" PRIu64 ":%s", id, path);
	HASH_FIND(by_identity, daemon->tenants, identity, strlen(identity), tenant);
	if (!tenant)
		return tenant_new(daemon, identity, path, id, ret);
	*ret = tenant;
	return 0;
}

struct tenant *tenant_by_number(struct daemon *daemon, uint32_t number)
{
	struct tenant *tenant;

	HASH_FIND(by_number, daemon->tenants_by_number, &number, sizeof(number), tenant);
	return tenant;
}

void tenant_release(struct tenant *tenant)
{
	struct daemon *daemon = tenant->daemon;

	if (tenant->connections > 0 || tenant->grants || tenant->streams > 0)
		return;
	if (tenant->page_fd >= 0)
		kernel_tell(daemon->kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = tenant->number });
	HASH_DELETE(by_identity, daemon->tenants, tenant);
	HASH_DELETE(by_number, daemon->tenants_by_number, tenant);
	quota_deinit(&tenant->quota);
	tenant_free(tenant);
}
