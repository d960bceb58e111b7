#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Completion of userevctl: every command and option that --help has is offered, their values come from a daemon with one program,
# and hostile names do no harm to the shell.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
. client/userevctl/userevctl.bash-completion
usual_breaks=$' \t\n"\'><=;|&(:'

# complete_line LINE: the offers when Tab is pressed at its end, as readline asks, on a line each.
complete_line()
{
	local COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=${COMP_WORDBREAKS-$usual_breaks} COMPREPLY=()
	_userevctl "${stub-$ctl}" userevctl ''
	[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
}

# offers LINE WORD…: all of these, perhaps others.
offers()
{
	local offered word
	offered=$(complete_line "$1")
	printf 'offered:\n%s\n' "$offered"
	shift
	for word in "$@"; do
		grep -qxF -- "$word" <<<"$offered" || { echo "not: $word" && return 1; }
	done
}

# offers_just LINE WORD…
offers_just()
{
	diff <(complete_line "$1" | sort) <(shift && [ $# -eq 0 ] || printf '%s\n' "$@" | sort)
}

offers_nothing()
{
	offers_just "$1"
}

# Out of the overview, where a row begins with two blanks, and may have two commands.
commands()
{
	"$ctl" --help | sed -n 's/^  \([a-z]*\(, [a-z]*\)*\) .*/\1/p' | tr -d ' ' | tr , '\n'
}

# options [COMMAND]: however they are written in the help.
options()
{
	"$ctl" ${1+"$1"} --help | grep -E '^ +(-[a-z], )?--[a-z]' | grep -oE -- '--[a-z][a-z-]*=?'
}

all_commands()
{
	[ "$(commands | wc -l)" -gt 10 ] && diff <(commands | sort) <(complete_line 'userevctl ' | sort)
}

# all_options [COMMAND]: those for all commands are offered behind each of them.
all_options()
{
	diff <({ options; [ $# -eq 0 ] || options "$1"; } | sort -u) <(complete_line "userevctl ${1+$1 }--" | sort)
}

# With readline, in a bash of its own.
bash_completes()
{
	python3 - "$B" <<-'PYTHON'
		import os, pty, select, sys, time
		pid, fd = pty.fork()
		if pid == 0:
		    os.environ.update(PATH=sys.argv[1] + ":" + os.environ["PATH"], PS1="$ ", TERM="dumb", COLUMNS="200")
		    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
		os.write(fd, b". client/userevctl/userevctl.bash-completion\nuserevctl eve\tdemo_r\t| sed 's/^/SEEN /'; exit\n")
		seen, deadline = b"", time.monotonic() + 60
		while time.monotonic() < deadline and select.select([fd], [], [], 1)[0] or time.monotonic() < deadline and \
		        os.waitpid(pid, os.WNOHANG)[0] == 0:
		    try:
		        seen += os.read(fd, 4096)
		    except OSError:
		        break
		print(seen.decode())
		sys.exit(b"SEEN demo_request" not in seen)
	PYTHON
}

# A program whose events and tenants have names that a careless completion would execute.
make_stub()
{
	cat >"$scratch/stub" <<-STUB
		#!/bin/bash
		case " \$* " in
		*' events '* | *' tenants '*)
			printf '%s\t%s\n' '\$(touch $scratch/executed)' '/a/\`touch $scratch/executed\`' 'x;touch' '/a/*' '~root' '/a b' good /good
			;;
		*) exec $ctl "\$@" ;;
		esac
	STUB
	chmod 755 "$scratch/stub"
}

hostile_names_do_nothing()
{
	local stub=$scratch/stub
	offers_just 'userevctl enable ' good && offers_just 'userevctl tenants ' good /good && offers 'userevctl policy show ' /good && [ ! -e "$scratch/executed" ]
}

# The sockets that the line names are those that are asked.
asks_the_named_socket()
{
	USEREV_CONTROL_SOCKET=$scratch/nobody offers_just "userevctl --control-socket=$scratch/control events demo" demo_request &&
		USEREV_CONTROL_SOCKET=$scratch/nobody offers_just "userevctl --control-socket $scratch/control events demo" demo_request &&
		USEREV_CONTROL_SOCKET=$scratch/nobody offers_nothing 'userevctl events '
}

without_breaks()
{
	local COMP_WORDBREAKS=$' \t\n'
	offers_just 'userevctl --color=al' --color=always
}

check 'every command' all_commands
check 'every option for all commands' all_options
for command in $(commands); do
	check "every option of $command" all_options "$command"
done
check 'a command that has begun' offers_just 'userevctl ten' tenants
check '… behind an option' offers_just 'userevctl --json ten' tenants
check '… behind one with a value of its own' offers_just 'userevctl --width 80 ten' tenants
check '… but not twice' offers_nothing 'userevctl status ten'
check 'a command for help' offers_just 'userevctl help ta' tail
check 'an option that has begun' offers_just 'userevctl tail --no' --no-follow
check '… that takes a value' offers_just 'userevctl tail --cou' --count=
check 'the colours' offers_just 'userevctl --color=' always auto never
check '… of which one has begun' offers_just 'userevctl --color=al' always
check '… in a word of its own' offers_just 'userevctl --color al' always
check '… where = ends no word' without_breaks
check 'a file of report' offers 'userevctl report tests/chec' tests/checks.sh
check '… and of record' offers 'userevctl record --output=tests/chec' tests/checks.sh
check '… behind one letter' offers 'userevctl record -o tests/chec' tests/checks.sh
check 'a command of record' offers 'userevctl record some -- ls tests/chec' tests/checks.sh
check 'the orders of tenants' offers_just 'userevctl tenants --sort=' events connections refusals lost throttled name
check 'a number has no completion' offers_nothing 'userevctl tail --count='
touch "$scratch/one.conf"
mkdir "$scratch/one.d"
check 'a file for an option' offers_just "userevctl metrics --output=$scratch/one" "$scratch/one.conf" "$scratch/one.d"
check 'a directory for an option' offers_just "userevctl policy --root=$scratch/one" "$scratch/one.d"
check 'the verbs of policy' offers_just 'userevctl policy ' check show explain
check '… options or not' offers_just 'userevctl policy --capacity=5 sh' show
check 'a policy file' offers_just "userevctl policy check $scratch/one.c" "$scratch/one.conf"
check 'the verbs of session' offers_just 'userevctl session s' show snapshot start stop
check '… all of them' offers_just 'userevctl session ' check create destroy list load show snapshot start stop
check '… the modes' offers_just 'userevctl session create some --mode=' flight-recorder record
check 'a new session has no completion' offers_nothing 'userevctl session create '
check 'a program to run' offers 'userevctl run sle' sleep
check '… behind --' offers 'userevctl run -- sle' sleep
check '… whose options are its own' offers_nothing 'userevctl run sleep --jso'
check '… and files' offers_just "userevctl run cat $scratch/one.c" "$scratch/one.conf"
check 'without a daemon there are no events' offers_nothing 'userevctl events '

mkdir "$scratch/policy"
start_daemon --policy="$scratch/policy"
start_program demo 300
tenant=$("$ctl" tenants | cut -f2)

for command in events enable disable tail; do
	check "events for $command" offers_just "userevctl $command demo" demo_request
done
check 'a second event' offers_just 'userevctl enable first demo_' demo_request
check 'events behind options' offers_just 'userevctl tail --past --count 5 demo_' demo_request
check 'events for an option' offers_just 'userevctl run --events=demo' demo_request
check '… and for a session' offers_just 'userevctl session create some --event=demo' demo_request
check 'another name has no events' offers_nothing 'userevctl events nothing'
check 'there is a tenant' test -n "$tenant"
check 'tenants by their paths' offers 'userevctl tenants ' "$tenant"
check 'a cgroup for the policy' offers 'userevctl policy show ' "$tenant"
check '… just one' offers_nothing "userevctl policy show $tenant "
check 'emit has no completion' offers_nothing 'userevctl emit '
check 'the socket of the line is asked' asks_the_named_socket
check 'Tab in a shell does it' bash_completes
make_stub
check 'hostile names do nothing, and are not offered' hostile_names_do_nothing
sum_up
