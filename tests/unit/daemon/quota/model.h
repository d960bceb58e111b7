/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The model of test_quota_history.c: a list of held events, from which each sum and each decision is worked out each time. */

#include "daemon/quota/charge.h"
#include "daemon/quota/level.h"
#include "tests/suite.h"

/* For checks that run a hundred thousand times: check writes a line for each of its own assertions. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

enum {
	STEPS = 100000,
	EVENTS = 40,
	GRANTS = 110,
	SECTIONS = 5,
	RESERVES = SECTIONS + GRANTS, /* a removed reserve lives until its charges end */
	NONE = -1,
};

/* Each level's parent stands before it. */
static const struct {
	const char *path;
	int parent;
} levels[] = {
	{ "/", NONE },
	{ "/system", 0 },
	{ "/user", 0 },
	{ "/box", 0 },
	{ "made up/with a slash", 0 },
	{ "/system/one", 1 },
	{ "/system/one2", 1 },
	{ "/system/three", 1 },
	{ "/user/one", 2 },
	{ "/user/one/deep", 8 },
	{ "/user/one/deep/deeper", 9 },
	{ "/user/two", 2 },
};

enum { LEVELS = ARRAY_SIZE(levels), MODEL_NO_MAXIMUM = -1 };

/* A held event, with the receipt of its charge. */
struct entry {
	bool there;
	bool lingers; /* its tenant is gone */
	int level;
	int event;
	int reserve; /* NONE: common */
	struct quota_charge receipt;
	struct level *holds; /* a reference, as its tenant has */
};

struct model_reserve {
	struct reserve *reserve; /* NULL: unused */
	int64_t maximum;
	bool in_policy;
};

struct history {
	unsigned step;
	unsigned answers[QUOTA_E_SHARE + 1], into_reserve, passed_on, came_back, restarts;

	/* the admin's settings */
	int64_t capacity;
	int64_t maximum[LEVELS];  /* by policy; MODEL_NO_MAXIMUM */
	int64_t default_maximum;  /* for the tenants themselves */
	int section[SECTIONS];	  /* which reserve it has, or NONE */
	unsigned matches[LEVELS]; /* a bit for each section */

	struct entry entry[GRANTS];
	struct model_reserve reserve[RESERVES];

	struct machine machine;
	struct level *table;
	struct level *tenant[LEVELS]; /* NULL: no such tenant */
	struct quota_event event[EVENTS];
};

static inline bool is_below(int level, int ancestor)
{
	while (level != NONE && level != ancestor)
		level = levels[level].parent;
	return level == ancestor;
}

/* A tenant's own quota is one more level, below that of its path. */
struct node {
	int level;
	bool own;
};

static inline bool counts_in(const struct entry *entry, struct node node)
{
	return entry->there && (node.own ? entry->level == node.level : is_below(entry->level, node.level));
}

static inline bool pays(const struct history *history, const struct entry *entry)
{
	return entry->there && entry->reserve == NONE &&
	       LIST_FIRST(&history->event[entry->event].common) == &entry->receipt;
}

static inline int64_t sum_held(const struct history *history, struct node node)
{
	int64_t sum = 0;

	for (size_t i = 0; i < GRANTS; i++)
		sum += counts_in(&history->entry[i], node);
	return sum;
}

static inline int64_t sum_paid(const struct history *history, struct node node)
{
	int64_t sum = 0;

	for (size_t i = 0; i < GRANTS; i++)
		sum += counts_in(&history->entry[i], node) && pays(history, &history->entry[i]);
	return sum;
}

static inline int64_t count_common(const struct history *history)
{
	bool seen[EVENTS] = { false };
	int64_t n = 0;

	for (size_t i = 0; i < GRANTS; i++)
		if (history->entry[i].there && history->entry[i].reserve == NONE)
			seen[history->entry[i].event] = true;
	for (size_t i = 0; i < EVENTS; i++)
		n += seen[i];
	return n;
}

static inline int64_t count_filled(const struct history *history, int reserve)
{
	int64_t n = 0;

	for (size_t i = 0; i < GRANTS; i++)
		n += history->entry[i].there && history->entry[i].reserve == reserve;
	return n;
}

static inline int64_t sum_claimed(const struct history *history)
{
	int64_t sum = 0;

	for (int i = 0; i < RESERVES; i++)
		if (history->reserve[i].reserve)
			sum += MAX(history->reserve[i].maximum, count_filled(history, i));
	return sum;
}

static inline bool is_exempt(const struct history *history, struct node node)
{
	return history->maximum[node.level] != MODEL_NO_MAXIMUM;
}

static inline int64_t room_of(const struct history *history, struct node node)
{
	int64_t maximum = history->maximum[node.level];

	if (maximum == MODEL_NO_MAXIMUM)
		maximum = node.own ? history->default_maximum : INT64_MAX;
	return MAX(maximum - sum_held(history, node), 0);
}

static inline int64_t room_of_machine(const struct history *history)
{
	return MAX(history->capacity - sum_claimed(history) - count_common(history), 0);
}

/* Lists the nodes from a tenant up to the root. Returns their number. */
static inline int chain(int level, struct node *ret)
{
	int n = 0;

	ret[n++] = (struct node){ .level = level, .own = true };
	for (; level != NONE; level = levels[level].parent)
		ret[n++] = (struct node){ .level = level };
	return n;
}

static inline bool is_child(struct node child, struct node parent)
{
	return !parent.own && (child.own ? child.level == parent.level : levels[child.level].parent == parent.level);
}

static inline int64_t count_sharing(const struct history *history, struct node parent)
{
	int64_t n = 0;

	for (int i = 0; i < 2 * (int)LEVELS; i++) {
		struct node child = { .level = i / 2, .own = i % 2 };

		n += is_child(child, parent) && !is_exempt(history, child) && sum_paid(history, child) > 0;
	}
	return n;
}

/* The smallest room from this node up, and in the pool. */
static inline int64_t remains_from(const struct history *history, const struct node *nodes, int from, int n)
{
	int64_t remains = room_of_machine(history);

	for (int i = from; i < n; i++)
		remains = MIN(remains, room_of(history, nodes[i]));
	return remains;
}

/* dbus-broker's rule: the share is at most one of n + 1 parts of itself and the rest. */
static inline bool is_fair(const struct history *history, const struct node *nodes, int i, int n)
{
	int64_t share = sum_paid(history, nodes[i]), parts = count_sharing(history, nodes[i + 1]) + 1;

	return (share + remains_from(history, nodes, i + 1, n)) / parts >= share + 1;
}

/* At most one of n + 1 equal parts of everything. */
static inline bool is_modest(const struct history *history, const struct node *nodes, int i, int n)
{
	int64_t share = sum_paid(history, nodes[i]), parts = count_sharing(history, nodes[i + 1]) + 1;

	return share * parts <= sum_paid(history, nodes[i + 1]) + remains_from(history, nodes, i + 1, n);
}

static inline int find_reserve(const struct history *history, int level)
{
	for (int i = 0; i < SECTIONS; i++) {
		int reserve = history->section[i];

		if (history->matches[level] & 1u << i && reserve != NONE &&
		    count_filled(history, reserve) < history->reserve[reserve].maximum)
			return reserve;
	}
	return NONE;
}

static inline bool is_common_already(const struct history *history, int event)
{
	for (size_t i = 0; i < GRANTS; i++)
		if (history->entry[i].there && history->entry[i].event == event && history->entry[i].reserve == NONE)
			return true;
	return false;
}

static inline int predict(const struct history *history, int level, int event)
{
	struct node nodes[LEVELS + 1];
	int n = chain(level, nodes);
	bool is_old;

	for (int i = 0; i < n; i++)
		if (room_of(history, nodes[i]) == 0)
			return QUOTA_E_MAXIMUM;
	if (find_reserve(history, level) != NONE)
		return 0;
	is_old = is_common_already(history, event);
	if (!is_old && room_of_machine(history) == 0)
		return QUOTA_E_MACHINE;
	for (int i = 0; i < n - 1; i++)
		if (!is_exempt(history, nodes[i]) && !(is_old ? is_modest : is_fair)(history, nodes, i, n))
			return QUOTA_E_SHARE;
	return 0;
}
