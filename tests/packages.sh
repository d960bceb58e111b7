#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Installs the missing ones of the named Debian packages; without the right to do that, prints them.

set -eu

command -v dpkg-query >/dev/null || {
	echo "This is not Debian. Debian's names of the required packages are: $*" >&2
	exit 0
}

missing=
for package in "$@"; do
	case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true) in
	*' installed') ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
	as_root=sudo
	echo "Installing missing packages with sudo:$missing"
	sudo true || exit 1
else
	echo "Packages are missing. As root: apt-get install$missing" >&2
	exit 1
fi

echo "  INSTALL$missing"
# shellcheck disable=SC2086 # a list of words
set -- $missing
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	echo "apt-get could not install:$missing" >&2
	exit 1
fi
