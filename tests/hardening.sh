# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What can be seen in a program, or a library, of how it was built: for test_hardening.sh, and for packages. To be sourced.

can_lie_anywhere()
{
	readelf -h "$1" | grep 'Type: *DYN' && readelf -d "$1" | grep 'FLAGS_1.*PIE'
}

has_its_relocations_read_only()
{
	readelf -lW "$1" | grep GNU_RELRO && readelf -d "$1" | grep 'FLAGS_1.*NOW'
}

has_no_memory_to_write_and_run()
{
	readelf -lW "$1" | grep 'GNU_STACK .* RW ' && ! readelf -lW "$1" | grep 'RWE'
}

has_no_path_to_libraries()
{
	! readelf -d "$1" | grep -E 'RPATH|RUNPATH'
}

guards_its_stack()
{
	readelf -W --dyn-syms "$1" | grep __stack_chk_fail
}

touches_each_page_of_its_stack()
{
	objdump -d --no-show-raw-insn "$1" | grep -m 1 'orq *$0x0,.*(%rsp)'
}

checks_what_libc_writes()
{
	readelf -W --dyn-syms "$1" | grep -m 1 '_chk@'
}

# Of one file and all others.
whatever=(has_its_relocations_read_only has_no_memory_to_write_and_run has_no_path_to_libraries guards_its_stack checks_what_libc_writes)

has_all()
{
	local file=$1 what
	shift
	for what; do
		"$what" "$file" || { echo "$what: not $file" && return 1; }
	done
}
