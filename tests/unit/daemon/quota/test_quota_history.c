/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Random histories of quotas: tenants come, hold events, release them, linger, end and come back; the policy is reloaded; the
 * machine's capacity changes; the daemon restarts, and tenants ask again for their events. The model is a list of held events and
 * the admin's settings. At each step it adds everything up from that list: all sums have to be equal, and each decision has to be
 * the one that the model predicts.
 *
 * The daemon chooses which of an event's holders pays. Exactly one does.
 */

#include "tests/unit/daemon/quota/model.h"

/* --- comparison --- */

static void expect_quota(const struct history *history, const struct quota *quota, struct node node)
{
	int64_t held = sum_held(history, node), paid = sum_paid(history, node), sharing = count_sharing(history, node);

	expect(quota->held == held && quota->paid == paid && quota->sharing == sharing,
	       "step %u: %s%s has %u, pays for %u, and %u share there; it should be %lld, %lld, %lld", history->step,
	       levels[node.level].path, node.own ? " itself" : "", quota->held, quota->paid, quota->sharing,
	       (long long)held, (long long)paid, (long long)sharing);
	expect(quota_room(quota) == MIN(room_of(history, node), UINT32_MAX - held), "step %u: %s%s has room for %u",
	       history->step, levels[node.level].path, node.own ? " itself" : "", quota_room(quota));
}

static struct level *find_level(const struct history *history, int level)
{
	struct level *found;

	HASH_FIND(by_path, history->table, levels[level].path, strlen(levels[level].path), found);
	return found;
}

/* A level exists exactly as long as it, or a level below it, has a tenant or a charge. */
static bool is_held(const struct history *history, int level)
{
	for (int i = 0; i < (int)LEVELS; i++)
		if (history->tenant[i] && is_below(i, level))
			return true;
	return sum_held(history, (struct node){ .level = level }) > 0;
}

static void expect_levels(const struct history *history)
{
	unsigned n = 0;

	for (int i = 0; i < (int)LEVELS; i++) {
		const struct level *level = find_level(history, i);

		expect((level != NULL) == is_held(history, i), "step %u: %s is %s", history->step, levels[i].path,
		       level ? "there" : "not there");
		if (!level)
			continue;
		n++;
		expect_quota(history, &level->quota[RESOURCE_EVENTS], (struct node){ .level = i });
		expect_quota(history, &level->own[RESOURCE_EVENTS], (struct node){ .level = i, .own = true });
	}
	expect(HASH_CNT(by_path, history->table) == n, "step %u: there are other levels", history->step);
}

static void expect_machine(const struct history *history)
{
	const struct machine *machine = &history->machine;
	int64_t filled = 0;

	for (int i = 0; i < RESERVES; i++) {
		if (!history->reserve[i].reserve)
			continue;
		filled += count_filled(history, i);
		expect(history->reserve[i].reserve->filled == count_filled(history, i), "step %u: reserve %d has %u",
		       history->step, i, history->reserve[i].reserve->filled);
	}
	expect(machine->common == count_common(history) && machine->filled == filled &&
		       (int64_t)machine->claimed == sum_claimed(history) &&
		       machine_room(machine) == room_of_machine(history),
	       "step %u: the machine has %u, %u in reserves, of which %llu are claimed, and %u are left", history->step,
	       machine->common, machine->filled, (unsigned long long)machine->claimed, machine_room(machine));
	expect(sum_paid(history, (struct node){ .level = 0 }) == count_common(history),
	       "step %u: not everything is paid for once", history->step);
}

static void expect_events(const struct history *history)
{
	for (int i = 0; i < EVENTS; i++) {
		const struct quota_charge *charge;
		int listed = 0, held = 0;

		LIST_FOREACH(charge, &history->event[i].common, in_event)
			listed++;
		for (size_t j = 0; j < GRANTS; j++)
			held += history->entry[j].there && history->entry[j].event == i &&
				history->entry[j].reserve == NONE;
		expect(listed == held, "step %u: event %d has %d holders, not %d", history->step, i, listed, held);
	}
}

/* --- steps --- */

static int pick(int n)
{
	return (int)(random() % n);
}

/* A new policy sets the maxima of existing levels; a new level looks its maximum up. */
static void apply_maximum(const struct history *history, struct level *level, int i)
{
	int64_t maximum = history->maximum[i];

	if (maximum == MODEL_NO_MAXIMUM)
		level_set_maximum(level, RESOURCE_EVENTS, (uint32_t)history->default_maximum, false);
	else
		level_set_maximum(level, RESOURCE_EVENTS, (uint32_t)maximum, true);
}

static void apply_maxima(const struct history *history)
{
	for (int i = 0; i < (int)LEVELS; i++) {
		struct level *level = find_level(history, i);

		if (level)
			apply_maximum(history, level, i);
	}
}

static void tenant_comes(struct history *history, int level)
{
	if (history->tenant[level])
		return;
	history->came_back += sum_held(history, (struct node){ .level = level, .own = true }) > 0;
	expect(level_get(&history->table, levels[level].path, &history->tenant[level]) == 0, "no memory");
	apply_maxima(history);
}

static void entry_ends(struct history *history, struct entry *entry)
{
	int reserve = entry->reserve;

	if (!entry->there)
		return;
	history->passed_on += pays(history, entry) && LIST_NEXT(&entry->receipt, in_event);
	entry->there = false;
	quota_charge_deinit(&entry->receipt);
	quota_charge_deinit(&entry->receipt);
	level_unref(entry->holds);
	/* A reserve without a section ends with its last charge. */
	if (reserve != NONE && !history->reserve[reserve].in_policy && count_filled(history, reserve) == 0)
		history->reserve[reserve].reserve = NULL;
}

static void tenant_goes(struct history *history, int level)
{
	if (!history->tenant[level])
		return;
	for (size_t i = 0; i < GRANTS; i++) {
		struct entry *entry = &history->entry[i];

		if (!entry->there || entry->level != level || entry->lingers)
			continue;
		entry->lingers = random() % 2;
		if (!entry->lingers)
			entry_ends(history, entry);
	}
	history->tenant[level] = level_unref(history->tenant[level]);
}

static bool holds_already(const struct history *history, int level, int event)
{
	for (size_t i = 0; i < GRANTS; i++) {
		const struct entry *entry = &history->entry[i];

		if (entry->there && !entry->lingers && entry->level == level && entry->event == event)
			return true;
	}
	return false;
}

static uint64_t needed(const struct quota *quota, bool is_old)
{
	uint64_t parts = quota->parent->sharing + 1ull;

	return is_old ? parts * quota->paid - quota->parent->paid : parts * (quota->paid + 1ull) - quota->paid;
}

static void expect_refusal(const struct history *history, const struct quota_refusal *refusal, int r, bool is_old)
{
	if (r == QUOTA_E_MAXIMUM)
		expect(refusal->at->held >= refusal->at->maximum, "step %u: it has room", history->step);
	if (r != QUOTA_E_SHARE)
		return;
	expect(refusal->needed > refusal->remaining && refusal->sharing == refusal->at->parent->sharing &&
		       refusal->needed == needed(refusal->at, is_old),
	       "step %u: the sentence would have wrong numbers", history->step);
}

static size_t list_reserves(const struct history *history, int level, struct reserve **ret)
{
	size_t n = 0;

	for (int i = 0; i < SECTIONS; i++)
		if (history->matches[level] & 1u << i && history->section[i] != NONE)
			ret[n++] = history->reserve[history->section[i]].reserve;
	return n;
}

static void ask(struct history *history, struct entry *entry, int level, int event)
{
	struct reserve *list[SECTIONS];
	const struct quota_reserves reserves = { .reserve = list, .n = list_reserves(history, level, list) };
	int predicted = predict(history, level, event), reserve = find_reserve(history, level);
	bool is_old = is_common_already(history, event);
	struct quota_refusal refusal;
	int r = quota_charge(&history->tenant[level]->own[RESOURCE_EVENTS], &history->event[event], &reserves,
			     &entry->receipt, &refusal);

	expect(r == predicted, "step %u: event %d for %s: %d, not %d", history->step, event, levels[level].path, r,
	       predicted);
	history->answers[r]++;
	if (r != 0) {
		expect_refusal(history, &refusal, r, is_old);
		return;
	}
	expect(entry->receipt.reserve == (reserve == NONE ? NULL : history->reserve[reserve].reserve),
	       "step %u: another reserve", history->step);
	history->into_reserve += reserve != NONE;
	entry->there = true;
	entry->lingers = false;
	entry->level = level;
	entry->event = event;
	entry->reserve = reserve;
	entry->holds = level_ref(history->tenant[level]);
}

static void tenant_asks(struct history *history, int level)
{
	int event = pick(EVENTS);
	struct entry *entry = &history->entry[pick(GRANTS)];

	if (!entry->there && !holds_already(history, level, event))
		ask(history, entry, level, event);
}

static void section_goes(struct history *history, int section)
{
	int i = history->section[section];
	struct model_reserve *reserve = i == NONE ? NULL : &history->reserve[i];

	if (!reserve)
		return;
	history->section[section] = NONE;
	reserve->in_policy = false;
	reserve->maximum = 0;
	reserve_set_maximum(reserve->reserve, 0);
	reserve_unref(reserve->reserve);
	if (count_filled(history, i) == 0)
		reserve->reserve = NULL;
}

static void section_comes(struct history *history, int section, int64_t maximum)
{
	int i = 0;

	while (history->reserve[i].reserve)
		i++;
	history->section[section] = i;
	history->reserve[i] = (struct model_reserve){
		.reserve = reserve_new(&history->machine, (uint32_t)maximum),
		.maximum = maximum,
		.in_policy = true,
	};
}

static void section_changes(struct history *history, int section)
{
	int64_t maximum = pick(6);

	if (history->section[section] == NONE) {
		section_comes(history, section, maximum);
		return;
	}
	history->reserve[history->section[section]].maximum = maximum;
	reserve_set_maximum(history->reserve[history->section[section]].reserve, (uint32_t)maximum);
}

static void reload(struct history *history)
{
	for (int i = 0; i < (int)LEVELS; i++) {
		history->maximum[i] = pick(4) ? MODEL_NO_MAXIMUM : pick(25);
		history->matches[i] = (unsigned)pick(1 << SECTIONS);
	}
	/* The root seldom has one. */
	if (pick(8))
		history->maximum[0] = MODEL_NO_MAXIMUM;
	history->default_maximum = 3 + pick(20);
	apply_maxima(history);
	for (int i = 0; i < SECTIONS; i++)
		if (pick(3) == 0)
			section_goes(history, i);
		else
			section_changes(history, i);
}

static void capacity_changes(struct history *history)
{
	history->capacity = pick(10) ? 10 + pick(60) : pick(3);
	history->machine.capacity = (uint32_t)history->capacity;
}

static void all_begins(struct history *history)
{
	history->machine = (struct machine){ .capacity = (uint32_t)history->capacity };
	for (int i = 0; i < EVENTS; i++)
		history->event[i] = (struct quota_event){ .machine = &history->machine };
	for (int i = 0; i < SECTIONS; i++)
		history->section[i] = NONE;
}

/* Asserts that nothing is left. */
static void all_ends(struct history *history)
{
	for (size_t i = 0; i < GRANTS; i++)
		entry_ends(history, &history->entry[i]);
	for (int i = 0; i < (int)LEVELS; i++)
		tenant_goes(history, i);
	for (int i = 0; i < SECTIONS; i++)
		section_goes(history, i);
	for (int i = 0; i < EVENTS; i++)
		quota_event_deinit(&history->event[i]);
	ck_assert_ptr_null(history->table);
	machine_deinit(&history->machine);
}

/* The policy stays, and tenants ask in another order. */
static void restart(struct history *history)
{
	struct history before = *history;
	size_t first = (size_t)pick(GRANTS);

	all_ends(history);
	all_begins(history);
	for (int i = 0; i < SECTIONS; i++)
		if (before.section[i] != NONE)
			section_comes(history, i, before.reserve[before.section[i]].maximum);
	for (size_t i = 0; i < GRANTS; i++) {
		const struct entry *entry = &before.entry[(first + i) % GRANTS];

		if (!entry->there || holds_already(history, entry->level, entry->event))
			continue;
		tenant_comes(history, entry->level);
		ask(history, &history->entry[i], entry->level, entry->event);
	}
	history->restarts++;
}

static void step(struct history *history)
{
	int level = pick(LEVELS), choice = pick(1000);

	if (choice < 1)
		restart(history);
	else if (choice < 2)
		reload(history);
	else if (choice < 5)
		capacity_changes(history);
	else if (choice < 10)
		tenant_goes(history, level);
	else if (choice < 350)
		entry_ends(history, &history->entry[pick(GRANTS)]);
	else {
		tenant_comes(history, level);
		tenant_asks(history, level);
	}
}

static void history_init(struct history *history)
{
	*history = (struct history){ .capacity = 50, .default_maximum = 10 };
	for (int i = 0; i < (int)LEVELS; i++)
		history->maximum[i] = MODEL_NO_MAXIMUM;
	all_begins(history);
	reload(history);
}

TEST(random_history_agrees_with_the_model)
{
	static struct history history;

	srandom(1);
	history_init(&history);
	for (history.step = 0; history.step < STEPS; history.step++) {
		step(&history);
		expect_levels(&history);
		expect_machine(&history);
		expect_events(&history);
	}
	/* The history had each sort of step often. */
	for (size_t i = 0; i < ARRAY_SIZE(history.answers); i++)
		ck_assert_msg(history.answers[i] > STEPS / 100, "answer %zu came %u times", i, history.answers[i]);
	ck_assert_uint_gt(history.into_reserve, STEPS / 100);
	ck_assert_uint_gt(history.passed_on, STEPS / 100);
	ck_assert_uint_gt(history.came_back, 100);
	ck_assert_uint_gt(history.restarts, 50);
	all_ends(&history);
}
