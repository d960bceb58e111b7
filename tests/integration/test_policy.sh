#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl policy checks and explains files without a daemon; and the examples have their effect on cgroups of systemd, Docker, Podman
# and Kubernetes.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset USEREVCTL_WIDTH NO_COLOR
ctl=$B/userevctl
examples=systemd/policy.d-examples
id=0a1b2c3d4e5f60718293a4b5c6d7e8f900112233445566778899aabbccddeeff
uid=6d0e2b1c-54a2-4a69-9c8f-0f1e2d3c4b5a
uid_=6d0e2b1c_54a2_4a69_9c8f_0f1e2d3c4b5a

# says TEXT COMMAND…: the text is in the output, stdout or stderr; it is a whole line if it begins with "^".
says()
{
	local text=$1 output
	shift
	output=$("$@" 2>&1)
	printf '%s\n' "$output"
	if [ "${text:0:1}" = ^ ]; then
		grep -qxF -- "${text:1}" <<<"$output"
	else
		grep -qF -- "$text" <<<"$output"
	fi
}

# json EXPRESSION COMMAND…: the output is JSON, and the expression about `it` is true. value(KEY[, CGROUP]) is the last value of a key.
json()
{
	local expression=$1
	shift
	"$@" >"$scratch/json" 2>/dev/null
	python3 -c '
import json, sys
it = json.load(sys.stdin)
def value(key, cgroup=None):
    found = [v["value"] for v in it["values"] if v["key"] == key and cgroup in (None, v["cgroup"])]
    return found[-1] if found else None
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$expression" <"$scratch/json" || { cat "$scratch/json"; return 1; }
}

# put NAME LINE…
put()
{
	mkdir -p "$scratch/$(dirname "$1")"
	printf '%s\n' "${@:2}" >"$scratch/$1"
}

check_here()
{
	"$ctl" policy check --root="$scratch" "$@"
}

# shows TENANT MAXIMUM CGROUP [FILE]: with this example, or with all examples.
shows()
{
	local directory=$examples
	if [ -n "${4-}" ]; then
		directory=$scratch/one
		rm -rf "$directory"
		mkdir "$directory"
		cp "$examples/$4" "$directory"
	fi
	json "it['tenant'] == r'$1' and it['tenant_by'] == 'policy' and value('MaxEvents', r'$1') == '$2'" \
		"$ctl" policy show --json --root= --policy="$directory" "$3"
}

# --- check ---
check 'policy --help helps' says 'Usage: userevctl policy' "$ctl" policy --help
check 'without any files nothing is wrong' exits 0 check_here
put etc/userevd/policy.d/10-a.conf '[/a]' 'MaxEvents=5'
put usr/lib/userevd/policy.d/10-a.conf '[/a]' 'MaxEvents=many'
check 'good files are good' exits 0 check_here
check '… and counted, but not those that are hidden' says '1 file, 1 section of cgroups, 0 declared events: no error, 0 warnings.' check_here
put etc/userevd/policy.d/20-b.conf '[/a]' 'MaxEvents=many' 'MaxEvent=5'
check 'an error is exit status 1' exits 1 check_here
check '… with file, line, key and advice' \
	says "^$scratch/etc/userevd/policy.d/20-b.conf:2: MaxEvents=many: not a number; give 0 to 65535, or infinity" check_here
check '… beside a warning with a suggestion' \
	says "20-b.conf:3: warning: MaxEvent=: there is no such key; did you mean MaxEvents=?" check_here
check '… and a sum' says '1 error, 1 warning.' check_here
check 'as JSON' json 'it["good"] is False and [(p["severity"], p["line"], p["key"]) for p in it["problems"]] ==
	[("error", 2, "MaxEvents"), ("warning", 3, "MaxEvent")] and it["problems"][0]["file"].endswith("20-b.conf")' check_here --json
check 'no colours in a pipe' says_not $'\e' check_here
check 'colours with --color=always' says $'\e[' check_here --color=always
ln -sf /dev/null "$scratch/etc/userevd/policy.d/20-b.conf"
check 'a mask takes it away' exits 0 check_here
put warned.conf '[/a]' 'Nothing=5'
check 'warnings are no failure' exits 0 "$ctl" policy check "$scratch/warned.conf"
check 'files can be checked alone' says '1 file, 1 section of cgroups, 0 declared events: no error, 1 warning.' "$ctl" policy check "$scratch/warned.conf"
check 'a missing file is an error' says 'nowhere.conf: cannot be read: No such file or directory' \
	"$ctl" policy check "$scratch/nowhere.conf"
check 'unknown keys are errors with --strict' exits 1 "$ctl" policy check --strict "$scratch/warned.conf"
check '… and are counted as errors' says '1 error, 0 warnings.' "$ctl" policy check --strict "$scratch/warned.conf"
put both.conf '[/a]' 'MaxEvents=5' 'ReserveEvents=6'
check 'other warnings stay warnings with --strict' says 'no error, 1 warning.' "$ctl" policy check --strict "$scratch/both.conf"
put reserves.conf '[Daemon]' 'KernelMargin=100' '[/a]' 'ReserveEvents=500' '[/b]' 'ReserveEvents=400'
check 'reserves that fit' exits 0 "$ctl" policy check --capacity=1000 "$scratch/reserves.conf"
check 'reserves that do not fit beside the margin are an error' \
	says 'reserves.conf:6: [/b]: the reserves of all sections add up to 900 events, and there is room for 899; take away 1' \
	"$ctl" policy check --capacity=999 "$scratch/reserves.conf"
check '… with exit status 1' exits 1 "$ctl" policy check --capacity=999 "$scratch/reserves.conf"
check 'a wrong verb is exit status 2' exits 2 "$ctl" policy chekc
check 'no verb is exit status 2' exits 2 "$ctl" policy
check 'too much to explain is exit status 2' exits 2 "$ctl" policy explain /a 'a u32 b' more
check 'no path is exit status 2' exits 2 "$ctl" policy show system.slice

put owners.conf '[/a]' 'OwnNames=otlp_*' '[/b]' 'MaxEvents=5' 'OwnNames=app *_metrics'
check 'two owners of a name are an error' exits 1 "$ctl" policy check "$scratch/owners.conf"
check '… with both of them' says "owners.conf:5: OwnNames=*_metrics: some of these names are already owned by [/a], with OwnNames=otlp_* in $scratch/owners.conf:2" \
	"$ctl" policy check "$scratch/owners.conf"

# --- sections without a cgroup ---
put here/10-a.conf '[/]' 'MaxEvents=5' "[/nobody-is-here-$$/*]" 'MaxEvents=5' '[/**]' 'KeepFor=5' '[Event x]' 'Fields=u32 x'
check 'a section that matches no cgroup of this machine is a warning' \
	says "$scratch/here/10-a.conf:3: warning: [/nobody-is-here-$$/*]: no cgroup matches that here now" \
	"$ctl" policy check --policy="$scratch/here"
check '… and the only one' says 'no error, 1 warning.' "$ctl" policy check --strict --policy="$scratch/here"
check '… as JSON, too' json 'it["good"] and [(p["severity"], p["line"]) for p in it["problems"]] == [("warning", 3)]' \
	"$ctl" policy check --json --policy="$scratch/here"
check 'files of another machine are not compared with this one' says 'no error, 0 warnings.' \
	"$ctl" policy check --root= --policy="$scratch/here"
check '… nor are files that are given by name' says 'no error, 0 warnings.' "$ctl" policy check "$scratch/here/10-a.conf"

# --- show and explain ---
put p/10-a.conf '[Daemon]' 'DefaultMaxEvents=77' '[/s]' 'MaxEvents=100' 'DenyEvents=host_*' '[/s/*]' 'Tenant=yes' 'NamePrefix=s_' \
	'[/s/picky]' 'AllowEvents=s_a_* s_b' 'MaxEvents=9' 'AllowMultiFormat=no'
show=("$ctl" policy show --root= --policy="$scratch/p")
explain=("$ctl" policy explain --root= --policy="$scratch/p")
check 'show names the tenant and the line that makes it one' \
	says "^/s/picky	Tenant	yes	$scratch/p/10-a.conf:7	/s/*" "${show[@]}" /s/picky/inside
check '… the limits of all levels' says "^/s	MaxEvents	100	$scratch/p/10-a.conf:4	/s" "${show[@]}" /s/picky/inside
check '… inherited values' says "^/s/picky	DenyEvents	host_*	$scratch/p/10-a.conf:5	/s" "${show[@]}" /s/picky
check '… and defaults' says '^/s/picky	Stream	auto	default	-' "${show[@]}" /s/picky
check 'a tenant without a limit has that of [Daemon]' \
	says "^/s/x	DefaultMaxEvents	77	$scratch/p/10-a.conf:2	Daemon" "${show[@]}" /s/x
check 'one with a limit has not' says_not DefaultMaxEvents "${show[@]}" /s/picky
check 'without a cgroup it is [Daemon]' says "^-	DefaultMaxEvents	77	$scratch/p/10-a.conf:2	Daemon" "${show[@]}"
check 'as JSON' json 'it["tenant"] == "/s/picky" and value("MaxEvents", "/s") == "100" and value("AllowEvents") == "s_a_* s_b" and
	[v["line"] for v in it["values"] if v["key"] == "NamePrefix"] == [8]' "${show[@]}" --json /s/picky/inside
check 'without Tenant= the second level is the tenant' json 'it["tenant"] == "/x/y" and it["tenant_by"] == "level" and
	it["tenant_sure"] is False' "${show[@]}" --json /x/y/z
check '… with a note that this is not certain' says 'Not all of these cgroups are here' "${show[@]}" /x/y/z
check 'our own cgroup is here' json 'it["tenant_sure"]' "$ctl" policy show --policy="$scratch/p" --json /
check 'an event that is allowed' says '^allowed: s_b, as far as names and flags go; no daemon says what is left' "${explain[@]}" /s/picky 'b u32 n'
check '… is exit status 0' exits 0 "${explain[@]}" /s/picky 'b u32 n'
check '… and the rule is shown' says "^/s/picky	AllowEvents	s_a_*	$scratch/p/10-a.conf:10	/s/picky" "${explain[@]}" /s/picky 'a_x u32 n'
mkdir "$scratch/native" && printf '[/**]\nNative=yes\nNamePrefix=x_\n' >"$scratch/native/a.conf"
native=("$ctl" policy explain --root= --policy="$scratch/native")
check 'a program that registers by itself has to have the prefix' says 'by the program itself (Native=): refused: the name has to begin with x_' \
	"${native[@]}" /a/b 'foo u32 n'
check '… and may then' says 'by the program itself (Native=): allowed' "${native[@]}" /a/b 'x_foo u32 n'
check '… also as JSON' json 'it["allowed"] and not it["native_allowed"]' "${native[@]}" --json /a/b 'foo u32 n'
check 'one that is not allowed' says "^refused: nothing in AllowEvents= matches 's_c' ($scratch/p/10-a.conf:10)" "${explain[@]}" /s/picky 'c u32 n'
check '… is exit status 1' exits 1 "${explain[@]}" /s/picky 'c u32 n'
check 'names are compared with their prefix' says '^allowed: s_host_x, as far as names and flags go; no daemon says what is left' "${explain[@]}" /s/x 'host_x u32 n'
check 'and denied without a prefix' says "^refused: DenyEvents=host_* denies 'host_x' ($scratch/p/10-a.conf:5)" \
	"${explain[@]}" /s 'host_x u32 n'
check 'a persistent one is refused by default' says '^refused: AllowPersist=no; register it without that flag (default)' \
	"${explain[@]}" --persist /s/x 'a u32 n'
check 'a multi-format one where a section says so' says 'refused: AllowMultiFormat=no; register it without that flag' \
	"${explain[@]}" --multi-format /s/picky 'b u32 n'
check 'a malformed description' says "refused: field 1: 'long' has no fixed size" "${explain[@]}" /s/x 'a long n'
check '… as JSON' json 'it["allowed"] is False and it["refusal"] == "bad-description"' "${explain[@]}" --json /s/x 'a long n'
check 'a refusal as JSON' json 'it["event"] == "s_c" and it["refusal"] == "not-permitted" and value("AllowEvents") == "s_a_* s_b"' \
	"${explain[@]}" --json /s/picky 'c u32 n'
put p/20-b.conf '[/s]' 'MaxEvents=many'
check 'files with an error explain nothing' exits 1 "${explain[@]}" /s/picky 'b u32 n'
check '… but print the error' says '20-b.conf:2: MaxEvents=many' "${show[@]}" /s

# --- the examples ---
for file in "$examples"/*.conf; do
	check "$(basename "$file") has neither error nor warning" says 'no error, 0 warnings.' "$ctl" policy check --strict "$file"
done
check 'so have all of them together' says 'no error, 0 warnings.' "$ctl" policy check --strict --root= --policy=$examples

# The event of OpenTelemetry's exporters, from their public sources.
otlp='otlp_metrics u32 protocol;char[8] version;__rel_loc u8[] buffer'
own=("$ctl" policy explain --root= --policy=$examples)
check 'OpenTelemetry: a service may register its metrics' exits 0 "${own[@]}" /system.slice/shop.service "$otlp"
check '… and a container, too' exits 0 "${own[@]}" /docker/$id "$otlp"
check "… of which the fields are declared as the exporters' are" json \
	'value("Fields", "Event otlp_metrics") == "u32 protocol; char[8] version; __rel_loc u8[] buffer"' \
	"$ctl" policy show --json --root= --policy=$examples
check 'OpenTelemetry: a service may log under its name' says 'allowed: shop_L2K1' "${own[@]}" /system.slice/shop.service 'shop_L2K1 u8 n'
check '… and the line that reserves the name is shown' says "/system.slice/shop.service	OwnNames	shop_L[1-5]K*	$examples/60-opentelemetry.conf:" \
	"${own[@]}" /system.slice/shop.service 'shop_L2K1 u8 n'
check '… and others may not' says "refused: the policy keeps the name 'shop_L5K1Gshop' for others ($examples/60-opentelemetry.conf:" \
	"${own[@]}" /docker/$id 'shop_L5K1Gshop u8 n'
check '… as JSON, with the owner' json 'it["refusal"] == "not-permitted" and
	[v["section"] for v in it["values"] if v["key"] == "OwnNames"] == ["/system.slice/shop.service"]' \
	"${own[@]}" --json /docker/$id 'shop_L5K1Gshop u8 n'
check 'show has the names that a cgroup owns' json 'value("OwnNames", it["tenant"]) == "shop_L[1-5]K*"' \
	"$ctl" policy show --json --root= --policy=$examples /system.slice/shop.service
check '… and no others' json 'value("OwnNames") is None' "$ctl" policy show --json --root= --policy=$examples /docker/$id
check '… without a cgroup all' json 'value("OwnNames", "/system.slice/shop.service") == "shop_L[1-5]K*"' \
	"$ctl" policy show --json --root= --policy=$examples

# A denial for the whole machine is added to those of the examples.
put all/10-all.conf '[/]' 'DenyEvents=sched_*'
cp "$examples"/20-containers.conf "$scratch/all"
all=(--root= --policy="$scratch/all")
for cgroup in /system.slice/docker-$id.scope /docker/$id; do
	check "$cgroup: a denial for the machine stays in force" \
		says "^refused: DenyEvents=sched_* denies 'sched_switch' ($scratch/all/10-all.conf:2)" \
		"$ctl" policy explain "${all[@]}" $cgroup 'sched_switch u32 n'
	check '… beside that of the example' exits 1 "$ctl" policy explain "${all[@]}" $cgroup 'host_up u32 n'
	check '… and show has both lists' json '[v["value"] for v in it["values"] if v["key"] == "DenyEvents"] ==
		["sched_*", "host_* systemd_*"]' "$ctl" policy show --json "${all[@]}" $cgroup
done

# The examples of the man page are files, too.
sed -n '/^\.Bd/,/^\.Ed/ { /^\./d; p }' daemon/policy/userevd.conf.5 | sed '/^\/etc/,$d' >"$scratch/manual.conf"
check 'the manual has examples' grep -q 'cri-containerd' "$scratch/manual.conf"
check '… which have neither error nor warning' says 'no error, 0 warnings.' "$ctl" policy check --strict "$scratch/manual.conf"

# shows_all TENANT MAXIMUM CGROUP FILE
shows_all()
{
	shows "$1" "$2" "$3" "$4" && shows "$1" "$2" "$3"
}

check 'host: a service' shows_all /system.slice/nginx.service 2000 /system.slice/nginx.service 10-host.conf
check 'host: an instance in its slice' json 'it["tenant"] == "/system.slice/system-getty.slice/getty@tty1.service" and value("DefaultMaxEvents") == "512"' \
	"$ctl" policy show --json --root= --policy="$scratch/one" /system.slice/system-getty.slice/getty@tty1.service
check 'host: a name with escapes' json 'value("MaxEvents", r"/system.slice/system-postgresql\x2dbackup.slice") == "64"' \
	"$ctl" policy show --json --root= --policy="$scratch/one" '/system.slice/system-postgresql\x2dbackup.slice/postgresql-backup@main.service'
check 'host: all sessions of a user' json 'it["tenant"] == "/user.slice/user-1000.slice" and value("MaxEvents", it["tenant"]) == "1000" and
	value("NamePrefix") == "user_"' "$ctl" policy show --json --root= --policy="$scratch/one" /user.slice/user-1000.slice/session-3.scope
check "host: root's have no limit" json 'value("MaxEvents", "/user.slice/user-0.slice") == "infinity" and value("NamePrefix") == "-"' \
	"$ctl" policy show --json --root= --policy="$scratch/one" /user.slice/user-0.slice/session-1.scope
check 'Docker, systemd driver' shows_all /system.slice/docker-$id.scope 500 /system.slice/docker-$id.scope/init 20-containers.conf
check 'Docker, cgroupfs driver' shows_all /docker/$id 500 /docker/$id 20-containers.conf
check 'Docker, with a parent' shows_all /batch.slice/docker-$id.scope 100 /batch.slice/docker-$id.scope 20-containers.conf
check 'LXC' shows_all /lxc.payload.shop 500 /lxc.payload.shop/system.slice 20-containers.conf
check 'Podman' shows_all /machine.slice/libpod-$id.scope 500 /machine.slice/libpod-$id.scope/container 20-containers.conf
user=/user.slice/user-1000.slice/user@1000.service
check 'rootless Podman' shows_all $user/user.slice/libpod-$id.scope 300 $user/user.slice/libpod-$id.scope/container 20-containers.conf
check 'rootless Docker' shows_all $user/user.slice/docker-$id.scope 300 $user/user.slice/docker-$id.scope 20-containers.conf
pods=/kubepods.slice
for class in burstable besteffort; do
	pod=$pods/kubepods-$class.slice/kubepods-$class-pod$uid_.slice
	check "Kubernetes, systemd driver, containerd, $class" \
		shows_all $pod/cri-containerd-$id.scope 500 $pod/cri-containerd-$id.scope 30-kubernetes.conf
	check "Kubernetes, systemd driver, CRI-O, $class" \
		shows_all $pod/crio-$id.scope 500 $pod/crio-$id.scope/container 30-kubernetes.conf
	check "… whose monitor has none" shows_all $pod/crio-conmon-$id.scope 0 $pod/crio-conmon-$id.scope 30-kubernetes.conf
	pod_of_fs=/kubepods/$class/pod$uid
	check "Kubernetes, cgroupfs driver, containerd, $class" shows_all $pod_of_fs/$id 500 $pod_of_fs/$id 30-kubernetes.conf
	check "Kubernetes, cgroupfs driver, CRI-O, $class" shows_all $pod_of_fs/crio-$id 500 $pod_of_fs/crio-$id 30-kubernetes.conf
done
pod=$pods/kubepods-pod$uid_.slice
check 'Kubernetes, systemd driver, containerd, guaranteed' \
	shows_all $pod/cri-containerd-$id.scope 500 $pod/cri-containerd-$id.scope 30-kubernetes.conf
check 'Kubernetes, systemd driver, CRI-O, guaranteed' shows_all $pod/crio-$id.scope 500 $pod/crio-$id.scope 30-kubernetes.conf
check 'Kubernetes, cgroupfs driver, guaranteed' shows_all /kubepods/pod$uid/$id 500 /kubepods/pod$uid/$id 30-kubernetes.conf
kind=/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod$uid_.slice
check 'kind, systemd driver' shows_all $kind/cri-containerd-$id.scope 500 $kind/cri-containerd-$id.scope 30-kubernetes.conf
check 'kind, cgroupfs driver' shows_all /kubelet/kubepods/besteffort/pod$uid/$id 500 /kubelet/kubepods/besteffort/pod$uid/$id 30-kubernetes.conf
check '… where a pod holds its containers' json "value('MaxEvents', '$kind') == '1500'" \
	"$ctl" policy show --json --root= --policy=$examples $kind/cri-containerd-$id.scope
check 'its pod holds it' json "value('MaxEvents', '$pod') == '1500' and value('MaxEvents', '$pods') == '24000' and value('DenyEvents') == 'host_* kubelet_*'" \
	"$ctl" policy show --json --root= --policy=$examples $pod/crio-$id.scope
check 'and the class of its pod does not' json "value('MaxEvents', '$pods/kubepods-burstable.slice') is None" \
	"$ctl" policy show --json --root= --policy=$examples $pods/kubepods-burstable.slice/kubepods-burstable-pod$uid_.slice/crio-$id.scope
check 'guarantees: a cgroup without a section' json 'it["allowed"] and it["event"] == "ci_build_step" and value("MaxEvents") == "50"' \
	"$ctl" policy explain --json --root= --policy=$examples /builds.slice/job-1 'build_step u32 n'
check 'guarantees: a name that is not allowed there' exits 1 "$ctl" policy explain --root= --policy=$examples /builds.slice/job-1 'other u32 n'
check 'guarantees: a reserve' json 'value("ReserveEvents") == "2000"' \
	"$ctl" policy show --json --root= --policy=$examples /system.slice/payment-eu.service
check 'guarantees: events that persist' exits 0 "$ctl" policy explain --persist --root= --policy=$examples /system.slice/agent.service 'agent_up u32 n'

# Cgroups inside a delegated cgroup, with names that match a pattern for the machine's own cgroups.
evil=/user.slice/user-1000.slice/user@1000.service/app.slice/system.slice/nginx.service
check 'cgroups inside a delegated cgroup match no pattern of the machine' \
	json 'value("MaxEvents", it["tenant"]) != "2000"' "$ctl" policy show --json --root= --policy=$examples $evil
check 'and a container inside of a container is the outer one' \
	shows /docker/$id 500 /docker/$id/docker/$id
sum_up
