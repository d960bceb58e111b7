#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: `under-systemd.sh prepare` leaves to systemd, which init starts next, only what a test needs, whatever this host's
# systemd starts; `under-systemd.sh run` is then the one unit that is started by itself, and runs the guest's command.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
lib=/usr/lib/systemd/system

# What is enabled on the host, its mounts and disks, and what takes minutes on its files: none of it is there.
hide()
{
	local directory
	for directory in "$@"; do
		[ ! -d "$directory" ] || mount -t tmpfs -o mode=755 tmpfs "$directory"
	done
}

prepare()
{
	local unit
	# systemd mounts cgroups itself, of the version that the kernel's command line has.
	umount /sys/fs/cgroup
	hide /etc/systemd/system /etc/systemd/system-generators /usr/local/lib/systemd /usr/lib/systemd/system-generators \
		/usr/lib/systemd/system-environment-generators /var/log/journal $lib/{sysinit,sockets,timers,local-fs}.target.wants
	mkdir -p /run/systemd/system/sysinit.target.wants /run/systemd/system/sockets.target.wants
	for unit in sysinit.target.wants/systemd-journald.service sockets.target.wants/systemd-journald.socket \
		sockets.target.wants/systemd-journald-dev-log.socket; do
		ln -s "$lib/${unit#*/}" "/run/systemd/system/$unit"
	done
	[ -s /etc/machine-id ] || systemd-id128 new >/etc/machine-id
	echo guest >/etc/hostname
	cat >/run/systemd/system/guest.target <<-END
		[Unit]
		Description=The command of this guest
		Wants=guest.service
		AllowIsolate=yes
	END
	cat >/run/systemd/system/guest.service <<-END
		[Unit]
		Description=The command of this guest
		Wants=systemd-journald.service
		[Service]
		Environment=HOME=/root USER=root LOGNAME=root SHELL=/bin/bash
		Delegate=yes
		ExecStart="$here/under-systemd.sh" run
	END
}

run()
{
	stty -F /dev/ttyS1 115200 raw
	set +e
	/bin/bash /run/guest/command </dev/null 2>&1 | cat >/dev/ttyS1
	echo "${PIPESTATUS[0]}" >/run/guest/status
	systemctl poweroff --force --force
}

"$1"
