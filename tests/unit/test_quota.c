/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/quota.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/suite.h"

/* check writes a line for each of its own assertions, so what is said a hundred thousand times is said like this. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

static struct quota quota_of(struct quota *parent, uint32_t maximum)
{
	struct quota quota;

	quota_init(&quota, parent, maximum);
	return quota;
}

TEST(the_last_that_fits_is_admitted_and_one_more_is_not_and_costs_nothing)
{
	struct quota quota = quota_of(NULL, 3);
	struct quota_charge charge[3] = { 0 }, more = { 0 };
	const struct quota *full = NULL;

	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(quota_charge(&quota, 1, &charge[i], &full), 0);
	ck_assert_ptr_null(full);
	ck_assert_int_eq(quota_charge(&quota, 1, &more, &full), QUOTA_E_EXCEEDED);
	ck_assert_ptr_eq(full, &quota);
	ck_assert_uint_eq(quota.used, 3);
	ck_assert_ptr_null(more.quota);
	quota_charge_deinit(&charge[1]);
	ck_assert_int_eq(quota_charge(&quota, 1, &more, NULL), 0);
	ck_assert_uint_eq(quota.used, 3);
	quota_charge_deinit(&charge[0]);
	quota_charge_deinit(&charge[2]);
	quota_charge_deinit(&more);
	quota_deinit(&quota);
}
END_TEST

TEST(a_maximum_of_nothing_admits_nothing)
{
	struct quota quota = quota_of(NULL, 0);
	struct quota_charge charge = { 0 };

	ck_assert_int_eq(quota_charge(&quota, 1, &charge, NULL), QUOTA_E_EXCEEDED);
	ck_assert_int_eq(quota_charge(&quota, 0, &charge, NULL), 0);
	quota_charge_deinit(&charge);
	quota_deinit(&quota);
}
END_TEST

TEST(what_is_charged_counts_at_every_level_above)
{
	struct quota root = quota_of(NULL, 10), middle = quota_of(&root, 10), leaf = quota_of(&middle, 10);
	struct quota_charge at_leaf = { 0 }, at_middle = { 0 };

	ck_assert_int_eq(quota_charge(&leaf, 4, &at_leaf, NULL), 0);
	ck_assert_int_eq(quota_charge(&middle, 3, &at_middle, NULL), 0);
	ck_assert_uint_eq(leaf.used, 4);
	ck_assert_uint_eq(middle.used, 7);
	ck_assert_uint_eq(root.used, 7);
	quota_charge_deinit(&at_leaf);
	ck_assert_uint_eq(leaf.used, 0);
	ck_assert_uint_eq(middle.used, 3);
	ck_assert_uint_eq(root.used, 3);
	quota_charge_deinit(&at_middle);
	quota_deinit(&leaf);
	quota_deinit(&middle);
	quota_deinit(&root);
}
END_TEST

TEST(each_level_has_its_say_and_the_lowest_without_room_is_named)
{
	static const uint32_t maxima[][3] = { { 4, 5, 5 }, { 5, 4, 5 }, { 5, 5, 4 }, { 4, 4, 4 }, { 5, 4, 4 } };
	static const size_t expected[] = { 0, 1, 2, 0, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(maxima); i++) {
		struct quota level[3];
		struct quota_charge charge = { 0 };
		const struct quota *full = NULL;

		for (size_t n = 3; n-- > 0;)
			quota_init(&level[n], n == 2 ? NULL : &level[n + 1], maxima[i][n]);
		ck_assert_int_eq(quota_charge(&level[0], 5, &charge, &full), QUOTA_E_EXCEEDED);
		ck_assert_ptr_eq(full, &level[expected[i]]);
		ck_assert_int_eq(quota_charge(&level[0], 4, &charge, &full), 0);
		quota_charge_deinit(&charge);
		for (size_t n = 0; n < 3; n++)
			quota_deinit(&level[n]);
	}
}
END_TEST

TEST(siblings_share_what_their_parent_has)
{
	struct quota root = quota_of(NULL, 5), one = quota_of(&root, 5), other = quota_of(&root, 5);
	struct quota_charge first = { 0 }, second = { 0 };
	const struct quota *full = NULL;

	ck_assert_int_eq(quota_charge(&one, 3, &first, NULL), 0);
	ck_assert_int_eq(quota_charge(&other, 3, &second, &full), QUOTA_E_EXCEEDED);
	ck_assert_ptr_eq(full, &root);
	ck_assert_int_eq(quota_charge(&other, 2, &second, NULL), 0);
	quota_charge_deinit(&first);
	quota_charge_deinit(&second);
	quota_deinit(&one);
	quota_deinit(&other);
	quota_deinit(&root);
}
END_TEST

TEST(a_refund_gives_back_once_however_often_it_is_asked_for)
{
	struct quota quota = quota_of(NULL, 10);
	struct quota_charge one = { 0 }, other = { 0 }, never = { 0 };

	ck_assert_int_eq(quota_charge(&quota, 4, &one, NULL), 0);
	ck_assert_int_eq(quota_charge(&quota, 5, &other, NULL), 0);
	quota_charge_deinit(&one);
	quota_charge_deinit(&one);
	quota_charge_deinit(&never);
	ck_assert_uint_eq(quota.used, 5);
	quota_charge_deinit(&other);
	quota_deinit(&quota);
}
END_TEST

TEST(a_maximum_that_was_lowered_takes_nothing_away_and_gives_nothing)
{
	struct quota quota = quota_of(NULL, 10);
	struct quota_charge held = { 0 }, more = { 0 };

	ck_assert_int_eq(quota_charge(&quota, 6, &held, NULL), 0);
	quota.maximum = 3;
	ck_assert_uint_eq(quota.used, 6);
	ck_assert_int_eq(quota_charge(&quota, 1, &more, NULL), QUOTA_E_EXCEEDED);
	/* Which is where used - maximum would wrap around. */
	ck_assert_int_eq(quota_charge(&quota, UINT32_MAX, &more, NULL), QUOTA_E_EXCEEDED);
	quota_charge_deinit(&held);
	ck_assert_int_eq(quota_charge(&quota, 3, &more, NULL), 0);
	quota_charge_deinit(&more);
	quota_deinit(&quota);
}
END_TEST

TEST(amounts_that_would_overflow_are_refused)
{
	struct quota root = quota_of(NULL, UINT32_MAX), leaf = quota_of(&root, UINT32_MAX);
	struct quota_charge all = { 0 }, more = { 0 };

	ck_assert_int_eq(quota_charge(&leaf, UINT32_MAX - 1, &all, NULL), 0);
	ck_assert_int_eq(quota_charge(&leaf, 2, &more, NULL), QUOTA_E_EXCEEDED);
	ck_assert_int_eq(quota_charge(&leaf, UINT32_MAX, &more, NULL), QUOTA_E_EXCEEDED);
	ck_assert_int_eq(quota_charge(&leaf, 1, &more, NULL), 0);
	ck_assert_uint_eq(root.used, UINT32_MAX);
	quota_charge_deinit(&all);
	quota_charge_deinit(&more);
	quota_deinit(&leaf);
	quota_deinit(&root);
}
END_TEST

static int run_in_child(void (*run)(struct quota *), struct quota *quota)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		if (!freopen("/dev/null", "w", stderr))
			_exit(3);
		signal(SIGABRT, SIG_DFL);
		run(quota);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

static void end(struct quota *quota)
{
	quota_deinit(quota);
}

TEST(a_level_that_ends_with_something_charged_is_a_bug_that_is_not_survived)
{
	struct quota quota = quota_of(NULL, 1);
	struct quota_charge charge = { 0 };
	int status;

	ck_assert_int_eq(run_in_child(end, &quota), 0);
	ck_assert_int_eq(quota_charge(&quota, 1, &charge, NULL), 0);
	status = run_in_child(end, &quota);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

/*
 * Random histories against a model that keeps nothing but the list of what is held, and adds it all up anew at each step.
 * Level 0 is the root; the parent of each other one stands in a table.
 */
enum { LEVELS = 16, RECEIPTS = 48, STEPS = 100000 };

static const int parent_of[LEVELS] = { -1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 10, 14 };

struct held {
	int level; /* -1: nothing */
	uint64_t amount;
};

struct history {
	struct quota quota[LEVELS];
	struct quota_charge receipt[RECEIPTS];
	struct held held[RECEIPTS];
	uint64_t maximum[LEVELS];
	uint64_t own[LEVELS];	/* charged here */
	uint64_t total[LEVELS]; /* here and below */
};

static bool is_at_or_below(int level, int ancestor)
{
	while (level > ancestor)
		level = parent_of[level];
	return level == ancestor;
}

static void add_up(struct history *history)
{
	memset(history->own, 0, sizeof(history->own));
	memset(history->total, 0, sizeof(history->total));
	for (size_t i = 0; i < RECEIPTS; i++)
		if (history->held[i].level >= 0)
			history->own[history->held[i].level] += history->held[i].amount;
	for (int level = 0; level < LEVELS; level++)
		for (int ancestor = 0; ancestor <= level; ancestor++)
			if (is_at_or_below(level, ancestor))
				history->total[ancestor] += history->own[level];
}

/* The lowest level that has no room, or -1. */
static int find_full(const struct history *history, int at, uint64_t amount)
{
	for (int level = LEVELS; level-- > 0;)
		if (is_at_or_below(at, level) && history->total[level] + amount > history->maximum[level])
			return level;
	return -1;
}

static void expect_as_modelled(const struct history *history, unsigned step)
{
	uint64_t sum = 0;

	for (int level = 0; level < LEVELS; level++) {
		sum += history->own[level];
		expect(history->quota[level].used == history->total[level], "step %u: level %d has %u, not %llu", step,
		       level, history->quota[level].used, (unsigned long long)history->total[level]);
	}
	expect(history->quota[0].used == sum, "step %u: the root has %u, all together %llu", step,
	       history->quota[0].used, (unsigned long long)sum);
}

static uint32_t random_amount(void)
{
	static const uint32_t amounts[] = { 0, 1, 1, 1, 2, 7, 40, UINT32_MAX / 2, UINT32_MAX - 3, UINT32_MAX };

	return amounts[(size_t)random() % ARRAY_SIZE(amounts)];
}

static uint32_t random_maximum(void)
{
	return random() % 4 ? (uint32_t)random() % 200 : random_amount();
}

/* Whether it was admitted. */
static bool try_charge(struct history *history, size_t i, unsigned step)
{
	int level = random() % LEVELS;
	uint32_t amount = random_amount();
	int full = find_full(history, level, amount);
	const struct quota *said = NULL;
	int r = quota_charge(&history->quota[level], amount, &history->receipt[i], &said);

	expect(r == (full < 0 ? 0 : QUOTA_E_EXCEEDED), "step %u: %u at level %d: %d, and level %d is full", step,
	       amount, level, r, full);
	expect(said == (full < 0 ? NULL : &history->quota[full]), "step %u: another level was named than %d", step,
	       full);
	if (r == 0)
		history->held[i] = (struct held){ .level = level, .amount = amount };
	return r == 0;
}

static void refund(struct history *history, size_t i)
{
	quota_charge_deinit(&history->receipt[i]);
	history->held[i].level = -1;
}

static void set_maximum(struct history *history)
{
	int level = random() % LEVELS;
	uint32_t maximum = random_maximum();

	history->quota[level].maximum = maximum;
	history->maximum[level] = maximum;
}

TEST(any_history_adds_up_as_a_list_of_what_is_held_does)
{
	struct history history = { 0 };
	unsigned admitted = 0, refused = 0;

	srandom(1);
	for (int level = 0; level < LEVELS; level++) {
		history.maximum[level] = random_maximum();
		quota_init(&history.quota[level], level ? &history.quota[parent_of[level]] : NULL,
			   (uint32_t)history.maximum[level]);
	}
	for (size_t i = 0; i < RECEIPTS; i++)
		history.held[i].level = -1;
	for (unsigned step = 0; step < STEPS; step++) {
		size_t i = (size_t)random() % RECEIPTS;

		if (random() % 16 == 0)
			set_maximum(&history);
		else if (history.held[i].level >= 0 || random() % 8 == 0)
			refund(&history, i); /* perhaps of nothing, or for the second time */
		else if (try_charge(&history, i, step))
			admitted++;
		else
			refused++;
		add_up(&history);
		expect_as_modelled(&history, step);
	}
	ck_assert_uint_gt(admitted, STEPS / 20);
	ck_assert_uint_gt(refused, STEPS / 20);
	for (size_t i = 0; i < RECEIPTS; i++)
		refund(&history, i);
	for (int level = 0; level < LEVELS; level++)
		quota_deinit(&history.quota[level]);
}
END_TEST

SUITE("quota", the_last_that_fits_is_admitted_and_one_more_is_not_and_costs_nothing,
      a_maximum_of_nothing_admits_nothing, what_is_charged_counts_at_every_level_above,
      each_level_has_its_say_and_the_lowest_without_room_is_named, siblings_share_what_their_parent_has,
      a_refund_gives_back_once_however_often_it_is_asked_for,
      a_maximum_that_was_lowered_takes_nothing_away_and_gives_nothing, amounts_that_would_overflow_are_refused,
      a_level_that_ends_with_something_charged_is_a_bug_that_is_not_survived,
      any_history_adds_up_as_a_list_of_what_is_held_does)
