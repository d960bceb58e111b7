#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A program of each language in one container, side by side in tail: the drivers of the conformance suite, in an image with all runtimes and
# no compiler. In a guest where systemd is the first process.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
declare -A driver=([C]=driver [shell]='bash driver.sh userevctl stream' [Python]='python3 driver.py' [Go]=driver_go [Rust]=driver_rust
	[Java]='java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp driver_java.jar Driver' [Node]='node driver.js')

# Programs come into /usr/bin with their libraries, and the rest where it is here.
add_runtimes()
{
	local root=$storage/files jvm
	tests/containers/rootfs.sh $root userevctl cut grep head mkfifo sed node "$(readlink -f /usr/bin/python3)" "$B"/tests/driver{,_go,_rust} || return 1
	ln -s "$(basename "$(readlink -f /usr/bin/python3)")" $root/usr/bin/python3
	jvm=$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")
	tar -c --exclude=jmods --exclude='*.jsa' --exclude=ct.sym --exclude=__pycache__ /usr/lib/python3.11 "$jvm" /etc/java-17-openjdk 2>/dev/null | tar -xC $root
	ln -s "$jvm/bin/java" $root/usr/bin/java
	find "$jvm" -name '*.so' -exec ldd {} + 2>/dev/null | sed -nE 's#^.*[[:space:]](/[^ ]+) \(0x.*#\1#p' | sort -u |
		while read -r library; do [ -e "$root$library" ] || install -D "$library" "$root$library"; done
	mkdir -p $root/srv/node_modules && cp -r "$B/node/package" $root/srv/node_modules/userev &&
		cp -r client/python/userev "$B/tests/driver_java.jar" tests/conformance/driver.{py,sh,js} $root/srv && chmod -R a+rX $root/srv
}

# Each emits until its record has been read.
# shellcheck disable=SC2016 # of the container's shell
program='language=$1; shift
	{
		printf "use\t0\nregister\tlanguage_$language u32 answer\n"
		while sleep 1; do printf "write\tlanguage_$language\tanswer=42\n"; done
	} | PATH=/usr/bin:/srv "$@" >/dev/null'

start_all()
{
	local language commands=''
	for language in "${!driver[@]}"; do
		commands+="sh -c '$program' sh $language ${driver[$language]} & "
	done
	podman run --detach --name=shop --network=none --workdir=/srv -v /run/userevd/client:/run/userevd/client:ro --user=$user program sh -c "$commands wait"
}

# emits LANGUAGE: its record is read, with the container's name.
emits()
{
	says "shop \\(podman\\).*language_$1.*answer=42" timeout 300 userevctl tail --count=1 --wait "language_$1"
}

are_side_by_side()
{
	timeout 120 userevctl tail --count=40 --tenant=shop 'language_*' | grep -o 'language_[A-Za-z]*' | sort -u | tee /dev/stderr | diff - <(printf 'language_%s\n' "${!driver[@]}" | sort)
}

check 'userevd is installed, and podman has the image' eval 'prepare_files && install_hook && add_runtimes && prepare_podman'
check 'a program of each language starts in one container' start_all
for language in "${!driver[@]}"; do
	check "a program in $language emits" emits "$language"
done
check 'tail shows all of them side by side' are_side_by_side
check 'each is a program of the same tenant' says '"name":"shop","engine":"podman".*"events":'"${#driver[@]}"',' userevctl tenants --json
podman rm --force --time=0 shop >/dev/null
sum_up
