/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/log.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "protocol/base/text.h"
#include "tests/unit/world.h"

static size_t count_lines(const char *text)
{
	size_t lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

TEST(line_is_written_if_its_level_is_enabled)
{
	log_begin(LOG_NOTICE);
	log_notice("one of %d", 2);
	log_info("nothing");
	log_debug("nothing");
	ck_assert_str_eq(logged(), "userevd: one of 2\n");
}

TEST(refusal_names_tenant_event_and_reason)
{
	log_begin(LOG_NOTICE);
	log_refusal(LOG_OF_CLIENTS, "/a/b", "event", "quota-exceeded", "there is no room", 0);
	log_refusal(LOG_OF_CLIENTS, "/a/b", "event", "quota-exceeded", "there is no room", 41);
	log_refusal(LOG_OF_CLIENTS, NULL, NULL, "unknown-peer", "no such process", 0);
	ck_assert_str_eq(logged(), "userevd: tenant /a/b: event refused (quota-exceeded): there is no room\n"
				   "userevd: tenant /a/b: event refused (quota-exceeded) (and 41 more before): "
				   "there is no room\n"
				   "userevd: tenant unknown refused (unknown-peer): no such process\n");
}

TEST(control_characters_in_names_are_escaped)
{
	const char *text;

	log_begin(LOG_NOTICE);
	log_notice("\033[31m\xc2\x9b"
		   "31m\xe2\x80\xae\nnext \xff");
	log_refusal(LOG_OF_CLIENTS, "/\033]0;x\a", "e\x7f", "not-permitted", "\r", 0);
	text = logged();
	ck_assert_uint_eq(count_lines(text), 2);
	for (const char *at = text; *at; at++)
		ck_assert_msg(*at == '\n' || (*at >= ' ' && *at <= '~'), "byte %#x", (unsigned char)*at);
}

TEST(lines_about_clients_have_a_rate_limit)
{
	const char *text;
	size_t lines;

	log_begin(LOG_NOTICE);
	for (unsigned i = 0; i < 10000; i++)
		log_refusal(LOG_OF_CLIENTS, "/a", "event", "name-taken", "again", 0);
	for (unsigned i = 0; i < 10000; i++)
		log_line(LOG_OF_CLIENTS, LOG_WARNING, "a connection was dropped");
	log_error("an error of the daemon");
	text = logged();
	lines = count_lines(text);
	/* Fifty at once and ten a second, and the test takes less than a minute on any machine. */
	ck_assert_uint_ge(lines, 51);
	ck_assert_uint_le(lines, 51 + 600);
	expect_logged(text, "an error of", 1);
}

TEST(lines_about_the_daemon_have_their_own_rate_limit)
{
	const char *text;

	log_begin(LOG_NOTICE);
	for (unsigned i = 0; i < 10000; i++)
		log_refusal(LOG_OF_CLIENTS, "/a", "event", "name-taken", "again", 0);
	log_warning("the guard is gone");
	log_refusal(LOG_OF_DAEMON, "/a", NULL, "self-registered", "by itself", 0);
	text = logged();
	expect_logged(text, "the guard is gone", 1);
	expect_logged(text, "by itself", 1);
	/* The daemon's own lines are limited, too. */
	for (unsigned i = 0; i < 10000; i++)
		log_warning("the guard is gone");
	ck_assert_uint_le(count_lines(logged()), 51 + 600);
}

static char entry[4096];

/* For libsystemd, which sends an entry to the journal. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd _unused_, const struct msghdr *message,
						       int flags _unused_)
{
	struct text text = text_make(entry, sizeof(entry));

	for (size_t i = 0; i < message->msg_iovlen; i++)
		text_put(&text, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
	return (ssize_t)text.length;
}

TEST(refusal_has_fields_in_the_journal)
{
	static const char *const fields[] = {
		"MESSAGE=tenant /a/b: event refused (quota-exceeded): there is no room\n",
		"MESSAGE_ID=4f0d1f1c1e7c4c2f9b6a3d5e8a7720b1\n",
		"USEREVD_TENANT=/a/b\n",
		"USEREVD_EVENT=event\n",
		"USEREVD_REASON=quota-exceeded\n",
		"PRIORITY=5\n",
	};
	pid_t child;
	int status;

	/* sd_journal keeps a socket for the life of the process; this process is the test's own. */
	child = fork();
	if (child == 0) {
		log_open(LOG_NOTICE, true);
		log_refusal(LOG_OF_CLIENTS, "/a/b", "event", "quota-exceeded", "there is no room", 0);
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			if (!strstr(entry, fields[i]))
				_exit(1 + (int)i);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(status == 0, "without field number %d", WEXITSTATUS(status));
}

TEST(line_in_a_journal_stream_begins_with_its_level)
{
	struct stat status;
	char stream[64];

	log_begin(LOG_INFO);
	fstat(STDERR_FILENO, &status);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_open(LOG_INFO, false);
	log_info("one of %d", 2);
	log_error("two\nlines");
	setenv("JOURNAL_STREAM", "1:2", 1);
	log_open(LOG_INFO, false);
	log_info("not in the journal");
	unsetenv("JOURNAL_STREAM");
	ck_assert_str_eq(logged(), "<6>one of 2\n<3>two\\x0alines\nuserevd: not in the journal\n");
	/* Only entries with fields of their own need the library. */
	ck_assert_ptr_null(dlopen("libsystemd.so.0", RTLD_NOW | RTLD_NOLOAD));
}
