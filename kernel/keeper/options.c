/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/options.h"

#include "kernel/keeper/serve.h"
#include "protocol/base/option.h"

/* A daemon that is upgraded on a busy machine is back within this time, and clients wait no longer for an answer. */
enum { HOLD_SECONDS = 60 };

_Static_assert(HOLD_SECONDS == 60 && KEEPER_SOCKET == 3, "see the help");

#define MEMBER(name) offsetof(struct keeper_options, name)

static const char *const guards[] = { "require", "prefer", "off", NULL };

static const char *const natives[] = { "no", "yes", "insist", NULL };

static const struct option_row rows[] = {
	{ "backend", "NAME", OPTION_TEXT, MEMBER(backend),
	  .help = "auto, status-page or enable-address (default auto)" },
	{ "guard", "MODE", OPTION_WORD, MEMBER(guard),
	  .help = "require, prefer or off: the guard keeps clients from registering events\n"
		  "themselves on the files that they get (default prefer)",
	  .words = guards },
	{ "native", "WORD", OPTION_WORD, MEMBER(native),
	  .help = "no, yes or insist: offer containers the kernel's own file, where the kernel\n"
		  "can hold its users to the policy, or where an admin says so (default no)",
	  .words = natives },
	{ "mount-native", NULL, OPTION_FLAG, MEMBER(mount_native),
	  .help = "mount that file for the whole machine, and end" },
	{ "allow-persist", NULL, OPTION_FLAG, MEMBER(limits.persist),
	  .help = "keep CAP_PERFMON, for events that outlive their programs" },
	{ "capacity", "N", OPTION_NUMBER, MEMBER(limits.capacity),
	  .help = "events in the whole machine (default: as many as the kernel takes)", .most = INT32_MAX },
	{ "page-bits", "N", OPTION_NUMBER, MEMBER(limits.page_bits), .help = "bits in a status page",
	  .most = WIRE_PAGE_BITS },
	{ "pages", "DIR", OPTION_TEXT, MEMBER(pages),
	  .help = "directory for status pages, where a successor finds them (default\n" KEEPER_PAGES ")" },
	{ "prepare", NULL, OPTION_FLAG, MEMBER(prepare),
	  .help = "make the mounts and load the guard, hand them to systemd for the keeper,\n"
		  "and end" },
	{ "socket", "PATH", OPTION_TEXT, MEMBER(socket),
	  .help = "listen there for daemons, where no systemd does, as in a container" },
	{ "owner", "UID", OPTION_NUMBER, MEMBER(owner), .help = "of that socket: the daemons' user (default 0)",
	  .most = INT32_MAX },
	{ "hold", "SECONDS", OPTION_NUMBER, MEMBER(hold),
	  .help = "how long to keep everything while no daemon is connected (default 60)", .most = INT32_MAX },
	{ 0 },
};

static const struct option_table table = {
	.program = "userevd-keeper",
	.usage =
		"Usage: userevd-keeper [OPTION…]\n"
		"\n"
		"Holds the privileged part of userevd. userevd starts it with a socket as file descriptor 3, or connects to\n"
		"it where systemd starts it, or where it listens by itself (--socket). Not to be run by hand.\n",
	.see = "See userevd-keeper(8).",
	.rows = rows,
};

int keeper_parse_options(int argc, char **argv, struct keeper_options *ret)
{
	int r;

	*ret = (struct keeper_options){
		.backend = "auto", .pages = "", .guard = "prefer", .native = "no", .hold = HOLD_SECONDS
	};
	r = option_table_read(&table, argc, argv, ret);
	/* "", too, if the daemon has found none. */
	if (!*ret->pages)
		ret->pages = KEEPER_PAGES;
	return r;
}
