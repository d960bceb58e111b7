/* SPDX-License-Identifier: GPL-2.0-or-later */

/* DELETE: persistent events that an admin has the kernel delete. */

#include "daemon/registry/event.h"
#include "protocol/row.h"
#include "tests/unit/fake_kernel.h"

static void say_delete(struct end *admin, const char *name)
{
	struct packet packet = begin(admin, KIND_DELETE);
	const size_t mark = encode_list(&packet, 0);

	encode_string(&packet, 0, name, strlen(name));
	encode_count(&packet, mark, 1);
	say(admin, &packet);
}

static void expect_deleted(struct end *admin, const char *name, unsigned tenants)
{
	struct cursor rows, row;
	uint16_t count;

	ck_assert_int_eq(decode_rows(expect(admin, KIND_ROWS)->body, &count, &rows), 0);
	ck_assert_uint_eq(count, 1);
	row = next_row(&rows);
	expect_string(row, "event", name);
	ck_assert_uint_eq(row_get_u64(row, "tenants"), tenants);
}

/* `says` is a part of the sentence. */
static void expect_stays(struct end *admin, const char *name, uint32_t refusal, const char *says)
{
	struct string_item sentence;

	say_delete(admin, name);
	sentence = expect_error(admin, KIND_REFUSED, refusal);
	ck_assert_msg(memmem(sentence.text, sentence.length, says, strlen(says)), "%s: '%.*s'", name,
		      (int)sentence.length, sentence.text);
}

/* A program registers the event, and ends. */
static void leave_behind(struct world *world, pid_t pid, uint16_t flags, const char *description)
{
	WELCOMED(end, world, pid);

	get_with(&end, flags, description);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	look_at_lingering(world);
}

TEST(deleted_event_is_not_charged_any_more)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(next, world, 1);
	struct cursor rows, row;

	leave_behind(world, 1, REGISTER_PERSIST, "event u32 x");
	leave_behind(world, 2, REGISTER_PERSIST, "event u32 x");
	leave_behind(world, 1, REGISTER_PERSIST, "events u32 x");
	expect_account(&next, 2, 0, 2);
	say_delete(&admin, "event");
	expect_deleted(&admin, "event", 2);
	expect_account(&next, 1, 0, 1);
	rows = ask_for_rows(&admin, KIND_EVENTS, 1);
	row = next_row(&rows);
	expect_string(row, "event", "events");
	ck_assert_uint_eq(row_get_u64(row, "persistent"), 1);
	/* Name and bit are free. */
	ck_assert_uint_eq(get(&next, "event u64 y").bit, 1);
	say_delete(&admin, "events");
	expect_deleted(&admin, "events", 1);
}

TEST(event_of_a_program_is_not_deleted)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(end, world, 1);
	int copy;

	get_with(&end, REGISTER_PERSIST, "event u32 x");
	get(&end, "passing u32 x");
	expect_stays(&admin, "event", REFUSAL_IN_USE, " has it: try again when it has ended");
	expect_stays(&admin, "passing", REFUSAL_IN_USE, "it is not persistent, and ends with ");
	hang_up_and_keep(&end, &copy);
	expect_stays(&admin, "event", REFUSAL_IN_USE, "a data file with it is still open");
	expect_stays(&admin, "passing", REFUSAL_IN_USE, "a data file with it is still open");
	expect_asked(KERNEL_DELETE, 0);
	close(copy);
	look_at_lingering(world);
	say_delete(&admin, "event");
	expect_deleted(&admin, "event", 1);
	expect_no_charges(world);
}

TEST(kept_event_is_not_deleted)
{
	GUARDED(world);
	ADMIN(admin, world);

	keep_for(world, "1h");
	leave_behind(world, 1, REGISTER_PERSIST, "event u32 x");
	expect_stays(&admin, "event", REFUSAL_IN_USE, "KeepFor=");
	keep_nothing(world);
	say_delete(&admin, "event");
	expect_deleted(&admin, "event", 1);
}

TEST(declared_event_is_not_deleted)
{
	GUARDED(world);
	ADMIN(admin, world);

	world_adopt(world, "[Event one]\nFields=u32 x\nPersist=yes\n");
	expect_stays(&admin, "one", REFUSAL_IN_USE, "the policy declares it");
	world_adopt(world, "");
	expect_charged(world, 1, 0);
	say_delete(&admin, "one");
	expect_deleted(&admin, "one", 1);
	expect_no_charges(world);
}

TEST(refusal_of_the_kernel_keeps_the_charge)
{
	static const struct {
		int result;
		uint32_t refusal;
		const char *says;
	} cases[] = {
		{ KERNEL_E_IN_USE, REFUSAL_IN_USE, "a tracer uses it" },
		{ KERNEL_E_UNSUPPORTED, REFUSAL_KERNEL_TOO_OLD, "--allow-persist" },
		{ -EIO, REFUSAL_TROUBLE, "Input/output error" },
	};
	GUARDED(world);
	ADMIN(admin, world);

	leave_behind(world, 1, REGISTER_PERSIST, "event u32 x");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		refuse(KERNEL_DELETE, cases[i].result, 0, 1);
		expect_stays(&admin, "event", cases[i].refusal, cases[i].says);
		expect_charged(world, 1, 0);
	}
	/* Somebody else has deleted it. */
	refuse(KERNEL_DELETE, KERNEL_E_NO_SUCH, 0, 1);
	say_delete(&admin, "event");
	expect_deleted(&admin, "event", 1);
	expect_no_charges(world);
	refuse(KERNEL_DELETE, KERNEL_E_NO_SUCH, 0, 1);
	expect_stays(&admin, "event", REFUSAL_NO_SUCH_EVENT, "no event of that name");
}

TEST(event_that_is_registered_meanwhile_is_charged)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(end, world, 1);

	leave_behind(world, 1, REGISTER_PERSIST, "event u32 x");
	hold();
	say_delete(&admin, "event");
	REGISTER_WITH(&end, REGISTER_PERSIST, "event u32 x");
	expect_silence(&admin);
	answer_all();
	hold_no_more();
	turn(world);
	expect_deleted(&admin, "event", 1);
	expect_granted(&end);
	expect_account(&end, 1, 1, 0);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	look_at_lingering(world);
	expect_charged(world, 1, 0);
	say_delete(&admin, "event");
	expect_deleted(&admin, "event", 1);
}

TEST(deletion_goes_on_without_its_admin)
{
	GUARDED(world);

	leave_behind(world, 1, REGISTER_PERSIST, "event u32 x");
	hold();
	{
		ADMIN(admin, world);

		say_delete(&admin, "event");
		break_connection(&admin);
	}
	turn(world);
	expect_charged(world, 1, 0);
	answer_all();
	hold_no_more();
	expect_no_charges(world);
}

TEST(all_formats_of_a_name_are_deleted)
{
	GUARDED(world);
	ADMIN(admin, world);
	const uint16_t flags = REGISTER_PERSIST | REGISTER_MULTI_FORMAT;

	leave_behind(world, 1, flags, "event u32 x");
	leave_behind(world, 1, flags, "event u64 x");
	leave_behind(world, 2, REGISTER_PERSIST, "event u8 x");
	expect_charged(world, 3, 0);
	say_delete(&admin, "event");
	expect_deleted(&admin, "event", 3);
	expect_no_charges(world);
}

TEST(deleted_event_is_gone_for_the_next_daemon)
{
	KEPT(world);

	leave_behind(world, 1, REGISTER_PERSIST, "event u32 x");
	leave_behind(world, 1, REGISTER_PERSIST, "other u32 x");
	{
		ADMIN(admin, world);

		say_delete(&admin, "event");
		expect_deleted(&admin, "event", 1);
	}
	world_restart(world);
	expect_charged(world, 1, 0);
	ck_assert_str_eq(world->daemon->registry.events->description, "other u32 x");
	{
		ADMIN(admin, world);

		say_delete(&admin, "other");
		expect_deleted(&admin, "other", 1);
	}
	world_restart(world);
	expect_no_charges(world);
}

TEST(deletion_has_one_name)
{
	GUARDED(world);

	for (unsigned n = 0; n <= 2; n += 2) {
		ADMIN(admin, world);
		struct packet packet = begin(&admin, KIND_DELETE);
		const size_t mark = encode_list(&packet, 0);

		for (unsigned i = 0; i < n; i++)
			encode_string(&packet, 0, "event", 5);
		encode_count(&packet, mark, (uint16_t)n);
		say(&admin, &packet);
		expect_cut(&admin, REFUSAL_BAD_PACKET);
	}
}
