#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# accelerator.sh IMAGE INITRD: prints what qemu is to use: kvm if this machine really runs a guest with it, else tcg. A machine
# may have /dev/kvm and hang in it, so it is tried once, with a limit, and remembered until the next boot or another qemu.

set -eu
cache=${USEREVD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/userevd}
known=$cache/accelerator
here="$(cat /proc/sys/kernel/random/boot_id) $(id -u) $(qemu-system-x86_64 --version | head -1)"

runs_a_guest()
{
	[ -w /dev/kvm ] || return 1
	timeout -k 1 5 qemu-system-x86_64 -accel kvm -cpu host -smp 2 -m 256 -nodefaults -display none -no-reboot -net none \
		-kernel "$1" -initrd "$2" -append 'quiet panic=-1 rdinit=/init -- probe' \
		-serial null -chardev stdio,id=said -serial chardev:said </dev/null 2>/dev/null | grep -q alive
}

if [ ! -e "$known" ] || [ "$(head -1 "$known")" != "$here" ]; then
	mkdir -p "$cache"
	# Where there is a kvm that can't, qemu dies of it: the shell is not to tell.
	if (runs_a_guest "$1" "$2") 2>/dev/null; then
		printf '%s\n' "$here" kvm >"$known.$$"
	else
		printf '%s\n' "$here" tcg >"$known.$$"
	fi
	mv "$known.$$" "$known"
fi
sed -n 2p "$known"
