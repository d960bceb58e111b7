/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A level is identified by its path alone, a tenant by a path and an id. A cgroup that is removed and made again is another
 * tenant, but is charged at the same level as long as events of its predecessor linger there. So a container that crashes in
 * a loop, and leaves events behind each time, never gets beyond its maximum.
 *
 * Each level has two quotas for each resource. One counts the charges of the cgroup and of all below it: a policy's maxima
 * apply to it. The other one counts the charges at this very path, and the default maximum applies to it: it must not limit
 * all that happens to be below, as it would for a program in the root or in a slice.
 *
 * A level holds a reference on the one above it, and each charge holds one on its level.
 */

#include "daemon/quota/level.h"

#include "daemon/limits.h"

static const char root[] = "/";

struct level *level_find(struct level *const *table, const char *path, size_t length)
{
	struct level *level;

	HASH_FIND(by_path, *table, path, length, level);
	return level;
}

/* It takes over the caller's reference to its parent if it is made. */
static struct level *level_new(struct level **table, struct level *parent, const char *path, size_t length)
{
	struct level *level = calloc(1, sizeof(*level) + length + 1);

	if (!level)
		return NULL;
	level->table = table;
	level->references = 1;
	LIST_INIT(&level->tenants);
	TAILQ_INIT(&level->kept);
	bucket_init(&level->requests, UINT32_MAX, UINT32_MAX, 0.);
	bucket_init(&level->own_requests, UINT32_MAX, UINT32_MAX, 0.);
	memcpy(level->path, path, length);
	HASH_ADD(by_path, *table, path, length, level);
	if (!table_added()) {
		free(level);
		return NULL;
	}
	level->parent = parent;
	for (enum resource i = 0; i < RESOURCES; i++) {
		quota_init(&level->quota[i], parent ? &parent->quota[i] : NULL);
		quota_init(&level->own[i], &level->quota[i]);
	}
	return level;
}

/* One level further down; the caller's reference to the one above it is gone either way. NULL: no memory. */
static struct level *descend(struct level **table, struct level *parent, const char *path, size_t length)
{
	struct level *level = level_find(table, path, length);

	if (level) {
		level_ref(level);
		level_unref(parent);
		return level;
	}
	level = level_new(table, parent, path, length);
	if (!level)
		level_unref(parent);
	return level;
}

int level_get(struct level **table, const char *path, struct level **ret)
{
	struct level *level = descend(table, NULL, root, strlen(root));

	for (size_t length = 0; level && path[length];) {
		length = *path == '/' ? length + 1 + strcspn(path + length + 1, "/") : strlen(path);
		level = descend(table, level, path, length);
	}
	if (!level)
		return -ENOMEM;
	*ret = level;
	return 0;
}

struct level *level_ref(struct level *level)
{
	level->references++;
	return level;
}

struct level *level_unref(struct level *level)
{
	while (level && --level->references == 0) {
		struct level *parent = level->parent;

		HASH_DELETE(by_path, *level->table, level);
		for (enum resource i = 0; i < RESOURCES; i++) {
			quota_deinit(&level->own[i]);
			quota_deinit(&level->quota[i]);
		}
		free(level->refusals);
		free(level);
		level = parent;
	}
	return NULL;
}

void level_set_maximum(struct level *level, enum resource resource, uint32_t maximum, bool is_own)
{
	quota_set_maximum(&level->quota[resource], is_own ? maximum : QUOTA_NO_MAXIMUM, is_own);
	quota_set_maximum(&level->own[resource], maximum, is_own);
}

struct level *level_of(struct level *level, const struct quota *quota, bool *ret_own)
{
	const char *at = (const char *)quota;

	while (at < (const char *)level || at >= (const char *)(level + 1))
		level = level->parent;
	*ret_own = quota >= level->own && quota < level->own + RESOURCES;
	return level;
}

uint32_t level_room(struct level *level, enum resource resource)
{
	uint32_t least = UINT32_MAX;

	for (const struct quota *quota = &level->own[resource]; quota; quota = quota->parent)
		least = MIN(least, quota_room(quota));
	return least;
}

double level_wait(const struct level *level, double now)
{
	double most = bucket_wait(&level->own_requests, now);

	for (; level; level = level->parent)
		most = MAX(most, bucket_wait(&level->requests, now));
	return most;
}

void level_take(struct level *level, double now)
{
	bucket_take(&level->own_requests, now);
	for (; level; level = level->parent)
		bucket_take(&level->requests, now);
}

static bool is_lately(double then, double now)
{
	return then != 0. && now - then < REFUSALS_INTERVAL;
}

bool level_may_warn(struct level *level, double now)
{
	if (is_lately(level->warned, now))
		return false;
	level->warned = now;
	return true;
}

bool level_is_rested(const struct level *level, double now)
{
	if (!bucket_is_full(&level->own_requests, now) || is_lately(level->warned, now))
		return false;
	for (size_t i = 0; level->refusals && i < REFUSAL_MAX_; i++)
		if (is_lately(level->refusals[i].since, now))
			return false;
	while (level && bucket_is_full(&level->requests, now))
		level = level->parent;
	return !level;
}
