/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Taking places in the nodes, and returning them. */

#include "kernel/guard/admission/maps.h"

static __always_inline struct admission_node *node_get(__u32 number)
{
	struct admission_shared *memory = shared_get();

	return memory ? &memory->nodes[number & (ADMISSION_NODES - 1)] : NULL;
}

static __noinline bool node_take(__u32 number)
{
	struct admission_node *node = node_get(number);
	__u32 before;

	if (!node)
		return false;
	before = __sync_fetch_and_add(&node->used, 1);
	/* Only now: see admission.h. */
	if (before < *(volatile __u32 *)&node->limit)
		return true;
	__sync_fetch_and_sub(&node->used, 1);
	return false;
}

static __noinline bool node_put(__u32 number)
{
	struct admission_node *node = number ? node_get(number) : NULL;

	if (node)
		__sync_fetch_and_sub(&node->used, 1);
	return node;
}

/* Returns places from `number` up to below `end`. */
static __noinline int quota_put(__u32 number, __u32 end)
{
	for (int i = 0; i < ADMISSION_DEPTH && number != end && number != 0; i++) {
		const struct admission_node *node = node_get(number);

		node_put(number);
		number = node ? node->parent : 0;
	}
	return 0;
}

static __noinline bool quota_take(__u32 first)
{
	__u32 number = first;

	for (int i = 0; i < ADMISSION_DEPTH && number != 0; i++) {
		const struct admission_node *node = node_get(number);

		if (!node_take(number)) {
			quota_put(first, number);
			return false;
		}
		number = node ? node->parent : 0;
	}
	return first != 0;
}

/* A reserve that has room, or the pool within the fair share. */
static __always_inline bool place_take(const struct admission_tenant *tenant, __u32 *ret_reserve)
{
	*ret_reserve = 0;
	for (int i = 0; i < ADMISSION_RESERVES; i++)
		if (tenant->reserves[i] != 0 && node_take(tenant->reserves[i])) {
			*ret_reserve = tenant->reserves[i];
			return true;
		}
	if (!node_take(tenant->share))
		return false;
	if (node_take(tenant->pool))
		return true;
	node_put(tenant->share);
	return false;
}

static __always_inline bool charge(const struct admission_tenant *tenant, struct admission_charge *ret)
{
	if (!quota_take(tenant->quota))
		return false;
	ret->quota = tenant->quota;
	ret->share = tenant->share;
	ret->pool = tenant->pool;
	if (place_take(tenant, &ret->reserve))
		return true;
	quota_put(tenant->quota, 0);
	return false;
}

static __always_inline void refund(const struct admission_charge *charged)
{
	quota_put(charged->quota, 0);
	if (charged->reserve) {
		node_put(charged->reserve);
	} else {
		node_put(charged->share);
		node_put(charged->pool);
	}
}

static __noinline int node_force(__u32 number)
{
	struct admission_node *node = number ? node_get(number) : NULL;

	if (!node)
		return 0;
	__sync_fetch_and_add(&node->used, 1);
	return node->parent;
}

/* Whatever the limits. */
static __always_inline void charge_by_force(const struct admission_tenant *tenant, struct admission_charge *ret)
{
	__u32 number = tenant->quota;

	*ret = (struct admission_charge){ .quota = tenant->quota, .share = tenant->share, .pool = tenant->pool };
	for (int i = 0; i < ADMISSION_DEPTH && number != 0; i++)
		number = node_force(number);
	node_force(tenant->share);
	node_force(tenant->pool);
}

static __always_inline bool node_has_room(__u32 number)
{
	const struct admission_node *node = node_get(number);

	return node && node->used < node->limit;
}

/* Whether a place would be found. Nothing is taken, so others are not refused meanwhile. */
static __always_inline bool has_room(const struct admission_tenant *tenant)
{
	__u32 number = tenant->quota;

	for (int i = 0; i < ADMISSION_DEPTH && number != 0; i++) {
		const struct admission_node *node = node_get(number);

		if (!node || node->used >= node->limit)
			return false;
		number = node->parent;
	}
	for (int i = 0; i < ADMISSION_RESERVES; i++)
		if (tenant->reserves[i] != 0 && node_has_room(tenant->reserves[i]))
			return true;
	return node_has_room(tenant->share) && node_has_room(tenant->pool);
}
