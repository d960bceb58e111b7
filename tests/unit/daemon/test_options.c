/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/options.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/mman.h>
#include <syslog.h>

#include "daemon/limits.h"
#include "protocol/protocol.h"
#include "tests/suite.h"

static char output[8192]; /* of the last call, on stdout and stderr */

/* Parses two arguments. NULL: none. */
static int parse_two(const char *one, const char *other, struct options *ret)
{
	/* The options point into them. */
	static char name[] = "userevd", first[128], second[128];
	char *arguments[] = { name, one ? first : NULL, other ? second : NULL, NULL };
	int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO), file = memfd_create("output", MFD_CLOEXEC), r;
	ssize_t n;

	snprintf(first, sizeof(first), "%s", one ? one : "");
	snprintf(second, sizeof(second), "%s", other ? other : "");
	fflush(stdout);
	dup2(file, STDOUT_FILENO);
	dup2(file, STDERR_FILENO);
	optind = 0;
	r = options_parse(one ? other ? 3 : 2 : 1, arguments, ret);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	dup2(error, STDERR_FILENO);
	n = pread(file, output, sizeof(output) - 1, 0);
	output[MAX(n, 0)] = '\0';
	close(out);
	close(error);
	close(file);
	return r;
}

static struct options good;

static const struct options *parse(const char *option)
{
	ck_assert_msg(parse_two(option, NULL, &good) == -1, "%s: %s", option ? option : "nothing", output);
	ck_assert_str_eq(output, "");
	return &good;
}

/* The option is refused with a sentence that has both words, and the options are untouched. */
static void expect_wrong(const char *option, const char *word, const char *advice)
{
	struct options options = { .capacity = 4711 };

	ck_assert_msg(parse_two(option, NULL, &options) == 2, "%s was taken", option);
	ck_assert_uint_eq(options.capacity, 4711);
	ck_assert_msg(strstr(output, word) && strstr(output, advice), "%s: %s", option, output);
	ck_assert_msg(strstr(output, "userevd --help"), "%s", output);
}

TEST(defaults_are_those_of_the_manual)
{
	const struct options *options = parse(NULL);

	ck_assert_str_eq(options->socket, "/run/userevd.sock");
	ck_assert_str_eq(options->control_socket, "/run/userevd/control.sock");
	ck_assert_str_eq(options->backend, "auto");
	ck_assert_uint_eq(options->capacity, 0);
	ck_assert_uint_eq(options->page_bits, 0);
	ck_assert_uint_eq(options->max_events, OPTIONS_UNSET);
	ck_assert_uint_eq(options->ring_bytes, DEFAULT_RING_BYTES);
	ck_assert_uint_eq(options->client_timeout, DEFAULT_CLIENT_TIMEOUT);
	ck_assert_int_eq(options->log_level, LOG_INFO);
	ck_assert_int_eq(options->ready_fd, -1);
	ck_assert(!options->foreground && !options->exit_with_parent && !options->tenant_is_process);
}

TEST(option_sets_its_member)
{
	ck_assert_str_eq(parse("--socket=/a/b")->socket, "/a/b");
	ck_assert_str_eq(parse("--control-socket=/c")->control_socket, "/c");
	ck_assert_str_eq(parse("--backend=embedded")->backend, "embedded");
	ck_assert_uint_eq(parse("--capacity=5")->capacity, 5);
	ck_assert_uint_eq(parse("--page-bits=9")->page_bits, 9);
	ck_assert_uint_eq(parse("--max-events=7")->max_events, 7);
	ck_assert_uint_eq(parse("--ring-size=5000")->ring_bytes, 5000);
	ck_assert_uint_eq(parse("--client-timeout=3")->client_timeout, 3);
	ck_assert_uint_eq(parse("--patience=3")->client_timeout, 3);
	/* The name of earlier versions. */
	ck_assert_int_eq(parse("--log-level=debug")->log_level, LOG_DEBUG);
	ck_assert_int_eq(parse("--ready-fd=6")->ready_fd, 6);
	ck_assert(parse("--tenants=process")->tenant_is_process);
	ck_assert(!parse("--tenants=cgroup")->tenant_is_process);
	ck_assert(parse("--foreground")->foreground);
	ck_assert(parse("-f")->foreground);
	ck_assert(parse("--exit-with-parent")->exit_with_parent);
}

TEST(last_of_two_values_of_an_option_counts)
{
	struct options options;

	ck_assert_int_eq(parse_two("--capacity=5", "--page-bits=6", &options), -1);
	ck_assert_uint_eq(options.capacity, 5);
	ck_assert_uint_eq(options.page_bits, 6);
	ck_assert_int_eq(parse_two("--tenants=process", "--tenants=cgroup", &options), -1);
	ck_assert(!options.tenant_is_process);
	ck_assert_int_eq(parse_two("--backend", "embedded", &options), -1);
	ck_assert_str_eq(options.backend, "embedded");
}

TEST(number_outside_its_limits_is_refused)
{
	static const struct {
		const char *option;
		const char *least;
		const char *below;
		const char *most;
		const char *above;
	} limits[] = {
		{ "capacity", "1", "0", "4294967295", "4294967296" },
		{ "page-bits", "2", "1", "32768", "32769" },
		{ "max-events", "0", "-1", "4294967294", "4294967295" },
		{ "ring-size", "4096", "4095", "1099511627776", "1099511627777" },
		{ "client-timeout", "1", "0", "3600", "3601" },
		{ "ready-fd", "0", "-1", "2147483647", "2147483648" },
	};
	char option[128];

	ck_assert_int_eq(WIRE_PAGE_BITS, 32768);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		snprintf(option, sizeof(option), "--%s=%s", limits[i].option, limits[i].least);
		parse(option);
		snprintf(option, sizeof(option), "--%s=%s", limits[i].option, limits[i].most);
		parse(option);
		snprintf(option, sizeof(option), "--%s=%s", limits[i].option, limits[i].below);
		expect_wrong(option, option, limits[i].least);
		expect_wrong(option, option, limits[i].most);
		snprintf(option, sizeof(option), "--%s=%s", limits[i].option, limits[i].above);
		expect_wrong(option, option, limits[i].least);
		expect_wrong(option, option, limits[i].most);
	}
}

TEST(size_takes_k_and_m_and_never_wraps_around)
{
	ck_assert_uint_eq(parse("--ring-size=4K")->ring_bytes, 4096);
	ck_assert_uint_eq(parse("--ring-size=3M")->ring_bytes, 3 << 20);
	ck_assert_uint_eq(parse("--ring-size=1048576M")->ring_bytes, UINT64_C(1) << 40);
	expect_wrong("--ring-size=3K", "--ring-size=3K", "4096");
	expect_wrong("--ring-size=1048577M", "--ring-size=1048577M", "1099511627776");
	ck_assert_uint_eq(parse("--ring-size=4k")->ring_bytes, 4096);
	expect_wrong("--ring-size=4KM", "--ring-size=4KM", "4096");
	expect_wrong("--ring-size=K", "--ring-size=K", "4096");
	/* 2^54 + 4, which is 4,096 after ten bits have fallen off. */
	expect_wrong("--ring-size=18014398509481988K", "--ring-size=", "1099511627776");
	expect_wrong("--ring-size=17592186044417M", "--ring-size=", "1099511627776");
	/* test_number.c has other texts that are no numbers. */
	expect_wrong("--page-bits=5x", "--page-bits=5x", "give a number from 2 to 32768");
	/* A number of events is no size. */
	expect_wrong("--capacity=4K", "--capacity=4K", "4294967295");
	expect_wrong("--page-bits=4K", "--page-bits=4K", "32768");
}

TEST(unknown_word_is_refused_with_the_known_ones)
{
	expect_wrong("--tenants=processes", "--tenants=processes", "cgroup or process");
	expect_wrong("--tenants=", "--tenants=", "cgroup or process");
	expect_wrong("--log-level=loud", "--log-level=loud", "err, warning, notice, info or debug");
	expect_wrong("--log-level=7", "--log-level=7", "err, warning, notice, info or debug");
	ck_assert_int_eq(parse("--log-level=err")->log_level, LOG_ERR);
	ck_assert_int_eq(parse("--log-level=warning")->log_level, LOG_WARNING);
	ck_assert_int_eq(parse("--log-level=notice")->log_level, LOG_NOTICE);
	ck_assert_int_eq(parse("--log-level=info")->log_level, LOG_INFO);
}

TEST(unknown_option_is_named)
{
	expect_wrong("--nonsense", "--nonsense", "userevd");
	expect_wrong("--socket", "--socket", "needs a value");
	expect_wrong("--foreground=yes", "--foreground", "takes no value");
	expect_wrong("-x", "x", "userevd");
	expect_wrong("start", "start", "unexpected argument");
}

/* tests/unit/test_man.py compares the help's options and defaults with the manual. */
TEST(help_and_version_end_the_program)
{
	struct options options;

	ck_assert_int_eq(parse_two("--help", NULL, &options), 0);
	ck_assert_ptr_nonnull(strstr(output, "Usage: userevd"));
	ck_assert_int_eq(parse_two("-h", NULL, &options), 0);
	ck_assert_ptr_nonnull(strstr(output, "  -f, --foreground"));
	ck_assert_int_eq(parse_two("--version", NULL, &options), 0);
	ck_assert_str_eq(output, "userevd " VERSION "\n");
}

TEST(sentence_is_about_the_wrong_option_alone)
{
	struct options options;

	ck_assert_int_eq(parse_two("--backend=embedded", "--guard=on", &options), 2);
	ck_assert_str_eq(output, "userevd: --guard=on: give require, prefer or off. See 'userevd --help'.\n");
}
