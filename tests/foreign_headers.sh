# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# foreign_headers SOURCE: the compiler's options for the headers of another language's runtime.

java_headers=$(dirname "$(dirname "$(realpath "$(command -v javac)")")")/include

foreign_headers()
{
	case $1 in
	client/java/*) echo " -isystem $java_headers -isystem $java_headers/linux" ;;
	client/node/*) echo ' -isystem /usr/include/node -DNAPI_VERSION=8' ;;
	esac
}
