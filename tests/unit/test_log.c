/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/suite.h"

static char written[1 << 20];
static int file, saved_stderr;

/* From here on stderr is a file. */
static void begin(int level)
{
	fflush(stderr);
	file = memfd_create("log", MFD_CLOEXEC);
	saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	ck_assert_int_ge(file, 0);
	ck_assert_int_ge(saved_stderr, 0);
	dup2(file, STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	log_open(level, false);
}

/* What was written to it; and it is stderr again. */
static const char *end(void)
{
	ssize_t n;

	fflush(stderr);
	dup2(saved_stderr, STDERR_FILENO);
	n = pread(file, written, sizeof(written) - 1, 0);
	written[n < 0 ? 0 : n] = '\0';
	close(saved_stderr);
	close(file);
	return written;
}

static size_t count_lines(const char *text)
{
	size_t lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

TEST(a_line_is_written_if_its_level_is_wanted)
{
	begin(LOG_NOTICE);
	log_notice("one of %d", 2);
	log_info("nothing");
	log_debug("nothing");
	ck_assert_str_eq(end(), "userevd: one of 2\n");
}
END_TEST

TEST(a_refusal_names_tenant_event_and_reason)
{
	begin(LOG_NOTICE);
	log_refusal("/a/b", "event", "quota-exceeded", "there is no room");
	log_refusal(NULL, NULL, "unknown-peer", "who is it?");
	ck_assert_str_eq(end(), "userevd: tenant /a/b: event refused (quota-exceeded): there is no room\n"
				"userevd: tenant unknown refused (unknown-peer): who is it?\n");
}
END_TEST

TEST(what_strangers_are_called_cannot_drive_a_terminal)
{
	const char *text;

	begin(LOG_NOTICE);
	log_notice("\033[31m\xc2\x9b"
		   "31m\xe2\x80\xae\nnext \xff");
	log_refusal("/\033]0;x\a", "e\x7f", "not-permitted", "\r");
	text = end();
	ck_assert_uint_eq(count_lines(text), 2);
	for (const char *at = text; *at; at++)
		ck_assert_msg(*at == '\n' || (*at >= ' ' && *at <= '~'), "byte %#x", (unsigned char)*at);
}
END_TEST

TEST(what_strangers_cause_to_be_said_has_a_bound)
{
	size_t lines;

	begin(LOG_NOTICE);
	for (unsigned i = 0; i < 10000; i++)
		log_refusal("/a", "event", "name-taken", "again");
	for (unsigned i = 0; i < 10000; i++)
		log_warning("a connection was dropped");
	log_error("what the daemon itself has to say is said");
	end();
	lines = count_lines(written);
	/* Fifty and ten a second, on however slow a machine within a minute. */
	ck_assert_uint_ge(lines, 51);
	ck_assert_uint_le(lines, 51 + 600);
	ck_assert_ptr_nonnull(strstr(written, "is said"));
}
END_TEST

TEST(levels_have_names)
{
	ck_assert_int_eq(log_level_from_name("err"), LOG_ERR);
	ck_assert_int_eq(log_level_from_name("debug"), LOG_DEBUG);
	ck_assert_int_eq(log_level_from_name("loud"), -EINVAL);
}
END_TEST

SUITE("log", a_line_is_written_if_its_level_is_wanted, a_refusal_names_tenant_event_and_reason,
      what_strangers_are_called_cannot_drive_a_terminal, what_strangers_cause_to_be_said_has_a_bound, levels_have_names)
