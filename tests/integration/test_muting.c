/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Muted tenants and blocked ones: userevctl's commands, and the truth about them in pages and in the tracer's records. */

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/integration/batch.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"
#include "tests/integration/silence.h"

/* --- muted --- */

SILENT_TEST(muted_tenant_is_silent_within_100_ms)
{
	enum { EVENTS = 100 };
	static char names[EVENTS][32];
	const char *list[EVENTS];
	PROGRAM(noisy, "noisy", "loud u32 x");
	PROGRAM(other, "other", "loud u32 x");
	_cleanup_(fd_closep) int control = raw_connect(fixture->control);
	const char *path = noisy.path;
	struct batch batch;
	uint64_t begun, took;

	if (!has_a_page_per_tenant(fixture)) {
		expect_ctl(EXIT_FAILURE, "one page", "mute", noisy.path);
		return;
	}
	for (unsigned i = 0; i < EVENTS; i++) {
		snprintf(names[i], sizeof(names[i]), "loud_%u u32 x", i);
		list[i] = names[i];
	}
	batch_register(noisy.actor.socket, list, EVENTS, &batch, NULL);
	expect_ctl(EXIT_SUCCESS, "101 events are on", "enable", "loud*");
	ck_assert(is_on(&noisy) && is_on(&other));
	begun = clock_us();
	raw_strings(KIND_SILENCE, ASK_MUTE, &path, 1, 0);
	ck_assert_int_eq(raw_send(control), 0);
	/* With the last of its events. */
	for (unsigned i = 0; i < EVENTS; i++)
		while (noisy.member.page[batch.answer[i].bit / 8] >> batch.answer[i].bit % 8 & 1 || is_on(&noisy))
			usleep(100);
	took = clock_us() - begun;
	printf("muted, with %u events that are on: %lu us\n", EVENTS + 1, (unsigned long)took);
	ck_assert_uint_lt(took, is_emulated() ? 1000000 : 100000);
	ck_assert(is_on(&other));
	expect_ctl(EXIT_SUCCESS, "muted already", "mute", noisy.path);
	expect_ctl(EXIT_SUCCESS, "muted", "tenants");
	expect_ctl(EXIT_SUCCESS, "\"muted\":true", "tenants", "--json", noisy.path);
	expect_ctl(EXIT_SUCCESS, "Muted: ", "status");
	/* Also events that are switched on later. */
	expect_ctl(EXIT_SUCCESS, "on", "enable", "loud", "--tenant", noisy.path);
	ck_assert(!is_on(&noisy) && !is_on(&other));
	expect_ctl(EXIT_SUCCESS, "on", "enable", "loud");
	/* A reload keeps it. */
	expect_ctl(EXIT_SUCCESS, "", "reload");
	ck_assert(!is_on(&noisy) && is_on(&other));
	expect_ctl(EXIT_SUCCESS, "not muted any more", "unmute", noisy.path);
	ck_assert(is_on(&noisy));
	expect_ctl(EXIT_SUCCESS, "is muted", "mute", noisy.pid);
	ck_assert(!is_on(&noisy));
	expect_ctl(EXIT_SUCCESS, "not muted any more", "unmute", noisy.pid);
	ck_assert(is_on(&noisy));
	expect_ctl(EXIT_FAILURE, "no tenant is muted", "unmute", noisy.path);
	expect_ctl(EXIT_SUCCESS, "off", "disable", "loud*");
}

/* --- blocked --- */

static void expect_blocked(int socket)
{
	struct string_item sentence;
	struct raw_reply reply;
	uint32_t refusal;

	raw_receive(socket, &reply);
	ck_assert_uint_eq(reply.message.kind, KIND_ERROR);
	ck_assert_int_eq(decode_error(reply.message.body, &refusal, &sentence), 0);
	ck_assert_uint_eq(refusal, REFUSAL_NOT_PERMITTED);
	ck_assert(memmem(sentence.text, sentence.length, "the admin has blocked this tenant", 33));
	raw_reply_deinit(&reply);
	expect_hang_up(socket);
}

/* A new program in that cgroup. */
static void expect_refused(const struct fixture *fixture, const char *cgroup)
{
	char directory[256];
	const struct actor_as as = { .cgroup = directory };
	struct actor actor;

	string_copy(directory, sizeof(directory), make_cgroup(cgroup));
	actor_connect(&actor, fixture->socket, &as);
	expect_blocked(fd_steal(&actor.socket));
	actor_end(&actor);
}

SILENT_TEST(blocked_tenant_is_kept_out_until_unblocked)
{
	PROGRAM(out, "out", "outside u32 x");
	PROGRAM(idle, "out", NULL);
	PROGRAM(other, "other", "outside u32 x");
	const bool own_pages = has_a_page_per_tenant(fixture);
	const uint32_t record[] = { out.member.answer.index, 7 };
	struct seen seen;

	trace(fixture, "outside", true);
	expect_ctl(EXIT_SUCCESS, "2 connections are closed", "block", out.path);
	ck_assert_msg(strstr(ctl_output, "to the 1 data file that they have"), "%s", ctl_output);
	ck_assert_msg(!strstr(ctl_output, "one page") == own_pages, "%s", ctl_output);
	expect_blocked(dup(out.actor.socket));
	expect_blocked(dup(idle.actor.socket));
	ck_assert(is_on(&out) == !own_pages && is_on(&other));
	/* The file that it holds may still be written to. */
	see(fixture, "outside", &seen);
	ck_assert_int_eq(write(out.member.stream, record, sizeof(record)), sizeof(record));
	see(fixture, "outside", &seen);
	ck_assert_uint_eq(seen.records, !keeps_records_itself(fixture));
	expect_ctl(EXIT_SUCCESS, "blocked", "tenants");
	expect_ctl(EXIT_SUCCESS, "Blocked: ", "status");
	expect_refused(fixture, "out");
	expect_ctl(EXIT_SUCCESS, "not blocked any more", "unblock", out.path);
	{
		PROGRAM(back, "out", "outside u32 x");

		ck_assert(is_on(&back));
	}
	trace(fixture, "outside", false);
}

/* --- restarts --- */

PAIR_TEST(silence_survives_daemon_and_keeper, "--guard=prefer")
{
	if (!need_cgroups("tenants of their own") || !has_a_page_per_tenant(fixture))
		return;
	fixture_write_policy(fixture, ROOT_IS_TRUSTED);
	pair_restart_daemon(pair, SIGTERM);
	pair_wait(pair);
	{
		PROGRAM(one, "one", "survives u32 x");
		PROGRAM(two, "two", "survives u32 x");
		PROGRAM(muted, "muted", "survives u32 x");

		expect_ctl(EXIT_SUCCESS, "on", "enable", "survives", "--tenant", one.path, "--tenant", muted.path);
		expect_ctl(EXIT_SUCCESS, "is muted", "mute", muted.path);
		trace(fixture, "survives", true);
		for (unsigned round = 0; round < 6; round++) {
			ck_assert(is_on(&one) && !is_on(&two) && !is_on(&muted));
			member_emit(&one.member, 0, round);
			if (round % 3 == 0) {
				pair_restart_daemon(pair, round == 0 ? SIGKILL : SIGTERM);
			} else if (round % 3 == 1) {
				pair_end_keeper(pair, SIGKILL);
				pair_start_keeper(pair);
			} else {
				expect_ctl(EXIT_SUCCESS, "", "reload");
			}
			pair_wait(pair);
			/* Bits are brought up to date by the keeper's successor. */
			expect_account(one.actor.socket, "leases=1");
			ck_assert(tracer_switch(&fixture->tracer, "survives", false));
			ck_assert(tracer_switch(&fixture->tracer, "survives", true));
			/* A program that comes later, too. */
			{
				PROGRAM(late, "late", "survives u32 x");

				ck_assert(!is_on(&late));
			}
		}
		expect_traced(fixture, &one.member, 0);
		expect_ctl(EXIT_SUCCESS, "not muted any more", "unmute", muted.path);
		ck_assert(is_on(&one) && !is_on(&two) && is_on(&muted));
		expect_ctl(EXIT_SUCCESS, "is on.", "enable", "survives");
		ck_assert(is_on(&one) && is_on(&two) && is_on(&muted));
		trace(fixture, "survives", false);
		expect_ctl(EXIT_SUCCESS, "is off.", "disable", "survives");
	}
}

PAIR_TEST(tail_of_a_tenant_survives_the_daemon, "--guard=prefer")
{
	if (!need_cgroups("tenants of their own") || !has_a_page_per_tenant(fixture))
		return;
	fixture_write_policy(fixture, ROOT_IS_TRUSTED);
	pair_restart_daemon(pair, SIGTERM);
	pair_wait(pair);
	{
		PROGRAM(one, "one", "watched u32 x");
		PROGRAM(two, "two", "watched u32 x");
		pid_t tail = START("tail", "--tenant", one.path, "watched");

		ck_assert(eventually(is_on(&one)) && !is_on(&two));
		for (unsigned round = 0; round < 2; round++) {
			pair_restart_daemon(pair, round == 0 ? SIGKILL : SIGTERM);
			pair_wait(pair);
			/* Until the tail has found the next daemon, the event is on for both. */
			ck_assert(eventually(!is_on(&two)) && is_on(&one));
		}
		end_ctl(tail, SIGTERM);
		ck_assert(eventually(!is_on(&one)) && !is_on(&two));
	}
}

/* On each kernel. */
PAIR_TEST(blocked_tenant_stays_out_over_restarts, "--guard=prefer")
{
	char path[256];

	if (!need_cgroups("tenants of their own"))
		return;
	string_copy(path, sizeof(path), cgroup_path(make_cgroup("stays-out")));
	expect_ctl(EXIT_SUCCESS, "is blocked", "block", path);
	for (unsigned round = 0; round < 3; round++) {
		expect_refused(fixture, "stays-out");
		if (round == 1) {
			pair_end_keeper(pair, SIGKILL);
			pair_start_keeper(pair);
			ck_assert(eventually(log_has(fixture, "a new keeper has taken over")));
		} else {
			pair_restart_daemon(pair, round == 0 ? SIGKILL : SIGTERM);
		}
		pair_wait(pair);
	}
	expect_refused(fixture, "stays-out");
	expect_ctl(EXIT_SUCCESS, "not blocked any more", "unblock", path);
}

enum { NOBODY = 65534 };

static void kept_by_embedded_with(struct pair *pair, struct fixture *fixture, const char *directory)
{
	char option[128];

	snprintf(option, sizeof(option), "--state-directory=%s", directory);
	pair->options[1] = "--user=nobody";
	pair->options[2] = option;
	ck_assert(geteuid() != 0 || chown(directory, NOBODY, NOBODY) == 0);
	pair_restart_daemon(pair, SIGTERM);
	pair_wait(pair);
	expect_ctl(EXIT_SUCCESS, "is muted", "mute", "/some/container");
	expect_ctl(EXIT_SUCCESS, "is blocked", "block", "/other/*");
	ck_assert_msg(!strstr(ctl_output, "daemon"), "%s", ctl_output);
	for (unsigned round = 0; round < 2; round++) {
		pair_restart_daemon(pair, round == 0 ? SIGKILL : SIGTERM);
		pair_wait(pair);
		expect_ctl(EXIT_SUCCESS, "Muted: /some/container", "status");
		expect_ctl(EXIT_SUCCESS, "Blocked: /other/*", "status");
	}
	expect_ctl(EXIT_SUCCESS, "not muted any more", "unmute", "/some/container");
	expect_ctl(EXIT_SUCCESS, "not blocked any more", "unblock", "/other/*");
	pair_restart_daemon(pair, SIGKILL);
	pair_wait(pair);
	expect_ctl(EXIT_SUCCESS, "\"silences\":0", "status", "--json");
}

/* Without a keeper nothing but a file outlives the daemon. */
TEST(rules_survive_an_embedded_daemon_in_a_file)
{
	struct pair pair;
	char directory[64], path[128];

	make_temporary_directory(directory, sizeof(directory));
	pair_start_embedded(&pair);
	kept_by_embedded_with(&pair, &pair.fixture, directory);
	pair_stop(&pair);
	snprintf(path, sizeof(path), "%s/silence", directory);
	unlink(path);
	snprintf(path, sizeof(path), "%s/policy", directory);
	unlink(path);
	ck_assert_int_eq(rmdir(directory), 0);
}

int main(void)
{
	return run_tests_in_cgroups();
}
