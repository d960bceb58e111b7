#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# run-guest.sh [OPTION…] KERNEL -- COMMAND…: runs a command, as root and in the checkout's directory, in a virtual machine with
# one of our kernels and the host's files (changes to them are gone at the end), without network. What the command prints
# is printed, its exit status is ours. 125 means that there was no guest, or that it came to a bad end: then its console is shown.
#
#   --limit=SECONDS  a guest that runs longer is killed (default 300; 0: never)
#   --memory=MB      (default 2048)
#   --share=DIR      a directory that the guest sees, writable, as /run/guest; console.log is left there (default: a temporary one)
#   --processors=N   (default 1) Of two that are emulated (QEMU 7.2) now and then one stands still until its next tick, which is
#                    milliseconds.
#   --for-measuring  the kernel is the measured one (build-kernel.sh).
#                    The processor never halts: waking it takes a millisecond, which is not what is measured. Programs are loaded at
#                    random addresses; otherwise they lie at one address, where QEMU finds its translation of them again, and they start
#                    in a third of the time
#   --counting       the kernel is the measured one, too.
#                    The clock counts instructions: a nanosecond is one instruction executed, in user space or in the kernel, and a
#                    sleep takes none. Figures then repeat within 1 %, on a busy host too, except where the guest waits for a disk or
#                    for a grace period of RCU
#   --machine=arm64  a guest of that machine, whose files are Debian's packages for it (tests/machines/sysroot.sh), and the checkout
#   --kernel=apparmor  the kernel has AppArmor, too
#   --systemd        systemd is started, and the command is a unit of it
#   --append=WORDS   for the kernel's command line, of which systemd reads some
#   --before=SCRIPT  with --systemd: run before it starts, with the files that it will find
#   --shell          the command has this terminal, or what is piped into here
#
# The variables of the host's environment that the tests know are the guest's, too. `make vm` is for a shell.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
B=${B:-build}
# What tests call, in a guest that does not have this host's files.
GUEST_PACKAGES=(base-passwd bash coreutils diffutils findutils grep jq libbpf1 libcap2-bin libev4 libsubunit0 libsystemd0 libtracefs1 libzstd1 mawk mount perl-base procps
	python3 sed trace-cmd util-linux)
limit=300 variant='' memory=2048 processors=1 share='' mode=command kernel_options=norandmaps before=true
terminal='' scratch='' guest='' clock=() machine=''

fail()
{
	echo "run-guest.sh: $*" >&2
	exit 125
}

while [ $# -gt 0 ]; do
	case $1 in
	--limit=*) limit=${1#*=} ;;
	--memory=*) memory=${1#*=} ;;
	--share=*) share=${1#*=} ;;
	--processors=*) processors=${1#*=} ;;
	--for-measuring) kernel_options=idle=poll variant=measured ;;
	--counting) clock=(-icount 'shift=0,sleep=off') variant=measured ;;
	--machine=*) machine=${1#*=} ;;
	--kernel=*) variant=${1#*=} ;;
	--systemd) mode=systemd ;;
	--append=*) kernel_options+=" ${1#*=}" ;;
	--before=*) before=${1#*=} ;;
	--shell) mode=shell ;;
	--) break ;;
	-*) fail "there is no option $1" ;;
	*) break ;;
	esac
	shift
done
kernel=${1-}
[ $# -ge 3 ] && [ "${2-}" = -- ] || fail 'what is wanted is: run-guest.sh [OPTION…] KERNEL -- COMMAND…'
shift 2

end()
{
	[ -z "$guest" ] || { kill "$guest"; wait "$guest"; } 2>/dev/null || true
	[ -z "$terminal" ] || stty "$terminal" 2>/dev/null || true
	[ -z "$scratch" ] || rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

image=$("$here/build-kernel.sh" "$kernel" $variant$machine) || exit 125
initrd=$("$here/make-initrd.sh" ${machine:+aarch64-linux-gnu-gcc}) || exit 125
accelerator=tcg
[ ${#clock[@]} -gt 0 ] || [ -n "$machine" ] || accelerator=$("$here/accelerator.sh" "$image" "$initrd") || exit 125
scratch=$(mktemp -d)
[ -n "$share" ] || share=$scratch
mkdir -p "$share"
share=$(cd "$share" && pwd)
rm -f "$share/status" "$share/input"
: >"$share/console.log"

# A serial line would lose what comes before it is open.
if [ $mode = shell ] && [ ! -t 0 ]; then
	mode='command'
	cat >"$share/input"
fi

# Where the checkout and the build are, should the guest's /tmp or /run hide them.
{
	echo "$checkout"
	(cd "$checkout" && cd "$B" 2>/dev/null && pwd) || true
} >"$share/keep"
# What the guest's scripts begin with.
as_here()
{
	# What packages do only where they are installed.
	[ -z "$machine" ] || printf 'for file in passwd group; do cp /usr/share/base-passwd/$file.master /etc/$file; done; ln -sf bash /bin/sh; mkdir -p /mnt\n'
	printf 'cd %q || exit 127\n' "$checkout"
	for name in B V TERM CLIENTS ENGINES LANGUAGES DAEMON_KILLS KEEPER_KILLS KILL_STEP NATIVE_KILLS FLIPS RESTART_STEP TEST_LIMIT CK_TIMEOUT_MULTIPLIER CK_FORK CK_VERBOSITY CK_RUN_SUITE CK_RUN_CASE ASAN_OPTIONS UBSAN_OPTIONS; do
		[ -z "${!name+set}" ] || printf 'export %s=%q\n' "$name" "${!name}"
	done
}
{
	as_here
	printf 'exec'
	printf ' %q' "$@"
	[ ! -e "$share/input" ] || printf ' </run/guest/input'
	echo
} >"$share/command"
if [ $mode = systemd ]; then
	{
		as_here
		printf '%q prepare && exec %q\n' "$here/under-systemd.sh" "$before"
	} >"$share/prepare"
fi

# What the guest changes: a file without content yet. (On a tmpfs of these kernels' an overlay can't remove directories.)
truncate -s 8G "$scratch/changes"
PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=1,nodiscard "$scratch/changes"

# A comma ends a value; two commas are one comma. no_timer_check: on a busy host the kernel might find that its timer does not tick.
case $machine in
'') qemu=(qemu-system-x86_64) files=/ console=ttyS0 port=(-serial chardev:command) ;;
arm64)
	files=$("$here/../machines/sysroot.sh" arm64 "${GUEST_PACKAGES[@]}") || exit 125
	qemu=(qemu-system-aarch64 -machine virt -cpu cortex-a57 -virtfs "local,path=${checkout//,/,,},mount_tag=checkout,security_model=none,readonly=on,multidevs=remap")
	# That machine has one port, so that a second one is on its bus.
	console=ttyAMA0 port=(-device pci-serial,chardev=command) kernel_options+=' SERIAL_PORT=/dev/ttyS0'
	;;
*) fail "there is no guest for the machine $machine" ;;
esac
qemu+=(-accel "$accelerator" "${clock[@]}" -smp "$processors" -m "$memory" -nodefaults -display none -no-reboot -net none
	-kernel "$image" -initrd "$initrd"
	-append "console=$console quiet panic=-1 oops=panic no_timer_check $kernel_options rdinit=/init -- $mode"
	-virtfs "local,path=${files//,/,,},mount_tag=host,security_model=none,readonly=on,multidevs=remap"
	-virtfs "local,path=${share//,/,,},mount_tag=share,security_model=none,multidevs=remap"
	-drive "file=${scratch//,/,,}/changes,if=virtio,format=raw,cache=unsafe"
	-serial "file:${share//,/,,}/console.log")
[ "$accelerator" != kvm ] || qemu+=(-cpu host)
# Whatever becomes of us: qemu ends with timeout, and that with us.
within_limit=(setpriv --pdeathsig TERM timeout --foreground -k 5 "$limit")

if [ $mode = shell ]; then
	terminal=$(stty -g 2>/dev/null) || true
	tell_size() { stty size >"$share/size" 2>/dev/null || true; }
	trap tell_size WINCH
	tell_size
	"${within_limit[@]}" "${qemu[@]}" -chardev stdio,id=command,mux=on,signal=off "${port[@]}" -echr 0x1d <&0 &
	guest=$!
else
	# Through cat, for qemu makes what it writes to non-blocking, for everybody.
	exec 3> >(exec cat)
	cat=$!
	"${within_limit[@]}" "${qemu[@]}" -chardev stdio,id=command "${port[@]}" \
		</dev/null >&3 2>"$scratch/errors" 3>&- &
	guest=$!
	exec 3>&-
fi

status=0
wait "$guest" || status=$?
while kill -0 "$guest" 2>/dev/null; do
	status=0
	wait "$guest" || status=$?
done
guest=''
[ -z "${cat-}" ] || wait "$cat" || true
[ ! -s "$share/status" ] || exit "$(cat "$share/status")"

case $status in
124 | 137) echo "The guest (Linux $kernel) was killed after $limit s. The end of its console:" ;;
0) echo "The guest (Linux $kernel) died. The end of its console:" ;;
*) echo "qemu failed (exit status $status); the end of the console of the guest (Linux $kernel):" ;;
esac >&2
{
	cat "$scratch/errors" 2>/dev/null || true
	# Without escape sequences and the returns of a serial line.
	sed -e 's/\x1b\[[0-9;?=]*[a-zA-Z]//g' -e 's/\x1b[a-z]//g' -e 's/\r//g' "$share/console.log" | tail -40
} | sed 's/^/        /' >&2
exit 125
