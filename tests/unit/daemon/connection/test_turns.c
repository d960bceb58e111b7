/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/turns.h"

#include "daemon/connection/client.h"
#include "daemon/limits.h"
#include "daemon/registry/tenant.h"
#include "tests/suite.h"

enum { CLIENTS = 3 };

static struct connections connections;
static struct tenant one, other;
static struct client of_one[CLIENTS], of_other[CLIENTS];

static struct client client_of_tenant(struct tenant *tenant)
{
	return (struct client){ .connections = &connections, .holder = { .tenant = tenant, .greeted = true } };
}

static void begin(void)
{
	TAILQ_INIT(&connections.turns);
	one = other = (struct tenant){ 0 };
	TAILQ_INIT(&one.ready);
	TAILQ_INIT(&other.ready);
	for (size_t i = 0; i < CLIENTS; i++) {
		of_one[i] = client_of_tenant(&one);
		of_other[i] = client_of_tenant(&other);
	}
}

TEST(without_anybody_it_is_nobodys_turn)
{
	begin();
	ck_assert_ptr_null(turns_next(&connections.turns));
}
END_TEST

TEST(tenants_take_turns_whatever_the_number_of_their_connections)
{
	begin();
	for (size_t i = 0; i < CLIENTS; i++)
		turns_add(&of_one[i]);
	turns_add(&of_other[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_other[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[1]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[2]);
	ck_assert_ptr_null(turns_next(&connections.turns));
}
END_TEST

static void go_on(struct client_task *task _unused_)
{
}

/* One of them comes again, while so many of its tenant are in the midst of a long request. */
static struct client *next_while_deciding(unsigned deciding)
{
	static struct client_task task = { .resume = go_on };

	begin();
	one.deciding = deciding;
	of_one[1].task = &task;
	turns_add(&of_one[0]);
	turns_add(&of_one[1]);
	return turns_next(&connections.turns);
}

TEST(a_long_request_is_gone_on_with_before_others_begin_only_where_many_are_under_way)
{
	ck_assert_ptr_eq(next_while_deciding(1), &of_one[0]);
	ck_assert_ptr_eq(next_while_deciding(DECIDING_MAX), &of_one[0]);
	ck_assert_ptr_eq(next_while_deciding(DECIDING_MAX + 1), &of_one[1]);
}
END_TEST

TEST(who_comes_again_at_once_comes_last)
{
	begin();
	turns_add(&of_one[0]);
	turns_add(&of_one[1]);
	turns_add(&of_other[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[0]);
	turns_add(&of_one[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_other[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[1]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[0]);
}
END_TEST

TEST(nobody_waits_twice)
{
	begin();
	turns_add(&of_one[0]);
	turns_add(&of_one[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[0]);
	ck_assert_ptr_null(turns_next(&connections.turns));
}
END_TEST

TEST(newcomers_do_not_go_before_the_others_of_their_tenant)
{
	begin();
	of_one[1].holder.greeted = of_one[2].holder.greeted = false;
	for (size_t i = 0; i < CLIENTS; i++)
		turns_add(&of_one[i]);
	for (size_t i = 0; i < CLIENTS; i++)
		ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[i]);
}
END_TEST

TEST(who_leaves_has_no_turn_and_takes_nobody_with_it)
{
	begin();
	turns_add(&of_one[0]);
	turns_add(&of_one[1]);
	turns_add(&of_other[0]);
	turns_remove(&of_one[0]);
	turns_remove(&of_one[0]);
	turns_remove(&of_other[0]);
	ck_assert_ptr_eq(turns_next(&connections.turns), &of_one[1]);
	ck_assert_ptr_null(turns_next(&connections.turns));
}
END_TEST

SUITE("turns", without_anybody_it_is_nobodys_turn, tenants_take_turns_whatever_the_number_of_their_connections,
      a_long_request_is_gone_on_with_before_others_begin_only_where_many_are_under_way,
      who_comes_again_at_once_comes_last, nobody_waits_twice, newcomers_do_not_go_before_the_others_of_their_tenant,
      who_leaves_has_no_turn_and_takes_nobody_with_it)
