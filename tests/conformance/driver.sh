#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# driver.sh USEREVCTL emit|stream: the driver of userevctl, see README. A script's event is registered only while a process leases it: an
# `emit --stdin`, which also writes the records if the second argument is "stream".

ctl=$1 means=$2
declare -A holder pid description

# Values as `emit --stdin` expects them, with texts in quotes.
translate_line()
{
	local word value out=()
	for word in "$@"; do
		value=${word#*=}
		case $value in
		\"*)
			value=${value:1}
			value=${value//\\/\\\\}
			value=${value//\"/\\\"}
			value=\"${value//%/\\x}\"
			;;
		\#*) value=${value#?} ;;
		esac
		out+=("${word%%=*}=$value")
	done
	line="${out[*]}"
}

# The same values as arguments of a command line.
translate_words()
{
	local word value
	words=()
	for word in "$@"; do
		value=${word#*=}
		case $value in
		\"*)
			value=${value:1}
			value=${value//\\/\\\\}
			printf -v value '%b' "${value//%/\\x}"
			;;
		\#*) value=${value#?} ;;
		esac
		words+=("${word%%=*}=$value")
	done
}

# The process runs with --verbose, to show when the daemon has answered. Its pipe is kept open, because it ends with its input.
register()
{
	local name pipe fd process line refused=''
	name=${1#"${1%%[! ]*}"} # without the blanks before it
	name=${name%%[ :	]*}
	exec {pipe}<> <(:)
	exec {fd}> >(USEREV_DEBUG=1 exec "$ctl" emit --stdin "$1" 2>&"$pipe")
	process=$!
	while read -r -t 60 -u "$pipe" line; do
		case $line in
		'userev: refused'*) refused=yes ;; # in words of the library's
		'userev: '*' answered'*) [ "$refused" ] || break ;;
		'userev: '*) ;;
		*) break ;;
		esac
	done
	if [[ $line = 'userev: '* ]]; then
		pid[$name]=$process holder[$name]=$fd description[$name]=$1
		echo ok
	else
		exec {fd}>&-
		echo "refused $line"
	fi
}

write()
{
	local name=$1 answer
	shift
	if [ "$means" = stream ]; then
		translate_line "$@"
		printf '%s\n' "$line" >&"${holder[$name]}"
		echo sent
		return
	fi
	translate_words "$@"
	answer=$("$ctl" emit --json "${description[$name]}" "${words[@]}" 2>&1)
	case $answer in
	*'"written":true'*) echo written ;;
	*'"written":false'*) echo off ;;
	*'too large'* | *'every tracer can hold'*) echo lost ;;
	*) echo "wrong $answer" ;;
	esac
}

release()
{
	local fd=${holder[$1]}
	exec {fd}>&-
	wait "${pid[$1]}"
	echo ok
}

while IFS=$'\t' read -r -a word; do
	case ${word[0]} in
	can) [ "$means" = stream ] && echo '(nothing)' || echo answer ;;
	register) register "${word[1]}" ;;
	write) write "${word[@]:1}" ;;
	release) release "${word[1]}" ;;
	*) echo "error: no such command" ;;
	esac
done
