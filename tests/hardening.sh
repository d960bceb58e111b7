# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Checks of the hardening of a program or library, for test_hardening.sh and test_deb.sh. To be sourced.

is_position_independent()
{
	readelf -h "$1" | grep 'Type: *DYN' && readelf -d "$1" | grep 'FLAGS_1.*PIE'
}

has_read_only_relocations()
{
	readelf -lW "$1" | grep GNU_RELRO && readelf -d "$1" | grep 'FLAGS_1.*NOW'
}

has_no_writable_code()
{
	readelf -lW "$1" | grep 'GNU_STACK .* RW ' && ! readelf -lW "$1" | grep 'RWE'
}

has_no_path_to_libraries()
{
	! readelf -d "$1" | grep -E 'RPATH|RUNPATH'
}

has_stack_protector()
{
	readelf -W --dyn-syms "$1" | grep __stack_chk_fail
}

has_stack_clash_protection()
{
	objdump -d --no-show-raw-insn "$1" | grep -m 1 'orq *$0x0,.*(%rsp)'
}

has_fortified_libc_calls()
{
	readelf -W --dyn-syms "$1" | grep -m 1 '_chk@'
}

# Common to programs and libraries.
common=(has_read_only_relocations has_no_writable_code has_no_path_to_libraries)
# Shown by the functions of libc that are called, so not by a static program.
calls=(has_stack_protector has_fortified_libc_calls)

is_static()
{
	! readelf -d "$1" | grep -q NEEDED
}

has_all()
{
	local file=$1 property
	shift
	for property; do
		"$property" "$file" || { echo "$property: not $file" && return 1; }
	done
}
