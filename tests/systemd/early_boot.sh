#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Before systemd starts in a guest: installs what a package would, as into an image that has never been booted, and two services
# that are among the first of all, for test_early_boot.sh.

set -eu
units=/run/systemd/system

# Of what the host has only this, and whatever is said of when it is needed: nobody has made the daemon's user yet.
boot_with()
{
	mkdir -p "$units/$1.d"
	printf '[Unit]\nConditionNeedsUpdate=\nConditionCredential=\n[Service]\nExecStart=\nExecStart=%s userevd.conf\n' "$2" \
		>"$units/$1.d/early.conf"
	ln -s "/usr/lib/systemd/system/$1" "$units/sysinit.target.wants/"
}

# early_service NAME KEY=VALUE…: nothing of what an ordinary service waits for is there when it starts.
early_service()
{
	local name=$1
	shift
	cat >"$units/$name.service" <<-END
		[Unit]
		DefaultDependencies=no
		Requires=userevd.socket
		After=userevd.socket
		Before=sysinit.target
		[Service]
		User=nobody
		$(printf '%s\n' "$@")
	END
	ln -s "../$name.service" "$units/sysinit.target.wants/"
}

make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR=/ PREFIX=/usr install
systemctl --root=/ preset userevd.service userevd.socket userevd-control.socket userevd-keeper.socket
install "$B/tests/restart_load" /usr/bin/early-program
mkdir -p /etc/userevd/policy.d
printf '[Event boot_step]\nFields=u32 number\n' >/etc/userevd/policy.d/10-boot.conf
boot_with systemd-sysusers.service systemd-sysusers
boot_with systemd-tmpfiles-setup.service 'systemd-tmpfiles --create --boot'
# The boot waits for the first of them, and that for its answers.
early_service early-asks Type=oneshot RemainAfterExit=yes TimeoutStartSec=300 'ExecStart=early-program life /run/userevd.sock'
early_service early-writes Type=exec 'ExecStart=early-program 1 /dev/null'
