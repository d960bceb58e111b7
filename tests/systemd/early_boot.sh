#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Runs before systemd in a guest: installs the files of the package, as in an image that was never booted, and some very early services,
# for test_early_boot.sh.

set -eu
units=/run/systemd/system

# boot_with UNIT COMMAND: the only units of the host, without their conditions; the daemon's user does not exist yet.
boot_with()
{
	mkdir -p "$units/$1.d"
	printf '[Unit]\nConditionNeedsUpdate=\nConditionCredential=\n[Service]\nExecStart=\nExecStart=%s userevd.conf\n' "$2" \
		>"$units/$1.d/early.conf"
	ln -s "/usr/lib/systemd/system/$1" "$units/sysinit.target.wants/"
}

# early_service NAME KEY=VALUE…: starts before the dependencies of ordinary services.
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

cp -a "$B/installed/." /
systemctl --root=/ preset userevd.service userevd-sessions.service userevd.socket userevd-control.socket userevd-keeper.socket
install "$B/tests/restart_load" /usr/bin/early-program
mkdir -p /etc/userevd/{policy,sessions}.d
printf '[Event boot_step]\nFields=u32 number\n[Event boot_kept]\n[Event boot_alone]\n' >/etc/userevd/policy.d/10-boot.conf
printf '[Session]\nEvent=boot_step\nKernelEvent=sched:sched_process_exec\n' >/etc/userevd/sessions.d/boot.conf
printf '%s\n' boot_kept not_there 'boot_alone /system.slice/shop.service' >/etc/userevd/kept-events
boot_with systemd-sysusers.service systemd-sysusers
boot_with systemd-tmpfiles-setup.service 'systemd-tmpfiles --create --boot'
# The boot waits for the first service, which waits for its replies.
early_service early-asks Type=oneshot RemainAfterExit=yes TimeoutStartSec=300 'ExecStart=early-program life /run/userevd.sock'
early_service early-writes Type=exec 'ExecStart=early-program 1 /dev/null'
early_service early-emits Type=oneshot RemainAfterExit=yes "ExecStart=userevctl emit --require 'boot_step u32 number' number=1" \
	'[Unit]' After=userevd-sessions.service
