# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Debian packages of `make packages`, and the same ones with a later version, for tests in a guest. Sourced behind service.sh, with the
# packages' $names.
# shellcheck disable=SC2154

command -v dpkg >/dev/null || { echo '0 passed, 0 failed, 1 skipped: packages need Debian' && exit 0; }
export DEBIAN_FRONTEND=noninteractive
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^VERSION := //p' Makefile)
architecture=$(dpkg --print-architecture)
# A host, such as a container's image, may forbid packages to start services; this guest does not.
rm -f /usr/sbin/policy-rc.d

# packages VERSION: prints their files.
packages()
{
	local name
	for name in "${names[@]}"; do
		echo "$([ "$1" = "$version" ] && echo "$B/deb" || echo "$scratch")/${name}_$1_$architecture.deb"
	done
}

# The same packages with a later version.
make_later()
{
	local name
	for name in "${names[@]}"; do
		dpkg-deb -R "$B/deb/${name}_${version}_$architecture.deb" "$scratch/$name" &&
			sed -i "s/^Version: .*/Version: $version+1/; s/(= $version)/(= $version+1)/" "$scratch/$name/DEBIAN/control" &&
			dpkg-deb -Znone --root-owner-group -b "$scratch/$name" "$scratch/${name}_$version+1_$architecture.deb" || return 1
	done
}

# Without triggers, since indexing all manual pages and libraries takes a guest minutes. The loader needs no index.
manage()
{
	dpkg --no-triggers "$@"
}

install_packages()
{
	local files
	mapfile -t files < <(packages "$1")
	manage -i "${files[@]}"
}

is_installed()
{
	says "^userevd $1 installed$" dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' "${names[@]}"
}

# was_taken_over N: these connections were passed from one daemon to the next.
was_taken_over()
{
	says "restored $1 connections" journalctl --unit=userevd --output=cat
}

none_runs()
{
	! systemctl list-units --no-legend --no-pager --plain 'userevd*' | grep -w active && ! pgrep -a userevd
}
