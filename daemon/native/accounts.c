/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A charge in the kernel goes up from the node of a tenant's own quota to that of the root, as one of ours does; and it fills a reserve, or
 * takes from the pool within the tenant's share. A node has its account's name, by which the next daemon finds it again:
 *
 *	own PATH	the quota of this very path
 *	level PATH	that of the cgroup and all below it
 *	share PATH	of the pool
 *	reserve PATTERN
 *
 * A node is free when nothing is counted in it and no tenant refers to it. Until then its account holds the level, or the reserve.
 */

#include "daemon/native/accounts.h"

#include <stdio.h>

#include "daemon/registry/rules.h"

struct account {
	uint32_t number;
	unsigned references;
	struct account *parent;	 /* with a reference */
	struct level *level;	 /* likewise */
	struct reserve *reserve; /* likewise */
	struct quota *quota;	 /* of the level; NULL: it is a share or a reserve */
	LIST_ENTRY(account) in_all;
};

static struct quota_shared *shared_of(const struct accounts *accounts, uint32_t number)
{
	return (struct quota_shared *)(void *)&accounts->nodes[number];
}

/* The account that a quota or a reserve has; NULL: none. */
static struct account *account_at(const struct accounts *accounts, const struct quota_shared *shared)
{
	return shared ? accounts->at[(const struct admission_node *)(const void *)shared - accounts->nodes] : NULL;
}

static struct account *share_find(const struct accounts *accounts, const struct level *level)
{
	struct account *account;

	LIST_FOREACH(account, &accounts->all, in_all)
		if (account->level == level && !account->quota)
			return account;
	return NULL;
}

static uint32_t find_free(struct accounts *accounts)
{
	for (uint32_t n = 0; n < ACCOUNT_END; n++) {
		accounts->last = accounts->last + 1 < ACCOUNT_END ? accounts->last + 1 : ACCOUNT_POOL + 1;
		if (!accounts->nodes[accounts->last].taken)
			return accounts->last;
	}
	return 0;
}

/* Takes the parent over. `number`: of a node with this name; 0: a new one. */
static struct account *account_new(struct accounts *accounts, uint32_t number, const char *name, struct account *parent)
{
	struct account *account = strlen(name) < ADMISSION_PATH ? calloc(1, sizeof(*account)) : NULL;
	struct admission_node *node;

	if (number == 0)
		number = find_free(accounts);
	if (!account || number == 0) {
		free(account);
		account_unref(accounts, parent);
		return NULL;
	}
	*account = (struct account){ .number = number, .references = 1, .parent = parent };
	node = &accounts->nodes[number];
	if (!node->taken)
		*node = (struct admission_node){ 0 };
	node->parent = parent ? parent->number : 0;
	string_copy(node->path, sizeof(node->path), name);
	__atomic_store_n(&node->taken, 1, __ATOMIC_SEQ_CST);
	accounts->at[number] = account;
	LIST_INSERT_HEAD(&accounts->all, account, in_all);
	return account;
}

static struct account *account_ref(struct accounts *accounts, struct account *account)
{
	if (account->references++ == 0)
		accounts->idle--;
	return account;
}

static void account_free(struct accounts *accounts, struct account *account)
{
	struct account *parent = account->parent;

	if (account->quota)
		quota_share(account->quota, NULL);
	if (account->reserve)
		reserve_share(account->reserve, NULL);
	reserve_unref(account->reserve);
	level_unref(account->level);
	accounts->at[account->number] = NULL;
	LIST_REMOVE(account, in_all);
	free(account);
	account_unref(accounts, parent);
}

struct account *account_unref(struct accounts *accounts, struct account *account)
{
	if (!account || --account->references > 0)
		return NULL;
	if (account_used(accounts, account) > 0) {
		accounts->idle++;
		return NULL;
	}
	accounts->nodes[account->number].taken = 0;
	account_free(accounts, account);
	return NULL;
}

static struct account *of_quota(struct accounts *accounts, uint32_t number, const char *kind, struct level *level,
				struct quota *quota, struct account *parent)
{
	char name[ADMISSION_PATH + 16];
	struct account *account;

	snprintf(name, sizeof(name), "%s %s", kind, level->path);
	account = quota ? account_at(accounts, quota->shared) : share_find(accounts, level);
	if (account) {
		account_unref(accounts, parent);
		return account_ref(accounts, account);
	}
	account = account_new(accounts, number, name, parent);
	if (!account)
		return NULL;
	account->level = level_ref(level);
	account->quota = quota;
	if (quota)
		quota_share(quota, shared_of(accounts, account->number));
	return account;
}

static struct account *of_level(struct accounts *accounts, uint32_t number, struct level *level)
{
	struct account *parent = NULL;

	if (level->parent) {
		parent = of_level(accounts, 0, level->parent);
		if (!parent)
			return NULL;
	}
	return of_quota(accounts, number, "level", level, &level->quota[RESOURCE_EVENTS], parent);
}

static struct account *of_tenant(struct accounts *accounts, uint32_t number, struct level *level)
{
	struct account *parent = of_level(accounts, 0, level);

	return parent ? of_quota(accounts, number, "own", level, &level->own[RESOURCE_EVENTS], parent) : NULL;
}

struct account *account_of_tenant(struct accounts *accounts, struct level *level)
{
	return of_tenant(accounts, 0, level);
}

struct account *account_of_share(struct accounts *accounts, struct level *level)
{
	return of_quota(accounts, 0, "share", level, NULL, NULL);
}

static struct account *of_reserve(struct accounts *accounts, uint32_t number, struct reserve *reserve, const char *name)
{
	struct account *account = account_at(accounts, reserve->shared);

	if (account)
		return account_ref(accounts, account);
	account = account_new(accounts, number, name, NULL);
	if (!account)
		return NULL;
	account->reserve = reserve_ref(reserve);
	reserve_share(reserve, shared_of(accounts, account->number));
	return account;
}

struct account *account_of_reserve(struct accounts *accounts, struct reserve *reserve, const char *pattern)
{
	char name[ADMISSION_PATH + 16];

	snprintf(name, sizeof(name), "reserve %s", pattern);
	return of_reserve(accounts, 0, reserve, name);
}

/* A node of the last daemon's. NULL: it names nothing, since that daemon has not finished it. */
static struct account *account_restore(struct accounts *accounts, uint32_t number)
{
	const char *name = accounts->nodes[number].path, *rest = strchr(name, ' ');
	struct account *account = NULL;
	struct reserve *reserve;
	struct level *level;

	if (rest && strncmp(name, "reserve ", strlen("reserve ")) == 0) {
		reserve = rules_reserve(accounts->registry, rest + 1);
		/* If the policy has none any more, what was filled stays claimed. */
		reserve = reserve ? reserve_ref(reserve) : reserve_new(&accounts->registry->machine, 0);
		if (reserve)
			account = of_reserve(accounts, number, reserve, name);
		reserve_unref(reserve);
		return account;
	}
	if (!rest || level_get(&accounts->registry->levels, rest + 1, &level) < 0)
		return NULL;
	if (strncmp(name, "level ", strlen("level ")) == 0)
		account = of_level(accounts, number, level);
	else if (strncmp(name, "own ", strlen("own ")) == 0)
		account = of_tenant(accounts, number, level);
	else if (strncmp(name, "share ", strlen("share ")) == 0)
		account = of_quota(accounts, number, "share", level, NULL, NULL);
	level_unref(level);
	return account;
}

/* An account's turn comes behind those above it: the root's, then by the depth of the path. */
static unsigned turn_of(const char *name)
{
	unsigned depth = strncmp(name, "level ", strlen("level ")) == 0 ? 0 : ADMISSION_DEPTH;

	for (const char *at = strchr(name, '/'); at && at[1] && depth < ADMISSION_DEPTH; at = strchr(at + 1, '/'))
		depth++;
	return depth;
}

int accounts_init(struct accounts *accounts, struct registry *registry, struct admission_node *nodes)
{
	struct account **restored = calloc(ADMISSION_NODES, sizeof(struct account *));

	*accounts = (struct accounts){ .registry = registry,
				       .nodes = nodes,
				       .at = calloc(ADMISSION_NODES, sizeof(struct account *)),
				       .last = ACCOUNT_POOL };
	LIST_INIT(&accounts->all);
	if (!accounts->at || !restored) {
		free(accounts->at);
		free(restored);
		accounts->at = NULL;
		return -ENOMEM;
	}
	nodes[ACCOUNT_POOL].taken = 1;
	machine_share(&registry->machine, shared_of(accounts, ACCOUNT_POOL));
	for (unsigned turn = 0; turn <= ADMISSION_DEPTH; turn++)
		for (uint32_t i = ACCOUNT_POOL + 1; i < ACCOUNT_END; i++)
			if (nodes[i].taken && !accounts->at[i] && turn_of(nodes[i].path) == turn) {
				restored[i] = account_restore(accounts, i);
				nodes[i].taken = restored[i] != NULL;
			}
	for (uint32_t i = ACCOUNT_POOL + 1; i < ACCOUNT_END; i++)
		account_unref(accounts, restored[i]);
	free(restored);
	return 0;
}

void accounts_deinit(struct accounts *accounts)
{
	struct account *account;

	if (!accounts->at)
		return;
	machine_share(&accounts->registry->machine, NULL);
	while ((account = LIST_FIRST(&accounts->all))) {
		/* Without its parent, which has its own turn. */
		LIST_REMOVE(account, in_all);
		if (account->quota)
			quota_share(account->quota, NULL);
		if (account->reserve)
			reserve_share(account->reserve, NULL);
		reserve_unref(account->reserve);
		level_unref(account->level);
		free(account);
	}
	free(accounts->at);
	*accounts = (struct accounts){ 0 };
}

uint32_t account_number(const struct account *account)
{
	return account ? account->number : 0;
}

uint32_t account_used(const struct accounts *accounts, const struct account *account)
{
	return quota_shared_used(shared_of(accounts, account->number));
}

void account_limit(const struct accounts *accounts, const struct account *account, uint32_t limit)
{
	quota_shared_allow(shared_of(accounts, account->number), limit);
}

void accounts_update(struct accounts *accounts)
{
	struct account *account, *next;

	for (account = LIST_FIRST(&accounts->all); account; account = next) {
		next = LIST_NEXT(account, in_all);
		if (account->reserve)
			reserve_update(account->reserve);
	}
	/* One that is freed may free those above it. */
	for (bool found = accounts->idle > 0; found;) {
		found = false;
		LIST_FOREACH(account, &accounts->all, in_all) {
			if (account->references > 0 || account_used(accounts, account) > 0)
				continue;
			accounts->idle--;
			accounts->nodes[account->number].taken = 0;
			account_free(accounts, account);
			found = true;
			break;
		}
	}
}
